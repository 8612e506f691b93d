package request

import (
	"maps"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// sameRefusals returns n refusals of objects a00000, a00001, … for a reason, each of whom could have at most an ε.
func sameRefusals(reason vocabulary.Reason, largest string, n int) []vocabulary.Refusal {
	all := make([]vocabulary.Refusal, n)
	for i := range all {
		all[i] = vocabulary.Refusal{Object: "a", Reason: reason, Largest: privacy.MustEpsilon(largest)}
	}
	return all
}

func TestRefusalList_MoreThanAreListed_CountsAllInBoundedMemory(t *testing.T) {
	var r RefusalList
	const many = 250_000
	r.Add(sameRefusals(vocabulary.ObjectCap, "2", vocabulary.MaxListed-1)...)
	r.Add(sameRefusals(vocabulary.Withdrawn, "0", 3)...)
	for range many {
		r.Add(sameRefusals(vocabulary.ObjectCap, "1.5", 1)...)
	}
	want := map[vocabulary.Reason]uint64{vocabulary.Withdrawn: 3, vocabulary.ObjectCap: many + vocabulary.MaxListed - 1}
	if got := r.ByReason(); !maps.Equal(got, want) {
		t.Errorf("by reason %v, want %v", got, want)
	}
	if len(r.Listed) != vocabulary.MaxListed || cap(r.Listed) > 2*vocabulary.MaxListed || r.Count() != many+vocabulary.MaxListed+2 || len(r.Untold) != 0 {
		t.Errorf("%d are listed, in memory for %d; %d are counted; %d are untold", len(r.Listed), cap(r.Listed), r.Count(), len(r.Untold))
	}
	e := r.Error(&event.Question{Name: "q"})
	if len(e.Refused) != vocabulary.MaxListed || e.Unlisted != many+2 || e.Sums[0].Count != want[vocabulary.ObjectCap] || e.Sums[0].Largest != privacy.MustEpsilon("1.5") {
		t.Errorf("the error lists %d, and counts %d more: %+v", len(e.Refused), e.Unlisted, e.Sums)
	}
}

func TestRefusalList_Partial_ListsAllAndItsErrorTheFirst(t *testing.T) {
	r := NewRefusals(true)
	r.Add(sameRefusals(vocabulary.NoTruth, "1", 2*vocabulary.MaxListed)...)
	e := r.Error(&event.Question{Name: "q"})
	if len(r.Listed) != 2*vocabulary.MaxListed || len(r.Untold) != 2*vocabulary.MaxListed || r.Unlisted != 0 {
		t.Errorf("%d are listed, %d not, %d are untold", len(r.Listed), r.Unlisted, len(r.Untold))
	}
	if len(e.Refused) != vocabulary.MaxListed || e.Unlisted != vocabulary.MaxListed {
		t.Errorf("the error lists %d, and counts %d more", len(e.Refused), e.Unlisted)
	}
}

func TestRefusalList_Lowest_CountsThoseNotListed(t *testing.T) {
	r := Refusals(append(sameRefusals(vocabulary.ObjectCap, "2", vocabulary.MaxListed), sameRefusals(vocabulary.ObjectCap, "0.5", 1)...)...)
	if got := r.Lowest(privacy.MustEpsilon("3")); got != privacy.MustEpsilon("0.5") {
		t.Errorf("the lowest is %v", got)
	}
	if got := new(RefusalList).Lowest(privacy.MustEpsilon("3")); got != privacy.MustEpsilon("3") {
		t.Errorf("the lowest of nobody is %v", got)
	}
}
