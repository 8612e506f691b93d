package ledger

import (
	"context"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// An estimate is rrchain's, of the responses as they are recorded: so the tests record them by hand.

// responseOf is an answer to the first question that nobody has drawn.
func responseOf(t *testing.T, object, epsilon string, v int) event.Change {
	t.Helper()
	return &event.Released{Object: object, Question: 1, Epsilon: eps(t, epsilon), Response: event.Response{Value: event.Value{Index: v}, Method: event.MethodRaise}}
}

// tryResponse records a response without drawing it.
func tryResponse(t *testing.T, l *Ledger, object, epsilon string, value int) error {
	t.Helper()
	_, _, err := l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
		return withSettled(s.Counters.Events+1, []event.Change{responseOf(t, object, epsilon, value)}), nil
	})
	return err
}

func setResponse(t *testing.T, l *Ledger, object, epsilon string, value int) {
	t.Helper()
	must(t, tryResponse(t, l, object, epsilon, value))
}

// polled is a ledger in which six objects have answered: one at 0.5, two at 1, two at both; the last
// has not.
func polled(t *testing.T) *Ledger {
	l := voters(t, inMemory(t, Options{}), "9", "a", "b", "c", "d", "e", "f")
	setResponse(t, l, "a", "0.5", 0)
	setResponse(t, l, "b", "1", 1)
	setResponse(t, l, "c", "1", 2)
	setResponse(t, l, "d", "0.5", 0)
	setResponse(t, l, "d", "1", 1)
	setResponse(t, l, "e", "0.5", 2)
	setResponse(t, l, "e", "1", 1)
	return l
}

// wantEstimate compares an estimate with rrchain's for counts made by hand, and one of everybody also
// with a recount.
func wantEstimate(t *testing.T, l *Ledger, r api.EstimateRequest, confidence float64, counts ...estimate.Counts) {
	t.Helper()
	shares := check.Value(estimate.Frequencies(estimate.Options{Confidence: confidence, Pool: r.Pool, Population: r.Population}, counts...))(t)
	p := check.Value(estimate.Disagreement(counts...))(t)
	want := api.Estimate{Question: "vote", Event: stats(t, l).Events}
	combinedAs(&want, len(counts), r, p)
	for _, c := range counts {
		level := api.LevelCount{Epsilon: c.Epsilon}
		for _, n := range c.ByValue {
			level.N += n
		}
		want.N += level.N
		want.Levels = append(want.Levels, level)
	}
	for v, f := range shares {
		want.Values = append(want.Values, api.ValueEstimate{Value: vote().Values[v], Estimate: f.Estimate, StdErr: f.StdErr, Low: f.Low, High: f.High})
	}
	r.Question = "vote"
	includes := []func(string) bool{r.Include}
	if r.Include == nil {
		includes = append(includes, everybody)
	}
	for _, r.Include = range includes {
		got, err := l.Estimate(t.Context(), r)
		check.That(t, err == nil && reflect.DeepEqual(got, want), "got\n%+v, %v\nwant\n%+v", got, err, want)
	}
}

// combinedAs adds how an estimate combines levels, and what it covers.
func combinedAs(e *api.Estimate, levels int, r api.EstimateRequest, p float64) {
	e.Method, e.Covers = "level", "panel"
	if r.Population {
		e.Covers = "population"
	}
	if levels > 1 {
		e.Method, e.Disagreement = "stratified", &p
		if r.Pool {
			e.Method = "pooled"
		}
	}
}

func TestEstimate_PoolAndPopulation_AreWhatIsRequested(t *testing.T) {
	for _, r := range []api.EstimateRequest{{Pool: true}, {Population: true}, {Pool: true, Population: true}} {
		wantEstimate(t, polled(t), r, 0.95,
			estimate.Counts{Epsilon: eps(t, "0.5"), ByValue: []int64{1, 0, 0}},
			estimate.Counts{Epsilon: eps(t, "1"), ByValue: []int64{0, 3, 1}})
		r.Epsilon = eps(t, "0.5")
		wantEstimate(t, polled(t), r, 0.95, estimate.Counts{Epsilon: eps(t, "0.5"), ByValue: []int64{2, 0, 1}})
	}
}

// TestEstimate_TermsDependOnTheValue_IsRight has 4,000 objects, half of which have the first value. These answer at 0.5 only,
// the others also at 3. The default interval holds the true share, the pooled one is far from it, and the levels disagree.
func TestEstimate_TermsDependOnTheValue_IsRight(t *testing.T) {
	names := crowd(4000)
	l := voters(t, inMemory(t, Options{}), "9", names...)
	values := vote().Values
	truth := map[string]string{}
	for i, name := range names {
		truth[name] = values[i%2]
	}
	low := api.RaiseRequest{Key: "all", Question: "vote", Epsilon: eps(t, "0.5"), All: true, Truth: truthsOf(truth)}
	carryOut(t, l, low)
	high := api.RaiseRequest{Key: "some", Question: "vote", Epsilon: eps(t, "3"), Truth: truthsOf(truth)}
	for i, name := range names {
		if i%2 == 1 {
			high.Objects = append(high.Objects, name)
		}
	}
	carryOut(t, l, high)
	// An interval of this confidence misses the share once in 10⁹ runs.
	got := check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Confidence: 1 - 1e-9}))(t)
	if first := got.Values[0]; !(first.Low <= 0.5 && 0.5 <= first.High) || *got.Disagreement > 1e-9 {
		t.Errorf("the share is 0.5, the estimate %+v", got)
	}
	got = check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Confidence: 1 - 1e-9, Pool: true}))(t)
	if first := got.Values[0]; first.High > 0.4 || got.Method != "pooled" {
		t.Errorf("the share is 0.5, the pooled estimate %+v: terms that depend on the value make no difference here", got)
	}
}

func TestThereIsNoEstimateFromNothing(t *testing.T) {
	l := polled(t)
	for name, r := range map[string]api.EstimateRequest{
		"no such level": {Question: "vote", Epsilon: eps(t, "2")},
		"nobody":        {Question: "vote", Include: func(string) bool { return false }},
	} {
		if _, err := l.Estimate(t.Context(), r); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			wantErr(t, err, api.ErrNoResponses)
		}
	}
	define(t, l, smoker())
	wantErr(t, check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: "smoker"})), api.ErrNoResponses)
}

func TestABadConfidenceIsInvalid(t *testing.T) {
	l := polled(t)
	for _, confidence := range []float64{-0.5, 1, 95, math.NaN(), math.Inf(1), math.Inf(-1)} {
		wantErr(t, check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Confidence: confidence})), api.ErrInvalid)
	}
}

// A response that the question does not have is damage, not a seventh value.
func TestAnImpossibleResponseIsNotCounted(t *testing.T) {
	l := polled(t)
	broken := state.Chain{Enrolled: 4, Levels: []state.Level{state.NewLevel(eps(t, "1"), event.Value{Index: 3}, 5)}}
	putRecord(t, l.engine.Store, state.BucketChains, state.ChainKey(1, "b"), broken.Encode())
	wantErr(t, check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Include: everybody})), api.ErrCorrupt)
	wantErr(t, firstError(l.Responses(t.Context(), "vote", eps(t, "1"))), api.ErrCorrupt)
	wantErr(t, check.Err(l.Object(t.Context(), "b")), api.ErrCorrupt)
}

func TestLevelsAreThoseOfAllResponses(t *testing.T) {
	l := polled(t)
	want := []api.LevelCount{{Epsilon: eps(t, "0.5"), N: 3}, {Epsilon: eps(t, "1"), N: 4}}
	got, err := api.Collect(l.Levels(t.Context(), "vote"))
	check.That(t, err == nil && slices.Equal(got, want), "got %v, %v, want %v", got, err, want)
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "a"}))
	want[0].N = 2
	got, err = api.Collect(l.Levels(t.Context(), "vote"))
	check.That(t, err == nil && slices.Equal(got, want), "after one was forgotten: %v, %v, want %v", got, err, want)
	wantErr(t, check.Err(api.Collect(l.Levels(t.Context(), "nothing"))), api.ErrUnknown)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, check.Err(api.Collect(l.Levels(ctx, "vote"))), context.Canceled)
}
