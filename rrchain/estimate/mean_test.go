package estimate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// The reference is l + (h−l)·((e^ε+1)λ_h − 1)/(e^ε−1) from mpmath. The standard errors are
// (h−l)·√(o(1−o)/n)/(p−q), o = q + (p−q)·share with the share of the estimate in the range, at most
// 1.
func TestMean_IsEquation70OfThePaper(t *testing.T) {
	for _, c := range []struct {
		low, high      float64
		epsilon        string
		ends           []int64
		mean, standard string
	}{
		{0, 1, "1", []int64{600, 400}, "0.2836046586261347151229996", "0.03352382213351396222604957"},
		{-3, 7, "0.25", []int64{510, 490}, "1.195837667162440307153023", "1.271237966247590716819941"},
		{20, 2500, "3", []int64{930, 70}, "81.85045852344930563411969", "22.10662566196980056415863"},
		{0, 1, "0.000000001", []int64{1, 2}, "333333333.8333333333611111", "577350269.1896257644850925"},
	} {
		f := mean(rrchain.Range{Low: c.low, High: c.high}, 0.95, ofValues(eps(c.epsilon), c.ends))
		if off, _ := sub(f.Estimate, c.mean).Float64(); math.Abs(off) > 1e-13*f.StdErr+1e-14*(c.high-c.low) {
			t.Errorf("ε=%s, %v: mean %.20g, want %s", c.epsilon, c.ends, f.Estimate, c.mean)
		}
		wantNear(t, fmt.Sprintf("ε=%s, %v: standard error", c.epsilon, c.ends), f.StdErr, c.standard, 1e-12)
		// The interval is that of the share of the upper end among a sample.
		shares := estimateBy(Options{Confidence: 0.95, Population: true}, ofValues(eps(c.epsilon), c.ends))
		wantNear(t, "lower end", f.Low, add(c.low, mul(c.high-c.low, shares[1].Low)), 1e-12)
		wantNear(t, "upper end", f.High, add(c.low, mul(c.high-c.low, shares[1].High)), 1e-12)
	}
}

// TestMean_IsTheShareOfTheUpperEnd compares with the reference estimates of shares for two values.
func TestMean_IsTheShareOfTheUpperEnd(t *testing.T) {
	rows := 0
	for _, row := range vectors[estimatorRow](t, "estimator.json") {
		if len(row.Observed) != 2 {
			continue
		}
		rows++
		f := mean(rrchain.Range{Low: -20, High: 60}, 0.9, ofValues(eps(row.Epsilon), row.Observed))
		wantNear(t, "mean at ε="+row.Epsilon, f.Estimate, add(-20, mul(80, row.Frequency[1])), 1e-12)
	}
	check.That(t, rows != 0, "no row has two values")
}

// population is a small population of numbers, as shares of a range, divided at random into levels.
type population struct {
	shares []float64
	levels []sized
}

var someNumbers = []population{
	{[]float64{0.3}, []sized{{"1", 1}}},
	{[]float64{0, 1, 0.25, 0.5, 0.9, 0.9}, []sized{{"0.7", 6}}},
	{[]float64{0, 0, 1, 1}, []sized{{"5", 4}}},
	{[]float64{0.4, 0.4, 0.4, 0.4, 0.4}, []sized{{"3", 5}}},
	{[]float64{0.1, 0.2, 0.7, 1, 0.05, 0}, []sized{{"0.5", 2}, {"2", 4}}},
	{[]float64{0.1, 0.2, 0.7, 0, 0}, []sized{{"0.5", 1}, {"1", 3}, {"6", 1}}},
	{[]float64{1, 1, 1, 0, 0, 0}, []sized{{"8", 3}, {"9", 3}}},
}

// Over all partitions, roundings and responses, the mean of the estimates must be the mean of the
// numbers. The squared standard error at the true mean is above the variance by Var(x)/n for one
// level. For several levels it is above by Var(x)·(1−ΣW²/n_l)/(n−1), which is less.
func TestMean_AnyPopulation_IsUnbiased(t *testing.T) {
	for _, x := range someNumbers {
		for _, pool := range []bool{false, true} {
			x.checkMoments(t, pool)
		}
	}
}

func (x population) checkMoments(t *testing.T, pool bool) {
	r := rrchain.Range{Low: -3, High: 5}
	n, center, variance := float64(len(x.shares)), 0.0, 0.0
	for _, share := range x.shares {
		center += share / n
	}
	for _, share := range x.shares {
		variance += (share - center) * (share - center) / n
	}
	average, square, total := 0.0, 0.0, 0.0
	x.enumerate(func(probability float64, levels []Counts) {
		f := meanBy(r, Options{Confidence: 0.9, Pool: pool}, levels...)
		total += probability
		average += probability * f.Estimate
		square += probability * (f.Estimate - (-3 + 8*center)) * (f.Estimate - (-3 + 8*center))
		if want := 8 * math.Sqrt(x.stated(pool, min(max((f.Estimate+3)/8, 0), 1))); math.Abs(f.StdErr-want) > 1e-12*want {
			t.Errorf("%v, pool=%v, with %v: standard error %v, want %v", x, pool, levels, f.StdErr, want)
		}
	})
	wantNear(t, "the sum of all probabilities", total, 1, 1e-12)
	check.That(t, math.Abs(average-(-3+8*center)) <= 1e-11,
		"%v, pool=%v: the mean estimate is %v, want %v", x, pool, average, -3+8*center)
	above := x.stated(pool, center) - square/64
	want := variance / n
	if len(x.levels) > 1 {
		want = variance * (1 - x.concentration(pool)) / (n - 1)
		check.That(t, want <= variance/n+1e-15, "%v, pool=%v: %v is above Var(x)/n = %v", x, pool, want, variance/n)
	}
	check.That(t, math.Abs(above-want) <= 1e-11*square/64,
		"%v, pool=%v: the squared standard error is above the variance by %v, want %v", x, pool, above, want)
}

// weights returns the share of each level in the estimate, W, with 1/λ² of its ε.
func (x population) weights(pool bool) (weights, inverse []float64) {
	total := 0.0
	for _, level := range x.levels {
		λ := math.Tanh(eps(level.epsilon).Float64() / 2)
		w := float64(level.objects)
		if pool {
			w *= λ * λ
		}
		weights, inverse = append(weights, w), append(inverse, 1/(λ*λ))
		total += w
	}
	for i := range weights {
		weights[i] /= total
	}
	return weights, inverse
}

// stated returns the squared standard error of the mean share at the given share. With λ = p − q
// and o = q + λ·share, it uses o(1−o)/λ² = (1/λ² − (2·share−1)²)/4.
func (x population) stated(pool bool, share float64) float64 {
	sum := 0.0
	weights, inverse := x.weights(pool)
	for i, w := range weights {
		sum += w * w / float64(x.levels[i].objects) * (inverse[i] - (2*share-1)*(2*share-1)) / 4
	}
	return sum
}

// concentration returns ΣW²/n_l.
func (x population) concentration(pool bool) float64 {
	sum := 0.0
	weights, _ := x.weights(pool)
	for i, w := range weights {
		sum += w * w / float64(x.levels[i].objects)
	}
	return sum
}

// enumerate calls visit with all counts that can be observed.
func (x population) enumerate(visit func(probability float64, levels []Counts)) {
	partitions := experiment{truths: make([]int, len(x.shares)), levels: x.levels}.partitions(nil)
	for _, levelOf := range partitions {
		for code := range 1 << len(x.shares) {
			probability := 1 / float64(len(partitions))
			levels := make([]Counts, len(x.levels))
			for i, level := range x.levels {
				levels[i] = ofValues(eps(level.epsilon), make([]int64, 2))
			}
			for i, share := range x.shares {
				e, end := math.Exp(levels[levelOf[i]].Epsilon.Float64()), code>>i&1
				upper := (share*e + 1 - share) / (e + 1) // rounded up and reported, or down and flipped
				if end == 0 {
					upper = 1 - upper
				}
				probability *= upper
				levels[levelOf[i]].ByValue[end]++
			}
			visit(probability, levels)
		}
	}
}

// The test draws 10,000 surveys of 500 numbers at mixed levels, with a fixed seed. For small ε the
// standard error is correct, and for large ε it is too large. The tolerance is that of
// [TestInterval_DrawnSurveys_CoversItsConfidence].
func TestMean_DrawnSurveys_IntervalCoversItsConfidence(t *testing.T) {
	const objects = 500
	random := rand.New(rand.NewPCG(22, 23))
	r, x, center := rrchain.Range{Low: 10, High: 110}, make([]float64, objects), 0.0
	for i := range x {
		x[i] = 10 + 100*random.Float64()*random.Float64()
		center += x[i] / objects
	}
	for _, c := range []struct {
		levels []string
		least  float64
		most   float64
	}{
		{[]string{"0.2", "0.4", "0.8"}, 0.945, 0.955},
		{[]string{"3", "6"}, 0.972, 1},
	} {
		covered := intervalCoverage{Short: tooShort}
		for range surveys {
			f := mean(r, 0.95, meanSurvey(random, r, x, c.levels)...)
			covered.Add(middleOf(f)-center, (f.High-f.Low)/2)
		}
		covered.Held(c.least, c.most).Holds(t, "ε %v: the interval holds the mean", c.levels)
		if c.most < 1 {
			covered.HeldShort(c.least, c.most).Fails(t, "ε %v: an interval that is too short holds it", c.levels)
		} else if stattest.Coarser == 1 { // otherwise there are too few surveys
			covered.Held(0, 0.96).Fails(t, "ε %v: the interval holds the mean in no more than 96 %%", c.levels)
		}
	}
}

// meanSurvey rounds the numbers, divides them at random into levels of equal size, and draws
// responses.
func meanSurvey(random *rand.Rand, r rrchain.Range, x []float64, epsilons []string) (levels []Counts) {
	for _, e := range epsilons {
		levels = append(levels, ofValues(eps(e), make([]int64, 2)))
	}
	truths := make([]float64, len(levels))
	for i := range truths {
		truths[i] = 1 / (1 + math.Exp(-levels[i].Epsilon.Float64()))
	}
	for place, i := range random.Perm(len(x)) {
		level, end := place%len(levels), 0
		if random.Float64() < (x[i]-r.Low)/(r.High-r.Low) {
			end = 1
		}
		if random.Float64() >= truths[level] {
			end = 1 - end
		}
		levels[level].ByValue[end]++
	}
	return levels
}

// TestMean_ExtremeCounts_IsFinite takes ε, counts and ranges at their limits: the numbers stay
// finite.
func TestMean_ExtremeCounts_IsFinite(t *testing.T) {
	for _, r := range []rrchain.Range{{Low: 0, High: 1}, {Low: 0, High: math.SmallestNonzeroFloat64}, {Low: -1e290, High: 1e290}} {
		for _, c := range []Counts{
			ofValues(privacy.MaxEpsilon(), []int64{0, 1}), ofValues(privacy.MaxEpsilon(), []int64{math.MaxInt64, math.MaxInt64}),
			ofValues(fromNano(1), []int64{0, 1}), ofValues(fromNano(1), []int64{math.MaxInt64, 0}),
		} {
			for _, levels := range [][]Counts{{c}, {c, c}} {
				f := mean(r, math.Nextafter(1, 0), levels...)
				if x := f.Estimate + f.StdErr + f.Low + f.High; math.IsNaN(x) || math.IsInf(x, 0) {
					t.Errorf("[%v, %v], ε=%v, %v: %+v", r.Low, r.High, c.Epsilon, c.ByValue, f)
				}
			}
		}
	}
	f := mean(rrchain.Range{Low: 2, High: 6}, 0.9, ofValues(privacy.MaxEpsilon(), []int64{1, 3}))
	check.That(t, f.Estimate == 5, "at ε=1000 the mean is %v, want 5", f.Estimate)
}

func TestMean_InvalidArguments_AreRefused(t *testing.T) {
	one := eps("1")
	good := ofValues(one, []int64{1, 2})
	for _, c := range []struct {
		name       string
		confidence float64
		levels     []Counts
		names      string
	}{
		{"confidence 0", 0, []Counts{good}, "confidence 0 "},
		{"confidence 1", 1, []Counts{good}, "confidence 1 "},
		{"confidence NaN", math.NaN(), []Counts{good}, "confidence NaN"},
		{"no level", 0.9, nil, "no responses"},
		{"no responses", 0.9, []Counts{ofValues(one, []int64{0, 0})}, "no responses"},
		{"negative count", 0.9, []Counts{ofValues(one, []int64{5, -1})}, "value 1 was counted -1 times"},
		{"one end", 0.9, []Counts{ofValues(one, []int64{5})}, "1 values"},
		{"three ends", 0.9, []Counts{ofValues(one, []int64{1, 2, 3})}, "3 counts at a level"},
		{"two and three ends", 0.9, []Counts{good, ofValues(one, []int64{1, 2, 3})}, "numbers of values, 2 and 3"},
		{"ε=0", 0.9, []Counts{ofValues(privacy.Epsilon{}, []int64{1, 2})}, "ε=0"},
	} {
		got, err := Mean(Options{Confidence: c.confidence}, rrchain.Range{Low: 0, High: 1}, c.levels...)
		if got != (Frequency{}) || !errors.Is(err, privacy.ErrInvalid) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v, %v; want an error that names %q", c.name, got, err, c.names)
		}
	}
}

func TestMean_ZeroRange_IsRefused(t *testing.T) {
	_, err := Mean(Options{Confidence: 0.9}, rrchain.Range{}, ofValues(eps("1"), []int64{1, 2}))
	check.That(t, errors.Is(err, privacy.ErrInvalid), "no ErrInvalid but %v", err)
}

// The ranges are so wide that at a small ε the ends of the interval are not finite.
func TestMean_TooWideRange_IsRefused(t *testing.T) {
	for _, r := range []rrchain.Range{{Low: -1e300, High: 1e300}, {Low: 0, High: math.MaxFloat64}, {Low: -8e307, High: 8e307}} {
		for _, counts := range [][]int64{{3, 4}, {0, 4}} {
			f, err := Mean(Options{Confidence: 0.95}, r, ofValues(fromNano(1), counts))
			check.That(t, f == (Frequency{}) && errors.Is(err, privacy.ErrInvalid),
				"[%v, %v], %v: %+v, %v", r.Low, r.High, counts, f, err)
		}
	}
}

func mean(r rrchain.Range, confidence float64, levels ...Counts) Frequency {
	return meanBy(r, Options{Confidence: confidence}, levels...)
}

func meanBy(r rrchain.Range, o Options, levels ...Counts) Frequency {
	return must(Mean(o, r, levels...))
}
