package ledger

import "context"

// surveyed is what prepare learns about up to partSize objects.
type surveyed struct {
	names   []string
	needy   []int // the places of those that need their truth
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
	err := x.ledger.view(ctx, func(s *state) (err error) {
		s.now = s.clamp(x.ledger.clock())
		if p.names, p.last, err = x.panel.after(s, behind, partSize); err != nil {
			return err
		}
		for i, name := range p.names {
			a, err := x.assess(s, name)
			if err != nil {
				return err
			}
			switch a.verdict {
			case refused:
				p.refused = append(p.refused, a.refusal)
			case drawn:
				p.needy = append(p.needy, i)
				p.bound = append(p.bound, a.chain.bound)
			}
		}
		return nil
	})
	if len(p.names) > 0 {
		p.end = p.names[len(p.names)-1]
	}
	return p, err
}

// ask returns the truths of surveyed objects, as far as they are needed, and the refusals of those
// that the host has none for.
func (x *raise) ask(ctx context.Context, p surveyed) (truths []int32, missing []Refusal, err error) {
	truths = make([]int32, len(p.names))
	for i := range truths {
		truths[i] = notAsked
	}
	if len(p.needy) == 0 {
		return truths, nil, nil
	}
	objects := make([]string, len(p.needy))
	for i, place := range p.needy {
		objects[i] = p.names[place]
	}
	values, err := x.question.ask(ctx, x.request.Truth, objects)
	if err != nil {
		return nil, nil, err
	}
	for i, place := range p.needy {
		truths[place] = values[i]
		if values[i] == noTruth {
			missing = append(missing, x.refusal(objects[i], NoTruth, HelpsTruth).refusal)
			continue
		}
		if _, err := x.ledger.bind(x.question, p.bound[i], objects[i], int(values[i])); err != nil {
			return nil, nil, err
		}
	}
	return truths, missing, nil
}
