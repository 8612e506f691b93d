package rules

import (
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Offers returns the levels above low and up to high that terms sell, from the highest to the
// lowest, but at most the number most. If every level is for sale, these are the highest level and
// the points of the price curve below it.
func Offers(q *event.Question, sale *policy.Terms, low, high privacy.Epsilon, most int) (levels []privacy.Epsilon) {
	for level := highestOffer(q, sale, high); low.Less(level) && len(levels) < most; level = nextOffer(q, sale, level) {
		levels = append(levels, level)
	}
	return levels
}

// isListed reports whether a level that terms sell is one of the finitely many levels that they
// list. In finite encoding every level is, because the question has few.
func isListed(q *event.Question, sale *policy.Terms, level privacy.Epsilon) bool {
	return q.Encoding == event.EncodingFinite || sale.Lists(level)
}

// highestOffer returns the highest level of a question, up to an ε, that terms sell. It returns 0
// if there is none or sale is nil. The levels of the question and of the terms may differ. So it
// goes down in both alternately, until it finds a level of both.
func highestOffer(q *event.Question, sale *policy.Terms, most privacy.Epsilon) privacy.Epsilon {
	for sale != nil && !most.IsZero() {
		level, _ := q.LevelWithin(most)
		if most = sale.HighestOffer(level); most == level {
			return level
		}
	}
	return privacy.Epsilon{}
}

// nextOffer returns the next lower level for a list of offers, or 0 after the lowest.
func nextOffer(q *event.Question, sale *policy.Terms, level privacy.Epsilon) privacy.Epsilon {
	if q.Encoding == event.EncodingFinite { // it has responses at some ε only
		return highestOffer(q, sale, state.Below(level))
	}
	return sale.NextOffer(level)
}

// Offering is a function that returns the highest level, up to an ε, that could be requested
// instead of the requested level. It returns 0 if there is none.
type Offering func(most privacy.Epsilon) (privacy.Epsilon, error)

// Offered returns the offering for requests of the host: all levels of a question.
func Offered(q *event.Question) Offering {
	return func(most privacy.Epsilon) (privacy.Epsilon, error) {
		level, _ := q.LevelWithin(most)
		return level, nil
	}
}

// CheckLargest returns [errs.ErrCorrupt] if the field Largest of a recorded refusal, the largest ε
// that is possible instead, is impossible. There are four cases. Largest is set, but no lower ε can
// help. It is 0, but a lower ε is the remedy. It is not below the requested ε. Or, for a raise, it
// costs more than remains.
//
// The last case is not checked for a panel query that does not raise an answer. Such a query costs
// its whole ε, and an answer that is recorded at a lower ε may be free.
func CheckLargest(r *api.Refusal) error {
	switch {
	case r.Largest.IsZero() && r.Remedy != event.RemedyLess:
		return nil
	case r.Largest.IsZero(), r.Remedy == event.RemedyNothing, !DependsOnEpsilon(r.Reason):
		return errs.Corrupt(nil, "object %q is refused for %s with the remedy %s, and the largest possible ε is %s",
			r.Object, r.Reason, r.Remedy, r.Largest)
	case !r.Largest.Less(r.Asked):
		return errs.Corrupt(nil, "object %q is refused at ε=%s, and the largest possible ε is %s",
			r.Object, r.Asked, r.Largest)
	}
	short := r.Reason == api.ChainCeiling || r.Reason == api.ObjectCap
	// For a raise, Asked − Cost is the ε that it is raised from.
	reach := state.Plus(state.Minus(r.Asked, r.Cost), r.Remaining)
	if short && r.Cost.Less(r.Asked) && reach.Less(r.Largest) {
		return errs.Corrupt(nil, "object %q is refused at ε=%s, which costs %s of %s left, and the largest ε is %s",
			r.Object, r.Asked, r.Cost, r.Remaining, r.Largest)
	}
	return nil
}

// DependsOnEpsilon reports whether an object refused for a reason may be accepted at a lower ε.
func DependsOnEpsilon(r api.Reason) bool {
	switch r {
	case api.ChainCeiling, api.ObjectCap, api.NotOnOffer, api.HoldersFull,
		api.NoTruth, api.NoTruthKey, api.NoNoiseKey, api.Full:
		return true
	}
	return false
}
