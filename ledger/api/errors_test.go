package api

import (
	"strings"
	"testing"

	"github.com/sluicedp/sluice/privacy"
)

// The text of a refusal has the number of objects, and names each reason once.
func TestRefusedError_Text_ListsEachReasonOnce(t *testing.T) {
	refusals := func(reasons ...Reason) (all []Refusal) {
		for _, r := range reasons {
			all = append(all, Refusal{Object: "ann", Reason: r, Remedy: "truth"})
		}
		return all
	}
	one := privacy.MustEpsilon("1")
	allowed := &Budget{Objects: 12, Levels: []BudgetLevel{{Epsilon: one, Can: 11}}}
	for _, c := range []struct {
		e    RefusedError
		want string
	}{
		{RefusedError{Question: "q", Refused: refusals(NoTruth)}, `question "q": refused for 1 object: object "ann": no-truth (truth helps)`},
		{RefusedError{Question: "q", Refused: refusals(NoTruth, NoTruth, NoTruth, NoTruth)}, `question "q": refused for 4 objects: object "ann": no-truth (truth helps); object`},
		{RefusedError{Question: "q", Refused: refusals(NoTruth, NoTruth, NoTruth, Withdrawn)}, `question "q": refused for 4 objects: 3 no-truth, 1 withdrawn: object "ann"`},
		// Fewer may be listed than a text shows.
		{RefusedError{Question: "q", Refused: refusals(NoTruth), Unlisted: 9}, `question "q": refused for 10 objects: object "ann": no-truth (truth helps); and 9 more`},
		// Some of the eleven may have no true value, which the budget does not check.
		{RefusedError{Question: "q", Refused: refusals(ObjectCap), Instead: allowed}, "; what budgets and terms allow is ε=1 for 11 of them"},
	} {
		if got := c.e.Error(); !strings.HasPrefix(got, c.want) && !strings.HasSuffix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
