package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// fuzz checks the decoder of one bucket's records, beginning with those of a small ledger whose key
// fits.
func fuzz[T any](f *testing.F, bucket string, fits func(key []byte) bool, decode func([]byte) (T, error), encode func(T) []byte, items func(T) int) {
	records := fixture.Records(f, "../../testdata/golden/format-v7.txt")
	fixture.Fuzz(f, fixture.Payloads(f, records, bucket, fits), decode, encode, items, errs.ErrCorrupt)
}

func none[T any](T) int { return 0 }

func FuzzDecodeStranger(f *testing.F) {
	fuzz(f, BucketStrangers, nil, DecodeStranger, Stranger.Encode, none)
}

func FuzzDecodeChain(f *testing.F) {
	fuzz(f, BucketChains, nil, DecodeChain, Chain.Encode, func(c Chain) int {
		items := len(c.Levels)
		for _, l := range c.Levels {
			items += len(l.Holders)
		}
		return items
	})
}

func FuzzDecodeAnswers(f *testing.F) {
	fuzz(f, BucketAnswers, nil, DecodeAnswers, Answers.Encode, func(a Answers) int { return len(a) })
}

func FuzzDecodeObject(f *testing.F) {
	isObject := func(key []byte) bool { return bytes.IndexByte(key, 0) == len(key)-1 }
	fuzz(f, BucketObjects, isObject, DecodeObject, Object.Encode, func(o Object) int { return len(o.Held) })
}

func FuzzDecodeBuyer(f *testing.F) {
	isNumber := func(key []byte) bool { return key[0] == 'q' }
	fuzz(f, BucketBuyers, isNumber, DecodeBuyer, Buyer.Encode, none)
}

func FuzzDecodeSale(f *testing.F) {
	fuzz(f, BucketSales, nil, DecodeSale, Sale.Encode, none)
}

func FuzzDecodeRequest(f *testing.F) {
	fuzz(f, BucketRequests, nil, DecodeRequest, Request.Encode, func(r Request) int { return len(r.Settled) })
}

func FuzzDecodeCounters(f *testing.F) {
	isCounters := func(key []byte) bool { return string(key) == KeyCounters }
	fuzz(f, BucketMeta, isCounters, DecodeCounters, Counters.Encode, none)
}

func FuzzDecodeTally(f *testing.F) {
	fuzz(f, BucketTallies, nil, DecodeTally, Tally.Encode, none)
}

func FuzzDecodeTallyKey(f *testing.F) {
	fixture.Fuzz(f, [][]byte{TallyKey{Question: 1, Epsilon: privacy.MaxEpsilon(), Value: 1<<32 - 1}.Bytes()}, DecodeTallyKey, TallyKey.Bytes, none, errs.ErrCorrupt)
}

func FuzzDecodeNoise(f *testing.F) {
	seeds := [][]byte{}
	for _, name := range []string{"2026", "", "a longer name of a key"} {
		e := &wire.Encoder{}
		(&event.NoiseKeySet{Number: 7, Name: name}).Fields(wire.Writing(e))
		seeds = append(seeds, e.Buf)
	}
	encode := func(k event.NoiseKeySet) []byte {
		e := &wire.Encoder{}
		k.Fields(wire.Writing(e))
		return e.Buf
	}
	fixture.Fuzz(f, seeds, wire.Decode[event.NoiseKeySet], encode, none, errs.ErrCorrupt)
}

// Values that no ledger writes are refused, even if they are well encoded.
func TestDecoders_ImpossibleValues_AreCorrupt(t *testing.T) {
	for name, payload := range map[string][]byte{
		"response 2²⁰":  {4, 0, 0, 0, 0, 0, 0, 1, 1, 0x80, 0x80, 0x40, 5, 0},
		"ε above 1,000": {4, 0, 0, 0, 0, 0, 0, 1, 0x81, 0xa0, 0x94, 0xa5, 0x8d, 0x1d, 0, 5, 0},
		"policy 2³²":    {4, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0, 0, 0, 0, 0},
		"noise key 2³²": {4, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0, 0, 0, 0},
		"buyer 2³²":     {4, 0, 0, 0, 0, 0, 0, 1, 1, 0, 5, 1, 0x80, 0x80, 0x80, 0x80, 0x10, 0},
	} {
		if c, err := DecodeChain(payload); !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("%s: got %+v, %v", name, c, err)
		}
	}
	// The nearest ones that can be, so that the test is about what it says.
	for _, payload := range [][]byte{
		{4, 0, 0, 0, 0, 0, 0, 1, 1, 0xff, 0xff, 0x3f, 5, 0}, {4, 0, 0, 0, 0, 0, 0, 1, 0x80, 0xa0, 0x94, 0xa5, 0x8d, 0x1d, 0, 5, 0},
		{4, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0, 0}, {4, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0},
		{4, 0, 0, 0, 0, 0, 0, 1, 1, 0, 5, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0},
	} {
		if _, err := DecodeChain(payload); err != nil {
			t.Errorf("%x: %v", payload, err)
		}
	}
	for score, want := range map[int64]error{0: nil, 1 << 61: nil, -1 << 61: nil, 1<<61 + 1: errs.ErrCorrupt, -1<<61 - 1: errs.ErrCorrupt, math.MaxInt64: errs.ErrCorrupt, math.MinInt64: errs.ErrCorrupt} {
		recorded := Answers{{Epsilon: nano(t, 1), Result: event.Result{Scored: true, Score: score}, Event: 1, Began: 1, Objects: 1}}
		if back, err := DecodeAnswers(recorded.Encode()); !errors.Is(err, want) || err == nil && !slices.Equal(back, recorded) {
			t.Errorf("a score of %d: %+v, %v", score, back, err)
		}
	}
	statuses := func(status byte) error {
		_, err := DecodeSale([]byte{status, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 0, 9, 0, 0, 0})
		return err
	}
	for status := range byte(6) {
		if err := statuses(status); (err == nil) != (status >= 1 && status <= 3) || err != nil && !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("a sale with status %d: %v", status, err)
		}
	}
}

func TestDecodeRequest_WithoutSettledEvent_IsCorrupt(t *testing.T) {
	_, err := DecodeRequest(Request{}.Encode())
	wantErr(t, err, errs.ErrCorrupt)
}

// No decoder allocates memory for more items than the record has bytes for.
func TestDecoders_HugeLength_AllocateLittle(t *testing.T) {
	for name, decoder := range map[string]struct {
		head   []byte // up to the length
		decode func([]byte) error
	}{
		"holders": {[]byte{1, 0, 0, 0, 0, 0, 1, 1, 0, 5}, func(p []byte) error { _, err := DecodeChain(p); return err }},
		"holds":   {[]byte{1, 0, 0, 0, 0, 0, 0, 0}, func(p []byte) error { _, err := DecodeObject(p); return err }},
		"buyer":   {nil, func(p []byte) error { _, err := DecodeBuyer(p); return err }},
		"chain":   {[]byte{1, 0, 0, 0, 0, 0}, func(p []byte) error { _, err := DecodeChain(p); return err }},
		"answers": {nil, func(p []byte) error { _, err := DecodeAnswers(p); return err }},
		"request": {nil, func(p []byte) error { _, err := DecodeRequest(p); return err }},
	} {
		for _, length := range []uint64{100, 1<<20 - 1, 1 << 31, 1 << 62, 1<<64 - 1} {
			payload := binary.AppendUvarint(slices.Clone(decoder.head), length)
			var err error
			allocated := fixture.Allocated(func() { err = decoder.decode(payload) })
			wantErr(t, err, errs.ErrCorrupt)
			if allocated > 1<<16 {
				t.Errorf("%s: %d bytes are allocated for a claim of %d items", name, allocated, length)
			}
		}
	}
}

func TestDecoders_RandomRecords_AllocateInProportion(t *testing.T) {
	decoders := map[string]func([]byte){
		"counters":  func(b []byte) { _, _ = DecodeCounters(b) },
		"object":    func(b []byte) { _, _ = DecodeObject(b) },
		"stranger":  func(b []byte) { _, _ = DecodeStranger(b) },
		"chain":     func(b []byte) { _, _ = DecodeChain(b) },
		"answers":   func(b []byte) { _, _ = DecodeAnswers(b) },
		"request":   func(b []byte) { _, _ = DecodeRequest(b) },
		"buyer":     func(b []byte) { _, _ = DecodeBuyer(b) },
		"sale":      func(b []byte) { _, _ = DecodeSale(b) },
		"tally":     func(b []byte) { _, _ = DecodeTally(b) },
		"noise key": func(b []byte) { _, _ = wire.Decode[event.NoiseKeySet](b) },
	}
	all := fixture.FalseLengths()
	for name, decode := range decoders {
		t.Run(name, func(t *testing.T) {
			for _, claim := range all {
				fixture.WantBounded(t, fmt.Sprintf("%x", claim), claim, 64, decode)
				if t.Failed() {
					return
				}
			}
		})
	}
}
