package ledger

import (
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// A long sale reports its progress: each object counts when it is drawn, and when that is recorded.
func TestSell_Progress_CountsDrawsAndRecords(t *testing.T) {
	store := &kv.Memory{}
	begin(t, store)
	l := openMemory(t, store, Options{})
	names := crowd(state.PartSize + 7)
	sellers(t, l, "10", "10", names...)
	var done []int
	r := purchase(t, "k", "acme", "1", names...)
	r.Progress = func(n, total int) {
		if done = append(done, n); total != 2*len(names) {
			t.Errorf("%d in all, want %d", total, 2*len(names))
		}
	}
	sell(t, l, r)
	want := []int{state.PartSize, state.PartSize + 7, 2*state.PartSize + 7, 2*state.PartSize + 14}
	check.That(t, slices.Equal(done, want), "the progress is %d, want %d", done, want)
	done = nil
	sell(t, l, r)
	check.That(t, len(done) <= 0, "a repeated sale reports %d", done)
}
