package ledger

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// respond returns the chain's response at ε: the recorded one, or one drawn now, from the truth if ε is
// above all others. With it comes the change that binds the chain to the truth, if it is to be.
func (l *Ledger) respond(from chances, q *event.Question, x *subject, epsilon privacy.Epsilon, truth int32) (out event.Response, first []event.Change, err error) {
	if err := checkLevels(q, x); err != nil {
		return out, nil, err
	}
	if at, recorded := x.chain.at(epsilon); recorded {
		return event.Response{Value: at.Response, Method: event.MethodResale}, nil, nil
	}
	place, _ := findLevel(x.chain.levels, epsilon)
	if out.Method = methodAt(place, len(x.chain.levels)); out.Method == event.MethodRaise {
		first = l.bind(q, x.chain.bond(), x.name, truth)
	}
	if x.chain.noise != 0 {
		out.Value, err = l.keyed(q, *x, place, epsilon, truth)
		return out, first, err
	}
	out.Value, err = from.draw(q, x.chain.levels, place, epsilon, truth)
	if err != nil { // everything the host had a hand in was checked before
		return out, nil, fmt.Errorf("object %q: %w: %w", x.name, ErrCorrupt, err)
	}
	return out, first, nil
}

// checkLevels checks what a draw depends on: that the levels of a chain rise, and that each can be a response.
func checkLevels(q *event.Question, x *subject) error {
	before := privacy.Epsilon{}
	for _, at := range x.chain.levels {
		if !before.Less(at.Epsilon) || !q.Has(at.Epsilon, at.Response) {
			return errs.Corrupt(nil, "object %q answers with %v at ε=%s, behind ε=%s", x.name, at.Response, at.Epsilon, before)
		}
		before = at.Epsilon
	}
	return nil
}

// draw draws the response that gets a place among the levels of a chain: from the truth behind the last, else without.
func (c chances) draw(q *event.Question, levels []level, place int, epsilon privacy.Epsilon, truth int32) (v event.Value, err error) {
	var below, above level
	if place > 0 {
		below = levels[place-1]
	}
	raise := place == len(levels)
	if !raise {
		above = levels[place]
	}
	m := len(q.Values)
	switch {
	case q.Encoding == Finite:
		v.Index, err = drawFinite(q.Mechanism, c.outputs, levels, place, epsilon, truth)
	case q.Encoding == Unary && raise:
		v.Bits, err = c.sampler.RaiseUnary(m, below.asBits(), epsilon, int(truth))
	case q.Encoding == Unary:
		v.Bits, err = c.sampler.BetweenUnary(m, below.asBits(), epsilon, above.asBits())
	case raise:
		v.Index, err = c.sampler.Raise(m, below.asValue(), epsilon, int(truth))
	default:
		v.Index, err = c.sampler.Between(m, below.asValue(), epsilon, above.asValue())
	}
	return v, err
}

func (l level) asValue() rrchain.Level {
	return rrchain.Level{Epsilon: l.Epsilon, Response: l.Response.Index}
}

func (l level) asBits() rrchain.BitLevel {
	return rrchain.BitLevel{Epsilon: l.Epsilon, Response: l.Response.Bits}
}

// bind returns the change that binds a chain to the truth that it is drawn from, or nothing if it is bound already or
// the ledger has no truth key.
func (l *Ledger) bind(q *event.Question, to bond, name string, truth int32) []event.Change {
	if l.binder == nil || to.tag != nil {
		return nil
	}
	return []event.Change{&event.TruthBound{Object: name, Question: q.Number, Tag: l.binder.truth(name, q.Number, to.since, truth)}}
}
