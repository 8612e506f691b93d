package request

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Sweep executes a sweep: it draws the levels that policies have released by time. It also returns,
// by the number of the question, which true values could not be used.
func (e *Executor) Sweep(ctx context.Context, r api.AdvanceRequest) (Outcome, map[uint32]*rules.TruthFaults, error) {
	sw := &sweep{trueValues: map[valueKey]int32{}, faultsOf: map[uint32]*rules.TruthFaults{}}
	if err := sw.begin(e, sw, r.Key); err != nil {
		return Outcome{}, nil, err
	}
	sw.work, sw.onProgress, sw.source = sw, r.Progress, r.Truth
	sw.panel = Panel{All: true}
	if r.Question != "" {
		q, err := e.Question(ctx, r.Question)
		if err != nil {
			return Outcome{}, nil, err
		}
		sw.panel.Question = q.Number
	}
	sw.id = event.SweepRequest(r.Question) // only now, because a name that was not checked may have any length
	err := sw.run(ctx)
	return sw.outcome, sw.faultsOf, err
}

// sweep is a request to draw all levels that policies have released. It handles one object after
// the other, with the releases of all its questions in the order of their dates. They use up the
// cap of the object in this order, however long they have waited.
type sweep struct {
	bulk
	trueValues map[valueKey]int32            // true values for the next part
	faultsOf   map[uint32]*rules.TruthFaults // the true values that could not be used in all parts, by question
}

// valueKey identifies a true value by its object and question.
type valueKey struct {
	question uint32
	object   string
}

// forget overwrites the true values when an attempt ends.
func (sw *sweep) forget() {
	sw.bulk.forget()
	sw.forgetPart()
}

// forgetPart forgets the true values of a part. Those for the next part are requested later, as of
// a later event.
func (sw *sweep) forgetPart() {
	clear(sw.trueValues)
	sw.asOf = 0
}

// Precheck returns the number of objects if the host wants progress reports, and otherwise 0. It
// refuses no object. All parts use the time at which the request was looked up, so that they do not
// depend on the duration of the sweep.
func (sw *sweep) Precheck(ctx context.Context, p Panel, after string) (total int, err error) {
	if err := event.CheckTime(sw.at); err != nil || sw.onProgress == nil {
		return 0, err
	}
	err = sw.EachPart(ctx, &p, after, func(_ *state.State, names []string) error {
		total += len(names)
		return nil
	})
	return total, err
}

// Truths asks the host for the true values of the next part. An object without one in a question
// keeps budget for its other questions, which may then need true values too. So it repeats until no
// value is missing.
func (sw *sweep) Truths(ctx context.Context, after string) error {
	sw.forgetPart()
	for {
		needs, err := sw.needs(ctx, after)
		if err != nil || len(needs) == 0 {
			return err
		}
		var later rules.Later
		for _, number := range slices.Sorted(maps.Keys(needs)) {
			need := needs[number]
			if sw.faultsOf[number] == nil {
				sw.faultsOf[number] = &rules.TruthFaults{}
			}
			values, err := sw.Rules.Ask(ctx, need.question, sw.source, need.TruthRequest, sw.faultsOf[number])
			if later.Is(err) {
				continue
			}
			if err != nil {
				return err
			}
			for i, name := range need.Names {
				sw.trueValues[valueKey{number, name}] = values[i]
			}
			clear(values)
		}
		if later.Err != nil {
			return later.Err
		}
	}
}

// need is a list of true values to request for one question.
type need struct {
	question *event.Question
	rules.TruthRequest
}

// needs returns, by question, the objects of the next part whose true values are needed and were
// not requested yet. The part begins with the object that follows the name after. The map is empty
// if no value is missing.
func (sw *sweep) needs(ctx context.Context, after string) (needs map[uint32]*need, err error) {
	needs = map[uint32]*need{}
	err = sw.Engine.View(ctx, func(s *state.State) error {
		if sw.asOf == 0 {
			sw.asOf = s.Counters.Events // the first snapshot of the part
		}
		names, _, err := sw.panel.After(s, after, state.PartSize)
		if err != nil {
			return err
		}
		steps := 0
		for _, name := range names {
			if steps > maxSteps {
				return nil // Decide also ends the part here
			}
			plan, err := sw.plan(s, name, sw.at)
			if err != nil {
				return err
			}
			steps += len(plan.steps)
			for _, c := range plan.chains {
				if !c.needsTruth {
					continue
				}
				if needs[c.question.Number] == nil {
					needs[c.question.Number] = &need{question: c.question}
				}
				needs[c.question.Number].Add(name, c.Chain.Binding())
			}
		}
		return nil
	})
	return needs, err
}

// plan is what a sweep does with one object: the steps for all its chains.
type plan struct {
	object state.Object // with the spent budget after all steps
	chains []planned    // sorted by the number of the question
	steps  []step       // in the order of their release dates
}

// planned is one chain of a plan.
type planned struct {
	rules.Subject // as stored
	question      *event.Question
	after         state.Chain  // the chain after the steps so far, without responses
	steps         int          // number of steps of this chain
	refusal       *api.Refusal // of the first step that is refused; no further step follows it
	needsTruth    bool         // a true value is needed that was not requested yet
}

// raise makes epsilon, which is above all other levels, the current level of c.after. Only the
// current level matters for the budget. So c.after has the stored levels and at most one more,
// without a response, which each raise replaces.
func (c *planned) raise(epsilon privacy.Epsilon) {
	stored := len(c.Chain.Levels)
	c.after.Levels = append(c.after.Levels[:stored], state.NewLevel(epsilon, event.Value{}, 0))
}

// pending returns how many entries the steps so far add to the chain, apart from the level that
// c.after has already.
func (c *planned) pending() int {
	return (c.steps + len(c.Chain.Levels) - len(c.after.Levels)) * c.question.LevelEntries()
}

// step is a level to be recorded in one of the chains.
type step struct {
	chain   int // index in plan.chains
	epsilon privacy.Epsilon
	verdict event.Verdict
}

// plan returns the steps for one object. They are the levels that policies have released by a time
// and that are not recorded yet, as far as the budgets allow.
func (sw *sweep) plan(s *state.State, name string, at time.Time) (plan, error) {
	p, dues, err := sw.dueLevels(s, name, at)
	if err != nil {
		return p, err
	}
	for _, one := range dues {
		if err := sw.addStep(s, &p, one, at); err != nil {
			return p, err
		}
	}
	return p, nil
}

// due is a level that a policy has released to a chain of a plan.
type due struct {
	chain int       // index in plan.chains
	at    time.Time // of the release
	level privacy.Epsilon
}

// dueLevels returns a plan without steps, for the chains of an object that belong to the sweep.
// dues has all levels released to them by a time, also recorded ones, in the order of their release
// dates.
func (sw *sweep) dueLevels(s *state.State, name string, at time.Time) (p plan, dues []due, err error) {
	numbers := []uint32{sw.panel.Question}
	if sw.panel.Question == 0 {
		if numbers, err = s.QuestionsOf(name); err != nil {
			return p, nil, err
		}
	}
	for _, number := range numbers {
		q, err := s.Question(number)
		if err != nil {
			return p, nil, err
		}
		var o rules.Subject
		refusal, err := rules.ReadSubject(s, q, name, privacy.Epsilon{}, &o)
		if err != nil {
			return p, nil, err
		}
		if refusal != nil || o.Chain.Enrolled > sw.panel.Through {
			continue // it has withdrawn, or enrolled later
		}
		for _, one := range rules.Released(q, o.Policy, o.Chain.Buyers, at) {
			dues = append(dues, due{len(p.chains), one.At, one.Ceiling})
		}
		p.object = o.Object
		after := o.Chain
		after.Levels = slices.Clip(after.Levels) // the subject shares the memory
		p.chains = append(p.chains, planned{Subject: o, question: q, after: after})
	}
	slices.SortStableFunc(dues, func(a, b due) int { return a.at.Compare(b.at) })
	return p, dues, nil
}

// addStep adds a step to a plan if its level is not recorded yet and the budgets allow it. If they
// do not, it sets the refusal of the chain. A draw is charged to p.object, so that later steps have
// less budget.
func (sw *sweep) addStep(s *state.State, p *plan, one due, at time.Time) error {
	c := &p.chains[one.chain]
	if c.refusal != nil {
		return nil // higher levels would cost more
	}
	o := c.Subject
	o.Chain, o.Object = c.after, p.object
	ask := rules.Request{Question: c.question, Epsilon: one.level, At: at, Level: p.level, Pending: c.pending()}
	v, refusal, err := sw.Rules.Assess(s, &o, ask)
	if err == nil && refusal == nil && v == event.Drawn {
		refusal, err = sw.checkTrueValue(c, ask.Epsilon)
	}
	if err == nil && refusal != nil {
		err = sw.Rules.FindLargest(s, &o, ask, rules.Offered(c.question), refusal)
	}
	if c.refusal = refusal; err != nil || refusal != nil || v == event.Reused {
		return err
	}
	if v == event.Drawn {
		p.object.Spent, err = p.object.Spent.Add(state.Minus(one.level, c.after.Current()))
		if err != nil {
			return errs.Corrupt(nil, "object %q: %v", c.Name, err)
		}
		c.raise(one.level)
	}
	c.steps++
	p.steps = append(p.steps, step{one.chain, one.level, v})
	return nil
}

// checkTrueValue returns a refusal if the host has no usable true value for a draw. If the host was
// not asked yet, it sets c.needsTruth, and the draw is planned. It returns errOvertaken if the
// value no longer fits the chain.
func (sw *sweep) checkTrueValue(c *planned, epsilon privacy.Epsilon) (*api.Refusal, error) {
	truth, known := sw.trueValues[valueKey{c.question.Number, c.Name}]
	switch {
	case !known:
		c.needsTruth = true
		return nil, nil
	case truth == rules.NoTruth:
		return rules.LacksTruth(c.Name, epsilon), nil
	}
	return nil, sw.checkTruth(c.question, &c.Chain, c.Name, truth)
}

// level returns the current ε of the object's chain in a question after the steps so far. known is
// false if the plan has no such chain.
func (p *plan) level(question uint32) (epsilon privacy.Epsilon, known bool) {
	at, known := slices.BinarySearchFunc(p.chains, question, func(c planned, number uint32) int {
		return cmp.Compare(c.question.Number, number)
	})
	if !known {
		return privacy.Epsilon{}, false
	}
	return p.chains[at].after.Current(), true
}

// maxSteps is about the largest number of events in one part of a sweep. Without it, chains with
// many released levels would produce transactions of millions of events.
const maxSteps = 4 * state.PartSize

// Decide draws the released levels of the objects of one part. It ends the part early after about
// [maxSteps] events.
func (sw *sweep) Decide(s *state.State, names []string) (p Part, err error) {
	var sum Outcome // only its results by question are used
	for i, name := range names {
		if len(p.Changes) > maxSteps {
			p.Undecided = len(names) - i
			break
		}
		todo, err := sw.plan(s, name, rules.Earlier(sw.at, s.Clock))
		if err == nil {
			err = sw.executePlan(s, todo, &p)
		}
		if err != nil {
			return p, err
		}
		for _, c := range todo.chains {
			c.count(sum.SweptOf(c.question.Number))
		}
	}
	for _, number := range slices.Sorted(maps.Keys(sum.Swept)) {
		one := sum.Swept[number]
		p.Swept = append(p.Swept, one)
		p.Counts[event.SweepRaised] += one.Raised
		p.Counts[event.SweepUnchanged] += one.Unchanged
	}
	return p, nil
}

// count adds the result of a chain to those of its question: refused, raised or unchanged.
func (c planned) count(one *event.SweptQuestion) {
	switch {
	case c.refusal != nil:
		one.Refused++
		one.Refusals = append(one.Refusals, *c.refusal)
	case c.steps > 0:
		one.Raised++
	default:
		one.Unchanged++
	}
}

// executePlan draws the responses of the steps of one object, and adds their events to p. It adds
// each response to the chain in the plan, because the next draw depends on it. It returns
// errOvertaken if a true value is missing.
func (sw *sweep) executePlan(s *state.State, todo plan, p *Part) error {
	for i := range todo.chains {
		c := &todo.chains[i].Chain
		c.Levels = slices.Clone(c.Levels) // the plan shares the memory
	}
	for _, step := range todo.steps {
		c := &todo.chains[step.chain]
		truth, known := sw.trueValues[valueKey{c.question.Number, c.Name}]
		if step.verdict == event.Drawn && !known {
			return errOvertaken
		}
		r, first, err := sw.Rules.Respond(s.Samplers, c.question, &c.Subject, step.epsilon, truth)
		if err != nil {
			return err
		}
		at, _ := state.FindLevel(c.Chain.Levels, step.epsilon)
		c.Chain.Levels = slices.Insert(c.Chain.Levels, at, state.NewLevel(step.epsilon, r.Value, 0))
		for _, binding := range first {
			c.Chain.Bound = &binding.(*event.TruthBound).Tag
		}
		p.Changes = append(append(p.Changes, first...), &event.Released{
			Object: c.Name, Question: c.question.Number, Epsilon: step.epsilon, Response: r,
		})
	}
	return nil
}
