package ledger

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// AdvanceRequest asks for everything that policies have released by now.
type AdvanceRequest struct {
	Key      string `json:"-"`                  // idempotency key, 1 to 256 bytes: the day, say
	Question string `json:"question,omitempty"` // "" for all
	// Truth is asked for the objects that rise, up to 4,096 at a time.
	Truth    TruthFunc `json:"-"`
	Progress Progress  `json:"-"` // optional
}

// AdvanceResult tells what a sweep did.
type AdvanceResult struct {
	Questions []Advanced // those with anybody enrolled, in the order of their definition
	First     uint64     // first and last event; other requests' events may lie between
	Last      uint64     // as First
}

// Advanced tells what a sweep did in one question. Raised, Unchanged, Refused and Unlisted add up to the
// objects that take part.
type Advanced struct {
	Question  string `json:"question"`  // by its name
	Raised    int    `json:"raised"`    // have got every level released by now, at least one of them anew
	Unchanged int    `json:"unchanged"` // had them all, or have none coming, or are for sale
	// Refused fall short of what is released, for this reason. A sweep lists the first [MaxPanel] of all questions;
	// [Ledger.Refusals] yields all.
	Refused                    []Refusal `json:"refused"`
	Unlisted                   int       `json:"unlisted,omitempty"` // how many more fall short, or did and are forgotten since
	TruthChanged, TruthInvalid []string  `json:"-"`                  // of those refused, for the host alone: see [RaiseResult]
}

// Advance draws what policies release as time passes ([policy.Policy.Releases]): every chain gets a
// response at every level released by now. It does not matter how often Advance is called: one call after
// a month leaves the same levels as one every day, with the same law, and levels that a sale has
// overtaken meanwhile are derived for free. (Of a policy that orders unlock, what is unlocked by now counts;
// so there it matters whether an order comes before a call or after.) Policies without a date release nothing by themselves.
//
// A chain with terms of sale ([policy.Policy.Terms]) is left as it is, and counts as unchanged: the calendar raises its
// ceiling, and privacy is spent when somebody buys, or when the host itself raises it ([Ledger.Raise]).
//
// It goes through all chains in transactions of bounded size. If ctx ends, the source of truths fails or the
// process dies in between, what is done stays done, and the same request with the same key goes on where
// it stopped. An object that cannot follow its policy, because its cap binds or the host has no truth of
// it, not the former one, or none of the question's, is refused and holds nobody up. If the clock has gone back, nothing is released.
//
// Errors: [ErrUnknown], [ErrInvalid], [ErrKeyConflict], [ErrTruthSource], the error of the Truth function, and those of any write.
func (l *Ledger) Advance(ctx context.Context, r AdvanceRequest) (AdvanceResult, error) {
	if l.engine.ReadOnly {
		return AdvanceResult{}, ErrReadOnly
	}
	if err := names.Check("idempotency key", r.Key); err != nil {
		return AdvanceResult{}, err
	}
	x := &sweep{ledger: l, request: r, faults: map[uint32]*rules.TruthFaults{}}
	p := request.Panel{All: true}
	if r.Question != "" {
		q, err := l.findQuestion(ctx, r.Question)
		if err != nil {
			return AdvanceResult{}, err
		}
		x.only, p.Question = q.Number, q.Number
	}
	b := &request.Bulk{Engine: &l.engine, Holds: &l.rules.Holds, Work: x, Key: r.Key, Id: event.SweepRequest(r.Question), Panel: p, Progress: r.Progress}
	done, err := b.Run(ctx)
	x.forget()
	if err != nil {
		return AdvanceResult{}, err
	}
	return x.result(context.WithoutCancel(ctx), done) // it is done, whatever has become of ctx
}

// sweep is an AdvanceRequest being carried out. It goes object by object, so that releases in several
// questions take their turns under the object's cap by the calendar, however long they have waited.
type sweep struct {
	ledger  *Ledger
	request AdvanceRequest
	panel   request.Panel
	only    uint32 // the question, 0 for all
	through uint64 // chains that begin with a later event do not belong to it
	at      time.Time
	asOf    uint64                        // the last event when truths of the next part were first asked for; 0 before
	truths  map[uint32]map[string]int32   // of the next part, by question
	faults  map[uint32]*rules.TruthFaults // of all parts, by question
}

// forget overwrites the truths.
func (x *sweep) forget() {
	for _, values := range x.truths {
		clear(values)
	}
	clear(x.truths)
	x.asOf = 0
}

// Precheck settles the instant, so that the parts do not depend on how long the sweep takes, and counts
// the objects if anybody wants to know.
func (x *sweep) Precheck(ctx context.Context, p request.Panel, behind string) (total int, err error) {
	x.panel, x.through = p, p.Through
	err = x.ledger.engine.View(ctx, func(s *state.State) error {
		x.at = s.Clock
		return event.CheckTime(x.at)
	})
	if err == nil && x.request.Progress != nil {
		err = request.EachPart(ctx, &x.ledger.engine, &p, behind, func(_ *state.State, names []string) error {
			total += len(names)
			return nil
		})
	}
	return total, err
}

// Truths asks for the truths of the next part. Whoever turns out to have none leaves budget for other
// questions, which may then need truths too; so it asks until nothing is left to ask.
func (x *sweep) Truths(ctx context.Context, behind string) error {
	p := x.panel
	x.forget()
	for {
		needs, err := x.needs(ctx, p, behind)
		if err != nil || len(needs) == 0 {
			return err
		}
		var later rules.Later
		for _, need := range needs {
			number := need.question.Number
			if x.faults[number] == nil {
				x.faults[number] = &rules.TruthFaults{}
			}
			values, err := x.ledger.rules.Ask(ctx, need.question, x.request.Truth, need.Needy, x.faults[number])
			if later.Is(err) {
				continue
			}
			if err != nil {
				return err
			}
			x.told(need.question.Number, need.Names, values)
			clear(values)
		}
		if later.Err != nil {
			return later.Err
		}
	}
}

// need is a batch of truths to ask for.
type need struct {
	question *event.Question
	rules.Needy
}

// needs returns the truths that the next part needs and nobody was asked for, in the order of questions.
func (x *sweep) needs(ctx context.Context, p request.Panel, behind string) (needs []need, err error) {
	byQuestion := map[uint32]*need{}
	err = x.ledger.engine.View(ctx, func(s *state.State) error {
		if x.asOf == 0 {
			x.asOf = s.Counters.Events
		}
		names, _, err := p.After(s, behind, state.PartSize)
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
				if byQuestion[c.question.Number] == nil {
					byQuestion[c.question.Number] = &need{question: c.question}
				}
				byQuestion[c.question.Number].Add(name, c.Chain.Bond())
			}
		}
		return nil
	})
	for _, number := range slices.Sorted(maps.Keys(byQuestion)) {
		needs = append(needs, *byQuestion[number])
	}
	return needs, err
}

func (x *sweep) told(question uint32, names []string, values []int32) {
	if x.truths == nil {
		x.truths = map[uint32]map[string]int32{}
	}
	if x.truths[question] == nil {
		x.truths[question] = make(map[string]int32, len(names))
	}
	for i, name := range names {
		x.truths[question][name] = values[i]
	}
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
	after         state.Chain // as it will be, as far as its ε and budgets go
	steps         int         // that it takes
	refusal       *Refusal    // of the step that it cannot take
	unasked       bool        // a truth is needed
}

// raise makes an ε above all others the chain's current one. It adds one level, without a response, to
// those that are stored, and moves it up from step to step.
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

// due returns the chains of an object that belong to the sweep, and everything released to them, by the
// calendar.
func (x *sweep) due(s *state.State, name string, at time.Time) (p plan, dues []due, err error) {
	numbers := []uint32{x.only}
	if x.only == 0 {
		if numbers, err = s.QuestionsOf(name); err != nil {
			return p, nil, err
		}
	}
	for _, number := range numbers {
		q, err := s.Question(number)
		if err != nil {
			return p, nil, err
		}
		o, refusal, err := x.ledger.rules.Subject(s, q, name, privacy.Epsilon{})
		if err != nil {
			return p, nil, err
		}
		if refusal != nil || o.Chain.Enrolled > x.through {
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
	v, refusal, err := x.ledger.rules.Assess(s, &o, ask)
	switch {
	case err == nil && refusal != nil:
		err = x.ledger.rules.OrLess(s, &o, ask, rules.Offered(c.question), refusal)
	case err == nil && v == event.Drawn:
		refusal, err = x.checkTruth(s, c, &o, ask)
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

// checkTruth refuses a draw for which there is no truth. If the host was not asked, it will be.
func (x *sweep) checkTruth(s *state.State, c *planned, o *rules.Subject, ask rules.Asking) (*Refusal, error) {
	truth, known := x.truths[c.question.Number][c.Name]
	switch {
	case !known:
		c.unasked = true
	case truth == rules.NoTruth:
		return x.ledger.rules.LacksTruth(s, o, ask, rules.Offered(c.question))
	case !x.ledger.rules.StillFits(c.question, &c.Chain, c.Name, truth, x.asOf):
		return nil, request.ErrOvertaken // it is about another one since
	}
	return nil, nil
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

// reachOf adds a response to the chain as it is in memory.
func reachOf(c *state.Chain, epsilon privacy.Epsilon, r event.Response) {
	at, _ := state.FindLevel(c.Levels, epsilon)
	c.Levels = slices.Insert(c.Levels, at, state.NewLevel(epsilon, r.Value, 0))
}

// mostSteps bounds the events of one part of a sweep: chains that have much to catch up with would
// otherwise make a transaction of millions.
const mostSteps = 4 * state.PartSize

// decide draws for one part.
func (x *sweep) Decide(s *state.State, names []string) (p request.Part, err error) {
	swept := map[uint32]*event.SweptQuestion{}
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
			c.count(swept)
		}
	}
	for _, number := range slices.Sorted(maps.Keys(swept)) {
		one := swept[number]
		p.Swept = append(p.Swept, one)
		p.Counts[event.SweepRaised] += one.Raised
		p.Counts[event.SweepUnchanged] += one.Unchanged
	}
	return p, nil
}

// count adds what becomes of a chain.
func (c planned) count(swept map[uint32]*event.SweptQuestion) {
	number := c.question.Number
	if swept[number] == nil {
		swept[number] = &event.SweptQuestion{SweptCount: event.SweptCount{Question: number}}
	}
	one := swept[number]
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
func (x *sweep) follow(s *state.State, todo plan, p *request.Part) error {
	for i := range todo.chains {
		c := &todo.chains[i].Chain
		c.Levels = slices.Clone(c.Levels) // the plan has them too
	}
	for _, step := range todo.steps {
		c := &todo.chains[step.chain]
		truth, asked := x.truths[c.question.Number][c.Name]
		if step.verdict == event.Drawn && !asked {
			return request.ErrOvertaken
		}
		r, first, err := x.ledger.rules.Respond(s.Chances, c.question, &c.Subject, step.epsilon, truth)
		if err != nil {
			return err
		}
		reachOf(&c.Chain, step.epsilon, r)
		for _, binding := range first {
			c.Chain.Bound = &binding.(*event.TruthBound).Tag
		}
		p.Changes = append(append(p.Changes, first...), &event.Released{Object: c.Name, Question: c.question.Number, Epsilon: step.epsilon, Response: r})
	}
	return nil
}

// result puts the outcome in words.
func (x *sweep) result(ctx context.Context, done request.Outcome) (AdvanceResult, error) {
	out := AdvanceResult{First: done.First, Last: done.Last}
	err := x.ledger.engine.View(ctx, func(s *state.State) error {
		for _, number := range slices.Sorted(maps.Keys(done.Swept)) {
			q, err := s.Question(number)
			if err != nil {
				return err
			}
			one := done.Swept[number]
			told := Advanced{
				Question: q.Name, Raised: int(one.Raised), Unchanged: int(one.Unchanged),
				Refused: one.Refusals, Unlisted: int(one.Refused) - len(one.Refusals),
			}
			if faults := x.faults[number]; faults != nil {
				told.TruthChanged, told.TruthInvalid = faults.Among(one.Refusals)
			}
			out.Questions = append(out.Questions, told)
		}
		return nil
	})
	if err != nil {
		return AdvanceResult{}, err
	}
	return out, nil
}
