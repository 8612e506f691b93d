package ledger

import (
	"context"
	"math"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/privacy"
)

// Response is the answer of one object to a question at one ε. It never changes.
type Response struct {
	Object   string          `json:"object"`   // who answers
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // the level
	Value    string          `json:"response"` // as the question's encoding puts it in words
	Event    uint64          `json:"event"`    // the event that recorded it
}

// RaiseRequest asks for the responses of many objects at one ε.
type RaiseRequest struct {
	Key      string          `json:"-"`                 // idempotency key, 1 to 256 bytes
	Question string          `json:"question"`          // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`           // above 0
	Objects  []string        `json:"objects,omitzero"`  // the objects, or
	All      bool            `json:"all,omitempty"`     // everyone enrolled in the question, who has not withdrawn
	Partial  bool            `json:"partial,omitempty"` // leave refused objects out, rather than refuse the request
	Truth    TruthFunc       `json:"-"`                 // asked for the objects whose current level lies below ε
	Progress Progress        `json:"-"`                 // optional
}

// RaiseResult tells what a raise did. Drawn, Reused and Derived add up to the objects answered; with Refused and Unlisted,
// to all.
type RaiseResult struct {
	Drawn   int `json:"drawn"`   // drawn above the current level, charged to the object
	Reused  int `json:"reused"`  // recorded before at this ε, and free
	Derived int `json:"derived"` // drawn below the current level without the truth, and free
	// Refused were left out, only if the request was partial: the first [MaxPanel] of them. [Ledger.Refusals] yields all.
	Refused  []Refusal `json:"refused"`
	Unlisted int       `json:"unlisted,omitempty"` // how many more were left out, or were and are forgotten since
	// TruthChanged are those of Refused whose true value is another than the one that their chain began with (see
	// [Options.TruthKey]). Who learns that somebody's value has changed learns something about the values: this is for the
	// host alone, and nobody else is told, nor is it told again for the same key. Parts of the request that were carried
	// out by an earlier call are not in it.
	TruthChanged []string `json:"-"`
	// TruthInvalid are those of Refused whose true value is not one of the question's. It is for the host alone, like TruthChanged.
	TruthInvalid []string `json:"-"`
	First        uint64   `json:"first"` // first and last event; other requests' events may lie between
	Last         uint64   `json:"last"`  // as First
}

// Raise brings many objects to ε as [Ledger.Release] does one. It is whole or nothing, unless the
// request is partial: if any object is refused, no object is drawn from (but see [ErrPartlyDone]), and the
// [*RefusedError] says who. Responses are read with [Ledger.Responses] afterwards.
//
// True values are asked for, in batches, before anything is written; those of objects beyond the first million
// once more when their turn comes. Then the objects are carried out
// in transactions of bounded size; meanwhile their budget is held, so that nobody else can take it. If
// ctx ends, the source of truths fails or the process dies in between, the parts committed so far stay,
// and the same request with the same key goes on where it stopped.
func (l *Ledger) Raise(ctx context.Context, r RaiseRequest) (RaiseResult, error) {
	raise, err := l.newRaise(ctx, r)
	if err != nil {
		return RaiseResult{}, err
	}
	result, err := raise.run(ctx)
	if err != nil {
		return RaiseResult{}, raise.instead(ctx, err)
	}
	changed, invalid := raise.faults.Among(result.Refused)
	return RaiseResult{
		Drawn: int(result.Counts[event.Drawn]), Reused: int(result.Counts[event.Reused]), Derived: int(result.Counts[event.Derived]),
		Refused: result.Refused, Unlisted: result.Left - len(result.Refused), TruthChanged: changed, TruthInvalid: invalid,
		First: result.First, Last: result.Last,
	}, nil
}

// raise is a RaiseRequest being carried out.
type raise struct {
	ledger   *Ledger
	request  RaiseRequest
	question *event.Question
	panel    request.Panel
	at       time.Time // when the precheck began
	asOf     uint64    // the last event then
	hold     *rules.Hold
	looked   *prechecked // what the snapshot in which the request was looked up says of its objects, if they are few
	truths   rules.Told
	faults   rules.TruthFaults
	untold   []string        // who was refused for want of a true value
	prompt   bool            // it is decided without a look before; whoever is refused is looked at again, outside of the transaction
	rest     string          // the first object whose truth was not kept, or ""
	given    state.Level     // the response that the last object got or had
	released event.Released  // the last response, as it is recorded
	recorded [2]event.Change // memory for it, and for what binds the chain
}

func (l *Ledger) newRaise(ctx context.Context, r RaiseRequest) (*raise, error) {
	x := &raise{}
	sorted, err := names.CheckAsked(r.Objects, r.All, math.MaxInt)
	if err == nil {
		err = x.begin(ctx, l, r, sorted)
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

// begin looks at a request for some objects, whose names rise, or for all.
func (x *raise) begin(ctx context.Context, l *Ledger, r RaiseRequest, objects []string) (err error) {
	if l.engine.ReadOnly {
		return ErrReadOnly
	}
	if err := names.Check("idempotency key", r.Key); err != nil {
		return err
	}
	if x.question, err = l.findQuestion(ctx, r.Question); err != nil {
		return err
	}
	x.ledger, x.request = l, r
	x.panel = request.Panel{Names: objects, All: r.All, Question: x.question.Number}
	return x.question.CheckLevel(r.Epsilon)
}

func (x *raise) form() event.Identity {
	r := &x.request
	return event.RaiseRequest(r.Question, r.Epsilon, r.Partial, x.panel.Names, r.All)
}

func (x *raise) run(ctx context.Context) (request.Outcome, error) {
	defer func() {
		x.truths.Forget()
		x.ledger.rules.Holds.Remove(x.hold)
	}()
	b := &request.Bulk{
		Engine: &x.ledger.engine, Holds: &x.ledger.rules.Holds, Work: x,
		Key: x.request.Key, Id: x.form(), Panel: x.panel, Progress: x.request.Progress,
	}
	if x.alone() {
		b.Look = x.look
	}
	return b.Run(ctx)
}

// Precheck looks at all objects of the panel, asks for the truths that draws will need, and refuses if
// anybody must be left out of a request that is not partial.
func (x *raise) Precheck(ctx context.Context, p request.Panel, behind string) (total int, err error) {
	x.panel = p
	x.truths.Forget()
	x.rest = ""
	if err := x.holdBudget(ctx); err != nil {
		return 0, err
	}
	if x.looked == nil {
		x.at = time.Time{}
	}
	var refused request.RefusalList // of a request that must be whole; another one finds them again, part by part
	var later rules.Later
	for last := false; !last; {
		p, err := x.precheck(ctx, behind)
		if err != nil {
			return 0, err
		}
		last, behind = p.last, p.end
		if !x.request.Partial {
			refused.Add(p.refused...)
		}
		if len(refused.Listed) > 0 {
			continue // nobody will be drawn from, so nobody's truth is asked for
		}
		total += p.objects
		missing, err := x.ask(ctx, p)
		if later.Is(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if !x.request.Partial {
			refused.Add(missing...)
		}
	}
	if len(refused.Listed) > 0 {
		return 0, x.refuse(refused)
	}
	return total, later.Err
}

// holdBudget keeps others from taking budget that a request counts on, from before it looks until it
// is done. A request of one part needs no hold: it looks and takes in the same transaction.
func (x *raise) holdBudget(ctx context.Context) error {
	if x.hold != nil || x.request.Partial || x.alone() {
		return nil
	}
	covered := x.panel
	x.hold = &rules.Hold{Question: x.question.Number, Epsilon: x.request.Epsilon, Covers: covered.Contains}
	x.ledger.rules.Holds.Add(x.hold)
	// What was decided before the hold stood is committed once this empty decision has passed.
	_, _, err := x.ledger.engine.Submit(ctx, func(*state.State) ([]event.Change, error) { return nil, nil })
	return err
}

// alone tells whether the request is a single part.
func (x *raise) alone() bool { return !x.panel.All && len(x.panel.Names) <= state.PartSize }

// asking is what the raise wants at an instant.
func (x *raise) asking(at time.Time) rules.Asking {
	return rules.Asking{Question: x.question, Epsilon: x.request.Epsilon, At: at, Hold: x.hold}
}

// assess reads an object, and says what the raise means for it.
func (x *raise) assess(s *state.State, name string, at time.Time, o *rules.Subject) (event.Verdict, *Refusal, error) {
	if refusal, err := rules.ReadSubject(s, x.question, name, x.request.Epsilon, o); err != nil || refusal != nil {
		return 0, refusal, err
	}
	ask := x.asking(at)
	v, refusal, err := x.ledger.rules.Assess(s, o, ask)
	if err == nil && refusal != nil && !x.prompt {
		err = x.ledger.rules.OrLess(s, o, ask, rules.Offered(x.question), refusal)
	}
	return v, refusal, err
}

// Decide draws for one part, and records each response before it looks at the next object.
func (x *raise) Decide(s *state.State, names []string) (request.Part, error) {
	p := request.Part{Question: x.question.Number}
	for i, name := range names {
		s.Coming = len(names) - i + 1
		refusal, err := x.answer(s, name, &p.Counts)
		if err != nil {
			return p, err
		}
		if refusal != nil {
			p.Refused = append(p.Refused, *refusal)
		}
	}
	if len(p.Refused) > 0 && !x.request.Partial {
		return p, x.refuse(request.Refusals(p.Refused...))
	}
	p.Again = x.again(p.Counts)
	return p, nil
}

// again returns which responses are handed out again, if any are.
func (x *raise) again(counts event.Counts) event.Wanted {
	if counts[event.Reused] == 0 {
		return event.Wanted{}
	}
	return event.Wanted{Question: x.question.Number, Epsilon: x.request.Epsilon}
}

// answer records the response of one object, unless there is one or it is refused, and counts it.
func (x *raise) answer(s *state.State, name string, counts *event.Counts) (*Refusal, error) {
	var o rules.Subject
	v, refusal, err := x.assess(s, name, rules.Earlier(x.at, s.Clock), &o)
	if err != nil || refusal != nil {
		return refusal, err
	}
	truth, asked := x.truths.Of(name)
	if v == event.Drawn && !asked {
		return nil, request.ErrOvertaken
	}
	if v == event.Drawn && truth == rules.NoTruth {
		return x.ledger.rules.LacksTruth(s, &o, x.asking(x.at), rules.Offered(x.question))
	}
	if v == event.Drawn && !x.ledger.rules.StillFits(x.question, &o.Chain, name, truth, x.asOf) {
		return nil, request.ErrOvertaken // it is about another one since
	}
	counts[v]++
	if v == event.Reused {
		x.given, _ = o.Chain.At(x.request.Epsilon)
		return nil, nil
	}
	r, first, err := x.ledger.rules.Respond(s.Chances, x.question, &o, x.request.Epsilon, truth)
	if err != nil {
		return nil, err
	}
	x.released = event.Released{Object: name, Question: x.question.Number, Epsilon: x.request.Epsilon, Response: r}
	_, last, err := fold.Record(s, append(append(x.recorded[:0], first...), &x.released))
	x.given = state.NewLevel(x.request.Epsilon, r.Value, last)
	return nil, err
}

func (x *raise) refuse(refused request.RefusalList) error {
	x.untold = refused.Untold
	return x.ledger.refuse(asker{key: x.request.Key}, x.question, x.request.Epsilon, &refused, &x.faults)
}

// instead adds to the error of a refused raise what would have been possible.
func (x *raise) instead(ctx context.Context, err error) error {
	f := &forecast{ledger: x.ledger, bid: rules.Bid{Question: x.question}, names: x.panel.Names, all: x.panel.All, untold: x.untold}
	return f.instead(ctx, callback.Tell(err), x.request.Epsilon)
}

// asker is who asks: the key of the request, and the buyer, if one orders. Both are "" for a quote by nobody.
type asker struct{ key, buyer string }

// refuse returns the error that a request is refused. The host's log and observer get it when the request ends, from [callback.Tell].
func (l *Ledger) refuse(by asker, q *event.Question, epsilon privacy.Epsilon, refused *request.RefusalList, faults *rules.TruthFaults) error {
	refusal := refused.Error(q)
	refusal.TruthChanged, refusal.TruthInvalid = faults.Among(refusal.Refused)
	objects, first, reasons := refused.Count(), refused.Listed[0].String(), refused.ByReason()
	return callback.ToTell(refusal, func() {
		l.engine.Log.Now(func(log *zerolog.Logger) {
			line := log.Info().Str("key", by.key)
			if by.buyer != "" {
				line = line.Str("buyer", by.buyer)
			}
			line.Str("question", q.Name).Str("epsilon", epsilon.String()).Int("objects", objects).Str("first", first).Msg("refused")
		})
		l.engine.Observe(func(o observe.Observer) { o.Refused(observe.Refusal{Question: q.Name, People: reasons}) })
	})
}

// toldResponse puts a recorded level in words.
func toldResponse(q *event.Question, object string, at state.Level) (Response, error) {
	value, err := q.ResponseText(object, at.Epsilon, at.Response)
	if err != nil {
		return Response{}, err
	}
	return Response{Object: object, Question: q.Name, Epsilon: at.Epsilon, Value: value, Event: at.Event}, nil
}
