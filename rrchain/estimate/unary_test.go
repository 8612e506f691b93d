package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

// The numbers come from mpmath, by the formulas in the comments. Errors are measured in standard
// errors, because for a small ε the estimates are differences of large numbers.
func TestUnaryEstimate_AgreesWithMpmath(t *testing.T) {
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
		for v, f := range estimate(0.95, ofBits(eps(c.epsilon), c.objects, c.counts)) {
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
		got := unaryVariance(ofValues(eps(c.epsilon), c.truth))
		for v, want := range c.want {
			wantNear(t, fmt.Sprintf("ε=%s, variance of value %d", c.epsilon, v), got[v], want, 1e-13)
		}
	}
}

// This is [TestInterval_DrawnSurveys_CoversItsConfidence] in unary encoding, with the same sizes
// and tolerance. Given the objects of a level, the counts of its bits are sums of two binomial
// numbers.
func TestUnaryInterval_DrawnSurveys_CoversItsConfidence(t *testing.T) {
	holders := []int{1250, 750, 375, 125}
	levels, sizes := []privacy.Epsilon{eps("0.5"), eps("1"), eps("2")}, []int{1000, 1000, 500}
	source := rand.NewPCG(18, 19)
	random := rand.New(source)
	covered := covers(len(holders))
	for range surveys {
		for v, f := range estimate(0.95, unarySurvey(random, source, holders, levels, sizes)...) {
			covered[v].Add(middleOf(f)-float64(holders[v])/2500, (f.High-f.Low)/2)
		}
	}
	for v, c := range covered {
		c.Held(0.945, 0.96).Holds(t, "value %d: the interval holds the true share", v)
		c.HeldShort(0.945, 0.96).Fails(t, "value %d: an interval that is too short holds it", v)
	}
}

// unarySurvey divides the objects at random among levels of given sizes and draws their responses.
func unarySurvey(random *rand.Rand, source rand.Source, holders []int, levels []privacy.Epsilon, sizes []int) []Counts {
	left := slices.Clone(holders)
	var counts []Counts
	for i, size := range sizes {
		level := ofBits(levels[i], int64(size), make([]int64, len(holders)))
		often := 1 / (math.Exp(levels[i].Float64()) + 1)
		for v, n := range takeRandom(random, left, size) {
			level.ByValue[v] = stattest.Binomial(source, int64(n), 0.5) + stattest.Binomial(source, int64(size-n), often)
		}
		counts = append(counts, level)
	}
	return counts
}

// takeRandom removes random objects from those left, and returns how many have each value.
func takeRandom(random *rand.Rand, left []int, size int) []int {
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

// A response without a set bit counts like any other.
func TestUnaryEstimate_NoBitSet_IsCounted(t *testing.T) {
	for v, f := range estimate(0.9, ofBits(eps("1"), 5, []int64{0, 0})) {
		q := 1 / (math.E + 1)
		wantNear(t, fmt.Sprintf("value %d", v), f.Estimate, -q/(0.5-q), 1e-13)
	}
}

func TestUnaryEstimate_InvalidCounts_IsRefused(t *testing.T) {
	one := eps("1")
	good := ofBits(one, 4, []int64{1, 2})
	wantRefused(t, []refusal{
		{"no responses", 0.9, []Counts{ofBits(one, 0, []int64{0, 0}), ofBits(one, 0, []int64{0, 0})}, "no responses"},
		{"more bits than responses", 0.9, []Counts{ofBits(one, 4, []int64{1, 5})}, "value 1 was counted 5 times in 4 responses"},
		{"bits without responses", 0.9, []Counts{good, ofBits(one, 0, []int64{1, 0})}, "value 0 was counted 1 times in 0 responses"},
		{"fewer responses than none", 0.9, []Counts{good, ofBits(one, -1, []int64{0, 0})}, "value 0 was counted 0 times in -1 responses"},
		{"negative count", 0.9, []Counts{ofBits(one, 4, []int64{3, -1})}, "value 1 was counted -1 times"},
		{"negative everything", 0.9, []Counts{ofBits(one, -1, []int64{-1, -1})}, "value 0 was counted -1 times"},
		{"no values", 0.9, []Counts{ofBits(one, 4, nil)}, "0 values"},
		{"one value", 0.9, []Counts{ofBits(one, 4, []int64{2})}, "1 values"},
		{"too many values", 0.9, []Counts{ofBits(one, 4, make([]int64, maxValues+1))}, "1048577 values"},
		{"mixed values", 0.9, []Counts{good, ofBits(one, 4, []int64{1, 2, 3})}, "numbers of values, 2 and 3"},
		{"ε=0", 0.9, []Counts{ofBits(privacy.Epsilon{}, 4, []int64{1, 2})}, "ε=0"},
		{"ε=0 in the second level", 0.9, []Counts{good, ofBits(privacy.Epsilon{}, 0, []int64{0, 0})}, "ε=0"},
	})
}

// summed returns the mean squared errors of one object's responses, summed over all values, for
// randomized response and for unary encoding.
func summed(truth Counts) (direct, unary float64) {
	n := float64(sum(truth.ByValue))
	variances := must(Variance(truth))
	for _, v := range variances {
		direct += n * v
	}
	for _, v := range unaryVariance(truth) {
		unary += n * v
	}
	return direct, unary
}

// For random populations, the sums must be those of the closed forms.
func TestVariance_SummedOverValues_DoesNotDependOnThem(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 21))
	for range 300 {
		m := 2 + random.IntN(40)
		truth := ofValues(fromNano(1+random.Int64N(12_000_000_000)>>random.IntN(30)), make([]int64, m))
		for v := range truth.ByValue {
			truth.ByValue[v] = random.Int64N(1000) >> random.IntN(10)
		}
		truth.ByValue[random.IntN(m)]++
		direct, unary := summed(truth)
		e := middle(exact.Exp(truth.Epsilon.Nano(), prec))
		scale := mul(sub(e, 1), sub(e, 1))
		wantNear(t, fmt.Sprintf("m=%d, ε=%v, randomized response", m, truth.Epsilon), direct, quo(mul(m-1, add(mul(2, e), m-2)), scale), 1e-12)
		top := add(mul(add(e, 1), add(e, 1)), mul(4*(m-1), e))
		wantNear(t, fmt.Sprintf("m=%d, ε=%v, unary encoding", m, truth.Epsilon), unary, quo(top, scale), 1e-12)
	}
}

// The errors are compared for a value that no object has, as in Wang et al.
func TestUnaryEncoding_BeatsDirectFromThreeE(t *testing.T) {
	for _, e := range []string{"0.01", "0.5", "1", "2", "4", "6.5"} {
		meet := 3*math.Exp(eps(e).Float64()) + 2
		for _, m := range []int{int(meet), int(meet) + 1} {
			truth := ofValues(eps(e), make([]int64, m))
			truth.ByValue[0] = 1
			direct := must(Variance(truth))
			if unary := unaryVariance(truth); unary[1] < direct[1] != (float64(m) > meet) {
				t.Errorf("ε=%s, m=%d: variances %v and %v in unary encoding", e, m, direct[1], unary[1])
			}
		}
	}
}

func unaryVariance(truth Counts) []float64 {
	return must(Variance(ofBits(truth.Epsilon, 0, truth.ByValue)))
}
