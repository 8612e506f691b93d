package batch

import (
	"maps"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// RefusalList has the refusals that a request meets. However many there are, it takes a bounded memory.
type RefusalList struct {
	Listed   []vocabulary.Refusal         // the first, at most MaxPanel
	Unlisted int                          // the rest
	rest     map[vocabulary.Reason]uint64 // the same, by reason
}

// Add adds refusals: the first [vocabulary.MaxPanel] are listed, the rest counted.
func (r *RefusalList) Add(more ...vocabulary.Refusal) {
	n := min(len(more), vocabulary.MaxPanel-len(r.Listed))
	r.Listed = append(r.Listed, more[:n]...)
	r.Unlisted += len(more) - n
	for _, one := range more[n:] {
		if r.rest == nil {
			r.rest = map[vocabulary.Reason]uint64{}
		}
		r.rest[one.Reason]++
	}
}

// ByReason counts all that were added, or are listed, by reason.
func (r RefusalList) ByReason() map[vocabulary.Reason]uint64 {
	all := map[vocabulary.Reason]uint64{}
	maps.Copy(all, r.rest)
	for _, one := range r.Listed {
		all[one.Reason]++
	}
	return all
}

// Error returns that a request is refused for them.
func (r RefusalList) Error(q *event.Question) *vocabulary.RefusedError {
	return &vocabulary.RefusedError{Question: q.Name, Refused: r.Listed, Unlisted: r.Unlisted}
}
