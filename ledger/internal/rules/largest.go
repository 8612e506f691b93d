package rules

import (
	"math"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// SetLargest adds to a refusal the largest ε that is possible instead, or 0. If that is not 0 and
// there is no other remedy, the remedy becomes a lower ε.
func SetLargest(r *api.Refusal, largest privacy.Epsilon) {
	r.Largest = largest
	if r.Remedy == event.RemedyNothing && !largest.IsZero() {
		r.Remedy = event.RemedyLess
	}
}

// FindLargest finds the largest ε that is possible instead of the requested one, and adds it to the
// refusal r. on returns the highest level on offer up to an ε. It adds nothing if the reason does
// not depend on ε, or for the capture of a reservation, which cannot be for a lower ε.
func (l *Rules) FindLargest(s *state.State, subject *Subject, req Request, on Offering, r *api.Refusal) (err error) {
	if req.Sale != 0 || !DependsOnEpsilon(r.Reason) {
		return nil
	}
	if full, err := hasAllReservations(s, subject, &req); err != nil || full {
		return err // the object is refused at each ε
	}
	room, err := l.capacity(s, subject, &req)
	if err != nil {
		return err
	}
	var largest privacy.Epsilon
	// Without the noise key, or in a full chain, only recorded levels are possible.
	if most := state.Below(req.Epsilon); l.lacksNoiseKey(subject.Chain) || !room.takesLevels(req.Question) {
		largest, err = highestRecorded(subject, most, req.Question, &room, on)
	} else {
		if r.Reason != api.NoTruth && l.LacksTruthKey(subject.Name, most) == nil {
			largest, err = l.largestDrawn(s, subject, req, most, on)
		}
		if err == nil && largest.IsZero() {
			largest, err = on(state.Lower(most, subject.Chain.Current())) // the recorded levels cost nothing
		}
	}
	SetLargest(r, largest)
	return err
}

// Span is the range of levels that an object can have, apart from its terms of sale.
type Span struct {
	Now  privacy.Epsilon // all levels up to it are possible at once
	Ever privacy.Epsilon // the same if the ceiling rises enough and no other request holds budget
	// Recorded is set if, of these levels, only the recorded ones are possible, because the key for
	// others is missing or the chain is full.
	Recorded bool
	capacity capacity // entries that the requester can add to the chain
}

// Span returns the range of levels that an object can have for the requester of req. The ε of req
// does not matter. Without the key that new levels need, the range ends at the current level.
func (l *Rules) Span(s *state.State, subject *Subject, req Request) (span Span, err error) {
	current := subject.Chain.Current()
	if span.capacity, err = l.capacity(s, subject, &req); err != nil {
		return span, err
	}
	switch {
	case l.lacksNoiseKey(subject.Chain), !span.capacity.takesLevels(req.Question):
		span.Now, span.Ever, span.Recorded = current, current, true
		return span, nil
	case l.LacksTruthKey(subject.Name, current) != nil:
		span.Now, span.Ever = current, current
		return span, nil
	}
	span.Now, err = l.budgeted(s, subject, req)
	span.Ever = state.Higher(span.Now, state.Plus(current, state.Minus(subject.Object.Cap, subject.Object.Spent)))
	return span, err
}

// budgeted returns the ε up to which the budgets of an object allow all levels. It is at least the
// current level, because levels up to it cost nothing.
func (l *Rules) budgeted(s *state.State, subject *Subject, req Request) (privacy.Epsilon, error) {
	all := func(most privacy.Epsilon) (privacy.Epsilon, error) { return most, nil } // every ε, on offer or not
	drawn, err := l.largestDrawn(s, subject, req, privacy.MaxEpsilon(), all)
	return state.Higher(subject.Chain.Current(), drawn), err
}

// Market is the range of levels at which an object can be sold to a new buyer.
type Market struct {
	Now privacy.Epsilon // all levels up to it can be sold at once; 0 if the sale is not open
	// Ever is the same for any time before the sale closes. It assumes that no reservation is
	// captured, and that time and buyers raise the ceiling as far as possible.
	Ever privacy.Epsilon
}

// Market returns the range of levels at which an object can be sold in a question. It does not
// consider the keys of this process, because another process may have them. Both ends are 0 if
// there are no terms of sale, the chain is full, or the sale has closed.
func (l *Rules) Market(s *state.State, q *event.Question, subject *Subject, at time.Time) (m Market, err error) {
	sale := subject.Policy.Terms()
	if sale == nil {
		return m, nil
	}
	req := Request{Question: q, Epsilon: privacy.MaxEpsilon(), At: at, IsNewBuyer: true}
	room, err := l.capacity(s, subject, &req)
	if err != nil || !room.takesLevels(q) {
		return m, err
	}
	limit := subject.Policy.Limit()
	if closes := sale.Closes(); !closes.IsZero() {
		if !s.Now.Before(closes) {
			return m, nil
		}
		limit = subject.Policy.Ceiling(closes.Add(-1), math.MaxUint64) // the last instant; any number of buyers
	}
	capFree := state.Minus(subject.Object.Cap, subject.Object.Spent)
	free := state.Lower(state.Minus(limit, subject.Chain.Spent()), capFree)
	m.Ever = state.Plus(subject.Chain.Current(), free)
	if sale.Open(s.Now) {
		m.Now, err = l.budgeted(s, subject, req)
	}
	return m, err
}

// Within returns the highest level, up to an ε, that is on offer and within the span of an object,
// or 0. on returns the highest level on offer up to an ε.
func (l *Rules) Within(
	subject *Subject, q *event.Question, span *Span, most privacy.Epsilon, on Offering,
) (privacy.Epsilon, error) {
	if span.Recorded {
		return highestRecorded(subject, most, q, &span.capacity, on)
	}
	return on(state.Lower(most, span.Now))
}

// highestRecorded returns the highest recorded level, up to an ε, that is on offer and fits into
// the capacity of the chain, or 0.
func highestRecorded(
	subject *Subject, most privacy.Epsilon, q *event.Question, room *capacity, on Offering,
) (privacy.Epsilon, error) {
	for i := len(subject.Chain.Levels) - 1; i >= 0; i-- {
		level := subject.Chain.Levels[i].Epsilon
		if most.Less(level) || !room.fits(q, &subject.Chain, level) {
			continue
		}
		if offered, err := on(level); err != nil || offered == level {
			return offered, err
		}
	}
	return privacy.Epsilon{}, nil
}

// largestDrawn returns the largest ε on offer, above the current level and at most a given one,
// that the budgets allow, or 0. on returns the highest level on offer up to an ε.
//
// One check of the level found is enough. The budgets allow either all levels up to a limit or
// none. What others hold must be left in any case, and the part of it up to the requested level is
// not charged twice.
func (l *Rules) largestDrawn(
	s *state.State, subject *Subject, req Request, most privacy.Epsilon, on Offering,
) (privacy.Epsilon, error) {
	none, current := privacy.Epsilon{}, subject.Chain.Current()
	if !current.Less(most) {
		return none, nil
	}
	charge := Charge{req, state.Minus(most, current), most}
	r, err := charge.Headroom(s, subject, l.Holds.List())
	if err != nil {
		return none, err
	}
	level, err := on(state.Lower(most, state.Plus(current, r.Most())))
	if err != nil || !current.Less(level) {
		return none, err
	}
	refusal, err := l.CheckBudget(s, subject, Charge{req, state.Minus(level, current), level})
	if err != nil || refusal != nil {
		return none, err
	}
	return level, nil
}
