package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/rules"
)

// Sell executes an order in one transaction. It draws the responses that are not recorded yet,
// charges their ε to the objects and credits the objects with the price. The buyer reads the
// responses with [Ledger.Deliveries]. If any object is refused, nothing happens, unless the request
// is partial. Prices are those of [Ledger.Quote]. As long as terms do not change, a buyer has paid
// for each object the price of the highest level held. The order of the purchases does not matter.
//
// Errors: [*api.RefusedError], [*api.QuoteError], [api.ErrUnknown], [api.ErrInvalid],
// [*api.KeyConflictError], [api.ErrTruthSource] and the error of the Truth function. With these
// nothing was drawn, charged or recorded. After any other error, repeat the request with its key.
func (l *Ledger) Sell(ctx context.Context, r api.SellRequest) (api.Sale, error) {
	number, faults, err := l.requests.Sell(ctx, r)
	return l.sold(ctx, number, faults, err)
}

// sold returns the sale with a number, for a request that returned these results. If err is not
// nil, it returns err. faults has the objects whose true value has changed or is invalid.
func (l *Ledger) sold(ctx context.Context, number uint64, faults *rules.TruthFaults, err error) (api.Sale, error) {
	if err != nil {
		return api.Sale{}, err
	}
	// The sale is durable, and is returned even if ctx has ended.
	sale, err := l.Sale(context.WithoutCancel(ctx), number)
	sale.TruthChanged, sale.TruthInvalid = faults.Among(sale.Refused)
	return sale, err
}
