package ledgerhttp

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/internal/api"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// What buyers ask, and those who sell to them.

func quote(c *call, in api.Order) (ledger.Quote, error) {
	if err := c.own(in.Buyer); err != nil {
		return ledger.Quote{}, err
	}
	q, err := c.ledger().Quote(c.ctx(), in.Ledger())
	q.Refused, q.Instead = c.refused(q.Refused), c.instead(q.Instead)
	if c.holder.Role == Buyer {
		// Of one person they say at which ε somebody has bought, and quotes cost nothing.
		q.Draws, q.Resales, q.Degradations, q.Insertions = 0, 0, 0, 0
	}
	return q, err
}

func budget(c *call, in api.BudgetOf) (ledger.Budget, error) {
	b, err := c.ledger().Budget(c.ctx(), ledger.BudgetRequest(in))
	b.Levels, b.Refused = orNone(b.Levels), orNone(b.Refused)
	return b, err
}

// instead returns what would be possible in place of an order, as the holder may see it: of one person it says what that one has left.
func (c *call) instead(b *ledger.Budget) *ledger.Budget {
	if c.holder.Role == Buyer || b == nil {
		return nil
	}
	out := *b
	out.Levels, out.Refused = orNone(b.Levels), orNone(b.Refused)
	return &out
}

// bare returns refusals as a buyer sees them: why, and not what somebody has spent elsewhere.
func bare(refused []ledger.Refusal) []ledger.Refusal {
	out := make([]ledger.Refusal, len(refused))
	for i, r := range refused {
		out[i] = ledger.Refusal{Object: r.Object, Reason: r.Reason, Asked: r.Asked, Remedy: r.Remedy}
	}
	return out
}

func sell(c *call, in api.Sell) (api.Sold, error) {
	if err := c.mayBring(in.Truths); err != nil {
		return api.Sold{}, err
	}
	s, err := c.ledger().Sell(c.ctx(), ledger.SellRequest{
		Key: c.key, Order: in.Order.Ledger(), Partial: in.Partial, QuoteID: in.QuoteID, MaxPrice: in.MaxPrice, Truth: c.truths(in.Truths).tell,
	})
	return c.sold(s), err
}

func (c *call) sold(s ledger.Sale) api.Sold {
	return api.Sold{Sale: c.shownSale(s), TruthChanged: c.aside(s.TruthChanged), TruthInvalid: c.aside(s.TruthInvalid)}
}

// saleOf returns the sale in the path. Of another buyer's it says what it says of one that there is not.
func (c *call) saleOf() (s ledger.Sale, err error) {
	number, err := c.place("sale")
	if err == nil {
		s, err = c.ledger().Sale(c.ctx(), number)
	}
	if err == nil && c.own(s.Buyer) != nil {
		s, err = ledger.Sale{}, fmt.Errorf("sale %d: %w", number, ledger.ErrUnknown)
	}
	return c.shownSale(s), err
}

// buyerOf returns whose sales or reservations are asked for: of a buyer, that one's.
func (c *call) buyerOf() (string, error) {
	buyer := c.text("buyer")
	if c.holder.Role == Buyer && buyer == "" {
		buyer = c.holder.Whom
	}
	return buyer, c.own(buyer)
}

// parted returns which sales or reservations are requested.
func (c *call) parted(p page) (vocabulary.Page, error) {
	buyer, err := c.buyerOf()
	if err != nil {
		return vocabulary.Page{}, err
	}
	return vocabulary.Page{
		Buyer: buyer, Question: c.text("question"), Since: c.time("since"), Until: c.time("until"), After: p.number(), Newest: p.newest, Limit: p.limit,
	}, nil
}

func sales(c *call, p page) ([]ledger.Sale, string, error) {
	part, err := c.parted(p)
	if err != nil {
		return nil, "", err
	}
	all, next, err := c.ledger().SalesPage(c.ctx(), part)
	for i := range all {
		all[i] = c.shownSale(all[i])
	}
	return all, cursor(next), err
}

// shownSale returns a sale as the holder may see it.
func (c *call) shownSale(s ledger.Sale) ledger.Sale {
	s.Refused, s.Key = c.refused(s.Refused), c.shownKey(s.Key)
	return s
}

// shownReservation returns a reservation as the holder may see it.
func (c *call) shownReservation(r ledger.Reservation) ledger.Reservation {
	r.Refused, r.Key = c.refused(r.Refused), c.shownKey(r.Key)
	return r
}

// refused returns refusals as the holder may see them.
func (c *call) refused(all []ledger.Refusal) []ledger.Refusal {
	if c.holder.Role == Buyer {
		return bare(all)
	}
	return orNone(all)
}

func sale(c *call) (ledger.Sale, error) { return c.saleOf() }

func deliveries(c *call, p page) ([]ledger.Delivery, string, error) {
	number, err := c.place("sale")
	if c.holder.Role == Buyer && !c.owns {
		_, err = c.saleOf() // once for a list that is sent as a stream
	}
	if err != nil {
		return nil, "", err
	}
	c.owns = true
	all, next, err := c.ledger().DeliveriesPage(c.ctx(), number, p.number(), p.limit)
	return all, cursor(next), err
}

func reserve(c *call, in api.Reserve) (ledger.Reservation, error) {
	r, err := c.ledger().Reserve(c.ctx(), ledger.ReserveRequest{
		Key: c.key, Order: in.Order.Ledger(), For: time.Duration(in.For), Until: in.Until, Partial: in.Partial, QuoteID: in.QuoteID, MaxPrice: in.MaxPrice,
	})
	return c.shownReservation(r), err
}

func reservations(c *call, p page) ([]ledger.Reservation, string, error) {
	part, err := c.parted(p)
	if err != nil {
		return nil, "", err
	}
	part.States = c.states("state")
	all, next, err := c.ledger().ReservationsPage(c.ctx(), part)
	for i := range all {
		all[i] = c.shownReservation(all[i])
	}
	return all, cursor(next), err
}

func buyers(c *call) (api.Buyers, error) {
	p, err := c.page()
	if err != nil {
		return api.Buyers{}, err
	}
	all, next, err := c.ledger().BuyersPage(c.ctx(), p.number(), p.limit)
	return api.Buyers{Buyers: orNone(all), Next: cursor(next)}, err
}

func reservation(c *call) (r ledger.Reservation, err error) {
	number, err := c.place("reservation")
	if err == nil {
		r, err = c.ledger().Reservation(c.ctx(), number)
	}
	if err == nil && c.own(r.Buyer) != nil {
		r, err = ledger.Reservation{}, fmt.Errorf("reservation %d: %w", number, ledger.ErrUnknown)
	}
	return c.shownReservation(r), err
}

func capture(c *call, in api.Capture) (api.Sold, error) {
	if err := c.mayBring(in.Truths); err != nil {
		return api.Sold{}, err
	}
	number, err := c.place("reservation")
	if err != nil {
		return api.Sold{}, err
	}
	s, err := c.ledger().Capture(c.ctx(), ledger.CaptureRequest{Key: c.key, Reservation: number, Partial: in.Partial, Truth: c.truths(in.Truths).tell})
	return c.sold(s), err
}

func cancel(c *call, _ api.Done) (api.Done, error) {
	number, err := c.place("reservation")
	if err != nil {
		return api.Done{}, err
	}
	return api.Done{}, c.ledger().Cancel(c.ctx(), c.key, number)
}
