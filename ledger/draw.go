package ledger

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// response is how a chain answers at one ε.
type response struct {
	value  value
	method method
}

// respond returns the chain's response at ε: the recorded one, or one drawn now, from the truth if ε is
// above all others. With it comes the change that binds the chain to the truth, if it is to be.
func (l *Ledger) respond(q *question, x subject, epsilon privacy.Epsilon, truth int32) (out response, first []change, err error) {
	for _, at := range x.chain.levels {
		if !q.has(at.Epsilon, at.Response) {
			return out, nil, orCorrupt(nil, "object %q answers with %v", x.name, at.Response)
		}
	}
	if at, recorded := x.chain.at(epsilon); recorded {
		return response{value: at.Response, method: methodResale}, nil, nil
	}
	place, _ := findLevel(x.chain.levels, epsilon)
	if out.method = methodAt(place, len(x.chain.levels)); out.method == methodRaise {
		if first, err = l.bind(q, x.chain.bound, x.name, int(truth)); err != nil {
			return out, nil, err
		}
	}
	if x.chain.noise != 0 {
		out.value, err = l.keyed(q, x, place, epsilon, truth)
		return out, first, err
	}
	order := draw{l.sampler, out.method, epsilon, int(truth)}
	switch q.encoding {
	case Unary:
		out.value.bits, err = drawFrom(order, len(q.values), x.chain.levels, rrchain.NewUnaryChain, func(v value) rrchain.Bits { return v.bits })
	case Finite:
		out.value.index, err = q.mechanism.draw(l.outputs, x.chain.levels, place, epsilon, truth)
	default:
		out.value.index, err = drawFrom(order, len(q.values), x.chain.levels, rrchain.NewChain, func(v value) int { return v.index })
	}
	if err != nil {
		return out, nil, fmt.Errorf("object %q: %w", x.name, err)
	}
	return out, first, nil
}

// draw says what is to be drawn.
type draw struct {
	sampler *rrchain.Sampler
	method  method
	epsilon privacy.Epsilon
	truth   int
}

// drawable is a chain that can be drawn from, with responses of type R.
type drawable[R any] interface {
	Raise(s *rrchain.Sampler, to privacy.Epsilon, truth int) (rrchain.LevelOf[R], error)
	Degrade(s *rrchain.Sampler, to privacy.Epsilon) (rrchain.LevelOf[R], error)
	Insert(s *rrchain.Sampler, at privacy.Epsilon) (rrchain.LevelOf[R], error)
}

// drawFrom draws a response in the encoding that open makes chains of.
func drawFrom[R any, C drawable[R]](o draw, m int, levels []level, open func(m int, recorded ...rrchain.LevelOf[R]) (C, error), of func(value) R) (R, error) {
	recorded := make([]rrchain.LevelOf[R], len(levels))
	for i, l := range levels {
		recorded[i] = rrchain.LevelOf[R]{Epsilon: l.Epsilon, Response: of(l.Response)}
	}
	var made rrchain.LevelOf[R]
	c, err := open(m, recorded...)
	if err != nil {
		return made.Response, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	switch o.method {
	case methodRaise:
		made, err = c.Raise(o.sampler, o.epsilon, o.truth)
	case methodDegrade:
		made, err = c.Degrade(o.sampler, o.epsilon)
	default:
		made, err = c.Insert(o.sampler, o.epsilon)
	}
	return made.Response, err
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
