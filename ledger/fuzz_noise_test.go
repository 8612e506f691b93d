package ledger

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

func FuzzDecodeNoise(f *testing.F) {
	seeds := [][]byte{}
	for _, name := range []string{"2026", "", "a longer name of a key"} {
		e := &wire.Encoder{}
		(&event.NoiseKeySet{Number: 7, Name: name}).Encode(e)
		seeds = append(seeds, e.Buf)
	}
	encode := func(k event.NoiseKeySet) []byte {
		e := &wire.Encoder{}
		k.Encode(e)
		return e.Buf
	}
	fuzzFrom(f, seeds, state.DecodeNoiseKey, encode, none)
}

// FuzzHex holds that whatever is read is written again, in lower case.
func FuzzHex(f *testing.F) {
	for _, text := range []string{"", "00", "0", "fF", "FF", "zz", "0x00", " 00"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var h evidence.Hex
		if err := h.UnmarshalText(text); err != nil {
			return
		}
		if again, err := h.MarshalText(); err != nil || string(again) != strings.ToLower(string(text)) {
			t.Errorf("%q is written as %q, %v", text, again, err)
		}
	})
}

// FuzzFact holds that whatever fact is read from JSON is written so that it reads the same.
func FuzzFact(f *testing.F) {
	for _, text := range []string{`{}`, `null`, `{"kind":"released"}`, `{"kind":"settled","key":"a","alone":true}`, `[1]`, `{"kind":"sold","sale":1,"price":-1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var first, second evidence.Fact
		if json.Unmarshal(text, &first) != nil {
			return
		}
		once, err := json.Marshal(first)
		if err != nil {
			return // read, but what no ledger writes
		}
		if err := json.Unmarshal(once, &second); err != nil {
			t.Fatalf("%s is written as %s: %v", text, once, err)
		}
		if again, err := json.Marshal(second); err != nil || string(again) != string(once) {
			t.Errorf("%s is written as %s, and then as %s, %v", text, once, again, err)
		}
	})
}
