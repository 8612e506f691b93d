package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// prechecked is what is learned before anything is written about up to partSize objects.
type prechecked struct {
	objects int
	needy   rules.Needy // those that need their truth
	refused []Refusal
	end     string
	last    bool
}

// look prechecks a request of a single part in a snapshot that is there already.
func (x *raise) look(s *state.State) (err error) {
	x.at, x.asOf = s.Clock, s.Counters.Events
	x.looked = &prechecked{}
	return x.precheckPart(s, x.looked)
}

// precheck looks at the next objects behind one, without their truths.
func (x *raise) precheck(ctx context.Context, behind string) (prechecked, error) {
	if p := x.looked; p != nil {
		x.looked = nil
		return *p, nil
	}
	p := prechecked{end: behind}
	if err := errs.Context(ctx); err != nil {
		return p, err
	}
	err := x.ledger.engine.View(ctx, func(s *state.State) error { return x.precheckPart(s, &p) })
	return p, err
}

// precheckPart looks at the objects behind p.end.
func (x *raise) precheckPart(s *state.State, p *prechecked) error {
	if x.at.IsZero() {
		x.at, x.asOf = s.Clock, s.Counters.Events
	}
	names, last, err := x.panel.After(s, p.end, state.PartSize)
	if err != nil {
		return err
	}
	if p.last = last; len(names) > 0 {
		p.end = names[len(names)-1]
	}
	return x.precheckNames(s, names, p)
}

// precheckNames looks at some objects.
func (x *raise) precheckNames(s *state.State, names []string, p *prechecked) error {
	p.objects = len(names)
	p.needy.Bonds = make([]state.Bond, 0, len(names))
	for i, name := range names {
		var o rules.Subject
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

// Truths asks for the truths of the next part, if they were not kept. If somebody in it needs one all the same when it is
// decided, the whole rest of the request is looked at again. That takes a budget set free in between, and is rare.
func (x *raise) Truths(ctx context.Context, behind string) error {
	if x.rest == "" {
		return nil
	}
	p, err := x.precheck(ctx, behind)
	if err != nil || p.end < x.rest {
		return err
	}
	x.truths.Forget()
	_, err = x.ask(ctx, p) // who has none any more is refused by the part
	return err
}

// ask fetches the truths of prechecked objects, as far as they are needed, and returns the refusals of
// those that it has none for.
func (x *raise) ask(ctx context.Context, p prechecked) (missing []Refusal, err error) {
	if len(p.needy.Names) == 0 {
		return nil, nil
	}
	values, err := x.ledger.rules.Ask(ctx, x.question, x.request.Truth, p.needy, &x.faults)
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
			var o rules.Subject
			refusal, err := rules.ReadSubject(s, x.question, name, x.request.Epsilon, &o)
			if err == nil && refusal == nil {
				refusal, err = x.ledger.rules.LacksTruth(s, &o, x.asking(x.at), rules.Offered(x.question))
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
