package request

import (
	"context"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// alternative adds to the error of a refused panel query what is possible instead. That is how many
// objects can answer at its ε, and the largest ε at which all can. It returns other errors
// unchanged.
func (x *panelQuery) alternative(ctx context.Context, err error) error {
	return x.explain(ctx, callback.Report(err), func(s *state.State, out *api.Budget) error {
		return x.lookAround(s, &x.why, out)
	})
}

// lookAround fills out with the number of objects that can answer at the requested ε. It adds the
// largest ε at which all objects of the panel can answer.
func (x *panelQuery) lookAround(s *state.State, refused *RefusalList, out *api.Budget) error {
	y := &panelQuery{request: x.request, query: x.query, names: x.names, whole: x.whole}
	y.Executor, y.question, y.epsilon, y.panel = x.Executor, x.question, x.epsilon, x.panel
	y.start(s, Standing{Through: s.Counters.Events})
	y.request.Partial = true
	if err := y.convene(s); err != nil {
		return err
	}
	_, without, free := y.recorded() // what a partial request would get at once
	y.request.Partial, y.others = false, nil
	*out = api.Budget{
		Question: x.question.Name, Objects: uint64(len(y.names)), Event: s.Counters.Events, At: s.Clock,
		Refused: refused.Sums(),
	}
	top := api.BudgetLevel{Epsilon: x.epsilon}
	if err := y.lookAt(s, refused.Untold, &top); err != nil {
		return err
	}
	if free {
		top.Can = without.Objects
	}
	largest, err := y.largestFor(s, refused)
	if err != nil {
		return err
	}
	if out.Largest = largest; !largest.IsZero() {
		out.Levels = append(out.Levels, api.BudgetLevel{Epsilon: largest, Can: out.Objects})
	}
	out.Levels = append(out.Levels, top)
	return nil
}

// lookAt counts the objects that can answer when the refused objects are left out. It also counts
// the refused objects that time alone will allow to answer, and from when on.
func (x *panelQuery) lookAt(s *state.State, untold []string, at *api.BudgetLevel) error {
	if err := x.assess(s, x.at); err != nil {
		return err
	}
	for _, name := range x.names {
		if _, able := slices.BinarySearch(x.able.Names, name); able {
			continue
		}
		from, ever, err := x.from(s, name)
		if err != nil {
			return err
		}
		if ever {
			at.Later++
			at.From = rules.Latest(at.From, from)
		}
	}
	if x.lacking = untold; x.refused.Count()+len(untold) > 0 {
		if err := x.leaveOut(s, x.at); err != nil {
			return err
		}
	}
	at.Can = uint64(len(x.able.Names))
	return nil
}

// from returns the time from which an object can be charged if nothing but time changes. ever is
// false if time alone never allows the charge.
func (x *panelQuery) from(s *state.State, name string) (at time.Time, ever bool, err error) {
	var o rules.Subject
	refusal, err := rules.ReadSubject(s, x.question, name, x.epsilon, &o)
	if err != nil || refusal != nil || x.Rules.LacksTruthKey(name, x.epsilon) != nil {
		return at, false, err
	}
	if state.Minus(o.Object.Cap, o.Object.Spent).Less(x.cost) {
		return at, false, nil
	}
	held, err := s.HeldUntil(o.Object)
	if err != nil {
		return at, false, err
	}
	since, ever := o.Policy.Reaches(state.Plus(o.Chain.Spent(), x.cost), o.Chain.Buyers)
	return rules.Latest(since, held, s.Clock), ever, nil
}

// largestFor returns the largest ε at which all objects of the panel can answer. It is below the ε
// at which objects were refused. It returns 0 if there is no such ε, or if it is not found after
// [mostLooks] rounds.
func (x *panelQuery) largestFor(s *state.State, refused *RefusalList) (privacy.Epsilon, error) {
	for range mostLooks {
		most := refused.Lowest(x.epsilon)
		if x.epsilon = most; most.IsZero() {
			break
		}
		if _, _, free := x.recorded(); free {
			return most, nil
		}
		if err := x.assess(s, x.at); err != nil {
			return privacy.Epsilon{}, err
		}
		// At this lower ε other objects may be refused, because the cost may be another one.
		if refused = &x.refused; refused.Count() == 0 {
			return most, nil
		}
	}
	return privacy.Epsilon{}, nil
}
