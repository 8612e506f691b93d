package request

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Release executes a request for the response of one object.
func (e *Executor) Release(ctx context.Context, r api.ReleaseRequest) (api.Response, error) {
	x := &release{name: [1]string{r.Object}}
	if err := x.set(ctx, e, r); err != nil {
		return api.Response{}, err
	}
	err := x.run(ctx)
	if err == nil && !x.decided { // read it even if ctx has ended, because it is recorded
		err = e.Engine.View(context.WithoutCancel(ctx), x.readRecorded)
	}
	if err != nil {
		return api.Response{}, x.alternative(ctx, callback.Report(err))
	}
	return ResponseOf(x.question, r.Object, x.given)
}

// release is a request for the response of one object, in one transaction.
type release struct {
	protocol
	drawing
	name    [1]string       // the object
	number  [1]int32        // index of the true value, if the release is prompt
	verdict event.Verdict   // what the release means for the object
	bond    [1]state.Bond   // what the chain of the object is bound to
	decided bool            // this call has decided the release
	changes [1]event.Change // the event that settles the release
}

// set checks the request. If the request has a valid true value, it is decided before its key is
// looked up. With a truth key the lookup comes first. A changed value must take the same steps
// there as a missing one.
func (x *release) set(ctx context.Context, e *Executor, r api.ReleaseRequest) error {
	if err := event.CheckName("object", r.Object); err != nil {
		return err
	}
	x.drawing.protocol = &x.protocol
	raise := api.RaiseRequest{Key: r.Key, Question: r.Question, Epsilon: r.Epsilon, Truth: r.Truth}
	if err := x.drawing.set(ctx, e, x, raise, x.name[:]); err != nil {
		return err
	}
	if r.TrueValue == "" {
		return nil
	}
	if r.Truth != nil {
		return errs.Invalid("a release with a true value, and with a source of one")
	}
	value := r.TrueValue // api.TruthOf is not needed, because this source is called for this object only
	x.source = func(context.Context, string, []string) ([]string, error) { return []string{value}, nil }
	if number, known := x.question.Index[r.TrueValue]; known && e.Rules.Binder == nil {
		x.number[0], x.prompt = int32(number), true
	}
	return nil
}

// look reads what the request means for the object.
func (x *release) look(s *state.State) error {
	var o rules.Subject
	v, refusal, err := x.assess(s, x.name[0], x.asking(), &o)
	if err == nil && refusal != nil {
		err = x.refuse(Refusals(*refusal))
	}
	x.verdict, x.bond[0] = v, o.Chain.Bond()
	return err
}

// ask asks the host for the true value, if a response must be drawn.
func (x *release) ask(ctx context.Context) error {
	if x.verdict != event.Drawn {
		return nil
	}
	who := rules.Needy{Names: x.name[:], Bonds: x.bond[:]}
	values, err := x.Rules.Ask(ctx, x.question, x.source, who, &x.faults)
	if err != nil {
		return err
	}
	x.truths.Add(who.Names, values)
	if values[0] != rules.NoTruth {
		return nil
	}
	refused, err := x.refuseAllUntold(ctx, who.Names)
	if err != nil {
		return err
	}
	return x.refuse(Refusals(refused...))
}

// commit decides the release. If a prompt release fails for any reason, commit checks whether the
// key was settled before, even if ctx has ended. In that case it returns nil, and the recorded
// response is returned.
func (x *release) commit(ctx context.Context) error {
	prompt := x.prompt
	if prompt {
		x.truths.Add(x.name[:], x.number[:])
	}
	err := x.propose(ctx, engine.Proposal{})
	if x.decided = err == nil; x.decided || !prompt || errors.Is(err, errOvertaken) {
		return err
	}
	failed := x.Engine.View(context.WithoutCancel(ctx), func(s *state.State) (err error) {
		x.st, err = StandingOf(s, x.key, x.id)
		return err
	})
	if failed == nil && x.st.Done {
		return nil
	}
	return err
}

// decide records the response, unless it exists already.
func (x *release) decide(s *state.State) ([]event.Change, error) {
	s.Coming = 2
	refusal, err := x.answer(s, x.name[0], &x.end.Counts)
	switch {
	case err != nil:
		return nil, err
	case refusal != nil && x.prompt:
		return nil, errOvertaken // the next attempt explains it, outside the transaction that others wait for
	case refusal != nil:
		return nil, x.refuse(Refusals(*refusal))
	}
	x.end.Again = x.again(x.end.Counts)
	x.changes[0] = x.end
	return x.changes[:], nil
}

// readRecorded reads the response of a request that was settled earlier.
func (x *release) readRecorded(s *state.State) error {
	name := x.name[0]
	o, found, err := s.Object(name)
	if err == nil && o.Forgotten > x.st.Last {
		return fmt.Errorf("object %q, ε=%s: %w", name, x.epsilon, errs.ErrForgotten)
	}
	if err != nil || !found {
		return errs.Corrupt(err, "object %q has lost its budget", name)
	}
	c, found, err := s.Chain(x.question.Number, name)
	if err != nil || !found {
		return errs.Corrupt(err, "object %q has lost its chain", name)
	}
	if x.given, found = c.During(x.st.Last).At(x.epsilon); !found {
		return errs.Corrupt(nil, "object %q has lost its response at ε=%s", name, x.epsilon)
	}
	return nil
}
