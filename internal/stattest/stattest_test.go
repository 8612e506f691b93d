package stattest

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// seeded returns random numbers that are the same in every run.
func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// drawn returns the counts of n draws from a law on 0, 1, …
func drawn(random *rand.Rand, n int, law ...float64) map[int]int {
	counts, left, of := map[int]int{}, int64(n), 1.0
	for cell, p := range law {
		some := Binomial(random, left, min(1, p/of))
		counts[cell] = int(some)
		left, of = left-some, of-p
	}
	counts[0] += int(left) // the remaining probability is not exactly 0
	return counts
}

// lawOf returns the law as a map.
func lawOf(law ...float64) map[int]float64 {
	cells := map[int]float64{}
	for cell, p := range law {
		cells[cell] = p
	}
	return cells
}

// right and wrong are two laws of six cells, one of them with few draws. They differ only in two
// cells, by a twentieth.
func right() []float64 { return []float64{0.4, 0.3, 0.2, 0.095, 0.0049, 0.0001} }
func wrong() []float64 { return []float64{0.42, 0.28, 0.2, 0.095, 0.0049, 0.0001} }

// covariance is for three normal numbers: a common part, and one of their own.
func covariance(i, j int) float64 {
	if i == j {
		return float64(i) + 2
	}
	return 1
}

func normals(random *rand.Rand) []float64 {
	common, errs := random.NormFloat64(), make([]float64, 3)
	for i := range errs {
		errs[i] = common + math.Sqrt(float64(i)+1)*random.NormFloat64()
	}
	return errs
}

func one(int) float64 { return 1 }

// detector draws a sample and checks it. The sample of right follows the law; the one of wrong
// follows a law that is slightly different.
type detector struct {
	right, wrong func(random *rand.Rand) Verdict
}

func checks() map[string]detector {
	const n = 40_000
	share := func(p float64) func(*rand.Rand) Verdict {
		return func(random *rand.Rand) Verdict { return Share(int(Binomial(random, n, p)), n, 0.3, 0.3) }
	}
	ends := func(p, low, high float64) func(*rand.Rand) Verdict {
		return func(random *rand.Rand) Verdict { return Share(int(Binomial(random, n, p)), n, low, high) }
	}
	fit := func(f func(counts map[int]int, law map[int]float64) Verdict, law []float64) func(*rand.Rand) Verdict {
		return func(random *rand.Rand) Verdict { return f(drawn(random, n, law...), lawOf(right()...)) }
	}
	each := func(of1, of2 []float64) func(*rand.Rand) Verdict {
		return func(random *rand.Rand) Verdict {
			counts := map[string]map[int]int{"a": drawn(random, n, of1...), "b": drawn(random, n/2, of2...)}
			return FitEach(counts, func(sample string) map[int]float64 {
				return map[string]map[int]float64{"a": lawOf(right()...), "b": lawOf(0.5, 0.5)}[sample]
			})
		}
	}
	mean := func(shift, low, high float64) func(*rand.Rand) Verdict {
		return func(random *rand.Rand) Verdict {
			values := make([]float64, 400)
			for i := range values {
				values[i] = 5 + shift + 2*random.NormFloat64()
			}
			return Mean(values, low, high)
		}
	}
	squares := func(off float64) func(*rand.Rand) Verdict {
		return func(random *rand.Rand) Verdict { // 300 numbers, in independent groups of three
			var errs []float64
			for range 100 {
				errs = append(errs, normals(random)...)
			}
			return Squares(errs, one, func(i, j int) float64 {
				if i/3 != j/3 {
					return 0
				}
				return off * covariance(i%3, j%3)
			})
		}
	}
	return map[string]detector{
		"a share":                    {share(0.3), share(0.325)},
		"a share between two":        {ends(0.29, 0.29, 0.31), ends(0.27, 0.29, 0.31)},
		"a share of at most":         {ends(0.05, 0, 0.05), ends(0.06, 0, 0.05)},
		"a share of at least":        {ends(0.95, 0.95, 1), ends(0.94, 0.95, 1)},
		"cells":                      {fit(Cells[int], right()), fit(Cells[int], wrong())},
		"a fit":                      {fit(Fit[int], right()), fit(Fit[int], wrong())},
		"two fits, the first wrong":  {each(right(), []float64{0.5, 0.5}), each(wrong(), []float64{0.5, 0.5})},
		"two fits, the second wrong": {each(right(), []float64{0.5, 0.5}), each(right(), []float64{0.54, 0.46})},
		"a normal number":            {func(r *rand.Rand) Verdict { return Normal(3*r.NormFloat64(), 3) }, func(r *rand.Rand) Verdict { return Normal(30+3*r.NormFloat64(), 3) }},
		"a mean":                     {mean(0, 5, 5), mean(1, 5, 5)},
		"a mean between two":         {mean(0, 5, 6), mean(-1, 5, 6)},
		"a mean of at least":         {mean(0, 5, math.Inf(1)), mean(-1, 5, math.Inf(1))},
		"squares, too large":         {squares(1), squares(0.4)},
		"squares, too small":         {squares(1), squares(4)},
	}
}

// Also, P is what it claims to be: it is below 0.01 in at most 1.1 % of the samples.
func TestVerdict_RightLaw_IsAccepted(t *testing.T) {
	const times = 500 / Coarser
	for name, c := range checks() {
		random, unlikely := seeded(), 0
		for range times {
			v := c.right(random)
			check.Need(t, !v.Rejected() && v.P >= 0 && v.P <= 1, "%s: %v", name, v)
			if v.P < 0.01 {
				unlikely++
			}
		}
		Share(unlikely, times, 0, 0.011).Holds(t, "%s: P < 0.01", name)
	}
}

// Each check finds a small fault.
func TestVerdict_SlightlyWrongLaw_IsRejected(t *testing.T) {
	for name, c := range checks() {
		random := seeded()
		for range 50 {
			v := c.wrong(random)
			check.That(t, v.Rejected(), "%s: %v", name, v)
		}
	}
}

// The test adds up the probabilities of all counts that are rejected.
func TestShare_RightShare_RejectionRateIsAtMostAlarm(t *testing.T) {
	for _, p := range []float64{0.5, 0.1, 0.003} {
		for _, n := range []int{50, 1000, 20_000} {
			size := 0.0
			for k := range n + 1 {
				if Share(k, n, p, p).Rejected() {
					size += probability(k, n, p)
				}
			}
			check.That(t, size <= Alarm, "the right share %v of %d is rejected with a probability of %.3g", p, n, size)
		}
	}
}

func probability(k, n int, p float64) float64 {
	return math.Exp(logChoose(n, k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// The test adds up the probabilities of all tables that are rejected, with the rarest classes
// allowed.
func TestFit_RightLaw_RejectionRateIsAtMostTwiceAlarm(t *testing.T) {
	for _, expected := range []float64{rare, 100} {
		for _, p := range []float64{0.5, 0.1, 0.01} {
			n, size := int(math.Round(expected/p)), 0.0
			for k := range n + 1 {
				if Fit(map[int]int{0: k, 1: n - k}, lawOf(p, 1-p)).Rejected() {
					size += probability(k, n, p)
				}
			}
			check.That(t, size <= 2*Alarm && size >= Alarm/3,
				"the right law (%v, %v) of %d is rejected with a probability of %.3g", p, 1-p, n, size)
		}
	}
	const n, third = 3 * rare, 1. / 3
	size := 0.0
	for a := range n + 1 {
		for b := range n - a + 1 {
			if Fit(map[int]int{0: a, 1: b, 2: n - a - b}, Uniform(0, 1, 2)).Rejected() {
				size += probability(a, n, third) * probability(b, n-a, 0.5)
			}
		}
	}
	check.That(t, size <= 2*Alarm && size >= Alarm/3,
		"the right law of three cells is rejected with a probability of %.3g", size)
}

// A hundred cells are each too rare to be a class, and together too frequent.
func TestFit_RareCells_FormOneClass(t *testing.T) {
	law, counts := map[int]float64{0: 0.9}, map[int]int{0: 8000}
	for cell := range 100 {
		law[cell+1] = 0.001
		counts[cell+1] = 20
	}
	v := Fit(counts, law)
	check.That(t, v.Rejected() && strings.Contains(v.Seen, " 1 degree"), "%v", v)
}

// The reference is a sum of fractions.
func TestAtLeast_EqualsBinomialSum(t *testing.T) {
	for _, n := range []int{1, 2, 7, 40, 90} {
		for _, p := range []*big.Rat{big.NewRat(1, 2), big.NewRat(3, 7), big.NewRat(99, 100), big.NewRat(1, 1000)} {
			float, _ := p.Float64()
			sum := new(big.Rat)
			for k := n; k >= 0; k-- {
				sum.Add(sum, exactly(n, k, p))
				want, _ := sum.Float64()
				if got := AtLeast(k, n, float); math.Abs(got-want) > 1e-10*want && want > 1e-250 {
					t.Errorf("at least %d of %d with %v: %g, want %g", k, n, p, got, want)
				}
			}
		}
	}
	check.That(t, AtLeast(8, 7, 0.5) == 0 && AtLeast(1, 7, 0) == 0 && AtLeast(7, 7, 1) == 1,
		"more than n trials, or a probability of 0 or 1")
}

// exactly returns the probability of k of n.
func exactly(n, k int, p *big.Rat) *big.Rat {
	law := new(big.Rat).SetInt(new(big.Int).Binomial(int64(n), int64(k)))
	for i := range n {
		if i < k {
			law.Mul(law, p)
		} else {
			law.Mul(law, new(big.Rat).Sub(big.NewRat(1, 1), p))
		}
	}
	return law
}

// The reference is the normal distribution. z standard deviations from the mean, the relative error
// of its tail is of the order z³/√n.
func TestAtLeast_ManyTrials_IsNearNormalTail(t *testing.T) {
	const n, p = 4_000_000, 0.25
	for _, z := range []float64{-6, -1, 0.5, 3, 6.5} {
		k := int(math.Ceil(n*p + z*math.Sqrt(n*p*(1-p))))
		exactly := (float64(k) - 0.5 - n*p) / math.Sqrt(n*p*(1-p))
		want := math.Erfc(exactly/math.Sqrt2) / 2
		got := AtLeast(k, n, p)
		check.That(t, math.Abs(got-want) <= 0.1*want, "at %v standard deviations: %g, want about %g", z, got, want)
	}
}

// Without any spread, a mean inside the interval is accepted, and another is rejected.
func TestMean_EqualValues_InsideHoldsOutsideFails(t *testing.T) {
	values := []float64{1, 1, 1}
	in, out := Mean(values, 0.9, 1.1), Mean(values, 1.1, 1.2)
	check.That(t, in.P == 1 && out.P == 0, "%v, %v", in, out)
}

// fakeTest is a test that records its last message.
type fakeTest struct {
	testing.TB
	last string
}

func (f *fakeTest) Helper() {}

func (f *fakeTest) Logf(format string, args ...any) { f.last = "log: " + fmt.Sprintf(format, args...) }

func (f *fakeTest) Errorf(format string, args ...any) {
	f.last = "error: " + fmt.Sprintf(format, args...)
}

func TestVerdict_HoldsAndFails_ReportToTheTest(t *testing.T) {
	for _, c := range []struct {
		p            float64
		holds, fails string
	}{
		{1, "log: 7 draws: seen", "error: 7 draws: the fault is not noticed: seen"},
		{2 * Alarm, "log: 7 draws: seen", "error: 7 draws: the fault is not noticed: seen"},
		{Alarm / 2, "error: 7 draws: seen", "log: 7 draws: seen"},
		{math.NaN(), "error: 7 draws: seen", "error: 7 draws: the fault is not noticed: seen"},
	} {
		v, holds, fails := Verdict{c.p, "seen"}, &fakeTest{}, &fakeTest{}
		v.Holds(holds, "%d draws", 7)
		v.Fails(fails, "%d draws", 7)
		check.That(t, strings.HasPrefix(holds.last, c.holds) && strings.HasPrefix(fails.last, c.fails),
			"P = %v: %q and %q", c.p, holds.last, fails.last)
	}
}

// A verdict without data or without a valid law neither holds nor fails. A count of an impossible
// cell rejects the law.
func TestVerdict_NoDataOrInvalidLaw_NeitherHoldsNorFails(t *testing.T) {
	nan := math.NaN()
	for name, v := range map[string]Verdict{
		"no trials": Share(0, 0, 0.5, 0.5), "ends swapped": Share(5, 10, 0.6, 0.4), "no number": Share(5, 10, nan, nan), "above 1": Share(5, 10, 0.5, 1.5),
		"no counts": Cells(map[int]int{}, lawOf(1)), "no law": Fit(map[int]int{1: 5}, nil), "half a law": Fit(map[int]int{0: 5}, lawOf(0.5)),
		"a negative law": Cells(map[int]int{0: 5}, lawOf(1.5, -0.5)), "one cell": Fit(map[int]int{0: 500}, lawOf(1)), "no samples": FitEach(map[int]map[int]int{}, nil),
		"no deviation": Normal(1, 0), "no deviation's number": Normal(1, nan), "no values": Mean(nil, 0, 1), "ends of means": Mean([]float64{1, 2}, 2, 1),
		"no covariances": Squares([]float64{1}, one, func(int, int) float64 { return 0 }),
	} {
		check.That(t, math.IsNaN(v.P), "%s: %v", name, v)
	}
	for name, v := range map[string]Verdict{
		"cells": Cells(map[int]int{0: 50, 7: 1}, lawOf(0.5, 0.5)), "a fit": Fit(map[int]int{0: 50, 1: 50, 7: 1}, lawOf(0.5, 0.5, 0)),
	} {
		check.That(t, v.P == 0 && strings.Contains(v.Seen, "7 was counted 1 times, but has probability 0"), "%s: %v", name, v)
	}
}
