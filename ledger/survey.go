package ledger

import "context"

// surveyed is what prepare learns about up to partSize objects.
type surveyed struct {
	objects int
	needy   []string // those that need their truth, and what their chains are bound to
	bound   []*tag
	refused []Refusal
	end     string
	last    bool
}

// look surveys a request of a single part in a snapshot that is there already.
func (x *raise) look(s *state) (err error) {
	x.at = s.clock
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
	err := x.ledger.view(ctx, func(s *state) error { return x.surveyPart(s, &p) })
	return p, err
}

// surveyPart looks at the objects behind p.end.
func (x *raise) surveyPart(s *state, p *surveyed) error {
	if x.at.IsZero() {
		x.at = s.clock
	}
	x.seen.clear()
	s.desk = x.seen // each record is asked for more than once
	names, last, err := x.panel.after(s, p.end, partSize)
	if err != nil {
		return err
	}
	if p.objects, p.last = len(names), last; len(names) > 0 {
		p.end = names[len(names)-1]
	}
	p.needy, p.bound = make([]string, 0, len(names)), make([]*tag, 0, len(names))
	for _, name := range names {
		o, v, refusal, err := x.assess(s, name, x.at)
		switch {
		case err != nil:
			return err
		case refusal != nil:
			p.refused = append(p.refused, *refusal)
		case v == drawn:
			p.needy = append(p.needy, name)
			p.bound = append(p.bound, o.chain.bound)
		}
	}
	return nil
}

// ready asks for the truths of the next part, if they were not kept.
func (x *raise) ready(ctx context.Context, behind string) error {
	if x.rest == "" {
		return nil
	}
	p, err := x.survey(ctx, behind)
	if err != nil || p.end < x.rest {
		return err
	}
	x.truths.forget()
	_, err = x.ask(ctx, p) // who has none any more is refused by the part
	return err
}

// ask fetches the truths of surveyed objects, as far as they are needed, and returns the refusals of
// those that the host has none for.
func (x *raise) ask(ctx context.Context, p surveyed) (missing []Refusal, err error) {
	if len(p.needy) == 0 {
		return nil, nil
	}
	values, err := x.ledger.ask(ctx, x.question, x.request.Truth, p.needy)
	if err != nil {
		return nil, err
	}
	if x.truths.count < x.ledger.mostTold {
		x.truths.add(p.needy, values)
	} else if x.rest == "" {
		x.rest = p.needy[0]
	}
	for i, name := range p.needy {
		if values[i] == noTruth {
			missing = append(missing, *lacksTruth(name, x.request.Epsilon))
			continue
		}
		if _, err := x.ledger.bind(x.question, p.bound[i], name, int(values[i])); err != nil {
			return nil, err
		}
	}
	return missing, nil
}
