package batch

import (
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// RefusalList has the refusals that a request meets. However many there are, it takes a bounded memory.
type RefusalList struct {
	Listed   []vocabulary.Refusal // the first, at most MaxPanel
	Unlisted int                  // the rest
}

// Add adds refusals: the first [vocabulary.MaxPanel] are listed, the rest counted.
func (r *RefusalList) Add(more ...vocabulary.Refusal) {
	n := min(len(more), vocabulary.MaxPanel-len(r.Listed))
	r.Listed = append(r.Listed, more[:n]...)
	r.Unlisted += len(more) - n
}

// Error returns that a request is refused for them.
func (r RefusalList) Error(q *event.Question) *vocabulary.RefusedError {
	return &vocabulary.RefusedError{Question: q.Name, Refused: r.Listed, Unlisted: r.Unlisted}
}
