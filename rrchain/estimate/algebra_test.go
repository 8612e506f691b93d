package estimate

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
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
		if got := survival(3, x); got != 0 {
			t.Errorf("%v: %v", x, got)
		}
	}
}

// A solution fits its equations, and a matrix that is not positive definite is refused.
func TestFactorize_RandomMatrices_SolveTheirEquations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for size := 1; size <= 32; size++ {
		m, whole, b := newMatrix(size, size), newMatrix(size, size), make([]float64, size)
		for i := range m {
			for j := range i + 1 {
				v := r.NormFloat64()
				if i == j {
					v = float64(2*size) + math.Abs(v)
				}
				whole[i][j], whole[j][i] = v, v
				m[i][j], m[j][i] = v, v
			}
			b[i] = r.NormFloat64()
		}
		if !m.factorize() {
			t.Fatalf("size %d: refused", size)
		}
		x := m.solve(b)
		for i := range whole {
			if math.Abs(dot(whole[i], x)-b[i]) > 1e-9 {
				t.Errorf("size %d, row %d: %v, want %v", size, i, dot(whole[i], x), b[i])
			}
		}
	}
	for name, m := range map[string]matrix{
		"singular": {{1, 1}, {1, 1}}, "negative": {{-1}}, "zero": {{0}}, "not a number": {{math.NaN()}}, "infinite": {{math.Inf(1)}}, "indefinite": {{1, 2}, {2, 1}},
	} {
		if m.factorize() {
			t.Errorf("%s: accepted", name)
		}
	}
}
