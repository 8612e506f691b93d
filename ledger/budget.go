package ledger

import "github.com/sluicedp/sluice/privacy"

// assessment is what a request means for one object.
type assessment struct {
	verdict verdict
	chain   chain
	refusal Refusal
}

// assess decides, from budgets and recorded levels alone, what a request means for an object. It
// never looks at the truth, so a refusal tells nothing about it.
func (x *raise) assess(s *state, name string) (assessment, error) {
	c, found, err := s.chain(x.question.number, name)
	if err != nil {
		return assessment{}, err
	}
	if !found {
		return x.refusal(name, NotEnrolled, HelpsEnrolling), nil
	}
	if _, recorded := c.at(x.request.Epsilon); recorded {
		return assessment{verdict: reused, chain: c}, nil
	}
	if x.request.Epsilon.Less(c.current()) {
		return assessment{verdict: derived, chain: c}, nil
	}
	refusal, err := x.checkBudget(s, name, c)
	if err != nil || refusal != nil {
		if refusal == nil {
			refusal = &Refusal{}
		}
		return assessment{verdict: refused, refusal: *refusal}, err
	}
	return assessment{verdict: drawn, chain: c}, nil
}

func (x *raise) refusal(name string, reason Reason, help Help) assessment {
	return assessment{verdict: refused, refusal: Refusal{Object: name, Reason: reason, Asked: x.request.Epsilon, Helps: help}}
}

// checkBudget returns why a raise would break the chain's ceiling or the object's cap, or nil.
func (x *raise) checkBudget(s *state, name string, c chain) (*Refusal, error) {
	cost, err := x.request.Epsilon.Sub(c.current())
	if err != nil {
		return nil, err
	}
	p, err := x.ledger.policy(s, c.policy)
	if err != nil {
		return nil, err
	}
	r := &Refusal{Object: name, Asked: x.request.Epsilon, Cost: cost, Helps: HelpsNothing}
	if ceiling := p.Ceiling(s.now); ceiling.Less(x.request.Epsilon) {
		r.Reason, r.Ceiling, r.Spent, r.Remaining = ChainCeiling, ceiling, c.current(), less(ceiling, c.current())
		if !p.Limit().Less(x.request.Epsilon) {
			r.Helps = HelpsWaiting
		}
		return r, nil
	}
	o, found, err := s.object(name)
	if err != nil || !found {
		return nil, orCorrupt(err, "object %q has a chain but no budget", name)
	}
	held, err := x.ledger.holds.on(s, name, x)
	if err != nil {
		return nil, err
	}
	free := less(o.cap, o.spent)
	if remaining := less(free, held); remaining.Less(cost) {
		r.Reason, r.Ceiling, r.Spent, r.Remaining = ObjectCap, o.cap, o.spent, remaining
		if !free.Less(cost) {
			r.Helps = HelpsWaiting // for the order that holds the rest
		}
		return r, nil
	}
	return nil, nil
}

// less returns a − b, or 0 if b is above a.
func less(a, b privacy.Epsilon) privacy.Epsilon {
	rest, err := a.Sub(b)
	if err != nil {
		return privacy.Epsilon{}
	}
	return rest
}
