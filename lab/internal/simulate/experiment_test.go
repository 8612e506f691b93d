package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// badLuck is the probability of every single comparison in these tests to fail although nothing is
// wrong. A test has about a hundred of them.
const badLuck = stattest.Alarm / 100

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestExperiments_Parameters_AreThoseOfThePaper(t *testing.T) {
	binary := must[Experiment](t)(Binary())
	if !slices.Equal(binary.Holders, []int{400, 600}) || binary.Objects() != 1000 || binary.Guessed() != 400 {
		t.Errorf("%+v", binary)
	}
	round := 0
	for _, row := range references(t) {
		if row.Alpha != "1" || row.Beta != "0.5" || row.K > 10 {
			continue
		}
		round++
		if want := decimal(t, row.Given); binary.Levels[row.K-1].Nano() != int64(math.Floor(want*1e9)) {
			t.Errorf("level %d is ε=%v, want %v", row.K, binary.Levels[row.K-1], want)
		}
	}
	if round != 10 || len(binary.Levels) != 10 {
		t.Errorf("%d reference numbers for %d levels", round, len(binary.Levels))
	}
	poly := must[Experiment](t)(Polychotomous())
	if poly.Objects() != 1500 || !slices.Equal(poly.Holders, []int{100, 200, 300, 400, 500}) || poly.Guessed() != 100 {
		t.Errorf("%+v", poly)
	}
	if got, want := fmt.Sprint(poly.Levels), "[0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1]"; got != want {
		t.Errorf("levels %s, want %s", got, want)
	}
}

// smaller returns an experiment with other numbers of objects, so that there can be more runs.
func smaller(t *testing.T, make func() (Experiment, error), holders ...int) Experiment {
	t.Helper()
	x := must[Experiment](t)(make())
	x.Holders = holders
	return x
}

func outside(t *testing.T, r *Result) []Comparison {
	t.Helper()
	var bad []Comparison
	for _, c := range must[[]Comparison](t)(r.Compare(badLuck)) {
		if !c.Within() {
			bad = append(bad, c)
		}
	}
	return bad
}

// The shares that chains and noisy samplings give have the means and the variances of the theory,
// and no attack beats the bound.
func TestRun_EachExperiment_AgreesWithTheory(t *testing.T) {
	for _, x := range []Experiment{smaller(t, Binary, 40, 160), smaller(t, Polychotomous, 20, 40, 60, 80, 100)} {
		r := must[*Result](t)(x.Run(t.Context(), 600, nil))
		for _, c := range outside(t, r) {
			t.Errorf("%s: %+v", x.Name, c)
		}
		want := 2*len(x.Levels)*len(x.Shown) + len(Attacks())
		if x.Sampling != nil {
			want += 2 * len(x.Levels)
		}
		if all := must[[]Comparison](t)(r.Compare(badLuck)); len(all) != want {
			t.Errorf("%s: %d comparisons, want %d", x.Name, len(all), want)
		}
	}
}

// For two values, the frequency of errors of each attack is computed exactly.
func TestRun_Attacks_ErrAsOftenAsEnumerated(t *testing.T) {
	x := smaller(t, Binary, 100, 100)
	x.Sampling, x.Shown = nil, nil
	r := must[*Result](t)(x.Run(t.Context(), 600, nil))
	want, _ := exactErrors(t, x)
	deviation := math.Sqrt(0.25 / float64(r.Runs*x.Objects())) // at most
	for i, name := range Attacks() {
		stattest.Normal(stat.Mean(r.Errors[i], nil)-want[i], deviation).Holds(t, "errors by %s", name)
	}
}

// Noisy sampling is worse than a chain at the same ε, by the ratio of Eqs. (68) and (67). With R
// runs the ratio of two measured variances has, up to that factor, the F distribution with R−1 and
// R−1 degrees of freedom.
func TestRun_NoisySampling_HasTheRatioOfVariances(t *testing.T) {
	x := smaller(t, Binary, 40, 60)
	const runs = 1000
	r := must[*Result](t)(x.Run(t.Context(), runs, nil))
	f := distuv.F{D1: runs - 1, D2: runs - 1}
	wide := f.Quantile(1 - badLuck/2)
	for i, row := range references(t)[:len(x.Levels)] {
		if row.Alpha != "1" || row.Beta != "0.5" || row.K != i+1 {
			t.Fatalf("reference %d is of %+v", i, row)
		}
		want := decimal(t, row.Sampling) / decimal(t, row.Relaxation)
		got := stat.Variance(r.Sampled[i], nil) / stat.Variance(r.Shares[i][1], nil)
		if got < want/wide || got > want*wide {
			t.Errorf("round %d: noisy sampling is worse by a factor of %v, want %v (%v to %v)", row.K, got, want, want/wide, want*wide)
		}
		if row.K >= 3 && want/wide <= 1 {
			t.Errorf("round %d: %d runs would not distinguish a factor of %v from none", row.K, runs, want)
		}
	}
}

// The checks detect wrong chains, so they would detect a fault in the real ones. Each fault here is
// so large that it is missed with a probability below 1e-9.
func TestRun_WrongChain_IsDetected(t *testing.T) {
	for name, fault := range map[string]struct {
		draw  respond
		shows string // what must be outside
	}{
		// This keeps the laws of the single levels. Against it the weighted frequency is maximum
		// likelihood.
		"drawn anew at each level":    {redraw, "error rate by weighted highest frequency"},
		"more ε than is said":         {generous, "error rate by last output"},
		"the first response for ever": {stuck, "share of 2"},
		"false responses drawn anew":  {forgetful, "share of 2"},
	} {
		x := smaller(t, Polychotomous, 20, 80)
		x.Values, x.Shown = x.Values[:2], []int{0, 1}
		r := must[*Result](t)(x.run(t.Context(), 600, nil, fault.draw))
		found := slices.ContainsFunc(outside(t, r), func(c Comparison) bool { return c.What == fault.shows })
		if !found {
			t.Errorf("%s: not found by the %s", name, fault.shows)
		}
	}
}

// redraw makes every response the first of its own chain.
func redraw(s *rrchain.Sampler, x *Experiment, truth int, responses []int) error {
	return each(x, responses, func(i int, level privacy.Epsilon) (int, error) { return first(s, x, level, truth) })
}

// stuck gives the first response at all levels.
func stuck(s *rrchain.Sampler, x *Experiment, truth int, responses []int) error {
	return each(x, responses, func(i int, level privacy.Epsilon) (int, error) {
		if i > 0 {
			return responses[0], nil
		}
		return first(s, x, level, truth)
	})
}

// forgetful raises true responses as it should, and draws new ones for false ones.
func forgetful(s *rrchain.Sampler, x *Experiment, truth int, responses []int) error {
	return each(x, responses, func(i int, level privacy.Epsilon) (int, error) {
		if i == 0 || responses[i-1] != truth {
			return first(s, x, level, truth)
		}
		chain, err := rrchain.NewChain[int](len(x.Values), rrchain.Level[int]{Epsilon: x.Levels[i-1], Response: truth})
		if err != nil {
			return 0, err
		}
		next, err := chain.Raise(s, level, truth)
		return next.Response, err
	})
}

// generous is a real chain, but at 5/4 of each ε.
func generous(s *rrchain.Sampler, x *Experiment, truth int, responses []int) error {
	more := *x
	more.Levels = slices.Clone(x.Levels)
	for i, level := range x.Levels {
		raised, err := privacy.EpsilonFromNano(level.Nano() * 5 / 4)
		if err != nil {
			return err
		}
		more.Levels[i] = raised
	}
	return raise(s, &more, truth, responses)
}

func each(x *Experiment, responses []int, draw func(i int, level privacy.Epsilon) (int, error)) error {
	for i, level := range x.Levels {
		var err error
		if responses[i], err = draw(i, level); err != nil {
			return err
		}
	}
	return nil
}

func first(s *rrchain.Sampler, x *Experiment, level privacy.Epsilon, truth int) (int, error) {
	chain, err := rrchain.NewChain[int](len(x.Values))
	if err != nil {
		return 0, err
	}
	got, err := chain.Raise(s, level, truth)
	return got.Response, err
}

// A mean that is off by more than the tolerance is outside, and one that is off by less is not.
func TestTolerance_MeanAndVariance_HaveExactQuantiles(t *testing.T) {
	tolerance := tolerance{runs: 25, chance: 2 * distuv.UnitNormal.CDF(-3)}
	c := tolerance.mean(Comparison{Theory: 10}, 4) // the standard error is 2/5
	wantNear(t, "the lower end", c.Low, 10-3*0.4)
	wantNear(t, "the upper end", c.High, 10+3*0.4)
	v := tolerance.variance(Comparison{Theory: 10})
	chi := distuv.ChiSquared{K: 24}
	wantNear(t, "the chance to be below", chi.CDF(v.Low/10*24), tolerance.chance/2)
	wantNear(t, "the chance to be above", chi.Survival(v.High/10*24), tolerance.chance/2)
	for measured, want := range map[float64]bool{8.79: false, 8.81: true, 11.19: true, 11.21: false} {
		if c.Measured = measured; c.Within() != want {
			t.Errorf("%v is within %v to %v: %v", measured, c.Low, c.High, !want)
		}
	}
	c.Measured = math.NaN()
	if c.Within() {
		t.Error("no number is within")
	}
}

func TestRun_NumberOfRuns_IsBounded(t *testing.T) {
	x := smaller(t, Binary, 1, 1)
	for _, runs := range []int{math.MinInt, -1, 0, 1, MaxRuns + 1, math.MaxInt} {
		if _, err := x.Run(t.Context(), runs, nil); !errors.Is(err, ErrRuns) {
			t.Errorf("%d runs: %v", runs, err)
		}
	}
	var done []int
	r := must[*Result](t)(x.Run(t.Context(), MinRuns, func(now, total int) { done = append(done, now, total) }))
	if !slices.Equal(done, []int{1, 2, 2, 2}) || r.Runs != 2 || len(r.Shares) != 10 || len(r.Shares[9][1]) != 2 {
		t.Errorf("progress %v, result %+v", done, r)
	}
}

func TestRun_CancelledContext_Stops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	_, err := smaller(t, Binary, 1, 1).Run(ctx, MaxRuns, func(int, int) {
		if runs++; runs == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || runs != 3 {
		t.Errorf("%d runs, %v", runs, err)
	}
}
