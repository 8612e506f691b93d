package mechanism

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// TestCheckPassesPrivacy is torkamani2023 Proposition 2, on a grid and at the points where the bounds turn.
func TestCheckPassesPrivacy(t *testing.T) {
	for _, epsilon := range someEpsilons {
		for _, delta := range someDeltas {
			dp := Privacy{epsilon, delta}
			turn := (1 - delta) / (math.Exp(epsilon) + 1)
			points := []float64{turn, 1 - turn, delta, 1 - delta}
			for _, x := range points {
				points = append(points, math.Nextafter(x, 0), math.Nextafter(x, 1))
			}
			if err := dp.Pair().Check(points...); err != nil {
				t.Errorf("%v: %v", dp, err)
			}
		}
	}
}

func TestCheckPassesOthers(t *testing.T) {
	// Halves: with the probability α, a neighbour has at least α/2 and errs with at least (1−α)/2.
	halves := Pair{
		Lower: func(x float64) float64 { return max(x/2, 2*x-1) },
		Upper: func(x float64) float64 { return min(2*x, (1+x)/2) },
	}
	same := func(x float64) float64 { return x }
	pairs := []Pair{halves, {same, same}, totalVariation(0.1), {constant(0), constant(1)}}
	for _, mu := range []float64{1e-9, 0.01, 0.5, 1, 3, 8, 30, 1000} {
		gaussian, err := Gaussian(mu)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, gaussian)
	}
	for i, pair := range pairs {
		if err := pair.Check(); err != nil {
			t.Errorf("pair %d: %v", i, err)
		}
	}
}

// TestCheckFindsSpoiled has pairs of which one property fails, most by only 1e-6.
func TestCheckFindsSpoiled(t *testing.T) {
	const bit = 1e-6
	dp := Privacy{math.Ln2, 0.1}
	good, wide := dp.Pair(), totalVariation(0.2)
	for _, test := range []struct {
		pair     Pair
		property Property
		alpha    float64
	}{
		{Pair{func(x float64) float64 { return good.Lower(x) - bit }, good.Upper}, InRange, 0},
		{Pair{good.Lower, func(x float64) float64 { return good.Upper(x) + bit }}, InRange, 0.9 - bit},
		{Pair{constant(math.NaN()), good.Upper}, InRange, 0},
		{Pair{good.Lower, constant(math.Inf(1))}, InRange, 0},
		{Pair{func(x float64) float64 { return min(x+bit, 1) }, constant(1)}, LowerBelow, 0},
		{Pair{constant(0), func(x float64) float64 { return max(x-bit, 0) }}, UpperAbove, 5e-7},
		{Pair{func(x float64) float64 { return min(wide.Lower(x)+bit, x) }, wide.Upper}, LowerOfUpper, 0},
		{Pair{func(x float64) float64 { return max(wide.Lower(x)-bit, 0) }, wide.Upper}, UpperOfLower, 0.2 + bit},
		{Pair{func(x float64) float64 { return x * x }, math.Sqrt}, Opposite, 0},
	} {
		err := test.pair.Check()
		var pair *PairError
		if !errors.As(err, &pair) || pair.Property != test.property || math.Abs(pair.Alpha-test.alpha) > 1.0/4096 || !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", test.property, err)
		}
	}
}

// TestCheckFindsDents is on bounds that go down at one point: only who asks for that point will know.
func TestCheckFindsDents(t *testing.T) {
	const at = 0.3333
	dent := func(elsewhere, there float64) func(float64) float64 {
		return func(x float64) float64 {
			if math.Abs(x-at) < 1e-9 {
				return there
			}
			return elsewhere
		}
	}
	for _, test := range []struct {
		pair     Pair
		property Property
	}{
		{Pair{dent(0, 0.1), constant(1)}, LowerGrows},
		{Pair{constant(0), dent(1, 0.9)}, UpperGrows},
	} {
		if err := test.pair.Check(); err != nil {
			t.Errorf("%v: found between the points: %v", test.property, err)
		}
		var pair *PairError
		if err := test.pair.Check(at); !errors.As(err, &pair) || pair.Property != test.property || math.Abs(pair.Alpha-at) > 1.0/4096 {
			t.Errorf("%v: %v", test.property, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	good := Privacy{1, 0}.Pair()
	for _, x := range []float64{-0.1, 1.1, math.NaN(), math.Inf(-1)} {
		if err := good.Check(0.5, x); !errors.Is(err, ErrInvalid) {
			t.Errorf("point %v: %v", x, err)
		}
	}
	for _, pair := range []Pair{{}, {Lower: good.Lower}, {Upper: good.Upper}} {
		if err := pair.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("half a pair: %v", err)
		}
	}
}

func TestPairErrorText(t *testing.T) {
	for want, e := range map[string]*PairError{
		"not a suitable pair: α ≤ Upper(α) does not hold at α = 0.5: 0.5 is above 0.25":          {UpperAbove, 0.5, 0.5, 0.25},
		"not a suitable pair: Lower(α) and Upper(α) in [0,1] does not hold at α = 0.5, with 1.5": {InRange, 0.5, 1.5, 1},
	} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e.Error(), want)
		}
	}
	for _, p := range []Property{0, 99} {
		if !strings.HasPrefix(p.String(), "Property(") {
			t.Errorf("%d: %v", p, p)
		}
	}
}

// TestNormalQuantile inverts Φ, and has it right at the points of a table.
func TestNormalQuantile(t *testing.T) {
	for p, want := range map[float64]float64{
		0.5: 0, 0.975: 1.959963984540054, 0.025: -1.959963984540054, 1e-10: -6.361340902404056, 0: math.Inf(-1), 1: math.Inf(1),
		1e-300: -37.0471,
	} {
		if got := normalQuantile(p); got != want && (apart(got, want, 2e-6, 1e-16) || p > 1e-300 && apart(got, want, 1e-14, 1e-16)) {
			t.Errorf("Φ⁻¹(%v) = %v, want %v", p, got, want)
		}
	}
	for _, p := range []float64{1e-300, 1e-100, 1e-20, 1e-7, 9.9e-7, 1.1e-6, 0.001, 0.2, 0.49, 0.51, 0.9, 1 - 1e-9} {
		if got := normal(normalQuantile(p)); apart(got, p, 1e-13, 0) {
			t.Errorf("Φ(Φ⁻¹(%v)) = %v", p, got)
		}
	}
}

// TestGaussianComposes has μd at distance d, the group privacy of Gaussian differential privacy.
func TestGaussianComposes(t *testing.T) {
	step, err := Gaussian(0.25)
	if err != nil {
		t.Fatal(err)
	}
	for d := range 20 {
		for _, alpha := range []float64{0, 1e-30, 0.001, 0.3, 0.5, 0.9, 1} {
			want := alpha
			if d > 0 {
				whole, err := Gaussian(0.25 * float64(d))
				if err != nil {
					t.Fatal(err)
				}
				want = whole.Upper(alpha)
			}
			if got, err := step.Truthful(alpha, d); err != nil || apart(got, want, 1e-11, 0) {
				t.Errorf("α = %v, distance %d: %v, %v, want %v", alpha, d, got, err, want)
			}
		}
	}
	for _, mu := range []float64{0, -1, math.NaN(), math.Inf(1), 1001} {
		if _, err := Gaussian(mu); !errors.Is(err, ErrInvalid) {
			t.Errorf("μ = %v: %v", mu, err)
		}
	}
}

// TestGaussianBalanced gives Φ(μ/2) at the boundary, as two normal variables at the distance μ are
// best told apart in the middle; and all errors keep their digits.
func TestGaussianBalanced(t *testing.T) {
	g, p := pathGraph(t, 10), twoColors(t, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1)
	for _, mu := range []float64{0.01, 1, 4} {
		gaussian, err := Gaussian(mu)
		if err != nil {
			t.Fatal(err)
		}
		table, err := BinaryBalanced(g, p, gaussian)
		if err != nil {
			t.Fatal(err)
		}
		for v := range 10 {
			d := float64(max(4-v, v-5))
			if got, want := table.At(v)[1-p.Color(v)], normal(-mu/2-mu*d); apart(got, want, 1e-10, 1e-300) {
				t.Errorf("μ = %v, vertex %d: error %v, want %v", mu, v, got, want)
			}
		}
	}
}

// TestBalancedPairs solves for the balanced truth: 1/2 if nothing may change, 1 if all may.
func TestBalancedPairs(t *testing.T) {
	same := func(x float64) float64 { return x }
	for _, test := range []struct {
		pair  Pair
		truth float64
	}{
		{Pair{same, same}, 0.5}, {Pair{constant(0), constant(1)}, 1}, {totalVariation(0.3), 0.65}, {Privacy{math.Ln2, 0.1}.Pair(), 0.7},
	} {
		table, err := BinaryBalanced(pathGraph(t, 2), twoColors(t, 0, 1), test.pair)
		if err != nil || apart(table.At(0)[0], test.truth, 1e-15, 0) || apart(table.At(1)[1], test.truth, 1e-15, 0) {
			t.Errorf("%v, %v, want %v", table, err, test.truth)
		}
	}
}
