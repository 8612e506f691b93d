package rules

import (
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Request is what a request asks of one of its objects.
type Request struct {
	Question   *event.Question // the question of the request
	Epsilon    privacy.Epsilon // the requested level
	At         time.Time       // the time whose ceilings apply
	Buyer      uint32          // number of the buyer; 0 without a buyer, or if the buyer is new to the ledger
	IsNewBuyer bool            // the buyer holds no level of the chain, so the sale unlocks a share
	Hold       *Hold           // the request's own hold, which does not limit it
	Sale       uint64          // the captured reservation, or 0; it takes precedence over all others
	// IsReservation is set if the request is for a reservation, which adds one to those of the
	// object.
	IsReservation bool
	Pending       int // entries that the request adds to the chain before this level
	// Level returns the ε that the object's chain in another question will have, if the request is
	// also about that question. It is nil if the request is about one question.
	Level func(question uint32) (privacy.Epsilon, bool)
}

// Earlier returns the earlier of two times. A decision uses the earlier of the time of the
// assessment and the current clock. If the clock has gone back since, the assessment does not hold.
// A later time may allow more, but would need true values that were not requested.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Latest returns the latest of some times.
func Latest(first time.Time, others ...time.Time) time.Time {
	for _, other := range others {
		if first.Before(other) {
			first = other
		}
	}
	return first
}

// Assess decides what a request means for an object, from its budgets and recorded levels. It does
// not use the true value, so that a refusal reveals nothing about it.
func (l *Rules) Assess(s *state.State, subject *Subject, req Request) (event.Verdict, *api.Refusal, error) {
	if refusal, err := l.checkFull(s, subject, &req); err != nil || refusal != nil {
		return event.Drawn, refusal, err
	}
	if _, recorded := subject.Chain.At(req.Epsilon); recorded {
		return event.Reused, nil, nil
	}
	if l.lacksNoiseKey(subject.Chain) {
		return event.Drawn, refuse(subject.Name, req.Epsilon, api.NoNoiseKey, event.RemedyKey), nil
	}
	current := subject.Chain.Current()
	if req.Epsilon.Less(current) {
		return event.Derived, nil, nil
	}
	if refusal := l.LacksTruthKey(subject.Name, req.Epsilon); refusal != nil {
		return event.Drawn, refusal, nil
	}
	refusal, err := l.CheckBudget(s, subject, Charge{req, state.Minus(req.Epsilon, current), req.Epsilon})
	return event.Drawn, refusal, err
}

// lacksNoiseKey reports whether no response can be drawn for a chain because the host did not give
// its noise key. A read-only ledger needs no keys: its quotes are those of a ledger that has them.
func (l *Rules) lacksNoiseKey(c state.Chain) bool { return !l.ReadOnly && l.Noise.lacks(c) }

// Charge is what a request would add to the spent budget of an object in a question.
type Charge struct {
	Request
	Cost  privacy.Epsilon // the ε to be charged
	After privacy.Epsilon // the ε of the highest level of the chain afterwards
}

// Headroom is the remaining budget of an object.
type Headroom struct {
	Ceiling, Spent   privacy.Epsilon // of the chain
	Free, Left       privacy.Epsilon // remaining under the ceiling: without holds of other requests, and after them
	CapFree, CapLeft privacy.Epsilon // the same under the cap of the object
}

// Most returns the largest ε that can be charged.
func (h Headroom) Most() privacy.Epsilon { return state.Lower(h.Left, h.CapLeft) }

// HeadroomOf returns the remaining budget of an object at a time, for a chain with a number of
// buyers, after what other requests hold. Both the requests and the checks of the fold compute it
// here.
func HeadroomOf(subject *Subject, at time.Time, buyers uint64, held Held) (h Headroom) {
	h.Spent, h.Ceiling = subject.Chain.Spent(), subject.Policy.Ceiling(at, buyers)
	h.Free = state.Minus(h.Ceiling, h.Spent)
	// Budget held by the host's raises and by known buyers must remain even if no other buyer
	// comes. Budget held by a new buyer must remain with the share that this buyer unlocks, even if
	// other orders are not executed.
	h.Left = state.Minus(h.Free, held.plain)
	if !held.shares.IsZero() {
		shared := state.Minus(subject.Policy.Ceiling(at, buyers+1), h.Spent)
		h.Left = state.Lower(h.Left, state.Minus(shared, held.shares))
	}
	h.CapFree = state.Minus(subject.Object.Cap, subject.Object.Spent)
	h.CapLeft = state.Minus(h.CapFree, held.all)
	return h
}

// Headroom returns the remaining budget of an object, as it would be if the charge were granted.
// Budget held by reservations and by these holds counts as spent.
func (c *Charge) Headroom(s *state.State, subject *Subject, holds []*Hold) (h Headroom, err error) {
	held, err := heldByOthers(s, subject, c, holds)
	if err != nil {
		return h, err
	}
	buyers := subject.Chain.Buyers
	if c.IsNewBuyer {
		buyers++
	}
	return HeadroomOf(subject, c.At, buyers, held), nil
}

// CheckBudget returns why a charge would exceed the ceiling of an object's chain or the cap of the
// object, or nil if it would not.
func (l *Rules) CheckBudget(s *state.State, subject *Subject, req Charge) (*api.Refusal, error) {
	h, err := req.Headroom(s, subject, l.Holds.List())
	if err != nil || !h.Most().Less(req.Cost) {
		return nil, err
	}
	r := &api.Refusal{Object: subject.Name, Asked: req.Epsilon, Cost: req.Cost, Remedy: event.RemedyNothing}
	helps := !h.CapFree.Less(req.Cost) // waiting helps the order that holds the rest
	if h.Left.Less(req.Cost) {
		r.Reason, r.Ceiling, r.Spent, r.Remaining = api.ChainCeiling, h.Ceiling, h.Spent, h.Left
		possible := !h.Free.Less(req.Cost) || !state.Minus(subject.Policy.Limit(), h.Spent).Less(req.Cost)
		helps = helps && possible
	} else {
		r.Reason, r.Ceiling, r.Spent, r.Remaining = api.ObjectCap, subject.Object.Cap, subject.Object.Spent, h.CapLeft
	}
	if helps {
		r.Remedy = event.RemedyWaiting
	}
	return r, nil
}
