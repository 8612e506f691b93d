package ledgerhttp

import (
	"iter"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/internal/api"
)

// What buyers ask, and those who sell to them.

func quote(c *call, in api.Order) (ledger.Quote, error) {
	if err := c.own(in.Buyer); err != nil {
		return ledger.Quote{}, err
	}
	return c.quoted(in.Ledger())
}

func budget(c *call, in api.BudgetOf) (ledger.Budget, error) {
	b, err := c.ledger().Budget(c.ctx(), ledger.BudgetRequest(in))
	b.Levels, b.Refused = orNone(b.Levels), orNone(b.Refused)
	return b, err
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
	s.Refused = orNone(s.Refused)
	return api.Sold{Sale: s, TruthChanged: c.aside(s.TruthChanged), TruthInvalid: c.aside(s.TruthInvalid)}
}

// saleOf returns the sale in the path, by the number that the holder knows it by.
func (c *call) saleOf() (s ledger.Sale, err error) {
	asked, err := c.place("sale")
	if err != nil {
		return s, err
	}
	number, err := c.numberOf(asked)
	if err == nil {
		s, err = c.ledger().Sale(c.ctx(), number)
	}
	return s, unknown("sale", asked, err)
}

// buyerOf returns whose sales or reservations are asked for: of a buyer, that one's.
func (c *call) buyerOf() (string, error) {
	buyer := c.text("buyer")
	if c.holder.Role == Buyer && buyer == "" {
		buyer = c.holder.Whom
	}
	return buyer, c.own(buyer)
}

func sales(c *call) (iter.Seq2[ledger.Sale, error], error) {
	buyer, err := c.buyerOf()
	if err != nil {
		return nil, err
	}
	return func(yield func(ledger.Sale, error) bool) {
		for s, err := range c.ledger().Sales(c.ctx(), buyer) {
			if !yield(c.seenSale(s), err) {
				return
			}
		}
	}, nil
}

func sale(c *call) (ledger.Sale, error) {
	s, err := c.saleOf()
	return c.seenSale(s), err
}

func deliveries(c *call) (iter.Seq2[ledger.Delivery, error], error) {
	s, err := c.saleOf()
	if err != nil {
		return nil, err
	}
	number := c.seenSale(s).Number
	return func(yield func(ledger.Delivery, error) bool) {
		for d, err := range c.ledger().Deliveries(c.ctx(), s.Number) {
			if !yield(c.seenDelivery(number, d), err) {
				return
			}
		}
	}, nil
}

func reserve(c *call, in api.Reserve) (ledger.Reservation, error) {
	r, err := c.ledger().Reserve(c.ctx(), ledger.ReserveRequest{
		Key: c.key, Order: in.Order.Ledger(), For: time.Duration(in.For), Until: in.Until, Partial: in.Partial, QuoteID: in.QuoteID, MaxPrice: in.MaxPrice,
	})
	r.Refused = orNone(r.Refused)
	return r, err
}

func reservations(c *call) (iter.Seq2[ledger.Reservation, error], error) {
	buyer, err := c.buyerOf()
	if err != nil {
		return nil, err
	}
	return func(yield func(ledger.Reservation, error) bool) {
		for r, err := range c.ledger().Reservations(c.ctx(), buyer, c.states("state")...) {
			if !yield(c.seenReservation(r), err) {
				return
			}
		}
	}, nil
}

func reservation(c *call) (r ledger.Reservation, err error) {
	asked, err := c.place("reservation")
	if err != nil {
		return r, err
	}
	number, err := c.numberOf(asked)
	if err == nil {
		r, err = c.ledger().Reservation(c.ctx(), number)
	}
	return c.seenReservation(r), unknown("reservation", asked, err)
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
