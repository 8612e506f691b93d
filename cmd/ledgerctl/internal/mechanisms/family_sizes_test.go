package mechanisms

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

func mustEpsilons(t *testing.T, text string) (all []privacy.Epsilon) {
	t.Helper()
	for item := range strings.SplitSeq(text, ",") {
		epsilon, err := privacy.ParseEpsilon(item)
		check.Must(t, err)
		all = append(all, epsilon)
	}
	return all
}

func mustSubsets(t *testing.T, values, size int, epsilon privacy.Epsilon) step {
	t.Helper()
	s, err := subsetStep(values, size, epsilon)
	check.Must(t, err)
	return s
}

// The condition of canDegrade agrees with the linear program of [finite.NewFamily].
func TestCanDegrade_EveryPairOfSizes_AgreesWithLinearProgram(t *testing.T) {
	epsilons := mustEpsilons(t, "0.3,0.7,1,1.5,2.5")
	found := map[bool]int{}
	for values := 3; values <= 5; values++ {
		for i, high := range epsilons {
			for _, low := range epsilons[:i] {
				for from := 1; from < values; from++ {
					for to := 1; to < values; to++ {
						higher, lower := mustSubsets(t, values, from, high), mustSubsets(t, values, to, low)
						_, err := finite.NewFamily(t.Context(), lower.matrix, higher.matrix)
						if got := canDegrade(values, higher, lower); got != (err == nil) {
							t.Errorf("%d values, from size %d at ε=%v to size %d at ε=%v: %v, and %v", values, from, high, to, low, got, err)
						}
						if from > to {
							found[err == nil]++
						}
					}
				}
			}
		}
	}
	check.That(t, found[true] != 0 && found[false] != 0, "to smaller subsets: %v", found)
}

// No other sizes that form a family have a smaller product of variances.
func TestBestSizes_AllFamilies_NoneHasSmallerVariance(t *testing.T) {
	for _, list := range []string{"0.5,1,2", "0.9,1.1,1.3", "0.2,0.5,0.6", "1.8,2,2.2"} {
		const values = 5
		f := &subsetFlags{familyFlags: familyFlags{Epsilons: mustEpsilons(t, list)}}
		got, err := f.bestSizes(values)
		check.Must(t, err)
		var best []int
		least := math.Inf(1)
		for n := range 4 * 4 * 4 {
			sizes := []int{n%4 + 1, n/4%4 + 1, n/16 + 1}
			var matrices []*finite.Matrix
			product := 1.0
			for i, size := range sizes {
				s := mustSubsets(t, values, size, f.Epsilons[i])
				variance, err := meanVariance(s.matrix)
				check.Must(t, err)
				matrices, product = append(matrices, s.matrix), product*variance
			}
			if product >= least*(1-1e-9) {
				continue
			}
			if _, err := finite.NewFamily(t.Context(), matrices...); err == nil {
				best, least = sizes, product
			}
		}
		check.That(t, slices.Equal(got, best), "ε = %s: %v, want %v", list, got, best)
	}
}
