package request

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// RefusalList has the refusals that a request meets: it lists the first and counts the rest. The
// zero value is empty.
type RefusalList struct {
	Listed   []api.Refusal // the first, at most Most
	Unlisted int           // the rest
	// Most is how many are listed; 0 is [MaxListed]. A partial request lists all of a
	// transaction, which are recorded.
	Most int
	// Untold are the objects that are refused because the host has no true value of them, also those
	// that are not listed.
	Untold []string
	sums   []api.RefusalSum
}

// Refusals returns a list of some refusals.
func Refusals(all ...api.Refusal) (r RefusalList) {
	r.Add(all...)
	return r
}

// NewRefusals returns an empty list for a request: a partial one lists all that it records.
func NewRefusals(partial bool) (r RefusalList) {
	if partial {
		r.Most = api.MaxPanel
	}
	return r
}

// Add adds refusals.
func (r *RefusalList) Add(more ...api.Refusal) {
	most := r.Most
	if most == 0 {
		most = MaxListed
	}
	n := min(len(more), most-len(r.Listed))
	r.Listed = append(r.Listed, more[:n]...)
	r.Unlisted += len(more) - n
	r.sums = api.SumRefusals(more, r.sums...)
	for _, one := range more {
		if one.Reason == api.NoTruth {
			r.Untold = append(r.Untold, one.Object)
		}
	}
}

// Count returns how many were added.
func (r *RefusalList) Count() int { return len(r.Listed) + r.Unlisted }

// Sums counts all that were added by reason, the most frequent first.
func (r *RefusalList) Sums() []api.RefusalSum { return slices.Clone(r.sums) }

// ByReason counts all that were added by reason.
func (r *RefusalList) ByReason() map[api.Reason]uint64 {
	all := map[api.Reason]uint64{}
	for _, sum := range r.sums {
		all[sum.Reason] = sum.Count
	}
	return all
}

// Lowest returns the lowest of an ε and of what each of those refused can have at most.
func (r *RefusalList) Lowest(epsilon privacy.Epsilon) privacy.Epsilon {
	for _, sum := range r.sums {
		epsilon = state.Lower(epsilon, sum.Largest)
	}
	return epsilon
}

// Error returns that a request is refused for them. It lists the first [MaxListed].
func (r *RefusalList) Error(q *event.Question) *api.RefusedError {
	n := min(len(r.Listed), MaxListed)
	return &api.RefusedError{
		Question: q.Name, Refused: slices.Clone(r.Listed[:n]), Unlisted: r.Count() - n, Sums: r.Sums(),
	}
}

// MaxListed is how many refusals the error of a refused request lists, and the quote of an order
// that would be refused. The others are counted: the memory that a refusal takes does not grow with
// the panel.
const MaxListed = 100
