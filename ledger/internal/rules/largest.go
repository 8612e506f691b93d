package rules

import (
	"math"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// OrLess adds to a refusal the largest ε that would do.
func OrLess(r *api.Refusal, largest privacy.Epsilon) {
	r.Largest = largest
	if r.Remedy == event.RemedyNothing && !largest.IsZero() {
		r.Remedy = event.RemedyLess
	}
}

// OrLess finds what would do instead of what a request asks for, and adds it to the refusal. A
// reservation that is carried out cannot be for less.
func (l *Rules) OrLess(s *state.State, x *Subject, ask Asking, on Offering, r *api.Refusal) (err error) {
	if ask.Sale != 0 || !DependsOnEpsilon(r.Reason) {
		return nil
	}
	if full, err := hasAllReservations(s, x, &ask); err != nil || full {
		return err // at each ε
	}
	room, err := l.capacity(s, x, &ask)
	if err != nil {
		return err
	}
	var largest privacy.Epsilon
	if most := state.Below(ask.Epsilon); l.lacksNoiseKey(x.Chain) || !room.takesLevels(ask.Question) {
		largest, err = highestRecorded(x, most, ask.Question, &room, on)
	} else {
		if r.Reason != api.NoTruth && l.LacksTruthKey(x.Name, most) == nil {
			largest, err = l.largestDrawn(s, x, ask, most, on)
		}
		if err == nil && largest.IsZero() {
			largest, err = on(state.Lower(most, x.Chain.Current())) // what is recorded, or lies below it, is free
		}
	}
	OrLess(r, largest)
	return err
}

// Span is how far the responses of an object can go.
type Span struct {
	Now  privacy.Epsilon // all levels up to it can be had at once
	Ever privacy.Epsilon // the same if the ceiling rises as far as need be, and nobody else holds anything
	// Recorded: only levels that are recorded can be had, because the key for others is missing, or
	// the chain is full
	Recorded bool
	capacity capacity // of the chain, for who asks
}

// Span finds out how far the responses of an object can go, for whoever asks; the ε that is asked
// for does not matter.
func (l *Rules) Span(s *state.State, x *Subject, ask Asking) (span Span, err error) {
	current := x.Chain.Current()
	if span.capacity, err = l.capacity(s, x, &ask); err != nil {
		return span, err
	}
	switch {
	case l.lacksNoiseKey(x.Chain), !span.capacity.takesLevels(ask.Question):
		span.Now, span.Ever, span.Recorded = current, current, true
		return span, nil
	case l.LacksTruthKey(x.Name, current) != nil:
		span.Now, span.Ever = current, current
		return span, nil
	}
	span.Now, err = l.budgeted(s, x, ask)
	span.Ever = state.Higher(span.Now, state.Plus(current, state.Minus(x.Object.Cap, x.Object.Spent)))
	return span, err
}

// budgeted returns the ε up to which budgets allow all levels of an object.
func (l *Rules) budgeted(s *state.State, x *Subject, ask Asking) (privacy.Epsilon, error) {
	all := func(most privacy.Epsilon) (privacy.Epsilon, error) { return most, nil }
	drawn, err := l.largestDrawn(s, x, ask, privacy.MaxEpsilon(), all)
	return state.Higher(x.Chain.Current(), drawn), err
}

// Market is up to which ε an object can be sold to a buyer who holds nothing of it.
type Market struct {
	Now privacy.Epsilon // at once; 0 if the sale is not open yet
	// Ever is up to which ε it can be sold before the sale closes, if no reservation is captured:
	// as far as time and buyers raise the ceiling.
	Ever privacy.Epsilon
}

// Market returns up to which ε an object can be sold in a question, whatever keys the ledger was
// opened with: another process may have them. It is 0 if the sale is over, or without terms of
// sale.
func (l *Rules) Market(s *state.State, q *event.Question, x *Subject, at time.Time) (m Market, err error) {
	sale := x.Policy.Terms()
	if sale == nil {
		return m, nil
	}
	ask := Asking{Question: q, Epsilon: privacy.MaxEpsilon(), At: at, Newcomer: true}
	room, err := l.capacity(s, x, &ask)
	if err != nil || !room.takesLevels(q) {
		return m, err
	}
	limit := x.Policy.Limit()
	if closes := sale.Closes(); !closes.IsZero() {
		if !s.Now.Before(closes) {
			return m, nil
		}
		limit = x.Policy.Ceiling(closes.Add(-1), math.MaxUint64)
	}
	free := state.Lower(state.Minus(limit, x.Chain.Spent()), state.Minus(x.Object.Cap, x.Object.Spent))
	m.Ever = state.Plus(x.Chain.Current(), free)
	if sale.Open(s.Now) {
		m.Now, err = l.budgeted(s, x, ask)
	}
	return m, err
}

// Within returns the highest level of a question on offer, up to an ε, that an object can have, or
// 0.
func (l *Rules) Within(
	x *Subject, q *event.Question, span *Span, most privacy.Epsilon, on Offering,
) (privacy.Epsilon, error) {
	if span.Recorded {
		return highestRecorded(x, most, q, &span.capacity, on)
	}
	return on(state.Lower(most, span.Now))
}

// highestRecorded returns the highest recorded level up to an ε that is on offer and that the chain
// has entries for, or 0.
func highestRecorded(
	x *Subject, most privacy.Epsilon, q *event.Question, room *capacity, on Offering,
) (privacy.Epsilon, error) {
	for i := len(x.Chain.Levels) - 1; i >= 0; i-- {
		level := x.Chain.Levels[i].Epsilon
		if most.Less(level) || !room.fits(q, &x.Chain, level) {
			continue
		}
		if offered, err := on(level); err != nil || offered == level {
			return offered, err
		}
	}
	return privacy.Epsilon{}, nil
}

// largestDrawn returns the largest ε on offer, above the chain's current level and at most a given
// one, that budgets allow, or 0. They allow all up to the first that they forbid, or none: what
// others hold must be left in any case, and what of it lies below the level asked for is not
// charged twice. So one level below that is enough to look at.
func (l *Rules) largestDrawn(
	s *state.State, x *Subject, ask Asking, most privacy.Epsilon, on Offering,
) (privacy.Epsilon, error) {
	none, current := privacy.Epsilon{}, x.Chain.Current()
	if !current.Less(most) {
		return none, nil
	}
	charge := Charge{ask, state.Minus(most, current), most}
	r, err := charge.Headroom(s, x, l.Holds.List())
	if err != nil {
		return none, err
	}
	level, err := on(state.Lower(most, state.Plus(current, r.Most())))
	if err != nil || !current.Less(level) {
		return none, err
	}
	refusal, err := l.CheckBudget(s, x, Charge{ask, state.Minus(level, current), level})
	if err != nil || refusal != nil {
		return none, err
	}
	return level, nil
}
