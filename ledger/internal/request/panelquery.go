package request

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// Desk is where inquiries are carried out.
type Desk struct {
	Engine  *engine.Engine     // of the ledger
	Rules   *rules.Rules       // of the ledger
	Sampler *mechanism.Sampler // used by the one goroutine that commits
	// Refuse logs that a request is refused, and returns the error that says so.
	Refuse func(key string, q *event.Question, epsilon privacy.Epsilon, refused RefusalList, faults *rules.TruthFaults) error
}

// Request asks a query about the true values of a panel of objects. Package ledger describes it.
type QueryRequest struct {
	Key, Question, Query string                                                                                    // the idempotency key, and names
	Epsilon              privacy.Epsilon                                                                           // above 0
	All, Partial         bool                                                                                      // as in the request
	AcceptLoss           bool                                                                                      // levels on offer may be lost
	Truth                func(ctx context.Context, question string, objects []string) (values []string, err error) // the host's source of true values
}

// Result is the answer to a query. Package ledger describes it.
type QueryResult struct {
	Answer       string               // in words
	Epsilon      privacy.Epsilon      // of the answer
	Objects      uint64               // the size of the panel
	Charged      privacy.Epsilon      // to each object
	Refused      []vocabulary.Refusal // left out
	TruthChanged []string             // of those refused
	TruthInvalid []string             // likewise
	Event        uint64               // that recorded it
}

// Run answers.
func (x *PanelQuery) Run(ctx context.Context) (QueryResult, error) {
	x.begin()
	result, err := UntilSettled(func() (QueryResult, error) { return x.attempt(ctx) })
	if err != nil {
		return QueryResult{}, x.instead(ctx, err)
	}
	return result, nil
}

// begin gets ready what stands for the request.
func (x *PanelQuery) begin() {
	x.whole = event.PanelOf(x.Names)
	x.id = x.form()
}

// Quote tells what an answer would charge, and whom it would refuse.
func (x *PanelQuery) Quote(ctx context.Context) (vocabulary.AnswerQuote, error) {
	x.begin()
	var q vocabulary.AnswerQuote
	var err error
	err = x.Desk.Engine.View(ctx, func(s *state.State) error {
		x.at = s.Clock
		if err := x.convene(s, s.Counters.Events); err != nil {
			return err
		}
		if err := x.recall(s); err != nil {
			return err
		}
		q.Event = s.Counters.Events
		q.Held = state.Higher(x.known.Top().Epsilon, x.others.Top().Epsilon)
		if _, base, free := x.recorded(); free {
			q.Objects = base.Objects
			q.Refused, err = s.LeftOutOf(base)
			q.Sums = vocabulary.SumRefusals(q.Refused)
			return err
		}
		if err = x.assess(s, x.at); err != nil {
			return err
		}
		q.Objects, q.Charge, q.Anew, q.Refused = uint64(len(x.able.Names)), x.cost, x.Request.Epsilon, x.refused.Listed
		q.Refused, q.Unlisted, q.Sums = q.Refused[:min(len(q.Refused), vocabulary.MaxListed)], max(0, x.refused.Count()-vocabulary.MaxListed), x.refused.Sums()
		if !q.Held.IsZero() {
			q.NotRaised = x.anew
		}
		q.Displaced, err = x.displaced(s, x.able.Names, x.at)
		return err
	})
	if err != nil {
		return vocabulary.AnswerQuote{}, err
	}
	return q, nil
}

// Inquiry is a request for an answer being carried out. The exported fields are set before it begins.
type PanelQuery struct {
	Desk     Desk            // where it is carried out
	Request  QueryRequest    // what is asked
	Question *event.Question // that it is about
	Query    mechanism.Query // of the request
	Names    []string        // the panel asked for, in order; nil of a request for all

	id      event.Identity
	at      time.Time
	asOf    uint64         // the last event when the attempt looked
	through uint64         // of a request for all, the last event whose enrolments count
	whole   event.PanelSum // stands for them
	// What an attempt learns before it decides.
	known   state.Answers                                     // to the query about all of them
	others  state.Answers                                     // to those who were partial and left somebody out; nil unless this one is partial
	leaves  bool                                              // it leaves somebody out
	base    state.AnswerLevel                                 // what is raised, if anything
	anew    error                                             // why nothing is raised, or nil
	cost    privacy.Epsilon                                   // to each
	able    rules.Needy                                       // who can be charged
	refused RefusalList                                       // who cannot
	note    func(s *state.State, r *vocabulary.Refusal) error // gets each of them too, unless it is nil
	members []string                                          // who can be charged and has a truth
	truths  []int32                                           // the members' truths
	missing RefusalList                                       // who can be charged and has none
	faults  rules.TruthFaults                                 // of those missing
	why     RefusalList                                       // what the request was refused for
}

// convene finds out who belongs to the panel: of a request for all, those enrolled by an event.
func (x *PanelQuery) convene(s *state.State, through uint64) (err error) {
	p := Panel{Names: x.Names, All: x.Request.All, Question: x.Question.Number, Through: through}
	if x.Names, err = p.Whole(s, x.Question); err == nil && p.All {
		x.whole = event.PanelOf(x.Names)
	}
	return err
}

// panel stands for whom the answer is about: those asked for, or as many of them as are not left out.
func (x *PanelQuery) panel() event.PanelSum {
	if x.leaves {
		return x.whole.Partly()
	}
	return x.whole
}

// recall looks up what was answered before.
func (x *PanelQuery) recall(s *state.State) (err error) {
	x.leaves = false
	if x.known, _, err = s.Answers(state.AnswerKey(x.Question.Number, x.Request.Query, x.whole)); err == nil && x.Request.Partial {
		x.others, _, err = s.Answers(state.AnswerKey(x.Question.Number, x.Request.Query, x.whole.Partly()))
	}
	return err
}

// recorded returns the answer at ε, or else the lowest above it, with those it belongs to.
func (x *PanelQuery) recorded() (among state.Answers, base state.AnswerLevel, free bool) {
	base, free = x.known.Best(x.Request.Epsilon)
	other, found := x.others.Best(x.Request.Epsilon)
	if x.leaves = found && (!free || other.Epsilon.Less(base.Epsilon)); x.leaves {
		return x.others, other, true
	}
	return x.known, base, free
}

func (x *PanelQuery) form() event.Identity {
	r := &x.Request
	return event.PanelRequest{
		Question: r.Question, Query: r.Query, Epsilon: r.Epsilon, Panel: x.whole, Objects: uint64(len(x.Names)), All: r.All, Partial: r.Partial,
	}.Identity()
}

// attempt looks, asks for truths if they are needed, and decides.
func (x *PanelQuery) attempt(ctx context.Context) (QueryResult, error) {
	defer func() { clear(x.truths) }()
	done, needed, err := x.look(ctx)
	if err == nil && needed {
		err = x.ask(ctx)
	}
	if err != nil {
		return QueryResult{}, err
	}
	if done == 0 {
		if _, done, err = x.Desk.Engine.Submit(ctx, x.decide); err != nil {
			return QueryResult{}, err
		}
	}
	return x.result(context.WithoutCancel(ctx), done) // it is done, whatever has become of ctx
}

// look returns the event that settled the request, if it was, and else whether an answer must be drawn from
// truths.
func (x *PanelQuery) look(ctx context.Context) (done uint64, needed bool, err error) {
	err = x.Desk.Engine.View(ctx, func(s *state.State) error {
		x.at, x.asOf = s.Clock, s.Counters.Events
		st, err := StandingOf(s, x.Request.Key, x.id)
		if err != nil {
			return err
		}
		if st.Done {
			done = st.Last
			return nil
		}
		x.through = st.Through
		if err := x.convene(s, st.Through); err != nil {
			return err
		}
		if err := x.recall(s); err != nil {
			return err
		}
		if _, _, free := x.recorded(); free {
			return nil
		}
		needed = true
		if err := x.assess(s, x.at); err != nil {
			return err
		}
		if err := x.refuse(&x.refused); err != nil {
			return err
		}
		return x.refuseLoss(s, x.able.Names, x.at)
	})
	return done, needed, err
}

// raisable returns the answer that a new one can be raised from: the highest of all, about people none of whom began an
// epoch since it was first drawn. Of those the truth may be another one now; what was answered about people who were
// forgotten since is not recorded any more. why says why there is none.
func (x *PanelQuery) raisable(s *state.State) (top state.AnswerLevel, why, err error) {
	top = x.known.Top()
	switch {
	case len(x.known) == 0:
		return top, x.notRaised(), nil
	case !top.Scored:
		return top, &mechanism.ScoreError{Outputs: x.Query.Outputs(len(x.Question.Values))}, nil
	}
	for _, name := range x.Names {
		c, _, err := s.Chain(x.Question.Number, name)
		if err != nil {
			return top, nil, err
		}
		if c.Since > top.Began {
			return top, ErrNewEpoch, nil
		}
	}
	return top, nil, nil
}

// notRaised says why nothing is raised where somebody is left out, now or by all answers so far.
func (x *PanelQuery) notRaised() error {
	if len(x.known) == 0 && len(x.others) == 0 {
		return errNoAnswer
	}
	return ErrPartialPanel
}

// Why nothing is raised.
var (
	errNoAnswer = errors.New("there is no answer yet")
	// ErrNewEpoch says that somebody's truth may be another one by now.
	ErrNewEpoch = errors.New("somebody in the panel has begun a new epoch")
	// ErrPartialPanel says that the panel is not always the same.
	ErrPartialPanel = errors.New("somebody is left out, and whom a partial request leaves out may change")
)

// assess says what each object is to be charged, and parts the panel into those who can be and those who
// cannot, without looking at truths. Who must leave somebody out raises nothing.
func (x *PanelQuery) assess(s *state.State, at time.Time) error {
	base, why, err := x.raisable(s)
	if err != nil {
		return err
	}
	x.leaves, x.base, x.cost, x.anew = false, state.AnswerLevel{}, x.Request.Epsilon, why
	if why == nil {
		x.base, x.cost = base, state.Minus(x.Request.Epsilon, base.Epsilon)
	}
	if err := x.part(s, at); err != nil || x.refused.Count() == 0 || !x.Request.Partial {
		return err
	}
	return x.leaveOut(s, at)
}

// leaveOut does the same where somebody is left out.
func (x *PanelQuery) leaveOut(s *state.State, at time.Time) error {
	x.leaves, x.base, x.cost, x.anew = true, state.AnswerLevel{}, x.Request.Epsilon, x.notRaised()
	return x.part(s, at)
}

// part parts the panel into those who can be charged the cost and those who cannot.
func (x *PanelQuery) part(s *state.State, at time.Time) error {
	x.able, x.refused = rules.Needy{}, NewRefusals(x.Request.Partial)
	for _, name := range x.Names {
		o, refusal, err := x.Desk.Rules.Subject(s, x.Question, name, x.Request.Epsilon)
		if err == nil && refusal == nil {
			refusal, err = x.check(s, &o, at)
		}
		if err != nil {
			return err
		}
		if refusal != nil {
			x.refused.Add(*refusal)
			if x.note != nil {
				err = x.note(s, refusal)
			}
			if err != nil {
				return err
			}
			continue
		}
		x.able.Add(name, o.Chain.Bond())
	}
	return nil
}

// check returns why an object cannot be charged the cost, or nil.
func (x *PanelQuery) check(s *state.State, o *rules.Subject, at time.Time) (*vocabulary.Refusal, error) {
	if refusal := x.Desk.Rules.LacksTruthKey(o.Name, x.Request.Epsilon); refusal != nil {
		rules.OrLess(refusal, x.known.Top().Epsilon)
		return refusal, nil
	}
	ask := rules.Charge{Asking: rules.Asking{Question: x.Question, Epsilon: x.Request.Epsilon, At: at}, Cost: x.cost, Reaches: o.Chain.Current()}
	refusal, err := x.Desk.Rules.CheckBudget(s, o, ask)
	if err != nil || refusal == nil {
		return nil, err
	}
	r, err := x.Desk.Rules.Headroom(s, o, ask)
	rules.OrLess(refusal, x.largest(r.Most()))
	return refusal, err
}

// largest returns the largest ε at which the request would not leave out somebody who can be charged so much. What was
// answered about the whole panel is there for all; what was answered without some may be without this one.
func (x *PanelQuery) largest(room privacy.Epsilon) privacy.Epsilon {
	free := x.known.Top().Epsilon
	if reach := state.Plus(x.base.Epsilon, room); free.Less(reach) && x.others.Top().Epsilon.Less(reach) {
		return reach
	}
	return free
}

// lacksTruth refuses an object that there is no truth of.
func (x *PanelQuery) lacksTruth(name string) vocabulary.Refusal {
	r := vocabulary.Refusal{Object: name, Reason: vocabulary.NoTruth, Asked: x.Request.Epsilon, Remedy: vocabulary.RemedyTruth}
	rules.OrLess(&r, x.known.Top().Epsilon)
	return r
}

// refuse returns the error of a request that must be whole and is not, or that has nobody left.
func (x *PanelQuery) refuse(refused *RefusalList) error {
	if n := refused.Count(); n == 0 || x.Request.Partial && n < len(x.Names) {
		return nil
	}
	x.why = *refused
	return x.Desk.Refuse(x.Request.Key, x.Question, x.Request.Epsilon, *refused, &x.faults)
}

// ask fetches the truths of those who can be charged, in batches.
func (x *PanelQuery) ask(ctx context.Context) error {
	x.members, x.truths, x.missing = nil, make([]int32, 0, len(x.able.Names)), NewRefusals(x.Request.Partial)
	var later rules.Later
	for some := range x.able.Batches() {
		values, err := x.Desk.Rules.Ask(ctx, x.Question, x.Request.Truth, some, &x.faults)
		if later.Is(err) {
			continue
		}
		if err != nil {
			return err
		}
		for i, value := range values {
			if value == rules.NoTruth {
				x.missing.Add(x.lacksTruth(some.Names[i]))
				continue
			}
			x.members, x.truths = append(x.members, some.Names[i]), append(x.truths, value)
		}
		clear(values)
	}
	if later.Err != nil {
		return later.Err
	}
	return x.refuse(x.leftOut())
}

// leftOut returns everybody who does not belong to the panel that answers, in order. Of a request that must be whole either
// somebody cannot be charged, or has no truth.
func (x *PanelQuery) leftOut() *RefusalList {
	switch {
	case x.missing.Count() == 0:
		return &x.refused
	case x.refused.Count() == 0:
		return &x.missing
	}
	all := NewRefusals(x.Request.Partial)
	all.Add(x.refused.Listed...)
	all.Add(x.missing.Listed...)
	all.Sort()
	return &all
}

// decide returns the events of the answer and of its charges.
func (x *PanelQuery) decide(s *state.State) ([]event.Change, error) {
	end := &event.Settled{Key: x.Request.Key, Through: x.through, First: s.Counters.Events + 1, Final: true}
	end.Of(&x.id)
	NamesAlone(end, x.Names, x.Request.All)
	st, err := StandingOf(s, end.Key, x.id)
	if err != nil {
		return nil, err
	}
	if err := x.recall(s); err != nil {
		return nil, err
	}
	if st.Done {
		return nil, ErrOvertaken
	}
	known, base, free := x.recorded()
	if !free {
		return x.draw(s, end)
	}
	left, err := s.LeftOutOf(base)
	if err != nil {
		return nil, err
	}
	if base.Epsilon == x.Request.Epsilon {
		end.Counts[event.Reused], end.Answer = 1, base.Event
		return Settling(nil, x.Question.Number, left, end), nil
	}
	end.Counts[event.Derived], end.Answer = 1, end.First
	made, how, err := x.derive(known, base)
	return Settling([]event.Change{x.record(made, how, base.Objects, base.Event)}, x.Question.Number, left, end), err
}

// record returns the event of an answer about so many objects that comes from the answer of an event, or from
// none if that is 0.
func (x *PanelQuery) record(r event.Result, how event.Method, objects, base uint64) *event.Answered {
	return &event.Answered{
		Question: x.Question.Number, Query: x.Request.Query, Panel: x.panel(), Objects: objects, Epsilon: x.Request.Epsilon, Result: r, Method: how, Base: base,
	}
}

// derive draws an answer from the nearest one above it and, if they have scores, the nearest below it that belongs
// to the same ones.
func (x *PanelQuery) derive(known state.Answers, base state.AnswerLevel) (event.Result, event.Method, error) {
	if !base.Scored {
		outputs := x.Query.Outputs(len(x.Question.Values))
		if outputs == 2 { // there is no boundary: the answer is certain at every ε
			return event.Result{Output: base.Output}, event.MethodDegrade, nil
		}
		output, err := x.Desk.Sampler.Degrade(outputs, base.Output, base.Epsilon, x.Request.Epsilon)
		return event.Result{Output: output}, event.MethodDegrade, err
	}
	how, lower := event.MethodDegrade, mechanism.Score{}
	if below, found := known.Below(x.Request.Epsilon, base); found {
		how, lower = event.MethodInsert, below.AsScore()
	}
	score, err := x.Desk.Sampler.Between(lower, base.AsScore(), x.Request.Epsilon)
	return event.Result{Scored: true, Score: score.Value}, how, err
}

// drawAnswer draws an answer from the panel's place: a score, if the query has one, raised from the base if there
// is one.
func (x *PanelQuery) drawAnswer(place mechanism.Place) (event.Result, event.Method, error) {
	if _, ok := place.Position(); !ok {
		output, err := x.Desk.Sampler.Draw(place, x.Request.Epsilon)
		return event.Result{Output: output}, event.MethodFresh, err
	}
	how, last := event.MethodFresh, mechanism.Score{}
	if x.base.Scored {
		how, last = event.MethodRaise, x.base.AsScore()
	}
	score, err := x.Desk.Sampler.Raise(last, x.Request.Epsilon, place)
	return event.Result{Scored: true, Score: score.Value}, how, err
}

// draw charges the panel and answers from its truths.
func (x *PanelQuery) draw(s *state.State, end *event.Settled) ([]event.Change, error) {
	asked, base, at := x.able.Names, x.base, rules.Earlier(x.at, s.Clock)
	if err := x.assess(s, at); err != nil {
		return nil, err
	}
	// Without those asked, the answer was recorded when this attempt began, and is erased since.
	if len(asked) == 0 || !slices.Equal(asked, x.able.Names) || base != x.base || len(x.members)+x.missing.Count() != len(x.able.Names) {
		return nil, ErrOvertaken // somebody was charged since, or nobody's truth was asked for
	}
	if x.missing.Count() > 0 && !x.leaves {
		if err := x.leaveUntold(s, at); err != nil {
			return nil, err
		}
	}
	if err := x.refuseLoss(s, x.members, at); err != nil {
		return nil, err
	}
	changes, counts, err := x.count(s)
	if err != nil {
		return nil, err
	}
	place, err := x.Query.Place(counts, mechanism.Substitution)
	if err != nil {
		return nil, err
	}
	made, how, err := x.drawAnswer(place)
	if err != nil {
		return nil, err
	}
	end.Counts[event.Drawn], end.Answer = 1, end.First+uint64(len(changes))
	changes = append(changes, x.record(made, how, uint64(len(x.members)), x.base.Event))
	return Settling(changes, x.Question.Number, x.leftOut().Listed, end), nil
}

// leaveUntold leaves out those who have no truth, of a panel that was whole but for them. The others are charged more if
// it would have been raised, and not all of them may be able to.
func (x *PanelQuery) leaveUntold(s *state.State, at time.Time) error {
	if err := x.leaveOut(s, at); err != nil {
		return err
	}
	able := func(name string) bool { _, found := slices.BinarySearch(x.able.Names, name); return found }
	members, truths := x.members, x.truths
	x.members, x.truths = nil, nil
	for i, name := range members {
		if able(name) {
			x.members, x.truths = append(x.members, name), append(x.truths, truths[i])
		}
	}
	clear(truths)
	missing := x.missing.Listed
	x.missing = NewRefusals(x.Request.Partial)
	for _, r := range missing {
		if able(r.Object) {
			x.missing.Add(r)
		}
	}
	return x.refuse(x.leftOut())
}

// count returns the charges of the members, behind the changes that bind chains to their truths, and counts
// the true values, after checking these against those that the chains are bound to.
func (x *PanelQuery) count(s *state.State) (changes []event.Change, counts []int64, err error) {
	charges := make([]event.Change, len(x.members))
	counts = make([]int64, len(x.Question.Values))
	for i, name := range x.members {
		c, _, err := s.Chain(x.Question.Number, name)
		if err != nil {
			return nil, nil, err
		}
		if !x.Desk.Rules.StillFits(x.Question, &c, name, x.truths[i], x.asOf) {
			return nil, nil, ErrOvertaken // it is about another one since
		}
		changes = append(changes, x.Desk.Rules.Bind(x.Question, c.Bond(), name, x.truths[i])...)
		charges[i] = &event.Charged{Object: name, Question: x.Question.Number, Epsilon: x.cost}
		counts[x.truths[i]]++
	}
	return append(changes, charges...), counts, nil
}

// result reads the answer that a request got, whoever has come or gone since.
func (x *PanelQuery) result(ctx context.Context, settled uint64) (QueryResult, error) {
	out := QueryResult{Epsilon: x.Request.Epsilon}
	err := x.Desk.Engine.View(ctx, func(s *state.State) error {
		end, err := s.Settlement(settled)
		if err != nil {
			return err
		}
		out.Event = end.Answer
		if out.Refused, err = RefusalsOf(s, settled, end); err != nil {
			return err
		}
		out.TruthChanged, out.TruthInvalid = x.faults.Among(out.Refused)
		ev, err := s.Event(end.Answer)
		if err != nil {
			return err
		}
		c, ok := ev.Change.(*event.Answered)
		if !ok || c.Epsilon != x.Request.Epsilon || c.Query != x.Request.Query {
			return errs.Corrupt(nil, "event %d does not answer %q at ε=%s", end.Answer, x.Request.Query, x.Request.Epsilon)
		}
		if end.Counts[event.Drawn] == 1 {
			if out.Charged, err = costOf(s, c); err != nil {
				return err
			}
		}
		out.Objects = c.Objects
		out.Answer, err = x.Question.AnswerText(c.Query, c.Result)
		return err
	})
	if err != nil {
		return QueryResult{}, err
	}
	return out, nil
}

// costOf returns what an answer drawn from truths cost each object: of a raised one, the difference to the answer
// that it was raised from.
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
