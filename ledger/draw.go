package ledger

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// response is how a chain answers at one ε.
type response struct {
	value  int
	method method
}

// respond returns the chain's response at ε: the recorded one, or one drawn now, from the truth if ε is
// above all others. With it comes the change that binds the chain to the truth, if it is to be.
func (l *Ledger) respond(q *question, x subject, epsilon privacy.Epsilon, truth int32) (out response, first []change, err error) {
	if at, recorded := x.chain.at(epsilon); recorded {
		return response{value: at.Response, method: methodResale}, nil, nil
	}
	responses, err := x.chain.responses(len(q.values))
	if err != nil {
		return out, nil, fmt.Errorf("%w: object %q: %w", ErrCorrupt, x.name, err)
	}
	var made rrchain.Level
	place, _ := findLevel(x.chain.levels, epsilon)
	switch out.method = methodAt(place, len(x.chain.levels)); out.method {
	case methodRaise:
		if first, err = l.bind(q, x.chain.bound, x.name, int(truth)); err != nil {
			return out, nil, err
		}
		made, err = responses.Raise(l.sampler, epsilon, int(truth))
	case methodDegrade:
		made, err = responses.Degrade(l.sampler, epsilon)
	default:
		made, err = responses.Insert(l.sampler, epsilon)
	}
	out.value = made.Response
	return out, first, err
}

// bind checks a truth against the one a chain is bound to. It returns the change that binds it if it is
// not bound yet, or nothing if it is, or if the ledger has no truth key.
func (l *Ledger) bind(q *question, former *tag, name string, truth int) ([]change, error) {
	binder := l.binder
	switch {
	case binder == nil && former == nil:
		return nil, nil
	case binder == nil:
		return nil, fmt.Errorf("object %q: %w: its chain is bound to its truth, and the ledger was opened without the key", name, ErrTruthKey)
	}
	t := binder.truth(name, q.number, truth)
	if former == nil {
		return []change{&truthBound{name, q.number, t}}, nil
	}
	if !former.equal(t) {
		return nil, fmt.Errorf("question %q, object %q: %w", q.name, name, ErrTruthChanged)
	}
	return nil, nil
}
