package estimate

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluicedp/sluice/internal/check"
)

// The p-values are those of a library that has been checked by many.
func TestSurvival_ManyDegrees_IsThatOfTheLibrary(t *testing.T) {
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
		got := survival(3, x)
		check.That(t, got == 0, "%v: %v", x, got)
	}
}

// An inverse is one, also of a matrix of fewer dimensions on its image, and a matrix with too few
// of them is refused.
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
