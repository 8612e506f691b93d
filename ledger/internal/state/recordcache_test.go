package state

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// After any sequence of reads and writes, the cached records equal the stored ones.
func TestState_RecordCache_EqualsTheStore(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	name := func() string { return fmt.Sprint("person ", random.IntN(6)) }
	question := func() uint32 { return 1 + random.Uint32N(2) }
	kept, missed := 0, 0
	for range 300 {
		store := new(kv.Memory)
		must(t, store.Update(func(w kv.Writer) error {
			s := &State{Reader: w, Writer: w}
			stored := func() *State { return &State{Reader: w} } // which has kept nothing
			for n := uint64(1); n < 60; n++ {
				who, q := name(), question()
				switch random.IntN(8) {
				case 0:
					must(t, s.PutObject(who, Object{Chains: n}))
				case 1:
					must(t, s.PutChain(q, who, Chain{Enrolled: n, Levels: []Level{NewLevel(nano(t, int64(n)), event.Value{Index: 1}, n)}}))
				case 2:
					must(t, s.PutRequest(who, Request{Settled: []uint64{n}}))
				case 3:
					s.Expect(membersOf(t, stored(), q))
				}
				before := *s
				var o Object
				var c Chain
				found, err := s.ReadObject(who, &o)
				must(t, err)
				want, there, err := stored().Object(who)
				if must(t, err); found != there || !reflect.DeepEqual(o, want) {
					t.Fatalf("%s is kept as %+v, %v, and stored as %+v, %v", who, o, found, want, there)
				}
				if m := before.recordCache.member(who); m != nil && m.Known {
					kept++
				} else {
					missed++
				}
				found, err = s.ReadChain(q, who, &c)
				must(t, err)
				chain, there, err := stored().Chain(q, who)
				if must(t, err); found != there || !reflect.DeepEqual(c, chain) {
					t.Fatalf("the chain %d of %s is kept as %+v, %v, and stored as %+v, %v", q, who, c, found, chain, there)
				}
				r, found, err := s.Request(who)
				must(t, err)
				request, there, err := stored().Request(who)
				if must(t, err); found != there || !reflect.DeepEqual(r, request) {
					t.Fatalf("request %s is kept as %+v, %v, and stored as %+v, %v", who, r, found, request, there)
				}
			}
			return nil
		}))
	}
	if kept < 1000 || missed < 1000 {
		t.Errorf("%d objects were kept, and %d were not: the test sees too few of one kind", kept, missed)
	}
}

// membersOf reads all objects of a question, as a scan does.
func membersOf(t *testing.T, s *State, question uint32) (all []Member) {
	must(t, s.ScanChains(question, "", func(name string, c Chain) bool {
		all = append(all, Member{Name: name, Question: question, Chain: c})
		return true
	}))
	for i := range all {
		var err error
		all[i].Object, all[i].Known, err = s.Object(all[i].Name)
		must(t, err)
	}
	return all
}
