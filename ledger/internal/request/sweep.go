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

// Sweep executes a sweep. It also returns, by the number of the question, what is wrong with true
// values.
func (e *Executor) Sweep(ctx context.Context, r api.AdvanceRequest) (Outcome, map[uint32]*rules.TruthFaults, error) {
	x := &sweep{truths: map[valueOf]int32{}, faults: map[uint32]*rules.TruthFaults{}}
	if err := x.begin(e, x, r.Key); err != nil {
		return Outcome{}, nil, err
	}
	x.work, x.progress, x.source = x, r.Progress, r.Truth
	x.panel = Panel{All: true}
	if r.Question != "" {
		q, err := e.Question(ctx, r.Question)
		if err != nil {
			return Outcome{}, nil, err
		}
		x.panel.Question = q.Number
	}
	x.id = event.SweepRequest(r.Question) // after the question was found: a name can be of any length before
	err := x.run(ctx)
	return x.outcome, x.faults, err
}

// sweep is a request for everything that policies have released. It goes object by object, so that
// releases in several questions take their turns under the object's cap by the calendar, however
// long they have waited.
type sweep struct {
	bulk
	truths map[valueOf]int32             // of the next part
	faults map[uint32]*rules.TruthFaults // of all parts, by question
}

// valueOf names what the host was asked for: the true value of an object in a question.
type valueOf struct {
	question uint32
	object   string
}

// forget overwrites the true values.
func (x *sweep) forget() {
	x.bulk.forget()
	x.forgetPart()
}

// forgetPart overwrites the true values of a part. Those of the next one are asked for later.
func (x *sweep) forgetPart() {
	clear(x.truths)
	x.asOf = 0
}

// Precheck counts the objects if the host wants to know. The instant of all parts is the one at
// which the request was looked up, so that they do not depend on how long the sweep takes.
func (x *sweep) Precheck(ctx context.Context, p Panel, after string) (total int, err error) {
	if err := event.CheckTime(x.at); err != nil || x.progress == nil {
		return 0, err
	}
	err = x.EachPart(ctx, &p, after, func(_ *state.State, names []string) error {
		total += len(names)
		return nil
	})
	return total, err
}

// Truths asks for the true values of the next part. An object without one leaves budget for other
// questions, which may then need true values too: so it asks until nothing is left to ask.
func (x *sweep) Truths(ctx context.Context, after string) error {
	x.forgetPart()
	for {
		needs, err := x.needs(ctx, after)
		if err != nil || len(needs) == 0 {
			return err
		}
		var later rules.Later
		for _, number := range slices.Sorted(maps.Keys(needs)) {
			need := needs[number]
			if x.faults[number] == nil {
				x.faults[number] = &rules.TruthFaults{}
			}
			values, err := x.Rules.Ask(ctx, need.question, x.source, need.Needy, x.faults[number])
			if later.Is(err) {
				continue
			}
			if err != nil {
				return err
			}
			for i, name := range need.Names {
				x.truths[valueOf{number, name}] = values[i]
			}
			clear(values)
		}
		if later.Err != nil {
			return later.Err
		}
	}
}

// need is a batch of true values to ask for.
type need struct {
	question *event.Question
	rules.Needy
}

// needs returns the true values that the next part needs and that were not asked for, by question.
func (x *sweep) needs(ctx context.Context, after string) (needs map[uint32]*need, err error) {
	needs = map[uint32]*need{}
	err = x.Engine.View(ctx, func(s *state.State) error {
		if x.asOf == 0 {
			x.asOf = s.Counters.Events
		}
		names, _, err := x.panel.After(s, after, state.PartSize)
		if err != nil {
			return err
		}
		steps := 0
		for _, name := range names {
			if steps > mostSteps {
				return nil // decide goes no further either
			}
			plan, err := x.plan(s, name, x.at)
			if err != nil {
				return err
			}
			steps += len(plan.steps)
			for _, c := range plan.chains {
				if !c.unasked {
					continue
				}
				if needs[c.question.Number] == nil {
					needs[c.question.Number] = &need{question: c.question}
				}
				needs[c.question.Number].Add(name, c.Chain.Bond())
			}
		}
		return nil
	})
	return needs, err
}

// plan is what a sweep has to do with one object.
type plan struct {
	object state.Object // with what is spent after all steps
	chains []planned    // by the number of the question
	steps  []step       // by the calendar
}

// planned is one chain of a plan.
type planned struct {
	rules.Subject // as it is stored
	question      *event.Question
	after         state.Chain  // as it will be, as far as its ε and budgets go
	steps         int          // that it takes
	refusal       *api.Refusal // of the step that it cannot take
	unasked       bool         // a truth is needed
}

// raise makes an ε above all others the chain's current one. It adds one level, without a response,
// to those that are stored, and moves it up from step to step.
func (c *planned) raise(epsilon privacy.Epsilon) {
	stored := len(c.Chain.Levels)
	c.after.Levels = append(c.after.Levels[:stored], state.NewLevel(epsilon, event.Value{}, 0))
}

// pending returns how many entries the steps add beside the level that raise has added.
func (c *planned) pending() int {
	return (c.steps + len(c.Chain.Levels) - len(c.after.Levels)) * c.question.LevelEntries()
}

// step is a level that one of the chains gets.
type step struct {
	chain   int
	epsilon privacy.Epsilon
	verdict event.Verdict
}

// plan finds the levels that policies have released to an object by an instant and that are not
// recorded, as far as budgets allow them.
func (x *sweep) plan(s *state.State, name string, at time.Time) (plan, error) {
	p, dues, err := x.due(s, name, at)
	if err != nil {
		return p, err
	}
	for _, one := range dues {
		if err := x.take(s, &p, one, at); err != nil {
			return p, err
		}
	}
	return p, nil
}

// due is a level that a policy has released.
type due struct {
	chain int
	at    time.Time
	level privacy.Epsilon
}

// due returns the chains of an object that belong to the sweep, and everything released to them, by
// the calendar.
func (x *sweep) due(s *state.State, name string, at time.Time) (p plan, dues []due, err error) {
	numbers := []uint32{x.panel.Question}
	if x.panel.Question == 0 {
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
		if refusal != nil || o.Chain.Enrolled > x.panel.Through {
			continue // it has withdrawn, or came later
		}
		for _, one := range rules.Released(q, o.Policy, o.Chain.Buyers, at) {
			dues = append(dues, due{len(p.chains), one.At, one.Ceiling})
		}
		p.object = o.Object
		after := o.Chain
		after.Levels = slices.Clip(after.Levels) // the subject has them, too
		p.chains = append(p.chains, planned{Subject: o, question: q, after: after})
	}
	slices.SortStableFunc(dues, func(a, b due) int { return a.at.Compare(b.at) })
	return p, dues, nil
}

// take adds a step to a plan, if it is needed and possible.
func (x *sweep) take(s *state.State, p *plan, one due, at time.Time) error {
	c := &p.chains[one.chain]
	if c.refusal != nil {
		return nil // what follows would cost more
	}
	o := c.Subject
	o.Chain, o.Object = c.after, p.object
	ask := rules.Asking{Question: c.question, Epsilon: one.level, At: at, Level: p.level, Pending: c.pending()}
	v, refusal, err := x.Rules.Assess(s, &o, ask)
	if err == nil && refusal == nil && v == event.Drawn {
		refusal, err = x.checkTold(c, ask.Epsilon)
	}
	if err == nil && refusal != nil {
		err = x.Rules.OrLess(s, &o, ask, rules.Offered(c.question), refusal)
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

// checkTold refuses a draw for which there is no true value. If the host was not asked, it will be.
func (x *sweep) checkTold(c *planned, epsilon privacy.Epsilon) (*api.Refusal, error) {
	truth, known := x.truths[valueOf{c.question.Number, c.Name}]
	switch {
	case !known:
		c.unasked = true
		return nil, nil
	case truth == rules.NoTruth:
		return rules.LacksTruth(c.Name, epsilon), nil
	}
	return nil, x.checkTruth(c.question, &c.Chain, c.Name, truth)
}

// level returns the ε that the object's chain in a question gets by the steps so far.
func (p *plan) level(question uint32) (epsilon privacy.Epsilon, known bool) {
	at, known := slices.BinarySearchFunc(p.chains, question, func(c planned, number uint32) int {
		return cmp.Compare(c.question.Number, number)
	})
	if !known {
		return privacy.Epsilon{}, false
	}
	return p.chains[at].after.Current(), true
}

// mostSteps bounds the events of one part of a sweep: chains that have much to catch up with would
// otherwise make a transaction of millions.
const mostSteps = 4 * state.PartSize

// decide draws for one part.
func (x *sweep) Decide(s *state.State, names []string) (p Part, err error) {
	var sum Outcome
	for i, name := range names {
		if len(p.Changes) > mostSteps {
			p.Left = len(names) - i
			break
		}
		todo, err := x.plan(s, name, rules.Earlier(x.at, s.Clock))
		if err == nil {
			err = x.follow(s, todo, &p)
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

// count adds what becomes of a chain.
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

// follow takes the steps of one object.
func (x *sweep) follow(s *state.State, todo plan, p *Part) error {
	for i := range todo.chains {
		c := &todo.chains[i].Chain
		c.Levels = slices.Clone(c.Levels) // the plan has them too
	}
	for _, step := range todo.steps {
		c := &todo.chains[step.chain]
		truth, known := x.truths[valueOf{c.question.Number, c.Name}]
		if step.verdict == event.Drawn && !known {
			return errOvertaken
		}
		r, first, err := x.Rules.Respond(s.Chances, c.question, &c.Subject, step.epsilon, truth)
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
