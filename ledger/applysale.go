package ledger

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/policy"
)

func applyBuyer(s *state, c *event.BuyerNamed) error {
	if c.Number != s.counters.buyers+1 {
		return errs.Corrupt(nil, "buyer %d follows on buyer %d", c.Number, s.counters.buyers)
	}
	if _, twice, err := s.buyerNumber(c.Name); err != nil || twice {
		return errs.Corrupt(err, "buyer %q is named twice", c.Name)
	}
	if err := names.Check("buyer", c.Name); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	s.counters.buyers = c.Number
	if err := s.put(bucketBuyers, numberKey(c.Number), buyer{name: c.Name}.Encode()); err != nil {
		return err
	}
	if err := s.putDefinition(bucketBuyers, c.Number); err != nil {
		return err
	}
	return s.putNumber(bucketBuyers, nameKey(c.Name), c.Number)
}

// newSale makes the record of a sale or reservation that has the next number.
func (s *state) newSale(c event.Deal, status saleStatus, event uint64) (sale, error) {
	if c.Sale != s.counters.sales+1 {
		return sale{}, errs.Corrupt(nil, "sale %d follows on sale %d", c.Sale, s.counters.sales)
	}
	if c.Buyer == 0 || c.Buyer > s.counters.buyers || c.Question == 0 || c.Question > s.counters.questions || c.Epsilon.IsZero() || c.Objects == 0 || c.Objects > MaxPanel {
		return sale{}, errs.Corrupt(nil, "sale %d is of nothing, or to nobody", c.Sale)
	}
	s.counters.sales = c.Sale
	return sale{status: status, buyer: c.Buyer, question: c.Question, epsilon: c.Epsilon, objects: c.Objects, price: c.Price, refused: c.Refused, event: event}, nil
}

func applyReserved(s *state, c *event.Reserved, ev event.Event) error {
	r, err := s.newSale(c.Deal, saleReserved, ev.Number)
	if err != nil {
		return err
	}
	r.expires, r.granted = c.Expires, ev.Number
	if !r.holds(ev.Time) {
		return errs.Corrupt(nil, "reservation %d ends before it begins", c.Sale)
	}
	s.counters.open = opened{sale: c.Sale, objects: c.Objects, price: c.Price}
	return s.putSale(c.Sale, r)
}

// checkOpen refuses an event in the midst of a sale, a reservation, the charges of an answer or the refusals of a
// request that does not belong there.
func (s *state) checkOpen(c event.Change) error {
	if s.counters.refused > 0 || s.counters.unsettled != 0 || s.counters.answer != (answering{}) {
		switch c.(type) {
		case *event.ObjectRefused, *event.Settled:
			return nil
		}
		return errs.Corrupt(nil, "%d objects are refused by no request, or sale %d is settled by none, or the answer of event %d", s.counters.refused, s.counters.unsettled, s.counters.answer.event)
	}
	if s.counters.charges.objects > 0 {
		switch c.(type) {
		case *event.Charged, *event.Answered:
			return nil
		}
		return errs.Corrupt(nil, "%d objects are charged for no answer", s.counters.charges.objects)
	}
	open := s.counters.open.sale
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

// take counts an object of the open sale or reservation, which its request settles behind the last one.
func (c *counters) take(object string, price uint64) error {
	number, draws := c.open.sale, c.open.tally.Draws
	err := c.open.take(object, price)
	if c.open.sale == 0 {
		c.unsettled, c.underway.draws = number, draws
	}
	return err
}

// take counts an object of the open sale or reservation, and closes it behind the last one. The name of one
// whose event is erased is "".
func (o *opened) take(object string, price uint64) error {
	if object != "" && object <= o.last || o.objects == 0 || price > o.price {
		return errs.Corrupt(nil, "object %q, at %d, is no part of sale %d", object, price, o.sale)
	}
	if object != "" {
		o.last = object
	} else {
		o.erased++
	}
	o.objects, o.price = o.objects-1, o.price-price
	if o.objects > 0 {
		return nil
	}
	if o.price != 0 || !tallyIsOf(o.tally, o.erased) {
		return errs.Corrupt(nil, "sale %d is not the sum of its objects", o.sale)
	}
	*o = opened{}
	return nil
}

// tallyIsOf tells whether what is left of a tally can be that of so many erased objects. A reservation has none.
func tallyIsOf(t event.SaleTally, erased uint64) bool {
	return t == (event.SaleTally{}) || tallyCounts(t, erased)
}

// tallyCounts tells whether a tally can be that of so many objects.
func tallyCounts(t event.SaleTally, objects uint64) bool {
	return t.Upgrades <= objects && t.Draws <= objects && t.Resales <= objects && t.Degradations <= objects && t.Insertions <= objects &&
		t.Draws+t.Resales+t.Degradations+t.Insertions == objects
}

// countInTally takes an object of the tally off by how its response came about.
func countInTally(t *event.SaleTally, m event.Method, upgrade bool) error {
	var left *uint64
	switch m {
	case event.MethodRaise:
		left = &t.Draws
	case event.MethodDegrade:
		left = &t.Degradations
	case event.MethodInsert:
		left = &t.Insertions
	default:
		left = &t.Resales
	}
	if *left == 0 || upgrade && t.Upgrades == 0 {
		return errs.Corrupt(nil, "more responses by %s, or upgrades, than were counted", m)
	}
	*left--
	if upgrade {
		t.Upgrades--
	}
	return nil
}

func applyHeld(s *state, c *event.Held, ev event.Event) error {
	r, err := s.sale(c.Sale)
	if err != nil {
		return err
	}
	if r.status != saleReserved {
		return errs.Corrupt(nil, "sale %d is no reservation", c.Sale)
	}
	if err := s.counters.take(c.Object, c.Price); err != nil {
		return err
	}
	ch, o, err := s.enrolledIn(r.question, c.Object)
	if err != nil {
		return err
	}
	if err := s.checkPrice(r, ch, o, c.Price, ev); err != nil {
		return errs.Corrupt(nil, "object %q, reservation %d: %v", c.Object, c.Sale, err)
	}
	if o.held, err = s.stillHeld(o.held, 0, ev.Time); err != nil {
		return err
	}
	o.held = append(o.held, c.Sale)
	s.link(&o.links, ev.Number)
	return s.putObject(c.Object, o)
}

// checkPrice checks that an object's terms sell the response to the buyer at this price. What was reserved was
// checked then, but for the price and for who holds the level.
func (s *state) checkPrice(r sale, c chain, o object, price uint64, ev event.Event) error {
	p, err := s.policy(c.policy)
	if err != nil {
		return err
	}
	terms, due := p.Terms(), uint64(0)
	if terms != nil {
		due = uint64(terms.Upgrade(c.heldBy(r.buyer), r.epsilon))
	}
	recorded, found := c.at(r.epsilon)
	switch {
	case price != due:
		return fmt.Errorf("the price is %d, not %d", due, price)
	case found && recorded.isHeldBy(r.buyer):
		return nil
	case terms == nil:
		return errors.New("it is not for sale")
	}
	if err := s.checkRoom(r, recorded, o, terms, ev.Time); err != nil || r.status == saleSold && r.granted != 0 {
		return err
	}
	name, err := s.buyerName(r.buyer)
	if err != nil {
		return err
	}
	if !terms.Allows(name) || !terms.Offers(r.epsilon) || !terms.Open(ev.Time) {
		return fmt.Errorf("it is not for sale to %q at ε=%s", name, r.epsilon)
	}
	return nil
}

// checkRoom checks that as many buyers may hold a level as hold or have reserved it, with one more.
func (s *state) checkRoom(r sale, recorded level, o object, terms *policy.Terms, at time.Time) error {
	if terms.Holders() == 0 {
		return nil
	}
	reserving, err := s.reserving(o, recorded, event.Deal{Buyer: r.buyer, Question: r.question, Epsilon: r.epsilon}, at)
	if err == nil && len(recorded.buyers)+reserving >= terms.Holders() {
		err = fmt.Errorf("%d buyers hold it at ε=%s, and %d have reserved it, of %d who may", len(recorded.buyers), r.epsilon, reserving, terms.Holders())
	}
	return err
}

// stillHeld drops reservations that hold nothing any more, and one that is being sold.
func (s *state) stillHeld(numbers []uint64, sold uint64, at time.Time) ([]uint64, error) {
	var kept []uint64
	for _, number := range numbers {
		if number == sold {
			continue
		}
		r, err := s.sale(number)
		if err != nil {
			return nil, err
		}
		if r.holds(at) {
			kept = append(kept, number)
		}
	}
	return kept, nil
}

func applyCancelled(s *state, c *event.Cancelled) error {
	r, err := s.sale(c.Sale)
	if err != nil {
		return err
	}
	if r.status != saleReserved {
		return errs.Corrupt(nil, "sale %d is cancelled without being reserved", c.Sale)
	}
	r.status = saleCancelled
	return s.putSale(c.Sale, r)
}

func applySale(s *state, c *event.SaleMade, ev event.Event) error {
	r, err := s.begunSale(c, ev)
	if err != nil {
		return err
	}
	if !tallyCounts(c.Tally, c.Objects) {
		return errs.Corrupt(nil, "sale %d counts other objects than it has", c.Sale)
	}
	b, err := s.buyer(c.Buyer)
	if err != nil {
		return err
	}
	if c.Price > math.MaxInt64-s.counters.revenue {
		return errs.Corrupt(nil, "sale %d brings more than can be counted", c.Sale)
	}
	s.counters.sold++
	s.counters.revenue += c.Price
	b.sold++
	b.paid += c.Price
	s.counters.open = opened{sale: c.Sale, objects: c.Objects, price: c.Price, tally: c.Tally}
	if err := s.put(bucketBuyers, numberKey(c.Buyer), b.Encode()); err != nil {
		return err
	}
	return s.putSale(c.Sale, r)
}

// begunSale makes the record of a sale, a new one or one that was reserved.
func (s *state) begunSale(c *event.SaleMade, ev event.Event) (sale, error) {
	if c.Sale > s.counters.sales {
		return s.newSale(c.Deal, saleSold, ev.Number)
	}
	r, err := s.sale(c.Sale)
	if err != nil {
		return r, err
	}
	if !r.holds(ev.Time) || r.buyer != c.Buyer || r.question != c.Question || r.epsilon != c.Epsilon || r.objects < c.Objects || r.price < c.Price {
		return r, errs.Corrupt(nil, "sale %d is not what was reserved", c.Sale)
	}
	r.status, r.promised, r.expires = saleSold, r.price, time.Time{}
	r.objects, r.price, r.refused, r.event = c.Objects, c.Price, c.Refused, ev.Number
	return r, nil
}

// checkPromise checks that an object of a reservation is sold for no more than was reserved.
func (s *state) checkPromise(r sale, c *event.Sold) error {
	if r.granted == 0 {
		return nil
	}
	at := &s.counters.open.held
	for *at = max(*at, r.granted); ; { // objects are sold in the order in which they were reserved
		*at++
		ev, err := s.event(*at)
		promised, is := ev.Change.(*event.Held)
		switch {
		case err != nil || !is || promised.Sale != c.Sale:
			return errs.Corrupt(err, "object %q was not reserved for sale %d", c.Object, c.Sale)
		case promised.Object == c.Object && promised.Price < c.Price:
			return errs.Corrupt(nil, "object %q is sold for %d, and was reserved for %d", c.Object, c.Price, promised.Price)
		case promised.Object == c.Object:
			return nil
		}
	}
}

// applySold hands an object's response to a buyer, and its price to the object.
func applySold(s *state, c *event.Sold, ev event.Event) error {
	r, err := s.sale(c.Sale)
	if err != nil {
		return err
	}
	ch, o, err := s.enrolledIn(r.question, c.Object)
	if err != nil {
		return err
	}
	if r.status != saleSold || r.granted != 0 && (!slices.Contains(o.held, c.Sale) || o.withdrawn > r.granted) {
		return errs.Corrupt(nil, "object %q is sold without sale %d, or was not reserved for it", c.Object, c.Sale)
	}
	if err := s.checkPromise(r, c); err != nil {
		return err
	}
	had := ch.heldBy(r.buyer)
	if err := countInTally(&s.counters.open.tally, c.Method, !had.IsZero() && had.Less(r.epsilon)); err != nil {
		return err
	}
	if err := s.counters.take(c.Object, c.Price); err != nil {
		return err
	}
	if err := s.checkPrice(r, ch, o, c.Price, ev); err != nil {
		return errs.Corrupt(nil, "object %q, sale %d: %v", c.Object, c.Sale, err)
	}
	if had.IsZero() {
		ch.buyers++
	}
	if c.Method != event.MethodResale {
		cost, err := s.respond(r.question, &ch, r.epsilon, c.Response, ev.Number)
		if err == nil && !cost.IsZero() {
			err = s.charge(&o, ch, cost, ev)
		}
		if err != nil {
			return errs.Corrupt(err, "object %q, sale %d", c.Object, c.Sale)
		}
		s.counters.underway.spend(cost, 1)
	}
	if err := s.handOver(&ch, r, c); err != nil {
		return err
	}
	if err := s.putChain(r.question, c.Object, ch); err != nil {
		return err
	}
	if c.Price > math.MaxInt64-o.earned {
		return errs.Corrupt(nil, "object %q earns more than can be counted", c.Object)
	}
	o.earned += c.Price
	if o.held, err = s.stillHeld(o.held, c.Sale, ev.Time); err != nil {
		return err
	}
	s.link(&o.links, ev.Number)
	return s.putObject(c.Object, o)
}

// handOver makes the buyer a holder of the response that it is sold.
func (s *state) handOver(ch *chain, r sale, c *event.Sold) error {
	at, recorded := findLevel(ch.levels, r.epsilon)
	if !recorded || ch.levels[at].Response != c.Value {
		return errs.Corrupt(nil, "object %q, sale %d: the response is not the recorded one", c.Object, c.Sale)
	}
	if ch.levels[at].isHeldBy(r.buyer) {
		return nil
	}
	if !s.desk.hasPage() { // else nobody else has them
		ch.levels = slices.Clone(ch.levels)
	}
	holders := &ch.levels[at].buyers
	*holders = append(slices.Clip(*holders), r.buyer)
	return nil
}
