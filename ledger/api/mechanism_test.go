package api

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// Whoever has a question with a mechanism asks its family for the levels: there is none without,
// whoever has sent it.
func TestAMechanismHasAFamily(t *testing.T) {
	for _, text := range []string{`{}`, `{"family":null}`, `{"outputs":[["a","b"]]}`} {
		var q struct {
			Mechanism *Mechanism `json:"mechanism"`
		}
		if err := json.Unmarshal([]byte(`{"mechanism":`+text+`}`), &q); !errors.Is(err, errs.ErrInvalid) {
			t.Errorf("%s is read as %+v, %v", text, q.Mechanism, err)
		}
	}
}
