package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
)

// Budget says how many of some people can answer a question at each of some ε, the largest ε at
// which all of them can, by when time alone will allow more, and what it would cost a buyer. It
// charges nobody, changes nothing and asks for no truth: whom the host has no true value of is not
// known to it. A [Ledger.Quote], or a partial [Ledger.Raise], at the same instant agrees with it.
//
// Everybody is looked at once, in memory that does not grow with their number. The answer is kept
// until something happens to one of them, or time changes it, so that asking again costs little. It
// is as of the event that it tells.
//
// Errors: [api.ErrInvalid], [api.ErrUnknown].
func (l *Ledger) Budget(ctx context.Context, r api.BudgetRequest) (api.Budget, error) {
	return l.requests.Forecast(ctx, r)
}
