package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// Quote says what an order would cost now and whom it would refuse. It charges nobody, changes
// nothing and asks for no truth. The price of an object is that of its terms ([policy.Terms]) for
// holding ε, less what the buyer has paid for the object already, never less than nothing; and
// nothing if the buyer holds ε or more.
//
// Errors: [api.ErrInvalid], [api.ErrUnknown].
func (l *Ledger) Quote(ctx context.Context, o api.Order) (api.Quote, error) {
	return l.requests.Quote(ctx, o, false)
}

// QuoteBuyer is what the buyer itself may learn of [Ledger.Quote]: its price, and yes or no for
// each object, at levels that the terms of the object list ([policy.Terms.Lists]). At others an
// object is refused whatever has become of it, unless the buyer holds that level. All refusals read
// the same ([api.NotAvailable]). How responses come about, Sums, Event and Instead are left
// out.
func (l *Ledger) QuoteBuyer(ctx context.Context, o api.Order) (api.Quote, error) {
	q, err := l.requests.Quote(ctx, o, true)
	if err != nil {
		return api.Quote{}, err
	}
	q.Refused, q.Sums, q.Event = event.Unexplained(q.Refused), nil, 0
	q.Draws, q.Resales, q.Degradations, q.Insertions = 0, 0, 0, 0
	return q, nil
}
