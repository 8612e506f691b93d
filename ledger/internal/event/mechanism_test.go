package event

import (
	"reflect"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
)

// A client sends no names as [], which must mean the same as none.
func TestNameOutputs_EmptyList_IsNone(t *testing.T) {
	family := fixture.Skewed(t)
	none := NameOutputs(&api.Mechanism{Family: family})
	empty := NameOutputs(&api.Mechanism{Family: family, Outputs: [][]string{}})
	check.That(t, len(none.Outputs) > 0 && none.Outputs[0][0] == "0", "none are %q", none.Outputs)
	check.That(t, reflect.DeepEqual(none, empty), "none are %q, of an empty list they are %q", none.Outputs, empty.Outputs)
}
