package check

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

// checkDeal checks a new sale or reservation: the next number, a known buyer and question, an ε
// above 0, and a possible number of objects.
func checkDeal(n *state.Counters, c *event.Deal) error {
	if c.Sale != n.Sales+1 {
		return fault("sale %d follows sale %d: the numbers must be consecutive", c.Sale, n.Sales)
	}
	isNamed := c.Buyer != 0 && c.Buyer <= n.Buyers && c.Question != 0 && c.Question <= n.Questions
	if !isNamed || c.Epsilon.IsZero() || c.Objects == 0 || c.Objects > api.MaxPanel {
		return fault("sale %d: needs a known buyer and question, ε > 0, and 1 to %d objects", c.Sale,
			api.MaxPanel)
	}
	return nil
}

// Reserved checks a reservation, and sets the sums that its objects must add up to.
func Reserved(s *state.State, c *event.Reserved, ev event.Event) error {
	if err := checkDeal(&s.Counters, &c.Deal); err != nil {
		return err
	}
	if !ev.Time.Before(c.Expires) {
		return fault("reservation %d expires before it is granted", c.Sale)
	}
	s.Counters.Open = state.Opened{Sale: c.Sale, Objects: c.Objects, Price: c.Price}
	return nil
}

// Cancelled checks that what is cancelled is a reservation that was neither captured nor cancelled.
// It returns the reservation, which may have expired.
func Cancelled(s *state.State, c *event.Cancelled, _ event.Event) (state.Sale, error) {
	r, err := s.Sale(c.Sale)
	if err == nil && r.Status != state.SaleReserved {
		err = fault("sale %d is cancelled, but is not an open reservation", c.Sale)
	}
	return r, err
}

// Sale checks the event that begins a sale, which may have been reserved before. It sets the sums
// that the objects must add up to (s.Counters.Open). It returns the reservation or, for a sale that
// was not reserved, the zero value.
func Sale(s *state.State, c *event.SaleMade, ev event.Event) (r state.Sale, err error) {
	if c.Sale > s.Counters.Sales { // a new number: no reservation is captured
		err = checkDeal(&s.Counters, &c.Deal)
	} else {
		r, err = s.Sale(c.Sale)
		if err == nil {
			err = checkCapture(s, r, c, ev)
		}
	}
	if err != nil {
		return r, err
	}
	if !c.Tally.Counts(c.Objects) {
		return r, fault("sale %d: its tally does not count its objects", c.Sale)
	}
	if c.Price > math.MaxInt64-s.Counters.Revenue {
		return r, fault("sale %d: the revenue would exceed the largest amount that can be counted", c.Sale)
	}
	s.Counters.Open = state.Opened{Sale: c.Sale, Objects: c.Objects, Price: c.Price, Tally: c.Tally}
	return r, nil
}

// checkCapture checks the event that begins a sale against its open reservation r. Each reserved
// object must be sold or refused, except forgotten ones, which no event names any more. The sale
// may not cost more than was reserved.
func checkCapture(s *state.State, r state.Sale, c *event.SaleMade, ev event.Event) error {
	same := r.Buyer == c.Buyer && r.Question == c.Question && r.Epsilon == c.Epsilon
	if !r.Holds(ev.Time) || !same || r.Objects < c.Objects || r.Price < c.Price {
		return fault("sale %d is not the order that was reserved, or the reservation is not open", c.Sale)
	}
	left := r.Objects - c.Objects // reserved objects that are not sold
	if c.Refused == left {
		return nil
	}
	if c.Refused > left || erasedHeld(s, r.Granted, r.Objects) < left-c.Refused {
		return fault("sale %d sells %d objects and refuses %d, but %d were reserved", c.Sale, c.Objects, c.Refused,
			r.Objects)
	}
	return nil
}

// noteShare counts an object of the open sale or reservation, at its price. object is "" if its
// event is erased. After the last object, the sale or reservation is marked as not settled yet.
// Then the draws left in its tally are those of erased events.
func noteShare(n *state.Counters, object string, price uint64) error {
	number, draws := n.Open.Sale, n.Open.Tally.Draws
	err := noteOpened(&n.Open, object, price)
	if n.Open.Sale == 0 {
		n.Unsettled, n.InProgress.ErasedDraws = number, draws
	}
	return err
}

// noteOpened subtracts an object and its price from the sums of the open sale or reservation. After
// the last object it checks that nothing is left but the tally of the erased objects, and clears o.
// object is "" if its event is erased.
func noteOpened(o *state.Opened, object string, price uint64) error {
	if object != "" && object <= o.Last || o.Objects == 0 || price > o.Price {
		return fault("object %q at the price %d is not part of sale %d", object, price, o.Sale)
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
		return fault("sale %d: its price or its tally is not the sum of its objects", o.Sale)
	}
	*o = state.Opened{}
	return nil
}

// inSale returns an object that is part of a sale or reservation, with its chain, the sale and the
// question. It returns [errs.ErrCorrupt] if the object is not enrolled in the question.
func inSale(s *state.State, number uint64, object string) (d Draw, err error) {
	r, err := s.Sale(number)
	if err != nil {
		return d, err
	}
	if d, err = enrolledIn(s, r.Question, object); err != nil {
		return d, err
	}
	d.Sale = r
	d.Question, err = s.Question(r.Question)
	return d, err
}

// Held checks that an object can be reserved, at the price and under the policy in the event. In
// its result, Held has the new reservation.
func Held(s *state.State, c *event.Held, ev event.Event) (d Draw, err error) {
	if d, err = inSale(s, c.Sale, c.Object); err != nil {
		return d, err
	}
	if d.Sale.Status != state.SaleReserved {
		return d, fault("sale %d is not a reservation", c.Sale)
	}
	if err := noteShare(&s.Counters, c.Object, c.Price); err != nil {
		return d, err
	}
	if err := d.checkHeld(s, c, ev.Time); err != nil {
		return d, fmt.Errorf("object %q, reservation %d: %w", c.Object, c.Sale, err)
	}
	return d, nil
}

// checkHeld checks the policy and the price of a reserved object, and that there are budget,
// entries and a reservation left for it. It sets d.Held. The request itself may have been limited
// further, by a clock that had gone back and by holds in memory.
func (d *Draw) checkHeld(s *state.State, c *event.Held, at time.Time) (err error) {
	if c.Policy != d.Chain.Policy {
		return fault("it is reserved under policy %d, but is enrolled under policy %d", c.Policy, d.Chain.Policy)
	}
	if err := d.checkPrice(s, c.Price); err != nil {
		return err
	}
	// ReadOnly, because the keys that a draw needs do not matter here.
	anyKey := rules.Rules{ReadOnly: true}
	_, refusal, err := anyKey.Assess(s, &d.Subject, rules.Request{
		Question: d.Question, Epsilon: d.Sale.Epsilon, At: at, Buyer: d.Sale.Buyer, IsReservation: true,
		IsNewBuyer: d.Chain.HeldBy(d.Sale.Buyer).IsZero(),
	})
	if err == nil && refusal != nil {
		err = fault("it cannot be reserved: %v", refusal)
	}
	if err != nil {
		return err
	}
	// 0: no reservation is being captured
	d.Held, err = s.StillHeld(d.Object, 0)
	d.Held = append(d.Held, c.Sale)
	return err
}

// bidOf returns the order of a recorded sale for a question, which may be set later.
func bidOf(s *state.State, r *state.Sale, q *event.Question) (rules.Bid, error) {
	name, err := s.BuyerName(r.Buyer)
	return rules.Bid{Question: q, Epsilon: r.Epsilon, Client: name, Buyer: r.Buyer, Granted: r.Granted}, err
}

// checkPrice checks that the object's terms of sale sell the response to the buyer now, at this
// price. It sets d.Policy.
func (d *Draw) checkPrice(s *state.State, price uint64) (err error) {
	if d.Policy, err = s.Policy(d.Chain.Policy); err != nil {
		return err
	}
	if err := checkDue(d.Policy, &d.Sale, &d.Chain, price); err != nil {
		return err
	}
	bid, err := bidOf(s, &d.Sale, d.Question)
	if err != nil {
		return err
	}
	refusal, err := bid.CheckSale(s, &d.Subject)
	if err == nil && refusal != nil {
		err = fault("it is not for sale to %q at ε=%s: %s", bid.Client, bid.Epsilon, refusal.Reason)
	}
	return err
}

// checkDue checks that a price is the one that the buyer of r must pay for a chain under a policy.
func checkDue(p policy.Policy, r *state.Sale, c *state.Chain, price uint64) error {
	if due := rules.Due(p, c, r.Buyer, r.Epsilon); price != due {
		return fault("the price due is %d, not %d", due, price)
	}
	return nil
}

// Sold checks that the response of an object can be sold, and its price. It subtracts the object
// from the sums of the open sale. In its result, Held has the reservations that remain.
func Sold(s *state.State, c *event.Sold, ev event.Event) (d Draw, err error) {
	if d, err = inSale(s, c.Sale, c.Object); err != nil {
		return d, err
	}
	r := &d.Sale
	// An object that has withdrawn since the grant is not part of the reservation any more.
	isReserved := slices.Contains(d.Object.Held, c.Sale) && d.Object.Withdrawn <= r.Granted
	if r.Status != state.SaleSold || r.Granted != 0 && !isReserved {
		return d, fault("object %q is sold, but sale %d is not a sale or did not reserve it", c.Object, c.Sale)
	}
	if err := d.checkPromise(s, c); err != nil {
		return d, err
	}
	had := d.Chain.HeldBy(r.Buyer)
	// The last argument reports an upgrade: the buyer holds a lower level.
	if err := s.Counters.Open.Tally.Take(c.Method, !had.IsZero() && had.Less(r.Epsilon)); err != nil {
		return d, err
	}
	if err := noteShare(&s.Counters, c.Object, c.Price); err != nil {
		return d, err
	}
	if err := d.checkSold(s, c, ev.Time); err != nil {
		return d, fmt.Errorf("object %q, sale %d: %w", c.Object, c.Sale, err)
	}
	u := &s.Counters.InProgress
	noteSpent(u, d.Cost, 1)
	if c.Method == event.MethodRaise {
		noteDrawn(u, r.Question, d.Object.Latest)
	}
	return d, nil
}

// checkSold checks the response that is sold, and that there are budget and entries left for it. It
// checks the price only if that was not reserved. It sets d.Held.
func (d *Draw) checkSold(s *state.State, c *event.Sold, at time.Time) (err error) {
	r := &d.Sale
	if r.Granted == 0 {
		if err := d.checkPrice(s, c.Price); err != nil {
			return err
		}
	}
	if err := d.checkHandedOut(s, c, at); err != nil {
		return err
	}
	if c.Price > math.MaxInt64-d.Object.Earned {
		return fault("its earnings would exceed the largest amount that can be counted")
	}
	if d.Held, err = s.StillHeld(d.Object, c.Sale); err != nil {
		return err
	}
	return d.checkEntries(s, r.Epsilon, rules.Recipient{Buys: true, Buyer: r.Buyer}, at)
}

// checkHandedOut checks the response that is sold. That of a resale must be the recorded one. Any
// other must be possible at its place in the chain, and there must be budget for its cost.
func (d *Draw) checkHandedOut(s *state.State, c *event.Sold, at time.Time) error {
	r := &d.Sale
	if c.Method == event.MethodResale {
		if recorded, found := d.Chain.At(r.Epsilon); !found || recorded.Response != c.Value {
			return fault("the response sold is not the recorded one")
		}
		return nil
	}
	if err := d.checkResponse(s, r.Epsilon, c.Response); err != nil || d.Cost.IsZero() {
		return err
	}
	buyers := d.Chain.Buyers
	if d.Chain.HeldBy(r.Buyer).IsZero() {
		buyers++
	}
	return d.checkCharge(s, buyers, at)
}

// checkPromise checks the price of a reserved object that is sold. It must be the price due by the
// terms in force when the object was reserved, and at most the reserved price. Whether the terms
// sell the object was checked when it was reserved. An object of a sale that was not reserved is
// not checked.
func (d *Draw) checkPromise(s *state.State, c *event.Sold) error {
	if d.Sale.Granted == 0 {
		return nil
	}
	// The event of the object in the reservation is searched from the one found last.
	at := &s.Counters.Open.Held
	for *at = max(*at, d.Sale.Granted); ; { // objects are sold in the order in which they were reserved
		*at++
		before, err := s.Event(*at)
		promised, is := before.Change.(*event.Held)
		switch {
		case err != nil || !is || promised.Sale != c.Sale:
			return errs.Corrupt(err, "object %q was not reserved for sale %d", c.Object, c.Sale)
		case promised.Object != c.Object: // not sold, or sold later: the search continues
		case promised.Price < c.Price:
			return fault("object %q is sold for %d, but was reserved for %d", c.Object, c.Price, promised.Price)
		default:
			return d.checkPromised(s, promised, c)
		}
	}
}

// checkPromised checks a reserved object by the policy in force when it was reserved: its price,
// and that the level may have one more holder. promised is the event that reserved it.
func (d *Draw) checkPromised(s *state.State, promised *event.Held, c *event.Sold) error {
	r := &d.Sale
	p, err := s.Policy(promised.Policy)
	if err != nil {
		return err
	}
	wrong := checkDue(p, r, &d.Chain, c.Price)
	recorded, _ := d.Chain.At(r.Epsilon)
	if terms := p.Terms(); wrong == nil && terms != nil && terms.Holders() > 0 && !recorded.IsHeldBy(r.Buyer) {
		bid := rules.Bid{Question: d.Question, Buyer: r.Buyer}
		refusal, err := bid.CheckHolders(s, &d.Subject, r.Epsilon, terms.Holders())
		if err != nil || refusal == nil {
			return err
		}
		changed, err := s.TermsChangedSince(d.Object, r.Granted)
		if err != nil || slices.Contains(changed, r.Question) {
			return err // changed terms may have allowed other holders since then
		}
		wrong = fault("the level has its largest number of holders already: %s", refusal.Reason)
	}
	if wrong != nil {
		wrong = fmt.Errorf("object %q, sale %d: %w", c.Object, c.Sale, wrong)
	}
	return wrong
}

// checkReserved checks that a sale that was reserved refuses only reserved objects. c is the
// settled event of the sale, and number its number. Other names are possible only for objects that
// were forgotten while the sale was decided, because their names are erased from the reservation.
func checkReserved(s *state.State, r state.Sale, c *event.Settled, number uint64) error {
	begun, err := s.Event(r.Granted)
	made, is := begun.Change.(*event.Reserved)
	if err != nil || !is {
		return nil // an audit reports a missing event elsewhere
	}
	refused, err := s.RefusedBefore(number, r.Refused)
	if err != nil {
		return err
	}
	others := uint64(0)
	for _, one := range refused {
		if one.Object != "" && !isHeld(s, r.Granted, made.Objects, one.Object) {
			others++
		}
	}
	// Without the others, and with the erased objects, all reserved objects must be sold or
	// refused.
	if others > 0 && erasedHeld(s, r.Granted, made.Objects)+r.Objects+r.Refused < made.Objects+others {
		return fault("request %q refuses %d objects that were not reserved for sale %d", c.Key, others, c.Sale)
	}
	return nil
}

// erasedHeld returns the number of objects of a reservation whose events are erased. Their events
// follow the event that granted it.
func erasedHeld(s *state.State, granted, objects uint64) (erased uint64) {
	for at := granted + 1; at <= granted+objects; at++ {
		if _, whole := objectOf[*event.Held](s, at); !whole {
			erased++
		}
	}
	return erased
}

// isHeld reports whether an object is part of a reservation. It searches the names by bisection,
// because the events are in the order of names. In place of an erased event it uses the next one
// that is not erased.
func isHeld(s *state.State, granted, objects uint64, object string) bool {
	// next returns the object of the event at index i of the reservation, or of the first later one
	// that is not erased. It returns false if there is none.
	next := func(i int) (name string, found bool) {
		for at := granted + 1 + uint64(i); at <= granted+objects && !found; at++ {
			name, found = objectOf[*event.Held](s, at)
		}
		return name, found
	}
	name, found := next(sort.Search(int(objects), func(i int) bool {
		name, found := next(i)
		return !found || name >= object
	}))
	return found && name == object
}

// objectOf returns the object of the event with a number, and true. It returns false if the event
// is missing, erased or of another kind.
func objectOf[C event.Personal](s *state.State, number uint64) (object string, whole bool) {
	ev, err := s.Event(number)
	c, is := ev.Change.(C)
	if err != nil || !is || ev.Erased != nil {
		return "", false
	}
	return c.About(), true
}
