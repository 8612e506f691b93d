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
// lowest, at most the given number. If every level is for sale, these are the highest level and the
// points of the price curve.
func Offers(q *event.Question, sale *policy.Terms, low, high privacy.Epsilon, most int) (levels []privacy.Epsilon) {
	for level := highestOffer(q, sale, high); low.Less(level) && len(levels) < most; level = nextOffer(q, sale, level) {
		levels = append(levels, level)
	}
	return levels
}

// isListed reports whether a level that terms sell is one of the finitely many that they list.
func isListed(q *event.Question, sale *policy.Terms, level privacy.Epsilon) bool {
	return q.Encoding == event.EncodingFinite || sale.Lists(level) // finite encoding has few levels
}

// highestOffer returns the highest level of a question, up to an ε, that terms sell. It returns 0
// if there is none or sale is nil.
func highestOffer(q *event.Question, sale *policy.Terms, most privacy.Epsilon) privacy.Epsilon {
	for sale != nil && !most.IsZero() {
		level, _ := q.LevelWithin(most)
		if most = sale.HighestOffer(level); most == level {
			return level
		}
	}
	return privacy.Epsilon{}
}

// nextOffer returns the level to list after a level, or 0.
func nextOffer(q *event.Question, sale *policy.Terms, level privacy.Epsilon) privacy.Epsilon {
	if q.Encoding == event.EncodingFinite { // it has responses at some ε only
		return highestOffer(q, sale, state.Below(level))
	}
	return sale.NextOffer(level)
}

// Offering is a function that returns the highest level, up to an ε, that a request could be about
// instead of the requested level. It returns 0 if there is none.
type Offering func(most privacy.Epsilon) (privacy.Epsilon, error)

// Offered returns the offering for requests of the host: all levels of a question.
func Offered(q *event.Question) Offering {
	return func(most privacy.Epsilon) (privacy.Epsilon, error) {
		level, _ := q.LevelWithin(most)
		return level, nil
	}
}

// CheckLargest returns [errs.ErrCorrupt] if the largest ε of a refusal is not possible. It is not
// if no lower ε can help, if it is not below the requested one, or if it costs more than remains.
// The last is not checked for an answer that is not raised. Such an answer costs its whole ε, and a
// recorded one may be available at a lower ε.
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
