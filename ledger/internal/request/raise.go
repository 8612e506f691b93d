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

// Raise executes a request for the responses of many objects.
func (e *Executor) Raise(ctx context.Context, r api.RaiseRequest) (out api.RaiseResult, err error) {
	sorted, err := event.CheckAsked(r.Objects, r.All, math.MaxInt)
	if err != nil {
		return out, err
	}
	x := &raise{partial: r.Partial}
	x.draw.protocol, x.work, x.progress = &x.protocol, x, r.Progress
	if err := x.draw.set(ctx, e, x, r, sorted); err != nil {
		return out, err
	}
	if err := x.execute(ctx); err != nil {
		return out, x.draw.alternative(ctx, callback.Report(err))
	}
	n := &x.outcome.Counts
	out = api.RaiseResult{
		Drawn: int(n[event.Drawn]), Reused: int(n[event.Reused]), Derived: int(n[event.Derived]),
		Refused: x.outcome.Refused, Unlisted: x.outcome.unlisted(), First: x.outcome.First, Last: x.outcome.Last,
	}
	out.TruthChanged, out.TruthInvalid = x.faults.Among(out.Refused)
	return out, nil
}

// execute executes the request and then removes its hold, so that an alternative is computed
// without the hold.
func (x *raise) execute(ctx context.Context) error {
	defer func() { x.Rules.Holds.Remove(x.draw.hold) }()
	return x.run(ctx)
}

// raise is a request for the responses of many objects.
type raise struct {
	bulk
	draw    drawing
	partial bool
	read    *prechecked // the first part, if it was read in the snapshot of the key
	rest    string      // the first object whose true value was not kept, or ""
}

// prechecked is what is known of up to [state.PartSize] objects before anything is written.
type prechecked struct {
	objects int
	needy   rules.Needy // objects that need their true value
	refused []api.Refusal
	end     string
	last    bool
}

// look reads the objects of a request that has a single part.
func (x *raise) look(s *state.State) error {
	x.outcome, x.read = Outcome{}, nil
	if x.isPart() {
		return nil
	}
	x.read = &prechecked{}
	return x.readPart(s, x.read)
}

// Precheck reads all objects of the panel and asks the host for the true values that draws will
// need. It refuses a request that is not partial if any object is refused.
func (x *raise) Precheck(ctx context.Context, _ Panel, after string) (total int, err error) {
	x.rest = ""
	if err := x.holdBudget(ctx); err != nil {
		return 0, err
	}
	var refused RefusalList // not used by a partial request, which finds them again part by part
	var later rules.Later
	for last := false; !last; {
		p, err := x.precheck(ctx, after)
		if err != nil {
			return 0, err
		}
		last, after = p.last, p.end
		if !x.partial {
			refused.Add(p.refused...)
		}
		if len(refused.Listed) > 0 {
			continue // nothing will be drawn, so no true value is asked for
		}
		total += p.objects
		missing, err := x.askPart(ctx, p)
		if later.Is(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if !x.partial {
			refused.Add(missing...)
		}
	}
	if len(refused.Listed) > 0 {
		return 0, x.refuse(refused)
	}
	return total, later.Err
}

// holdBudget keeps other requests from taking budget that this request relies on, from before it
// reads until it ends. A request of one part needs no hold, because it reads and draws in one
// transaction. A partial request has none either.
func (x *raise) holdBudget(ctx context.Context) error {
	if x.draw.hold != nil || x.partial || !x.panel.All && len(x.panel.Names) <= state.PartSize {
		return nil
	}
	covered := x.panel
	x.draw.hold = &rules.Hold{Question: x.question.Number, Epsilon: x.epsilon, Covers: covered.Contains}
	x.Rules.Holds.Add(x.draw.hold)
	// A decision made before the hold existed is committed when this empty one returns.
	_, _, err := x.Engine.Submit(ctx, func(*state.State) ([]event.Change, error) { return nil, nil })
	return err
}

// precheck reads the part after an object, without true values.
func (x *raise) precheck(ctx context.Context, after string) (prechecked, error) {
	if p := x.read; p != nil {
		x.read = nil
		return *p, nil
	}
	p := prechecked{end: after}
	if err := errs.Context(ctx); err != nil {
		return p, err
	}
	err := x.Engine.View(ctx, func(s *state.State) error { return x.readPart(s, &p) })
	return p, err
}

// readPart reads the objects after p.end into p.
func (x *raise) readPart(s *state.State, p *prechecked) error {
	some, last, err := x.panel.After(s, p.end, state.PartSize)
	if err != nil {
		return err
	}
	if p.last = last; len(some) > 0 {
		p.end = some[len(some)-1]
	}
	p.objects = len(some)
	p.needy.Bonds = make([]state.Bond, 0, len(some))
	for i, name := range some {
		var o rules.Subject
		v, refusal, err := x.draw.assess(s, name, x.draw.asking(), &o)
		switch {
		case err != nil:
			return err
		case refusal != nil:
			p.refused = append(p.refused, *refusal)
		case v == event.Drawn:
			if len(p.needy.Names) == i {
				p.needy.Names = some[: i+1 : i+1] // shares memory, because usually all objects need one
			} else {
				p.needy.Names = append(p.needy.Names, name)
			}
			p.needy.Bonds = append(p.needy.Bonds, o.Chain.Bond())
		}
	}
	return nil
}

// Truths asks the host for the true values of the next part, if Precheck did not keep them. If an
// object needs a true value only when its part is decided, the rest of the request is read again.
// That happens only if budget was freed in between.
func (x *raise) Truths(ctx context.Context, after string) error {
	if x.rest == "" {
		return nil
	}
	p, err := x.precheck(ctx, after)
	if err != nil || p.end < x.rest {
		return err
	}
	x.truths.Forget()
	_, err = x.askPart(ctx, p) // the part refuses an object that has none
	return err
}

// askPart asks the host for the true values of objects that need one. It returns the refusals of
// the objects that have none.
func (x *raise) askPart(ctx context.Context, p prechecked) (missing []api.Refusal, err error) {
	if len(p.needy.Names) == 0 {
		return nil, nil
	}
	var untold []string
	err = x.askFor(ctx, p.needy, func(names []string, values []int32) {
		for i, name := range names {
			if values[i] == rules.NoTruth {
				untold = append(untold, name)
			}
		}
		if x.truths.Count < x.MostTold {
			x.truths.Add(names, values)
			return
		}
		clear(values) // they are checked, but not kept
		if x.rest == "" {
			x.rest = names[0]
		}
	})
	if err != nil {
		return nil, err
	}
	return x.draw.refuseAllUntold(ctx, untold)
}

// Decide draws for one part, and records each response before it reads the next object.
func (x *raise) Decide(s *state.State, names []string) (Part, error) {
	p := Part{Question: x.question.Number}
	for i, name := range names {
		s.Coming = len(names) - i + 1
		refusal, err := x.draw.answer(s, name, &p.Counts)
		if err != nil {
			return p, err
		}
		if refusal != nil {
			p.Refused = append(p.Refused, *refusal)
		}
	}
	if len(p.Refused) > 0 && !x.partial {
		return p, x.refuse(Refusals(p.Refused...))
	}
	p.Again = x.draw.again(p.Counts)
	return p, nil
}
