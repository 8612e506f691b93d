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
	Pending       int // entries that earlier steps of the same request add to the chain
	// Level returns the ε that the object's chain in another question will have, if the request is
	// also about that question. It is nil if the request is about one question.
	Level func(question uint32) (privacy.Epsilon, bool)
}

// Earlier returns the earlier of two times. A decision uses the earlier of the time at which it was
// assessed and the current clock. If the clock has gone back since, less may be allowed now. If it
// has gone on, more may be allowed, but that would need true values that were not requested.
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

// Assess decides what a request means for an object, from its budgets and recorded levels. The
// verdict is [event.Reused] for a recorded level, and [event.Derived] for another level below the
// current one. It is [event.Drawn] for a level above the current one, and has no meaning with a
// refusal. Assess does not use the true value, so that a refusal reveals nothing about it.
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

// lacksNoiseKey reports whether no new response is possible for a chain that began with a noise
// key, because the host did not give that key. A read-only ledger needs no keys: its quotes are
// those of a ledger that has them.
func (l *Rules) lacksNoiseKey(c state.Chain) bool { return !l.ReadOnly && l.Noise.lacks(c) }

// Charge is a request with what it would add to the spent budget of an object in a question.
type Charge struct {
	Request
	Cost  privacy.Epsilon // the ε to be charged
	After privacy.Epsilon // the ε of the highest level of the chain after the request
}

// Headroom is the remaining budget of an object.
type Headroom struct {
	Ceiling, Spent   privacy.Epsilon // of the chain
	Free, Left       privacy.Epsilon // left under the ceiling: if others held nothing, and after what they hold
	CapFree, CapLeft privacy.Epsilon // the same for the cap of the object
}

// Most returns the largest ε that can be charged: the lower of what the ceiling and the cap leave
// after all holds.
func (h Headroom) Most() privacy.Epsilon { return state.Lower(h.Left, h.CapLeft) }

// HeadroomOf returns the remaining budget of an object at a time, after what other requests hold.
// buyers is the number of buyers by which the policy sets the ceiling of the chain. Both the
// requests and the checks of the fold compute it here.
func HeadroomOf(subject *Subject, at time.Time, buyers uint64, held Held) (h Headroom) {
	h.Spent, h.Ceiling = subject.Chain.Spent(), subject.Policy.Ceiling(at, buyers)
	h.Free = state.Minus(h.Ceiling, h.Spent)
	// Each new buyer raises the ceiling by a share. What the host's raises and known buyers hold
	// (held.plain) must remain even if no other buyer comes. What a new buyer holds (held.shares)
	// must remain under the ceiling with the share of this one buyer, because other orders may
	// never be executed.
	h.Left = state.Minus(h.Free, held.plain)
	if !held.shares.IsZero() {
		shared := state.Minus(subject.Policy.Ceiling(at, buyers+1), h.Spent)
		h.Left = state.Lower(h.Left, state.Minus(shared, held.shares))
	}
	h.CapFree = state.Minus(subject.Object.Cap, subject.Object.Spent)
	h.CapLeft = state.Minus(h.CapFree, held.all)
	return h
}

// Headroom returns the remaining budget of an object for a charge. Budget that reservations and
// these holds keep for other requests, on all chains as they would be after the charge, counts as
// spent.
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

// CheckBudget returns the refusal of an object if a charge would exceed its cap or the ceiling of
// its chain, or nil. The remedy is waiting if the charge is possible once other holds have ended or
// the ceiling has risen.
func (l *Rules) CheckBudget(s *state.State, subject *Subject, req Charge) (*api.Refusal, error) {
	h, err := req.Headroom(s, subject, l.Holds.List())
	if err != nil || !h.Most().Less(req.Cost) {
		return nil, err
	}
	r := &api.Refusal{Object: subject.Name, Asked: req.Epsilon, Cost: req.Cost, Remedy: event.RemedyNothing}
	helps := !h.CapFree.Less(req.Cost) // the cap never rises, so waiting helps only if other holds take what is missing
	if h.Left.Less(req.Cost) {
		r.Reason, r.Ceiling, r.Spent, r.Remaining = api.ChainCeiling, h.Ceiling, h.Spent, h.Left
		// It is possible now without the holds, or at the highest ceiling that the policy ever
		// sets.
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
