package request

import (
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/privacy"
)

// The list has the levels of the highest ε, each with all its objects, in any order in which they
// are added.
func TestLosses_ManyLevels_KeepsTheHighestWhole(t *testing.T) {
	const levels, step = 5 * maxDisplaced, 7919 // which is prime to the number of levels
	a, b := &event.Question{Number: 1, Name: "b"}, &event.Question{Number: 2, Name: "a"}
	sum := &losses{rows: map[lostLevel]*api.Displaced{}}
	for i := range 3 * levels {
		at, err := privacy.EpsilonFromNano(int64(1 + i*step%levels))
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []*event.Question{a, b} {
			if sum.add(q, at, 10); len(sum.rows) > 2*maxDisplaced {
				t.Fatalf("%d rows are kept", len(sum.rows))
			}
		}
	}
	list := sum.list()
	if len(list) != maxDisplaced {
		t.Fatalf("%d rows are listed", len(list))
	}
	for i, got := range list {
		half := len(list) / 2
		want := api.Displaced{Question: []string{"a", "b"}[i/half], Objects: 3, Revenue: 30}
		want.Epsilon, _ = privacy.EpsilonFromNano(int64(levels - i%half))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("row %d is %+v, want %+v", i, got, want)
		}
	}
}
