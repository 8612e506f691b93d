package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// EstimateRequest asks for the shares of a question's values.
type EstimateRequest struct {
	Question string
	// Epsilon, if above 0, takes the responses recorded at exactly this ε; otherwise each object
	// counts once, with its current level.
	Epsilon privacy.Epsilon
	// Confidence is the nominal coverage of the intervals; 0 means 0.95.
	Confidence float64
	// Include, if set, limits the estimate to some objects. It must not depend on a response.
	Include func(object string) bool
}

// Estimate is the estimated distribution of a question's values, from released responses alone.
type Estimate struct {
	Question string          `json:"question"`
	N        int64           `json:"n"` // objects counted
	Values   []ValueEstimate `json:"values"`
	Levels   []LevelCount    `json:"levels"` // by rising ε
}

// ValueEstimate is the estimated share of one value; see [rrchain.Frequency].
type ValueEstimate struct {
	Value    string  `json:"value"`
	Estimate float64 `json:"estimate"`
	StdErr   float64 `json:"stderr"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// LevelCount tells how many objects were counted at one ε.
type LevelCount struct {
	Epsilon privacy.Epsilon `json:"epsilon"`
	N       int64           `json:"n"`
}

// ErrNoResponses says that there is nothing to estimate from.
var ErrNoResponses = errors.New("no responses")

// Estimate estimates the true shares of a question's values from the responses released so far, by
// [rrchain.Estimate]. It reads the chains in short snapshots, so a raise that runs at the same time
// may be counted in part. It costs nobody anything.
func (l *Ledger) Estimate(ctx context.Context, r EstimateRequest) (Estimate, error) {
	q, err := l.findQuestion(ctx, r.Question)
	if err != nil {
		return Estimate{}, err
	}
	if r.Confidence == 0 {
		r.Confidence = 0.95
	}
	counts, err := l.count(ctx, q, r)
	if err != nil {
		return Estimate{}, err
	}
	if len(counts) == 0 && !r.Epsilon.IsZero() {
		return Estimate{}, fmt.Errorf("question %q: %w at ε=%s", r.Question, ErrNoResponses, r.Epsilon)
	}
	if len(counts) == 0 {
		return Estimate{}, fmt.Errorf("question %q: %w", r.Question, ErrNoResponses)
	}
	out := Estimate{Question: r.Question}
	levels := make([]rrchain.Counts, 0, len(counts))
	for _, epsilon := range slices.SortedFunc(maps.Keys(counts), privacy.Epsilon.Compare) {
		levels = append(levels, rrchain.Counts{Epsilon: epsilon, ByValue: counts[epsilon]})
		n := int64(0)
		for _, count := range counts[epsilon] {
			n += count
		}
		out.N += n
		out.Levels = append(out.Levels, LevelCount{epsilon, n})
	}
	shares, err := rrchain.Estimate(r.Confidence, levels...)
	if err != nil {
		return Estimate{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	for v, f := range shares {
		out.Values = append(out.Values, ValueEstimate{q.values[v], f.Estimate, f.StdErr, f.Low, f.High})
	}
	return out, nil
}

// count counts responses by level and value.
func (l *Ledger) count(ctx context.Context, q *question, r EstimateRequest) (map[privacy.Epsilon][]int64, error) {
	counts := map[privacy.Epsilon][]int64{}
	var fault error
	err := l.eachChain(ctx, q, func(name string, c chain) bool {
		at, found := c.at(r.Epsilon)
		if r.Epsilon.IsZero() && len(c.levels) > 0 {
			at, found = c.levels[len(c.levels)-1], true
		}
		if !found || r.Include != nil && !r.Include(name) {
			return true
		}
		if at.Response >= len(q.values) {
			_, fault = q.response(name, at)
			return false
		}
		if counts[at.Epsilon] == nil {
			counts[at.Epsilon] = make([]int64, len(q.values))
		}
		counts[at.Epsilon][at.Response]++
		return true
	})
	return counts, errors.Join(err, fault)
}
