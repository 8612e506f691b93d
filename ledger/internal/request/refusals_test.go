package request

import (
	"maps"
	"testing"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/privacy"
)

// sameRefusals returns n refusals of objects a00000, a00001, … for a reason, each of whom could
// have at most an ε.
func sameRefusals(reason api.Reason, largest string, n int) []api.Refusal {
	all := make([]api.Refusal, n)
	for i := range all {
		all[i] = api.Refusal{Object: "a", Reason: reason, Largest: privacy.MustEpsilon(largest)}
	}
	return all
}

func TestRefusalList_MoreThanAreListed_CountsAllInBoundedMemory(t *testing.T) {
	var r RefusalList
	const many = 250_000
	r.Add(sameRefusals(api.ObjectCap, "2", MaxListed-1)...)
	r.Add(sameRefusals(api.Withdrawn, "0", 3)...)
	for range many {
		r.Add(sameRefusals(api.ObjectCap, "1.5", 1)...)
	}
	want := map[api.Reason]uint64{api.Withdrawn: 3, api.ObjectCap: many + MaxListed - 1}
	if got := r.ByReason(); !maps.Equal(got, want) {
		t.Errorf("by reason %v, want %v", got, want)
	}
	if len(r.Listed) != MaxListed || cap(r.Listed) > 2*MaxListed || r.Count() != many+MaxListed+2 || len(r.WithoutTruth) != 0 {
		t.Errorf("%d are listed, in memory for %d; %d are counted; %d are untold", len(r.Listed), cap(r.Listed), r.Count(), len(r.WithoutTruth))
	}
	e := r.Error(&event.Question{Name: "q"})
	if len(e.Refused) != MaxListed || e.Unlisted != many+2 || e.Sums[0].Count != want[api.ObjectCap] || e.Sums[0].Largest != privacy.MustEpsilon("1.5") {
		t.Errorf("the error lists %d, and counts %d more: %+v", len(e.Refused), e.Unlisted, e.Sums)
	}
}

func TestRefusalList_Partial_ListsAllAndItsErrorTheFirst(t *testing.T) {
	r := NewRefusals(true)
	r.Add(sameRefusals(api.NoTruth, "1", 2*MaxListed)...)
	e := r.Error(&event.Question{Name: "q"})
	if len(r.Listed) != 2*MaxListed || len(r.WithoutTruth) != 2*MaxListed || r.Unlisted != 0 {
		t.Errorf("%d are listed, %d not, %d are untold", len(r.Listed), r.Unlisted, len(r.WithoutTruth))
	}
	if len(e.Refused) != MaxListed || e.Unlisted != MaxListed {
		t.Errorf("the error lists %d, and counts %d more", len(e.Refused), e.Unlisted)
	}
}

func TestRefusalList_Lowest_CountsThoseNotListed(t *testing.T) {
	r := Refusals(append(sameRefusals(api.ObjectCap, "2", MaxListed), sameRefusals(api.ObjectCap, "0.5", 1)...)...)
	if got := r.Lowest(privacy.MustEpsilon("3")); got != privacy.MustEpsilon("0.5") {
		t.Errorf("the lowest is %v", got)
	}
	if got := new(RefusalList).Lowest(privacy.MustEpsilon("3")); got != privacy.MustEpsilon("3") {
		t.Errorf("the lowest ε without refusals is %v", got)
	}
}
