package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// Estimate estimates the true shares of a question's values from the responses released so far, by
// [estimate.Frequencies]. It costs no budget.
//
// Objects at several levels are combined by stratification, unless Pool is set. The estimate of
// each level counts in proportion to its objects. The estimate is therefore correct even if objects
// with certain values allow a higher ε. With Pool the interval is shorter, but is wrong in that
// case. Disagreement is a warning of it.
//
// Responses are counted when they are released, in the same transactions. An estimate is therefore
// the estimate of a single instant, between two transactions, and counts each object once. A large
// raise commits in parts, and the parts committed so far are counted. The result is exactly the
// estimate that a recount would give. It takes time and memory proportional to values times levels,
// and independent of the number of objects.
//
// With Include, the responses are recounted: Estimate reads every chain of the question, in short
// snapshots. A concurrent raise may be counted in part.
//
// The errors are [api.ErrUnknown] for the question, [api.ErrNoResponses], [api.ErrInvalid] for the
// confidence, and [api.ErrCorrupt].
func (l *Ledger) Estimate(ctx context.Context, r api.EstimateRequest) (api.Estimate, error) {
	if r.Confidence == 0 {
		r.Confidence = 0.95
	}
	count := l.readTallies
	if r.Include != nil {
		count = l.recount
	}
	q, counts, last, err := count(ctx, r)
	if err != nil {
		return api.Estimate{}, err
	}
	switch {
	case len(counts) > 0:
	case r.Epsilon.IsZero():
		return api.Estimate{}, fmt.Errorf("question %q: %w", r.Question, api.ErrNoResponses)
	default:
		return api.Estimate{}, fmt.Errorf("question %q: %w at ε=%s", r.Question, api.ErrNoResponses, r.Epsilon)
	}
	out := api.Estimate{Question: r.Question, Method: "level", Covers: "panel", Event: last}
	for _, level := range counts {
		out.N += level.Objects
		out.Levels = append(out.Levels, api.LevelCount{Epsilon: level.Epsilon, N: level.Objects})
	}
	if r.Population {
		out.Covers = "population"
	}
	options := estimate.Options{Confidence: r.Confidence, Pool: r.Pool, Population: r.Population}
	found, p, err := sharesOf(q, options, counts)
	if err != nil {
		return api.Estimate{}, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	if len(counts) > 1 {
		out.Method, out.Disagreement = "stratified", &p
		if r.Pool {
			out.Method = "pooled"
		}
	}
	out.Values = make([]api.ValueEstimate, len(found))
	for v, f := range found {
		out.Values[v] = api.ValueEstimate{
			Value: q.Values[v], Estimate: f.Estimate, StdErr: f.StdErr, Low: f.Low, High: f.High,
		}
	}
	return out, nil
}

// readTallies returns the running counts of the responses that a request selects, in rising ε. It
// also returns the question, and the last event that the counts include.
func (l *Ledger) readTallies(
	ctx context.Context, r api.EstimateRequest,
) (q *event.Question, counts []estimate.Counts, last uint64, err error) {
	err = l.engine.View(ctx, func(s *state.State) error {
		if q, err = request.QuestionByName(s, r.Question); err != nil {
			return err
		}
		seen, sum := 0, tallySum{Question: q, Chains: s.Counters.Chains}
		err := s.ScanTallies(q.Number, r.Epsilon, func(key state.TallyKey, t state.Tally) error {
			if seen++; seen%scanSize == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			return sum.Add(key, t, func(c state.Tallied) uint64 {
				if r.Epsilon.IsZero() {
					return c.Current
				}
				return c.Recorded
			})
		})
		counts, last = sum.Levels, s.Counters.Events
		return err
	})
	return q, counts, last, err
}

// Levels yields every ε at which there are responses to a question, in rising order, and their
// number. It includes levels that are below the current level of their object, which
// [api.Estimate.Levels] omits. It takes time proportional to values times levels. The errors are
// [api.ErrUnknown] and [api.ErrCorrupt].
func (l *Ledger) Levels(ctx context.Context, question string) iter.Seq2[api.LevelCount, error] {
	read := func(ctx context.Context, _ api.Page) (all []api.LevelCount, _ uint64, err error) {
		all, err = l.allLevels(ctx, question)
		return all, 0, err
	}
	return request.EachInPages(ctx, api.Page{}, read)
}

// allLevels returns every ε at which there are responses to a question, in rising order, and their
// number. It adds up the tallies at each ε.
func (l *Ledger) allLevels(ctx context.Context, question string) ([]api.LevelCount, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (levels []api.LevelCount, err error) {
		q, err := request.QuestionByName(s, question)
		if err != nil {
			return nil, err
		}
		err = s.ScanTallies(q.Number, privacy.Epsilon{}, func(key state.TallyKey, t state.Tally) error {
			if last := len(levels) - 1; last < 0 || levels[last].Epsilon != key.Epsilon {
				levels = append(levels, api.LevelCount{Epsilon: key.Epsilon})
			}
			// A chain has at most one response at an ε, so the sum is at most the number of chains.
			if last := &levels[len(levels)-1]; t.Recorded <= s.Counters.Chains-uint64(last.N) {
				last.N += int64(t.Recorded)
				return ctx.Err()
			}
			const text = "question %q: its tallies at ε=%s count more responses than there are chains"
			return errs.Corrupt(nil, text, question, key.Epsilon)
		})
		return levels, err
	})
}

// recount counts the responses that a request selects by reading the chains. It returns the counts
// in rising ε, the question, and the last event before the recount began. Later events may be
// counted in part.
func (l *Ledger) recount(
	ctx context.Context, r api.EstimateRequest,
) (q *event.Question, counts []estimate.Counts, last uint64, err error) {
	if q, err = l.requests.Question(ctx, r.Question); err != nil {
		return nil, nil, 0, err
	}
	sum := tallier{question: q, at: map[privacy.Epsilon]*estimate.Counts{}}
	last = l.engine.Queue.DurableEvents()
	var fault error
	scan := levels{Engine: &l.engine, Question: q, Epsilon: r.Epsilon, Current: r.Epsilon.IsZero()}
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

// tallier counts responses to a question one by one, for [Ledger.recount].
type tallier struct {
	question *event.Question
	at       map[privacy.Epsilon]*estimate.Counts // the counts so far, by ε
	last     *estimate.Counts                     // at the ε of the previous response, which most have in common
}

// add counts the response of the object with a name. It returns [errs.ErrCorrupt] for a response
// that the question does not have.
func (t *tallier) add(name string, l *state.Level) error {
	if !t.question.Has(l.Epsilon, l.Response) {
		_, err := request.ResponseOf(t.question, name, *l) // returns the error
		return err
	}
	if t.last == nil || t.last.Epsilon != l.Epsilon {
		if t.last = t.at[l.Epsilon]; t.last == nil {
			counts := make([]int64, countedOutputs(t.question, l.Epsilon))
			t.last = &estimate.Counts{Epsilon: l.Epsilon, ByValue: counts}
			t.at[l.Epsilon] = t.last
		}
	}
	t.last.Objects++
	if !l.Response.IsUnary() {
		t.last.ByValue[l.Response.Index]++
		return nil
	}
	for v := range l.Response.Bits.Ones() {
		t.last.ByValue[v]++
	}
	return nil
}
