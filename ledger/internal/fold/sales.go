package fold

import (
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold/check"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// newSale returns the record of a new sale or reservation, and appends it to the orders of its
// buyer. event is the event that begins it. The caller writes the record.
func newSale(s *state.State, c *event.Deal, status state.SaleStatus, event uint64) (state.Sale, error) {
	ordinal, err := s.AddOrder(c.Buyer, c.Sale)
	s.Counters.Sales = c.Sale
	return state.Sale{
		Status: status, Buyer: c.Buyer, Ordinal: ordinal, Question: c.Question, Epsilon: c.Epsilon,
		Objects: c.Objects, Price: c.Price, Refused: c.Refused, Event: event,
	}, err
}

// applyReserved begins a reservation. The events of its objects follow.
func applyReserved(s *state.State, c *event.Reserved, ev event.Event) error {
	r, err := newSale(s, &c.Deal, state.SaleReserved, ev.Number)
	if err != nil {
		return err
	}
	r.Expires, r.Granted = c.Expires, ev.Number
	return s.PutSale(c.Sale, r)
}

// applyHeld adds the reservation that was just begun to those of one of its objects. It drops those
// that no longer hold budget of the object.
func applyHeld(s *state.State, c *event.Held, ev event.Event, d check.Draw) error {
	d.Object.Held = d.Held
	return putObject(s, c.Object, d.Object, ev.Number)
}

// applyCancelled ends a reservation.
func applyCancelled(s *state.State, c *event.Cancelled, _ event.Event, r state.Sale) error {
	r.Status = state.SaleCancelled
	return s.PutSale(c.Sale, r)
}

// applySale begins a sale, which may have been reserved before. The events of its objects follow.
func applySale(s *state.State, c *event.SaleMade, ev event.Event, r state.Sale) (err error) {
	// Without a reservation, r is the zero value.
	if r.Granted == 0 {
		if r, err = newSale(s, &c.Deal, state.SaleSold, ev.Number); err != nil {
			return err
		}
	} else {
		r.Status, r.Promised, r.Expires = state.SaleSold, r.Price, time.Time{} // Promised keeps the reserved price
		r.Objects, r.Price, r.Refused, r.Event = c.Objects, c.Price, c.Refused, ev.Number
	}
	s.Counters.Sold++
	s.Counters.Revenue += c.Price
	if err := s.AddPaid(c.Buyer, c.Price); err != nil {
		return err
	}
	return s.PutSale(c.Sale, r)
}

// applySold hands the response of an object to a buyer, and adds the price to what the object has
// earned. If the response is not recorded yet, it becomes a level of the chain.
func applySold(s *state.State, c *event.Sold, ev event.Event, d check.Draw) error {
	r := &d.Sale
	// Counted before the buyer becomes a holder.
	if d.Chain.HeldBy(r.Buyer).IsZero() {
		d.Chain.Buyers++
	}
	if c.Method != event.MethodResale {
		if err := addLevel(s, &d, state.NewLevel(r.Epsilon, c.Value, ev.Number)); err != nil {
			return err
		}
	}
	at, _ := state.FindLevel(d.Chain.Levels, r.Epsilon)
	if l := &d.Chain.Levels[at]; !l.IsHeldBy(r.Buyer) {
		l.Holders = append(slices.Clip(l.Holders), state.Holder{Buyer: r.Buyer, Paid: c.Price})
	}
	d.Object.Earned += c.Price
	d.Object.Held = d.Held
	return putBoth(s, r.Question, c.Object, d.Chain, d.Object, ev.Number)
}
