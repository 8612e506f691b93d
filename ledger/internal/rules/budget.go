package rules

import (
	"time"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
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
	// Level returns the ε that a chain of the object in another question is about to get, if the request
	// is about that question too. It is nil if the request has but one.
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

// Subject reads an object, or says why it can have no part in any request.
func (l *Rules) Subject(s *state.State, q *event.Question, name string, asked privacy.Epsilon) (x Subject, refusal *vocabulary.Refusal, err error) {
	refusal, err = ReadSubject(s, q, name, asked, &x)
	return x, refusal, err
}

// Assess decides, from budgets and recorded levels alone, what a request means for an object. It
// never looks at the truth, so a refusal tells nothing about it.
func (l *Rules) Assess(s *state.State, x *Subject, ask Asking) (event.Verdict, *vocabulary.Refusal, error) {
	if refusal, err := l.checkFull(s, x, &ask); err != nil || refusal != nil {
		return event.Drawn, refusal, err
	}
	if _, recorded := x.Chain.At(ask.Epsilon); recorded {
		return event.Reused, nil, nil
	}
	if l.lacksNoiseKey(x.Chain) {
		return event.Drawn, &vocabulary.Refusal{Object: x.Name, Reason: vocabulary.NoNoiseKey, Asked: ask.Epsilon, Remedy: vocabulary.RemedyKey}, nil
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

// lacksNoiseKey tells whether nothing can be drawn for a chain for want of its key. Who only reads has no need of keys, and
// quotes as who has them.
func (l *Rules) lacksNoiseKey(c state.Chain) bool { return !l.ReadOnly && l.Noise.lacks(c) }

// Charge is what a request would add to an object's spending on a question.
type Charge struct {
	Asking
	Cost    privacy.Epsilon // what it adds
	Reaches privacy.Epsilon // the ε of the chain's highest level afterwards
}

// Room is what there is for a charge.
type Room struct {
	Ceiling, Spent   privacy.Epsilon // of the chain
	Free, Left       privacy.Epsilon // under the ceiling, without and with what others hold
	CapFree, CapLeft privacy.Epsilon // the same under the object's cap
}

// Most returns what can be charged.
func (r Room) Most() privacy.Epsilon { return state.Lower(r.Left, r.CapLeft) }

// Room looks at what an object has left, given that a charge is granted. What others hold counts as spent.
func (l *Rules) Room(s *state.State, x *Subject, ask Charge) (r Room, err error) {
	held, err := l.heldBudget(s, x, ask)
	if err != nil {
		return r, err
	}
	buyers := x.Chain.Buyers
	if ask.Newcomer {
		buyers++
	}
	r.Spent, r.Ceiling = x.Chain.Spent(), x.Policy.Ceiling(ask.At, buyers)
	r.Free = state.Minus(r.Ceiling, r.Spent)
	// What the host's own raises and known buyers hold must stay without any further buyer, and what a new buyer holds
	// with its own share, whatever becomes of other orders.
	r.Left = state.Minus(r.Free, held.plain)
	if !held.shares.IsZero() {
		r.Left = state.Lower(r.Left, state.Minus(state.Minus(x.Policy.Ceiling(ask.At, buyers+1), r.Spent), held.shares))
	}
	r.CapFree = state.Minus(x.Object.Cap, x.Object.Spent)
	r.CapLeft = state.Minus(r.CapFree, held.all)
	return r, nil
}

// CheckBudget returns why a charge would break the ceiling of an object's chain, or the object's cap,
// or nil.
func (l *Rules) CheckBudget(s *state.State, x *Subject, ask Charge) (*vocabulary.Refusal, error) {
	r, err := l.Room(s, x, ask)
	switch {
	case err != nil:
		return nil, err
	case r.Left.Less(ask.Cost):
		possible := !r.Free.Less(ask.Cost) || !state.Minus(x.Policy.Limit(), r.Spent).Less(ask.Cost)
		helps := possible && !r.CapFree.Less(ask.Cost)
		return ask.refusal(vocabulary.Refusal{Object: x.Name, Reason: vocabulary.ChainCeiling, Ceiling: r.Ceiling, Spent: r.Spent, Remaining: r.Left}, helps), nil
	case r.CapLeft.Less(ask.Cost):
		helps := !r.CapFree.Less(ask.Cost) // for the order that holds the rest
		return ask.refusal(vocabulary.Refusal{Object: x.Name, Reason: vocabulary.ObjectCap, Ceiling: x.Object.Cap, Spent: x.Object.Spent, Remaining: r.CapLeft}, helps), nil
	}
	return nil, nil
}

// refusal adds to a refusal what was asked for, and whether waiting helps.
func (c Charge) refusal(r vocabulary.Refusal, waiting bool) *vocabulary.Refusal {
	r.Asked, r.Cost, r.Remedy = c.Epsilon, c.Cost, vocabulary.RemedyNothing
	if waiting {
		r.Remedy = vocabulary.RemedyWaiting
	}
	return &r
}
