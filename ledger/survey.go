package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/terms"
)

// surveyed is what prepare learns about up to partSize objects.
type surveyed struct {
	objects int
	needy   rules.Needy // those that need their truth
	refused []Refusal
	end     string
	last    bool
}

// look surveys a request of a single part in a snapshot that is there already.
func (x *raise) look(s *state.State) (err error) {
	x.at, x.asOf = s.Clock, s.Counters.Events
	x.looked = &surveyed{}
	return x.surveyPart(s, x.looked)
}

// survey looks at the next objects behind one, without their truths.
func (x *raise) survey(ctx context.Context, behind string) (surveyed, error) {
	if p := x.looked; p != nil {
		x.looked = nil
		return *p, nil
	}
	p := surveyed{end: behind}
	if err := ctx.Err(); err != nil {
		return p, err
	}
	err := x.ledger.engine.View(ctx, func(s *state.State) error { return x.surveyPart(s, &p) })
	return p, err
}

// surveyPart looks at the objects behind p.end.
func (x *raise) surveyPart(s *state.State, p *surveyed) error {
	if x.at.IsZero() {
		x.at, x.asOf = s.Clock, s.Counters.Events
	}
	if s.Desk == nil {
		if x.seen == nil {
			x.seen = state.NewPartDesk()
		}
		x.seen.Clear()
		s.Desk = x.seen // each record is asked for more than once
	}
	names, last, err := x.panel.After(s, p.end, state.PartSize)
	if err != nil {
		return err
	}
	if p.last = last; len(names) > 0 {
		p.end = names[len(names)-1]
	}
	return x.surveyNames(s, names, p)
}

// surveyNames looks at objects that are on the desk.
func (x *raise) surveyNames(s *state.State, names []string, p *surveyed) error {
	p.objects = len(names)
	p.needy.Bonds = make([]state.Bond, 0, len(names))
	for i, name := range names {
		var o terms.Subject
		v, refusal, err := x.assess(s, name, x.at, &o)
		switch {
		case err != nil:
			return err
		case refusal != nil:
			p.refused = append(p.refused, *refusal)
		case v == event.Drawn:
			if len(p.needy.Names) == i {
				p.needy.Names = names[: i+1 : i+1] // most often everybody
			} else {
				p.needy.Names = append(p.needy.Names, name)
			}
			p.needy.Bonds = append(p.needy.Bonds, o.Chain.Bond())
		}
	}
	return nil
}

// overview surveys a panel slice by slice, two at a time on cores of their own: to look at everybody is a good part of a
// long request.
type overview struct {
	x     *raise
	desks [2]*state.Desk
	begun int
	slice *slice // the last one begun
}

// slice is a survey of some objects under way.
type slice struct {
	surveyed               // end and last as soon as it is bounded, the rest when it is done
	bounded  chan struct{} // closed when it is known where the slice ends
	done     chan struct{}
	err      error
	panic    any
}

// begin begins with the objects behind one.
func (v *overview) begin(ctx context.Context, behind string) {
	p := &slice{bounded: make(chan struct{}), done: make(chan struct{})}
	desk := v.desks[v.begun%len(v.desks)]
	v.slice, v.begun = p, v.begun+1
	go func() {
		defer close(p.done)
		defer func() { p.panic = recover() }()
		bounded := false
		bound := func() {
			if !bounded {
				bounded = true
				close(p.bounded)
			}
		}
		defer bound()
		if p.err = ctx.Err(); p.err == nil {
			p.err = v.x.ledger.engine.View(ctx, func(s *state.State) error { return v.x.surveySlice(s, p, behind, desk, bound) })
		}
	}()
}

// next returns the slice that was begun last, with the one behind it under way.
func (v *overview) next(ctx context.Context) (surveyed, error) {
	p := v.slice
	<-p.bounded
	if p.end != "" && !p.last {
		v.begin(ctx, p.end)
	}
	<-p.done
	if p.panic != nil {
		panic(p.panic)
	}
	return p.surveyed, p.err
}

// wait waits until nothing is going on.
func (v *overview) wait() { <-v.slice.done }

// surveySlice looks at the objects behind one, and first at where the slice ends.
func (x *raise) surveySlice(s *state.State, p *slice, behind string, desk *state.Desk, bound func()) (err error) {
	if x.at.IsZero() {
		x.at, x.asOf = s.Clock, s.Counters.Events // nobody else looks yet
	}
	if p.end, p.last, err = x.panel.Reach(s, behind, state.PartSize); err != nil {
		p.last = true
		return err
	}
	bound()
	desk.Clear()
	s.Desk = desk
	within := x.panel
	within.Until = p.end
	names, _, err := within.After(s, behind, state.PartSize) // all of them: no more chains than that were counted
	if err != nil {
		return err
	}
	return x.surveyNames(s, names, &p.surveyed)
}

// Truths asks for the truths of the next part, if they were not kept. If somebody in it needs one all the same when it is
// decided, the whole rest of the request is surveyed again. That takes a budget set free in between, and is rare.
func (x *raise) Truths(ctx context.Context, behind string) error {
	if x.rest == "" {
		return nil
	}
	p, err := x.survey(ctx, behind)
	if err != nil || p.end < x.rest {
		return err
	}
	x.truths.Forget()
	_, err = x.ask(ctx, p) // who has none any more is refused by the part
	return err
}

// ask fetches the truths of surveyed objects, as far as they are needed, and returns the refusals of
// those that it has none for.
func (x *raise) ask(ctx context.Context, p surveyed) (missing []Refusal, err error) {
	if len(p.needy.Names) == 0 {
		return nil, nil
	}
	values, err := x.ledger.rules.Ask(ctx, x.question, x.request.Truth, p.needy, &x.changed)
	if err != nil {
		return nil, err
	}
	if x.truths.Count < x.ledger.mostTold {
		x.truths.Add(p.needy.Names, values)
	} else {
		defer clear(values) // they are looked at, but not kept
		if x.rest == "" {
			x.rest = p.needy.Names[0]
		}
	}
	var untold []string
	for i, name := range p.needy.Names {
		if values[i] == rules.NoTruth {
			untold = append(untold, name)
		}
	}
	return x.refuseUntold(ctx, untold)
}

// refuseUntold refuses those that there is no truth of, or for what else they would be refused by now.
func (x *raise) refuseUntold(ctx context.Context, names []string) (refused []Refusal, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	err = x.ledger.engine.View(ctx, func(s *state.State) error {
		for _, name := range names {
			var o terms.Subject
			refusal, err := terms.ReadSubject(s, x.question, name, x.request.Epsilon, &o)
			if err == nil && refusal == nil {
				refusal, err = x.ledger.rules.LacksTruth(s, &o, x.asking(x.at), terms.Offered(x.question))
			}
			if err != nil {
				return err
			}
			refused = append(refused, *refusal)
		}
		return nil
	})
	return refused, err
}
