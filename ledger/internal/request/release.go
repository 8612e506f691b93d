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

// Release executes a request for the response of one object. If it is refused, the error says what
// is possible instead.
func (e *Executor) Release(ctx context.Context, r api.ReleaseRequest) (api.Response, error) {
	rl := &release{name: [1]string{r.Object}}
	if err := rl.prepare(ctx, e, r); err != nil {
		return api.Response{}, err
	}
	err := rl.run(ctx)
	if err == nil && !rl.decided { // read it even if ctx has ended, because it is recorded
		err = e.Engine.View(context.WithoutCancel(ctx), rl.readRecorded)
	}
	if err != nil {
		return api.Response{}, rl.alternative(ctx, callback.Report(err))
	}
	return ResponseOf(rl.question, r.Object, rl.level)
}

// release is a request for the response of one object, in one transaction.
type release struct {
	protocol
	drawing
	name       [1]string             // the object
	valueIndex [1]int32              // index of the true value, if the release decides first
	verdict    event.Verdict         // what the release means for the object
	binding    [1]state.TruthBinding // the binding of the object's chain to its true value
	decided    bool                  // this call has decided the release, and has its level
	changes    [1]event.Change       // the event that settles the release
}

// prepare checks the request. If the request has a valid true value and there is no truth key, it
// is decided before its key is looked up. With a truth key, a changed value must take the same
// steps as a missing one, so the lookup comes first.
func (rl *release) prepare(ctx context.Context, e *Executor, r api.ReleaseRequest) error {
	if err := event.CheckName("object", r.Object); err != nil {
		return err
	}
	rl.drawing.protocol = &rl.protocol
	raise := api.RaiseRequest{Key: r.Key, Question: r.Question, Epsilon: r.Epsilon, Truth: r.Truth}
	if err := rl.drawing.prepare(ctx, e, rl, raise, rl.name[:]); err != nil {
		return err
	}
	if r.TrueValue == "" {
		return nil
	}
	if r.Truth != nil {
		return errs.Invalid("a release has both TrueValue and Truth: set one of them")
	}
	value := r.TrueValue // api.TruthOf is not needed, because this source is called for this object only
	rl.source = func(context.Context, string, []string) ([]string, error) { return []string{value}, nil }
	if number, known := rl.question.Index[r.TrueValue]; known && e.Rules.Binder == nil {
		rl.valueIndex[0], rl.decidesFirst = int32(number), true
	}
	return nil
}

// assessNew reads what the request means for the object, and returns the error of a refused
// request.
func (rl *release) assessNew(s *state.State) error {
	var o rules.Subject
	v, refusal, err := rl.assess(s, rl.name[0], rl.objectRequest(), &o)
	if err == nil && refusal != nil {
		err = rl.refuse(Refusals(*refusal))
	}
	rl.verdict, rl.binding[0] = v, o.Chain.Binding()
	return err
}

// ask asks the host for the true value, if a response must be drawn. It returns the error of a
// refused request if the host has none that can be used.
func (rl *release) ask(ctx context.Context) error {
	if rl.verdict != event.Drawn {
		return nil
	}
	who := rules.TruthRequest{Names: rl.name[:], Bindings: rl.binding[:]}
	values, err := rl.Rules.Ask(ctx, rl.question, rl.source, who, &rl.faults)
	if err != nil {
		return err
	}
	rl.trueValues.Add(who.Names, values)
	if values[0] != rules.NoTruth {
		return nil
	}
	refused, err := rl.refuseAllWithoutTruth(ctx, who.Names)
	if err != nil {
		return err
	}
	return rl.refuse(Refusals(refused...))
}

// commit decides the release. If a release that decides first fails, the key may have been settled
// before. So commit then looks the key up, even if ctx has ended. If the key was settled, it
// returns nil, and the caller reads the recorded response.
func (rl *release) commit(ctx context.Context) error {
	prompt := rl.decidesFirst
	if prompt {
		rl.trueValues.Add(rl.name[:], rl.valueIndex[:])
	}
	err := rl.propose(ctx, engine.Proposal{})
	if rl.decided = err == nil; rl.decided || !prompt || errors.Is(err, errOvertaken) {
		return err
	}
	failed := rl.Engine.View(context.WithoutCancel(ctx), func(s *state.State) (err error) {
		rl.progress, err = ProgressOf(s, rl.key, rl.id)
		return err
	})
	if failed == nil && rl.progress.Done {
		return nil
	}
	return err
}

// decide records the response, unless it exists already, and returns the event that settles the
// request.
func (rl *release) decide(s *state.State) ([]event.Change, error) {
	s.EventsAhead = 2 // the response, and the event that settles the request
	refusal, err := rl.answer(s, rl.name[0], &rl.end.Counts)
	switch {
	case err != nil:
		return nil, err
	case refusal != nil && rl.decidesFirst:
		return nil, errOvertaken // the next attempt explains it, outside the transaction that others wait for
	case refusal != nil:
		return nil, rl.refuse(Refusals(*refusal))
	}
	rl.end.Again = rl.reusedLevel(rl.end.Counts)
	rl.changes[0] = rl.end
	return rl.changes[:], nil
}

// readRecorded reads the response of a request that was settled earlier into rl.level. It returns
// [errs.ErrForgotten] if the object was forgotten since then.
func (rl *release) readRecorded(s *state.State) error {
	name := rl.name[0]
	o, found, err := s.Object(name)
	if err == nil && o.Forgotten > rl.progress.Last {
		return fmt.Errorf("object %q, ε=%s: %w", name, rl.epsilon, errs.ErrForgotten)
	}
	if err != nil || !found {
		return errs.Corrupt(err, "the record of object %q is missing", name)
	}
	c, found, err := s.Chain(rl.question.Number, name)
	if err != nil || !found {
		return errs.Corrupt(err, "object %q: its chain in question %d is missing", name,
			rl.question.Number)
	}
	if rl.level, found = c.During(rl.progress.Last).At(rl.epsilon); !found {
		return errs.Corrupt(nil, "object %q: its response at ε=%s is missing", name, rl.epsilon)
	}
	return nil
}
