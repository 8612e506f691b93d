package ledger

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/rrchain"
)

// usualRecords are records as a ledger has them.
func usualRecords(t testing.TB) [][]byte {
	t.Helper()
	bound := event.Tag{1, 2, 0x80, 0xff}
	long := state.NewLevel(nano(t, 1<<39), event.Value{Index: rrchain.MaxValues - 1}, 1<<62)
	long.Buyers = []uint32{1, math.MaxUint32}
	bits, err := rrchain.NewBits(9, 1, 8)
	must(t, err)
	objects := []state.Object{
		{Cap: nano(t, 10), Chains: 1, Links: state.Links{Latest: 3, Events: 1}},
		{Cap: nano(t, 1<<39), Spent: nano(t, 128), Chains: 200, Withdrawn: 1 << 30, Forgotten: 7, Earned: math.MaxInt64, Links: state.Links{Latest: 1, Events: 2, Settled: 300, Settles: 4}},
		{Cap: nano(t, 10), Held: []uint64{4}},
	}
	chains := []state.Chain{
		{Enrolled: 1},
		{Enrolled: 300, Policy: 1, Noise: math.MaxUint32, Buyers: 128, Bound: &bound, Answered: nano(t, 5), Levels: []state.Level{state.NewLevel(nano(t, 1), event.Value{}, 2), long}},
		{Enrolled: 5, Levels: []state.Level{state.NewLevel(nano(t, 1), event.Value{Bits: bits}, 2)}},
	}
	chains = append(chains,
		state.Chain{Enrolled: 5, Answered: nano(t, 5), Since: 6},
		state.Chain{Enrolled: 5, Since: 1 << 50, Closed: []state.ClosedEpoch{{End: 7, Levels: []state.Level{state.NewLevel(nano(t, 1), event.Value{}, 2), long}}, {End: 1 << 50, Answered: nano(t, 5), Levels: []state.Level{}}}, Levels: []state.Level{state.NewLevel(nano(t, 1), event.Value{Index: 1}, 1<<50+1)}},
	)
	responses := []event.Released{
		{Object: "ann", Question: 1, Epsilon: nano(t, 1), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}},
		{Object: strings.Repeat("é", 90), Question: 1 << 30, Epsilon: nano(t, 1<<39), Response: event.Response{Value: event.Value{Index: 4000}, Method: event.MethodInsert}},
		{Object: "bob", Question: 1, Epsilon: nano(t, 1), Response: event.Response{Value: event.Value{Bits: bits}, Method: event.MethodDegrade}},
	}
	var all [][]byte
	for i := range 3 {
		e := &wire.Encoder{}
		responses[i].Encode(e)
		all = append(all, objects[i].Encode(), chains[i].Encode(), e.Buf)
	}
	for _, c := range chains[len(objects):] {
		all = append(all, c.Encode())
	}
	return all
}

// oneForm fails if a record can be read, and is written otherwise: each content has one form, to the byte. It tells as how many
// sorts of record the bytes can be read.
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
	o, err := state.DecodeObject(payload)
	same("object", o.Encode(), err)
	page := state.LevelPage{Page: make([]state.Level, 8), Used: 1}
	for i := range page.Page { // what was there before must not be seen
		page.Page[i] = state.Level{Event: 9, Buyers: []uint32{9}}
	}
	c, err := page.DecodeChain(payload)
	same("chain", c.Encode(), err)
	if err != nil && page.Used != 1 {
		t.Fatalf("%x is no chain, and leaves its levels on the page", payload)
	}
	r := event.Released{Object: "before", Question: 9, Response: event.Response{Value: event.Value{Index: 9}, Method: event.MethodRaise}}
	d, e := &wire.Decoder{Rest: payload}, &wire.Encoder{}
	if r.Decode(d); d.Done() == nil {
		r.Encode(e)
	}
	same("response", e.Buf, d.Done())
	return sound
}

// Every record has one form, whatever the bytes are.
func TestRecordsHaveOneForm(t *testing.T) {
	records, random, sound := usualRecords(t), rand.New(rand.NewPCG(3, 4)), 0
	for i, payload := range records {
		if oneForm(t, payload) == 0 {
			t.Errorf("record %d cannot be read", i)
		}
	}
	const trials = 60_000
	for range trials {
		sound += oneForm(t, oddly(random, bytes.Clone(records[random.IntN(len(records))])))
	}
	if sound < trials/5 || sound > trials*9/10 {
		t.Errorf("%d of %d could be read: the test compares little", sound, trials)
	}
	for _, odd := range oddPayloads() {
		oneForm(t, odd)
	}
}

func FuzzRecordForms(f *testing.F) {
	for _, payload := range append(usualRecords(f), oddPayloads()...) {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) { oneForm(t, payload) })
}

// An event is read into the memory of another one that was done with, whatever that was: also one that could not be read.
func TestEventsAreReadOverOthers(t *testing.T) {
	type record struct {
		number  uint64
		payload []byte
	}
	var records []record
	for _, n := range goldenEntries(t) {
		records = append(records, record{n.Number, n.Encode()})
		if erasable(n.Change) {
			records = append(records, record{n.Number, n.Erase().Encode()})
		}
		if payload, k := n.Encode(), n.Change.Kind(); k == event.KindReleased || k == event.KindEnrolled {
			wrongVersion := bytes.Clone(payload)
			wrongVersion[3]++
			cutOff := payload[:len(payload)-1]
			short := payload[:len(payload)-1-len(n.Hashes)*len(merkle.HashLeaf())]
			records = append(records, record{n.Number, wrongVersion}, record{n.Number, cutOff}, record{n.Number, short})
		}
	}
	random := rand.New(rand.NewPCG(9, 10))
	used, shared := [3]event.Entry{}, &wire.Texts{}
	read := map[event.Kind]int{}
	for range 20_000 {
		r, e := records[random.IntN(len(records))], &used[random.IntN(len(used))]
		var fresh event.Entry
		want, err := fresh.Read(r.number, r.payload, nil), e.Read(r.number, r.payload, shared)
		if want != nil || err != nil {
			if fmt.Sprint(err) != fmt.Sprint(want) {
				t.Fatalf("%v, and over another one %v", want, err)
			}
			continue
		}
		read[e.Change.Kind()]++
		if !reflect.DeepEqual(*e, fresh) {
			t.Fatalf("%x is read as %+v, and over another one as %+v", r.payload, fresh, *e)
		}
	}
	if n := min(read[event.KindReleased], read[event.KindEnrolled]); n < 500 {
		t.Errorf("%d responses or enrolments: the test compares little", n)
	}
}
