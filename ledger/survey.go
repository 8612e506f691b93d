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

// survey looks at the next objects behind one, without their truths.
func (x *raise) survey(ctx context.Context, behind string) (surveyed, error) {
	p := surveyed{end: behind}
	if err := ctx.Err(); err != nil {
		return p, err
	}
	err := x.ledger.view(ctx, func(s *state) error {
		if x.at.IsZero() {
			x.at = s.clock
		}
		names, last, err := x.panel.after(s, behind, partSize)
		if err != nil {
			return err
		}
		if p.objects, p.last = len(names), last; len(names) > 0 {
			p.end = names[len(names)-1]
		}
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
	})
	return p, err
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
	x.truths.add(p.needy, values)
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
