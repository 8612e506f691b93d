package rules

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// Offering returns the highest level up to an ε that a request may be about instead of its own, or
// 0 if there is none.
type Offering func(most privacy.Epsilon) (privacy.Epsilon, error)

// Offered is the offering of the host's own requests: all levels of a question.
func Offered(q *event.Question) Offering {
	return func(most privacy.Epsilon) (privacy.Epsilon, error) {
		level, _ := q.LevelWithin(most)
		return level, nil
	}
}

// CheckLargest returns [errs.ErrCorrupt] for a refusal that says what cannot be: an ε that would do
// where none can, or that is not less than what was asked for, or that costs more than remains. An
// answer that is not raised costs its whole ε, and still a lower one may be there.
func CheckLargest(r *vocabulary.Refusal) error {
	switch {
	case r.Largest.IsZero() && r.Remedy != vocabulary.RemedyLess:
		return nil
	case r.Largest.IsZero(), r.Remedy == vocabulary.RemedyNothing, !DependsOnEpsilon(r.Reason):
		return errs.Corrupt(nil, "object %q is refused for %s, %s helps, and ε=%s would do", r.Object, r.Reason,
			r.Remedy, r.Largest)
	case !r.Largest.Less(r.Asked):
		return errs.Corrupt(nil, "object %q is refused at ε=%s, and ε=%s would do", r.Object, r.Asked, r.Largest)
	}
	short := r.Reason == vocabulary.ChainCeiling || r.Reason == vocabulary.ObjectCap
	reach := state.Plus(state.Minus(r.Asked, r.Cost), r.Remaining)
	if short && r.Cost.Less(r.Asked) && reach.Less(r.Largest) {
		return errs.Corrupt(nil, "object %q is refused at ε=%s, which costs %s where %s remains, and ε=%s would do",
			r.Object, r.Asked, r.Cost, r.Remaining, r.Largest)
	}
	return nil
}

// DependsOnEpsilon tells whether an object that is refused for a reason might not be at a lower ε.
func DependsOnEpsilon(r vocabulary.Reason) bool {
	switch r {
	case vocabulary.ChainCeiling, vocabulary.ObjectCap, vocabulary.NotOnOffer, vocabulary.HoldersFull,
		vocabulary.NoTruth, vocabulary.NoTruthKey, vocabulary.NoNoiseKey, vocabulary.Full:
		return true
	}
	return false
}
