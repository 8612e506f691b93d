package request

import (
	"context"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// Reserve asks to hold an order for some time. Package ledger describes it.
type Reserve struct {
	Key string // idempotency key
	Order
	Limits
	Term
}

// Reserve executes a request to hold an order. It returns the number of the reservation. A small
// order is decided at once; a larger one is assessed before, so that others do not wait while a
// refusal is found.
func (e *Executor) Reserve(ctx context.Context, r Reserve) (uint64, error) {
	if err := r.Term.Check(); err != nil {
		return 0, err
	}
	x := &selling{}
	form, err := x.setOrder(ctx, e, "reserve", r.Key, r.Order, r.Limits)
	if err != nil {
		return 0, err
	}
	form.Field("For").U64(uint64(r.For))
	if !r.Until.IsZero() {
		form.Field("Until").U64(uint64(r.Until.UnixNano()))
	}
	x.id, x.reserving, x.term = form.Finish(), true, r.Term
	x.prompt = !r.All && len(x.names) <= state.PartSize
	number, _, err := x.execute(ctx)
	return number, err
}

// reserve returns the events of the reservation.
func (x *selling) reserve(s *state.State) ([]event.Change, error) {
	expires, err := x.term.Expires(s.Now)
	if err != nil {
		return nil, err
	}
	if expires.Year() > event.LastYear {
		return nil, errs.Invalid("a reservation until %v", expires)
	}
	var under []uint32 // the policies of the objects that answer
	note := func(o rules.Subject, _ *line) { under = append(under, o.Chain.Policy) }
	if err := x.convene(s, s.Clock, note); err != nil {
		return nil, err
	}
	if err := x.accept(x.limits); err != nil {
		return nil, err
	}
	changes, d := x.deal(s)
	changes = append(changes, &event.Reserved{Deal: d, Expires: expires})
	for i, one := range x.lines {
		changes = append(changes, &event.Held{Object: x.names[one.at], Sale: d.Sale, Price: one.price, Policy: under[i]})
	}
	x.sale, x.end.Sale = d.Sale, d.Sale
	return Settling(changes, x.question.Number, x.refused.Listed, x.end), nil
}

// recall reads what was reserved into the trade.
func (x *selling) recall(s *state.State) error {
	r, err := OpenReservation(s, x.Reserved)
	if err != nil {
		return err
	}
	if x.question, err = s.Question(r.Question); err != nil {
		return err
	}
	b, err := s.Buyer(r.Buyer)
	if err != nil {
		return err
	}
	x.epsilon, x.buyer, x.names, x.promised = r.Epsilon, b.Name, nil, nil
	x.Bid = rules.Bid{
		Question: x.question, Client: b.Name, Epsilon: r.Epsilon, Granted: r.Granted, Reserved: x.Reserved,
	}
	var gone RefusalList
	for n := r.Event + 1; n <= r.Event+r.Objects; n++ {
		ev, err := s.Event(n)
		if err != nil {
			return err
		}
		c, ok := ev.Change.(*event.Held)
		if !ok {
			return errs.Corrupt(nil, "event %d reserves nothing", n)
		}
		if ev.Erased != nil { // the object was forgotten, and its name
			withdrawn := vocabulary.Refusal{
				Reason: vocabulary.Withdrawn, Asked: r.Epsilon, Remedy: vocabulary.RemedyNothing,
			}
			gone.Add(withdrawn)
			continue
		}
		x.names, x.promised = append(x.names, c.Object), append(x.promised, c.Policy)
	}
	if gone.Count() > 0 && (!x.partial || len(x.names) == 0) {
		return x.refuse(gone)
	}
	return nil
}

// Cancel executes a request to cancel a reservation.
func (e *Executor) Cancel(ctx context.Context, key string, reservation uint64) error {
	id := event.CancelRequest(reservation)
	return e.Once(ctx, key, "", id, func(s *state.State) (event.Change, error) {
		r, err := Reservation(s, reservation)
		if err == nil && r.Status != state.SaleReserved {
			err = ClosedReservation(reservation, r, s.Now)
		}
		if err != nil {
			return nil, err
		}
		return &event.Cancelled{Sale: reservation}, nil
	})
}
