package estimate

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
)

// TestDisagreement_SameShares_ExactErrorRate enumerates the counts of two levels of a sample with
// two values: how often the p-value is below 5 % and 0.1 %.
func TestDisagreement_SameShares_ExactErrorRate(t *testing.T) {
	for _, c := range []struct {
		epsilons [2]string
		n        [2]int
	}{{[2]string{"0.5", "3"}, [2]int{40, 40}}, {[2]string{"1", "8"}, [2]int{60, 25}}, {[2]string{"12", "12"}, [2]int{50, 100}}} {
		low, high := newGroup(false, 2, c.epsilons[0], c.n[0], 0), newGroup(false, 2, c.epsilons[1], c.n[1], 0)
		for share := 0.05; share < 1; share += 0.15 {
			first, second := binomial(c.n[0], low.q+low.gap*share), binomial(c.n[1], high.q+high.gap*share)
			often, rare := 0.0, 0.0
			for i, p := range first {
				for j, q := range second {
					low.counts, high.counts = []int64{int64(i), int64(c.n[0] - i)}, []int64{int64(j), int64(c.n[1] - j)}
					value := disagreement([]stratum{low.counted, high.counted})
					if value < 0.05 {
						often += p * q
					}
					if value < 0.001 {
						rare += p * q
					}
				}
			}
			check.That(t, often <= 0.065 && rare <= 0.003,
				"%v, share %.2f: p is below 0.05 in %.4f of all cases, and below 0.001 in %.5f", c, share, often, rare)
		}
	}
}

// TestDisagreement_SameShares_PIsUniform draws samples of several values at three levels, with a
// fixed seed.
func TestDisagreement_SameShares_PIsUniform(t *testing.T) {
	runs := testenv.Tries(3000, 20_000, 20_000) / (stattest.Coarser * stattest.Coarser)
	source := rand.NewPCG(41, 42)
	levels, sizes := []privacy.Epsilon{eps("0.5"), eps("2"), eps("6")}, []int{900, 600, 500}
	for _, shares := range [][]float64{
		{0.5, 0.5}, {0.6, 0.3, 0.1}, {0.4, 0.3, 0.2, 0.05, 0.05, 0}, {0.9, 0.1, 0, 0, 0, 0, 0, 0, 0, 0}, {0.499, 0.499, 0.002},
	} {
		for _, unary := range []bool{false, true} {
			below := map[float64]int{0.05: 0, 0.5: 0}
			for range runs {
				p := drawnDisagreement(t, source, unary, levels, sizes, shares, shares)
				for limit := range below {
					if p < limit {
						below[limit]++
					}
				}
			}
			for limit, count := range below {
				stattest.Share(count, runs, limit*0.85, limit*1.25).Holds(t, "unary=%v, shares %v: p is below %v", unary, shares, limit)
			}
		}
	}
}

// drawnDisagreement draws the responses of objects, whose shares may be others at the last level,
// and tests them.
func drawnDisagreement(t *testing.T, source *rand.PCG, unary bool, levels []privacy.Epsilon, sizes []int, shares, last []float64) float64 {
	t.Helper()
	var direct []Counts
	var bits []Counts
	for i, e := range levels {
		if i == len(levels)-1 {
			shares = last
		}
		l := describe(unary, len(shares), e, float64(sizes[i]))
		holders := multinomial(source, sizes[i], shares)
		counts := make([]int64, len(shares))
		others := make([]float64, len(shares)) // of a response that is not the true value
		for v, n := range holders {
			if unary {
				counts[v] = stattest.Binomial(source, n, l.p) + stattest.Binomial(source, int64(sizes[i])-n, l.q)
				continue
			}
			kept := stattest.Binomial(source, n, l.p-l.q)
			counts[v] += kept
			for w := range others {
				others[w] = 1 / float64(len(others))
			}
			for w, count := range multinomial(source, int(n-kept), others) {
				counts[w] += count
			}
		}
		direct, bits = append(direct, ofValues(e, counts)), append(bits, ofBits(e, int64(sizes[i]), counts))
	}
	p, err := Disagreement(direct...)
	if unary {
		p, err = Disagreement(bits...)
	}
	check.Must(t, err)
	return p
}

func multinomial(source *rand.PCG, n int, shares []float64) []int64 {
	counts, rest := make([]int64, len(shares)), 1.0
	for v, share := range shares {
		counts[v] = int64(n)
		if v < len(shares)-1 {
			counts[v] = stattest.Binomial(source, int64(n), min(share/max(rest, 1e-300), 1))
		}
		n -= int(counts[v])
		rest -= share
	}
	return counts
}

func TestDisagreement_OtherShares_IsDetected(t *testing.T) {
	source := rand.NewPCG(43, 44)
	levels, sizes := []privacy.Epsilon{eps("0.5"), eps("1"), eps("3")}, []int{20_000, 5000, 10_000}
	for _, unary := range []bool{false, true} {
		for _, c := range [][2][]float64{{{1, 0}, {0, 1}}, {{0.6, 0.3, 0.1}, {0.4, 0.4, 0.2}}, {{0.7, 0.1, 0.1, 0.1, 0}, {0.5, 0.2, 0.2, 0.1, 0}}} {
			p := drawnDisagreement(t, source, unary, levels, sizes, c[0], c[1])
			check.That(t, p < 1e-9, "unary=%v, shares %v: p is %v", unary, c, p)
		}
	}
}

// TestDisagreement_NothingToTest_IsOne has one level, levels with too few responses, and one value
// alone.
func TestDisagreement_NothingToTest_IsOne(t *testing.T) {
	one, two := eps("1"), eps("12")
	for name, levels := range map[string][]Counts{
		"one level":            {ofValues(one, []int64{500, 300})},
		"one with responses":   {ofValues(one, []int64{500, 300}), ofValues(two, []int64{0, 0})},
		"few responses":        {ofValues(one, []int64{5, 3}), ofValues(two, []int64{3, 2})},
		"few at one":           {ofValues(one, []int64{500, 300}), ofValues(two, []int64{3, 2})},
		"one value":            {ofValues(two, []int64{1000, 0, 0}), ofValues(privacy.MaxEpsilon(), []int64{1000, 0, 0})},
		"more values than all": {ofValues(one, make1(maxValues)), ofValues(two, make1(maxValues))},
	} {
		p, err := Disagreement(levels...)
		check.That(t, p == 1 && err == nil, "%s: p = %v, %v", name, p, err)
	}
	p, err := Disagreement(ofBits(one, 900, []int64{0, 0}), ofBits(two, 900, []int64{0, 0}))
	check.That(t, !math.IsNaN(p) && err == nil, "no bit at all: p = %v, %v", p, err)
}

// make1 returns m counts: one is 1, and the others are 0.
func make1(m int) []int64 { return append(make([]int64, m-1), 1) }

// TestDisagreement_AtTheEdges_IsAProbability takes counts and ε at their limits.
func TestDisagreement_AtTheEdges_IsAProbability(t *testing.T) {
	extremes := []privacy.Epsilon{fromNano(1), eps("0.5"), eps("20"), privacy.MaxEpsilon()}
	for _, counts := range [][]int64{{1, 0, 0}, {math.MaxInt64, 0, math.MaxInt64}, {100, 200, 300}, {0, 0, 1000}} {
		for _, others := range [][]int64{{0, 7, 0}, {math.MaxInt64, math.MaxInt64, 0}, {300, 200, 100}} {
			for _, e := range extremes {
				for _, other := range extremes {
					p, err := Disagreement(ofValues(e, counts), ofValues(other, others), ofValues(e, others))
					check.That(t, err == nil && p >= 0 && p <= 1,
						"%v at %v, %v at %v: p = %v, %v", counts, e, others, other, p, err)
				}
			}
		}
	}
	many := make([]int64, 1000)
	for v := range many {
		many[v] = 1000
	}
	p, err := Disagreement(ofValues(eps("3"), many), ofValues(eps("5"), many))
	check.That(t, err == nil && p > 0.5, "%d values that are all alike: p = %v, %v", len(many), p, err)
	_, err = Disagreement()
	check.That(t, err != nil, "no responses: no error")
	_, err = Disagreement(ofBits(eps("1"), 1, []int64{2, 0}))
	check.That(t, err != nil, "more bits than responses: no error")
}

// The mechanism hardly distinguishes two of three inputs, and the two levels disagree about the
// third.
func TestDisagreement_OneShareFarBetterKnown_StillTested(t *testing.T) {
	for _, s := range []string{"1/10", "1/1000000", "1/400000000"} {
		up, down := plus(rat("2/5"), rat(s)), minus(rat("2/5"), rat(s))
		m := mechanismOf([]*big.Rat{up, down, rat("1/5")}, []*big.Rat{down, up, rat("1/5")}, fractions("1/10", "1/10", "4/5"))
		few, many := ofOutputs(m, []int64{400_000, 400_000, 200_000}), ofOutputs(m, []int64{100_000, 100_000, 800_000})
		p, err := Disagreement(few, many)
		check.That(t, p <= 1e-9 && err == nil, "two inputs apart by %s: p = %v, %v", s, p, err)
		if p, err := Disagreement(few, few); !(p > 0.5) || err != nil {
			t.Errorf("two inputs apart by %s, the same counts: p = %v, %v", s, p, err)
		}
	}
}
