package ledger

import (
	"cmp"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// sharesOf returns the estimated shares of the question's values ([estimate.Frequencies]). It also
// returns the p-value of the test for disagreement between levels ([estimate.Disagreement]). In all
// encodings the counts of a level are as [tallySum] has them.
func sharesOf(
	q *event.Question, o estimate.Options, levels []estimate.Counts,
) (shares []estimate.Frequency, p float64, err error) {
	// A copy, because the fields set below are not for the caller.
	levels = slices.Clone(levels)
	for i := range levels {
		l := &levels[i]
		l.Unary = q.Encoding == "unary"
		if q.Encoding == "finite" {
			l.Mechanism, _ = q.Mechanism.Family.Level(l.Epsilon)
		}
	}
	shares, err = estimate.Frequencies(o, levels...)
	p, failed := estimate.Disagreement(levels...)
	return shares, p, cmp.Or(err, failed)
}

// countedOutputs returns how many counts a level at epsilon has. In finite encoding there is one
// for each output of the mechanism, and otherwise one for each value.
func countedOutputs(q *event.Question, epsilon privacy.Epsilon) int {
	if q.Encoding == "finite" {
		return len(event.OutputsAt(q.Mechanism, epsilon))
	}
	return len(q.Values)
}

// tallySum adds up tallies of a question. They must be added in rising ε.
type tallySum struct {
	Question *event.Question   // the question of the tallies
	Chains   uint64            // the number of chains in the ledger
	total    uint64            // chains counted so far
	Levels   []estimate.Counts // in rising ε
}

// Add adds one tally. taken selects the number of chains to count: all with the response, or those
// where it is the current one. Each chain may be counted only once. Add returns [errs.ErrCorrupt]
// for more chains than exist, so no sum overflows.
func (c *tallySum) Add(key state.TallyKey, t state.Tally, taken func(state.Tallied) uint64) error {
	m := countedOutputs(c.Question, key.Epsilon)
	if int(key.Value) >= m || c.Question.Encoding == "unary" && key.Value != 0 {
		return errs.Corrupt(nil, "question %q has %d possible responses at ε=%s, and a tally of response %d",
			c.Question.Name, m, key.Epsilon, key.Value)
	}
	if err := t.Fit(c.Question); err != nil {
		return err
	}
	n := taken(t.Tallied)
	if n == 0 {
		return nil
	}
	if n > c.Chains-c.total {
		return errs.Corrupt(nil, "question %q: its tallies count more responses than there are chains", c.Question.Name)
	}
	c.total += n
	if last := len(c.Levels) - 1; last < 0 || c.Levels[last].Epsilon != key.Epsilon {
		c.Levels = append(c.Levels, estimate.Counts{Epsilon: key.Epsilon, ByValue: make([]int64, m)})
	}
	level := &c.Levels[len(c.Levels)-1]
	level.Objects += int64(n)
	if c.Question.Encoding != "unary" {
		level.ByValue[key.Value] = int64(n)
	}
	for v, bit := range t.Bits {
		level.ByValue[v] = int64(taken(bit))
	}
	return nil
}
