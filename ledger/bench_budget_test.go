package ledger

import (
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// BenchmarkBudget asks for the budget of everybody, at 100 values of ε, on a file. The answer of the one before is not used.
func BenchmarkBudget(b *testing.B) {
	for _, people := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("people=%d", people), func(b *testing.B) {
			path := create(b)
			l := open(b, path, Options{})
			define(b, l, vote())
			names := make([]string, people)
			for i := range names {
				names[i] = crowdName(i)
			}
			enrollUnder(b, l, "vote", market(b, "5"), "5", names...)
			must(b, check.Err(l.Raise(b.Context(), api.RaiseRequest{Key: "raise", Question: "vote", All: true, Epsilon: eps(b, "1"), Truth: sameTruth("yes")})))
			r := api.BudgetRequest{Question: "vote", All: true, Buyer: "acme"}
			for i := range 100 {
				epsilon := check.Value(privacy.EpsilonFromNano(int64(i+1) * 60_000_000))(b)
				r.Epsilons = append(r.Epsilons, epsilon)
			}
			for b.Loop() {
				l.requests.Forecasts.All = nil
				must(b, check.Err(l.Budget(b.Context(), r)))
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/budget")
		})
	}
}
