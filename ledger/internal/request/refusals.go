package request

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// RefusalList has the refusals of a request. It lists the first ones and counts the others. The
// zero value is empty.
type RefusalList struct {
	Listed   []api.Refusal // the first refusals, at most MaxListed
	Unlisted int           // number of the other refusals
	// MaxListed is the largest number of listed refusals; 0 means the constant [MaxListed]. A
	// partial request lists all refusals of a transaction, because they are recorded.
	MaxListed int
	// WithoutTruth are the objects refused because the host has no true value of them, including
	// objects that are not listed.
	WithoutTruth []string
	sums         []api.RefusalSum // by reason, the most frequent first
}

// Refusals returns a list of these refusals.
func Refusals(all ...api.Refusal) (r RefusalList) {
	r.Add(all...)
	return r
}

// NewRefusals returns an empty list for a request. For a partial request, it lists up to
// [api.MaxPanel] refusals, because all refusals of a transaction are recorded.
func NewRefusals(partial bool) (r RefusalList) {
	if partial {
		r.MaxListed = api.MaxPanel
	}
	return r
}

// Add adds refusals. It lists them as long as there is capacity, and counts all of them.
func (r *RefusalList) Add(more ...api.Refusal) {
	most := r.MaxListed
	if most == 0 {
		most = MaxListed
	}
	n := min(len(more), most-len(r.Listed))
	r.Listed = append(r.Listed, more[:n]...)
	r.Unlisted += len(more) - n
	r.sums = (&api.RefusedError{Sums: r.sums}).SumsWith(more...)
	for _, one := range more {
		if one.Reason == api.NoTruth {
			r.WithoutTruth = append(r.WithoutTruth, one.Object)
		}
	}
}

// Count returns the number of refusals, listed or not.
func (r *RefusalList) Count() int { return len(r.Listed) + r.Unlisted }

// Sums returns the number of refusals for each reason, the most frequent reason first.
func (r *RefusalList) Sums() []api.RefusalSum { return slices.Clone(r.sums) }

// ByReason returns the number of refusals for each reason.
func (r *RefusalList) ByReason() map[api.Reason]uint64 {
	all := map[api.Reason]uint64{}
	for _, sum := range r.sums {
		all[sum.Reason] = sum.Count
	}
	return all
}

// Lowest returns the lowest of epsilon and of the largest ε that each refused object could have
// instead. It returns 0 if an object can have none.
func (r *RefusalList) Lowest(epsilon privacy.Epsilon) privacy.Epsilon {
	for _, sum := range r.sums {
		epsilon = state.Lower(epsilon, sum.Largest)
	}
	return epsilon
}

// Error returns the error of a request about q that has these refusals. The error lists the first
// [MaxListed].
func (r *RefusalList) Error(q *event.Question) *api.RefusedError {
	n := min(len(r.Listed), MaxListed)
	return &api.RefusedError{
		Question: q.Name, Refused: slices.Clone(r.Listed[:n]), Unlisted: r.Count() - n, Sums: r.Sums(),
	}
}

// MaxListed is the largest number of refusals listed in the error of a refused request, or in a
// quote that has refusals. Others are only counted, so that the memory for a refusal does not grow
// with the panel.
const MaxListed = 100
