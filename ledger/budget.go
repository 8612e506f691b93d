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
	refusal, err := x.checkRaise(s, name, c)
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

// charge is what a request would add to an object's spending on a question.
type charge struct {
	question uint32
	epsilon  privacy.Epsilon // the ε of the request
	cost     privacy.Epsilon // what it adds
	level    privacy.Epsilon // the ε of the chain's highest level afterwards
	hold     *hold           // the request's own, which does not stand in its way
}

// checkRaise returns why a raise would break the chain's ceiling or the object's cap, or nil.
func (x *raise) checkRaise(s *state, name string, c chain) (*Refusal, error) {
	cost := less(x.request.Epsilon, c.current())
	return x.ledger.checkBudget(s, name, c, charge{x.question.number, x.request.Epsilon, cost, x.request.Epsilon, x.hold})
}

// checkBudget returns why a charge would break the ceiling of an object's chain c, or the object's cap,
// or nil. What running orders hold counts as spent.
func (l *Ledger) checkBudget(s *state, name string, c chain, ask charge) (*Refusal, error) {
	p, err := l.policy(s, c.policy)
	if err != nil {
		return nil, err
	}
	o, found, err := s.object(name)
	if err != nil || !found {
		return nil, orCorrupt(err, "object %q has a chain but no budget", name)
	}
	held, err := l.holds.on(s, name, ask)
	if err != nil {
		return nil, err
	}
	r := &Refusal{Object: name, Asked: ask.epsilon, Cost: ask.cost, Helps: HelpsNothing}
	ceiling := p.Ceiling(s.now)
	if free := less(ceiling, c.spent()); less(free, held.chain).Less(ask.cost) {
		r.Reason, r.Ceiling, r.Spent, r.Remaining = ChainCeiling, ceiling, c.spent(), less(free, held.chain)
		if !free.Less(ask.cost) || !less(p.Limit(), c.spent()).Less(ask.cost) {
			r.Helps = HelpsWaiting
		}
		return r, nil
	}
	if free := less(o.cap, o.spent); less(free, held.all).Less(ask.cost) {
		r.Reason, r.Ceiling, r.Spent, r.Remaining = ObjectCap, o.cap, o.spent, less(free, held.all)
		if !free.Less(ask.cost) {
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
