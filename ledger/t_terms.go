package ledger

import (
	"time"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// methodAt returns how a response comes about that gets this place among the levels of a chain.
func methodAt(place, levels int) event.Method {
	switch place {
	case levels:
		return event.MethodRaise
	case 0:
		return event.MethodDegrade
	default:
		return event.MethodInsert
	}
}

// offer is the offering of an order: what the question and the object's terms have, and the terms let the buyer have.
func (b *bid) offer(s *state.State, x *subject) offering {
	return func(most privacy.Epsilon) (privacy.Epsilon, error) {
		terms := x.policy.Terms()
		for terms != nil && !most.IsZero() {
			level, _ := b.question.Released(most)
			if most = terms.HighestOffer(level); most != level {
				continue // what is for sale may be no level of the question
			}
			refusal, err := b.checkTerms(s, x, level)
			if err != nil || refusal == nil {
				return level, err
			}
			most = state.Below(level) // others hold it
		}
		return privacy.Epsilon{}, nil
	}
}

// bid is what an order is to the terms of its objects: who would have which level.
type bid struct {
	question *event.Question
	epsilon  privacy.Epsilon
	client   string // who buys
	buyer    uint32 // its number; 0 for one new to the ledger
	// reserved is the reservation that the order carries out, if it does, and granted the event that made
	// it. Its prices can only have fallen since: a buyer never holds less than before.
	reserved uint64
	granted  uint64
}

// checkSale returns why an object that takes part is not to be sold, whatever its budget, or nil.
func (b *bid) checkSale(s *state.State, x *subject) (*Refusal, error) {
	if b.reserved != 0 && x.object.Withdrawn > b.granted {
		return &Refusal{Object: x.name, Reason: Withdrawn, Asked: b.epsilon, Helps: HelpsNothing}, nil // and came back
	}
	if b.reserved != 0 && x.chain.Since > b.granted {
		return &Refusal{Object: x.name, Reason: EpochBegun, Asked: b.epsilon, Helps: HelpsNothing}, nil
	}
	return b.checkTerms(s, x, b.epsilon)
}

// checkTerms returns why an object's terms do not let the buyer have its response at an ε, or nil. What a buyer
// holds it may have again whatever the terms say. What is reserved was checked when it was reserved.
func (b *bid) checkTerms(s *state.State, x *subject, epsilon privacy.Epsilon) (*Refusal, error) {
	recorded, found := x.chain.At(epsilon)
	if b.reserved != 0 || found && recorded.IsHeldBy(b.buyer) {
		return nil, nil
	}
	terms := x.policy.Terms()
	if terms != nil && terms.Allows(b.client) && terms.Offers(epsilon) && terms.Open(s.Now) {
		if terms.Holders() > 0 {
			return b.checkHolders(s, x, epsilon, terms.Holders())
		}
		return nil, nil
	}
	r := &Refusal{Object: x.name, Asked: epsilon, Helps: HelpsNothing}
	switch {
	case terms == nil:
		r.Reason = NotForSale
	case !terms.Allows(b.client):
		r.Reason = BuyerRefused
	case !terms.Offers(epsilon):
		r.Reason, r.Ceiling, r.Spent = NotOnOffer, terms.Max(), x.chain.Spent()
		r.Remaining = state.Less(r.Ceiling, r.Spent)
	default:
		r.Reason = SaleClosed
		if s.Now.Before(terms.Opens()) {
			r.Helps = HelpsWaiting
		}
	}
	return r, nil
}

// checkHolders returns why no further buyer may hold the level at an ε, or nil. Those who reserved it count.
func (b *bid) checkHolders(s *state.State, x *subject, epsilon privacy.Epsilon, most int) (*Refusal, error) {
	recorded, _ := x.chain.At(epsilon)
	reserving, err := reserving(s, x.object, recorded, event.Deal{Buyer: b.buyer, Question: b.question.Number, Epsilon: epsilon}, s.Now)
	holders := len(recorded.Buyers)
	if err != nil || holders+reserving < most {
		return nil, err
	}
	refusal := &Refusal{Object: x.name, Reason: HoldersFull, Asked: epsilon, Helps: HelpsNothing}
	if holders < most {
		refusal.Helps = HelpsWaiting // for a reservation to end
	}
	return refusal, nil
}

// reserving counts the buyers, but for the one of a deal, who have reserved its level of an object and do not hold it yet.
func reserving(s *state.State, o state.Object, recorded state.Level, of event.Deal, at time.Time) (int, error) {
	others := map[uint32]bool{}
	for _, number := range o.Held {
		r, err := s.Sale(number)
		if err != nil {
			return 0, err
		}
		if r.HoldsOn(o, at) && r.Question == of.Question && r.Epsilon == of.Epsilon && r.Buyer != of.Buyer && !recorded.IsHeldBy(r.Buyer) {
			others[r.Buyer] = true
		}
	}
	return len(others), nil
}

// methodOf tells how the response of a chain at ε comes about.
func methodOf(c state.Chain, epsilon privacy.Epsilon) event.Method {
	at, recorded := state.FindLevel(c.Levels, epsilon)
	if recorded {
		return event.MethodResale
	}
	return methodAt(at, len(c.Levels))
}
