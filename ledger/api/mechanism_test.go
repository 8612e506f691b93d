package api

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// JSON of a mechanism without a family is refused, so that readers can use the levels of the
// family.
func TestMechanism_JSONWithoutFamily_IsErrInvalid(t *testing.T) {
	for _, text := range []string{`{}`, `{"family":null}`, `{"outputs":[["a","b"]]}`} {
		var q struct {
			Mechanism *Mechanism `json:"mechanism"`
		}
		if err := json.Unmarshal([]byte(`{"mechanism":`+text+`}`), &q); !errors.Is(err, errs.ErrInvalid) {
			t.Errorf("%s is read as %+v, %v", text, q.Mechanism, err)
		}
	}
}
