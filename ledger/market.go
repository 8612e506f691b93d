package ledger

import (
	"context"
	"iter"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Sale returns a sale by its number, or [api.ErrUnknown]. A reservation that was not captured is
// not a sale.
func (l *Ledger) Sale(ctx context.Context, number uint64) (api.Sale, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (api.Sale, error) {
		r, err := request.SoldSale(s, number)
		if err != nil {
			return api.Sale{}, err
		}
		return l.describeSold(s, number, r)
	})
}

// describeSold returns the sale with a number, whose record is r, as hosts read it. Its figures are
// those of the events that began and settled the sale.
func (l *Ledger) describeSold(s *state.State, number uint64, r state.Sale) (out api.Sale, err error) {
	begun, err := s.Event(r.Event)
	if err != nil {
		return out, err
	}
	c, ok := begun.Change.(*event.SaleMade)
	if !ok {
		return out, errs.Corrupt(nil, "event %d is not a sale", begun.Number)
	}
	last := r.Last()
	end, err := s.Settlement(last)
	if err != nil {
		return out, err
	}
	left, err := request.OrderRefusals(s, r)
	if err != nil {
		return out, err
	}
	out = api.Sale{
		Number: number, Ordinal: r.Ordinal, Refused: left, Key: end.Key,
		Time: begun.Time, First: end.First, Last: last,
	}
	if r.Granted != 0 {
		out.Refund = int64(r.Promised - r.Price)
	}
	buyer, question, err := s.NamesOf(r)
	out.Offer = l.requests.Offered(c.Deal, c.Tally, buyer, question)
	return out, err
}

// Sales yields the sales to one buyer in the order of their numbers, or all sales if buyer is "".
func (l *Ledger) Sales(ctx context.Context, buyer string) iter.Seq2[api.Sale, error] {
	return request.EachInPages(ctx, api.Page{Buyer: buyer}, l.SalesPage)
}

// SalesPage returns a part of the list of sales, and the position after which the next part begins;
// 0 at the end of the list. A call reads a bounded number of records. A part may therefore have
// fewer sales than its limit, or none, before the end.
func (l *Ledger) SalesPage(ctx context.Context, p api.Page) (found []api.Sale, next uint64, err error) {
	describe := func(s *state.State, number uint64, r state.Sale) (out api.Sale, size int, err error) {
		if r.Status == state.SaleSold {
			out, err = l.describeSold(s, number, r)
			size = 1 + len(out.Refused)
		}
		// An order outside of the page's bounds is not listed. Neither is a reservation, whose size
		// is 0 here.
		if !p.Within(out.Time) {
			size = 0
		}
		return out, size, err
	}
	return request.OrdersPage(ctx, &l.engine, p, describe)
}

// OrderOf returns the number of a sale or reservation by its ordinal among the orders of a buyer
// ([api.Sale.Ordinal]), or [api.ErrUnknown].
func (l *Ledger) OrderOf(ctx context.Context, buyer string, ordinal uint64) (number uint64, err error) {
	if err := event.CheckName("buyer", buyer); err != nil {
		return 0, err
	}
	return engine.Read(ctx, &l.engine, func(s *state.State) (uint64, error) {
		return request.OrderOf(s, buyer, ordinal)
	})
}

// Reservations yields the reservations of one buyer in the order of their numbers, or all
// reservations if buyer is "". With states, it yields only the reservations in one of them.
// Otherwise it yields all that were ever granted. It yields [api.ErrInvalid] for a state that does
// not exist.
func (l *Ledger) Reservations(
	ctx context.Context, buyer string, states ...string,
) iter.Seq2[api.Reservation, error] {
	return request.EachInPages(ctx, api.Page{Buyer: buyer, States: states}, l.ReservationsPage)
}

// ReservationsPage returns a part of the list of reservations, as [Ledger.SalesPage] does for
// sales. The time of a reservation is the time at which it was granted.
func (l *Ledger) ReservationsPage(
	ctx context.Context, p api.Page,
) (found []api.Reservation, next uint64, err error) {
	if err := event.CheckReservationStates(p.States); err != nil {
		return nil, 0, err
	}
	describe := func(s *state.State, number uint64, r state.Sale) (out api.Reservation, size int, err error) {
		if r.Granted == 0 || len(p.States) > 0 && !slices.Contains(p.States, r.ReservationState(s.Now)) {
			return out, 0, nil
		}
		granted, err := s.Event(r.Granted)
		if err != nil || !p.Within(granted.Time) {
			return out, 0, err
		}
		out, err = l.describeReserved(s, number, r)
		return out, 1 + len(out.Refused), err
	}
	return request.OrdersPage(ctx, &l.engine, p, describe)
}

// Deliveries yields the responses of a sale, in the order of the objects' names. It costs nothing,
// and can be repeated. It yields [api.ErrUnknown] if there is no such sale.
func (l *Ledger) Deliveries(ctx context.Context, sale uint64) iter.Seq2[api.Delivery, error] {
	read := func(ctx context.Context, p api.Page) ([]api.Delivery, uint64, error) {
		return l.DeliveriesPage(ctx, sale, p.After, p.Limit)
	}
	return request.EachInPages(ctx, api.Page{}, read)
}

// DeliveriesPage returns a part of the responses of a sale: at most limit, after the first after
// responses. next is the value of after for the next part; 0 at the end.
func (l *Ledger) DeliveriesPage(
	ctx context.Context, sale, after uint64, limit int,
) (found []api.Delivery, next uint64, err error) {
	if err := request.CheckLimit(limit); err != nil {
		return nil, 0, err
	}
	err = l.engine.View(ctx, func(s *state.State) error {
		r, err := request.SoldSale(s, sale)
		if err != nil {
			return err
		}
		from := min(after, r.Objects)
		to := min(from+uint64(min(limit, scanSize)), r.Objects)
		if next = to; to == r.Objects {
			next = 0
		}
		found, err = l.someDeliveries(s, sale, r, from, to)
		return err
	})
	return found, next, err
}

// someDeliveries returns the responses of a sale with positions from from (inclusive) to to
// (exclusive), counted from 0. header is the record of the sale.
func (l *Ledger) someDeliveries(
	s *state.State, sale uint64, header state.Sale, from, to uint64,
) (found []api.Delivery, err error) {
	q, err := s.Question(header.Question)
	if err != nil {
		return nil, err
	}
	channel, err := q.Public().Channel(header.Epsilon)
	if err != nil {
		return nil, errs.Corrupt(err, "sale %d: its question has no channel at its ε", sale)
	}
	// The events of the objects follow that of the sale.
	for number := header.Event + 1 + from; number <= header.Event+to; number++ {
		ev, err := s.Event(number)
		if err != nil {
			return nil, err
		}
		c, ok := ev.Change.(*event.Sold)
		if !ok || c.Sale != sale {
			return nil, errs.Corrupt(nil, "event %d is no response of sale %d", number, sale)
		}
		one := api.Delivery{Price: int64(c.Price), Sold: number, Sale: sale, Channel: channel}
		if one.Erased = ev.Erased != nil; one.Erased {
			one.Response = api.Response{Question: q.Name, Epsilon: header.Epsilon}
		} else {
			one.Method = c.Method.String()
			if one.Response, err = soldResponse(s, q, header.Epsilon, number, c); err != nil {
				return nil, err
			}
		}
		found = append(found, one)
	}
	return found, nil
}

// soldResponse returns the response at epsilon that the event c with the given number sells. It
// returns [api.ErrCorrupt] if the chain has no such response in the epoch of the event.
func soldResponse(
	s *state.State, q *event.Question, epsilon privacy.Epsilon, number uint64, c *event.Sold,
) (api.Response, error) {
	all, _, err := s.Chain(q.Number, c.Object)
	if err != nil {
		return api.Response{}, err
	}
	at, recorded := all.During(number).At(epsilon)
	if !recorded || at.Response != c.Value {
		return api.Response{}, errs.Corrupt(nil, "object %q: the response sold is not the recorded one", c.Object)
	}
	return request.ResponseOf(q, c.Object, at)
}

// Buyers yields all buyers, in the order of their first orders.
func (l *Ledger) Buyers(ctx context.Context) iter.Seq2[api.BuyerState, error] {
	read := func(ctx context.Context, p api.Page) ([]api.BuyerState, uint64, error) {
		return l.BuyersPage(ctx, p.After, p.Limit)
	}
	return request.EachInPages(ctx, api.Page{}, read)
}

// BuyersPage returns a part of the list of buyers: at most limit, after the first after buyers.
// next is the value of after for the next part; 0 at the end.
func (l *Ledger) BuyersPage(
	ctx context.Context, after uint64, limit int,
) (found []api.BuyerState, next uint64, err error) {
	if err := request.CheckLimit(limit); err != nil {
		return nil, 0, err
	}
	err = l.engine.View(ctx, func(s *state.State) error {
		end := min(after, uint64(s.Counters.Buyers)) + uint64(min(limit, scanSize))
		if next = end; end >= uint64(s.Counters.Buyers) {
			end, next = uint64(s.Counters.Buyers), 0
		}
		for number := after; number < end; number++ {
			// Buyers are numbered from 1, so the first after the first number buyers is number+1.
			b, err := s.Buyer(uint32(number) + 1)
			if err != nil {
				return err
			}
			found = append(found, api.BuyerState{
				Buyer: b.Name, Sales: b.Sold, Paid: int64(b.Paid), Currency: l.documents.About.Currency,
				Event: s.Counters.Events,
			})
		}
		return nil
	})
	return found, next, err
}
