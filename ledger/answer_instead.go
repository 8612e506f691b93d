package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/budget"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/terms"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// instead adds to the error of a refused answer what the panel could answer: at its ε, and at the largest for all. If that cannot be
// found out, the error stays as it is.
func (x *inquiry) instead(ctx context.Context, err error) error {
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	var out Budget
	if x.ledger.engine.View(ctx, func(s *state.State) error { return x.lookAround(s, refused.Refused, &out) }) == nil {
		refused.Instead = &out
	}
	return err
}

// lookAround looks at the ε that was asked for, and at the largest that all can answer at.
func (x *inquiry) lookAround(s *state.State, refused []Refusal, out *Budget) error {
	y := &inquiry{ledger: x.ledger, request: x.request, question: x.question, query: x.query, names: x.names, whole: x.whole, at: s.Clock}
	y.request.Partial = true
	if err := errors.Join(y.convene(s, s.Counters.Events), y.recall(s)); err != nil {
		return err
	}
	_, without, free := y.recorded() // what a partial request would get at once
	y.request.Partial, y.others = false, nil
	*out = Budget{Question: x.question.Name, Objects: uint64(len(y.names)), Event: s.Counters.Events, At: s.Clock, Refused: vocabulary.SumRefusals(refused)}
	top := vocabulary.BudgetLevel{Epsilon: x.request.Epsilon}
	untold := func(r Refusal) bool { return r.Reason != NoTruth }
	if err := y.lookAt(s, slices.DeleteFunc(slices.Clone(refused), untold), &top); err != nil {
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
		out.Levels = append(out.Levels, vocabulary.BudgetLevel{Epsilon: largest, Can: out.Objects})
	}
	out.Levels = append(out.Levels, top)
	return nil
}

// lookAt counts who can answer without those who cannot, and who will be able to by time alone.
func (x *inquiry) lookAt(s *state.State, untold []Refusal, at *vocabulary.BudgetLevel) error {
	if err := x.assess(s, x.at); err != nil {
		return err
	}
	for _, r := range x.refused {
		from, ever, err := x.from(s, r.Object)
		if err != nil {
			return err
		}
		if ever {
			at.Later++
			at.From = maxTime(at.From, from)
		}
	}
	if len(x.refused)+len(untold) > 0 {
		if err := x.leaveOut(s, x.at); err != nil {
			return err
		}
	}
	at.Can = uint64(len(x.able.Names))
	for _, r := range untold {
		if _, able := slices.BinarySearch(x.able.Names, r.Object); able {
			at.Can--
		}
	}
	return nil
}

func maxTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// from returns when time alone will allow an object to be charged, if nothing else is asked of it until then.
func (x *inquiry) from(s *state.State, name string) (at time.Time, ever bool, err error) {
	var o terms.Subject
	refusal, err := terms.ReadSubject(s, x.question, name, x.request.Epsilon, &o)
	if err != nil || refusal != nil || x.ledger.rules.LacksTruthKey(name, x.request.Epsilon) != nil {
		return at, false, err
	}
	if budget.Minus(o.Object.Cap, o.Object.Spent).Less(x.cost) {
		return at, false, nil
	}
	for _, number := range o.Object.Held {
		r, err := s.Sale(number)
		if err != nil {
			return at, false, err
		}
		if r.HoldsOn(o.Object, s.Now) {
			at = maxTime(at, r.Expires)
		}
	}
	since, ever := o.Policy.Reaches(budget.Plus(o.Chain.Spent(), x.cost), o.Chain.Buyers)
	return maxTime(maxTime(at, since), s.Clock), ever, nil
}

// largestFor returns the largest ε at which everybody could answer, below the one that somebody is refused at; 0 if there is none.
func (x *inquiry) largestFor(s *state.State, refused []Refusal) (privacy.Epsilon, error) {
	for range mostLooks {
		most := x.request.Epsilon
		for _, r := range refused {
			most = budget.Lower(most, r.Largest)
		}
		if x.request.Epsilon = most; most.IsZero() {
			break
		}
		if _, _, free := x.recorded(); free {
			return most, nil
		}
		if err := x.assess(s, x.at); err != nil {
			return privacy.Epsilon{}, err
		}
		if refused = x.refused; len(refused) == 0 {
			return most, nil
		}
	}
	return privacy.Epsilon{}, nil
}
