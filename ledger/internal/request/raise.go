package request

import (
	"context"
	"math"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Raise executes a request for the responses of many objects at one ε. If it is refused, the error
// says what is possible instead.
func (e *Executor) Raise(ctx context.Context, request api.RaiseRequest) (out api.RaiseResult, err error) {
	sorted, err := event.CheckAsked(request.Objects, request.All, math.MaxInt)
	if err != nil {
		return out, err
	}
	r := &raise{partial: request.Partial}
	r.draw.protocol, r.work, r.onProgress = &r.protocol, r, request.Progress
	if err := r.draw.prepare(ctx, e, r, request, sorted); err != nil {
		return out, err
	}
	if err := r.execute(ctx); err != nil {
		return out, r.draw.alternative(ctx, callback.Report(err))
	}
	n := &r.outcome.Counts
	out = api.RaiseResult{
		Drawn: int(n[event.Drawn]), Reused: int(n[event.Reused]), Derived: int(n[event.Derived]),
		Refused: r.outcome.Refused, Unlisted: r.outcome.unlisted(), First: r.outcome.First, Last: r.outcome.Last,
	}
	out.TruthChanged, out.TruthInvalid = r.faults.Among(out.Refused)
	return out, nil
}

// execute executes the request and then removes its hold, if it has one, so that an alternative is
// computed without the hold.
func (r *raise) execute(ctx context.Context) error {
	defer func() { r.Rules.Holds.Remove(r.draw.hold) }()
	return r.run(ctx)
}

// raise is a request for the responses of many objects.
type raise struct {
	bulk
	draw        drawing
	partial     bool
	firstPart   *prechecked // the objects of a request with a single part, read in the snapshot of the lookup; or nil
	firstUnkept string      // the first object whose true value was not kept, or ""
}

// prechecked is what is known of up to [state.PartSize] objects before anything is written.
type prechecked struct {
	objects int                // number of objects
	needs   rules.TruthRequest // objects that need their true value
	refused []api.Refusal
	end     string // the last of the objects
	last    bool   // no further object follows
}

// assessNew reads the objects of a request that has a single part into r.firstPart, which spares
// another snapshot.
func (r *raise) assessNew(s *state.State) error {
	r.outcome, r.firstPart = Outcome{}, nil
	if r.isPart() {
		return nil
	}
	r.firstPart = &prechecked{}
	return r.readPart(s, r.firstPart)
}

// Precheck reads all objects of the panel after an object, and asks the host for the true values
// that draws will need. It returns the number of these objects. It refuses a request that is not
// partial if any object is refused. The panel is that of r.
func (r *raise) Precheck(ctx context.Context, _ Panel, after string) (total int, err error) {
	r.firstUnkept = ""
	if err := r.holdBudget(ctx); err != nil {
		return 0, err
	}
	var refused RefusalList // not used by a partial request, which finds them again part by part
	var later rules.Later
	for last := false; !last; {
		p, err := r.precheck(ctx, after)
		if err != nil {
			return 0, err
		}
		last, after = p.last, p.end
		if !r.partial {
			refused.Add(p.refused...)
		}
		if len(refused.Listed) > 0 {
			continue // nothing will be drawn, so no true value is asked for
		}
		total += p.objects
		missing, err := r.askPart(ctx, p)
		if later.Is(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if !r.partial {
			refused.Add(missing...)
		}
	}
	if len(refused.Listed) > 0 {
		return 0, r.refuse(refused)
	}
	return total, later.Err
}

// holdBudget keeps other requests from taking budget that this request relies on, from before it
// reads until it ends. A request of one part needs no hold, because it reads and draws in one
// transaction. A partial request has none, because it may leave objects out.
func (r *raise) holdBudget(ctx context.Context) error {
	if r.draw.hold != nil || r.partial || !r.panel.All && len(r.panel.Names) <= state.PartSize {
		return nil
	}
	covered := r.panel
	r.draw.hold = &rules.Hold{Question: r.question.Number, Epsilon: r.epsilon, Covers: covered.Contains}
	r.Rules.Holds.Add(r.draw.hold)
	// A decision made before the hold existed is committed when this empty one returns.
	_, _, err := r.Engine.Submit(ctx, func(*state.State) ([]event.Change, error) { return nil, nil })
	return err
}

// precheck reads the part after an object, without true values. The first part may have been read
// already.
func (r *raise) precheck(ctx context.Context, after string) (prechecked, error) {
	if p := r.firstPart; p != nil {
		r.firstPart = nil
		return *p, nil
	}
	p := prechecked{end: after}
	if err := errs.Context(ctx); err != nil {
		return p, err
	}
	err := r.Engine.View(ctx, func(s *state.State) error { return r.readPart(s, &p) })
	return p, err
}

// readPart reads the part after the object p.end into p, and moves p.end to its last object.
func (r *raise) readPart(s *state.State, p *prechecked) error {
	some, last, err := r.panel.After(s, p.end, state.PartSize)
	if err != nil {
		return err
	}
	if p.last = last; len(some) > 0 {
		p.end = some[len(some)-1]
	}
	p.objects = len(some)
	p.needs.Bindings = make([]state.TruthBinding, 0, len(some))
	for i, name := range some {
		var o rules.Subject
		v, refusal, err := r.draw.assess(s, name, r.draw.objectRequest(), &o)
		switch {
		case err != nil:
			return err
		case refusal != nil:
			p.refused = append(p.refused, *refusal)
		case v == event.Drawn:
			if len(p.needs.Names) == i {
				p.needs.Names = some[: i+1 : i+1] // shares memory, because usually all objects need one
			} else {
				p.needs.Names = append(p.needs.Names, name)
			}
			p.needs.Bindings = append(p.needs.Bindings, o.Chain.Binding())
		}
	}
	return nil
}

// Truths asks the host for the true values of the next part, unless Precheck has kept them.
// Precheck did not keep those from r.firstUnkept on.
//
// If an object needs a true value only when its part is decided, the rest of the request is read
// again. That happens only if budget was freed in between.
func (r *raise) Truths(ctx context.Context, after string) error {
	if r.firstUnkept == "" {
		return nil
	}
	p, err := r.precheck(ctx, after)
	if err != nil || p.end < r.firstUnkept { // all values of this part are kept
		return err
	}
	r.trueValues.Forget()
	_, err = r.askPart(ctx, p) // the part refuses an object that has none
	return err
}

// askPart asks the host for the true values of the objects in p that need one. It keeps them, up to
// about r.MaxTrueValues. It returns the refusals of the objects without a usable one.
func (r *raise) askPart(ctx context.Context, p prechecked) (missing []api.Refusal, err error) {
	if len(p.needs.Names) == 0 {
		return nil, nil
	}
	var withoutTruth []string
	err = r.askFor(ctx, p.needs, func(names []string, values []int32) {
		for i, name := range names {
			if values[i] == rules.NoTruth {
				withoutTruth = append(withoutTruth, name)
			}
		}
		if r.trueValues.Count < r.MaxTrueValues {
			r.trueValues.Add(names, values)
			return
		}
		clear(values) // they are checked, but not kept
		if r.firstUnkept == "" {
			r.firstUnkept = names[0]
		}
	})
	if err != nil {
		return nil, err
	}
	return r.draw.refuseAllWithoutTruth(ctx, withoutTruth)
}

// Decide draws for one part, and records each response before it reads the next object. If an
// object is refused and the request is not partial, it returns the error of a refused request.
func (r *raise) Decide(s *state.State, names []string) (Part, error) {
	p := Part{Question: r.question.Number}
	for i, name := range names {
		s.EventsAhead = len(names) - i + 1 // one for each object left, and one that settles the part
		refusal, err := r.draw.answer(s, name, &p.Counts)
		if err != nil {
			return p, err
		}
		if refusal != nil {
			p.Refused = append(p.Refused, *refusal)
		}
	}
	if len(p.Refused) > 0 && !r.partial {
		return p, r.refuse(Refusals(p.Refused...))
	}
	p.Reused = r.draw.reusedLevel(p.Counts)
	return p, nil
}
