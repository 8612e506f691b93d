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

// Advance draws what policies have released so far ([policy.Policy.Releases]): every chain gets a
// response at every level released by now. The result does not depend on how often Advance is
// called. One call after a month leaves the same levels as one call every day, with the same
// distribution. Levels below a level that was sold in between are derived at no cost. A policy that
// unlocks by orders is an exception: it releases what is unlocked at the time of the call, so the
// sequence of orders and calls matters. Policies without a date release nothing by themselves.
//
// A chain with terms of sale ([policy.Policy.Terms]) is not changed, and counts as unchanged. The
// calendar raises its ceiling, and privacy is spent when a buyer buys, or when the host itself
// raises the chain ([Ledger.Raise]).
//
// Advance processes all chains in transactions of bounded size. If ctx ends, the source of true
// values fails or the process dies, the committed transactions are kept. The same request with the
// same key continues after them. An object that cannot get a released level is refused, and the
// other objects continue. Its cap may be too low. Or the host has no true value of it, a changed
// one, or one that the question does not have. If the clock has gone back, nothing is released.
//
// Errors: [api.ErrUnknown], [api.ErrInvalid], [*api.KeyConflictError], [api.ErrTruthSource], the
// error of the Truth function, and the errors of any write.
func (l *Ledger) Advance(ctx context.Context, r api.AdvanceRequest) (api.AdvanceResult, error) {
	done, faults, err := l.requests.Sweep(ctx, r)
	if err != nil {
		return api.AdvanceResult{}, err
	}
	// The result is durable, and is returned even if ctx has ended.
	return l.advanced(context.WithoutCancel(ctx), done, faults)
}

// advanced returns the result of a sweep, with the names of the questions. For each question,
// faults has the objects whose true value has changed or is invalid.
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
