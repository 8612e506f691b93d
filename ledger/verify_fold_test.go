package ledger

import (
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/scratch"
)

// An event that cannot be applied leaves no trace in the fold, not in the tallies either, which are counted before the
// budget is checked.
func TestAnEventThatCannotBeAppliedLeavesNoTrace(t *testing.T) {
	for _, epsilon := range []string{"0.75", "2"} {
		l := newLedger(t)
		define(t, l, vote())
		enroll(t, l, "vote", "1", "ann")
		carryOut(t, l, order(t, "first", "0.5"))

		a := &auditor{ledger: l, pace: usualPace(), seen: map[faultID]bool{}}
		var err error
		a.scratch, err = scratch.New("", a.pace.memory)
		must(t, err)
		a.decoder = startDecoder()
		defer a.decoder.stop()
		must(t, a.begin())
		compare := func() uint64 {
			a.done, a.at, a.problems = false, place{}, 0
			for !a.done {
				must(t, a.step(t.Context()))
			}
			return a.problems
		}
		if n := compare(); n != 0 {
			t.Fatalf("%d problems", n)
		}
		last := a.fold.Counters
		ev := event.Event{Number: last.Events + 1, Time: last.Last, Change: &event.Released{
			Object: "ann", Question: 1, Epsilon: eps(t, epsilon), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise},
		}}
		fault, err := a.try(&ev)
		must(t, err)
		if impossible := epsilon == "2"; (fault != nil) != impossible || (compare() == 0) != impossible {
			t.Errorf("at ε=%s, the fault is %v, and there are %d problems", epsilon, fault, a.problems)
		}
		must(t, a.scratch.Close())
	}
}
