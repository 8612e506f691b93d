package ledger

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/policy"
)

func applyBuyer(s *state, c *buyerNamed) error {
	if c.number != s.counters.buyers+1 {
		return errs.Corrupt(nil, "buyer %d follows on buyer %d", c.number, s.counters.buyers)
	}
	if _, twice, err := s.buyerNumber(c.name); err != nil || twice {
		return errs.Corrupt(err, "buyer %q is named twice", c.name)
	}
	if err := names.Check("buyer", c.name); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	s.counters.buyers = c.number
	if err := s.put(bucketBuyers, numberKey(c.number), buyer{name: c.name}.Encode()); err != nil {
		return err
	}
	if err := s.putDefinition(bucketBuyers, c.number); err != nil {
		return err
	}
	return s.putNumber(bucketBuyers, nameKey(c.name), c.number)
}

// newSale makes the record of a sale or reservation that has the next number.
func (s *state) newSale(c deal, status saleStatus, event uint64) (sale, error) {
	if c.sale != s.counters.sales+1 {
		return sale{}, errs.Corrupt(nil, "sale %d follows on sale %d", c.sale, s.counters.sales)
	}
	if c.buyer == 0 || c.buyer > s.counters.buyers || c.question == 0 || c.question > s.counters.questions || c.epsilon.IsZero() || c.objects == 0 || c.objects > MaxPanel {
		return sale{}, errs.Corrupt(nil, "sale %d is of nothing, or to nobody", c.sale)
	}
	s.counters.sales = c.sale
	return sale{status: status, buyer: c.buyer, question: c.question, epsilon: c.epsilon, objects: c.objects, price: c.price, refused: c.refused, event: event}, nil
}

func applyReserved(s *state, c *reserved, ev event) error {
	r, err := s.newSale(c.deal, saleReserved, ev.number)
	if err != nil {
		return err
	}
	r.expires, r.granted = c.expires, ev.number
	if !r.holds(ev.time) {
		return errs.Corrupt(nil, "reservation %d ends before it begins", c.sale)
	}
	s.counters.open = opened{sale: c.sale, objects: c.objects, price: c.price}
	return s.putSale(c.sale, r)
}

// checkOpen refuses an event in the midst of a sale, a reservation, the charges of an answer or the refusals of a
// request that does not belong there.
func (s *state) checkOpen(c change) error {
	if s.counters.refused > 0 || s.counters.unsettled != 0 || s.counters.answer != (answering{}) {
		switch c.(type) {
		case *objectRefused, *settled:
			return nil
		}
		return errs.Corrupt(nil, "%d objects are refused by no request, or sale %d is settled by none, or the answer of event %d", s.counters.refused, s.counters.unsettled, s.counters.answer.event)
	}
	if s.counters.charges.objects > 0 {
		switch c.(type) {
		case *charged, *answered:
			return nil
		}
		return errs.Corrupt(nil, "%d objects are charged for no answer", s.counters.charges.objects)
	}
	open := s.counters.open.sale
	switch c := c.(type) {
	case *held:
		if c.sale == open && open != 0 {
			return nil
		}
	case *sold:
		if c.sale == open && open != 0 {
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
	number, draws := c.open.sale, c.open.tally.draws
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
	if o.price != 0 || !o.tally.isOf(o.erased) {
		return errs.Corrupt(nil, "sale %d is not the sum of its objects", o.sale)
	}
	*o = opened{}
	return nil
}

// isOf tells whether what is left of a tally can be that of so many erased objects. A reservation has none.
func (t saleTally) isOf(erased uint64) bool {
	return t == (saleTally{}) || t.counts(erased)
}

// counts tells whether a tally can be that of so many objects.
func (t saleTally) counts(objects uint64) bool {
	return t.upgrades <= objects && t.draws <= objects && t.resales <= objects && t.degradations <= objects && t.insertions <= objects &&
		t.draws+t.resales+t.degradations+t.insertions == objects
}

// count takes an object of the tally off by how its response came about.
func (t *saleTally) count(m method, upgrade bool) error {
	var left *uint64
	switch m {
	case methodRaise:
		left = &t.draws
	case methodDegrade:
		left = &t.degradations
	case methodInsert:
		left = &t.insertions
	default:
		left = &t.resales
	}
	if *left == 0 || upgrade && t.upgrades == 0 {
		return errs.Corrupt(nil, "more responses by %s, or upgrades, than were counted", m)
	}
	*left--
	if upgrade {
		t.upgrades--
	}
	return nil
}

func applyHeld(s *state, c *held, ev event) error {
	r, err := s.sale(c.sale)
	if err != nil {
		return err
	}
	if r.status != saleReserved {
		return errs.Corrupt(nil, "sale %d is no reservation", c.sale)
	}
	if err := s.counters.take(c.object, c.price); err != nil {
		return err
	}
	ch, o, err := s.enrolledIn(r.question, c.object)
	if err != nil {
		return err
	}
	if err := s.checkPrice(r, ch, o, c.price, ev); err != nil {
		return errs.Corrupt(nil, "object %q, reservation %d: %v", c.object, c.sale, err)
	}
	if o.held, err = s.stillHeld(o.held, 0, ev.time); err != nil {
		return err
	}
	o.held = append(o.held, c.sale)
	s.link(&o.links, ev.number)
	return s.putObject(c.object, o)
}

// checkPrice checks that an object's terms sell the response to the buyer at this price. What was reserved was
// checked then, but for the price and for who holds the level.
func (s *state) checkPrice(r sale, c chain, o object, price uint64, ev event) error {
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
	if err := s.checkRoom(r, recorded, o, terms, ev.time); err != nil || r.status == saleSold && r.granted != 0 {
		return err
	}
	name, err := s.buyerName(r.buyer)
	if err != nil {
		return err
	}
	if !terms.Allows(name) || !terms.Offers(r.epsilon) || !terms.Open(ev.time) {
		return fmt.Errorf("it is not for sale to %q at ε=%s", name, r.epsilon)
	}
	return nil
}

// checkRoom checks that as many buyers may hold a level as hold or have reserved it, with one more.
func (s *state) checkRoom(r sale, recorded level, o object, terms *policy.Terms, at time.Time) error {
	if terms.Holders() == 0 {
		return nil
	}
	reserving, err := s.reserving(o, recorded, deal{buyer: r.buyer, question: r.question, epsilon: r.epsilon}, at)
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

func applyCancelled(s *state, c *cancelled) error {
	r, err := s.sale(c.sale)
	if err != nil {
		return err
	}
	if r.status != saleReserved {
		return errs.Corrupt(nil, "sale %d is cancelled without being reserved", c.sale)
	}
	r.status = saleCancelled
	return s.putSale(c.sale, r)
}

func applySale(s *state, c *saleMade, ev event) error {
	r, err := s.begunSale(c, ev)
	if err != nil {
		return err
	}
	if !c.tally.counts(c.objects) {
		return errs.Corrupt(nil, "sale %d counts other objects than it has", c.sale)
	}
	b, err := s.buyer(c.buyer)
	if err != nil {
		return err
	}
	if c.price > math.MaxInt64-s.counters.revenue {
		return errs.Corrupt(nil, "sale %d brings more than can be counted", c.sale)
	}
	s.counters.sold++
	s.counters.revenue += c.price
	b.sold++
	b.paid += c.price
	s.counters.open = opened{sale: c.sale, objects: c.objects, price: c.price, tally: c.tally}
	if err := s.put(bucketBuyers, numberKey(c.buyer), b.Encode()); err != nil {
		return err
	}
	return s.putSale(c.sale, r)
}

// begunSale makes the record of a sale, a new one or one that was reserved.
func (s *state) begunSale(c *saleMade, ev event) (sale, error) {
	if c.sale > s.counters.sales {
		return s.newSale(c.deal, saleSold, ev.number)
	}
	r, err := s.sale(c.sale)
	if err != nil {
		return r, err
	}
	if !r.holds(ev.time) || r.buyer != c.buyer || r.question != c.question || r.epsilon != c.epsilon || r.objects < c.objects || r.price < c.price {
		return r, errs.Corrupt(nil, "sale %d is not what was reserved", c.sale)
	}
	r.status, r.promised, r.expires = saleSold, r.price, time.Time{}
	r.objects, r.price, r.refused, r.event = c.objects, c.price, c.refused, ev.number
	return r, nil
}

// checkPromise checks that an object of a reservation is sold for no more than was reserved.
func (s *state) checkPromise(r sale, c *sold) error {
	if r.granted == 0 {
		return nil
	}
	at := &s.counters.open.held
	for *at = max(*at, r.granted); ; { // objects are sold in the order in which they were reserved
		*at++
		ev, err := s.event(*at)
		promised, is := ev.change.(*held)
		switch {
		case err != nil || !is || promised.sale != c.sale:
			return errs.Corrupt(err, "object %q was not reserved for sale %d", c.object, c.sale)
		case promised.object == c.object && promised.price < c.price:
			return errs.Corrupt(nil, "object %q is sold for %d, and was reserved for %d", c.object, c.price, promised.price)
		case promised.object == c.object:
			return nil
		}
	}
}

// applySold hands an object's response to a buyer, and its price to the object.
func applySold(s *state, c *sold, ev event) error {
	r, err := s.sale(c.sale)
	if err != nil {
		return err
	}
	ch, o, err := s.enrolledIn(r.question, c.object)
	if err != nil {
		return err
	}
	if r.status != saleSold || r.granted != 0 && (!slices.Contains(o.held, c.sale) || o.withdrawn > r.granted) {
		return errs.Corrupt(nil, "object %q is sold without sale %d, or was not reserved for it", c.object, c.sale)
	}
	if err := s.checkPromise(r, c); err != nil {
		return err
	}
	had := ch.heldBy(r.buyer)
	if err := s.counters.open.tally.count(c.method, !had.IsZero() && had.Less(r.epsilon)); err != nil {
		return err
	}
	if err := s.counters.take(c.object, c.price); err != nil {
		return err
	}
	if err := s.checkPrice(r, ch, o, c.price, ev); err != nil {
		return errs.Corrupt(nil, "object %q, sale %d: %v", c.object, c.sale, err)
	}
	if had.IsZero() {
		ch.buyers++
	}
	if c.method != methodResale {
		cost, err := s.respond(r.question, &ch, r.epsilon, c.response, ev.number)
		if err == nil && !cost.IsZero() {
			err = s.charge(&o, ch, cost, ev)
		}
		if err != nil {
			return errs.Corrupt(err, "object %q, sale %d", c.object, c.sale)
		}
		s.counters.underway.spend(cost, 1)
	}
	if err := s.handOver(&ch, r, c); err != nil {
		return err
	}
	if err := s.putChain(r.question, c.object, ch); err != nil {
		return err
	}
	if c.price > math.MaxInt64-o.earned {
		return errs.Corrupt(nil, "object %q earns more than can be counted", c.object)
	}
	o.earned += c.price
	if o.held, err = s.stillHeld(o.held, c.sale, ev.time); err != nil {
		return err
	}
	s.link(&o.links, ev.number)
	return s.putObject(c.object, o)
}

// handOver makes the buyer a holder of the response that it is sold.
func (s *state) handOver(ch *chain, r sale, c *sold) error {
	at, recorded := findLevel(ch.levels, r.epsilon)
	if !recorded || ch.levels[at].Response != c.value {
		return errs.Corrupt(nil, "object %q, sale %d: the response is not the recorded one", c.object, c.sale)
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
