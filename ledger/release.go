package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// ReleaseRequest asks for the response of one object at one ε.
type ReleaseRequest struct {
	Key      string          `json:"-"`        // idempotency key, 1 to 256 bytes: your order's id, say
	Question string          `json:"question"` // by its name
	Object   string          `json:"object"`   // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // above 0
	Truth    TruthFunc       `json:"-"`        // asked only if ε lies above the current level
	// TrueValue is what Truth would say, if it is at hand: faster, as nobody looks first whether it is needed (but with [Options.TruthKey]). It is
	// used only if ε lies above the current level, and is that of the epoch then: begin none meanwhile. "" is none.
	TrueValue string `json:"-"`
}

// Release returns the response of an object at ε. Above the chain's current level it draws it by the
// transition kernel, which charges the object the difference; at a recorded level it hands out the
// recorded response; between and below recorded levels it derives one without the truth, for free.
// The response is durable before Release returns. It is the same for every caller, for ever.
//
// Errors: [*RefusedError] (nothing was changed), [ErrUnknown], [ErrInvalid], [ErrKeyConflict],
// the error of the Truth function, and those of any write.
func (l *Ledger) Release(ctx context.Context, r ReleaseRequest) (Response, error) {
	x := &raiseOfOne{name: [1]string{r.Object}}
	if err := x.begin(ctx, l, r); err != nil {
		return Response{}, err
	}
	response, err := request.UntilSettled(func() (Response, error) { return x.attempt(ctx) })
	if err != nil {
		return Response{}, x.instead(ctx, err)
	}
	return response, nil
}

// raiseOfOne is a ReleaseRequest being carried out: a raise of one object, in one transaction.
type raiseOfOne struct {
	raise
	name    [1]string // the object
	id      event.Identity
	told    [1]int32      // the number of the true value, if the release is prompt; once
	settled uint64        // the event that settled the request before, or 0
	through uint64        // see event.Settled
	verdict event.Verdict // what the release means for the object
	bond    [1]state.Bond // what its chain is bound to
	end     event.Settled
	changes [1]event.Change // that one
	waiting engine.Proposal
}

func (x *raiseOfOne) begin(ctx context.Context, l *Ledger, r ReleaseRequest) error {
	if err := names.Check("object", r.Object); err != nil {
		return err
	}
	if err := x.raise.begin(ctx, l, RaiseRequest{Key: r.Key, Question: r.Question, Epsilon: r.Epsilon, Truth: r.Truth}, x.name[:]); err != nil {
		return err
	}
	x.id = x.form()
	if r.TrueValue == "" {
		return nil
	}
	if r.Truth != nil {
		return errs.Invalid("a release with a true value, and with a source of one")
	}
	value := r.TrueValue // without TruthOf: this source is called for no other object
	x.request.Truth = func(context.Context, string, []string) ([]string, error) { return []string{value}, nil }
	// With a truth key, another value than before must take the same steps as none.
	if number, known := x.question.Index[r.TrueValue]; known && l.rules.Binder == nil {
		x.told[0], x.prompt = int32(number), true
	}
	return nil
}

// attempt looks the request up, asks for the truth if it is needed, decides, commits and answers; with the truth at hand it decides first.
func (x *raiseOfOne) attempt(ctx context.Context) (Response, error) {
	defer x.truths.Forget()
	if x.prompt {
		return x.promptly(ctx)
	}
	if err := x.ledger.engine.View(ctx, x.lookUp); err != nil {
		return Response{}, err
	}
	if x.settled != 0 {
		return x.recorded(context.WithoutCancel(ctx)) // it was done before, whatever has become of ctx
	}
	if x.verdict == event.Drawn {
		if err := x.askTruth(ctx); err != nil {
			return Response{}, err
		}
	}
	return x.propose(ctx)
}

// promptly decides, with the truth at hand. Whatever fails, or has become of ctx: what was done before is answered.
func (x *raiseOfOne) promptly(ctx context.Context) (Response, error) {
	x.truths.Add(x.name[:], x.told[:])
	response, err := x.propose(ctx)
	x.prompt = false
	if err == nil || errors.Is(err, request.ErrOvertaken) {
		return response, err
	}
	ctx = context.WithoutCancel(ctx)
	if looked := x.ledger.engine.View(ctx, x.standing); looked == nil && x.settled != 0 {
		return x.recorded(ctx)
	}
	return Response{}, err
}

// propose has the request decided and committed, and answers.
func (x *raiseOfOne) propose(ctx context.Context) (Response, error) {
	x.waiting = engine.Proposal{Decide: x.decide}
	if _, _, err := x.ledger.engine.Propose(ctx, &x.waiting); err != nil {
		return Response{}, err
	}
	return toldResponse(x.question, x.name[0], x.given)
}

// standing finds the event that settled the request, if one did.
func (x *raiseOfOne) standing(s *state.State) error {
	st, err := request.StandingOf(s, x.request.Key, x.id)
	x.settled, x.through = st.Last, st.Through
	return err
}

// lookUp finds that event or, if there is none, what the request means for the object.
func (x *raiseOfOne) lookUp(s *state.State) error {
	if err := x.standing(s); err != nil || x.settled != 0 {
		return err
	}
	x.at, x.asOf = s.Clock, s.Counters.Events
	var o rules.Subject
	v, refusal, err := x.assess(s, x.name[0], x.at, &o)
	if err == nil && refusal != nil {
		err = x.refuse(request.Refusals(*refusal))
	}
	x.verdict, x.bond[0] = v, o.Chain.Bond()
	return err
}

// askTruth asks for the truth, outside of any transaction.
func (x *raiseOfOne) askTruth(ctx context.Context) error {
	names := x.name[:]
	values, err := x.ledger.rules.Ask(ctx, x.question, x.request.Truth, rules.Needy{Names: names, Bonds: x.bond[:]}, &x.faults)
	if err != nil {
		return err
	}
	x.truths.Add(names, values)
	if values[0] != rules.NoTruth {
		return nil
	}
	refused, err := x.refuseUntold(ctx, names)
	if err != nil {
		return err
	}
	return x.refuse(request.Refusals(refused...))
}

// decide records the response, if there is none, and returns the change that settles the release.
func (x *raiseOfOne) decide(s *state.State) ([]event.Change, error) {
	st, err := request.StandingOf(s, x.request.Key, x.id)
	if err != nil {
		return nil, err
	}
	if st.Last != 0 {
		return nil, request.ErrOvertaken
	}
	if x.prompt {
		x.at, x.through, x.asOf = s.Clock, st.Through, s.Counters.Events
	}
	x.end = event.Settled{Key: x.request.Key, First: s.Counters.Events + 1, Through: x.through, Final: true, Alone: true, Object: x.name[0]}
	x.end.Of(&x.id)
	s.Coming = 2
	refusal, err := x.answer(s, x.name[0], &x.end.Counts)
	switch {
	case err != nil:
		return nil, err
	case refusal != nil && x.prompt:
		return nil, request.ErrOvertaken // who is refused is told outside: others wait for this
	case refusal != nil:
		return nil, x.refuse(request.Refusals(*refusal))
	}
	x.end.Again = x.again(x.end.Counts)
	x.changes[0] = &x.end
	return x.changes[:], nil
}

// recorded returns the response to a request that an event settled before.
func (x *raiseOfOne) recorded(ctx context.Context) (Response, error) {
	var out Response
	err := x.ledger.engine.View(ctx, func(s *state.State) error {
		q, name, epsilon := x.question, x.name[0], x.request.Epsilon
		o, found, err := s.Object(name)
		if err == nil && o.Forgotten > x.settled {
			return fmt.Errorf("object %q, ε=%s: %w", name, epsilon, ErrForgotten)
		}
		if err != nil || !found {
			return errs.Corrupt(err, "object %q has lost its budget", name)
		}
		c, found, err := s.Chain(q.Number, name)
		if err != nil || !found {
			return errs.Corrupt(err, "object %q has lost its chain", name)
		}
		at, found := c.During(x.settled).At(epsilon)
		if !found {
			return errs.Corrupt(nil, "object %q has lost its response at ε=%s", name, epsilon)
		}
		out, err = toldResponse(q, name, at)
		return err
	})
	if err != nil {
		return Response{}, err
	}
	return out, nil
}
