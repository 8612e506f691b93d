package rules

import (
	"errors"
	"testing"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/privacy"
)

// The largest ε of a refusal must be possible.
func TestCheckLargest_ImpossibleLargest_IsCorrupt(t *testing.T) {
	e := func(text string) privacy.Epsilon {
		epsilon, err := privacy.ParseEpsilon(text)
		if err != nil {
			t.Fatal(err)
		}
		return epsilon
	}
	for name, r := range map[string]api.Refusal{
		"less helps, and nothing would do": {Reason: api.ObjectCap, Asked: e("1"), Remedy: "less"},
		"nothing helps, and less would do": {Reason: api.ObjectCap, Asked: e("1"), Remedy: "nothing", Largest: e("0.5")},
		"more would do":                    {Reason: api.NotOnOffer, Asked: e("1"), Remedy: "less", Largest: e("1")},
		"not about ε":                      {Reason: api.NotEnrolled, Asked: e("1"), Remedy: "enrolling", Largest: e("0.5")},
		"more than remains":                {Reason: api.ChainCeiling, Asked: e("1"), Cost: e("0.5"), Remaining: e("0.25"), Remedy: "waiting", Largest: e("0.76")},
	} {
		if err := CheckLargest(&r); !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	right := api.Refusal{Reason: api.ChainCeiling, Asked: e("1"), Cost: e("0.5"), Remaining: e("0.25"), Remedy: "waiting", Largest: e("0.75")}
	if err := CheckLargest(&right); err != nil {
		t.Error(err)
	}
}
