package event

import (
	"errors"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// strange is a change that no version of the program writes.
type strange struct{ Created }

func (*strange) Kind() Kind { return 250 }

// A golden file of package ledger holds how each kind is described.
func TestDescribe_UnknownKindOrErasedThatCannotBe_IsCorrupt(t *testing.T) {
	for name, ev := range map[string]Event{
		"an unknown kind":              {Number: 7, Change: &strange{}},
		"an unknown kind, erased":      {Number: 7, Change: &strange{}, Erased: &Commitment{}},
		"a kind that is never erased":  {Number: 7, Change: &Created{}, Erased: &Commitment{}},
		"a buyer, who is never erased": {Number: 7, Change: &BuyerNamed{}, Erased: &Commitment{}},
	} {
		if said, err := Describe(ev, nil); !errors.Is(err, errs.ErrCorrupt) || said.Says != nil {
			t.Errorf("%s: %+v, %v", name, said, err)
		}
	}
}
