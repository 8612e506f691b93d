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
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// TestUnaryEstimates compares with numbers from mpmath, by the formulas in the comments. An error
// is measured in standard errors, because for a small ε the estimates are differences of large
// numbers.
func TestUnaryEstimates(t *testing.T) {
	for _, c := range []struct {
		epsilon string
		objects int64
		counts  []int64
		want    []string // (n_v/n − q)/(1/2 − q)
	}{
		{"0.5", 1000, []int64{412, 377, 398, 385}, []string{
			"0.2813940829470470039858516", "-0.004415088608104755792502895", "0.1670704143249863000745098", "0.06091272203307278929969242",
		}},
		{"2", 250, []int64{81, 30, 25}, []string{"0.5378115795042353811200712", "0.002093183020508209236517452", "-0.050428228399465042908929"}},
		{"0.000000001", 10, []int64{5, 6}, []string{"1", "400000001.0000000000333333"}},
		{"12.5", 100_000, []int64{25001, 12499, 3, 12502, 9}, []string{
			"0.5000162734820066081112718", "0.2499744098503432061594785", "0.00005254711307989862551524565",
			"0.2500344102975432533683935", "0.0001725480074799930433452536",
		}},
	} {
		for v, f := range estimate(t, 0.95, ofBits(eps(t, c.epsilon), c.objects, c.counts)) {
			if off, _ := sub(f.Estimate, c.want[v]).Float64(); math.Abs(off) > 1e-13*f.StdErr {
				t.Errorf("ε=%s, value %d: %.20g, want %s", c.epsilon, v, f.Estimate, c.want[v])
			}
		}
	}
	for _, c := range []struct {
		epsilon string
		truth   []int64
		want    []string // (n_v/4 + (n−n_v)·q(1−q)) / (n²(1/2−q)²)
	}{
		{"0.5", []int64{600, 300, 100, 0}, []string{
			"0.01627079235613105505940383", "0.01597079235613105505940383", "0.01577079235613105505940383", "0.01567079235613105505940383",
		}},
		{"2", []int64{7, 0, 0}, []string{"0.2462945229951872094868555", "0.1034373801380443523439984", "0.1034373801380443523439984"}},
		{"0.000000001", []int64{3, 4}, []string{"571428571428571428.585034", "571428571428571428.6054422"}},
		{"40", []int64{5, 0, 1}, []string{"0.1388888888888888917211251", "2.832236170194392687617508e-18", "0.02777777777777778061001395"}},
	} {
		got := unaryVariance(t, ofValues(eps(t, c.epsilon), c.truth))
		for v, want := range c.want {
			wantNear(t, fmt.Sprintf("ε=%s, variance of value %d", c.epsilon, v), got[v], want, 1e-13)
		}
	}
}

// TestUnaryVarianceAtAnyEpsilon computes the formula with many digits.
func TestUnaryVarianceAtAnyEpsilon(t *testing.T) {
	for _, e := range []string{"0.000000001", "0.01", "1", "5", "20", "30", "38", "80", "600"} {
		for _, truth := range [][]int64{{8, 0}, {1, 2}, {0, 5, 6}, {1000, 30, 0, 1, 0}, append(make([]int64, 99), 7)} {
			epsilon := eps(t, e)
			got := unaryVariance(t, ofValues(epsilon, truth))
			q := quo(1, add(middle(exact.Exp(epsilon.Nano(), 1200)), 1))
			n := sum(truth)
			for v, holders := range truth {
				spread := add(mul(holders, 0.25), mul(mul(n-holders, q), sub(1, q)))
				gap := mul(n, sub(0.5, q))
				wantNear(t, fmt.Sprintf("ε=%s, value %d of %v", e, v, truth), got[v], quo(spread, mul(gap, gap)), 1e-13)
			}
		}
	}
}

var unaryExperiments = []experiment{
	{"one level, m=2", 2, []int{0, 1, 1, 0, 1}, []sized{{"0.7", 5}}},
	{"one level, m=3", 3, []int{0, 1, 1, 2}, []sized{{"1.5", 4}}},
	{"one level, one value", 3, []int{2, 2, 2}, []sized{{"0.1", 3}}},
	{"two levels, m=2", 2, []int{0, 1, 1, 0, 1}, []sized{{"0.5", 2}, {"2", 3}}},
	{"two levels, m=3", 3, []int{0, 1, 1, 2}, []sized{{"3", 3}, {"0.5", 1}}},
	{"three levels, m=2", 2, []int{1, 0, 0, 0}, []sized{{"0.5", 1}, {"1", 1}, {"2", 2}}},
	{"one level twice, m=3", 3, []int{0, 1, 2}, []sized{{"1", 2}, {"1", 1}}},
}

// TestUnaryEstimateIsUnbiased sums over all partitions and all responses, as TestEstimateIsUnbiased
// does.
func TestUnaryEstimateIsUnbiased(t *testing.T) {
	for _, x := range unaryExperiments {
		t.Run(x.name, func(t *testing.T) { x.checkUnary(t) })
	}
}

// TestUnaryEstimateIsUnbiasedForEveryPopulation goes over all populations of four objects with two
// values and of three with three, at one level and at two.
func TestUnaryEstimateIsUnbiasedForEveryPopulation(t *testing.T) {
	for _, c := range []struct{ m, n int }{{2, 4}, {3, 3}} {
		for code := range power(int64(c.m), c.n) {
			truths := digits(code, int64(c.m), c.n)
			for _, levels := range [][]sized{{{"1.2", c.n}}, {{"2.5", 1}, {"0.4", c.n - 1}}} {
				experiment{"", c.m, truths, levels}.checkUnary(t)
			}
		}
	}
}

func (x experiment) checkUnary(t *testing.T) {
	for _, pool := range []bool{false, true} {
		x.checkUnaryMoments(t, pool)
	}
}

func (x experiment) checkUnaryMoments(t *testing.T, pool bool) {
	mean, square, total := make([]float64, x.m), make([]float64, x.m), 0.0
	x.enumerateUnary(t, func(probability float64, levels []Counts) {
		total += probability
		for v, f := range estimateBy(t, Options{Confidence: 0.9, Pool: pool}, levels...) {
			mean[v] += probability * f.Estimate
			square[v] += probability * (f.Estimate - x.share(v)) * (f.Estimate - x.share(v))
		}
	})
	wantNear(t, "the sum of all probabilities", total, 1, 1e-12)
	stated := x.stated(t, true).law(pool, false)
	for v := range x.m {
		if math.Abs(mean[v]-x.share(v)) > 1e-12 {
			t.Errorf("%v: the mean estimate of value %d is %v, want %v", x, v, mean[v], x.share(v))
		}
		wantNear(t, fmt.Sprintf("%v: the variance for value %d", x, v), stated.at(x.share(v)), square[v], 1e-11)
	}
	if len(x.levels) == 1 {
		truth := ofValues(eps(t, x.levels[0].epsilon), make([]int64, x.m))
		for _, v := range x.truths {
			truth.ByValue[v]++
		}
		for v, variance := range unaryVariance(t, truth) {
			wantNear(t, fmt.Sprintf("%v: Variance for value %d", x, v), variance, square[v], 1e-11)
		}
	}
}

// enumerateUnary calls visit with all counts that can be observed in unary encoding. Every
// partition into levels of the given sizes is equally likely. Bit v of an object's response is bit
// v of a digit.
func (x experiment) enumerateUnary(t *testing.T, visit func(probability float64, levels []Counts)) {
	partitions := x.partitions(nil)
	responses := int64(1) << x.m
	often := make([]float64, len(x.levels))
	for i, level := range x.levels {
		often[i] = 1 / (math.Exp(eps(t, level.epsilon).Float64()) + 1)
	}
	for _, levelOf := range partitions {
		for code := range power(responses, len(x.truths)) {
			probability := 1 / float64(len(partitions))
			levels := make([]Counts, len(x.levels))
			for i, level := range x.levels {
				levels[i] = ofBits(eps(t, level.epsilon), int64(level.objects), make([]int64, x.m))
			}
			for object, response := range digits(code, responses, len(x.truths)) {
				level := levelOf[object]
				for v := range x.m {
					bit := response >> v & 1
					levels[level].ByValue[v] += int64(bit)
					switch {
					case v == x.truths[object]:
						probability /= 2
					case bit == 1:
						probability *= often[level]
					default:
						probability *= 1 - often[level]
					}
				}
			}
			visit(probability, levels)
		}
	}
}

// TestUnaryIntervalCoversAsOftenAsItSays is TestIntervalCoversAsOftenAsItSays in unary encoding,
// with the same sizes and slack. Given the objects of a level, the counts of its bits are sums of
// two binomial numbers.
func TestUnaryIntervalCoversAsOftenAsItSays(t *testing.T) {
	holders := []int{1250, 750, 375, 125}
	levels, sizes := []privacy.Epsilon{eps(t, "0.5"), eps(t, "1"), eps(t, "2")}, []int{1000, 1000, 500}
	source := rand.NewPCG(18, 19)
	random := rand.New(source)
	covered := covers(len(holders))
	for range surveys {
		for v, f := range estimate(t, 0.95, unarySurvey(random, source, holders, levels, sizes)...) {
			covered[v].Add(middleOf(f)-float64(holders[v])/2500, (f.High-f.Low)/2)
		}
	}
	for v, c := range covered {
		c.Held(0.945, 0.96).Holds(t, "value %d: the interval holds the true share", v)
		c.HeldShort(0.945, 0.96).Fails(t, "value %d: an interval that is too short holds it", v)
	}
}

// unarySurvey parts the objects at random among levels of given sizes and draws their responses.
func unarySurvey(random *rand.Rand, source rand.Source, holders []int, levels []privacy.Epsilon, sizes []int) []Counts {
	left := slices.Clone(holders)
	var counts []Counts
	for i, size := range sizes {
		level := ofBits(levels[i], int64(size), make([]int64, len(holders)))
		often := 1 / (math.Exp(levels[i].Float64()) + 1)
		for v, n := range hand(random, left, size) {
			level.ByValue[v] = stattest.Binomial(source, int64(n), 0.5) + stattest.Binomial(source, int64(size-n), often)
		}
		counts = append(counts, level)
	}
	return counts
}

// hand takes objects at random from those left, and returns how many have each value.
func hand(random *rand.Rand, left []int, size int) []int {
	taken, all := make([]int, len(left)), 0
	for _, n := range left {
		all += n
	}
	for ; size > 0; size-- {
		v, at := 0, random.IntN(all)
		for ; at >= left[v]; v++ {
			at -= left[v]
		}
		taken[v]++
		left[v]--
		all--
	}
	return taken
}

// TestUnaryIntervalIsTheScoreInterval computes all parts of a Frequency from the formulas.
func TestUnaryIntervalIsTheScoreInterval(t *testing.T) {
	for _, levels := range [][]Counts{
		{ofBits(eps(t, "1"), 60, []int64{30, 20, 10})},
		{ofBits(eps(t, "1"), 60, []int64{60, 0, 13})},
		{ofBits(eps(t, "1"), 60, []int64{60, 0, 1}), ofBits(eps(t, "2"), 30, []int64{17, 8, 9})},
	} {
		var all described
		for _, c := range levels {
			all = append(all, describe(t, true, len(c.ByValue), c.Epsilon, float64(c.Objects)))
		}
		for _, o := range optionsOf(0.9) {
			for v, f := range estimateBy(t, o, levels...) {
				shares := make([]float64, len(levels))
				for i, c := range levels {
					shares[i] = estimate(t, 0.5, c)[v].Estimate
				}
				all.check(t, o, 1.64485362695147308, shares, f) // the quantile is from mpmath
			}
		}
	}
}

// TestPooledUnaryLevelsCountByPrecision combines two levels by hand, with the inverse variances for
// equally common values as the weights.
func TestPooledUnaryLevelsCountByPrecision(t *testing.T) {
	low, high := ofBits(eps(t, "0.5"), 60, []int64{30, 20, 24}), ofBits(eps(t, "2"), 120, []int64{50, 30, 40})
	inverse := func(c Counts) float64 {
		q := 1 / (math.Exp(c.Epsilon.Float64()) + 1)
		return float64(c.Objects) * (0.5 - q) * (0.5 - q) / ((q + (0.5-q)/3) * (1 - q - (0.5-q)/3))
	}
	wLow, wHigh := inverse(low), inverse(high)
	alone, other := estimate(t, 0.9, low), estimate(t, 0.9, high)
	for v, f := range estimateBy(t, Options{Confidence: 0.9, Pool: true}, low, high) {
		want := (wLow*alone[v].Estimate + wHigh*other[v].Estimate) / (wLow + wHigh)
		wantNear(t, fmt.Sprintf("value %d", v), f.Estimate, want, 1e-13)
	}
}

// TestUnaryLevelsWithoutResponsesDoNotCount leaves empty levels out.
func TestUnaryLevelsWithoutResponsesDoNotCount(t *testing.T) {
	full, empty := ofBits(eps(t, "1"), 7, []int64{3, 4}), ofBits(eps(t, "2"), 0, []int64{0, 0})
	want := estimate(t, 0.9, full)
	for v, f := range estimate(t, 0.9, empty, full, empty) {
		check.That(t, f == want[v], "value %d: %+v with an empty level, %+v without", v, f, want[v])
	}
}

// TestNoBitSetIsAResponse has only zeros in it, which is an estimate like any other.
func TestNoBitSetIsAResponse(t *testing.T) {
	for v, f := range estimate(t, 0.9, ofBits(eps(t, "1"), 5, []int64{0, 0})) {
		q := 1 / (math.E + 1)
		wantNear(t, fmt.Sprintf("value %d", v), f.Estimate, -q/(0.5-q), 1e-13)
	}
}

// TestUnaryEstimateAtTheEdges takes counts and ε at their limits: the numbers stay finite.
func TestUnaryEstimateAtTheEdges(t *testing.T) {
	for _, c := range []Counts{
		ofBits(privacy.MaxEpsilon(), 1, []int64{1, 0}),
		ofBits(privacy.MaxEpsilon(), math.MaxInt64, []int64{math.MaxInt64, math.MaxInt64, 0}),
		ofBits(fromNano(t, 1), math.MaxInt64, []int64{0, 0, 1}),
		ofBits(fromNano(t, 1), 1, []int64{0, 1}),
		ofBits(eps(t, "1"), 1, append(make([]int64, maxValues-1), 1)),
	} {
		for _, levels := range [][]Counts{{c}, {c, c}} {
			for _, o := range optionsOf(math.Nextafter(1, 0))[:pace.Tries(2, 4, 4)] {
				for v, f := range estimateBy(t, o, levels...) {
					wantFinite(t, f, "ε=%v, %d levels, value %d", c.Epsilon, len(levels), v)
				}
			}
		}
	}
	for v, f := range estimate(t, 0.9, ofBits(privacy.MaxEpsilon(), 8, []int64{3, 1, 0})) {
		want := []float64{0.75, 0.25, 0}[v]
		check.That(t, f.Estimate == want, "at ε=1000 the share of value %d is %v, want %v", v, f.Estimate, want)
	}
	for v, variance := range unaryVariance(t, ofValues(eps(t, "1"), []int64{math.MaxInt64, math.MaxInt64})) {
		check.That(t, variance > 0 && variance < 1e-18, "the variance of value %d among 2⁶⁴ objects is %v", v, variance)
	}
}

func TestUnaryEstimateRefuses(t *testing.T) {
	one := eps(t, "1")
	good := ofBits(one, 4, []int64{1, 2})
	for _, c := range []struct {
		name       string
		confidence float64
		levels     []Counts
		names      string
	}{
		{"no responses", 0.9, []Counts{ofBits(one, 0, []int64{0, 0}), ofBits(one, 0, []int64{0, 0})}, "no responses"},
		{"more bits than responses", 0.9, []Counts{ofBits(one, 4, []int64{1, 5})}, "value 1 was counted 5 times in 4 responses"},
		{"bits without responses", 0.9, []Counts{good, ofBits(one, 0, []int64{1, 0})}, "value 0 was counted 1 times in 0 responses"},
		{"fewer responses than none", 0.9, []Counts{good, ofBits(one, -1, []int64{0, 0})}, "value 0 was counted 0 times in -1 responses"},
		{"negative count", 0.9, []Counts{ofBits(one, 4, []int64{3, -1})}, "value 1 was counted -1 times"},
		{"negative everything", 0.9, []Counts{ofBits(one, -1, []int64{-1, -1})}, "value 0 was counted -1 times"},
		{"no values", 0.9, []Counts{ofBits(one, 4, nil)}, "0 values"},
		{"one value", 0.9, []Counts{ofBits(one, 4, []int64{2})}, "1 values"},
		{"too many values", 0.9, []Counts{ofBits(one, 4, make([]int64, maxValues+1))}, "1048577 values"},
		{"mixed values", 0.9, []Counts{good, ofBits(one, 4, []int64{1, 2, 3})}, "levels with 2 and with 3 values"},
		{"ε=0", 0.9, []Counts{ofBits(privacy.Epsilon{}, 4, []int64{1, 2})}, "ε=0"},
		{"ε=0 in the second level", 0.9, []Counts{good, ofBits(privacy.Epsilon{}, 0, []int64{0, 0})}, "ε=0"},
	} {
		got, err := Frequencies(Options{Confidence: c.confidence}, c.levels...)
		check.That(t, got == nil && errors.Is(err, rrchain.ErrInvalid) && strings.Contains(err.Error(), c.names),
			"%s: %v, %v; want an error that names %q", c.name, got, err, c.names)
	}
	for name, truth := range map[string]Counts{
		"no objects":     ofValues(one, []int64{0, 0}),
		"one value":      ofValues(one, []int64{5}),
		"negative count": ofValues(one, []int64{5, -1}),
		"ε=0":            ofValues(privacy.Epsilon{}, []int64{1, 2}),
	} {
		got, err := Variance(ofBits(truth.Epsilon, 0, truth.ByValue))
		check.That(t, got == nil && errors.Is(err, rrchain.ErrInvalid), "variance of %s: %v, %v", name, got, err)
	}
}

// summed returns the mean squared errors of one object's responses, summed over all values, for
// randomized response and for unary encoding.
func summed(t *testing.T, truth Counts) (direct, unary float64) {
	t.Helper()
	n := float64(sum(truth.ByValue))
	variances := must(Variance(truth))
	for _, v := range variances {
		direct += n * v
	}
	for _, v := range unaryVariance(t, truth) {
		unary += n * v
	}
	return direct, unary
}

// TestTheErrorOverAllValuesDoesNotDependOnThem draws populations: the sums are those of the closed
// forms.
func TestTheErrorOverAllValuesDoesNotDependOnThem(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 21))
	for range 300 {
		m := 2 + random.IntN(40)
		truth := ofValues(fromNano(t, 1+random.Int64N(12_000_000_000)>>random.IntN(30)), make([]int64, m))
		for v := range truth.ByValue {
			truth.ByValue[v] = random.Int64N(1000) >> random.IntN(10)
		}
		truth.ByValue[random.IntN(m)]++
		direct, unary := summed(t, truth)
		e := middle(exact.Exp(truth.Epsilon.Nano(), prec))
		scale := mul(sub(e, 1), sub(e, 1))
		wantNear(t, fmt.Sprintf("m=%d, ε=%v, randomized response", m, truth.Epsilon), direct, quo(mul(m-1, add(mul(2, e), m-2)), scale), 1e-12)
		top := add(mul(add(e, 1), add(e, 1)), mul(4*(m-1), e))
		wantNear(t, fmt.Sprintf("m=%d, ε=%v, unary encoding", m, truth.Epsilon), unary, quo(top, scale), 1e-12)
	}
}

// TestForARareValueTheyMeetAtThreeE compares the errors of a value that nobody has, as Wang et al.
// do.
func TestForARareValueTheyMeetAtThreeE(t *testing.T) {
	for _, e := range []string{"0.01", "0.5", "1", "2", "4", "6.5"} {
		meet := 3*math.Exp(eps(t, e).Float64()) + 2
		for _, m := range []int{int(meet), int(meet) + 1} {
			truth := ofValues(eps(t, e), make([]int64, m))
			truth.ByValue[0] = 1
			direct := must(Variance(truth))
			if unary := unaryVariance(t, truth); unary[1] < direct[1] != (float64(m) > meet) {
				t.Errorf("ε=%s, m=%d: variances %v and %v in unary encoding", e, m, direct[1], unary[1])
			}
		}
	}
}

func unaryVariance(t *testing.T, truth Counts) []float64 {
	t.Helper()
	return must(Variance(ofBits(truth.Epsilon, 0, truth.ByValue)))
}
