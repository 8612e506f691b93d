package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Later readers reuse the memory and the decoded records of earlier ones. Nothing of one reader may
// show in what another returns.

func TestObject_ConcurrentReaders_DoNotShareResults(t *testing.T) {
	names := crowd(20)
	l := voters(t, newLedger(t), "9", names...)
	for i, name := range names {
		for level := range i % 4 {
			release(t, l, releaseOf(t, fmt.Sprint(name, level), name, fmt.Sprint(level+1)))
		}
	}
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			for j := range 200 {
				at := 1 + (i*7+j)%(len(names)-1) // the first is written to
				o, err := l.Object(t.Context(), names[at])
				if err != nil || o.Object != names[at] || len(o.Chains) != 1 || len(o.Chains[0].Levels) != at%4 {
					t.Errorf("object %q: %+v, %v", names[at], o, err)
					return
				}
				wantErr(t, check.Err(l.Object(t.Context(), "stranger")), api.ErrUnknown)
			}
		})
	}
	for i := range 20 { // which changes the counters
		release(t, l, releaseOf(t, fmt.Sprint("more ", i), names[0], fmt.Sprintf("0.%02d", i+1)))
	}
	readers.Wait()
}

// What was returned stays as it is when other objects are read.
func TestObject_LaterReads_LeaveTheResultUnchanged(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
	release(t, l, releaseOf(t, "1", "ann", "1"))
	release(t, l, releaseOf(t, "2", "bob", "2"))
	first := objectOf(t, l, "ann")
	text := fmt.Sprintf("%+v", first)
	for range 3 {
		_ = objectOf(t, l, "bob")
	}
	again := fmt.Sprintf("%+v", first)
	check.That(t, again == text, "it was\n%s\nand is\n%s", text, again)
}

// Counters are reused only if no byte of their record has changed.
func TestObject_CountersDamagedBetweenReads_IsCorrupt(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann")
	_ = objectOf(t, l, "ann")
	var whole []byte
	must(t, l.engine.Store.View(func(r kv.Reader) error {
		value, err := r.Get(state.BucketMeta, []byte(state.KeyCounters))
		whole = slices.Clone(value)
		return err
	}))
	put := func(value []byte) { putRaw(t, l.engine.Store, state.BucketMeta, []byte(state.KeyCounters), value) }
	for i := range whole {
		damaged := slices.Clone(whole)
		damaged[i] ^= 1
		put(damaged)
		err := check.Err(l.Object(t.Context(), "ann"))
		check.Need(t, errors.Is(err, api.ErrCorrupt), "byte %d of the counters is another, and the error is %v", i, err)
		put(slices.Clone(whole))
		_ = objectOf(t, l, "ann")
	}
}

// Many chains are read in several snapshots, in memory that is used again. Returned names stay
// valid.
func TestResponses_ManyChains_AreReadInSeveralSnapshots(t *testing.T) {
	names := crowd(2*scanSize + 300)
	l := voters(t, inMemory(t, Options{}), "9", names...)
	raise(t, l, raiseOf(t, "all", "0.5"))
	var some []string // every third, which leaves some groups of names without any at this ε
	for i := scanSize / 2; i < len(names); i += 3 {
		some = append(some, names[i])
	}
	raise(t, l, raiseOf(t, "some", "1", some...))
	for epsilon, want := range map[string][]string{"0.5": names, "1": some, "2": nil, "0.75": nil} {
		var found, included []string
		for r, err := range l.Responses(t.Context(), "vote", eps(t, epsilon)) {
			must(t, err)
			found = append(found, r.Object)
			check.That(t, r.Epsilon == eps(t, epsilon) && r.Question == "vote" && r.Event != 0, "at ε=%s: %+v", epsilon, r)
		}
		check.That(t, slices.Equal(found, want), "%d responses at ε=%s, want %d", len(found), epsilon, len(want))
		e, err := l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Epsilon: eps(t, epsilon), Include: func(name string) bool {
			included = append(included, name)
			return !strings.HasSuffix(name, "7")
		}})
		if want == nil {
			wantErr(t, err, api.ErrNoResponses)
		} else if must(t, err); !slices.Equal(included, want) {
			t.Errorf("%d objects were asked for at ε=%s, want %d", len(included), epsilon, len(want))
		}
		counted := slices.DeleteFunc(slices.Clone(want), func(name string) bool { return strings.HasSuffix(name, "7") })
		check.That(t, e.N == int64(len(counted)),
			"%d objects were counted at ε=%s, want %d", e.N, epsilon, len(counted))
	}
}
