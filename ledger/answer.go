package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/batch"
	"github.com/sluicedp/sluice/ledger/internal/budget"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/terms"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// AnswerRequest asks a query about the true values of a panel of objects.
type AnswerRequest struct {
	Key      string // idempotency key, 1 to 256 bytes
	Question string // by its name
	// Query is "majority:VALUE", "threshold:VALUE:N", "plurality" or "winner"; see
	// [mechanism.ParseQuery].
	Query   string
	Epsilon privacy.Epsilon // above 0
	Objects []string        // the panel, at most MaxPanel objects, or
	All     bool            // everyone enrolled in the question by now
	Partial bool            // leave refused objects out of the panel, rather than refuse the request
	Truth   TruthFunc       // asked for all objects of the panel, unless the answer is recorded
}

// AnswerResult is the answer to a query.
type AnswerResult struct {
	Answer  string          `json:"answer"`  // "yes" or "no", or a value of the question
	Epsilon privacy.Epsilon `json:"epsilon"` // of the answer
	Objects uint64          `json:"objects"` // the size of the panel, without those left out
	Charged privacy.Epsilon `json:"charged"` // to each object of the panel, by this request: ε, or 0
	Refused []Refusal       `json:"refused"` // left out, only if the request was partial
	// TruthChanged are those of Refused whose true value is another than the one that their chain began with. It is for
	// the host alone, as in [RaiseResult].
	TruthChanged []string `json:"-"`
	Event        uint64   `json:"event"` // the event that recorded the answer
}

// Answer answers a query about a panel by the mechanism that is optimal at ε: randomized response for
// a panel that a single changed value could bring to another answer, and the likelier true the more
// changes it would take ([mechanism.Sampler.Draw]). The answer is ε-differentially private for each
// object's value; who belongs to the panel is not hidden.
//
// It charges every object of the panel, in the transaction that records the answer and under the ceilings
// that bind releases: answers about a question add up with each other and with its chain. If any object is
// refused, nothing happens, unless the request is partial: then the panel is what is left, and a panel of
// nobody is refused.
//
// A query asked again about the same panel has the recorded answer at the same ε; at a lower ε one that is
// derived from those recorded, for free; at a higher ε a majority or threshold, or any query about two values, is
// raised, as a chain of responses is, and the difference is charged: all answers together cost the largest ε
// ([mechanism.Score]). Other queries are asked anew at a higher ε, and the full ε is charged. So are panels of which
// somebody was forgotten since, who may be back with another value, or began a new epoch ([Ledger.BeginEpoch]), and partial requests that leave somebody out: such an
// answer is only for partial requests for the same objects. A partial request that leaves nobody out is one like any
// other: it has the same answers, and is raised from them.
//
// Neither the distance to another answer nor anything else that is computed from true values appears in
// a result, an error, the log or the file, but for a score: that is the signed distance with ε-differentially
// private noise.
func (l *Ledger) Answer(ctx context.Context, r AnswerRequest) (AnswerResult, error) {
	if l.engine.ReadOnly {
		return AnswerResult{}, ErrReadOnly
	}
	x, err := l.newAnswer(ctx, r)
	if err != nil {
		return AnswerResult{}, err
	}
	if err := names.Check("idempotency key", r.Key); err != nil {
		return AnswerResult{}, err
	}
	result, err := batch.UntilSettled(func() (AnswerResult, error) { return x.attempt(ctx) })
	if err != nil {
		return AnswerResult{}, x.instead(ctx, err)
	}
	return result, nil
}

// AnswerQuote says what an answer would cost.
type AnswerQuote struct {
	Objects uint64          // the size of the panel, without those refused
	Charge  privacy.Epsilon // to each object: see Answer
	// Held is the highest ε at which this query about this panel is answered already, or 0.
	Held privacy.Epsilon
	// Anew is what it would cost to ask anew: ε, or 0 if the answer is recorded or can be derived. If Charge is
	// less, it is because the answer at Held is raised.
	Anew privacy.Epsilon
	// NotRaised says why the answer at Held is not raised, so that everybody is charged anew: a
	// [*mechanism.ScoreError] for a query whose answers cannot be raised, or that no panel of this size has another
	// answer to, [ErrForgotten] if somebody in the panel was forgotten since, or that somebody began a new epoch
	// ([Ledger.BeginEpoch]), or that one of the two leaves somebody out. It is nil if there is no such answer, or if it is raised.
	NotRaised error
	Refused   []Refusal // who would be left out, or stand in the way
}

// QuoteAnswer tells what [Ledger.Answer] would charge and whom it would refuse. It changes nothing and
// asks for no truth; the Key and the Truth of the request are not used.
func (l *Ledger) QuoteAnswer(ctx context.Context, r AnswerRequest) (AnswerQuote, error) {
	x, err := l.newAnswer(ctx, r)
	if err != nil {
		return AnswerQuote{}, err
	}
	var q AnswerQuote
	err = l.engine.View(ctx, func(s *state.State) error {
		x.at = s.Clock
		if err := x.convene(s, s.Counters.Events); err != nil {
			return err
		}
		if err := x.recall(s); err != nil {
			return err
		}
		q.Held = budget.Higher(x.known.Top().Epsilon, x.others.Top().Epsilon)
		if _, base, free := x.recorded(); free {
			q.Objects = base.Objects
			q.Refused, err = s.LeftOutOf(base)
			return err
		}
		err = x.assess(s, x.at)
		q.Objects, q.Charge, q.Anew, q.Refused = uint64(len(x.able.Names)), x.cost, r.Epsilon, x.refused
		if !q.Held.IsZero() {
			q.NotRaised = x.anew
		}
		return err
	})
	if err != nil {
		return AnswerQuote{}, err
	}
	return q, nil
}

// inquiry is an AnswerRequest being carried out.
type inquiry struct {
	ledger   *Ledger
	request  AnswerRequest
	question *event.Question
	query    mechanism.Query
	names    []string // the panel asked for, in order
	id       event.Identity
	at       time.Time
	asOf     uint64         // the last event when the attempt looked
	through  uint64         // of a request for all, the last event whose enrolments count
	whole    event.PanelSum // stands for them
	// What an attempt learns before it decides.
	known   state.Answers       // to the query about all of them
	others  state.Answers       // to those who were partial and left somebody out; nil unless this one is partial
	leaves  bool                // it leaves somebody out
	base    state.AnswerLevel   // what is raised, if anything
	anew    error               // why nothing is raised, or nil
	cost    privacy.Epsilon     // to each
	able    rules.Needy         // who can be charged
	refused []Refusal           // who cannot
	members []string            // who can be charged and has a truth
	truths  []int32             // the members' truths
	missing []Refusal           // who can be charged and has none
	changed rules.ChangedTruths // of those missing
}

func (l *Ledger) newAnswer(ctx context.Context, r AnswerRequest) (*inquiry, error) {
	if r.Epsilon.IsZero() {
		return nil, errs.Invalid("ε must be above 0")
	}
	x := &inquiry{ledger: l, request: r}
	var err error
	if x.names, err = names.CheckAsked(r.Objects, r.All, MaxPanel); err != nil {
		return nil, err
	}
	if err := l.door().Objects(ctx, x.names); err != nil {
		return nil, err
	}
	x.whole = event.PanelOf(x.names)
	if x.question, err = l.findQuestion(ctx, r.Question); err != nil {
		return nil, err
	}
	if x.query, err = mechanism.ParseQuery(r.Query, x.question.Values); err != nil {
		return nil, errs.Invalid("question %q: %w", r.Question, err)
	}
	x.id = x.form()
	return x, nil
}

// convene finds out who belongs to the panel: of a request for all, those enrolled by an event.
func (x *inquiry) convene(s *state.State, through uint64) (err error) {
	p := batch.Panel{Names: x.names, All: x.request.All, Question: x.question.Number, Through: through}
	if x.names, err = p.Whole(s, x.question); err == nil && p.All {
		x.whole = event.PanelOf(x.names)
	}
	return err
}

// panel stands for whom the answer is about: those asked for, or as many of them as are not left out.
func (x *inquiry) panel() event.PanelSum {
	if x.leaves {
		return x.whole.Partly()
	}
	return x.whole
}

// recall looks up what was answered before.
func (x *inquiry) recall(s *state.State) (err error) {
	x.leaves = false
	if x.known, _, err = s.Answers(state.AnswerKey(x.question.Number, x.request.Query, x.whole)); err == nil && x.request.Partial {
		x.others, _, err = s.Answers(state.AnswerKey(x.question.Number, x.request.Query, x.whole.Partly()))
	}
	return err
}

// recorded returns the answer at ε, or else the lowest above it, with those it belongs to.
func (x *inquiry) recorded() (among state.Answers, base state.AnswerLevel, free bool) {
	base, free = x.known.Best(x.request.Epsilon)
	other, found := x.others.Best(x.request.Epsilon)
	if x.leaves = found && (!free || other.Epsilon.Less(base.Epsilon)); x.leaves {
		return x.others, other, true
	}
	return x.known, base, free
}

func (x *inquiry) form() event.Identity {
	f := event.NewForm("answer")
	f.Field("Question").Text(x.request.Question)
	f.Field("Query").Text(x.request.Query)
	f.Field("Epsilon").Epsilon(x.request.Epsilon)
	f.Objects(x.names, x.request.All)
	f.Field("Partial").Flag(x.request.Partial)
	return f.Finish()
}

// attempt looks, asks for truths if they are needed, and decides.
func (x *inquiry) attempt(ctx context.Context) (AnswerResult, error) {
	defer func() { clear(x.truths) }()
	done, needed, err := x.look(ctx)
	if err == nil && needed {
		err = x.ask(ctx)
	}
	if err != nil {
		return AnswerResult{}, err
	}
	if done == 0 {
		if _, done, err = x.ledger.engine.Submit(ctx, x.decide); err != nil {
			return AnswerResult{}, err
		}
	}
	return x.result(context.WithoutCancel(ctx), done) // it is done, whatever has become of ctx
}

// look returns the event that settled the request, if it was, and else whether an answer must be drawn from
// truths.
func (x *inquiry) look(ctx context.Context) (done uint64, needed bool, err error) {
	err = x.ledger.engine.View(ctx, func(s *state.State) error {
		x.at, x.asOf = s.Clock, s.Counters.Events
		st, err := batch.StandingOf(s, x.request.Key, x.id)
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
		return x.refuse(x.refused)
	})
	return done, needed, err
}

// raisable returns the answer that a new one can be raised from: the highest of all, about people none of whom was
// forgotten, or began an epoch, since it was first drawn. Of those the truth may be another one now. why says why there is none.
func (x *inquiry) raisable(s *state.State) (top state.AnswerLevel, why, err error) {
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
			why, err := whyRenewed(s, name, top.Began)
			return top, why, err
		}
	}
	return top, nil, nil
}

// whyRenewed says why the truth of an object may be another one than at an event.
func whyRenewed(s *state.State, name string, began uint64) (why, err error) {
	o, _, err := s.Object(name)
	if err == nil && o.Forgotten > began {
		return fmt.Errorf("somebody in the panel: %w", ErrForgotten), nil
	}
	return errNewEpoch, err
}

// notRaised says why nothing is raised where somebody is left out, now or by all answers so far.
func (x *inquiry) notRaised() error {
	if len(x.known) == 0 && len(x.others) == 0 {
		return errNoAnswer
	}
	return errPartialPanel
}

var (
	errNoAnswer     = errors.New("there is no answer yet")
	errNewEpoch     = errors.New("somebody in the panel has begun a new epoch")
	errPartialPanel = errors.New("somebody is left out, and whom a partial request leaves out may change")
)

// assess says what each object is to be charged, and parts the panel into those who can be and those who
// cannot, without looking at truths. Who must leave somebody out raises nothing.
func (x *inquiry) assess(s *state.State, at time.Time) error {
	base, why, err := x.raisable(s)
	if err != nil {
		return err
	}
	x.leaves, x.base, x.cost, x.anew = false, state.AnswerLevel{}, x.request.Epsilon, why
	if why == nil {
		x.base, x.cost = base, budget.Minus(x.request.Epsilon, base.Epsilon)
	}
	if err := x.part(s, at); err != nil || len(x.refused) == 0 || !x.request.Partial {
		return err
	}
	return x.leaveOut(s, at)
}

// leaveOut does the same where somebody is left out.
func (x *inquiry) leaveOut(s *state.State, at time.Time) error {
	x.leaves, x.base, x.cost, x.anew = true, state.AnswerLevel{}, x.request.Epsilon, x.notRaised()
	return x.part(s, at)
}

// part parts the panel into those who can be charged the cost and those who cannot.
func (x *inquiry) part(s *state.State, at time.Time) error {
	x.able, x.refused = rules.Needy{}, nil
	for _, name := range x.names {
		o, refusal, err := x.ledger.rules.Subject(s, x.question, name, x.request.Epsilon)
		if err == nil && refusal == nil {
			refusal, err = x.check(s, &o, at)
		}
		if err != nil {
			return err
		}
		if refusal != nil {
			x.refused = append(x.refused, *refusal)
			continue
		}
		x.able.Add(name, o.Chain.Bond())
	}
	return nil
}

// check returns why an object cannot be charged the cost, or nil.
func (x *inquiry) check(s *state.State, o *terms.Subject, at time.Time) (*Refusal, error) {
	if refusal := x.ledger.rules.LacksTruthKey(o.Name, x.request.Epsilon); refusal != nil {
		rules.OrLess(refusal, x.known.Top().Epsilon)
		return refusal, nil
	}
	ask := rules.Charge{Asking: rules.Asking{Question: x.question, Epsilon: x.request.Epsilon, At: at}, Cost: x.cost, Reaches: o.Chain.Current()}
	refusal, err := x.ledger.rules.CheckBudget(s, o, ask)
	if err != nil || refusal == nil {
		return nil, err
	}
	r, err := x.ledger.rules.Room(s, o, ask)
	rules.OrLess(refusal, x.largest(r.Most()))
	return refusal, err
}

// largest returns the largest ε at which the request would not leave out somebody who can be charged so much. What was
// answered about the whole panel is there for all; what was answered without some may be without this one.
func (x *inquiry) largest(room privacy.Epsilon) privacy.Epsilon {
	free := x.known.Top().Epsilon
	if reach := budget.Plus(x.base.Epsilon, room); free.Less(reach) && x.others.Top().Epsilon.Less(reach) {
		return reach
	}
	return free
}

// lacksTruth refuses an object that there is no truth of.
func (x *inquiry) lacksTruth(name string) Refusal {
	r := Refusal{Object: name, Reason: NoTruth, Asked: x.request.Epsilon, Remedy: vocabulary.RemedyTruth}
	rules.OrLess(&r, x.known.Top().Epsilon)
	return r
}

// refuse returns the error of a request that must be whole and is not, or that has nobody left.
func (x *inquiry) refuse(refused []Refusal) error {
	if len(refused) == 0 || x.request.Partial && len(refused) < len(x.names) {
		return nil
	}
	return x.ledger.refuse(asker{key: x.request.Key}, x.question, x.request.Epsilon, batch.RefusalList{Listed: refused}, &x.changed)
}

// ask fetches the truths of those who can be charged, in batches.
func (x *inquiry) ask(ctx context.Context) error {
	x.members, x.truths, x.missing = nil, make([]int32, 0, len(x.able.Names)), nil
	for batch := range x.able.Batches() {
		values, err := x.ledger.rules.Ask(ctx, x.question, x.request.Truth, batch, &x.changed)
		if err != nil {
			return err
		}
		for i, value := range values {
			if value == rules.NoTruth {
				x.missing = append(x.missing, x.lacksTruth(batch.Names[i]))
				continue
			}
			x.members, x.truths = append(x.members, batch.Names[i]), append(x.truths, value)
		}
		clear(values)
	}
	return x.refuse(x.leftOut())
}

// leftOut returns everybody who does not belong to the panel that answers, in order.
func (x *inquiry) leftOut() []Refusal {
	return event.SortRefusals(slices.Concat(x.refused, x.missing))
}

// decide returns the events of the answer and of its charges.
func (x *inquiry) decide(s *state.State) ([]event.Change, error) {
	end := &event.Settled{Key: x.request.Key, Digest: x.id.Digest, Marks: x.id.Marks, Through: x.through, First: s.Counters.Events + 1, Final: true}
	batch.NamesAlone(end, x.names, x.request.All)
	st, err := batch.StandingOf(s, end.Key, x.id)
	if err != nil {
		return nil, err
	}
	if err := x.recall(s); err != nil {
		return nil, err
	}
	if st.Done {
		return nil, batch.ErrOvertaken
	}
	known, base, free := x.recorded()
	if !free {
		return x.draw(s, end)
	}
	left, err := s.LeftOutOf(base)
	if err != nil {
		return nil, err
	}
	if base.Epsilon == x.request.Epsilon {
		end.Counts[event.Reused], end.Answer = 1, base.Event
		return batch.Settling(nil, x.question.Number, left, end), nil
	}
	end.Counts[event.Derived], end.Answer = 1, end.First
	made, how, err := x.derive(known, base)
	return batch.Settling([]event.Change{x.record(made, how, base.Objects)}, x.question.Number, left, end), err
}

func (x *inquiry) record(r event.Result, how event.Method, objects uint64) *event.Answered {
	return &event.Answered{Question: x.question.Number, Query: x.request.Query, Panel: x.panel(), Objects: objects, Epsilon: x.request.Epsilon, Result: r, Method: how}
}

// derive draws an answer from the nearest one above it and, if they have scores, the nearest below it that belongs
// to the same ones.
func (x *inquiry) derive(known state.Answers, base state.AnswerLevel) (event.Result, event.Method, error) {
	if !base.Scored {
		output, err := x.ledger.queries.Degrade(x.query.Outputs(len(x.question.Values)), base.Output, base.Epsilon, x.request.Epsilon)
		return event.Result{Output: output}, event.MethodDegrade, err
	}
	how, lower := event.MethodDegrade, mechanism.Score{}
	if below, found := known.Below(x.request.Epsilon, base); found {
		how, lower = event.MethodInsert, below.AsScore()
	}
	score, err := x.ledger.queries.Between(lower, base.AsScore(), x.request.Epsilon)
	return event.Result{Scored: true, Score: score.Value}, how, err
}

// drawAnswer draws an answer from the panel's place: a score, if the query has one, raised from the base if there
// is one.
func (x *inquiry) drawAnswer(place mechanism.Place) (event.Result, event.Method, error) {
	if _, ok := place.Position(); !ok {
		output, err := x.ledger.queries.Draw(place, x.request.Epsilon)
		return event.Result{Output: output}, event.MethodFresh, err
	}
	how, last := event.MethodFresh, mechanism.Score{}
	if x.base.Scored {
		how, last = event.MethodRaise, x.base.AsScore()
	}
	score, err := x.ledger.queries.Raise(last, x.request.Epsilon, place)
	return event.Result{Scored: true, Score: score.Value}, how, err
}

// draw charges the panel and answers from its truths.
func (x *inquiry) draw(s *state.State, end *event.Settled) ([]event.Change, error) {
	asked, base, at := x.able.Names, x.base, rules.Earlier(x.at, s.Clock)
	if err := x.assess(s, at); err != nil {
		return nil, err
	}
	if !slices.Equal(asked, x.able.Names) || base != x.base || len(x.members)+len(x.missing) != len(x.able.Names) {
		return nil, batch.ErrOvertaken // somebody was charged since, or nobody's truth was asked for
	}
	if len(x.missing) > 0 && !x.leaves {
		if err := x.leaveUntold(s, at); err != nil {
			return nil, err
		}
	}
	changes, counts, err := x.count(s)
	if err != nil {
		return nil, err
	}
	place, err := x.query.Place(counts, mechanism.Substitution)
	if err != nil {
		return nil, err
	}
	made, how, err := x.drawAnswer(place)
	if err != nil {
		return nil, err
	}
	end.Counts[event.Drawn], end.Answer = 1, end.First+uint64(len(changes))
	changes = append(changes, x.record(made, how, uint64(len(x.members))))
	return batch.Settling(changes, x.question.Number, x.leftOut(), end), nil
}

// leaveUntold leaves out those who have no truth, of a panel that was whole but for them. The others are charged more if
// it would have been raised, and not all of them may be able to.
func (x *inquiry) leaveUntold(s *state.State, at time.Time) error {
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
	x.missing = slices.DeleteFunc(x.missing, func(r Refusal) bool { return !able(r.Object) })
	return x.refuse(x.leftOut())
}

// count returns the charges of the members, behind the changes that bind chains to their truths, and counts
// the true values, after checking these against those that the chains are bound to.
func (x *inquiry) count(s *state.State) (changes []event.Change, counts []int64, err error) {
	charges := make([]event.Change, len(x.members))
	counts = make([]int64, len(x.question.Values))
	for i, name := range x.members {
		c, _, err := s.Chain(x.question.Number, name)
		if err != nil {
			return nil, nil, err
		}
		if !x.ledger.rules.StillFits(x.question, &c, name, x.truths[i], x.asOf) {
			return nil, nil, batch.ErrOvertaken // it is about another one since
		}
		changes = append(changes, x.ledger.rules.Bind(x.question, c.Bond(), name, x.truths[i])...)
		charges[i] = &event.Charged{Object: name, Question: x.question.Number, Epsilon: x.cost}
		counts[x.truths[i]]++
	}
	return append(changes, charges...), counts, nil
}

// result reads the answer that a request got, whoever has come or gone since.
func (x *inquiry) result(ctx context.Context, settled uint64) (AnswerResult, error) {
	out := AnswerResult{Epsilon: x.request.Epsilon}
	err := x.ledger.engine.View(ctx, func(s *state.State) error {
		end, err := s.Settlement(settled)
		if err != nil {
			return err
		}
		out.Event = end.Answer
		if out.Refused, err = batch.RefusalsOf(s, settled, end); err != nil {
			return err
		}
		out.TruthChanged = x.changed.Among(out.Refused)
		ev, err := s.Event(end.Answer)
		if err != nil {
			return err
		}
		c, ok := ev.Change.(*event.Answered)
		if !ok || c.Epsilon != x.request.Epsilon || c.Query != x.request.Query {
			return errs.Corrupt(nil, "event %d does not answer %q at ε=%s", end.Answer, x.request.Query, x.request.Epsilon)
		}
		if end.Counts[event.Drawn] == 1 {
			if out.Charged, err = costOf(s, c, end.Answer); err != nil {
				return err
			}
		}
		out.Objects = c.Objects
		out.Answer, err = x.question.AnswerText(c.Query, c.Result)
		return err
	})
	if err != nil {
		return AnswerResult{}, err
	}
	return out, nil
}

// costOf returns what an answer drawn from truths cost each object: of a raised one, the difference to the answer
// below it at that time. What was derived since lies between, and has later events.
func costOf(s *state.State, c *event.Answered, ev uint64) (privacy.Epsilon, error) {
	if c.Method != event.MethodRaise {
		return c.Epsilon, nil
	}
	known, _, err := s.Answers(state.AnswerKey(c.Question, c.Query, c.Panel))
	if err != nil {
		return privacy.Epsilon{}, err
	}
	before := slices.DeleteFunc(known, func(l state.AnswerLevel) bool { return l.Event >= ev })
	return budget.Minus(c.Epsilon, before.Top().Epsilon), nil
}
