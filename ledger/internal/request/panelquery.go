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

// Answer executes a panel query. If it is refused, the error says what is possible instead. The
// observer gets a refusal without objects if levels on offer would be displaced, because that error
// has none.
func (e *Executor) Answer(ctx context.Context, r api.AnswerRequest) (out api.AnswerResult, err error) {
	q := &panelQuery{}
	if e.Engine.ReadOnly {
		return out, errs.ErrReadOnly
	}
	if err := q.prepare(ctx, e, r); err != nil {
		return out, err
	}
	if err := event.CheckName("idempotency key", r.Key); err != nil {
		return out, err
	}
	if err = q.run(ctx); err == nil {
		out, err = q.result(context.WithoutCancel(ctx)) // read it even if ctx has ended, because it is recorded
	} else {
		err = q.alternative(ctx, err)
	}
	if errors.As(err, new(*api.DisplacedError)) {
		e.Engine.Observe(func(o observe.Observer) { o.Refused(observe.Refusal{Question: q.question.Name}) })
	}
	return out, err
}

// QuoteAnswer returns what an answer would charge each object, and which objects it would refuse,
// if it were executed now. It changes nothing.
func (e *Executor) QuoteAnswer(ctx context.Context, r api.AnswerRequest) (quote api.AnswerQuote, err error) {
	q := &panelQuery{}
	if err := q.prepare(ctx, e, r); err != nil {
		return quote, err
	}
	err = q.Engine.View(ctx, func(s *state.State) error {
		q.start(s, Progress{Through: s.Counters.Events})
		if err := q.readPanel(s); err != nil {
			return err
		}
		quote.Event = s.Counters.Events
		quote.Held = state.Higher(q.known.Top().Epsilon, q.others.Top().Epsilon)
		if _, base, free := q.recorded(); free { // the answer costs nothing
			quote.Objects = base.Objects
			quote.Refused, err = s.LeftOutOf(base)
			quote.Sums = new(api.RefusedError).SumsWith(quote.Refused...)
			return err
		}
		if err = q.assess(s, q.at); err != nil {
			return err
		}
		refused := q.refused.Error(q.question)
		quote.Objects, quote.Charge, quote.NewDraw = uint64(len(q.chargeable.Names)), q.cost, q.epsilon
		quote.Refused, quote.Unlisted, quote.Sums = refused.Refused, refused.Unlisted, refused.Sums
		if !quote.Held.IsZero() {
			quote.NotRaised = q.notRaisedReason
		}
		quote.Displaced, err = q.displaced(s, q.chargeable.Names, q.at)
		return err
	})
	if err != nil {
		return api.AnswerQuote{}, err
	}
	return quote, nil
}

// panelQuery is a query about the true values of a panel.
type panelQuery struct {
	protocol
	request  api.AnswerRequest
	query    mechanism.Query
	names    []string       // sorted names of the panel; of a panel of all, once they are read
	panelSum event.PanelSum // digest of names
	// Fields read by each attempt before it decides:
	known           state.Answers      // recorded answers about the whole panel, by rising ε
	others          state.Answers      // recorded answers that left an object out; nil unless the request is partial
	leavesOut       bool               // the answer leaves an object out
	base            state.AnswerLevel  // the answer to raise from; zero if the answer is drawn fresh
	notRaisedReason error              // why no answer is raised, or nil
	cost            privacy.Epsilon    // charge to each object
	lacking         []string           // sorted names of the objects without a usable true value from the host
	chargeable      rules.TruthRequest // objects that can be charged, without those that lack a true value
	refused         RefusalList        // the objects that cannot be charged or lack a true value
	reported        RefusalList        // the refusals in the error of the request
}

// prepare checks the request and prepares the query for it. It checks everything but the
// idempotency key, which a quote does not have.
func (q *panelQuery) prepare(ctx context.Context, e *Executor, r api.AnswerRequest) (err error) {
	if r.Epsilon.IsZero() {
		return errs.Invalid("ε is 0: it must be above 0")
	}
	if q.names, err = event.CheckAsked(r.Objects, r.All, api.MaxPanel); err != nil {
		return err
	}
	if q.question, err = e.Question(ctx, r.Question); err != nil {
		return err
	}
	if q.query, err = mechanism.ParseQuery(r.Query, q.question.Values); err != nil {
		return errs.Invalid("question %q: %w", r.Question, err)
	}
	q.Executor, q.steps, q.key, q.request, q.epsilon, q.source = e, q, r.Key, r, r.Epsilon, r.Truth
	q.panel = Panel{Names: q.names, All: r.All, Question: q.question.Number}
	q.panelSum = event.PanelOf(q.names)
	q.id = event.PanelRequest{
		Question: r.Question, Query: r.Query, Epsilon: r.Epsilon, Panel: q.panelSum, Objects: uint64(len(q.names)),
		All: r.All, Partial: r.Partial,
	}.Identity()
	return nil
}

// readPanel reads the names of the panel and its recorded answers. It returns an error if the panel
// is empty or too large.
func (q *panelQuery) readPanel(s *state.State) (err error) {
	if q.names, err = q.panel.Whole(s, q.question); err != nil {
		return err
	}
	if q.panel.All {
		q.panelSum = event.PanelOf(q.names)
	}
	return q.readAnswers(s)
}

// answerPanel returns the digest of the objects that the answer is about. If an object is left out,
// it marks the digest of the whole panel as partial.
func (q *panelQuery) answerPanel() event.PanelSum {
	if q.leavesOut {
		return q.panelSum.Partly()
	}
	return q.panelSum
}

// readAnswers reads the recorded answers to the query about the whole panel. For a partial request,
// it also reads those that left an object out.
func (q *panelQuery) readAnswers(s *state.State) (err error) {
	q.leavesOut = false // until recorded or assess finds otherwise
	answers := func(panel event.PanelSum) (state.Answers, error) {
		all, _, err := s.Answers(state.AnswerKey(q.question.Number, q.request.Query, panel))
		return all, err
	}
	if q.known, err = answers(q.panelSum); err == nil && q.request.Partial {
		q.others, err = answers(q.panelSum.Partly())
	}
	return err
}

// recorded returns the recorded answer at the requested ε or else at the lowest ε above it. The
// requested answer can be derived from it free of charge. among has all recorded answers about the
// same panel. free is false if there is no such answer. recorded sets q.leavesOut to whether that
// answer left an object out.
func (q *panelQuery) recorded() (among state.Answers, base state.AnswerLevel, free bool) {
	base, free = q.known.Best(q.epsilon)
	other, found := q.others.Best(q.epsilon)
	if q.leavesOut = found && (!free || other.Epsilon.Less(base.Epsilon)); q.leavesOut {
		return q.others, other, true
	}
	return q.known, base, free
}

// assessNew assesses the panel in the snapshot of the lookup. If the answer is recorded, there is
// nothing to assess. It returns an error if the request is refused, or displaces levels on offer.
func (q *panelQuery) assessNew(s *state.State) error {
	q.chargeable, q.lacking = rules.TruthRequest{}, nil
	if err := q.readPanel(s); err != nil {
		return err
	}
	if _, _, free := q.recorded(); free {
		return nil
	}
	if err := q.assess(s, q.at); err != nil {
		return err
	}
	if err := q.refuseSome(); err != nil {
		return err
	}
	return q.refuseLoss(s, q.chargeable.Names, q.at)
}

// raisable returns the recorded answer that a new one would be raised from: the highest about the
// whole panel. why is the reason why it cannot be raised, or nil if it can.
//
// It cannot be raised if an object has begun an epoch since the answer was first drawn, because the
// true value of that object may have changed. Answers about objects that were forgotten since then
// are erased already.
func (q *panelQuery) raisable(s *state.State) (top state.AnswerLevel, why, err error) {
	top = q.known.Top()
	switch {
	case len(q.known) == 0:
		return top, q.notRaised(), nil
	case !top.Scored:
		return top, &mechanism.ScoreError{Outputs: q.query.Outputs(len(q.question.Values))}, nil
	}
	for _, name := range q.names {
		c, _, err := s.Chain(q.question.Number, name)
		if err != nil {
			return top, nil, err
		}
		if c.Since > top.Began {
			return top, ErrNewEpoch, nil
		}
	}
	return top, nil, nil
}

// notRaised returns why no answer is raised: none is recorded, or an object is left out, now or in
// all recorded answers.
func (q *panelQuery) notRaised() error {
	if len(q.known) == 0 && len(q.others) == 0 {
		return errNoAnswer
	}
	return ErrPartialPanel
}

// Reasons why no answer is raised.
var (
	errNoAnswer = errors.New("there is no answer yet")
	// ErrNewEpoch says that the true value of an object may have changed since the answer.
	ErrNewEpoch = errors.New("an object in the panel has begun a new epoch")
	// ErrPartialPanel says that the objects of the answer may differ from those of the next one.
	ErrPartialPanel = errors.New("an object is left out, and a partial request may leave out others next time")
)

// assess computes the cost, and divides the panel into objects that can be charged and objects that
// cannot. It does not read true values. If a partial request must leave an object out, no answer is
// raised: then the cost is the whole ε, and the panel is divided again.
func (q *panelQuery) assess(s *state.State, at time.Time) error {
	base, why, err := q.raisable(s)
	if err != nil {
		return err
	}
	q.leavesOut, q.base, q.cost, q.notRaisedReason = false, state.AnswerLevel{}, q.epsilon, why
	if why == nil {
		q.base, q.cost = base, state.Minus(q.epsilon, base.Epsilon)
	}
	if err := q.divide(s, at); err != nil || q.refused.Count() == 0 || !q.request.Partial {
		return err
	}
	return q.assessWithout(s, at)
}

// assessWithout is assess for an answer that leaves an object out, and so is not raised.
func (q *panelQuery) assessWithout(s *state.State, at time.Time) error {
	q.leavesOut, q.base, q.cost, q.notRaisedReason = true, state.AnswerLevel{}, q.epsilon, q.notRaised()
	return q.divide(s, at)
}

// divide divides the panel by q.cost. q.chargeable gets the objects that can be charged, and
// q.refused the refusals of objects that cannot, or that lack a true value.
func (q *panelQuery) divide(s *state.State, at time.Time) error {
	q.chargeable, q.refused = rules.TruthRequest{}, NewRefusals(q.request.Partial)
	for _, name := range q.names {
		var o rules.Subject
		refusal, err := rules.ReadSubject(s, q.question, name, q.epsilon, &o)
		if err == nil && refusal == nil {
			refusal, err = q.check(s, &o, at)
		}
		if err != nil {
			return err
		}
		if refusal != nil {
			q.refused.Add(*refusal)
		} else {
			q.chargeable.Add(name, o.Chain.Binding())
		}
	}
	return nil
}

// check returns the refusal of an object that cannot be charged, or for which nothing can be drawn,
// or nil. The refusal has the largest ε that is possible instead. Recorded answers about the whole
// panel are possible without a charge.
func (q *panelQuery) check(s *state.State, o *rules.Subject, at time.Time) (*api.Refusal, error) {
	if refusal := q.Rules.LacksTruthKey(o.Name, q.epsilon); refusal != nil {
		rules.SetLargest(refusal, q.known.Top().Epsilon)
		return refusal, nil
	}
	// A panel query adds no level to the chain, so Charge.After is the current one.
	ask := rules.Request{Question: q.question, Epsilon: q.epsilon, At: at}
	charge := rules.Charge{Request: ask, Cost: q.cost, After: o.Chain.Current()}
	refusal, err := q.Rules.CheckBudget(s, o, charge)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		r, err := charge.Headroom(s, o, q.Rules.Holds.List())
		rules.SetLargest(refusal, q.largest(r.Most()))
		return refusal, err
	}
	if _, lacks := slices.BinarySearch(q.lacking, o.Name); !lacks {
		return nil, nil
	}
	refusal = rules.LacksTruth(o.Name, q.epsilon)
	rules.SetLargest(refusal, q.known.Top().Epsilon)
	return refusal, nil
}

// largest returns the largest ε at which the request would not leave out an object that can be
// charged room more. A recorded answer about the whole panel includes the object, at no charge. A
// recorded answer to a partial request may have left it out. So a raised or fresh answer counts
// only if its ε is above that of all recorded answers.
func (q *panelQuery) largest(room privacy.Epsilon) privacy.Epsilon {
	free := q.known.Top().Epsilon
	if reach := state.Plus(q.base.Epsilon, room); free.Less(reach) && q.others.Top().Epsilon.Less(reach) {
		return reach
	}
	return free
}

// refuseSome returns the error of a refused request, or nil. A request is refused if no object is
// left, or if an object is refused and the request is not partial. The refusals are kept in
// q.reported.
func (q *panelQuery) refuseSome() error {
	if n := q.refused.Count(); n == 0 || q.request.Partial && n < len(q.names) {
		return nil
	}
	q.reported = q.refused
	return q.refuse(q.refused)
}

// ask asks the host for the true values of the objects that can be charged. If some have none, the
// panel is assessed again without them. The cost may then be higher, because nothing is raised, and
// more objects may be refused. It returns the error of a request that is then refused.
func (q *panelQuery) ask(ctx context.Context) error {
	if len(q.chargeable.Names) == 0 {
		return nil // the answer is recorded
	}
	err := q.askFor(ctx, q.chargeable, func(names []string, values []int32) {
		q.trueValues.Add(names, values)
		for i, value := range values {
			if value == rules.NoTruth {
				q.lacking = append(q.lacking, names[i])
			}
		}
	})
	if err == nil && len(q.lacking) > 0 {
		err = q.Engine.View(ctx, func(s *state.State) error { return q.assess(s, q.at) })
	}
	if err != nil {
		return err
	}
	return q.refuseSome()
}

// decide returns the events of the answer and of its charges, and the event that settles the
// request. A recorded answer at the requested ε is returned again, without an event of its own.
// From a recorded answer at a higher ε, one is derived. Otherwise a new answer is drawn.
func (q *panelQuery) decide(s *state.State) ([]event.Change, error) {
	if err := q.readAnswers(s); err != nil {
		return nil, err
	}
	known, base, free := q.recorded()
	if !free {
		return q.draw(s)
	}
	left, err := s.LeftOutOf(base)
	if err != nil {
		return nil, err
	}
	if base.Epsilon == q.epsilon {
		q.end.Counts[event.Reused], q.end.Answer = 1, base.Event
		return AppendSettled(nil, q.question.Number, left, q.end), nil
	}
	q.end.Counts[event.Derived], q.end.Answer = 1, q.end.First // the first event of this transaction
	result, method, err := q.derive(known, base)
	answered := q.record(result, method, base.Objects, base.Event)
	return AppendSettled([]event.Change{answered}, q.question.Number, left, q.end), err
}

// record returns the event of an answer about this number of objects. base is the event of the
// answer that it was raised or derived from, or 0 if there is none.
func (q *panelQuery) record(r event.Result, method event.Method, objects, base uint64) *event.Answered {
	return &event.Answered{
		Question: q.question.Number, Query: q.request.Query, Panel: q.answerPanel(), Objects: objects,
		Epsilon: q.epsilon, Result: r, Method: method, Base: base,
	}
}

// derive draws an answer at the requested ε from the recorded answer base, at the lowest ε above,
// without true values. Without scores, it degrades base (mechanism.Sampler.Degrade). With scores,
// it draws between base and the nearest answer below in known, if there is one.
func (q *panelQuery) derive(known state.Answers, base state.AnswerLevel) (event.Result, event.Method, error) {
	if !base.Scored {
		outputs := q.query.Outputs(len(q.question.Values))
		if outputs == 2 { // two outputs have no boundary, so the answer is certain at every ε
			return event.Result{Output: base.Output}, event.MethodDegrade, nil
		}
		output, err := q.Sampler.Degrade(outputs, base.Output, base.Epsilon, q.epsilon)
		return event.Result{Output: output}, event.MethodDegrade, err
	}
	method, lower := event.MethodDegrade, mechanism.Score{}
	if below, found := known.Below(q.epsilon, base); found {
		method, lower = event.MethodInsert, below.AsScore()
	}
	score, err := q.Sampler.Between(lower, base.AsScore(), q.epsilon)
	return event.Result{Scored: true, Score: score.Value}, method, err
}

// drawAnswer draws an answer from the place of the true values among all datasets. For a query with
// two outputs and a boundary it draws a score, raised from q.base if that is set. Otherwise it
// draws an output.
func (q *panelQuery) drawAnswer(place mechanism.Place) (event.Result, event.Method, error) {
	if _, ok := place.Position(); !ok { // more than two outputs, or no boundary
		output, err := q.Sampler.Draw(place, q.epsilon)
		return event.Result{Output: output}, event.MethodFresh, err
	}
	method, last := event.MethodFresh, mechanism.Score{}
	if q.base.Scored {
		method, last = event.MethodRaise, q.base.AsScore()
	}
	score, err := q.Sampler.Raise(last, q.epsilon, place)
	return event.Result{Scored: true, Score: score.Value}, method, err
}

// draw returns the events that charge the objects, and the answer drawn from their true values. It
// assesses the panel again in the transaction. It returns errOvertaken if the objects to charge, or
// the answer to raise from, are not those for which the host was asked.
func (q *panelQuery) draw(s *state.State) ([]event.Change, error) {
	// asked and base are as when the host was asked for true values.
	asked, base, at := q.chargeable.Names, q.base, rules.Earlier(q.at, s.Clock)
	if err := q.assess(s, at); err != nil {
		return nil, err
	}
	// asked is empty if the answer was recorded when this attempt began. It was erased since then.
	if len(asked) == 0 || !slices.Equal(asked, q.chargeable.Names) || base != q.base {
		return nil, errOvertaken // an object was charged since then
	}
	if err := q.refuseLoss(s, q.chargeable.Names, at); err != nil {
		return nil, err
	}
	changes, counts, err := q.chargesAndCounts(s)
	if err != nil {
		return nil, err
	}
	place, err := q.query.Place(counts)
	if err != nil {
		return nil, err
	}
	result, method, err := q.drawAnswer(place)
	if err != nil {
		return nil, err
	}
	q.end.Counts[event.Drawn], q.end.Answer = 1, q.end.First+uint64(len(changes))
	changes = append(changes, q.record(result, method, uint64(len(q.chargeable.Names)), q.base.Event))
	return AppendSettled(changes, q.question.Number, q.refused.Listed, q.end), nil
}

// chargesAndCounts returns the events that bind chains to true values, followed by the charges.
// counts has the number of objects with each true value, by its index. It returns errOvertaken if a
// true value is missing or no longer fits its chain.
func (q *panelQuery) chargesAndCounts(s *state.State) (changes []event.Change, counts []int64, err error) {
	charges := make([]event.Change, len(q.chargeable.Names))
	counts = make([]int64, len(q.question.Values))
	for i, name := range q.chargeable.Names {
		c, _, err := s.Chain(q.question.Number, name)
		if err != nil {
			return nil, nil, err
		}
		truth, asked := q.trueValues.Of(name)
		if !asked {
			return nil, nil, errOvertaken
		}
		if err := q.checkTruth(q.question, &c, name, truth); err != nil {
			return nil, nil, err
		}
		changes = append(changes, q.Rules.Bind(q.question, c.Binding(), name, truth)...)
		charges[i] = &event.Charged{Object: name, Question: q.question.Number, Epsilon: q.cost}
		counts[truth]++
	}
	return append(changes, charges...), counts, nil
}

// result reads the recorded answer of the settled request, as the caller gets it. It may have been
// recorded by an earlier call with the same key.
func (q *panelQuery) result(ctx context.Context) (api.AnswerResult, error) {
	out := api.AnswerResult{Epsilon: q.epsilon}
	err := q.Engine.View(ctx, func(s *state.State) error {
		end, err := s.Settlement(q.progress.Last)
		if err != nil {
			return err
		}
		out.Event = end.Answer
		if out.Refused, err = RefusalsOf(s, q.progress.Last, end); err != nil {
			return err
		}
		out.TruthChanged, out.TruthInvalid = q.faults.Among(out.Refused)
		ev, err := s.Event(end.Answer)
		if err != nil {
			return err
		}
		c, ok := ev.Change.(*event.Answered)
		if !ok || c.Epsilon != q.epsilon || c.Query != q.request.Query {
			return errs.Corrupt(nil, "event %d is not the answer to %q at ε=%s", end.Answer, q.request.Query, q.epsilon)
		}
		if end.Counts[event.Drawn] == 1 {
			if out.Charged, err = costOf(s, c); err != nil {
				return err
			}
		}
		out.Objects = c.Objects
		out.Answer, err = q.question.AnswerText(c.Query, c.Result)
		return err
	})
	if err != nil {
		return api.AnswerResult{}, err
	}
	return out, nil
}

// costOf returns what an answer drawn from true values cost each object. For a raised answer, that
// is the difference to the ε of the answer c.Base, from which it was raised.
func costOf(s *state.State, c *event.Answered) (privacy.Epsilon, error) {
	if c.Method != event.MethodRaise {
		return c.Epsilon, nil
	}
	ev, err := s.Event(c.Base)
	base, is := ev.Change.(*event.Answered)
	if err != nil || !is {
		return privacy.Epsilon{}, errs.Corrupt(err, "an answer was raised from event %d, which is not an answer",
			c.Base)
	}
	return state.Minus(c.Epsilon, base.Epsilon), nil
}
