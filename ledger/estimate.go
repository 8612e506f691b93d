package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/levelscan"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/estimate"
	finiteestimate "github.com/sluicedp/sluice/rrchain/finite/estimate"
)

// EstimateRequest asks for the shares of a question's values.
type EstimateRequest struct {
	Question string // by its name
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
	Question string          `json:"question"` // by its name
	N        int64           `json:"n"`        // objects counted
	Values   []ValueEstimate `json:"values"`   // in the order of the question's
	Levels   []LevelCount    `json:"levels"`   // by rising ε
	Event    uint64          `json:"event"`    // the last one that all this counts; of a recount, the last before it began
}

// ValueEstimate is the estimated share of one value; see [estimate.Frequency].
type ValueEstimate struct {
	Value    string  `json:"value"`    // one of the question's
	Estimate float64 `json:"estimate"` // a share, unbiased: with little data it may lie outside of 0 to 1
	StdErr   float64 `json:"stderr"`   // the standard error of Estimate
	Low      float64 `json:"low"`      // the lower end of the interval
	High     float64 `json:"high"`     // the upper end
}

// LevelCount tells how many objects were counted at one ε.
type LevelCount struct {
	Epsilon privacy.Epsilon `json:"epsilon"` // of the responses
	N       int64           `json:"n"`       // objects
}

// ErrNoResponses says that there is nothing to estimate from.
var ErrNoResponses = errors.New("no responses")

// Estimate estimates the true shares of a question's values from the responses released so far, by
// [estimate.Frequencies]. It costs nobody anything.
//
// The responses were counted as they were released, in the same transactions. So an estimate is that of a
// single instant, between two transactions, and counts each object once; a large raise commits in parts,
// and counts as far as it has come. It is exactly the estimate that a recount would give, and takes a time
// and memory proportional to values times levels, however many objects there are.
//
// With Include there is a recount: it reads every chain of the question, in short snapshots, and a raise
// that runs at the same time may be counted in part.
//
// The errors are [ErrUnknown] for the question, [ErrNoResponses], [ErrInvalid] for the confidence, and
// [ErrCorrupt].
func (l *Ledger) Estimate(ctx context.Context, r EstimateRequest) (Estimate, error) {
	if r.Confidence == 0 {
		r.Confidence = 0.95
	}
	count := l.readTallies
	if r.Include != nil {
		count = l.recount
	}
	q, counts, last, err := count(ctx, r)
	if err != nil {
		return Estimate{}, err
	}
	if len(counts) == 0 && !r.Epsilon.IsZero() {
		return Estimate{}, fmt.Errorf("question %q: %w at ε=%s", r.Question, ErrNoResponses, r.Epsilon)
	}
	if len(counts) == 0 {
		return Estimate{}, fmt.Errorf("question %q: %w", r.Question, ErrNoResponses)
	}
	out := Estimate{Question: r.Question, Event: last}
	for _, level := range counts {
		out.N += level.Objects
		out.Levels = append(out.Levels, LevelCount{level.Epsilon, level.Objects})
	}
	shares, err := frequenciesOf(q, r.Confidence, counts)
	if err != nil {
		return Estimate{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	out.Values = make([]ValueEstimate, len(shares))
	for v, f := range shares {
		out.Values[v] = ValueEstimate{q.Values[v], f.Estimate, f.StdErr, f.Low, f.High}
	}
	return out, nil
}

// frequenciesOf returns the shares of the question's values from counts of responses.
func frequenciesOf(q *event.Question, confidence float64, levels []estimate.UnaryCounts) ([]estimate.Frequency, error) {
	switch q.Encoding {
	case Unary:
		return estimate.UnaryFrequencies(confidence, levels...)
	case Finite:
		return finiteFrequencies(q.Mechanism, confidence, levels)
	}
	counts := make([]estimate.Counts, len(levels))
	for i, l := range levels {
		counts[i] = estimate.Counts{Epsilon: l.Epsilon, ByValue: l.ByValue}
	}
	return estimate.Frequencies(confidence, counts...)
}

// counted returns how many counts there are of the responses at an ε.
func counted(q *event.Question, epsilon privacy.Epsilon) int {
	if q.Encoding == Finite {
		return len(event.OutputsAt(q.Mechanism, epsilon))
	}
	return len(q.Values)
}

// readTallies returns the running counts of the responses that a request takes, by rising ε.
func (l *Ledger) readTallies(ctx context.Context, r EstimateRequest) (q *event.Question, counts []estimate.UnaryCounts, last uint64, err error) {
	err = l.engine.View(ctx, func(s *state.State) error {
		if q, err = l.questionByName(s, r.Question); err != nil {
			return err
		}
		seen, sum := 0, counting{question: q, chains: s.Counters.Chains}
		err := s.ScanTallies(q.Number, r.Epsilon, func(key state.TallyKey, t state.Tally) error {
			if seen++; seen%scanSize == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			return sum.add(key, t, func(c state.Tallied) uint64 {
				if r.Epsilon.IsZero() {
					return c.Current
				}
				return c.Recorded
			})
		})
		counts, last = sum.levels, s.Counters.Events
		return err
	})
	return q, counts, last, err
}

// Levels returns every ε at which there are responses to a question, rising, and how many: also those that
// are nobody's highest any more, of which [Estimate.Levels] says nothing. It takes a time proportional to
// values times levels. The errors are [ErrUnknown] and [ErrCorrupt].
func (l *Ledger) Levels(ctx context.Context, question string) (levels []LevelCount, err error) {
	err = l.engine.View(ctx, func(s *state.State) error {
		levels = nil
		q, err := l.questionByName(s, question)
		if err != nil {
			return err
		}
		return s.ScanTallies(q.Number, privacy.Epsilon{}, func(key state.TallyKey, t state.Tally) error {
			if last := len(levels) - 1; last < 0 || levels[last].Epsilon != key.Epsilon {
				levels = append(levels, LevelCount{Epsilon: key.Epsilon})
			}
			if last := &levels[len(levels)-1]; t.Recorded <= s.Counters.Chains-uint64(last.N) {
				last.N += int64(t.Recorded)
				return ctx.Err()
			}
			return errs.Corrupt(nil, "question %q: more responses are counted at ε=%s than there are chains", question, key.Epsilon)
		})
	})
	if err != nil {
		return nil, err
	}
	return levels, nil
}

// counting gathers tallies of a question, which come by rising ε.
type counting struct {
	question *event.Question
	chains   uint64                 // in the ledger
	total    uint64                 // counted so far
	levels   []estimate.UnaryCounts // in other encodings too
}

// add adds the chains of one tally, as many as taken says of a count. Each chain is counted once, so that
// there are never more of them than chains, and no sum runs over.
func (c *counting) add(key state.TallyKey, t state.Tally, taken func(state.Tallied) uint64) error {
	m := counted(c.question, key.Epsilon)
	if int(key.Value) >= m || c.question.Encoding == Unary && key.Value != 0 {
		return errs.Corrupt(nil, "question %q has %d responses at ε=%s, and a tally of response %d", c.question.Name, m, key.Epsilon, key.Value)
	}
	if err := t.Fit(c.question); err != nil {
		return err
	}
	n := taken(t.Tallied)
	if n == 0 {
		return nil
	}
	if n > c.chains-c.total {
		return errs.Corrupt(nil, "question %q: more responses are counted than there are chains", c.question.Name)
	}
	c.total += n
	if last := len(c.levels) - 1; last < 0 || c.levels[last].Epsilon != key.Epsilon {
		c.levels = append(c.levels, estimate.UnaryCounts{Epsilon: key.Epsilon, ByValue: make([]int64, m)})
	}
	level := &c.levels[len(c.levels)-1]
	level.Objects += int64(n)
	if c.question.Encoding != Unary {
		level.ByValue[key.Value] = int64(n)
	}
	for v, bit := range t.Bits {
		level.ByValue[v] = int64(taken(bit))
	}
	return nil
}

// recount counts the responses that a request takes in the chains themselves, by rising ε.
func (l *Ledger) recount(ctx context.Context, r EstimateRequest) (q *event.Question, counts []estimate.UnaryCounts, last uint64, err error) {
	if q, err = l.findQuestion(ctx, r.Question); err != nil {
		return nil, nil, 0, err
	}
	sum := tallying{question: q, at: map[privacy.Epsilon]*estimate.UnaryCounts{}}
	last = l.engine.Queue.DurableEvents()
	var fault error
	scan := levelscan.Scan{Engine: &l.engine, Question: q, Epsilon: r.Epsilon, Current: r.Epsilon.IsZero()}
	err = scan.Each(ctx, func(name string, at *state.Level) bool {
		if r.Include(name) {
			fault = sum.add(name, at)
		}
		return fault == nil
	})
	if err = errors.Join(err, fault); err != nil {
		return q, nil, 0, err
	}
	for _, epsilon := range slices.SortedFunc(maps.Keys(sum.at), privacy.Epsilon.Compare) {
		counts = append(counts, *sum.at[epsilon])
	}
	return q, counts, last, nil
}

// tallying counts responses to a question one by one.
type tallying struct {
	question *event.Question
	at       map[privacy.Epsilon]*estimate.UnaryCounts // in other encodings too
	last     *estimate.UnaryCounts                     // those of the response before: the next is mostly at the same ε
}

func (t *tallying) add(name string, l *state.Level) error {
	if !t.question.Has(l.Epsilon, l.Response) {
		_, err := toldResponse(t.question, name, *l)
		return err
	}
	if t.last == nil || t.last.Epsilon != l.Epsilon {
		if t.last = t.at[l.Epsilon]; t.last == nil {
			t.last = &estimate.UnaryCounts{Epsilon: l.Epsilon, ByValue: make([]int64, counted(t.question, l.Epsilon))}
			t.at[l.Epsilon] = t.last
		}
	}
	t.last.Objects++
	if l.Response.IsUnary() {
		t.addRow(l.Response.Bits)
	} else {
		t.last.ByValue[l.Response.Index]++
	}
	return nil
}

func (t *tallying) addRow(row rrchain.Bits) {
	for v := range row.Ones() {
		t.last.ByValue[v]++
	}
}

// finiteFrequencies returns the shares of the inputs from counts of responses.
func finiteFrequencies(m *vocabulary.Mechanism, confidence float64, levels []estimate.UnaryCounts) ([]estimate.Frequency, error) {
	counts := make([]finiteestimate.Counts, len(levels))
	for i, l := range levels {
		level, _ := m.Family.Level(l.Epsilon)
		counts[i] = finiteestimate.Counts{Mechanism: level, ByOutput: l.ByValue}
	}
	return finiteestimate.Frequencies(confidence, counts...)
}
