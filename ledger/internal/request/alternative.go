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

// alternative adds to the error of a refused panel query what is possible instead: how many objects
// can answer at its ε, and the largest ε at which all can. It returns other errors unchanged. In
// both cases it reports the error to the host.
func (q *panelQuery) alternative(ctx context.Context, err error) error {
	return q.explain(ctx, callback.Report(err), func(s *state.State, out *api.Budget) error {
		return q.readAlternative(s, &q.reported, out)
	})
}

// readAlternative fills out with the number of objects that can answer at the requested ε. It adds
// the largest ε at which all objects of the panel can answer. refused has the refusals of the
// query. It works on a copy of the query, at first as if the request were partial, and then as if
// it were not.
func (q *panelQuery) readAlternative(s *state.State, refused *RefusalList, out *api.Budget) error {
	partial := &panelQuery{request: q.request, query: q.query, names: q.names, panelSum: q.panelSum}
	partial.Executor, partial.question, partial.epsilon, partial.panel = q.Executor, q.question, q.epsilon, q.panel
	partial.start(s, Progress{Through: s.Counters.Events})
	partial.request.Partial = true
	if err := partial.readPanel(s); err != nil {
		return err
	}
	_, without, free := partial.recorded() // without: the recorded answer that a partial request gets
	// From here on, the copy is for a request that is not partial.
	partial.request.Partial, partial.others = false, nil
	*out = api.Budget{
		Question: q.question.Name, Objects: uint64(len(partial.names)), Event: s.Counters.Events, At: s.Clock,
		Refused: refused.Sums(),
	}
	top := api.BudgetLevel{Epsilon: q.epsilon}
	if err := partial.countAble(s, refused.WithoutTruth, &top); err != nil {
		return err
	}
	if free {
		top.Can = without.Objects
	}
	largest, err := partial.largestFor(s, refused)
	if err != nil {
		return err
	}
	if out.Largest = largest; !largest.IsZero() {
		out.Levels = append(out.Levels, api.BudgetLevel{Epsilon: largest, Can: out.Objects})
	}
	out.Levels = append(out.Levels, top)
	return nil
}

// countAble sets at.Can to the number of objects that can answer when all refused objects are left
// out. It adds to at the number of objects that time alone will allow to answer, and from when on.
// withoutTruth has the sorted names of the objects without a true value.
func (q *panelQuery) countAble(s *state.State, withoutTruth []string, at *api.BudgetLevel) error {
	if err := q.assess(s, q.at); err != nil {
		return err
	}
	for _, name := range q.names {
		if _, able := slices.BinarySearch(q.chargeable.Names, name); able {
			continue
		}
		from, ever, err := q.chargeableFrom(s, name)
		if err != nil {
			return err
		}
		if ever {
			at.Later++
			at.From = rules.Latest(at.From, from)
		}
	}
	// If an object is left out, the answer costs its whole ε, so more objects may be refused.
	if q.lacking = withoutTruth; q.refused.Count()+len(withoutTruth) > 0 {
		if err := q.assessWithout(s, q.at); err != nil {
			return err
		}
	}
	at.Can = uint64(len(q.chargeable.Names))
	return nil
}

// chargeableFrom returns the time from which an object can be charged the cost if nothing but time
// changes: its ceiling has risen, and its reservations have ended. ever is false if time alone
// never allows the charge.
func (q *panelQuery) chargeableFrom(s *state.State, name string) (at time.Time, ever bool, err error) {
	var o rules.Subject
	refusal, err := rules.ReadSubject(s, q.question, name, q.epsilon, &o)
	if err != nil || refusal != nil || q.Rules.LacksTruthKey(name, q.epsilon) != nil {
		return at, false, err
	}
	if state.Minus(o.Object.Cap, o.Object.Spent).Less(q.cost) {
		return at, false, nil
	}
	held, err := s.HeldUntil(o.Object)
	if err != nil {
		return at, false, err
	}
	since, ever := o.Policy.Reaches(state.Plus(o.Chain.Spent(), q.cost), o.Chain.Buyers)
	return rules.Latest(since, held, s.Clock), ever, nil
}

// largestFor returns the largest ε at which all objects of the panel can answer, below the ε at
// which the objects in refused were refused. It returns 0 if there is none, or if it is not found
// in [maxCounts] rounds. It changes q.epsilon.
func (q *panelQuery) largestFor(s *state.State, refused *RefusalList) (privacy.Epsilon, error) {
	for range maxCounts {
		most := refused.Lowest(q.epsilon)
		if q.epsilon = most; most.IsZero() {
			break
		}
		if _, _, free := q.recorded(); free { // the answer is recorded, so it costs nothing
			return most, nil
		}
		if err := q.assess(s, q.at); err != nil {
			return privacy.Epsilon{}, err
		}
		// At this lower ε other objects may be refused, because the cost may be another one.
		if refused = &q.refused; refused.Count() == 0 {
			return most, nil
		}
	}
	return privacy.Epsilon{}, nil
}
