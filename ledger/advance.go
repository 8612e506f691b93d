package ledger

import (
	"context"
	"maps"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Advance draws what policies release as time passes ([policy.Policy.Releases]): every chain gets a
// response at every level released by now. It does not matter how often Advance is called: one call
// after a month leaves the same levels as one every day, with the same law, and levels that a sale
// has overtaken meanwhile are derived for free. (Of a policy that orders unlock, what is unlocked
// by now counts; so there it matters whether an order comes before a call or after.) Policies
// without a date release nothing by themselves.
//
// A chain with terms of sale ([policy.Policy.Terms]) is left as it is, and counts as unchanged: the
// calendar raises its ceiling, and privacy is spent when somebody buys, or when the host itself
// raises it ([Ledger.Raise]).
//
// It goes through all chains in transactions of bounded size. If ctx ends, the source of truths
// fails or the process dies in between, what is done stays done, and the same request with the same
// key goes on where it stopped. An object that cannot follow its policy, because its cap binds or
// the host has no truth of it, not the former one, or none of the question's, is refused and holds
// nobody up. If the clock has gone back, nothing is released.
//
// Errors: [api.ErrUnknown], [api.ErrInvalid], [*api.KeyConflictError], [api.ErrTruthSource], the
// error of the Truth function, and those of any write.
func (l *Ledger) Advance(ctx context.Context, r api.AdvanceRequest) (api.AdvanceResult, error) {
	done, faults, err := l.requests.Sweep(ctx, r)
	if err != nil {
		return api.AdvanceResult{}, err
	}
	return l.advanced(context.WithoutCancel(ctx), done, faults) // it is durable, even if ctx has ended
}

// advanced describes what a sweep did.
func (l *Ledger) advanced(
	ctx context.Context, done request.Outcome, faults map[uint32]*rules.TruthFaults,
) (api.AdvanceResult, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (api.AdvanceResult, error) {
		out := api.AdvanceResult{First: done.First, Last: done.Last}
		for _, number := range slices.Sorted(maps.Keys(done.Swept)) {
			q, err := s.Question(number)
			if err != nil {
				return out, err
			}
			n := done.Swept[number]
			one := api.Advanced{
				Question: q.Name, Raised: int(n.Raised), Unchanged: int(n.Unchanged),
				Refused: n.Refusals, Unlisted: int(n.Refused) - len(n.Refusals),
			}
			if of := faults[number]; of != nil {
				one.TruthChanged, one.TruthInvalid = of.Among(n.Refusals)
			}
			out.Questions = append(out.Questions, one)
		}
		return out, nil
	})
}
