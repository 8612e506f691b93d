package ledger

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// A refused call takes the same steps whether the true value is missing, changed or invalid: its
// time must not show which. Steps are counted as allocations: the fewest of many single calls,
// because the runtime allocates, too, and empties pools at random under the race detector.
func TestRefusal_ValueMissingChangedOrInvalid_TakesTheSameSteps(t *testing.T) {
	l := voters(t, inMemory(t, Options{TruthKey: truthKey()}), "9", "ann", "bob")
	release(t, l, releaseOf(t, "first", "ann", "1"))
	for _, what := range []string{"Release", "Raise"} {
		steps := map[string]float64{}
		for why, value := range map[string]string{"missing": "", "changed": "no", "invalid": "MAYBE"} {
			d := drawing{key: "k", epsilon: "2", objects: []string{"ann"}, truth: truthsOf(map[string]string{"ann": value})}
			got, _ := d.by(t, l, what)
			check.Need(t, len(got.refused) == 1 && got.refused[0].Reason == api.NoTruth, "%s: %+v", why, got)
			for range 500 {
				n := testing.AllocsPerRun(1, func() { _, _ = d.drawnBy(t, l, what) })
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

// Nor does the ledger read or write anything else, whether the value comes from a source or with
// the request.
func TestRefusal_ValueMissingChangedOrInvalid_ReadsAndWritesTheSame(t *testing.T) {
	stepsOf := func(truth api.TruthFunc, value string) []string {
		s := &stepRecorder{Store: &kv.Memory{}}
		begin(t, s)
		l := voters(t, openMemory(t, s, Options{TruthKey: truthKey()}), "5", "ann")
		release(t, l, releaseOf(t, "before", "ann", "1"))
		s.steps = nil
		r := releaseOf(t, "mine", "ann", "2")
		r.Truth, r.TrueValue = truth, value
		refused := refusals(t, check.Err(l.Release(t.Context(), r)))
		check.That(t, refused[0].Reason == api.NoTruth, "refused for %+v", refused)
		return s.steps
	}
	want := stepsOf(sameTruth(""), "")
	for _, value := range []string{"no", "MAYBE"} {
		got, brought := stepsOf(sameTruth(value), ""), stepsOf(nil, value)
		check.That(t, slices.Equal(got, want) && slices.Equal(brought, want), "%s: %v or %v, and where there is no value %v", value, got, brought, want)
	}
}
