package rules

import (
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Offer returns the [Offering] of an order for an object. It finds the highest level, up to an ε,
// that is in the question and that the object's terms sell to the buyer now. It does not consider
// budgets. b.Listed must not be set.
func (b *Bid) Offer(s *state.State, subject *Subject) Offering {
	return func(most privacy.Epsilon) (privacy.Epsilon, error) {
		for {
			level := highestOffer(b.Question, subject.Policy.Terms(), most)
			if level.IsZero() {
				return level, nil
			}
			refusal, err := b.checkTerms(s, subject, level)
			switch {
			case err != nil || refusal == nil:
				return level, err
			case refusal.Reason != api.HoldersFull:
				return b.highestHeld(subject, level), nil // all levels are refused for this reason
			}
			most = state.Below(level) // other buyers hold this level, so try the next lower one
		}
	}
}

// highestHeld returns the highest level, up to an ε, that the buyer holds already and that is still
// on offer, or 0. The buyer may always have such a level again.
func (b *Bid) highestHeld(subject *Subject, most privacy.Epsilon) privacy.Epsilon {
	for _, at := range slices.Backward(subject.Chain.Levels) {
		if !most.Less(at.Epsilon) && at.IsHeldBy(b.Buyer) && subject.Policy.Terms().Offers(at.Epsilon) {
			return at.Epsilon
		}
	}
	return privacy.Epsilon{}
}

// Bid is an order as the terms of its objects see it: which buyer would get which level. Question
// must be set for [Bid.Offer] and [Bid.CheckSale].
type Bid struct {
	Question *event.Question // the question of the order
	Epsilon  privacy.Epsilon // the requested level
	Listed   bool            // only levels that terms list are for sale: see [policy.Terms.Lists]
	Client   string          // name of the buyer
	Buyer    uint32          // number of the buyer; 0 if it is new to the ledger
	// Reserved is the reservation that the order captures, or 0. Granted is the event that granted
	// it. Its prices can only have fallen since then, because a buyer never holds less than before.
	Reserved uint64
	Granted  uint64 // 0 without a reservation
}

// CheckSale returns why an enrolled object may not be sold to the buyer, without regard to its
// budget, or nil if it may. For the capture of a reservation, it is refused if the object has
// withdrawn or has begun an epoch since the grant.
func (b *Bid) CheckSale(s *state.State, subject *Subject) (*api.Refusal, error) {
	if b.Reserved != 0 && subject.Object.Withdrawn > b.Granted {
		return refuse(subject.Name, b.Epsilon, api.Withdrawn, event.RemedyNothing), nil // even if enrolled again
	}
	if b.Reserved != 0 && subject.Chain.Since > b.Granted {
		return refuse(subject.Name, b.Epsilon, api.EpochBegun, event.RemedyNothing), nil
	}
	return b.checkTerms(s, subject, b.Epsilon)
}

// Due returns the price that a buyer pays for the response of a chain at an ε, in minor units of
// the currency. The policy p sets the price, and what the buyer has paid for lower levels is
// deducted. The price is 0 for a policy without terms of sale. buyer is 0 for a buyer that holds no
// level.
func Due(p policy.Policy, c *state.Chain, buyer uint32, epsilon privacy.Epsilon) uint64 {
	sale := p.Terms()
	if sale == nil {
		return 0
	}
	return uint64(sale.Upgrade(c.HeldBy(buyer), epsilon, int64(c.PaidBy(buyer))))
}

// Released returns the levels of a question that a policy has released by time alone, up to and
// including a time. They are in rising order, each with the time of its release. buyers is the
// number of buyers of the chain. For a policy with terms of sale it returns none, because its
// levels are released by sales.
func Released(q *event.Question, p policy.Policy, buyers uint64, at time.Time) (levels []policy.Step) {
	if p.Terms() != nil {
		return nil
	}
	last := privacy.Epsilon{}
	for _, one := range p.Releases(at, buyers) {
		// Several ceilings may have the same level.
		if level, found := q.LevelWithin(one.Ceiling); found && last.Less(level) {
			levels = append(levels, policy.Step{At: one.At, Ceiling: level})
			last = level
		}
	}
	return levels
}

// checkTerms returns why the terms of an object do not let the buyer have its response at an ε, or
// nil if they do. A buyer may always have a level again that it holds. A reserved level is not
// checked again, because it was checked when it was reserved.
func (b *Bid) checkTerms(s *state.State, subject *Subject, epsilon privacy.Epsilon) (*api.Refusal, error) {
	recorded, found := subject.Chain.At(epsilon)
	if b.Reserved != 0 || found && recorded.IsHeldBy(b.Buyer) {
		return nil, nil
	}
	terms := subject.Policy.Terms()
	r := &api.Refusal{Object: subject.Name, Asked: epsilon, Reason: Barrier(terms, b.Client, epsilon, s.Now),
		Remedy: event.RemedyNothing}
	if r.Reason == "" && b.Listed && !isListed(b.Question, terms, epsilon) {
		r.Reason = api.NotOnOffer
	}
	switch {
	case r.Reason == "" && terms.Holders() > 0:
		return b.CheckHolders(s, subject, epsilon, terms.Holders())
	case r.Reason == "":
		return nil, nil
	case r.Reason == api.NotOnOffer:
		r.Ceiling, r.Spent = terms.Max(), subject.Chain.Spent()
		r.Remaining = state.Minus(r.Ceiling, r.Spent)
	case r.Reason == api.SaleClosed && s.Now.Before(terms.Opens()):
		r.Remedy = event.RemedyWaiting
	}
	return r, nil
}

// Barrier returns why terms do not sell a level at an ε to a buyer at a time, or "" if they do. It
// does not consider budgets and other holders. terms is nil for an object without terms of sale.
func Barrier(terms *policy.Terms, client string, epsilon privacy.Epsilon, at time.Time) api.Reason {
	switch {
	case terms == nil:
		return api.NotForSale
	case !terms.Allows(client):
		return api.BuyerRefused
	case !terms.Offers(epsilon):
		return api.NotOnOffer
	case !terms.Open(at):
		return api.SaleClosed
	}
	return ""
}

// CheckHolders returns the refusal of an object if the buyer may not become one more holder of the
// level at an ε, or nil if it may. most is the largest number of holders that the terms allow.
// Buyers with a reservation of the level count as holders.
func (b *Bid) CheckHolders(s *state.State, subject *Subject, epsilon privacy.Epsilon, most int) (*api.Refusal, error) {
	recorded, _ := subject.Chain.At(epsilon)
	reserving, err := Reserving(s, subject.Object, recorded, event.Deal{Buyer: b.Buyer, Question: b.Question.Number,
		Epsilon: epsilon}, s.Now)
	holders := len(recorded.Holders)
	if err != nil || holders+reserving < most {
		return nil, err
	}
	refusal := refuse(subject.Name, epsilon, api.HoldersFull, event.RemedyNothing)
	if holders < most {
		refusal.Remedy = event.RemedyWaiting // for a reservation to end
	}
	return refusal, nil
}

// Reserving returns the number of buyers that have reserved a level of an object at a time and do
// not hold it yet. of has the question and the ε of the level, and the buyer that is not counted.
// recorded is the level, or the zero value if it is not recorded.
func Reserving(s *state.State, o state.Object, recorded state.Level, of event.Deal, at time.Time) (int, error) {
	others := map[uint32]bool{}
	for _, number := range o.Held {
		r, err := s.Sale(number)
		if err != nil {
			return 0, err
		}
		isOf := r.Question == of.Question && r.Epsilon == of.Epsilon
		if r.HoldsOn(o, at) && isOf && r.Buyer != of.Buyer && !recorded.IsHeldBy(r.Buyer) {
			others[r.Buyer] = true
		}
	}
	return len(others), nil
}

// MethodOf returns how the response of a chain at an ε is obtained: by resale if it is recorded,
// and else by raise, degradation or insertion.
func MethodOf(c state.Chain, epsilon privacy.Epsilon) event.Method {
	at, recorded := state.FindLevel(c.Levels, epsilon)
	if recorded {
		return event.MethodResale
	}
	return event.MethodAt(at, len(c.Levels))
}
