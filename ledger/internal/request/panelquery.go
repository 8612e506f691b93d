package request

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// Answer executes a panel query.
func (e *Executor) Answer(ctx context.Context, r api.AnswerRequest) (out api.AnswerResult, err error) {
	x := &panelQuery{}
	if e.Engine.ReadOnly {
		return out, errs.ErrReadOnly
	}
	if err := x.set(ctx, e, r); err != nil {
		return out, err
	}
	if err := event.CheckName("idempotency key", r.Key); err != nil {
		return out, err
	}
	if err = x.run(ctx); err == nil {
		out, err = x.result(context.WithoutCancel(ctx)) // read it even if ctx has ended, because it is recorded
	} else {
		err = x.alternative(ctx, err)
	}
	if errors.As(err, new(*api.DisplacedError)) {
		e.Engine.Observe(func(o observe.Observer) { o.Refused(observe.Refusal{Question: x.question.Name}) })
	}
	return out, err
}

// QuoteAnswer returns what an answer would charge each object, and which objects it would refuse.
func (e *Executor) QuoteAnswer(ctx context.Context, r api.AnswerRequest) (q api.AnswerQuote, err error) {
	x := &panelQuery{}
	if err := x.set(ctx, e, r); err != nil {
		return q, err
	}
	err = x.Engine.View(ctx, func(s *state.State) error {
		x.start(s, Standing{Through: s.Counters.Events})
		if err := x.convene(s); err != nil {
			return err
		}
		q.Event = s.Counters.Events
		q.Held = state.Higher(x.known.Top().Epsilon, x.others.Top().Epsilon)
		if _, base, free := x.recorded(); free {
			q.Objects = base.Objects
			q.Refused, err = s.LeftOutOf(base)
			q.Sums = new(api.RefusedError).SumsWith(q.Refused...)
			return err
		}
		if err = x.assess(s, x.at); err != nil {
			return err
		}
		refused := x.refused.Error(x.question)
		q.Objects, q.Charge, q.NewDraw = uint64(len(x.able.Names)), x.cost, x.epsilon
		q.Refused, q.Unlisted, q.Sums = refused.Refused, refused.Unlisted, refused.Sums
		if !q.Held.IsZero() {
			q.NotRaised = x.anew
		}
		q.Displaced, err = x.displaced(s, x.able.Names, x.at)
		return err
	})
	if err != nil {
		return api.AnswerQuote{}, err
	}
	return q, nil
}

// panelQuery is a query about the true values of a panel.
type panelQuery struct {
	protocol
	request api.AnswerRequest
	query   mechanism.Query
	names   []string       // sorted names of the panel; of a panel of all, once they are read
	whole   event.PanelSum // digest of names
	// Fields read by each attempt before it decides:
	known   state.Answers     // recorded answers about the whole panel
	others  state.Answers     // recorded answers that left an object out; nil unless the request is partial
	leaves  bool              // the answer leaves an object out
	base    state.AnswerLevel // the answer to raise from; zero if none
	anew    error             // why no answer is raised, or nil
	cost    privacy.Epsilon   // charge to each object
	lacking []string          // sorted names of the objects that the host was asked for and has no true value of
	able    rules.Needy       // objects that can be charged, without those that lack a true value
	refused RefusalList       // the other objects
	why     RefusalList       // the refusals in the error of the request
}

// set checks the request and prepares the query for it.
func (x *panelQuery) set(ctx context.Context, e *Executor, r api.AnswerRequest) (err error) {
	if r.Epsilon.IsZero() {
		return errs.Invalid("ε must be above 0")
	}
	if x.names, err = event.CheckAsked(r.Objects, r.All, api.MaxPanel); err != nil {
		return err
	}
	if x.question, err = e.Question(ctx, r.Question); err != nil {
		return err
	}
	if x.query, err = mechanism.ParseQuery(r.Query, x.question.Values); err != nil {
		return errs.Invalid("question %q: %w", r.Question, err)
	}
	x.Executor, x.steps, x.key, x.request, x.epsilon, x.source = e, x, r.Key, r, r.Epsilon, r.Truth
	x.panel = Panel{Names: x.names, All: r.All, Question: x.question.Number}
	x.whole = event.PanelOf(x.names)
	x.id = event.PanelRequest{
		Question: r.Question, Query: r.Query, Epsilon: r.Epsilon, Panel: x.whole, Objects: uint64(len(x.names)),
		All: r.All, Partial: r.Partial,
	}.Identity()
	return nil
}

// convene reads the names of the panel and its recorded answers.
func (x *panelQuery) convene(s *state.State) (err error) {
	if x.names, err = x.panel.Whole(s, x.question); err != nil {
		return err
	}
	if x.panel.All {
		x.whole = event.PanelOf(x.names)
	}
	return x.recall(s)
}

// about returns the digest of the objects that the answer is about. If an object is left out, it
// marks the digest of the whole panel as partial.
func (x *panelQuery) about() event.PanelSum {
	if x.leaves {
		return x.whole.Partly()
	}
	return x.whole
}

// recall reads the recorded answers to the query.
func (x *panelQuery) recall(s *state.State) (err error) {
	x.leaves = false
	answers := func(panel event.PanelSum) (state.Answers, error) {
		all, _, err := s.Answers(state.AnswerKey(x.question.Number, x.request.Query, panel))
		return all, err
	}
	if x.known, err = answers(x.whole); err == nil && x.request.Partial {
		x.others, err = answers(x.whole.Partly())
	}
	return err
}

// recorded returns the recorded answer at the requested ε or else at the lowest ε above it, with
// the answers that it is one of. It sets x.leaves if that answer left an object out. free is false
// if there is no such answer.
func (x *panelQuery) recorded() (among state.Answers, base state.AnswerLevel, free bool) {
	base, free = x.known.Best(x.epsilon)
	other, found := x.others.Best(x.epsilon)
	if x.leaves = found && (!free || other.Epsilon.Less(base.Epsilon)); x.leaves {
		return x.others, other, true
	}
	return x.known, base, free
}

// look assesses the panel, unless the answer is recorded.
func (x *panelQuery) look(s *state.State) error {
	x.able, x.lacking = rules.Needy{}, nil
	if err := x.convene(s); err != nil {
		return err
	}
	if _, _, free := x.recorded(); free {
		return nil
	}
	if err := x.assess(s, x.at); err != nil {
		return err
	}
	if err := x.refuseSome(); err != nil {
		return err
	}
	return x.refuseLoss(s, x.able.Names, x.at)
}

// raisable returns the recorded answer that a new one can be raised from: the highest about the
// whole panel. why is nil, or the reason why it cannot be raised.
//
// It cannot be raised if an object has begun an epoch since the answer was first drawn, because the
// true value of that object may have changed. Answers about objects that were forgotten since then
// are erased already.
func (x *panelQuery) raisable(s *state.State) (top state.AnswerLevel, why, err error) {
	top = x.known.Top()
	switch {
	case len(x.known) == 0:
		return top, x.notRaised(), nil
	case !top.Scored:
		return top, &mechanism.ScoreError{Outputs: x.query.Outputs(len(x.question.Values))}, nil
	}
	for _, name := range x.names {
		c, _, err := s.Chain(x.question.Number, name)
		if err != nil {
			return top, nil, err
		}
		if c.Since > top.Began {
			return top, ErrNewEpoch, nil
		}
	}
	return top, nil, nil
}

// notRaised returns why nothing is raised: there is no answer, or an object is left out, now or in
// all recorded answers.
func (x *panelQuery) notRaised() error {
	if len(x.known) == 0 && len(x.others) == 0 {
		return errNoAnswer
	}
	return ErrPartialPanel
}

// Reasons why no answer is raised.
var (
	errNoAnswer = errors.New("there is no answer yet")
	// ErrNewEpoch says that the true value of an object may have changed since the answer.
	ErrNewEpoch = errors.New("somebody in the panel has begun a new epoch")
	// ErrPartialPanel says that the objects of the answer may differ from those of the next one.
	ErrPartialPanel = errors.New("somebody is left out, and whom a partial request leaves out may change")
)

// assess computes the cost and divides the panel into objects that can be charged and objects that
// cannot, without reading true values. If a partial request must leave an object out, no answer is
// raised.
func (x *panelQuery) assess(s *state.State, at time.Time) error {
	base, why, err := x.raisable(s)
	if err != nil {
		return err
	}
	x.leaves, x.base, x.cost, x.anew = false, state.AnswerLevel{}, x.epsilon, why
	if why == nil {
		x.base, x.cost = base, state.Minus(x.epsilon, base.Epsilon)
	}
	if err := x.part(s, at); err != nil || x.refused.Count() == 0 || !x.request.Partial {
		return err
	}
	return x.leaveOut(s, at)
}

// leaveOut assesses the panel for an answer that leaves an object out and is not raised.
func (x *panelQuery) leaveOut(s *state.State, at time.Time) error {
	x.leaves, x.base, x.cost, x.anew = true, state.AnswerLevel{}, x.epsilon, x.notRaised()
	return x.part(s, at)
}

// part divides the panel into objects that can be charged the cost, and objects that cannot or lack
// a true value.
func (x *panelQuery) part(s *state.State, at time.Time) error {
	x.able, x.refused = rules.Needy{}, NewRefusals(x.request.Partial)
	for _, name := range x.names {
		var o rules.Subject
		refusal, err := rules.ReadSubject(s, x.question, name, x.epsilon, &o)
		if err == nil && refusal == nil {
			refusal, err = x.check(s, &o, at)
		}
		if err != nil {
			return err
		}
		if refusal != nil {
			x.refused.Add(*refusal)
		} else {
			x.able.Add(name, o.Chain.Bond())
		}
	}
	return nil
}

// check returns why an object cannot be charged or cannot be drawn for, or nil if it can.
func (x *panelQuery) check(s *state.State, o *rules.Subject, at time.Time) (*api.Refusal, error) {
	if refusal := x.Rules.LacksTruthKey(o.Name, x.epsilon); refusal != nil {
		rules.OrLess(refusal, x.known.Top().Epsilon)
		return refusal, nil
	}
	ask := rules.Asking{Question: x.question, Epsilon: x.epsilon, At: at}
	charge := rules.Charge{Asking: ask, Cost: x.cost, Reaches: o.Chain.Current()}
	refusal, err := x.Rules.CheckBudget(s, o, charge)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		r, err := charge.Headroom(s, o, x.Rules.Holds.List())
		rules.OrLess(refusal, x.largest(r.Most()))
		return refusal, err
	}
	if _, lacks := slices.BinarySearch(x.lacking, o.Name); !lacks {
		return nil, nil
	}
	refusal = rules.LacksTruth(o.Name, x.epsilon)
	rules.OrLess(refusal, x.known.Top().Epsilon)
	return refusal, nil
}

// largest returns the largest ε at which the request would not leave out an object that can be
// charged room more. A recorded answer about the whole panel includes the object. A recorded answer
// to a partial request may have left it out, so the result is not below such an answer.
func (x *panelQuery) largest(room privacy.Epsilon) privacy.Epsilon {
	free := x.known.Top().Epsilon
	if reach := state.Plus(x.base.Epsilon, room); free.Less(reach) && x.others.Top().Epsilon.Less(reach) {
		return reach
	}
	return free
}

// refuseSome returns the error of a refused request: one that is not partial and has a refused
// object, or one with no object left.
func (x *panelQuery) refuseSome() error {
	if n := x.refused.Count(); n == 0 || x.request.Partial && n < len(x.names) {
		return nil
	}
	x.why = x.refused
	return x.refuse(x.refused)
}

// ask asks the host for the true values of the objects that can be charged. If some have none, the
// panel is assessed again without them. The cost may then be higher, because nothing is raised, and
// more objects may be refused.
func (x *panelQuery) ask(ctx context.Context) error {
	if len(x.able.Names) == 0 {
		return nil // the answer is recorded
	}
	err := x.askFor(ctx, x.able, func(names []string, values []int32) {
		x.truths.Add(names, values)
		for i, value := range values {
			if value == rules.NoTruth {
				x.lacking = append(x.lacking, names[i])
			}
		}
	})
	if err == nil && len(x.lacking) > 0 {
		err = x.Engine.View(ctx, func(s *state.State) error { return x.assess(s, x.at) })
	}
	if err != nil {
		return err
	}
	return x.refuseSome()
}

// decide returns the events of the answer and of its charges.
func (x *panelQuery) decide(s *state.State) ([]event.Change, error) {
	if err := x.recall(s); err != nil {
		return nil, err
	}
	known, base, free := x.recorded()
	if !free {
		return x.draw(s)
	}
	left, err := s.LeftOutOf(base)
	if err != nil {
		return nil, err
	}
	if base.Epsilon == x.epsilon {
		x.end.Counts[event.Reused], x.end.Answer = 1, base.Event
		return Settling(nil, x.question.Number, left, x.end), nil
	}
	x.end.Counts[event.Derived], x.end.Answer = 1, x.end.First
	made, how, err := x.derive(known, base)
	return Settling([]event.Change{x.record(made, how, base.Objects, base.Event)}, x.question.Number, left, x.end), err
}

// record returns the event of an answer about this number of objects. base is the event of the
// answer that it was raised or derived from, or 0 if there is none.
func (x *panelQuery) record(r event.Result, how event.Method, objects, base uint64) *event.Answered {
	return &event.Answered{
		Question: x.question.Number, Query: x.request.Query, Panel: x.about(), Objects: objects, Epsilon: x.epsilon,
		Result: r, Method: how, Base: base,
	}
}

// derive draws an answer at the requested ε from recorded answers, without true values. It uses the
// nearest answer above and, if the answers have scores, the nearest one below in known.
func (x *panelQuery) derive(known state.Answers, base state.AnswerLevel) (event.Result, event.Method, error) {
	if !base.Scored {
		outputs := x.query.Outputs(len(x.question.Values))
		if outputs == 2 { // two outputs have no boundary, so the answer is certain at every ε
			return event.Result{Output: base.Output}, event.MethodDegrade, nil
		}
		output, err := x.Sampler.Degrade(outputs, base.Output, base.Epsilon, x.epsilon)
		return event.Result{Output: output}, event.MethodDegrade, err
	}
	how, lower := event.MethodDegrade, mechanism.Score{}
	if below, found := known.Below(x.epsilon, base); found {
		how, lower = event.MethodInsert, below.AsScore()
	}
	score, err := x.Sampler.Between(lower, base.AsScore(), x.epsilon)
	return event.Result{Scored: true, Score: score.Value}, how, err
}

// drawAnswer draws an answer from the place of the panel. If the query has scores it draws a score,
// raised from x.base if that is set.
func (x *panelQuery) drawAnswer(place mechanism.Place) (event.Result, event.Method, error) {
	if _, ok := place.Position(); !ok {
		output, err := x.Sampler.Draw(place, x.epsilon)
		return event.Result{Output: output}, event.MethodFresh, err
	}
	how, last := event.MethodFresh, mechanism.Score{}
	if x.base.Scored {
		how, last = event.MethodRaise, x.base.AsScore()
	}
	score, err := x.Sampler.Raise(last, x.epsilon, place)
	return event.Result{Scored: true, Score: score.Value}, how, err
}

// draw charges the objects and draws the answer from their true values.
func (x *panelQuery) draw(s *state.State) ([]event.Change, error) {
	asked, base, at := x.able.Names, x.base, rules.Earlier(x.at, s.Clock)
	if err := x.assess(s, at); err != nil {
		return nil, err
	}
	// asked is empty if the answer was recorded when this attempt began. It was erased since then.
	if len(asked) == 0 || !slices.Equal(asked, x.able.Names) || base != x.base {
		return nil, errOvertaken // an object was charged since then
	}
	if err := x.refuseLoss(s, x.able.Names, at); err != nil {
		return nil, err
	}
	changes, counts, err := x.count(s)
	if err != nil {
		return nil, err
	}
	place, err := x.query.Place(counts)
	if err != nil {
		return nil, err
	}
	made, how, err := x.drawAnswer(place)
	if err != nil {
		return nil, err
	}
	x.end.Counts[event.Drawn], x.end.Answer = 1, x.end.First+uint64(len(changes))
	changes = append(changes, x.record(made, how, uint64(len(x.able.Names)), x.base.Event))
	return Settling(changes, x.question.Number, x.refused.Listed, x.end), nil
}

// count returns the events that bind chains to true values, followed by the charges, and the number
// of objects with each true value. It first checks that each true value still fits its chain.
func (x *panelQuery) count(s *state.State) (changes []event.Change, counts []int64, err error) {
	charges := make([]event.Change, len(x.able.Names))
	counts = make([]int64, len(x.question.Values))
	for i, name := range x.able.Names {
		c, _, err := s.Chain(x.question.Number, name)
		if err != nil {
			return nil, nil, err
		}
		truth, asked := x.truths.Of(name)
		if !asked {
			return nil, nil, errOvertaken
		}
		if err := x.checkTruth(x.question, &c, name, truth); err != nil {
			return nil, nil, err
		}
		changes = append(changes, x.Rules.Bind(x.question, c.Bond(), name, truth)...)
		charges[i] = &event.Charged{Object: name, Question: x.question.Number, Epsilon: x.cost}
		counts[truth]++
	}
	return append(changes, charges...), counts, nil
}

// result reads the recorded answer of the request.
func (x *panelQuery) result(ctx context.Context) (api.AnswerResult, error) {
	out := api.AnswerResult{Epsilon: x.epsilon}
	err := x.Engine.View(ctx, func(s *state.State) error {
		end, err := s.Settlement(x.st.Last)
		if err != nil {
			return err
		}
		out.Event = end.Answer
		if out.Refused, err = RefusalsOf(s, x.st.Last, end); err != nil {
			return err
		}
		out.TruthChanged, out.TruthInvalid = x.faults.Among(out.Refused)
		ev, err := s.Event(end.Answer)
		if err != nil {
			return err
		}
		c, ok := ev.Change.(*event.Answered)
		if !ok || c.Epsilon != x.epsilon || c.Query != x.request.Query {
			return errs.Corrupt(nil, "event %d does not answer %q at ε=%s", end.Answer, x.request.Query, x.epsilon)
		}
		if end.Counts[event.Drawn] == 1 {
			if out.Charged, err = costOf(s, c); err != nil {
				return err
			}
		}
		out.Objects = c.Objects
		out.Answer, err = x.question.AnswerText(c.Query, c.Result)
		return err
	})
	if err != nil {
		return api.AnswerResult{}, err
	}
	return out, nil
}

// costOf returns what an answer drawn from true values cost each object. For a raised answer, that
// is the difference to the ε that it was raised from.
func costOf(s *state.State, c *event.Answered) (privacy.Epsilon, error) {
	if c.Method != event.MethodRaise {
		return c.Epsilon, nil
	}
	ev, err := s.Event(c.Base)
	base, is := ev.Change.(*event.Answered)
	if err != nil || !is {
		return privacy.Epsilon{}, errs.Corrupt(err, "an answer was raised from event %d, which is none", c.Base)
	}
	return state.Minus(c.Epsilon, base.Epsilon), nil
}
