package state

import (
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/rrchain"
)

// An audit finds the same tallies whether it finds them near or not: those with the same place there, and those that were
// written in between.
func TestTalliesAreFoundNear(t *testing.T) {
	near := &State{Reader: nobody{}, Writer: nobody{}, Plain: true, Near: make([]NearTally, 1<<NearBits), Counters: Counters{Position: Position{Events: 1 << 40}}}
	far := &State{Reader: nobody{}, Writer: nobody{}, Plain: true, Counters: near.Counters}
	q := &event.Question{Number: 1, Values: make([]string, rrchain.MaxValues)}
	for i := range 3000 {
		if i == 1500 {
			near.ForgetTallies()
			far.ForgetTallies()
		}
		l := NewLevel(nano(t, int64(1+i%7*500_000_000)), event.Value{Index: i * i % 97}, 1)
		must(t, near.recount(q, l, recount{recorded: 1}))
		must(t, far.recount(q, l, recount{recorded: 1}))
	}
	if len(near.Tallies) != len(far.Tallies) || len(far.Tallies) <= 1<<NearBits {
		t.Fatalf("%d tallies, want %d", len(near.Tallies), len(far.Tallies))
	}
	for key, want := range far.Tallies {
		if got := near.Tallies[key]; got == nil || got.Tallied != want.Tallied {
			t.Errorf("the tally %+v is %+v, want %+v", key, got, want)
		}
	}
}

// nobody is an empty store.
type nobody struct{}

func (nobody) Get(string, []byte) ([]byte, error)                      { return nil, nil }
func (nobody) Scan(string, []byte, func(key, value []byte) bool) error { return nil }
func (nobody) Put(bucket string, key, value []byte) error              { return fmt.Errorf("put into %s", bucket) }
func (nobody) Delete(bucket string, key []byte) error                  { return fmt.Errorf("delete in %s", bucket) }
