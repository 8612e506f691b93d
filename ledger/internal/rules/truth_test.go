package rules

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Others can measure how long a refusal takes: the steps must not depend on why a true value cannot
// be used. Steps are counted as allocations, which a keyed hash, a note of a fault and a list all
// make.
func TestAsk_ValueMissingChangedOrInvalid_TakesTheSameSteps(t *testing.T) {
	q := event.NewQuestion(&event.QuestionDefined{Number: 1, Question: api.Question{Name: "q", Values: []string{"a", "b", "c"}}})
	names := []string{"ann", "bob", "eve", "kim"}
	binder := &Binder{Key: bytes.Repeat([]byte{7}, 32)}
	var refused []api.Refusal
	for _, name := range names {
		refused = append(refused, api.Refusal{Object: name, Reason: api.NoTruth})
	}
	steps := func(with *Binder, isBound bool, values ...string) (allocs float64, changed, invalid []string) {
		who := TruthRequest{Names: names, Bindings: make([]state.TruthBinding, len(names))}
		for i, name := range names {
			if isBound {
				tag := binder.Truth(name, q.Number, 5, 0)
				who.Bindings[i] = state.TruthBinding{Tag: &tag, Since: 5}
			}
		}
		l := &Rules{Binder: with}
		source := func(context.Context, string, []string) ([]string, error) { return values, nil }
		allocs = testing.AllocsPerRun(100, func() {
			var faults TruthFaults
			numbers, err := l.Ask(t.Context(), q, source, who, &faults)
			if err != nil || slices.ContainsFunc(numbers, func(n int32) bool { return n != NoTruth }) {
				t.Fatal(numbers, err)
			}
			changed, invalid = faults.Among(refused)
		})
		return allocs, changed, invalid
	}
	want, changed, invalid := steps(binder, true, "", "", "", "")
	if changed != nil || invalid != nil {
		t.Errorf("missing values: changed %q, invalid %q", changed, invalid)
	}
	for _, c := range []struct{ values, changed, invalid []string }{
		{[]string{"b", "c", "b", "b"}, names, nil},
		{[]string{"x", "xyz", "A", " "}, nil, names},
		{[]string{"", "b", "x", "c"}, []string{"bob", "kim"}, []string{"eve"}},
	} {
		got, changed, invalid := steps(binder, true, c.values...)
		if !slices.Equal(changed, c.changed) || !slices.Equal(invalid, c.invalid) {
			t.Errorf("%q: changed %q, invalid %q", c.values, changed, invalid)
		}
		if got != want {
			t.Errorf("%q: %v allocations, %v for missing values", c.values, got, want)
		}
	}
	none, _, _ := steps(binder, false, "", "", "", "")
	if got, _, _ := steps(binder, false, "x", "y", "z", ""); got != none {
		t.Errorf("before a chain is bound: %v allocations for invalid values, %v for missing ones", got, none)
	}
	if want < none+float64(len(names)) {
		t.Errorf("%v allocations with bound chains, %v without: the missing values are not hashed", want, none)
	}
	plain, _, _ := steps(nil, false, "", "", "", "")
	if got, _, _ := steps(nil, false, "x", "y", "z", ""); got != plain {
		t.Errorf("without a key: %v allocations for invalid values, %v for missing ones", got, plain)
	}
}
