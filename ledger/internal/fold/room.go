package fold

import (
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// checkHeldRoom checks that the ceiling of an object's chain and the object's cap have room for what is reserved, beside what live
// reservations hold. What bound the request was no more than that: the ceiling of a clock that may have gone back, and what requests held
// in memory.
func checkHeldRoom(s *state.State, c *event.Held, r state.Sale, ch *state.Chain, o state.Object, at time.Time) error {
	current := ch.Current()
	if !current.Less(r.Epsilon) {
		return nil // it costs nothing
	}
	p, err := s.Policy(ch.Policy)
	if err != nil {
		return err
	}
	held, err := heldBeside(s, c.Object, r, ch, o, at)
	if err != nil {
		return err
	}
	buyers, cost := ch.Buyers, state.Minus(r.Epsilon, current)
	if ch.HeldBy(r.Buyer).IsZero() {
		buyers++
	}
	free := func(buyers uint64, held privacy.Epsilon) privacy.Epsilon {
		return state.Minus(state.Minus(p.Ceiling(at, buyers), ch.Spent()), held)
	}
	left, capLeft := free(buyers, held.known), state.Minus(state.Minus(o.Cap, o.Spent), held.all)
	if !held.shares.IsZero() {
		left = state.Lower(left, free(buyers+1, held.shares))
	}
	if left.Less(cost) || capLeft.Less(cost) {
		return errs.Corrupt(nil, "object %q, reservation %d: it costs %s, of which the ceiling has %s left, and the cap %s", c.Object, c.Sale, cost, left, capLeft)
	}
	return nil
}

// beside is what live reservations go on to charge an object once another one is carried out.
type beside struct {
	known  privacy.Epsilon // in its question, for buyers who are counted already, or for its own
	shares privacy.Epsilon // the same for others, each of whom unlocks a share
	all    privacy.Epsilon // in all questions
}

// heldBeside returns what live reservations hold of an object beside another one.
func heldBeside(s *state.State, name string, r state.Sale, ch *state.Chain, o state.Object, at time.Time) (held beside, err error) {
	highest := map[uint32]privacy.Epsilon{} // by question
	for _, number := range o.Held {
		other, err := s.Sale(number)
		if err != nil {
			return held, err
		}
		if !other.HoldsOn(o, at) {
			continue
		}
		highest[other.Question] = state.Higher(highest[other.Question], other.Epsilon)
		more := state.Minus(other.Epsilon, r.Epsilon)
		switch {
		case other.Question != r.Question:
		case other.Buyer == r.Buyer || !ch.HeldBy(other.Buyer).IsZero():
			held.known = state.Higher(held.known, more)
		default:
			held.shares = state.Higher(held.shares, more)
		}
	}
	for question, epsilon := range highest {
		level := r.Epsilon
		if question != r.Question {
			other, found, err := s.Chain(question, name)
			if err != nil {
				return held, err
			}
			if !found {
				continue
			}
			level = other.Current()
		}
		held.all = state.Plus(held.all, state.Minus(epsilon, level))
	}
	return held, nil
}
