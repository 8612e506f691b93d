package ledger

import (
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
)

// A refused call takes the same steps whether the true value is missing, changed or invalid: its time must not show which. Steps are counted
// as allocations: the fewest of many single calls, since the runtime allocates, too, and empties pools at random under the race detector.
func TestRefusal_ValueMissingChangedOrInvalid_TakesTheSameSteps(t *testing.T) {
	l := voters(t, inMemory(t, Options{TruthKey: truthKey()}), "9", "ann", "bob")
	release(t, l, releaseOf(t, "first", "ann", "1"))
	calls := map[string]func(truth api.TruthFunc) error{
		"Release": func(truth api.TruthFunc) error {
			_, err := l.Release(t.Context(), api.ReleaseRequest{Key: "k", Question: "vote", Object: "ann", Epsilon: eps(t, "2"), Truth: truth})
			return err
		},
		"Raise": func(truth api.TruthFunc) error {
			r := order(t, "k", "2", "ann")
			r.Truth = truth
			return check.Err(l.Raise(t.Context(), r))
		},
	}
	for what, call := range calls {
		steps := map[string]float64{}
		for why, value := range map[string]string{"missing": "", "changed": "no", "invalid": "MAYBE"} {
			truth := truthsOf(map[string]string{"ann": value})
			r := refusals(t, call(truth))
			check.Need(t, len(r) == 1 && r[0].Reason == api.NoTruth, "%s: %+v", why, r)
			for range 500 {
				n := testing.AllocsPerRun(1, func() { _ = call(truth) })
				if before, counted := steps[why]; !counted || n < before {
					steps[why] = n
				}
			}
		}
		if steps["changed"] != steps["missing"] || steps["invalid"] != steps["missing"] {
			t.Errorf("%s: %s", what, fmt.Sprint(steps))
		}
	}
}
