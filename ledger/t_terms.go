package ledger

import (
	"time"

	"github.com/sluicedp/sluice/ledger/internal/event"
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
func (b *bid) offer(s *state, x *subject) offering {
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
			most = below(level) // others hold it
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
func (b *bid) checkSale(s *state, x *subject) (*Refusal, error) {
	if b.reserved != 0 && x.object.withdrawn > b.granted {
		return &Refusal{Object: x.name, Reason: Withdrawn, Asked: b.epsilon, Helps: HelpsNothing}, nil // and came back
	}
	if b.reserved != 0 && x.chain.since > b.granted {
		return &Refusal{Object: x.name, Reason: EpochBegun, Asked: b.epsilon, Helps: HelpsNothing}, nil
	}
	return b.checkTerms(s, x, b.epsilon)
}

// checkTerms returns why an object's terms do not let the buyer have its response at an ε, or nil. What a buyer
// holds it may have again whatever the terms say. What is reserved was checked when it was reserved.
func (b *bid) checkTerms(s *state, x *subject, epsilon privacy.Epsilon) (*Refusal, error) {
	recorded, found := x.chain.at(epsilon)
	if b.reserved != 0 || found && recorded.isHeldBy(b.buyer) {
		return nil, nil
	}
	terms := x.policy.Terms()
	if terms != nil && terms.Allows(b.client) && terms.Offers(epsilon) && terms.Open(s.now) {
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
		r.Reason, r.Ceiling, r.Spent = NotOnOffer, terms.Max(), x.chain.spent()
		r.Remaining = less(r.Ceiling, r.Spent)
	default:
		r.Reason = SaleClosed
		if s.now.Before(terms.Opens()) {
			r.Helps = HelpsWaiting
		}
	}
	return r, nil
}

// checkHolders returns why no further buyer may hold the level at an ε, or nil. Those who reserved it count.
func (b *bid) checkHolders(s *state, x *subject, epsilon privacy.Epsilon, most int) (*Refusal, error) {
	recorded, _ := x.chain.at(epsilon)
	reserving, err := s.reserving(x.object, recorded, event.Deal{Buyer: b.buyer, Question: b.question.Number, Epsilon: epsilon}, s.now)
	holders := len(recorded.buyers)
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
func (s *state) reserving(o object, recorded level, of event.Deal, at time.Time) (int, error) {
	others := map[uint32]bool{}
	for _, number := range o.held {
		r, err := s.sale(number)
		if err != nil {
			return 0, err
		}
		if r.holdsOn(o, at) && r.question == of.Question && r.epsilon == of.Epsilon && r.buyer != of.Buyer && !recorded.isHeldBy(r.buyer) {
			others[r.buyer] = true
		}
	}
	return len(others), nil
}

// methodOf tells how the response of a chain at ε comes about.
func (c chain) methodOf(epsilon privacy.Epsilon) event.Method {
	at, recorded := findLevel(c.levels, epsilon)
	if recorded {
		return event.MethodResale
	}
	return methodAt(at, len(c.levels))
}
