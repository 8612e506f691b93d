package state

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/rrchain"
)

// usualRecords are records as a ledger has them.
func usualRecords(t testing.TB) [][]byte {
	t.Helper()
	bound := event.Tag{1, 2, 0x80, 0xff}
	long := NewLevel(nano(t, 1<<39), event.Value{Index: wire.MaxValues - 1}, 1<<62)
	long.Holders = []Holder{{1, 0}, {math.MaxUint32, math.MaxInt64}}
	bits, err := rrchain.NewBits(9, []byte{2, 1})
	must(t, err)
	objects := []Object{
		{Cap: nano(t, 10), Chains: 1, Links: Links{Latest: 3, Events: 1}},
		{Cap: nano(t, 1<<39), Spent: nano(t, 128), Chains: 200, Withdrawn: 1 << 30, Forgotten: 7, Earned: math.MaxInt64, Links: Links{Latest: 1, Events: 2, Settled: 300, Settles: 4}},
		{Cap: nano(t, 10), Held: []uint64{4}},
	}
	chains := []Chain{
		{Enrolled: 1},
		{Enrolled: 300, Policy: 1, Noise: math.MaxUint32, Buyers: 128, Bound: &bound, Answered: nano(t, 5), Levels: []Level{NewLevel(nano(t, 1), event.Value{}, 2), long}},
		{Enrolled: 5, Levels: []Level{NewLevel(nano(t, 1), event.Value{Bits: bits}, 2)}},
	}
	chains = append(chains,
		Chain{Enrolled: 5, Answered: nano(t, 5), Since: 6},
		Chain{Enrolled: 5, Since: 1 << 50, Closed: []ClosedEpoch{{End: 7, Levels: []Level{NewLevel(nano(t, 1), event.Value{}, 2), long}}, {End: 1 << 50, Answered: nano(t, 5), Levels: []Level{}}}, Levels: []Level{NewLevel(nano(t, 1), event.Value{Index: 1}, 1<<50+1)}},
	)
	var all [][]byte
	for i := range objects {
		all = append(all, objects[i].Encode(), chains[i].Encode())
	}
	for _, c := range chains[len(objects):] {
		all = append(all, c.Encode())
	}
	return all
}

// oneForm fails if a record can be decoded and is encoded differently: each content has one
// encoding. It returns as how many types of record the bytes can be decoded.
func oneForm(t *testing.T, payload []byte) (sound int) {
	t.Helper()
	same := func(what string, written []byte, err error) {
		t.Helper()
		if err != nil {
			return
		}
		if sound++; !bytes.Equal(written, payload) {
			t.Fatalf("%x is read as the %s that is written as %x", payload, what, written)
		}
	}
	o, err := DecodeObject(payload)
	same("object", o.Encode(), err)
	page := LevelPage{Page: make([]Level, 8), used: 1}
	for i := range page.Page { // what was there before must not be seen
		page.Page[i] = Level{Event: 9, Holders: []Holder{{9, 9}}}
	}
	c, err := page.decodeChain(payload)
	same("chain", c.Encode(), err)
	if err != nil && page.used != 1 {
		t.Fatalf("%x is no chain, and leaves its levels on the page", payload)
	}
	return sound
}

// Each record that can be decoded has exactly one encoding.
func TestDecoders_EveryRecord_HasOneEncoding(t *testing.T) {
	records, random, sound := usualRecords(t), rand.New(rand.NewPCG(3, 4)), 0
	for i, payload := range records {
		if oneForm(t, payload) == 0 {
			t.Errorf("record %d cannot be read", i)
		}
	}
	const trials = 60_000
	for range trials {
		sound += oneForm(t, fixture.Corrupt(random, bytes.Clone(records[random.IntN(len(records))])))
	}
	if sound < trials/5 || sound > trials*9/10 {
		t.Errorf("%d of %d could be read: the test compares little", sound, trials)
	}
	for _, odd := range fixture.OddPayloads() {
		oneForm(t, odd)
	}
}

func FuzzRecordForms(f *testing.F) {
	for _, payload := range append(usualRecords(f), fixture.OddPayloads()...) {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) { oneForm(t, payload) })
}
