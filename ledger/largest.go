package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/privacy"
)

// offering returns the highest level up to an ε that a request may be about instead of its own, or 0 if there is none.
type offering func(most privacy.Epsilon) (privacy.Epsilon, error)

// offer is the offering of the host's own requests: the levels of the question.
func (q *question) offer(most privacy.Epsilon) (privacy.Epsilon, error) {
	level, _ := q.released(most)
	return level, nil
}

// offer is the offering of an order: what the question and the object's terms have, and the terms let the buyer have.
func (t *trade) offer(s *state, x *subject) offering {
	return func(most privacy.Epsilon) (privacy.Epsilon, error) {
		terms := x.policy.Terms()
		for terms != nil && !most.IsZero() {
			level, _ := t.question.released(most)
			if most = terms.HighestOffer(level); most != level {
				continue // what is for sale may be no level of the question
			}
			refusal, err := t.checkTerms(s, x, level)
			if err != nil || refusal == nil {
				return level, err
			}
			most = below(level) // others hold it
		}
		return privacy.Epsilon{}, nil
	}
}

// below returns the next lower ε.
func below(epsilon privacy.Epsilon) privacy.Epsilon {
	lower, err := privacy.EpsilonFromNano(epsilon.Nano() - 1)
	if err != nil {
		return privacy.Epsilon{}
	}
	return lower
}

// dependsOnEpsilon tells whether an object that is refused for a reason might not be at a lower ε.
func (r Reason) dependsOnEpsilon() bool {
	switch r {
	case ChainCeiling, ObjectCap, NotOnOffer, HoldersFull, NoTruth, NoTruthKey, NoNoiseKey:
		return true
	}
	return false
}

// orLess adds to a refusal the largest ε that would do.
func (r *Refusal) orLess(largest privacy.Epsilon) {
	r.Largest = largest
	if r.Helps == HelpsNothing && !largest.IsZero() {
		r.Helps = HelpsLess
	}
}

// orLess finds what would do instead of what a request asks for, and adds it to the refusal. A reservation that is carried
// out cannot be for less.
func (l *Ledger) orLess(s *state, x *subject, ask asking, on offering, r *Refusal) (err error) {
	if ask.sale != 0 || !r.Reason.dependsOnEpsilon() {
		return nil
	}
	var largest privacy.Epsilon
	if most := below(ask.epsilon); l.lacksNoiseKey(x.chain) {
		largest, err = x.chain.highestRecorded(most, on)
	} else {
		if r.Reason != NoTruth && l.lacksTruthKey(x.name, most) == nil {
			largest, err = l.largestDrawn(s, x, ask, most, on)
		}
		if err == nil && largest.IsZero() {
			largest, err = on(lower(most, x.chain.current())) // what is recorded, or lies below it, is free
		}
	}
	r.orLess(largest)
	return err
}

// highestRecorded returns the highest recorded level up to an ε that is on offer, or 0.
func (c chain) highestRecorded(most privacy.Epsilon, on offering) (privacy.Epsilon, error) {
	for i := len(c.levels) - 1; i >= 0; i-- {
		level := c.levels[i].Epsilon
		if most.Less(level) {
			continue
		}
		if offered, err := on(level); err != nil || offered == level {
			return offered, err
		}
	}
	return privacy.Epsilon{}, nil
}

// largestDrawn returns the largest ε on offer, above the chain's current level and at most a given one, that budgets allow,
// or 0. They allow all up to the first that they forbid, or none: what others hold must be left in any case, and what of it
// lies below the level asked for is not charged twice. So one level below that is enough to look at.
func (l *Ledger) largestDrawn(s *state, x *subject, ask asking, most privacy.Epsilon, on offering) (privacy.Epsilon, error) {
	none, current := privacy.Epsilon{}, x.chain.current()
	if !current.Less(most) {
		return none, nil
	}
	r, err := l.room(s, x, charge{ask, less(most, current), most})
	if err != nil {
		return none, err
	}
	level, err := on(lower(most, plus(current, r.most())))
	if err != nil || !current.Less(level) {
		return none, err
	}
	if refusal, err := l.checkBudget(s, x, charge{ask, less(level, current), level}); err != nil || refusal != nil {
		return none, err
	}
	return level, nil
}

// lacksTruth refuses an object that the host has no true value of, or another than its chain began with: whoever is
// refused is not told which.
func (l *Ledger) lacksTruth(s *state, x *subject, ask asking, on offering) (*Refusal, error) {
	r := &Refusal{Object: x.name, Reason: NoTruth, Asked: ask.epsilon, Helps: HelpsTruth}
	return r, l.orLess(s, x, ask, on, r)
}

// check refuses what cannot be: an ε that would do where none can, or that is not less than what was asked for, or that
// costs more than remains. An answer that is not raised costs its whole ε, and still a lower one may be there.
func (r *Refusal) check() error {
	switch {
	case r.Largest.IsZero() && r.Helps != HelpsLess:
		return nil
	case r.Largest.IsZero(), r.Helps == HelpsNothing, !r.Reason.dependsOnEpsilon():
		return errs.Corrupt(nil, "object %q is refused for %s, %s helps, and ε=%s would do", r.Object, r.Reason, r.Helps, r.Largest)
	case !r.Largest.Less(r.Asked):
		return errs.Corrupt(nil, "object %q is refused at ε=%s, and ε=%s would do", r.Object, r.Asked, r.Largest)
	}
	budget := r.Reason == ChainCeiling || r.Reason == ObjectCap
	if reach := plus(less(r.Asked, r.Cost), r.Remaining); budget && r.Cost.Less(r.Asked) && reach.Less(r.Largest) {
		return errs.Corrupt(nil, "object %q is refused at ε=%s, which costs %s where %s remains, and ε=%s would do", r.Object, r.Asked, r.Cost, r.Remaining, r.Largest)
	}
	return nil
}
