package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
)

// Budget returns how many of some objects can answer a question at each of several ε. It returns
// the largest ε at which all of them can. It also returns when time alone will allow more, and what
// the answers would cost a buyer. It charges no object, changes nothing and requests no true value;
// it does not know which true values the host lacks. A [Ledger.Quote], or a partial [Ledger.Raise],
// at the same instant agrees with it.
//
// Each object is read once, in memory that does not grow with their number. The result is kept
// until something happens to one of the objects, or until time changes it. A repeated request
// therefore costs little. The result names the event that it is as of.
//
// Errors: [api.ErrInvalid], [api.ErrUnknown].
func (l *Ledger) Budget(ctx context.Context, r api.BudgetRequest) (api.Budget, error) {
	return l.requests.Forecast(ctx, r)
}
