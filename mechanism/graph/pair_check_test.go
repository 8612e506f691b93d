package graph

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
	pairs := []Pair{halves, {Lower: same, Upper: same}, totalVariation(0.1), {Lower: constant(0), Upper: constant(1)}}
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
		{Pair{Lower: func(x float64) float64 { return good.Lower(x) - bit }, Upper: good.Upper}, InRange, 0},
		{Pair{Lower: good.Lower, Upper: func(x float64) float64 { return good.Upper(x) + bit }}, InRange, 0.9 - bit},
		{Pair{Lower: constant(math.NaN()), Upper: good.Upper}, InRange, 0},
		{Pair{Lower: good.Lower, Upper: constant(math.Inf(1))}, InRange, 0},
		{Pair{Lower: func(x float64) float64 { return min(x+bit, 1) }, Upper: constant(1)}, LowerBelow, 0},
		{Pair{Lower: constant(0), Upper: func(x float64) float64 { return max(x-bit, 0) }}, UpperAbove, 5e-7},
		{Pair{Lower: func(x float64) float64 { return min(wide.Lower(x)+bit, x) }, Upper: wide.Upper}, LowerOfUpper, 0},
		{Pair{Lower: func(x float64) float64 { return max(wide.Lower(x)-bit, 0) }, Upper: wide.Upper}, UpperOfLower, 0.2 + bit},
		{Pair{Lower: func(x float64) float64 { return x * x }, Upper: math.Sqrt}, Opposite, 0},
		{Pair{good.Lower, good.Upper, constant(math.NaN())}, InRange, 0},
		{Pair{good.Lower, good.Upper, func(x float64) float64 { return good.Tradeoff(x) + min(x, bit) }}, TradeoffFits, 0},
		{Pair{good.Lower, good.Upper, func(x float64) float64 { return max(good.Tradeoff(x)-bit, 0) }}, TradeoffFits, 0},
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
		{Pair{Lower: dent(0, 0.1), Upper: constant(1)}, LowerGrows},
		{Pair{Lower: constant(0), Upper: dent(1, 0.9)}, UpperGrows},
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

// TestBalancedPairs solves for the balanced truth: 1/2 if nothing may change, 1 if all may.
func TestBalancedPairs(t *testing.T) {
	same := func(x float64) float64 { return x }
	for _, test := range []struct {
		pair  Pair
		truth float64
	}{
		{Pair{Lower: same, Upper: same}, 0.5}, {Pair{Lower: constant(0), Upper: constant(1)}, 1}, {totalVariation(0.3), 0.65}, {Privacy{math.Ln2, 0.1}.Pair(), 0.7},
	} {
		table, err := BinaryBalanced(pathGraph(t, 2), twoColors(t, 0, 1), test.pair)
		if err != nil || apart(table.At(0)[0], test.truth, 1e-15, 0) || apart(table.At(1)[1], test.truth, 1e-15, 0) {
			t.Errorf("%v, %v, want %v", table, err, test.truth)
		}
	}
}

// TestSpoiledTradeoff is noticed by a mechanism too, as soon as it is needed.
func TestSpoiledTradeoff(t *testing.T) {
	good := Privacy{math.Ln2, 0}.Pair()
	for wrong, property := range map[float64]Property{0.2: TradeoffFits, 0.4 - 2e-12: TradeoffFits, -1e-300: InRange, 1.3: InRange} {
		_, err := Pair{good.Lower, good.Upper, constant(wrong)}.Truthful(0.3, 1)
		var pair *PairError
		if !errors.As(err, &pair) || pair.Property != property || pair.Alpha != 0.3 {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// TestPairKeepsErrors walks with the bounds of (ε,δ) as a pair where errors are nothing beside 1, and compares with the
// formulas for both halves of a chance.
func TestPairKeepsErrors(t *testing.T) {
	for _, dp := range []Privacy{{20, 0}, {40, 0}, {50, 1e-30}, {100, 0}, {250, 0}} {
		steps, err := dp.stepper()
		if err != nil {
			t.Fatal(err)
		}
		shrink := math.Exp(-dp.Epsilon)
		lie := max(tiny, (1-dp.Delta)*shrink/(1+shrink))
		starts := []struct{ got, want chance }{
			{steps.balanced(), chance{1 - lie, lie}},
			{chanceOf(shrink / 8), chanceOf(shrink / 8)}, // from an unlikely truth, growth passes 1/2 in one step
		}
		for _, at := range starts {
			for d := range 6 {
				if apart(at.got.yes, at.want.yes, 1e-13, 0) || apart(at.got.no, at.want.no, 1e-13, 0) {
					t.Errorf("%v, distance %d: %v, want %v", dp, d, at.got, at.want)
				}
				at.got, at.want = steps.next(at.got), nextByFormula(dp, at.want)
			}
		}
	}
}

// nextByFormula is torkamani2023 Eq. (8) for both halves, each computed from the part that keeps its digits.
func nextByFormula(dp Privacy, c chance) chance {
	half := math.Exp(dp.Epsilon / 2)
	grown := c.yes*half*half + dp.Delta
	if grown <= 0.5 {
		return chanceOf(grown)
	}
	no := 0.0
	if c.no > dp.Delta {
		no = max(tiny, math.Exp(-dp.Epsilon)*(c.no-dp.Delta))
	}
	no = min(c.no, max(no, 1-grown))
	return chance{1 - no, no}
}
