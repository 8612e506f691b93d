package ledger

import (
	"context"

	"github.com/sluicedp/sluice/privacy"

	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
)

// BudgetRequest asks what people can answer to a question.
type BudgetRequest struct {
	Question string   `json:"question"`         // by its name
	Objects  []string `json:"objects,omitzero"` // the people, or
	All      bool     `json:"all,omitempty"`    // everyone enrolled in the question, who has not withdrawn
	// Buyer: who would buy; "" for the host itself, which may raise whatever budgets allow
	Buyer string `json:"buyer,omitempty"`
	// Epsilons are the levels that are asked about, in any order, above 0, at most
	// [MaxBudgetLevels]. If there are none, the answer is about those at which the number of people
	// who can answer changes, or 100 of them if there are more.
	Epsilons []privacy.Epsilon `json:"epsilons,omitempty"`
}

// MaxBudgetLevels is how many ε a [BudgetRequest] may ask about.
const MaxBudgetLevels = rules.MostLevels

// Budget says how many of some people can answer a question at each of some ε, the largest ε at
// which all of them can, by when time alone will allow more, and what it would cost a buyer. It
// charges nobody, changes nothing and asks for no truth: whom the host has no true value of is not
// known to it. A [Ledger.Quote], or a partial [Ledger.Raise], at the same instant agrees with it.
//
// Everybody is looked at once, in memory that does not grow with their number. The answer is kept
// until something happens to one of them, or time changes it, so that asking again costs little. It
// is as of the event that it tells.
//
// Errors: [ErrInvalid], [ErrUnknown].
func (l *Ledger) Budget(ctx context.Context, r BudgetRequest) (Budget, error) {
	return l.requests.Forecast(ctx, request.Forecast(r))
}
