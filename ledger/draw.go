package ledger

import (
	"fmt"

	"github.com/sluicedp/sluice/rrchain"
)

// draw draws an object's response and returns the event that records it.
func (x *raise) draw(a assessment, name string, place int) (*released, error) {
	responses, err := a.chain.responses(len(x.question.values))
	if err != nil {
		return nil, fmt.Errorf("%w: object %q: %w", ErrCorrupt, name, err)
	}
	epsilon, sampler := x.request.Epsilon, x.ledger.sampler
	out := &released{object: name, question: x.question.number, epsilon: epsilon}
	var level rrchain.Level
	switch {
	case a.verdict == derived && epsilon.Less(a.chain.levels[0].Epsilon):
		out.method = methodDegrade
		level, err = responses.Degrade(sampler, epsilon)
	case a.verdict == derived:
		out.method = methodInsert
		level, err = responses.Insert(sampler, epsilon)
	default:
		truth := int(x.truths[place])
		if out.bound, err = x.ledger.bind(x.question, a.chain.bound, name, truth); err != nil {
			return nil, err
		}
		out.method = methodRaise
		level, err = responses.Raise(sampler, epsilon, truth)
	}
	out.response = level.Response
	return out, err
}

// bind checks a truth against the one a chain is bound to. It returns the tag to bind it by if it is
// not bound yet, or nil if it is, or if the ledger has no truth key.
func (l *Ledger) bind(q *question, bound *tag, name string, truth int) (*tag, error) {
	binder := l.binder
	switch {
	case binder == nil && bound == nil:
		return nil, nil
	case binder == nil:
		return nil, fmt.Errorf("object %q: %w: its chain is bound to its truth, and the ledger was opened without the key", name, ErrTruthKey)
	}
	t := binder.truth(name, q.number, truth)
	if bound == nil {
		return &t, nil
	}
	if !bound.equal(t) {
		return nil, fmt.Errorf("question %q, object %q: %w", q.name, name, ErrTruthChanged)
	}
	return nil, nil
}
