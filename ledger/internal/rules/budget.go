package rules

import (
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Asking is what a request wants of each of its objects.
type Asking struct {
	Question *event.Question // whose chains it is about
	Epsilon  privacy.Epsilon // the level that is asked for
	At       time.Time       // ceilings are those of this instant
	Buyer    uint32          // who orders; 0 if nobody does, or somebody new to the ledger
	Newcomer bool            // whoever orders holds no level of the chain, and unlocks a share by this
	Hold     *Hold           // the request's own hold, which does not stand in its way
	Sale     uint64          // the reservation it comes from, which is served before all others
	// Reserving tells that it is asked for as a reservation, which is one more of the object.
	Reserving bool
	Pending   int // entries that the request adds to the chain before this level
	// Level returns the ε that a chain of the object in another question is about to get, if the
	// request is about that question too. It is nil if the request has but one.
	Level func(question uint32) (privacy.Epsilon, bool)
}

// Earlier returns the earlier of two instants: what a request was found to be allowed when it was
// surveyed does not hold for a clock that has jumped back since, and what a later instant allows
// would need truths that were not asked for.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Latest returns the latest of some instants: what waits for several things waits for the last.
func Latest(first time.Time, others ...time.Time) time.Time {
	for _, other := range others {
		if first.Before(other) {
			first = other
		}
	}
	return first
}

// Assess decides, from budgets and recorded levels alone, what a request means for an object. It
// never looks at the truth, so a refusal tells nothing about it.
func (l *Rules) Assess(s *state.State, x *Subject, ask Asking) (event.Verdict, *api.Refusal, error) {
	if refusal, err := l.checkFull(s, x, &ask); err != nil || refusal != nil {
		return event.Drawn, refusal, err
	}
	if _, recorded := x.Chain.At(ask.Epsilon); recorded {
		return event.Reused, nil, nil
	}
	if l.lacksNoiseKey(x.Chain) {
		return event.Drawn, refuse(x.Name, ask.Epsilon, api.NoNoiseKey, event.RemedyKey), nil
	}
	current := x.Chain.Current()
	if ask.Epsilon.Less(current) {
		return event.Derived, nil, nil
	}
	if refusal := l.LacksTruthKey(x.Name, ask.Epsilon); refusal != nil {
		return event.Drawn, refusal, nil
	}
	refusal, err := l.CheckBudget(s, x, Charge{ask, state.Minus(ask.Epsilon, current), ask.Epsilon})
	return event.Drawn, refusal, err
}

// lacksNoiseKey tells whether nothing can be drawn for a chain for want of its key. Who only reads
// has no need of keys, and quotes as who has them.
func (l *Rules) lacksNoiseKey(c state.Chain) bool { return !l.ReadOnly && l.Noise.lacks(c) }

// Charge is what a request would add to an object's spending on a question.
type Charge struct {
	Asking
	Cost    privacy.Epsilon // what it adds
	Reaches privacy.Epsilon // the ε of the chain's highest level afterwards
}

// Headroom is the budget that is left of an object.
type Headroom struct {
	Ceiling, Spent   privacy.Epsilon // of the chain
	Free, Left       privacy.Epsilon // under the ceiling, without and with what others hold
	CapFree, CapLeft privacy.Epsilon // the same under the object's cap
}

// Most returns what can be charged.
func (h Headroom) Most() privacy.Epsilon { return state.Lower(h.Left, h.CapLeft) }

// HeadroomOf returns what is left of an object at an instant, for a chain with so many buyers,
// beside what others hold. Requests and the checks of the fold both compute it here.
func HeadroomOf(x *Subject, at time.Time, buyers uint64, held Held) (h Headroom) {
	h.Spent, h.Ceiling = x.Chain.Spent(), x.Policy.Ceiling(at, buyers)
	h.Free = state.Minus(h.Ceiling, h.Spent)
	// What the host's own raises and known buyers hold must stay without any further buyer, and
	// what a new buyer holds with its own share, whatever becomes of other orders.
	h.Left = state.Minus(h.Free, held.plain)
	if !held.shares.IsZero() {
		shared := state.Minus(x.Policy.Ceiling(at, buyers+1), h.Spent)
		h.Left = state.Lower(h.Left, state.Minus(shared, held.shares))
	}
	h.CapFree = state.Minus(x.Object.Cap, x.Object.Spent)
	h.CapLeft = state.Minus(h.CapFree, held.all)
	return h
}

// Headroom returns what is left of an object, given that the charge is granted. What reservations
// hold counts as spent, and so does what these requests hold in memory.
func (c *Charge) Headroom(s *state.State, x *Subject, holds []*Hold) (h Headroom, err error) {
	held, err := heldBeside(s, x, c, holds)
	if err != nil {
		return h, err
	}
	buyers := x.Chain.Buyers
	if c.Newcomer {
		buyers++
	}
	return HeadroomOf(x, c.At, buyers, held), nil
}

// CheckBudget returns why a charge would break the ceiling of an object's chain, or the object's
// cap, or nil.
func (l *Rules) CheckBudget(s *state.State, x *Subject, ask Charge) (*api.Refusal, error) {
	h, err := ask.Headroom(s, x, l.Holds.List())
	if err != nil || !h.Most().Less(ask.Cost) {
		return nil, err
	}
	r := &api.Refusal{Object: x.Name, Asked: ask.Epsilon, Cost: ask.Cost, Remedy: event.RemedyNothing}
	helps := !h.CapFree.Less(ask.Cost) // for the order that holds the rest
	if h.Left.Less(ask.Cost) {
		r.Reason, r.Ceiling, r.Spent, r.Remaining = api.ChainCeiling, h.Ceiling, h.Spent, h.Left
		possible := !h.Free.Less(ask.Cost) || !state.Minus(x.Policy.Limit(), h.Spent).Less(ask.Cost)
		helps = helps && possible
	} else {
		r.Reason, r.Ceiling, r.Spent, r.Remaining = api.ObjectCap, x.Object.Cap, x.Object.Spent, h.CapLeft
	}
	if helps {
		r.Remedy = event.RemedyWaiting
	}
	return r, nil
}
