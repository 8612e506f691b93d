//go:build !race

package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/testenv"
)

// The duration of a draw, by true value and by whether the response is true, compared as in dudect:
// both kinds in a random order, all times and those below some quantiles (interruptions cause the
// longest), and Welch's t for each.

// threshold is a bound of |t| if nothing depends on the true value: one t in 150,000 exceeds it by
// chance.
const threshold = 4.5

// welch returns the difference of two means in its standard deviations, estimated from both samples
// (Welch's t). It is positive if the second mean is larger, and 0 if there is nothing to compare.
func welch(first, second []float64) float64 {
	if len(first) < 2 || len(second) < 2 {
		return 0
	}
	mean1, variance1 := stat.MeanVariance(first, nil)
	mean2, variance2 := stat.MeanVariance(second, nil)
	spread := math.Sqrt(variance1/float64(len(first)) + variance2/float64(len(second)))
	if spread == 0 {
		return 0
	}
	return (mean2 - mean1) / spread
}

// The reference was computed by hand: means 2.5 and 6, variances 5/3 and 4.
func TestWelch_EqualsHandComputedValue(t *testing.T) {
	a, b := []float64{1, 2, 3, 4}, []float64{4, 6, 8}
	got, want := welch(a, b), 3.5/math.Sqrt(5./12+4./3)
	check.That(t, !(math.Abs(got-want) > 1e-12), "t = %v, want %v", got, want)
	check.That(t, welch(a, a) == 0 && welch(nil, b) == 0 && welch([]float64{1, 1}, []float64{2, 2}) == 0,
		"t is not 0 for equal samples, or for an empty one")
}

// quantiles are the quantiles at which times are cropped; 1 keeps all.
func quantiles() []float64 { return []float64{1, 0.999, 0.99, 0.9, 0.5} }

// contrast is the largest difference between two kinds of times, over all quantiles.
type contrast struct {
	t        float64 // Welch's t
	quantile float64
	// difference is the second mean minus the first, and mean the mean of both, in nanoseconds.
	difference, mean float64
}

// compare compares times of two kinds. second marks the second kind.
func compare(times []float64, second []bool) (worst contrast) {
	sorted := slices.Sorted(slices.Values(times))
	for _, q := range quantiles() {
		limit := sorted[int(math.Ceil(q*float64(len(sorted))))-1]
		var kinds [2][]float64
		for i, x := range times {
			if x <= limit && second[i] {
				kinds[1] = append(kinds[1], x)
			} else if x <= limit {
				kinds[0] = append(kinds[0], x)
			}
		}
		t := welch(kinds[0], kinds[1])
		if math.Abs(t) > math.Abs(worst.t) || worst.quantile == 0 {
			means := [2]float64{stat.Mean(kinds[0], nil), stat.Mean(kinds[1], nil)}
			worst = contrast{t, q, means[1] - means[0], (means[0] + means[1]) / 2}
		}
	}
	return worst
}

// stopwatch times draws for true values in a random order.
func stopwatch(draw drawing, draws int) (byTruth, byOutcome contrast) {
	times, ones, right := make([]float64, draws), make([]bool, draws), make([]bool, draws)
	for i := range times {
		ones[i] = rand.IntN(2) == 1
	}
	for range draws/50 + 1 { // fills caches
		draw(rand.IntN(2))
	}
	for i := range times {
		truth := 0
		if ones[i] {
			truth = 1
		}
		var took time.Duration
		right[i], took = draw(truth)
		times[i] = float64(took.Nanoseconds())
	}
	return compare(times, ones), compare(times, right)
}

// The test reports how much the duration of each draw depends on the true value. It cannot fail:
// times depend on the load of the machine, and the quick form times too few draws. The last lines
// are draws that do take longer for one true value, to show what a dependence looks like.
func TestDraws_Durations_AreReported(t *testing.T) {
	all := append(primitives(),
		primitive{"planted: 20 ns more for one truth", million, false, slower(20 * time.Nanosecond)},
		primitive{"planted: 2 ns more for one truth", million, false, slower(2 * time.Nanosecond)},
	)
	t.Log("by truth: t and difference; by outcome: t and difference; ! is a |t| of 4.5 or more")
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			draws := testenv.Scale(100, p.draws)
			byTruth, byOutcome := stopwatch(p.begin(t, exact.NewBits()), draws)
			t.Logf("%-45s %9d %6.0f ns %10.1f%s %7.2f ns %10.1f%s %7.2f ns", p.name, draws, byTruth.mean,
				byTruth.t, mark(byTruth), byTruth.difference, byOutcome.t, mark(byOutcome), byOutcome.difference)
		})
	}
}

func mark(c contrast) string {
	if math.Abs(c.t) >= threshold {
		return " !"
	}
	return "  "
}

// slower returns draws that report a longer duration for one true value.
func slower(by time.Duration) func(testing.TB, *exact.Bits) drawing {
	return func(t testing.TB, bits *exact.Bits) drawing {
		draw := firstOf(2)(t, bits)
		return func(truth int) (bool, time.Duration) {
			right, took := draw(truth)
			return right, took + time.Duration(truth)*by
		}
	}
}

// A difference of 1, hidden by outliers, is found by the quantiles, and none is found where there
// is none. The times are simulated.
func TestCompare_DifferenceBelowOutliers_IsFound(t *testing.T) {
	const n = 20_000
	random := rand.New(rand.NewPCG(1, 2))
	times, kinds := make([]float64, n), make([]bool, n)
	for i := range times {
		kinds[i], times[i] = random.IntN(2) == 1, 100+10*random.NormFloat64()
		if random.IntN(50) == 0 {
			times[i] += 1e6 * random.Float64()
		}
	}
	c := compare(times, kinds)
	check.That(t, !(math.Abs(c.t) >= threshold), "no difference has %+v", c)
	for i, second := range kinds {
		if second {
			times[i]++
		}
	}
	if c := compare(times, kinds); c.t < threshold || c.quantile == 1 || math.Abs(c.difference-1) > 0.6 || math.Abs(c.mean-100) > 20 {
		t.Errorf("a difference of 1 has %+v", c)
	}
}
