package estimate

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// The reference is gonum's χ² distribution.
func TestSurvival_ManyDegrees_AgreesWithGonum(t *testing.T) {
	for _, degrees := range []float64{1, 2, 3, 7, 31, 32, 320, 5000} {
		for _, times := range []float64{0, 1e-9, 0.01, 0.5, 0.9, 1, 1.1, 2, 5, 20} {
			x := times * degrees
			got, want := survival(degrees, x), distuv.ChiSquared{K: degrees}.Survival(x)
			if math.IsNaN(got) || math.Abs(got-want) > 1e-11 || want > 1e-290 && math.Abs(got/want-1) > 1e-9 {
				t.Errorf("%v degrees, %v: %v, want %v", degrees, x, got, want)
			}
		}
	}
	for _, x := range []float64{math.Inf(1), 1e9} {
		check.Equal(t, survival(3, x), 0, "the survival at %v", x)
	}
}

// The result must be the inverse on the image, also for a matrix without full rank. A matrix whose
// rank is too low is refused.
func TestPseudoInverse_RandomMatrices_IsTheirInverse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for size := 1; size <= 32; size++ {
		for _, rank := range []int{size, max(size-1, 1)} {
			for _, rows := range []int{size, size + 3} {
				columns := newMatrix(size, rows)
				for j := range columns {
					for i := range columns[j] {
						columns[j][i] = math.Ldexp(r.NormFloat64(), j%7) // of unlike lengths
						if j >= rank {
							columns[j][i] = -columns[0][i]
						}
					}
				}
				whole := newMatrix(size, rows)
				for j := range whole {
					copy(whole[j], columns[j])
				}
				inverse, ok := pseudoInverse(columns, rank, 1e-9)
				check.Need(t, ok, "size %d, rank %d: refused", size, rank)
				for j := range whole { // A·A⁺·A = A
					for i := range rows {
						got := 0.0
						for k := range whole {
							got += whole[k][i] * dot(inverse[k], whole[j])
						}
						check.That(t, math.Abs(got-whole[j][i]) <= 1e-9,
							"size %d, rank %d, row %d: %v, want %v", size, rank, i, got, whole[j][i])
					}
				}
			}
		}
	}
	for name, m := range map[string][][]float64{
		"singular": {{1, 1}, {1, 1}}, "nearly": {{1, 1}, {1, 1 + 1e-10}}, "zero": {{0}}, "not a number": {{math.NaN()}},
		"infinite": {{math.Inf(1)}}, "flat": {{1}, {2}},
	} {
		_, ok := pseudoInverse(m, len(m), 1e-9)
		check.That(t, !ok, "%s: accepted", name)
	}
}

// For two values the variance does not depend on the shares. So the interval extends to both sides
// by the quantile (from gonum) times the standard error, plus half the effect of one response.
func TestInterval_AnyConfidence_UsesTheNormalQuantile(t *testing.T) {
	one := must(privacy.ParseEpsilon("1"))
	jump := (math.E + 1) / (math.E - 1) / (2 * 80)
	for _, confidence := range []float64{1e-6, 0.5, 0.6827, 0.9, 0.95, 0.99, 0.999999} {
		shares := must(Frequencies(Options{Confidence: confidence}, ofValues(one, []int64{30, 50})))
		z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
		for v, f := range shares {
			for _, width := range []float64{f.High - f.Estimate, f.Estimate - f.Low} {
				check.That(t, math.Abs(width-jump-z*f.StdErr) <= 1e-9*z*f.StdErr,
					"confidence %v, value %d: half-width %v, want %v", confidence, v, width, z*f.StdErr+jump)
			}
		}
	}
}
