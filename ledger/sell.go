package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/rules"
)

// Sell carries an order out, in one transaction: it draws the responses that are not recorded yet,
// charges their ε to the objects, credits the objects with the price and hands the responses to the
// buyer, who reads them with [Ledger.Deliveries]. If any object is refused, nothing happens, unless
// the request is partial. Prices are those of [Ledger.Quote]: as long as terms stay as they are,
// the buyer has paid for each object the price of the highest level held, in whatever order levels
// were bought.
//
// Errors: [*api.RefusedError], [*api.QuoteError], [api.ErrUnknown], [api.ErrInvalid],
// [*api.KeyConflictError], [api.ErrTruthSource] and the error of the Truth function: with these
// nothing was drawn, charged or recorded. After any other, repeat the request with its key.
func (l *Ledger) Sell(ctx context.Context, r api.SellRequest) (api.Sale, error) {
	number, faults, err := l.requests.Sell(ctx, r)
	return l.sold(ctx, number, faults, err)
}

// sold returns the sale of a number, or the error of the request for it.
func (l *Ledger) sold(ctx context.Context, number uint64, faults *rules.TruthFaults, err error) (api.Sale, error) {
	if err != nil {
		return api.Sale{}, err
	}
	sale, err := l.Sale(context.WithoutCancel(ctx), number) // it is durable, even if ctx has ended
	sale.TruthChanged, sale.TruthInvalid = faults.Among(sale.Refused)
	return sale, err
}
