package ledger

import (
	"context"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
)

// SellRequest asks to carry an order out.
type SellRequest struct {
	Key string `json:"-"` // idempotency key, 1 to 256 bytes: your order's id, say
	Order
	Partial bool `json:"partial,omitempty"` // leave refused objects out, rather than refuse the order
	// QuoteID, if set, sells exactly what was quoted under this ID, or nothing. A quote asks for no
	// truths: if the host turns out to have none of somebody quoted, the order is refused for want
	// of it.
	QuoteID string `json:"quote_id,omitempty"`
	// MaxPrice: if set, the most to be paid in all, in minor units of the currency
	MaxPrice *int64 `json:"max_price,omitempty"`
	// Truth is asked for the objects whose current level lies below ε.
	Truth TruthFunc `json:"-"`
	// Progress, if set, is told how many objects are dealt with, of how many in all: each counts
	// twice, once when it is looked at and drawn, and once when that is recorded.
	Progress Progress `json:"-"`
}

// Sale is an order carried out.
type Sale struct {
	Number uint64 `json:"sale"` // 1, 2, …; shared with reservations
	// Ordinal is its place among the sales and reservations of its buyer, from 1: its number for
	// the buyer.
	Ordinal uint64 `json:"ordinal"`
	Offer
	// Refund is what a reservation promised to cost beyond the price: for objects left out, or held
	// by the buyer by now. What was delivered is not refunded.
	Refund int64 `json:"refund"`
	// Refused are the objects of the order that are left out, in the order of their names: those
	// that this request refused, and of a reservation that was captured also those that were
	// refused when it was granted. It is empty if neither was partial.
	Refused                    []Refusal `json:"refused"`
	TruthChanged, TruthInvalid []string  `json:"-"`     // of those refused, for the host alone: see [RaiseResult]
	Key                        string    `json:"key"`   // of the request
	Time                       time.Time `json:"time"`  // in UTC, as the log has it
	First                      uint64    `json:"first"` // first and last event
	Last                       uint64    `json:"last"`  // as First
}

// Sell carries an order out, in one transaction: it draws the responses that are not recorded yet,
// charges their ε to the objects, credits the objects with the price and hands the responses to the
// buyer, who reads them with [Ledger.Deliveries]. If any object is refused, nothing happens, unless
// the request is partial. Prices are those of [Ledger.Quote]: as long as terms stay as they are,
// the buyer has paid for each object the price of the highest level held, in whatever order levels
// were bought.
//
// Errors: [*RefusedError], [*QuoteError], [ErrUnknown], [ErrInvalid], [ErrKeyConflict],
// [ErrTruthSource] and the error of the Truth function: with these nothing was drawn, charged or
// recorded. After any other, repeat the request with its key.
func (l *Ledger) Sell(ctx context.Context, r SellRequest) (Sale, error) {
	number, faults, err := l.requests.Sell(ctx, request.Sell{
		Key: r.Key, Order: request.Order(r.Order), Truth: r.Truth, Progress: r.Progress,
		Limits: request.Limits{QuoteID: r.QuoteID, MaxPrice: r.MaxPrice, Partial: r.Partial},
	})
	return l.sold(ctx, number, faults, err)
}

// sold returns the sale of a number, or the error of the request for it.
func (l *Ledger) sold(ctx context.Context, number uint64, faults *rules.TruthFaults, err error) (Sale, error) {
	if err != nil {
		return Sale{}, l.orderError(err)
	}
	sale, err := l.Sale(context.WithoutCancel(ctx), number) // it is durable, even if ctx has ended
	sale.TruthChanged, sale.TruthInvalid = faults.Among(sale.Refused)
	return sale, err
}
