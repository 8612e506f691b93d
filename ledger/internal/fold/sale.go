package fold

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
)

// newSale makes the record of a sale or reservation that has the next number.
func newSale(s *state.State, c event.Deal, status state.SaleStatus, event uint64) (state.Sale, error) {
	if c.Sale != s.Counters.Sales+1 {
		return state.Sale{}, errs.Corrupt(nil, "sale %d follows on sale %d", c.Sale, s.Counters.Sales)
	}
	if c.Buyer == 0 || c.Buyer > s.Counters.Buyers || c.Question == 0 || c.Question > s.Counters.Questions || c.Epsilon.IsZero() || c.Objects == 0 || c.Objects > vocabulary.MaxPanel {
		return state.Sale{}, errs.Corrupt(nil, "sale %d is of nothing, or to nobody", c.Sale)
	}
	ordinal, err := s.AddOrder(c.Buyer, c.Sale)
	s.Counters.Sales = c.Sale
	return state.Sale{
		Status: status, Buyer: c.Buyer, Ordinal: ordinal, Question: c.Question, Epsilon: c.Epsilon, Objects: c.Objects, Price: c.Price, Refused: c.Refused, Event: event,
	}, err
}

// applyReserved begins a reservation. Its objects follow.
func applyReserved(s *state.State, c *event.Reserved, ev event.Event) error {
	r, err := newSale(s, c.Deal, state.SaleReserved, ev.Number)
	if err != nil {
		return err
	}
	r.Expires, r.Granted = c.Expires, ev.Number
	if !r.Holds(ev.Time) {
		return errs.Corrupt(nil, "reservation %d ends before it begins", c.Sale)
	}
	s.Counters.Open = state.Opened{Sale: c.Sale, Objects: c.Objects, Price: c.Price}
	return s.PutSale(c.Sale, r)
}

// checkOpen refuses an event in the midst of a sale, a reservation, the charges of an answer or the refusals of a
// request that does not belong there.
func checkOpen(s *state.State, c event.Change) error {
	if s.Counters.Refused > 0 || s.Counters.Unsettled != 0 || s.Counters.Answer != (state.Answering{}) {
		switch c.(type) {
		case *event.ObjectRefused, *event.Settled:
			return nil
		}
		return errs.Corrupt(nil, "%d objects are refused by no request, or sale %d is settled by none, or the answer of event %d", s.Counters.Refused, s.Counters.Unsettled, s.Counters.Answer.Event)
	}
	if s.Counters.Charges.Objects > 0 {
		switch c.(type) {
		case *event.Charged, *event.Answered:
			return nil
		}
		return errs.Corrupt(nil, "%d objects are charged for no answer", s.Counters.Charges.Objects)
	}
	open := s.Counters.Open.Sale
	switch c := c.(type) {
	case *event.Held:
		if c.Sale == open && open != 0 {
			return nil
		}
	case *event.Sold:
		if c.Sale == open && open != 0 {
			return nil
		}
	default:
		if open == 0 {
			return nil
		}
	}
	return errs.Corrupt(nil, "sale %d is not complete, or not begun", open)
}

// takeObject counts an object of the open sale or reservation, which its request settles behind the last one.
func takeObject(c *state.Counters, object string, price uint64) error {
	number, draws := c.Open.Sale, c.Open.Tally.Draws
	err := takeOpened(&c.Open, object, price)
	if c.Open.Sale == 0 {
		c.Unsettled, c.Underway.Draws = number, draws
	}
	return err
}

// takeOpened counts an object of the open sale or reservation, and closes it behind the last one. The name of one
// whose event is erased is "".
func takeOpened(o *state.Opened, object string, price uint64) error {
	if object != "" && object <= o.Last || o.Objects == 0 || price > o.Price {
		return errs.Corrupt(nil, "object %q, at %d, is no part of sale %d", object, price, o.Sale)
	}
	if object != "" {
		o.Last = object
	} else {
		o.Erased++
	}
	o.Objects, o.Price = o.Objects-1, o.Price-price
	if o.Objects > 0 {
		return nil
	}
	if o.Price != 0 || !o.Tally.IsOf(o.Erased) {
		return errs.Corrupt(nil, "sale %d is not the sum of its objects", o.Sale)
	}
	*o = state.Opened{}
	return nil
}

// applyHeld makes an object part of the open reservation.
func applyHeld(s *state.State, c *event.Held, ev event.Event) error {
	r, err := s.Sale(c.Sale)
	if err != nil {
		return err
	}
	if r.Status != state.SaleReserved {
		return errs.Corrupt(nil, "sale %d is no reservation", c.Sale)
	}
	if err := takeObject(&s.Counters, c.Object, c.Price); err != nil {
		return err
	}
	ch, o, err := enrolledIn(s, r.Question, c.Object)
	if err != nil {
		return err
	}
	if c.Policy != ch.Policy {
		return errs.Corrupt(nil, "object %q, reservation %d: it is reserved under policy %d, and was under policy %d", c.Object, c.Sale, c.Policy, ch.Policy)
	}
	if err := checkPrice(s, r, ch, o, c.Price, ev); err != nil {
		return errs.Corrupt(nil, "object %q, reservation %d: %v", c.Object, c.Sale, err)
	}
	if err := checkHeldRoom(s, c, r, &ch, o, ev.Time); err != nil {
		return err
	}
	if err := addReservation(s, &o, c, ev.Time); err != nil {
		return err
	}
	if err := checkEntries(s, r.Question, &ch, o, ev.Time); err != nil {
		return fmt.Errorf("object %q, reservation %d: %w", c.Object, c.Sale, err)
	}
	return putObject(s, c.Object, o, ev.Number)
}

// checkPrice checks that an object's terms sell the response to the buyer at this price.
func checkPrice(s *state.State, r state.Sale, c state.Chain, o state.Object, price uint64, ev event.Event) error {
	p, err := s.Policy(c.Policy)
	if err != nil {
		return err
	}
	if err := checkDue(p, r, &c, price); err != nil {
		return err
	}
	sale := p.Terms()
	recorded, found := c.At(r.Epsilon)
	switch {
	case found && recorded.IsHeldBy(r.Buyer):
		return nil
	case sale == nil:
		return errors.New("it is not for sale")
	}
	if err := checkRoom(s, r, recorded, o, sale, ev.Time); err != nil {
		return err
	}
	name, err := s.BuyerName(r.Buyer)
	if err != nil {
		return err
	}
	if !sale.Allows(name) || !sale.Offers(r.Epsilon) || !sale.Open(ev.Time) {
		return fmt.Errorf("it is not for sale to %q at ε=%s", name, r.Epsilon)
	}
	return nil
}

// checkDue checks that a price is what is due under a policy.
func checkDue(p policy.Policy, r state.Sale, c *state.Chain, price uint64) error {
	if due := rules.Due(p, c, r.Buyer, r.Epsilon); price != due {
		return fmt.Errorf("the price is %d, not %d", due, price)
	}
	return nil
}

// checkRoom checks that as many buyers may hold a level as hold or have reserved it, with one more.
func checkRoom(s *state.State, r state.Sale, recorded state.Level, o state.Object, policyTerms *policy.Terms, at time.Time) error {
	if policyTerms.Holders() == 0 {
		return nil
	}
	reserving, err := rules.Reserving(s, o, recorded, event.Deal{Buyer: r.Buyer, Question: r.Question, Epsilon: r.Epsilon}, at)
	if err == nil && len(recorded.Holders)+reserving >= policyTerms.Holders() {
		err = fmt.Errorf("%d buyers hold it at ε=%s, and %d have reserved it, of %d who may", len(recorded.Holders), r.Epsilon, reserving, policyTerms.Holders())
	}
	return err
}

// stillHeld returns the reservations of an object without those that hold nothing of it any more, and without one that is being sold.
func stillHeld(s *state.State, o state.Object, sold uint64, at time.Time) ([]uint64, error) {
	var kept []uint64
	for _, number := range o.Held {
		if number == sold {
			continue
		}
		r, err := s.Sale(number)
		if err != nil {
			return nil, err
		}
		if r.HoldsOn(o, at) {
			kept = append(kept, number)
		}
	}
	return kept, nil
}

// applyCancelled ends a reservation.
func applyCancelled(s *state.State, c *event.Cancelled) error {
	r, err := s.Sale(c.Sale)
	if err != nil {
		return err
	}
	if r.Status != state.SaleReserved {
		return errs.Corrupt(nil, "sale %d is cancelled without being reserved", c.Sale)
	}
	r.Status = state.SaleCancelled
	return s.PutSale(c.Sale, r)
}

// applySale begins a sale, new or reserved before. Its objects follow.
func applySale(s *state.State, c *event.SaleMade, ev event.Event) error {
	r, err := begunSale(s, c, ev)
	if err != nil {
		return err
	}
	if !c.Tally.Counts(c.Objects) {
		return errs.Corrupt(nil, "sale %d counts other objects than it has", c.Sale)
	}
	b, err := s.Buyer(c.Buyer)
	if err != nil {
		return err
	}
	if c.Price > math.MaxInt64-s.Counters.Revenue {
		return errs.Corrupt(nil, "sale %d brings more than can be counted", c.Sale)
	}
	s.Counters.Sold++
	s.Counters.Revenue += c.Price
	b.Sold++
	b.Paid += c.Price
	s.Counters.Open = state.Opened{Sale: c.Sale, Objects: c.Objects, Price: c.Price, Tally: c.Tally}
	if err := s.PutBuyer(c.Buyer, b); err != nil {
		return err
	}
	return s.PutSale(c.Sale, r)
}

// begunSale makes the record of a sale, a new one or one that was reserved.
func begunSale(s *state.State, c *event.SaleMade, ev event.Event) (state.Sale, error) {
	if c.Sale > s.Counters.Sales {
		return newSale(s, c.Deal, state.SaleSold, ev.Number)
	}
	r, err := s.Sale(c.Sale)
	if err != nil {
		return r, err
	}
	if !r.Holds(ev.Time) || r.Buyer != c.Buyer || r.Question != c.Question || r.Epsilon != c.Epsilon || r.Objects < c.Objects || r.Price < c.Price {
		return r, errs.Corrupt(nil, "sale %d is not what was reserved", c.Sale)
	}
	if err := checkDropped(s, c.Sale, r, c); err != nil {
		return r, err
	}
	r.Status, r.Promised, r.Expires = state.SaleSold, r.Price, time.Time{}
	r.Objects, r.Price, r.Refused, r.Event = c.Objects, c.Price, c.Refused, ev.Number
	return r, nil
}

// checkPromise checks that an object of a reservation is sold for what is due by the prices that were in force when it was reserved, and
// for no more than was reserved. Whether the terms sell it at all was checked then.
func checkPromise(s *state.State, r state.Sale, ch *state.Chain, o state.Object, c *event.Sold, ev event.Event) error {
	if r.Granted == 0 {
		return nil
	}
	at := &s.Counters.Open.Held
	for *at = max(*at, r.Granted); ; { // objects are sold in the order in which they were reserved
		*at++
		before, err := s.Event(*at)
		promised, is := before.Change.(*event.Held)
		switch {
		case err != nil || !is || promised.Sale != c.Sale:
			return errs.Corrupt(err, "object %q was not reserved for sale %d", c.Object, c.Sale)
		case promised.Object == c.Object && promised.Price < c.Price:
			return errs.Corrupt(nil, "object %q is sold for %d, and was reserved for %d", c.Object, c.Price, promised.Price)
		case promised.Object == c.Object:
			return checkPromised(s, r, promised, ch, o, c, ev)
		}
	}
}

// checkPromised checks an object of a reservation by the terms that were in force when it was reserved.
func checkPromised(s *state.State, r state.Sale, promised *event.Held, ch *state.Chain, o state.Object, c *event.Sold, ev event.Event) error {
	p, err := s.Policy(promised.Policy)
	if err != nil {
		return err
	}
	wrong := checkDue(p, r, ch, c.Price)
	if recorded, found := ch.At(r.Epsilon); wrong == nil && p.Terms() != nil && !(found && recorded.IsHeldBy(r.Buyer)) {
		wrong = checkRoom(s, r, recorded, o, p.Terms(), ev.Time)
		if wrong != nil { // other terms may have let others in since
			changed, err := TermsChangedSince(s, o, r.Granted)
			if err != nil || slices.Contains(changed, r.Question) {
				return err
			}
		}
	}
	if wrong != nil {
		return errs.Corrupt(nil, "object %q, sale %d: %v", c.Object, c.Sale, wrong)
	}
	return nil
}

// applySold hands an object's response to a buyer, and its price to the object.
func applySold(s *state.State, c *event.Sold, ev event.Event) error {
	r, err := s.Sale(c.Sale)
	if err != nil {
		return err
	}
	ch, o, err := enrolledIn(s, r.Question, c.Object)
	if err != nil {
		return err
	}
	if r.Status != state.SaleSold || r.Granted != 0 && (!slices.Contains(o.Held, c.Sale) || o.Withdrawn > r.Granted) {
		return errs.Corrupt(nil, "object %q is sold without sale %d, or was not reserved for it", c.Object, c.Sale)
	}
	if err := checkPromise(s, r, &ch, o, c, ev); err != nil {
		return err
	}
	had := ch.HeldBy(r.Buyer)
	if err := s.Counters.Open.Tally.Take(c.Method, !had.IsZero() && had.Less(r.Epsilon)); err != nil {
		return err
	}
	if err := takeObject(&s.Counters, c.Object, c.Price); err != nil {
		return err
	}
	if r.Granted == 0 {
		if err := checkPrice(s, r, ch, o, c.Price, ev); err != nil {
			return errs.Corrupt(nil, "object %q, sale %d: %v", c.Object, c.Sale, err)
		}
	}
	if had.IsZero() {
		ch.Buyers++
	}
	if c.Method != event.MethodResale {
		cost, err := addResponse(s, r.Question, &ch, r.Epsilon, c.Response, ev.Number)
		if err == nil && !cost.IsZero() {
			err = chargeObject(s, &o, ch, cost, ev)
		}
		if err != nil {
			return errs.Corrupt(err, "object %q, sale %d", c.Object, c.Sale)
		}
		noteSpent(&s.Counters.Underway, cost, 1)
	}
	if c.Method == event.MethodRaise {
		noteDrawn(&s.Counters.Underway, r.Question, o.Latest)
	}
	if err := handOver(s, &ch, r, c); err != nil {
		return err
	}
	if c.Price > math.MaxInt64-o.Earned {
		return errs.Corrupt(nil, "object %q earns more than can be counted", c.Object)
	}
	o.Earned += c.Price
	if o.Held, err = stillHeld(s, o, c.Sale, ev.Time); err != nil {
		return err
	}
	if err := checkEntries(s, r.Question, &ch, o, ev.Time); err != nil {
		return fmt.Errorf("object %q, sale %d: %w", c.Object, c.Sale, err)
	}
	return putBoth(s, r.Question, c.Object, ch, o, ev.Number)
}

// handOver makes the buyer a holder of the response that it is sold.
func handOver(s *state.State, ch *state.Chain, r state.Sale, c *event.Sold) error {
	at, recorded := state.FindLevel(ch.Levels, r.Epsilon)
	if !recorded || ch.Levels[at].Response != c.Value {
		return errs.Corrupt(nil, "object %q, sale %d: the response is not the recorded one", c.Object, c.Sale)
	}
	if ch.Levels[at].IsHeldBy(r.Buyer) {
		return nil
	}
	holders := &ch.Levels[at].Holders
	*holders = append(slices.Clip(*holders), state.Holder{Buyer: r.Buyer, Paid: c.Price})
	return nil
}
