package ledger

import (
	"cmp"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// sharesOf returns the shares of the question's values, and the p-value of the test whether levels
// disagree. In all encodings the counts of a level are as [counting] has them.
func sharesOf(
	q *event.Question, o estimate.Options, levels []estimate.UnaryCounts,
) (shares []estimate.Frequency, p float64, err error) {
	counts := make([]estimate.Responses, len(levels))
	for i, l := range levels {
		switch q.Encoding {
		case api.Unary:
			counts[i] = l
		case api.Finite:
			level, _ := q.Mechanism.Family.Level(l.Epsilon)
			counts[i] = estimate.OutputCounts{Mechanism: level, ByOutput: l.ByValue}
		default:
			counts[i] = estimate.Counts{Epsilon: l.Epsilon, ByValue: l.ByValue}
		}
	}
	shares, err = estimate.Frequencies(o, counts...)
	p, failed := estimate.Disagreement(counts...)
	return shares, p, cmp.Or(err, failed)
}

// countedOutputs returns how many counts there are of the responses at an ε.
func countedOutputs(q *event.Question, epsilon privacy.Epsilon) int {
	if q.Encoding == api.Finite {
		return len(event.OutputsAt(q.Mechanism, epsilon))
	}
	return len(q.Values)
}

// counting gathers tallies of a question, which come by rising ε.
type counting struct {
	Question *event.Question        // which the tallies are of
	Chains   uint64                 // in the ledger
	total    uint64                 // counted so far
	Levels   []estimate.UnaryCounts // by rising ε; in other encodings too
}

// Add adds the chains of one tally, as many as taken says of a count. Each chain is counted once,
// so that there are never more of them than chains, and no sum runs over.
func (c *counting) Add(key state.TallyKey, t state.Tally, taken func(state.Tallied) uint64) error {
	m := countedOutputs(c.Question, key.Epsilon)
	if int(key.Value) >= m || c.Question.Encoding == api.Unary && key.Value != 0 {
		return errs.Corrupt(nil, "question %q has %d responses at ε=%s, and a tally of response %d", c.Question.Name,
			m, key.Epsilon, key.Value)
	}
	if err := t.Fit(c.Question); err != nil {
		return err
	}
	n := taken(t.Tallied)
	if n == 0 {
		return nil
	}
	if n > c.Chains-c.total {
		return errs.Corrupt(nil, "question %q: more responses are counted than there are chains", c.Question.Name)
	}
	c.total += n
	if last := len(c.Levels) - 1; last < 0 || c.Levels[last].Epsilon != key.Epsilon {
		c.Levels = append(c.Levels, estimate.UnaryCounts{Epsilon: key.Epsilon, ByValue: make([]int64, m)})
	}
	level := &c.Levels[len(c.Levels)-1]
	level.Objects += int64(n)
	if c.Question.Encoding != api.Unary {
		level.ByValue[key.Value] = int64(n)
	}
	for v, bit := range t.Bits {
		level.ByValue[v] = int64(taken(bit))
	}
	return nil
}
