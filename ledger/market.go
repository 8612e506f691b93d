package ledger

import (
	"context"
	"iter"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// Sale returns a sale by its number, or [ErrUnknown]. A reservation that was not carried out is no
// sale.
func (l *Ledger) Sale(ctx context.Context, number uint64) (Sale, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (Sale, error) {
		r, err := request.SoldSale(s, number)
		if err != nil {
			return Sale{}, err
		}
		return l.describeSold(s, number, r)
	})
}

// describeSold describes a sale.
func (l *Ledger) describeSold(s *state.State, number uint64, r state.Sale) (out Sale, err error) {
	begun, err := s.Event(r.Event)
	if err != nil {
		return out, err
	}
	c, ok := begun.Change.(*event.SaleMade)
	if !ok {
		return out, errs.Corrupt(nil, "event %d makes no sale", begun.Number)
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
	out = Sale{
		Number: number, Ordinal: r.Ordinal, Offer: l.offer(c.Deal, c.Tally), Refused: left, Key: end.Key,
		Time: begun.Time, First: end.First, Last: last,
	}
	if r.Granted != 0 {
		out.Refund = int64(r.Promised - r.Price)
	}
	out.Buyer, out.Question, err = s.NamesOf(r)
	return out, err
}

// Sales yields the sales in the order of their numbers, to one buyer, or to all if buyer is "".
func (l *Ledger) Sales(ctx context.Context, buyer string) iter.Seq2[Sale, error] {
	return request.EachInPages(ctx, api.Page{Buyer: buyer}, l.SalesPage)
}

// SalesPage returns a part of the list of sales, and the place after which the next part begins; 0
// at the end of the list. A call reads a bounded number of records: a part may have fewer sales
// than its limit, or none, and not be the last.
func (l *Ledger) SalesPage(ctx context.Context, p api.Page) (found []Sale, next uint64, err error) {
	describe := func(s *state.State, number uint64, r state.Sale) (out Sale, size int, err error) {
		if r.Status == state.SaleSold {
			out, err = l.describeSold(s, number, r)
			size = 1 + len(out.Refused)
		}
		if !p.Within(out.Time) {
			size = 0
		}
		return out, size, err
	}
	return request.OrdersPage(ctx, &l.engine, p, describe)
}

// OrderOf returns the number of a sale or reservation by its place among those of a buyer
// ([Sale.Ordinal]), or [ErrUnknown].
func (l *Ledger) OrderOf(ctx context.Context, buyer string, ordinal uint64) (number uint64, err error) {
	if err := event.CheckName("buyer", buyer); err != nil {
		return 0, err
	}
	return engine.Read(ctx, &l.engine, func(s *state.State) (uint64, error) {
		return request.OrderOf(s, buyer, ordinal)
	})
}

// Reservations yields the reservations in the order of their numbers, of one buyer, or of all if
// buyer is "". With states, it yields those that are in one of them; without, all that were ever
// granted. It yields [ErrInvalid] for a state that is none.
func (l *Ledger) Reservations(
	ctx context.Context, buyer string, states ...ReservationState,
) iter.Seq2[Reservation, error] {
	return request.EachInPages(ctx, api.Page{Buyer: buyer, States: states}, l.ReservationsPage)
}

// ReservationsPage returns a part of the list of reservations, as [Ledger.SalesPage] does of sales.
// They were made when they were granted.
func (l *Ledger) ReservationsPage(
	ctx context.Context, p api.Page,
) (found []Reservation, next uint64, err error) {
	if err := api.CheckReservationStates(p.States); err != nil {
		return nil, 0, err
	}
	describe := func(s *state.State, number uint64, r state.Sale) (out Reservation, size int, err error) {
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

// Delivery is one response of a sale, with all that an estimate from it needs. A response at a
// higher ε replaces those of the same object to the same question at a lower one: it is the more
// exact version of the same answer, and counting an object twice is wrong.
type Delivery struct {
	Response       // its event is the one that recorded the response, perhaps for another sale before
	Price    int64 `json:"price"` // in minor units of the currency
	// Method is "raise", "degrade", "insert" or "resale"; a buyer behind an address reads none.
	Method string `json:"method,omitempty"`
	Sold   uint64 `json:"sold"` // the event that records this
	Sale   uint64 `json:"sale"` // the number of the sale
	api.Channel
	// Erased: the object was forgotten since. Of its response only the price is left.
	Erased bool `json:"erased,omitempty"`
}

// Deliveries yields the responses of a sale, in the order of the objects' names. Reading is free,
// as often as it is done. It yields [ErrUnknown] if there is no such sale.
func (l *Ledger) Deliveries(ctx context.Context, sale uint64) iter.Seq2[Delivery, error] {
	read := func(ctx context.Context, p api.Page) ([]Delivery, uint64, error) {
		return l.DeliveriesPage(ctx, sale, p.After, p.Limit)
	}
	return request.EachInPages(ctx, api.Page{}, read)
}

// DeliveriesPage returns a part of the responses of a sale: at most limit, of those that follow the
// first so many. next is how many the next part follows; 0 at the end.
func (l *Ledger) DeliveriesPage(
	ctx context.Context, sale, after uint64, limit int,
) (found []Delivery, next uint64, err error) {
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

// someDeliveries returns the objects of a sale from one up to another, counted from 0.
func (l *Ledger) someDeliveries(
	s *state.State, sale uint64, header state.Sale, from, to uint64,
) (found []Delivery, err error) {
	q, err := s.Question(header.Question)
	if err != nil {
		return nil, err
	}
	channel, err := api.ChannelOf(q.Encoding, len(q.Values), header.Epsilon)
	if err != nil {
		return nil, errs.Corrupt(err, "sale %d", sale)
	}
	for number := header.Event + 1 + from; number <= header.Event+to; number++ {
		ev, err := s.Event(number)
		if err != nil {
			return nil, err
		}
		c, ok := ev.Change.(*event.Sold)
		if !ok || c.Sale != sale {
			return nil, errs.Corrupt(nil, "event %d sells nothing of sale %d", number, sale)
		}
		one := Delivery{Price: int64(c.Price), Sold: number, Sale: sale, Channel: channel}
		if one.Erased = ev.Erased != nil; one.Erased {
			one.Response = Response{Question: q.Name, Epsilon: header.Epsilon}
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

// soldResponse returns the response at an ε that an event sells.
func soldResponse(
	s *state.State, q *event.Question, epsilon privacy.Epsilon, number uint64, c *event.Sold,
) (Response, error) {
	all, _, err := s.Chain(q.Number, c.Object)
	if err != nil {
		return Response{}, err
	}
	at, recorded := all.During(number).At(epsilon)
	if !recorded || at.Response != c.Value {
		return Response{}, errs.Corrupt(nil, "object %q: the response sold is not the recorded one", c.Object)
	}
	return describeLevel(q, c.Object, at)
}

// BuyerState is what the ledger knows of a buyer.
type BuyerState struct {
	Buyer    string `json:"buyer"`    // by its name
	Sales    uint64 `json:"sales"`    // how many were carried out
	Paid     int64  `json:"paid"`     // in minor units of the currency
	Currency string `json:"currency"` // the ledger's
	Event    uint64 `json:"event"`    // the last one that all this counts
}

// Buyers returns all buyers, in the order of their first orders.
func (l *Ledger) Buyers(ctx context.Context) (all []BuyerState, err error) {
	read := func(ctx context.Context, p api.Page) ([]BuyerState, uint64, error) {
		return l.BuyersPage(ctx, p.After, p.Limit)
	}
	for one, err := range request.EachInPages(ctx, api.Page{}, read) {
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// BuyersPage returns a part of the list of buyers: at most limit, after so many of them. next is
// how many come before the next part; 0 at the end.
func (l *Ledger) BuyersPage(
	ctx context.Context, after uint64, limit int,
) (found []BuyerState, next uint64, err error) {
	if err := request.CheckLimit(limit); err != nil {
		return nil, 0, err
	}
	err = l.engine.View(ctx, func(s *state.State) error {
		end := min(after, uint64(s.Counters.Buyers)) + uint64(min(limit, scanSize))
		if next = end; end >= uint64(s.Counters.Buyers) {
			end, next = uint64(s.Counters.Buyers), 0
		}
		for number := after; number < end; number++ {
			b, err := s.Buyer(uint32(number) + 1)
			if err != nil {
				return err
			}
			found = append(found, BuyerState{
				Buyer: b.Name, Sales: b.Sold, Paid: int64(b.Paid), Currency: l.documents.About.Currency,
				Event: s.Counters.Events,
			})
		}
		return nil
	})
	return found, next, err
}
