package rules

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Respond returns the response of a chain at an ε. It returns the recorded response if there is
// one. If ε is above all recorded levels, it draws one from truth, the index of the true value.
// Otherwise it draws one from the neighbouring recorded levels, and ignores truth.
//
// first has the event that binds the chain to the true value, if that must be recorded before the
// response.
func (l *Rules) Respond(
	from state.Samplers, q *event.Question, subject *Subject, epsilon privacy.Epsilon, truth int32,
) (out event.Response, first []event.Change, err error) {
	if err := checkLevels(q, subject); err != nil {
		return out, nil, err
	}
	if at, recorded := subject.Chain.At(epsilon); recorded {
		return event.Response{Value: at.Response, Method: event.MethodResale}, nil, nil
	}
	place, _ := state.FindLevel(subject.Chain.Levels, epsilon) // where the level will be inserted
	if out.Method = event.MethodAt(place, len(subject.Chain.Levels)); out.Method == event.MethodRaise {
		first = l.Bind(q, subject.Chain.Binding(), subject.Name, truth)
	}
	if subject.Chain.Noise != 0 {
		out.Value, err = l.respondFromKey(q, *subject, place, epsilon, truth)
		return out, first, err
	}
	out.Value, err = draw(from, q, subject.Chain.Levels, place, epsilon, truth)
	if err != nil { // anything that the host supplies was checked before
		return out, nil, fmt.Errorf("object %q: %w: %w", subject.Name, errs.ErrCorrupt, err)
	}
	return out, first, nil
}

// checkLevels checks what a draw relies on: the ε of the recorded levels rise, and each has a valid
// response. It returns [errs.ErrCorrupt] otherwise.
func checkLevels(q *event.Question, subject *Subject) error {
	before := privacy.Epsilon{}
	for _, at := range subject.Chain.Levels {
		if !before.Less(at.Epsilon) || !q.Has(at.Epsilon, at.Response) {
			return errs.Corrupt(nil, "object %q has the response %v at ε=%s, after ε=%s", subject.Name, at.Response,
				at.Epsilon, before)
		}
		before = at.Epsilon
	}
	return nil
}

// draw draws the response at an ε that takes this place among the levels of a chain. If the place
// is after the last level, it draws from the true value, given the last level. Otherwise it draws
// from the levels before and after the place alone. These are raising and inserting as in package
// rrchain, and a missing level before the place is the zero level.
func draw(
	c state.Samplers, q *event.Question, levels []state.Level, place int, epsilon privacy.Epsilon, truth int32,
) (v event.Value, err error) {
	var below, above state.Level
	if place > 0 {
		below = levels[place-1]
	}
	raise := place == len(levels)
	if !raise {
		above = levels[place]
	}
	m := len(q.Values)
	switch {
	case q.Encoding == event.EncodingFinite:
		v.Index, err = drawFinite(q.Mechanism, c.Outputs, levels, place, epsilon, truth)
	case q.Encoding == event.EncodingUnary && raise:
		v.Bits, err = c.Values.RaiseUnary(m, asBits(below), epsilon, int(truth))
	case q.Encoding == event.EncodingUnary:
		v.Bits, err = c.Values.BetweenBits(m, asBits(below), epsilon, asBits(above))
	case raise:
		v.Index, err = c.Values.Raise(m, asValue(below), epsilon, int(truth))
	default:
		v.Index, err = c.Values.Between(m, asValue(below), epsilon, asValue(above))
	}
	return v, err
}

// asValue returns a recorded level in direct encoding as a level of package rrchain.
func asValue(l state.Level) rrchain.Level[int] {
	return rrchain.Level[int]{Epsilon: l.Epsilon, Response: l.Response.Index}
}

// asBits returns a recorded level in unary encoding as a level of package rrchain.
func asBits(l state.Level) rrchain.Level[rrchain.Bits] {
	return rrchain.Level[rrchain.Bits]{Epsilon: l.Epsilon, Response: l.Response.Bits}
}

// Bind returns the event that binds a chain to the true value that it is drawn from. It returns nil
// if the chain is already bound, or if the ledger was opened without a truth key.
func (l *Rules) Bind(q *event.Question, to state.TruthBinding, name string, truth int32) []event.Change {
	if l.Binder == nil || to.Tag != nil {
		return nil
	}
	return []event.Change{&event.TruthBound{Object: name, Question: q.Number, Tag: l.Binder.Truth(name, q.Number,
		to.Since, truth)}}
}

// drawFinite is draw for a question in finite encoding, with the family of mechanisms that the host
// has supplied.
func drawFinite(m *api.Mechanism, sampler *finite.Sampler, levels []state.Level, place int,
	epsilon privacy.Epsilon, truth int32) (int, error) {
	at := func(i int) rrchain.Level[int] { // the level at an index, or the zero level before the first
		if i < 0 {
			return rrchain.Level[int]{}
		}
		return rrchain.Level[int]{Epsilon: levels[i].Epsilon, Response: levels[i].Response.Index}
	}
	var made rrchain.Level[int]
	var err error
	if place == len(levels) {
		made, err = sampler.Raise(m.Family, at(place-1), epsilon, int(truth))
	} else {
		made, err = sampler.Between(m.Family, at(place-1), at(place), epsilon)
	}
	return made.Response, err
}
