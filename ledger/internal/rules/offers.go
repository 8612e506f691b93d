package rules

import (
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Offers returns the levels above low and up to high that terms sell, the highest first, at most
// the given number of them. Where every level is for sale, these are the highest and the points of
// the price curve.
func Offers(q *event.Question, sale *policy.Terms, low, high privacy.Epsilon, most int) (levels []privacy.Epsilon) {
	for level := highestOffer(q, sale, high); low.Less(level) && len(levels) < most; level = nextOffer(q, sale, level) {
		levels = append(levels, level)
	}
	return levels
}

// lists reports whether a level that terms sell is one of those that they list, which are finitely
// many.
func lists(q *event.Question, sale *policy.Terms, level privacy.Epsilon) bool {
	return q.Encoding == vocabulary.Finite || sale.Lists(level) // the former has responses at few ε
}

// highestOffer returns the highest level of a question that terms sell, up to an ε; 0 if there is
// none, or without terms.
func highestOffer(q *event.Question, sale *policy.Terms, most privacy.Epsilon) privacy.Epsilon {
	for sale != nil && !most.IsZero() {
		level, _ := q.LevelWithin(most)
		if most = sale.HighestOffer(level); most == level {
			return level
		}
	}
	return privacy.Epsilon{}
}

// nextOffer returns the level to list after another, or 0.
func nextOffer(q *event.Question, sale *policy.Terms, level privacy.Epsilon) privacy.Epsilon {
	if q.Encoding == vocabulary.Finite { // it has responses at some ε only
		return highestOffer(q, sale, state.Below(level))
	}
	return sale.NextOffer(level)
}
