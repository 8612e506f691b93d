package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// Executor executes the requests to one ledger. Its methods may be called concurrently.
type Executor struct {
	Engine        *engine.Engine     // the engine of the ledger
	Rules         *rules.Rules       // the rules of the ledger
	Sampler       *mechanism.Sampler // draws answers to panel queries; used only by the goroutine that commits
	ID            [16]byte           // the ledger's ID
	Currency      string             // the currency of prices
	MaxTrueValues int                // about how many true values a request keeps: rules.MaxTrueValues, fewer in tests
	Forecasts     Forecasts          // cache of computed budgets
}

// Question returns the question with a name, or [errs.ErrUnknown] if there is none. It also returns
// the error of ctx, or of a ledger that has stopped.
func (e *Executor) Question(ctx context.Context, name string) (*event.Question, error) {
	if q := e.Engine.Known.Named(name); q != nil {
		return q, errors.Join(errs.Context(ctx), e.Engine.Queue.Check())
	}
	return e.readQuestion(ctx, name)
}

// readQuestion is Question for a question that is not cached yet. It is a function of its own, so
// that a cached question costs no allocation.
func (e *Executor) readQuestion(ctx context.Context, name string) (q *event.Question, err error) {
	err = e.Engine.View(ctx, func(s *state.State) error {
		q, err = QuestionByName(s, name)
		return err
	})
	if err == nil {
		e.Engine.Known.Name(q) // cached, because it is durable
	}
	return q, err
}

// QuestionByName returns the question with a name in a state, or [errs.ErrUnknown].
func QuestionByName(s *state.State, name string) (*event.Question, error) {
	if err := event.CheckName("question", name); err != nil {
		return nil, err
	}
	number, found, err := s.QuestionNumber(name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("question %q: %w", name, errs.ErrUnknown)
	}
	return s.Question(number)
}

// protocol executes a request: it looks up the idempotency key, asks the host for true values,
// decides in a transaction, and settles the key. Each kind of request embeds it and overrides some
// of its steps.
//
// A request over many objects decides and settles part by part. If it is interrupted, the same
// request with the same key continues after the last part that was committed.
type protocol struct {
	*Executor
	steps        steps
	key          string
	id           event.Identity  // identifies a repeated request
	question     *event.Question // nil if the request is about several
	epsilon      privacy.Epsilon // the requested level
	buyer        string          // "" if the request is not an order
	panel        Panel           // the objects of the request
	source       api.TruthFunc   // the host's source of true values; nil if there is none
	decidesFirst bool            // the first attempt decides before the key is looked up; false afterwards

	progress     Progress          // as of the lookup, and then of each part that this call has committed
	at           time.Time         // the clock when the key was looked up
	asOf         uint64            // the last event before the host was asked for true values
	trueValues   rules.TrueValues  // true values that the host has returned
	faults       rules.TruthFaults // missing, changed or invalid true values, of all attempts
	withoutTruth []string          // objects refused because the host has no true value of them
	end          *event.Settled    // the event that settles the current part
	firstEnd     event.Settled     // memory for the first such event
	proposal     engine.Proposal   // memory for the current proposal
}

// steps are the steps of the protocol that differ between kinds of requests. The methods of
// [protocol] with these names are the defaults.
type steps interface {
	// readSettled reads the outcome of the parts that are settled. It runs in the snapshot of the
	// lookup.
	readSettled(s *state.State) error
	// assessNew reads what the request means, if no part of it is settled. It runs in the snapshot
	// in which the key is looked up.
	assessNew(s *state.State) error
	// ask gets what the next part needs from outside a transaction, such as true values. It refuses
	// the request if that is possible without a transaction.
	ask(ctx context.Context) error
	// commit proposes the next part and returns when it is durable.
	commit(ctx context.Context) error
	// decide returns the changes of the next part, the last of which is [protocol.end]. It runs in
	// the transaction. It runs again in another transaction if the first is not committed.
	decide(s *state.State) ([]event.Change, error)
	// forget overwrites true values when an attempt ends.
	forget()
}

func (p *protocol) readSettled(*state.State) error   { return nil }
func (p *protocol) assessNew(*state.State) error     { return nil }
func (p *protocol) ask(context.Context) error        { return nil }
func (p *protocol) commit(ctx context.Context) error { return p.propose(ctx, engine.Proposal{}) }
func (p *protocol) forget()                          { p.trueValues.Forget() }

// begin sets the executor, the steps and the key. own is the request that embeds the protocol.
// begin returns an error if the ledger is read-only or the key is invalid.
func (p *protocol) begin(e *Executor, own steps, key string) error {
	p.Executor, p.steps, p.key = e, own, key
	if e.Engine.ReadOnly {
		return errs.ErrReadOnly
	}
	return event.CheckName("idempotency key", key)
}

// run executes the request to its end. It tries again as long as other requests interfere.
func (p *protocol) run(ctx context.Context) error {
	return untilSettled(func() error { return p.attempt(ctx) })
}

// errOvertaken aborts an attempt because another request changed what it relies on: one with the
// same key, or one about the same objects. The next attempt looks up the key and reads everything
// again.
var errOvertaken = errors.New("other requests interfered with each of many attempts: repeat this one with its key")

// maxAttempts is the number of attempts after which a request fails. Even many concurrent callers
// cause far fewer. The limit ends a loop that a fault in the program causes.
const maxAttempts = 10_000

// untilSettled repeats attempt as long as it returns errOvertaken, at most [maxAttempts] times.
func untilSettled(attempt func() error) (err error) {
	for range maxAttempts {
		if err = attempt(); !errors.Is(err, errOvertaken) {
			break
		}
	}
	return err
}

// attempt executes the request, or returns errOvertaken if it must be attempted again. The first
// attempt of a request with decidesFirst commits at once, without a lookup. If that fails with
// errOvertaken, the next attempt looks the key up. Every other attempt looks the key up, and then
// asks and commits part by part.
func (p *protocol) attempt(ctx context.Context) error {
	defer p.steps.forget()
	if p.decidesFirst {
		err := p.steps.commit(ctx)
		p.decidesFirst = false
		return err
	}
	if err := p.Engine.View(ctx, p.lookUp); err != nil {
		return err
	}
	for !p.progress.Done {
		err := p.steps.ask(ctx)
		if err == nil {
			err = p.steps.commit(ctx)
		}
		if err != nil {
			return p.progress.wrapPartlyDone(err)
		}
	}
	return nil
}

// lookUp reads the progress of the request. If parts of it are settled, it reads their outcome.
// Otherwise it reads what the request means.
func (p *protocol) lookUp(s *state.State) error {
	st, err := ProgressOf(s, p.key, p.id)
	if err != nil {
		return err
	}
	if p.start(s, st); st.parts > 0 {
		return p.steps.readSettled(s)
	}
	return p.steps.assessNew(s)
}

// start sets the state that the request is decided by: the progress st, the clock and the last
// event of s.
func (p *protocol) start(s *state.State, st Progress) {
	p.progress, p.panel.Through = st, st.Through
	p.at, p.asOf = s.Clock, s.Counters.Events
}

// propose passes the next part to the engine, which decides it in a transaction, and returns when
// it is durable. It then counts the part in the progress. p.end.Final says whether it was the last.
func (p *protocol) propose(ctx context.Context, proposal engine.Proposal) error {
	p.proposal = proposal
	p.proposal.Decide = p.decideNext
	_, last, err := p.Engine.Propose(ctx, &p.proposal)
	if err != nil {
		return err
	}
	p.progress.parts, p.progress.Last, p.progress.Done = p.progress.parts+1, last, p.end.Final
	return nil
}

// decideNext prepares the event that settles the next part, p.end, and lets the step decide return
// the changes. It runs in the transaction. It returns errOvertaken if another call has settled a
// part since the key was looked up.
func (p *protocol) decideNext(s *state.State) ([]event.Change, error) {
	st, err := ProgressOf(s, p.key, p.id)
	if err != nil {
		return nil, err
	}
	if st.parts != p.progress.parts {
		return nil, errOvertaken
	}
	if p.decidesFirst { // there was no lookup
		p.start(s, st)
	}
	if p.end = &p.firstEnd; st.parts > 0 {
		p.end = &event.Settled{} // the event of the previous part may still be in use
	}
	*p.end = event.Settled{Key: p.key, First: s.Counters.Events + 1, Through: p.panel.Through, Final: true}
	if p.end.Of(&p.id); st.parts > 0 {
		p.end.Named, p.end.Names = false, event.Sum{} // the first part has them
	}
	if p.panel.isOne() {
		p.end.Alone, p.end.Object = true, p.panel.Names[0]
	}
	return p.steps.decide(s)
}

// askFor asks the host for true values in batches, and calls use for each batch with the names and
// the indexes of the values. Values that cannot be used are [rules.NoTruth], and noted in p.faults.
// If a source needs all names first ([errs.ErrTruthLater]), the other batches are requested too,
// and that error is returned at the end.
func (p *protocol) askFor(ctx context.Context, needs rules.TruthRequest, use func([]string, []int32)) error {
	var later rules.Later
	for some := range needs.Batches() {
		values, err := p.Rules.Ask(ctx, p.question, p.source, some, &p.faults)
		if later.Is(err) {
			continue
		}
		if err != nil {
			return err
		}
		use(some.Names, values)
	}
	return later.Err
}

// checkTruth returns errOvertaken if a true value can no longer be used for a chain. That is so if
// the chain was bound to another value, or has begun an epoch, since the host was asked.
func (p *protocol) checkTruth(q *event.Question, c *state.Chain, name string, truth int32) error {
	if !p.Rules.StillFits(q, c, name, truth, p.asOf) {
		return errOvertaken
	}
	return nil
}

// refuse returns the error of a request that is refused because of these objects. It keeps, for the
// alternative, which of them have no usable true value.
func (p *protocol) refuse(refused RefusalList) error {
	p.withoutTruth = refused.WithoutTruth
	return p.Refuse(p.key, p.buyer, p.question, p.epsilon, &refused, &p.faults)
}

// Refuse returns the error of a request about q that is refused because of some objects, at least
// one of them listed. buyer is "" if the request is not an order. The line in the host's log and
// the call of the observer are deferred to [callback.Report], which runs when the request ends.
func (e *Executor) Refuse(
	key, buyer string, q *event.Question, epsilon privacy.Epsilon, refused *RefusalList, faults *rules.TruthFaults,
) error {
	refusal := refused.Error(q)
	refusal.TruthChanged, refusal.TruthInvalid = faults.Among(refusal.Refused)
	objects, first, reasons := refused.Count(), refused.Listed[0].String(), refused.ByReason()
	return callback.WithReport(refusal, func() {
		e.Engine.Log.Now(func(log *zerolog.Logger) {
			line := log.Info().Str("key", key)
			if buyer != "" {
				line = line.Str("buyer", buyer)
			}
			line.Str("question", q.Name).Str("epsilon", epsilon.String()).Int("objects", objects).Str("first", first)
			line.Msg("refused")
		})
		e.Engine.Observe(func(o observe.Observer) { o.Refused(observe.Refusal{Question: q.Name, People: reasons}) })
	})
}

// once is a request with at most one change.
type once struct {
	protocol
	change func(*state.State) (event.Change, error)
}

// Once executes a request with at most one change. decide returns the change, or nil if there is
// nothing to record. It runs in a transaction, and again if the first is not committed. object is
// the object that the request names, or "" if it names none.
func (e *Executor) Once(
	ctx context.Context, key, object string, id event.Identity, decide func(*state.State) (event.Change, error),
) error {
	o := &once{change: decide}
	if err := event.CheckName("idempotency key", key); err != nil {
		return err
	}
	o.Executor, o.steps, o.key, o.id, o.decidesFirst = e, o, key, id, true
	if object != "" {
		o.panel.Names = []string{object}
	}
	return o.run(ctx)
}

// decide returns the change, if there is one, and then the event that settles the request.
func (o *once) decide(s *state.State) ([]event.Change, error) {
	c, err := o.change(s)
	if err != nil || c == nil {
		return []event.Change{o.end}, err
	}
	return []event.Change{c, o.end}, nil
}
