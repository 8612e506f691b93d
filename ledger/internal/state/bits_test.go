package state

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// A malformed record of bits is refused, and a valid one has a single encoding.
func TestDecodeChain_MalformedBits_IsCorrupt(t *testing.T) {
	levelOf := func(response ...byte) []byte {
		return append(append([]byte{4, 0, 0, 0, 0, 0, 0, 1, 1}, response...), 5, 0)
	}
	count := func(n uint64) []byte { return binary.AppendUvarint(nil, wire.MaxValues+n) }
	eight, nine := count(8), count(9)
	for name, response := range map[string][]byte{
		"no bits":                  count(0),
		"no bits, and a byte":      append(count(0), 0),
		"a bit beyond the last":    append(nine, 0xff, 0x02),
		"bits beyond the last":     append(nine, 0xff, 0xff),
		"only a bit beyond":        append(count(1), 0x02),
		"fewer bytes":              append(nine, 0xff)[:len(nine)+1],
		"more than there may be":   append(count(event.MaxUnaryValues+1), make([]byte, event.MaxUnaryValues/8+1)...),
		"as many as values may be": append(count((1 << 20)), make([]byte, wire.MaxValues/8)...),
		"a count of 2⁶⁴−1":         binary.AppendUvarint(nil, 1<<64-1),
		"a count of 2⁶³":           binary.AppendUvarint(nil, 1<<63),
		"a count of many bytes":    append(append(slices.Clone(eight[:len(eight)-1]), eight[len(eight)-1]|0x80, 0), 0xff),
	} {
		if c, err := DecodeChain(levelOf(response...)); !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("%s: got %+v, %v", name, c, err)
		}
		hidden := append([]byte{1, 'a', 0, 0, 0, 1, 1}, response...)
		if ev, err := event.DecodeEntry(1, released(append(hidden, 1))); !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("%s released: got %+v, %v", name, ev.Change, err)
		}
	}
	sound := append([]byte{1, 'a', 0, 0, 0, 1, 1}, append(eight, 0xff, 1)...)
	if _, err := event.DecodeEntry(1, released(sound)); err != nil { // so that the others are about what they say
		t.Error(err)
	}
	for name, response := range map[string][]byte{
		"8 bits":                append(eight, 0xff),
		"9 bits":                append(nine, 0xff, 0x01),
		"1 bit":                 append(count(1), 0x01),
		"as many as may be":     append(count(event.MaxUnaryValues), make([]byte, event.MaxUnaryValues/8)...),
		"the last of so many":   append(count(event.MaxUnaryValues-1), append(make([]byte, event.MaxUnaryValues/8-1), 0x40)...),
		"the highest of values": {0xff, 0xff, 0x3f},
	} {
		c, err := DecodeChain(levelOf(response...))
		if err != nil || !slices.Equal(c.Encode(), levelOf(response...)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A query's answer is never bits.
	if a, err := DecodeAnswers(append(append([]byte{1, 1}, append(eight, 0xff)...), 5, 1)); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("answers of bits: got %+v, %v", a, err)
	}
}

// The decoder allocates no memory for bits that the record does not have.
func TestDecodeChain_HugeBitCount_AllocatesLittle(t *testing.T) {
	for _, n := range []uint64{1000, event.MaxUnaryValues, event.MaxUnaryValues + 1, 1 << 40} {
		payload := binary.AppendUvarint([]byte{4, 0, 0, 0, 0, 1, 1}, wire.MaxValues+n)
		var err error
		used := uint64(math.MaxUint64)
		for range 20 { // others may allocate something at the same time, but not always
			used = min(used, fixture.Allocated(func() { _, err = DecodeChain(payload) }))
		}
		if used > 1<<12 {
			t.Errorf("%d bytes are allocated for a claim of %d bits", used, n)
		}
		wantErr(t, err, errs.ErrCorrupt)
	}
}

// released is the record of a response with these hidden bytes after the salt.
func released(hidden []byte) []byte {
	const public, salt, hash = 10, 16, 32 // bytes
	e := &wire.Encoder{}
	e.U8(1) // whole
	e.Uvarint(0)
	e.Uvarint(public)
	e.U8(event.Version)
	e.U8(uint8(event.KindReleased))
	e.U64(0)
	e.Text(string(append(make([]byte, salt), hidden...)))
	e.Raw(make([]byte, hash))
	return e.Buf
}
