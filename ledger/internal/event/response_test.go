package event

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/rrchain"
)

// Any bytes are either refused as a response, or are its only encoding, also if it is read into the
// memory of another response.
func TestReleased_AnyBytes_IsCanonicalOrRefused(t *testing.T) {
	bits := check.Value(rrchain.NewBits(9, []byte{2, 1}))(t)
	responses := []Released{
		{Object: "ann", Question: 1, Epsilon: nano(t, 1), Response: Response{Value: Value{Index: 1}, Method: MethodRaise}},
		{Object: strings.Repeat("é", 90), Question: 1 << 30, Epsilon: nano(t, 1<<39), Response: Response{Value: Value{Index: 4000}, Method: MethodInsert}},
		{Object: "bob", Question: 1, Epsilon: nano(t, 1), Response: Response{Value: Value{Bits: bits}, Method: MethodDegrade}},
	}
	var records [][]byte
	for i := range responses {
		e := &wire.Encoder{}
		responses[i].Fields(wire.Writing(e))
		records = append(records, e.Buf)
	}
	oneForm := func(payload []byte) bool {
		r := Released{Object: "before", Question: 9, Response: Response{Value: Value{Index: 9}, Method: MethodRaise}}
		d, e := &wire.Decoder{Rest: payload}, &wire.Encoder{}
		if r.Fields(wire.Reading(d)); d.Done() != nil {
			return false
		}
		r.Fields(wire.Writing(e))
		check.Need(t, bytes.Equal(e.Buf, payload), "%x is read as the response that is written as %x", payload, e.Buf)
		return true
	}
	for i, payload := range records {
		check.That(t, oneForm(payload), "record %d cannot be read", i)
	}
	const trials = 60_000
	random, sound := rand.New(rand.NewPCG(3, 4)), 0
	for range trials {
		if oneForm(fixture.Corrupt(random, bytes.Clone(records[random.IntN(len(records))]))) {
			sound++
		}
	}
	check.That(t, sound >= trials/5 && sound <= trials*9/10,
		"%d of %d could be read: the test compares little", sound, trials)
	for _, odd := range fixture.OddPayloads() {
		oneForm(odd)
	}
}
