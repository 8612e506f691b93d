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
	Engine    *engine.Engine     // of the ledger
	Rules     *rules.Rules       // of the ledger
	Sampler   *mechanism.Sampler // draws answers about panels; used by the one goroutine that commits
	ID        [16]byte           // of the ledger
	Currency  string             // of the ledger
	MostTold  int                // true values that a request keeps, about: rules.MostTold, or less in tests
	Forecasts Forecasts          // that were computed before
}

// Question returns a question by its name, or [errs.ErrUnknown].
func (e *Executor) Question(ctx context.Context, name string) (*event.Question, error) {
	if q := e.Engine.Known.Named(name); q != nil {
		return q, errors.Join(errs.Context(ctx), e.Engine.Queue.Check())
	}
	return e.readQuestion(ctx, name)
}

// readQuestion is Question for one that is not known yet. It is apart, so that a known one costs no
// allocation.
func (e *Executor) readQuestion(ctx context.Context, name string) (q *event.Question, err error) {
	err = e.Engine.View(ctx, func(s *state.State) error {
		q, err = QuestionByName(s, name)
		return err
	})
	if err == nil {
		e.Engine.Known.Name(q) // it is durable
	}
	return q, err
}

// QuestionByName returns a question of a state, or [errs.ErrUnknown].
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
// decides in a transaction, and settles the key. Each kind of request embeds it and has its own
// steps.
//
// A request over many objects decides and settles part by part. If it is interrupted, the same
// request with the same key continues after the last part that was committed.
type protocol struct {
	*Executor
	steps    steps
	key      string
	id       event.Identity  // by which a repetition is recognized
	question *event.Question // nil if the request is about several
	epsilon  privacy.Epsilon // that is asked for
	buyer    string          // "" if none orders
	panel    Panel           // that the request names
	source   api.TruthFunc   // of true values; may be nil
	prompt   bool            // the first attempt decides before it looks the key up

	st       Standing
	at       time.Time         // the clock when the request was looked up
	asOf     uint64            // the last event before true values were asked for
	truths   rules.Told        // that the host has returned
	faults   rules.TruthFaults // of all attempts
	untold   []string          // objects refused because the host has no true value of them
	end      *event.Settled    // settles the part that is decided
	firstEnd event.Settled     // memory for the first of them
	proposal engine.Proposal
}

// steps are what a kind of request does in the protocol. The methods of [protocol] with these names
// are the defaults.
type steps interface {
	// found reads what came of the parts that are settled.
	found(s *state.State) error
	// look reads what the request means, if no part of it is settled. It runs in the snapshot in
	// which the key is looked up.
	look(s *state.State) error
	// ask gets what the next decision needs from outside of a transaction, and refuses what can be
	// refused without one.
	ask(ctx context.Context) error
	// commit proposes the next part, and returns when it is durable.
	commit(ctx context.Context) error
	// decide returns the changes of the next part, with [protocol.end] at their end. It runs in the
	// transaction, and again in another one if that is not committed.
	decide(s *state.State) ([]event.Change, error)
	// forget overwrites true values when an attempt ends.
	forget()
}

func (p *protocol) found(*state.State) error         { return nil }
func (p *protocol) look(*state.State) error          { return nil }
func (p *protocol) ask(context.Context) error        { return nil }
func (p *protocol) commit(ctx context.Context) error { return p.propose(ctx, engine.Proposal{}) }
func (p *protocol) forget()                          { p.truths.Forget() }

// begin checks what every request with a key must have.
func (p *protocol) begin(e *Executor, own steps, key string) error {
	p.Executor, p.steps, p.key = e, own, key
	if e.Engine.ReadOnly {
		return errs.ErrReadOnly
	}
	return event.CheckName("idempotency key", key)
}

// run executes the request to its end.
func (p *protocol) run(ctx context.Context) error {
	return untilSettled(func() error { return p.attempt(ctx) })
}

// errOvertaken aborts an attempt that another call with the same key, or on the same objects, has
// overtaken. The request is looked up again then.
var errOvertaken = errors.New("overtaken by other requests again and again; repeat this one with its key")

// mostAttempts is after how many attempts a request gives up. It is far more than crowds of callers
// cause, and ends a loop that a fault causes.
const mostAttempts = 10_000

// untilSettled repeats an attempt as long as it is overtaken.
func untilSettled(attempt func() error) (err error) {
	for range mostAttempts {
		if err = attempt(); !errors.Is(err, errOvertaken) {
			break
		}
	}
	return err
}

// attempt executes the request unless it is overtaken.
func (p *protocol) attempt(ctx context.Context) error {
	defer p.steps.forget()
	if p.prompt {
		err := p.steps.commit(ctx)
		p.prompt = false
		return err
	}
	if err := p.Engine.View(ctx, p.lookUp); err != nil {
		return err
	}
	for !p.st.Done {
		err := p.steps.ask(ctx)
		if err == nil {
			err = p.steps.commit(ctx)
		}
		if err != nil {
			return p.st.partly(err)
		}
	}
	return nil
}

// lookUp finds out how far the request has come and, unless a part of it is settled, what it means.
func (p *protocol) lookUp(s *state.State) error {
	st, err := StandingOf(s, p.key, p.id)
	if err != nil {
		return err
	}
	if p.start(s, st); st.parts > 0 {
		return p.steps.found(s)
	}
	return p.steps.look(s)
}

// start notes the state that the request is decided by.
func (p *protocol) start(s *state.State, st Standing) {
	p.st, p.panel.Through = st, st.Through
	p.at, p.asOf = s.Clock, s.Counters.Events
}

// propose has the next part decided, and returns when it is durable.
func (p *protocol) propose(ctx context.Context, proposal engine.Proposal) error {
	p.proposal = proposal
	p.proposal.Decide = p.decideNext
	_, last, err := p.Engine.Propose(ctx, &p.proposal)
	if err != nil {
		return err
	}
	p.st.parts, p.st.Last, p.st.Done = p.st.parts+1, last, p.end.Final
	return nil
}

// decideNext decides the next part in the transaction, unless another call has settled one since.
func (p *protocol) decideNext(s *state.State) ([]event.Change, error) {
	st, err := StandingOf(s, p.key, p.id)
	if err != nil {
		return nil, err
	}
	if st.parts != p.st.parts {
		return nil, errOvertaken
	}
	if p.prompt {
		p.start(s, st)
	}
	if p.end = &p.firstEnd; st.parts > 0 {
		p.end = &event.Settled{} // that of the part before may be in use
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

// askFor asks the host for true values, in batches, and passes them on. A value that does not fit
// is noted in the faults. A source that needs all names first is called for all batches, and its
// error returned at the end.
func (p *protocol) askFor(ctx context.Context, who rules.Needy, told func(names []string, values []int32)) error {
	var later rules.Later
	for some := range who.Batches() {
		values, err := p.Rules.Ask(ctx, p.question, p.source, some, &p.faults)
		if later.Is(err) {
			continue
		}
		if err != nil {
			return err
		}
		told(some.Names, values)
	}
	return later.Err
}

// checkTruth returns errOvertaken if a chain cannot be drawn from a true value any more: since the
// host was asked, the chain was bound to another value or has begun an epoch.
func (p *protocol) checkTruth(q *event.Question, c *state.Chain, name string, truth int32) error {
	if !p.Rules.StillFits(q, c, name, truth, p.asOf) {
		return errOvertaken
	}
	return nil
}

// refuse returns the error of a request that is refused because of some objects.
func (p *protocol) refuse(refused RefusalList) error {
	p.untold = refused.Untold
	return p.Refuse(p.key, p.buyer, p.question, p.epsilon, &refused, &p.faults)
}

// Refuse returns the error of a request that is refused because of some objects. The host's log and
// observer get it when the request ends, by [callback.Tell].
func (e *Executor) Refuse(
	key, buyer string, q *event.Question, epsilon privacy.Epsilon, refused *RefusalList, faults *rules.TruthFaults,
) error {
	refusal := refused.Error(q)
	refusal.TruthChanged, refusal.TruthInvalid = faults.Among(refusal.Refused)
	objects, first, reasons := refused.Count(), refused.Listed[0].String(), refused.ByReason()
	return callback.ToTell(refusal, func() {
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

// once is a request of at most one change.
type once struct {
	protocol
	change func(*state.State) (event.Change, error)
}

// Once executes a request of at most one change, which decide returns, or nil if there is none to
// make. object is the one that the request names; "" if it names none.
func (e *Executor) Once(
	ctx context.Context, key, object string, id event.Identity, decide func(*state.State) (event.Change, error),
) error {
	x := &once{change: decide}
	if err := event.CheckName("idempotency key", key); err != nil {
		return err
	}
	x.Executor, x.steps, x.key, x.id, x.prompt = e, x, key, id, true
	if object != "" {
		x.panel.Names = []string{object}
	}
	return x.run(ctx)
}

func (x *once) decide(s *state.State) ([]event.Change, error) {
	c, err := x.change(s)
	if err != nil || c == nil {
		return []event.Change{x.end}, err
	}
	return []event.Change{c, x.end}, nil
}
