package event

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// strange is a change that no version of the program writes.
type strange struct{ Created }

func (*strange) Kind() Kind { return 250 }

// Events that no program writes are ErrCorrupt. (A golden file of package ledger has the
// descriptions of all kinds.)
func TestDescribe_UnknownKindOrNeverErased_IsCorrupt(t *testing.T) {
	for name, ev := range map[string]Event{
		"an unknown kind":              {Number: 7, Change: &strange{}},
		"an unknown kind, erased":      {Number: 7, Change: &strange{}, Erased: &Commitment{}},
		"a kind that is never erased":  {Number: 7, Change: &Created{}, Erased: &Commitment{}},
		"a buyer, who is never erased": {Number: 7, Change: &BuyerNamed{}, Erased: &Commitment{}},
	} {
		said, err := Describe(ev, nil)
		check.That(t, errors.Is(err, errs.ErrCorrupt) && said.Says == nil, "%s: %+v, %v", name, said, err)
	}
}

func TestDetails_EachKind_IsReadFromJSON(t *testing.T) {
	for _, d := range Details() {
		text := check.Value(json.Marshal(event.Event{Number: 1, Time: time.Unix(0, 0).UTC(), Says: d}))(t)
		err := json.Unmarshal(text, &event.Event{})
		check.That(t, err == nil || !strings.Contains(err.Error(), "unknown kind"), "%s: %v", d.Kind(), err)
	}
}
