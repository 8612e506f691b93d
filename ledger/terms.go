package ledger

import (
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// checkSale returns why an object that takes part is not to be sold, whatever its budget, or nil.
func (t *trade) checkSale(s *state, x *subject) (*Refusal, error) {
	if t.reserved != 0 && x.object.withdrawn > t.granted {
		return &Refusal{Object: x.name, Reason: Withdrawn, Asked: t.order.Epsilon, Helps: HelpsNothing}, nil // and came back
	}
	if t.reserved != 0 && x.chain.since > t.granted {
		return &Refusal{Object: x.name, Reason: EpochBegun, Asked: t.order.Epsilon, Helps: HelpsNothing}, nil
	}
	return t.checkTerms(s, x, t.order.Epsilon)
}

// checkTerms returns why an object's terms do not let the buyer have its response at an ε, or nil. What a buyer
// holds it may have again whatever the terms say. What is reserved was checked when it was reserved.
func (t *trade) checkTerms(s *state, x *subject, epsilon privacy.Epsilon) (*Refusal, error) {
	recorded, found := x.chain.at(epsilon)
	if t.reserved != 0 || found && recorded.isHeldBy(t.buyer) {
		return nil, nil
	}
	terms := x.policy.Terms()
	if terms != nil && terms.Allows(t.order.Buyer) && terms.Offers(epsilon) && terms.Open(s.now) {
		if terms.Holders() > 0 {
			return t.checkHolders(s, x, epsilon, terms.Holders())
		}
		return nil, nil
	}
	r := &Refusal{Object: x.name, Asked: epsilon, Helps: HelpsNothing}
	switch {
	case terms == nil:
		r.Reason = NotForSale
	case !terms.Allows(t.order.Buyer):
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
func (t *trade) checkHolders(s *state, x *subject, epsilon privacy.Epsilon, most int) (*Refusal, error) {
	recorded, _ := x.chain.at(epsilon)
	reserving, err := s.reserving(x.object, recorded, deal{buyer: t.buyer, question: t.question.number, epsilon: epsilon}, s.now)
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
func (s *state) reserving(o object, recorded level, of deal, at time.Time) (int, error) {
	others := map[uint32]bool{}
	for _, number := range o.held {
		r, err := s.sale(number)
		if err != nil {
			return 0, err
		}
		if r.holdsOn(o, at) && r.question == of.question && r.epsilon == of.epsilon && r.buyer != of.buyer && !recorded.isHeldBy(r.buyer) {
			others[r.buyer] = true
		}
	}
	return len(others), nil
}
