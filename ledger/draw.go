package ledger

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// respond returns the chain's response at ε: the recorded one, or one drawn now, from the truth if ε is
// above all others. With it comes the change that binds the chain to the truth, if it is to be.
func (l *Ledger) respond(from chances, q *question, x *subject, epsilon privacy.Epsilon, truth int32) (out response, first []change, err error) {
	if err := q.checkLevels(x); err != nil {
		return out, nil, err
	}
	if at, recorded := x.chain.at(epsilon); recorded {
		return response{value: at.Response, method: methodResale}, nil, nil
	}
	place, _ := findLevel(x.chain.levels, epsilon)
	if out.method = methodAt(place, len(x.chain.levels)); out.method == methodRaise {
		first = l.bind(q, x.chain.bond(), x.name, truth)
	}
	if x.chain.noise != 0 {
		out.value, err = l.keyed(q, *x, place, epsilon, truth)
		return out, first, err
	}
	out.value, err = from.draw(q, x.chain.levels, place, epsilon, truth)
	if err != nil { // everything the host had a hand in was checked before
		return out, nil, fmt.Errorf("object %q: %w: %w", x.name, ErrCorrupt, err)
	}
	return out, first, nil
}

// checkLevels checks what a draw depends on: that the levels of a chain rise, and that each can be a response.
func (q *question) checkLevels(x *subject) error {
	before := privacy.Epsilon{}
	for _, at := range x.chain.levels {
		if !before.Less(at.Epsilon) || !q.has(at.Epsilon, at.Response) {
			return errs.Corrupt(nil, "object %q answers with %v at ε=%s, behind ε=%s", x.name, at.Response, at.Epsilon, before)
		}
		before = at.Epsilon
	}
	return nil
}

// draw draws the response that gets a place among the levels of a chain: from the truth behind the last, else without.
func (c chances) draw(q *question, levels []level, place int, epsilon privacy.Epsilon, truth int32) (v value, err error) {
	var below, above level
	if place > 0 {
		below = levels[place-1]
	}
	raise := place == len(levels)
	if !raise {
		above = levels[place]
	}
	m := len(q.values)
	switch {
	case q.encoding == Finite:
		v.index, err = drawFinite(q.mechanism, c.outputs, levels, place, epsilon, truth)
	case q.encoding == Unary && raise:
		v.bits, err = c.sampler.RaiseUnary(m, below.asBits(), epsilon, int(truth))
	case q.encoding == Unary:
		v.bits, err = c.sampler.BetweenUnary(m, below.asBits(), epsilon, above.asBits())
	case raise:
		v.index, err = c.sampler.Raise(m, below.asValue(), epsilon, int(truth))
	default:
		v.index, err = c.sampler.Between(m, below.asValue(), epsilon, above.asValue())
	}
	return v, err
}

func (l level) asValue() rrchain.Level {
	return rrchain.Level{Epsilon: l.Epsilon, Response: l.Response.index}
}

func (l level) asBits() rrchain.BitLevel {
	return rrchain.BitLevel{Epsilon: l.Epsilon, Response: l.Response.bits}
}

// bind returns the change that binds a chain to the truth that it is drawn from, or nothing if it is bound already or
// the ledger has no truth key.
func (l *Ledger) bind(q *question, to bond, name string, truth int32) []change {
	if l.binder == nil || to.tag != nil {
		return nil
	}
	return []change{&truthBound{name, q.number, l.binder.truth(name, q.number, to.since, truth)}}
}
