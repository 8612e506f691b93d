package telling

import (
	"errors"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// strange is a change that no version of the program writes.
type strange struct{ event.Created }

// What has no words is told as damage: it is never passed over, nor told as another kind. How every kind is told, package ledger
// holds still by a golden file.
func TestWhatHasNoWordsIsCorrupt(t *testing.T) {
	for name, ev := range map[string]event.Event{
		"an unknown kind":              {Number: 7, Change: &strange{}},
		"an unknown kind, erased":      {Number: 7, Change: &strange{}, Erased: &event.Commitment{}},
		"a kind that is never erased":  {Number: 7, Change: &event.Created{}, Erased: &event.Commitment{}},
		"a buyer, who is never erased": {Number: 7, Change: &event.BuyerNamed{}, Erased: &event.Commitment{}},
	} {
		if told, err := Event(nil, ev); !errors.Is(err, errs.ErrCorrupt) || told.Says != nil {
			t.Errorf("%s: %+v, %v", name, told, err)
		}
	}
}
