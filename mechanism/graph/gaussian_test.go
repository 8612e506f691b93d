package graph

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
)

func bigNeg(x *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Neg(x) }

// bigDensity is e^(−x²/2)/√(2π).
func bigDensity(x *big.Float) *big.Float {
	pi, _, err := big.ParseFloat("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651328230664709384460955058223172", 10, precision, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	root := new(big.Float).SetPrec(precision).Sqrt(bigMul(bigOf(2), pi))
	return bigQuo(bigExp(bigMul(bigMul(x, x), bigOf(-0.5))), root)
}

// bigNormal is Φ in 400 bits.
func bigNormal(x *big.Float) *big.Float {
	switch {
	case x.Sign() > 0:
		return bigSub(bigOf(1), bigNormal(bigNeg(x)))
	case x.Cmp(bigOf(-7)) > 0:
		return bigCenter(x)
	}
	return bigTail(x)
}

// bigCenter is Φ by 1/2 + φ(x)·Σ x^(2n+1)/(2n+1)‼. In the lower tail it loses x²/2 nats of its digits.
func bigCenter(x *big.Float) *big.Float {
	sum, term, square := bigOf(0), x, bigMul(x, x)
	for n := 3; term.Sign() != 0 && term.MantExp(nil) > -precision; n += 2 {
		sum = bigAdd(sum, term)
		term = bigQuo(bigMul(term, square), bigOf(float64(n)))
	}
	return bigAdd(bigOf(0.5), bigMul(bigDensity(x), sum))
}

// bigTail is Φ by Laplace's continued fraction φ(y)/(y+1/(y+2/(y+3/…))) for y = −x > 0.
func bigTail(x *big.Float) *big.Float {
	y := bigNeg(x)
	size, _ := y.Float64()
	rest := y
	for n := 20 + int(20_000/(size*size)); n > 0; n-- {
		rest = bigAdd(y, bigQuo(bigOf(float64(n)), rest))
	}
	return bigQuo(bigDensity(x), rest)
}

// bigQuantile is Φ⁻¹ of a float64 in (0, 1/2]: bisection, and then Newton's method in 400 bits.
func bigQuantile(p float64) *big.Float {
	low, high := -40.0, 0.0
	for range 60 {
		if middle := (low + high) / 2; math.Erfc(-middle/math.Sqrt2)/2 < p {
			low = middle
		} else {
			high = middle
		}
	}
	x := bigOf(low)
	for range 3 {
		x = bigSub(x, bigQuo(bigSub(bigNormal(x), bigOf(p)), bigDensity(x)))
	}
	return x
}

// TestBigNormal compares the two ways with each other, the quantile with its inverse, and all of it with the
// last digits of a table.
func TestBigNormal(t *testing.T) {
	for x := -9.0; x <= -6; x += 0.25 {
		center, tail := bigCenter(bigOf(x)), bigTail(bigOf(x))
		if difference := bigQuo(bigSub(center, tail), tail); difference.Sign() != 0 && difference.MantExp(nil) > -180 {
			t.Errorf("Φ(%v): %v by the series, %v by the fraction", x, center, tail)
		}
	}
	for _, p := range []float64{0.5, 0.3, 1e-5, 1e-20, 1e-307} {
		difference := bigQuo(bigSub(bigNormal(bigQuantile(p)), bigOf(p)), bigOf(p))
		if difference.Sign() != 0 && difference.MantExp(nil) > -140 {
			t.Errorf("Φ(Φ⁻¹(%v)) is off by %v", p, difference)
		}
	}
	for x, want := range map[float64]float64{-1: 0.15865525393145705, -8: 6.220960574271785e-16, -20: 2.7536241186062337e-89} {
		if got, _ := bigNormal(bigOf(x)).Float64(); apart(got, want, 4e-16, 0) {
			t.Errorf("Φ(%v) = %v, want %v", x, got, want)
		}
	}
}

// gaussianReference returns Upper, Lower and Tradeoff at α for a step of μ.
func gaussianReference(alpha, mu float64) (upper, lower, tradeoff float64) {
	z := bigQuantile(min(alpha, 1-alpha)) // 1−α is exact from 1/2 on
	if alpha > 0.5 {
		z = bigNeg(z)
	}
	upper, _ = bigNormal(bigAdd(z, bigOf(mu))).Float64()
	lower, _ = bigNormal(bigSub(z, bigOf(mu))).Float64()
	tradeoff, _ = bigNormal(bigNeg(bigAdd(z, bigOf(mu)))).Float64()
	return upper, max(lower, leastNormal), max(tradeoff, leastNormal)
}

// TestGaussianMatchesBig has α from 10⁻³⁰⁷ to 10⁻¹ and as near to 1, with steps of all sizes. Every α is
// accepted, by Check and by the mechanisms, and both outputs of a neighbour keep their digits.
func TestGaussianMatchesBig(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	steps, points := pace.Tries(10, 40, 40), pace.Tries(24, 80, 80)
	if testing.Short() {
		steps, points = 10, 20
	}
	for i := range steps {
		mu := 1e-3 * math.Pow(40_000, float64(i)/float64(steps-1))
		gaussian, err := Gaussian(mu)
		if err != nil {
			t.Fatal(err)
		}
		var alphas []float64
		for j := range points {
			alpha := math.Pow(10, -1-306*random.Float64())
			switch j % 8 {
			case 0:
				alpha = 1 - math.Pow(10, -1-14.9*random.Float64())
			case 1, 2:
				alpha = math.Pow(10, -1-17*random.Float64())
			}
			alphas = append(alphas, alpha)
			mustMatchReference(t, gaussian, alpha, mu)
		}
		if err := gaussian.Check(alphas...); err != nil {
			t.Errorf("μ = %v: %v", mu, err)
		}
	}
}

func mustMatchReference(t *testing.T, gaussian Pair, alpha, mu float64) {
	t.Helper()
	const digits = 5e-14
	upper, lower, tradeoff := gaussianReference(alpha, mu)
	for name, c := range map[string][2]float64{
		"Upper": {gaussian.Upper(alpha), upper}, "Lower": {gaussian.Lower(alpha), lower}, "Tradeoff": {gaussian.Tradeoff(alpha), tradeoff},
	} {
		if apart(c[0], c[1], digits, 0) {
			t.Errorf("μ = %v, %s(%v) = %v, want %v", mu, name, alpha, c[0], c[1])
		}
	}
	if truth, err := gaussian.Truthful(alpha, 1); err != nil || apart(truth, upper, digits, 0) {
		t.Errorf("μ = %v, α = %v: truthful %v, %v, want %v", mu, alpha, truth, err, upper)
	}
	// Given the small half of its chance, a neighbour has both halves with all their digits.
	output, small := 0, alpha
	if alpha > 0.5 {
		output, small = 1, 1-alpha
	}
	table, err := Extend(pathGraph(t, 2), twoColors(t, 0, 0), gaussian, []Given{{0, output, small}})
	if err != nil {
		t.Errorf("μ = %v, α = %v: %v", mu, alpha, err)
	} else if got := table.At(1); apart(got[0], upper, digits, 0) || apart(got[1], tradeoff, digits, 0) {
		t.Errorf("μ = %v, α = %v: %v, want %v and %v", mu, alpha, got, upper, tradeoff)
	}
}

// TestGaussianWithoutTradeoff accepts every α too; the error is then a difference.
func TestGaussianWithoutTradeoff(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	for range 3000 {
		alpha, mu := math.Pow(10, -1-17*random.Float64()), 1e-3*math.Pow(40_000, random.Float64())
		gaussian, err := Gaussian(mu)
		if err != nil {
			t.Fatal(err)
		}
		bare := Pair{Lower: gaussian.Lower, Upper: gaussian.Upper}
		table, err := Extend(pathGraph(t, 2), twoColors(t, 0, 0), bare, []Given{{0, 0, alpha}})
		if err != nil {
			t.Fatalf("μ = %v, α = %v: %v", mu, alpha, err)
		}
		if got := table.At(1); apart(got[0], gaussian.Upper(alpha), 1e-15, 0) || apart(got[1], gaussian.Tradeoff(alpha), 1e-15, 0x1p-50) {
			t.Fatalf("μ = %v, α = %v: %v", mu, alpha, got)
		}
	}
}

// TestGaussianSmallest is on numbers that a float64 holds with few digits, or not at all.
func TestGaussianSmallest(t *testing.T) {
	for _, mu := range []float64{1e-300, 1e-3, 1, 40, 1000} {
		gaussian, err := Gaussian(mu)
		if err != nil {
			t.Fatal(err)
		}
		for _, alpha := range []float64{5e-324, 1e-320, 1e-310, math.Nextafter(leastNormal, 0), leastNormal} {
			upper, lower, tradeoff := gaussianReference(alpha, mu)
			if got := gaussian.Upper(alpha); apart(got, upper, 2*math.Max(5e-324/alpha, 1e-13), 5e-324) || got < alpha {
				t.Errorf("μ = %v, Upper(%v) = %v, want %v", mu, alpha, got, upper)
			}
			if got := gaussian.Lower(alpha); got != min(alpha, lower) {
				t.Errorf("μ = %v, Lower(%v) = %v", mu, alpha, got)
			}
			if got := gaussian.Tradeoff(alpha); apart(got, tradeoff, 2*math.Max(5e-324/alpha, 1e-13), 0) {
				t.Errorf("μ = %v, Tradeoff(%v) = %v, want %v", mu, alpha, got, tradeoff)
			}
			if _, err := gaussian.Truthful(alpha, 3); err != nil {
				t.Errorf("μ = %v, α = %v: %v", mu, alpha, err)
			}
		}
		if gaussian.Upper(0) != 0 || gaussian.Lower(0) != 0 || gaussian.Tradeoff(0) != 1 ||
			gaussian.Upper(1) != 1 || gaussian.Lower(1) != 1 || gaussian.Tradeoff(1) != 0 {
			t.Errorf("μ = %v: what is certain does not stay so", mu)
		}
	}
}

// TestNormalQuantile inverts Φ, and has it right at the points of a table.
func TestNormalQuantile(t *testing.T) {
	for p, want := range map[float64]float64{
		0.5: 0, 0.975: 1.959963984540054, 0.025: -1.959963984540054, 1e-10: -6.361340902404056, 0: math.Inf(-1), 1: math.Inf(1),
		1e-300: -37.0471,
	} {
		if got := normalQuantile(p).high; got != want && (apart(got, want, 2e-6, 1e-16) || p > 1e-300 && apart(got, want, 1e-14, 1e-16)) {
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
	for _, mu := range []float64{0.01, 1, 4, 12, 16, 20, 40, 74, 75, 1000} {
		gaussian, err := Gaussian(mu)
		if err != nil {
			t.Fatal(err)
		}
		table, err := BinaryBalanced(g, p, gaussian)
		if err != nil {
			t.Fatal(mu, err)
		}
		for v := range 10 {
			d := float64(max(4-v, v-5))
			want, _ := bigNormal(bigOf(-mu/2 - mu*d)).Float64()
			if got := table.At(v)[1-p.Color(v)]; apart(got, max(want, leastNormal), 1e-12, 0) {
				t.Errorf("μ = %v, vertex %d: error %v, want %v", mu, v, got, want)
			}
			if mu == 16 && d == 0 && apart(table.At(v)[1-p.Color(v)], 6.221e-16, 1e-4, 0) {
				t.Errorf("vertex %d: error %v", v, table.At(v)[1-p.Color(v)])
			}
		}
	}
}
