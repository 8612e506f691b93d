package batch

import (
	"maps"
	"testing"

	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// Those who are not listed any more are counted by reason all the same, and a list that was not added to counts, too.
func TestRefusalsAreCountedByReason(t *testing.T) {
	of := func(reason vocabulary.Reason, n int) []vocabulary.Refusal {
		all := make([]vocabulary.Refusal, n)
		for i := range all {
			all[i].Reason = reason
		}
		return all
	}
	var r RefusalList
	r.Add(of(vocabulary.ObjectCap, vocabulary.MaxPanel-1)...)
	r.Add(of(vocabulary.Withdrawn, 3)...)
	r.Add(of(vocabulary.ObjectCap, 4)...)
	want := map[vocabulary.Reason]uint64{vocabulary.ObjectCap: vocabulary.MaxPanel + 3, vocabulary.Withdrawn: 3}
	for range 2 {
		if got := r.ByReason(); !maps.Equal(got, want) || len(r.Listed) != vocabulary.MaxPanel || r.Unlisted != 6 {
			t.Fatalf("%d are listed, %d are not, by reason %v", len(r.Listed), r.Unlisted, got)
		}
	}
	r = RefusalList{Listed: of(vocabulary.NoTruth, 2)}
	if got := r.ByReason(); !maps.Equal(got, map[vocabulary.Reason]uint64{vocabulary.NoTruth: 2}) {
		t.Errorf("of two listed are counted %v", got)
	}
}
