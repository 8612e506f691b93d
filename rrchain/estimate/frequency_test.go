package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
)

// estimatorRow is a row of estimator.json.
type estimatorRow struct {
	Epsilon   string   `json:"epsilon"`
	Observed  []int64  `json:"observed_counts"`
	Frequency []string `json:"frequency_estimate"`
	True      []int64  `json:"true_counts"`
	Variance  []string `json:"estimator_variance_given_true_counts"`
}

func TestFrequencies_AgreeWithVectors(t *testing.T) {
	for i, row := range vectors[estimatorRow](t, "estimator.json") {
		got := estimate(0.95, ofValues(eps(row.Epsilon), row.Observed))
		for v, want := range row.Frequency {
			wantNear(t, fmt.Sprintf("row %d, share of value %d", i, v), got[v].Estimate, want, 1e-13)
		}
		variances := must(Variance(ofValues(eps(row.Epsilon), row.True)))
		for v, want := range row.Variance {
			wantNear(t, fmt.Sprintf("row %d, variance of value %d", i, v), variances[v], want, 1e-13)
		}
	}
}

// experiment is a small population that is divided at random into levels of given sizes. Tests
// enumerate all partitions and all responses.
type experiment struct {
	name   string
	unary  bool
	m      int
	truths []int // the value of each object
	levels []sized
}

type sized struct {
	epsilon string
	objects int
}

var experiments = []experiment{
	{"one level, m=2", false, 2, []int{0, 1, 1, 0, 1, 1}, []sized{{"0.7", 6}}},
	{"one level, m=3", false, 3, []int{0, 1, 1, 0, 1}, []sized{{"1.5", 5}}},
	{"one level, one value", false, 3, []int{2, 2, 2, 2, 2, 2}, []sized{{"0.1", 6}}},
	{"two levels, m=2", false, 2, []int{0, 1, 1, 0, 1, 1}, []sized{{"0.5", 2}, {"2", 4}}},
	{"two levels, m=3", false, 3, []int{0, 1, 1, 0, 2}, []sized{{"3", 3}, {"0.5", 2}}},
	{"three levels, m=2", false, 2, []int{1, 0, 0, 0, 0, 0}, []sized{{"0.5", 1}, {"1", 2}, {"2", 3}}},
	{"three levels, m=3", false, 3, []int{0, 1, 2, 2, 1}, []sized{{"2", 2}, {"1", 2}, {"0.3", 1}}},
	{"one level twice, m=3", false, 3, []int{0, 1, 2, 2, 1}, []sized{{"1", 2}, {"1", 3}}},
	{"unary, one level, m=2", true, 2, []int{0, 1, 1, 0, 1}, []sized{{"0.7", 5}}},
	{"unary, one level, m=3", true, 3, []int{0, 1, 1, 2}, []sized{{"1.5", 4}}},
	{"unary, one level, one value", true, 3, []int{2, 2, 2}, []sized{{"0.1", 3}}},
	{"unary, two levels, m=2", true, 2, []int{0, 1, 1, 0, 1}, []sized{{"0.5", 2}, {"2", 3}}},
	{"unary, two levels, m=3", true, 3, []int{0, 1, 1, 2}, []sized{{"3", 3}, {"0.5", 1}}},
	{"unary, three levels, m=2", true, 2, []int{1, 0, 0, 0}, []sized{{"0.5", 1}, {"1", 1}, {"2", 2}}},
	{"unary, one level twice, m=3", true, 3, []int{0, 1, 2}, []sized{{"1", 2}, {"1", 1}}},
}

// TestFrequencies_AnyPopulation_AreUnbiased sums over all partitions and all responses, with levels
// pooled and stratified: the mean of the estimate is the true share, and its variance is the one
// that intervals are made of. In unary encoding these are all populations of four objects with two
// values and of three with three, too, at one level and at two.
func TestFrequencies_AnyPopulation_AreUnbiased(t *testing.T) {
	all := slices.Clone(experiments)
	for _, c := range []struct{ m, n int }{{2, 4}, {3, 3}} {
		for code := range power(int64(c.m), c.n) {
			for _, levels := range [][]sized{{{"1.2", c.n}}, {{"2.5", 1}, {"0.4", c.n - 1}}} {
				truths := digits(code, int64(c.m), c.n)
				all = append(all, experiment{fmt.Sprint("unary, ", truths, levels), true, c.m, truths, levels})
			}
		}
	}
	for _, x := range all {
		for _, pool := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pool=%v", x.name, pool), func(t *testing.T) { x.checkMoments(t, pool) })
		}
	}
}

func (x experiment) checkMoments(t *testing.T, pool bool) {
	mean, square, total := make([]float64, x.m), make([]float64, x.m), 0.0
	x.enumerate(x.partitions(nil), func(probability float64, levels []Counts) {
		total += probability
		for v, f := range estimateBy(Options{Confidence: 0.9, Pool: pool}, levels...) {
			mean[v] += probability * f.Estimate
			square[v] += probability * (f.Estimate - x.share(v)) * (f.Estimate - x.share(v))
		}
	})
	wantNear(t, "the sum of all probabilities", total, 1, 1e-12)
	stated := x.stated().law(pool, false)
	for v := range x.m {
		check.That(t, math.Abs(mean[v]-x.share(v)) <= 1e-12,
			"the mean estimate of value %d is %v, want %v", v, mean[v], x.share(v))
		wantNear(t, fmt.Sprintf("the variance for value %d", v), stated.at(x.share(v)), square[v], 1e-11)
	}
	if len(x.levels) > 1 { // Variance speaks of a single level
		return
	}
	truth := Counts{Unary: x.unary, Epsilon: eps(x.levels[0].epsilon), ByValue: make([]int64, x.m)}
	for _, v := range x.truths {
		truth.ByValue[v]++
	}
	for v, variance := range must(Variance(truth)) {
		wantNear(t, fmt.Sprintf("Variance for value %d", v), variance, square[v], 1e-11)
	}
}

// TestVariance_AnyEpsilon_IsTheFormula computes the variance (n_v·p(1−p) + (n−n_v)·q(1−q)) /
// (n²(p−q)²) with many digits. Where ε is large, 1 − p is far smaller than a float64 can hold
// beside 1.
func TestVariance_AnyEpsilon_IsTheFormula(t *testing.T) {
	for _, e := range []string{"0.000000001", "0.01", "1", "5", "20", "30", "38", "80", "600"} {
		for _, truth := range [][]int64{{8, 0}, {1, 2}, {0, 5, 6}, {1000, 30, 0, 1, 0}, append(make([]int64, 99), 7)} {
			for _, unary := range []bool{false, true} {
				if e == "600" && !unary {
					continue // the reference, too, has no digits left of 1 − p
				}
				var p, q any = response(int64(len(truth)), eps(e).Nano())
				if unary {
					p, q = 0.5, quo(1, add(middle(exact.Exp(eps(e).Nano(), 1200)), 1))
				}
				got := must(Variance(Counts{Unary: unary, Epsilon: eps(e), ByValue: truth}))
				n := sum(truth)
				for v, holders := range truth {
					spread := add(mul(mul(holders, p), sub(1, p)), mul(mul(n-holders, q), sub(1, q)))
					gap := mul(n, sub(p, q))
					name := fmt.Sprintf("unary=%v, ε=%s, value %d of %v", unary, e, v, truth)
					wantNear(t, name, got[v], quo(spread, mul(gap, gap)), 1e-13)
				}
			}
		}
	}
}

// TestFrequencies_TwoLevels_HaveTheirWeights combines two levels by hand: by their objects, or
// pooled, with the weights n·λ², and in unary encoding with the inverse variances for equally
// common values.
func TestFrequencies_TwoLevels_HaveTheirWeights(t *testing.T) {
	low, high := ofValues(eps("0.5"), []int64{10, 20, 30}), ofValues(eps("2"), []int64{50, 30, 40})
	for name, c := range map[string]struct {
		low, high Counts
		pool      bool
		weight    func(n, e float64) float64 // of n objects, e^ε
	}{
		"by their objects": {low, high, false, func(n, _ float64) float64 { return n }},
		"pooled":           {low, high, true, func(n, e float64) float64 { return n * (e - 1) / (e + 2) * (e - 1) / (e + 2) }},
		"pooled, unary": {
			ofBits(eps("0.5"), 60, []int64{30, 20, 24}), ofBits(eps("2"), 120, []int64{50, 30, 40}), true,
			func(n, e float64) float64 {
				q := 1 / (e + 1)
				return n * (0.5 - q) * (0.5 - q) / ((q + (0.5-q)/3) * (1 - q - (0.5-q)/3))
			},
		},
	} {
		wLow, wHigh := c.weight(60, math.Exp(0.5)), c.weight(120, math.Exp(2))
		alone, other := estimate(0.9, c.low), estimate(0.9, c.high)
		for v, f := range estimateBy(Options{Confidence: 0.9, Pool: c.pool}, c.low, c.high) {
			want := (wLow*alone[v].Estimate + wHigh*other[v].Estimate) / (wLow + wHigh)
			wantNear(t, fmt.Sprintf("%s, value %d", name, v), f.Estimate, want, 1e-13)
		}
	}
}

// TestFrequencies_LevelWithoutResponses_DoesNotCount leaves empty levels out, also for the question
// of whether the population was parted at all.
func TestFrequencies_LevelWithoutResponses_DoesNotCount(t *testing.T) {
	for _, c := range []struct{ full, empty Counts }{
		{ofValues(eps("1"), []int64{3, 4}), ofValues(eps("2"), []int64{0, 0})},
		{ofBits(eps("1"), 7, []int64{3, 4}), ofBits(eps("2"), 0, []int64{0, 0})},
	} {
		want := estimate(0.9, c.full)
		for v, f := range estimate(0.9, c.empty, c.full, c.empty) {
			check.Equal(t, f, want[v], "%+v, value %d with an empty level", c.full, v)
		}
	}
}

// TestFrequencies_CountsAndEpsilonAtTheirLimits_AreFinite takes counts and ε at their limits.
func TestFrequencies_CountsAndEpsilonAtTheirLimits_AreFinite(t *testing.T) {
	large, tiny, many := privacy.MaxEpsilon(), fromNano(1), append(make([]int64, maxValues-1), 1)
	for _, c := range []Counts{
		ofValues(large, []int64{1, 0}), ofValues(large, []int64{math.MaxInt64, math.MaxInt64, 0}),
		ofValues(tiny, []int64{0, 0, 1}), ofValues(tiny, many), ofValues(eps("1"), []int64{1, 0}),
		ofBits(large, 1, []int64{1, 0}), ofBits(large, math.MaxInt64, []int64{math.MaxInt64, math.MaxInt64, 0}),
		ofBits(tiny, math.MaxInt64, []int64{0, 0, 1}), ofBits(tiny, 1, []int64{0, 1}), ofBits(eps("1"), 1, many),
	} {
		other := c
		other.Epsilon = eps("3")
		for _, levels := range [][]Counts{{c}, {c, c}, {c, other}} {
			for _, o := range optionsOf(math.Nextafter(1, 0))[:testenv.Tries(2, 4, 4)] {
				for v, f := range estimateBy(o, levels...) {
					wantFinite(t, f, "ε=%v, %d levels, value %d", c.Epsilon, len(levels), v)
				}
			}
		}
	}
	for _, c := range []Counts{ofValues(large, []int64{3, 1, 0}), ofBits(large, 8, []int64{3, 1, 0})} {
		for v, f := range estimate(0.9, c) {
			check.Equal(t, f.Estimate, []float64{0.75, 0.25, 0}[v], "at ε=1000 the share of value %d", v)
		}
	}
	for v, variance := range unaryVariance(ofValues(eps("1"), []int64{math.MaxInt64, math.MaxInt64})) {
		check.That(t, variance > 0 && variance < 1e-18, "the variance of value %d among 2⁶⁴ objects is %v", v, variance)
	}
}

// TestInterval_AnyCounts_IsTheScoreInterval computes all parts of a Frequency from the formulas,
// also for estimates outside [0,1], where the plug-in for the true share is the nearest possible
// one.
func TestInterval_AnyCounts_IsTheScoreInterval(t *testing.T) {
	for confidence, z := range map[float64]float64{ // quantiles from mpmath
		0.5: 0.674489750196081816, 0.9: 1.64485362695147308, 0.95: 1.95996398454005405, 0.999: 3.2905267314918949,
	} {
		for _, levels := range [][]Counts{
			{ofValues(eps("1"), []int64{10, 20, 30})},
			{ofValues(eps("1"), []int64{60, 0, 0})},
			{ofValues(eps("6"), []int64{60, 0, 0, 0, 0, 0})},
			{ofValues(eps("1"), []int64{60, 1}), ofValues(eps("2"), []int64{7, 8})},
			{ofValues(eps("0.3"), []int64{90, 66}), ofValues(eps("2"), []int64{70, 80}), ofValues(eps("5"), []int64{10, 0})},
			{ofBits(eps("1"), 60, []int64{30, 20, 10})},
			{ofBits(eps("1"), 60, []int64{60, 0, 13})},
			{ofBits(eps("1"), 60, []int64{60, 0, 1}), ofBits(eps("2"), 30, []int64{17, 8, 9})},
		} {
			var all described
			for _, c := range levels {
				n := sum(c.ByValue)
				if c.Unary {
					n = c.Objects
				}
				all = append(all, describe(c.Unary, len(c.ByValue), c.Epsilon, float64(n)))
			}
			for _, o := range optionsOf(confidence) {
				for v, f := range estimateBy(o, levels...) {
					shares := make([]float64, len(levels))
					for i, c := range levels {
						shares[i] = estimate(0.5, c)[v].Estimate
					}
					all.check(t, o, z, shares, f)
				}
			}
		}
	}
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
			x.enumerate([][]int{partition}, func(probability float64, levels []Counts) {
				for v, f := range estimate(0.9, levels...) {
					mean[v] += probability * f.Estimate
				}
				for v, f := range estimateBy(Options{Confidence: 0.9, Pool: true}, levels...) {
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

// stated returns the parameters of the levels for the formulas.
func (x experiment) stated() (all described) {
	for _, level := range x.levels {
		all = append(all, describe(x.unary, x.m, eps(level.epsilon), float64(level.objects)))
	}
	return all
}

// enumerate calls visit with all counts that can be observed. All partitions are equally likely. In
// unary encoding, bit v of an object's response is bit v of its number.
func (x experiment) enumerate(partitions [][]int, visit func(probability float64, levels []Counts)) {
	responses, laws := int64(x.m), x.stated()
	if x.unary {
		responses = 1 << x.m
	}
	for _, levelOf := range partitions {
		for code := range power(responses, len(x.truths)) {
			probability := 1 / float64(len(partitions))
			levels := make([]Counts, len(x.levels))
			for i, level := range x.levels {
				levels[i] = ofValues(eps(level.epsilon), make([]int64, x.m))
				if x.unary {
					levels[i] = ofBits(eps(level.epsilon), int64(level.objects), make([]int64, x.m))
				}
			}
			for object, response := range digits(code, responses, len(x.truths)) {
				level := levelOf[object]
				for v := range x.m {
					isTruth, has := v == x.truths[object], response == v
					if x.unary {
						has = response>>v&1 == 1
					}
					if has {
						levels[level].ByValue[v]++
					}
					switch {
					case x.unary && isTruth:
						probability /= 2
					case has && isTruth:
						probability *= laws[level].p
					case has:
						probability *= laws[level].q
					case x.unary:
						probability *= 1 - laws[level].q
					}
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

// The test draws 10,000 surveys of 2,500 objects at mixed levels, with a fixed seed. The interval
// must contain the true share in 95 % of them. It may differ by 0.5 % for the normal approximation,
// and be 0.5 % higher for the continuity correction and for shares that may differ between levels.
// An interval that is 15 % too short covers 90 %, and must fail.
func TestInterval_DrawnSurveys_CoversItsConfidence(t *testing.T) {
	for _, o := range optionsOf(0.95)[:2] {
		for v, c := range coverage(o, []int64{1250, 750, 375, 125}) {
			c.Held(0.945, 0.96).Holds(t, "%+v, value %d: the interval holds the true share", o, v)
			c.HeldShort(0.945, 0.96).Fails(t, "%+v, value %d: an interval that is too short holds it", o, v)
		}
	}
}

// surveys is the number of surveys. tooShort is the share of the width that intervals lack if the
// test must fail.
const surveys, tooShort = 10_000 / (stattest.Coarser * stattest.Coarser), 0.15 * stattest.Coarser

// covers returns the counters of intervals for a number of values.
func covers(values int) []intervalCoverage {
	return slices.Repeat([]intervalCoverage{{Short: tooShort}}, values)
}

// coverage counts, for each value, the surveys whose interval holds the true share.
func coverage(o Options, holders []int64) []intervalCoverage {
	random := rand.New(rand.NewPCG(7, 8))
	var truths, levelOf []int
	for v, n := range holders {
		for range n {
			levelOf = append(levelOf, len(truths)%5/2) // two fifths, two fifths, one fifth
			truths = append(truths, v)
		}
	}
	levels := []privacy.Epsilon{eps("0.5"), eps("1"), eps("2")}
	covered := covers(len(holders))
	for range surveys {
		random.Shuffle(len(levelOf), func(i, j int) { levelOf[i], levelOf[j] = levelOf[j], levelOf[i] })
		for v, f := range estimateBy(o, survey(random, truths, levelOf, levels, len(holders))...) {
			share := float64(holders[v]) / float64(len(truths))
			covered[v].Add(middleOf(f)-share, (f.High-f.Low)/2)
		}
	}
	return covered
}

// survey draws one response of each object. It uses ordinary random numbers for speed, because only
// the estimator is tested.
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

// optionsOf returns all ways to combine levels.
func optionsOf(confidence float64) []Options {
	return []Options{
		{Confidence: confidence}, {Confidence: confidence, Pool: true},
		{Confidence: confidence, Population: true}, {Confidence: confidence, Pool: true, Population: true},
	}
}

func TestFrequencies_InvalidArguments_AreRefused(t *testing.T) {
	one := eps("1")
	good := ofValues(one, []int64{1, 2})
	wantRefused(t, []refusal{
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
		{"mixed values", 0.9, []Counts{good, ofValues(one, []int64{1, 2, 3})}, "numbers of values, 2 and 3"},
		{"mixed values, one without responses", 0.9, []Counts{ofValues(one, []int64{0, 0, 0}), good}, "numbers of values, 3 and 2"},
		{"ε=0", 0.9, []Counts{ofValues(privacy.Epsilon{}, []int64{1, 2})}, "ε=0"},
		{"ε=0 in the second level", 0.9, []Counts{good, ofValues(privacy.Epsilon{}, []int64{0, 0})}, "ε=0"},
	})
}

func TestVariance_NoPopulation_IsRefused(t *testing.T) {
	for _, unary := range []bool{false, true} {
		wantVarianceRefused(t, map[string]Counts{
			"no objects":       {Unary: unary, Epsilon: eps("1"), ByValue: []int64{0, 0}},
			"one value":        {Unary: unary, Epsilon: eps("1"), ByValue: []int64{5}},
			"a negative count": {Unary: unary, Epsilon: eps("1"), ByValue: []int64{5, -1}},
			"ε=0":              {Unary: unary, ByValue: []int64{1, 2}},
		})
	}
}

func estimate(confidence float64, levels ...Counts) []Frequency {
	return estimateBy(Options{Confidence: confidence}, levels...)
}

func estimateBy(o Options, levels ...Counts) []Frequency { return must(Frequencies(o, levels...)) }

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}
