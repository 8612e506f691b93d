package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// Quote returns what an order would cost now and which objects it would refuse. It charges no
// object, changes nothing and requests no true value. The price of an object is the price of ε in
// its terms ([policy.Terms]), less what the buyer has already paid for the object. It is never
// below zero. It is zero if the buyer holds ε or more.
//
// Errors: [api.ErrInvalid], [api.ErrUnknown].
func (l *Ledger) Quote(ctx context.Context, o api.Order) (api.Quote, error) {
	return l.requests.Quote(ctx, o, false) // false: all levels, for the host
}

// QuoteBuyer returns the part of [Ledger.Quote] that the buyer may learn. That is the price, and
// yes or no for each object, at levels that the terms of the object list ([policy.Terms.Lists]). At
// other levels an object is always refused, unless the buyer holds that level. All refusals have
// the same reason ([api.NotAvailable]). The result omits how responses are made, Sums, Event and
// Instead.
func (l *Ledger) QuoteBuyer(ctx context.Context, o api.Order) (api.Quote, error) {
	q, err := l.requests.Quote(ctx, o, true) // true: only levels that the terms list, for the buyer
	if err != nil {
		return api.Quote{}, err
	}
	q.Refused, q.Sums, q.Event = event.Unexplained(q.Refused), nil, 0
	q.Draws, q.Resales, q.Degradations, q.Insertions = 0, 0, 0, 0
	return q, nil
}
