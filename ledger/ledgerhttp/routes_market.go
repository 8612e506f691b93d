package ledgerhttp

import (
	"fmt"
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
	order := in.Ledger()
	// A buyer is told no more than that the order is refused, and whom it stopped at: nothing else is computed.
	order.StopAtRefusal = order.StopAtRefusal || c.holder.Role == Buyer
	q, err := c.ledger().Quote(c.ctx(), order)
	q.Refused, q.Instead = c.refused(q.Refused), c.instead(q.Instead)
	if c.holder.Role == Buyer {
		// Of one person they say at which ε somebody has bought, and quotes cost nothing.
		q.Draws, q.Resales, q.Degradations, q.Insertions, q.Sums = 0, 0, 0, 0, nil
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
	s.Refused = orNone(s.Refused)
	return api.Sold{Sale: s, TruthChanged: c.aside(s.TruthChanged), TruthInvalid: c.aside(s.TruthInvalid)}
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
	s.Refused = c.refused(s.Refused)
	return s, err
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
			s.Refused = c.refused(s.Refused)
			if !yield(s, err) {
				return
			}
		}
	}, nil
}

// refused returns refusals as the holder may see them.
func (c *call) refused(all []ledger.Refusal) []ledger.Refusal {
	if c.holder.Role == Buyer {
		return bare(all)
	}
	return orNone(all)
}

func sale(c *call) (ledger.Sale, error) { return c.saleOf() }

func deliveries(c *call) (iter.Seq2[ledger.Delivery, error], error) {
	s, err := c.saleOf()
	if err != nil {
		return nil, err
	}
	return c.ledger().Deliveries(c.ctx(), s.Number), nil
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
			r.Refused = c.refused(r.Refused)
			if !yield(r, err) {
				return
			}
		}
	}, nil
}

func reservation(c *call) (r ledger.Reservation, err error) {
	number, err := c.place("reservation")
	if err == nil {
		r, err = c.ledger().Reservation(c.ctx(), number)
	}
	if err == nil && c.own(r.Buyer) != nil {
		r, err = ledger.Reservation{}, fmt.Errorf("reservation %d: %w", number, ledger.ErrUnknown)
	}
	r.Refused = c.refused(r.Refused)
	return r, err
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
