package estimate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// estimatorRow is a row of estimator.json.
type estimatorRow struct {
	Epsilon   string   `json:"epsilon"`
	Observed  []int64  `json:"observed_counts"`
	Frequency []string `json:"frequency_estimate"`
	True      []int64  `json:"true_counts"`
	Variance  []string `json:"estimator_variance_given_true_counts"`
}

func TestEstimatorVectors(t *testing.T) {
	for i, row := range vectors[estimatorRow](t, "estimator.json") {
		got := estimate(t, 0.95, ofValues(eps(t, row.Epsilon), row.Observed))
		for v, want := range row.Frequency {
			wantNear(t, fmt.Sprintf("row %d, share of value %d", i, v), got[v].Estimate, want, 1e-13)
		}
		variances := must(Variance(ofValues(eps(t, row.Epsilon), row.True)))
		for v, want := range row.Variance {
			wantNear(t, fmt.Sprintf("row %d, variance of value %d", i, v), variances[v], want, 1e-13)
		}
	}
}

// TestVarianceAtAnyEpsilon computes (n_v·p(1−p) + (n−n_v)·q(1−q)) / (n²(p−q)²) with many digits.
// Where ε is large, 1 − p is far smaller than a float64 can hold beside 1.
func TestVarianceAtAnyEpsilon(t *testing.T) {
	for _, e := range []string{"0.000000001", "0.01", "1", "5", "20", "30", "38", "80"} {
		for _, truth := range [][]int64{{8, 0}, {1, 2}, {0, 5, 6}, {1000, 30, 0, 1, 0}, append(make([]int64, 99), 7)} {
			epsilon := eps(t, e)
			got := must(Variance(ofValues(epsilon, truth)))
			p, q := response(int64(len(truth)), epsilon.Nano())
			n := sum(truth)
			for v, holders := range truth {
				spread := add(mul(mul(holders, p), sub(1, p)), mul(mul(n-holders, q), sub(1, q)))
				gap := mul(n, sub(p, q))
				wantNear(t, fmt.Sprintf("ε=%s, value %d of %v", e, v, truth), got[v], quo(spread, mul(gap, gap)), 1e-13)
			}
		}
	}
}

// experiment is a small population, parted at random into levels of given sizes. It is enumerated:
// all partitions, all responses.
type experiment struct {
	name   string
	m      int
	truths []int // the value of each object
	levels []sized
}

type sized struct {
	epsilon string
	objects int
}

var experiments = []experiment{
	{"one level, m=2", 2, []int{0, 1, 1, 0, 1, 1}, []sized{{"0.7", 6}}},
	{"one level, m=3", 3, []int{0, 1, 1, 0, 1}, []sized{{"1.5", 5}}},
	{"one level, one value", 3, []int{2, 2, 2, 2, 2, 2}, []sized{{"0.1", 6}}},
	{"two levels, m=2", 2, []int{0, 1, 1, 0, 1, 1}, []sized{{"0.5", 2}, {"2", 4}}},
	{"two levels, m=3", 3, []int{0, 1, 1, 0, 2}, []sized{{"3", 3}, {"0.5", 2}}},
	{"three levels, m=2", 2, []int{1, 0, 0, 0, 0, 0}, []sized{{"0.5", 1}, {"1", 2}, {"2", 3}}},
	{"three levels, m=3", 3, []int{0, 1, 2, 2, 1}, []sized{{"2", 2}, {"1", 2}, {"0.3", 1}}},
	{"one level twice, m=3", 3, []int{0, 1, 2, 2, 1}, []sized{{"1", 2}, {"1", 3}}},
}

// TestEstimateIsUnbiased sums over all partitions and all responses, with levels pooled and
// stratified: the mean of the estimate is the true share, and its variance is the one that
// intervals are made of.
func TestEstimateIsUnbiased(t *testing.T) {
	for _, x := range experiments {
		for _, pool := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pool=%v", x.name, pool), func(t *testing.T) { x.checkMoments(t, pool) })
		}
	}
}

func (x experiment) checkMoments(t *testing.T, pool bool) {
	mean, square, total := make([]float64, x.m), make([]float64, x.m), 0.0
	x.enumerate(t, x.partitions(nil), func(probability float64, levels []Counts) {
		total += probability
		for v, f := range estimateBy(t, Options{Confidence: 0.9, Pool: pool}, levels...) {
			mean[v] += probability * f.Estimate
			square[v] += probability * (f.Estimate - x.share(v)) * (f.Estimate - x.share(v))
		}
	})
	wantNear(t, "the sum of all probabilities", total, 1, 1e-12)
	stated := x.stated(t, false).law(pool, false)
	for v := range x.m {
		if math.Abs(mean[v]-x.share(v)) > 1e-12 {
			t.Errorf("the mean estimate of value %d is %v, want %v", v, mean[v], x.share(v))
		}
		wantNear(t, fmt.Sprintf("the variance for value %d", v), stated.at(x.share(v)), square[v], 1e-11)
	}
	x.checkVariance(t, square)
}

// TestEstimate_LevelDependsOnValue_IsUnbiasedUnlessPooled goes through all partitions into levels
// one by one, so that who is at which level is fixed and may depend on the value. The stratified
// estimate has the true share as its mean in each. The pooled one is right only on average over all
// partitions.
func TestEstimate_LevelDependsOnValue_IsUnbiasedUnlessPooled(t *testing.T) {
	biased := 0.0
	for _, x := range experiments {
		for _, partition := range x.partitions(nil) {
			mean, pooled := make([]float64, x.m), make([]float64, x.m)
			x.enumerate(t, [][]int{partition}, func(probability float64, levels []Counts) {
				for v, f := range estimate(t, 0.9, levels...) {
					mean[v] += probability * f.Estimate
				}
				for v, f := range estimateBy(t, Options{Confidence: 0.9, Pool: true}, levels...) {
					pooled[v] += probability * f.Estimate
				}
			})
			for v := range x.m {
				if math.Abs(mean[v]-x.share(v)) > 1e-12 {
					t.Errorf("%s, levels %v: the mean estimate of value %d is %v, want %v", x.name, partition, v, mean[v], x.share(v))
				}
				biased = max(biased, math.Abs(pooled[v]-x.share(v)))
			}
		}
	}
	check.That(t, biased >= 0.2, "the pooled estimate is off by %v at most: the partitions are no test", biased)
}

// share returns the true share of a value.
func (x experiment) share(v int) float64 {
	holders := 0.0
	for _, truth := range x.truths {
		if truth == v {
			holders++
		}
	}
	return holders / float64(len(x.truths))
}

// stated returns the sizes and laws of the levels.
func (x experiment) stated(t *testing.T, unary bool) (all described) {
	for _, level := range x.levels {
		all = append(all, describe(t, unary, x.m, eps(t, level.epsilon), float64(level.objects)))
	}
	return all
}

// checkVariance compares with Variance, which speaks of a single level.
func (x experiment) checkVariance(t *testing.T, want []float64) {
	if len(x.levels) > 1 {
		return
	}
	counts := make([]int64, x.m)
	for _, truth := range x.truths {
		counts[truth]++
	}
	variances := must(Variance(ofValues(eps(t, x.levels[0].epsilon), counts)))
	for v := range variances {
		wantNear(t, fmt.Sprintf("Variance for value %d", v), variances[v], want[v], 1e-11)
	}
}

// enumerate calls visit with all counts that can be observed. All partitions are equally likely.
func (x experiment) enumerate(t *testing.T, partitions [][]int, visit func(probability float64, levels []Counts)) {
	chance := make([][2]float64, len(x.levels)) // of the truth, and of each other value
	for i, level := range x.levels {
		p, q := response(int64(x.m), eps(t, level.epsilon).Nano())
		chance[i][0], _ = p.Float64()
		chance[i][1], _ = q.Float64()
	}
	for _, levelOf := range partitions {
		for code := range power(int64(x.m), len(x.truths)) {
			probability := 1 / float64(len(partitions))
			levels := make([]Counts, len(x.levels))
			for i, level := range x.levels {
				levels[i] = ofValues(eps(t, level.epsilon), make([]int64, x.m))
			}
			for object, response := range digits(code, int64(x.m), len(x.truths)) {
				level := levelOf[object]
				levels[level].ByValue[response]++
				if response == x.truths[object] {
					probability *= chance[level][0]
				} else {
					probability *= chance[level][1]
				}
			}
			visit(probability, levels)
		}
	}
}

// partitions returns all ways to give the objects their levels, after those in start.
func (x experiment) partitions(start []int) [][]int {
	if len(start) == len(x.truths) {
		return [][]int{start}
	}
	var all [][]int
	for level, size := range x.levels {
		used := 0
		for _, l := range start {
			if l == level {
				used++
			}
		}
		if used < size.objects {
			all = append(all, x.partitions(append(start[:len(start):len(start)], level))...)
		}
	}
	return all
}

// TestIntervalCoversAsOftenAsItSays draws 10,000 surveys of 2,500 objects at mixed levels, with a
// fixed seed. The true share lies in the interval in 95 % of them, give or take 0.5 % for the
// normal approximation, and up to 0.5 % more for the continuity correction and shares that may
// differ between levels. An interval that is 15 % too short covers 90 %, which would be seen.
func TestIntervalCoversAsOftenAsItSays(t *testing.T) {
	for _, o := range optionsOf(0.95)[:2] {
		for v, c := range coverage(t, o, []int64{1250, 750, 375, 125}) {
			c.Held(0.945, 0.96).Holds(t, "%+v, value %d: the interval holds the true share", o, v)
			c.HeldShort(0.945, 0.96).Fails(t, "%+v, value %d: an interval that is too short holds it", o, v)
		}
	}
}

// surveys is how many of them are drawn, and tooShort by how much intervals are shorter of which
// that is to be seen.
const surveys, tooShort = 10_000 / (stattest.Coarser * stattest.Coarser), 0.15 * stattest.Coarser

// covers returns what counts intervals of so many values.
func covers(values int) []intervalCoverage {
	return slices.Repeat([]intervalCoverage{{Short: tooShort}}, values)
}

// coverage counts, for each value, the surveys whose interval holds the true share.
func coverage(t *testing.T, o Options, holders []int64) []intervalCoverage {
	random := rand.New(rand.NewPCG(7, 8))
	var truths, levelOf []int
	for v, n := range holders {
		for range n {
			levelOf = append(levelOf, len(truths)%5/2) // two fifths, two fifths, one fifth
			truths = append(truths, v)
		}
	}
	levels := []privacy.Epsilon{eps(t, "0.5"), eps(t, "1"), eps(t, "2")}
	covered := covers(len(holders))
	for range surveys {
		random.Shuffle(len(levelOf), func(i, j int) { levelOf[i], levelOf[j] = levelOf[j], levelOf[i] })
		for v, f := range estimateBy(t, o, survey(random, truths, levelOf, levels, len(holders))...) {
			share := float64(holders[v]) / float64(len(truths))
			covered[v].Add(middleOf(f)-share, (f.High-f.Low)/2)
		}
	}
	return covered
}

// survey draws one response of each object. It uses ordinary random numbers, for speed: here it is
// the estimator that is tested.
func survey(random *rand.Rand, truths, levelOf []int, levels []privacy.Epsilon, m int) []Counts {
	counts, retention := make([]Counts, len(levels)), make([]float64, len(levels))
	for i, e := range levels {
		counts[i] = ofValues(e, make([]int64, m))
		retention[i] = math.Expm1(e.Float64()) / (math.Exp(e.Float64()) + float64(m) - 1)
	}
	for object, truth := range truths {
		level := levelOf[object]
		if random.Float64() >= retention[level] {
			truth = random.IntN(m)
		}
		counts[level].ByValue[truth]++
	}
	return counts
}

// optionsOf lists the ways to combine levels.
func optionsOf(confidence float64) []Options {
	return []Options{
		{Confidence: confidence}, {Confidence: confidence, Pool: true},
		{Confidence: confidence, Population: true}, {Confidence: confidence, Pool: true, Population: true},
	}
}

// TestIntervalIsTheScoreInterval computes all parts of a Frequency from the formulas, also for
// estimates outside [0,1], where the plug-in for the true share is the nearest possible one.
func TestIntervalIsTheScoreInterval(t *testing.T) {
	for confidence, z := range map[float64]float64{ // quantiles from mpmath
		0.5: 0.674489750196081816, 0.9: 1.64485362695147308, 0.95: 1.95996398454005405, 0.999: 3.2905267314918949,
	} {
		for _, levels := range [][]Counts{
			{ofValues(eps(t, "1"), []int64{10, 20, 30})},
			{ofValues(eps(t, "1"), []int64{60, 0, 0})},
			{ofValues(eps(t, "6"), []int64{60, 0, 0, 0, 0, 0})},
			{ofValues(eps(t, "1"), []int64{60, 1}), ofValues(eps(t, "2"), []int64{7, 8})},
			{ofValues(eps(t, "0.3"), []int64{90, 66}), ofValues(eps(t, "2"), []int64{70, 80}), ofValues(eps(t, "5"), []int64{10, 0})},
		} {
			var all described
			for _, c := range levels {
				all = append(all, describe(t, false, len(c.ByValue), c.Epsilon, float64(sum(c.ByValue))))
			}
			for _, o := range optionsOf(confidence) {
				for v, f := range estimateBy(t, o, levels...) {
					shares := make([]float64, len(levels))
					for i, c := range levels {
						shares[i] = estimate(t, 0.5, c)[v].Estimate
					}
					all.check(t, o, z, shares, f)
				}
			}
		}
	}
}

// TestPooledLevelsCountByPrecision combines two levels by hand, with weights n·λ².
func TestPooledLevelsCountByPrecision(t *testing.T) {
	low, high := ofValues(eps(t, "0.5"), []int64{10, 20, 30}), ofValues(eps(t, "2"), []int64{50, 30, 40})
	λ := func(c Counts) float64 { return math.Expm1(c.Epsilon.Float64()) / (math.Exp(c.Epsilon.Float64()) + 2) }
	wLow, wHigh := 60*λ(low)*λ(low), 120*λ(high)*λ(high)
	alone, other := estimate(t, 0.9, low), estimate(t, 0.9, high)
	for v, f := range estimateBy(t, Options{Confidence: 0.9, Pool: true}, low, high) {
		want := (wLow*alone[v].Estimate + wHigh*other[v].Estimate) / (wLow + wHigh)
		wantNear(t, fmt.Sprintf("value %d", v), f.Estimate, want, 1e-13)
	}
}

// TestLevelsCountByTheirObjects combines two levels by hand, of which one has twice as many
// objects.
func TestLevelsCountByTheirObjects(t *testing.T) {
	low, high := ofValues(eps(t, "0.5"), []int64{10, 20, 30}), ofValues(eps(t, "2"), []int64{50, 30, 40})
	alone, other := estimate(t, 0.9, low), estimate(t, 0.9, high)
	for v, f := range estimate(t, 0.9, low, high) {
		wantNear(t, fmt.Sprintf("value %d", v), f.Estimate, (alone[v].Estimate+2*other[v].Estimate)/3, 1e-13)
	}
}

// TestLevelsWithoutResponsesDoNotCount leaves empty levels out, also for the question of whether
// the population was parted at all.
func TestLevelsWithoutResponsesDoNotCount(t *testing.T) {
	full, empty := ofValues(eps(t, "1"), []int64{3, 4}), ofValues(eps(t, "2"), []int64{0, 0})
	want := estimate(t, 0.9, full)
	for v, f := range estimate(t, 0.9, empty, full, empty) {
		check.That(t, f == want[v], "value %d: %+v with an empty level, %+v without", v, f, want[v])
	}
}

// TestEstimateAtTheEdges takes counts and ε at their limits: the numbers stay finite.
func TestEstimateAtTheEdges(t *testing.T) {
	for _, c := range []Counts{
		ofValues(privacy.MaxEpsilon(), []int64{1, 0}),
		ofValues(privacy.MaxEpsilon(), []int64{math.MaxInt64, math.MaxInt64, 0}),
		ofValues(fromNano(t, 1), []int64{0, 0, 1}),
		ofValues(eps(t, "1"), []int64{1, 0}),
		ofValues(fromNano(t, 1), append(make([]int64, maxValues-1), 1)),
	} {
		for _, levels := range [][]Counts{{c}, {c, c}, {c, ofValues(eps(t, "3"), c.ByValue)}} {
			for _, o := range optionsOf(math.Nextafter(1, 0))[:pace.Tries(2, 4, 4)] {
				for v, f := range estimateBy(t, o, levels...) {
					wantFinite(t, f, "ε=%v, %d levels, value %d", c.Epsilon, len(levels), v)
				}
			}
		}
	}
	for v, f := range estimate(t, 0.9, ofValues(privacy.MaxEpsilon(), []int64{3, 1, 0})) {
		want := []float64{0.75, 0.25, 0}[v]
		check.That(t, f.Estimate == want, "at ε=1000 the share of value %d is %v, want %v", v, f.Estimate, want)
	}
}

func TestEstimateRefuses(t *testing.T) {
	one := eps(t, "1")
	good := ofValues(one, []int64{1, 2})
	for _, c := range []struct {
		name       string
		confidence float64
		levels     []Counts
		names      string
	}{
		{"confidence 0", 0, []Counts{good}, "confidence 0 "},
		{"confidence 1", 1, []Counts{good}, "confidence 1 "},
		{"confidence below 0", -0.5, []Counts{good}, "confidence -0.5"},
		{"confidence in per cent", 95, []Counts{good}, "confidence 95"},
		{"confidence NaN", math.NaN(), []Counts{good}, "confidence NaN"},
		{"confidence Inf", math.Inf(1), []Counts{good}, "confidence +Inf"},
		{"no level", 0.9, nil, "no responses"},
		{"no responses", 0.9, []Counts{ofValues(one, []int64{0, 0}), ofValues(one, []int64{0, 0})}, "no responses"},
		{"negative count", 0.9, []Counts{ofValues(one, []int64{5, -1})}, "value 1 was counted -1 times"},
		{"negative count in the second level", 0.9, []Counts{good, ofValues(one, []int64{-7, 9})}, "value 0 was counted -7 times"},
		{"no values", 0.9, []Counts{ofValues(one, nil)}, "0 values"},
		{"one value", 0.9, []Counts{ofValues(one, []int64{5})}, "1 values"},
		{"too many values", 0.9, []Counts{ofValues(one, make([]int64, maxValues+1))}, "1048577 values"},
		{"mixed values", 0.9, []Counts{good, ofValues(one, []int64{1, 2, 3})}, "levels with 2 and with 3 values"},
		{"mixed values, one without responses", 0.9, []Counts{ofValues(one, []int64{0, 0, 0}), good}, "levels with 3 and with 2 values"},
		{"ε=0", 0.9, []Counts{ofValues(privacy.Epsilon{}, []int64{1, 2})}, "ε=0"},
		{"ε=0 in the second level", 0.9, []Counts{good, ofValues(privacy.Epsilon{}, []int64{0, 0})}, "ε=0"},
	} {
		got, err := Frequencies(Options{Confidence: c.confidence}, c.levels...)
		check.That(t, got == nil && errors.Is(err, rrchain.ErrInvalid) && strings.Contains(err.Error(), c.names),
			"%s: %v, %v; want an error that names %q", c.name, got, err, c.names)
	}
}

func TestVarianceRefuses(t *testing.T) {
	one := eps(t, "1")
	for name, truth := range map[string]Counts{
		"no objects":     ofValues(one, []int64{0, 0}),
		"one value":      ofValues(one, []int64{5}),
		"negative count": ofValues(one, []int64{5, -1}),
		"ε=0":            ofValues(privacy.Epsilon{}, []int64{1, 2}),
	} {
		got, err := Variance(truth)
		check.That(t, got == nil && errors.Is(err, rrchain.ErrInvalid), "%s: %v, %v", name, got, err)
	}
}

func estimate(t *testing.T, confidence float64, levels ...Counts) []Frequency {
	t.Helper()
	return estimateBy(t, Options{Confidence: confidence}, levels...)
}

func estimateBy(t *testing.T, o Options, levels ...Counts) []Frequency {
	t.Helper()
	return must(Frequencies(o, levels...))
}

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}
