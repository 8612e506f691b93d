package graph

import "math"

// Gaussian returns the bounds of μ-Gaussian differential privacy (J. Dong, A. Roth, W. Su,
// "Gaussian Differential Privacy", Journal of the Royal Statistical Society B 84(1), 2022):
// Upper(α) = Φ(Φ⁻¹(α)+μ) and Lower(α) = Φ(Φ⁻¹(α)−μ), where Φ is the standard normal distribution
// function. Answers of neighbours are then no easier to tell apart than two normal variables of
// variance 1 whose means differ by μ: of an output that the one gives with probability α, the test
// that decides for the other has level α and power at most Upper(α).
//
// These are a suitable pair: each is the inverse of the other, and Upper(α) = 1 − Lower(1−α). At
// distance d, μd takes the place of μ.
//
// All three functions are computed in the tail where they are small: the relative error is below
// 1e-12 for every α that is a normal float64. Where Lower and Tradeoff would be positive but below
// the smallest of these, 2^−1022, they are that (or α itself, or 1−α, if it is less): an error
// rounded to 0 would tell neighbours apart.
//
// It returns [ErrInvalid] unless 0 < μ ≤ 1000.
func Gaussian(mu float64) (Pair, error) {
	if !(mu > 0 && mu <= 1000) {
		return Pair{}, invalid("μ = %v is not above 0 and at most 1000", mu)
	}
	lowered := func(z wide) float64 { return max(leastNormal, normal(z.plus(-mu))) }
	return Pair{
		Lower:    func(alpha float64) float64 { return min(alpha, lowered(normalQuantile(alpha))) },
		Upper:    func(alpha float64) float64 { return max(alpha, normal(normalQuantile(alpha).plus(mu))) },
		Tradeoff: func(alpha float64) float64 { return min(1-alpha, lowered(normalQuantile(alpha).negative())) },
	}, nil
}

// leastNormal is the smallest float64 with all its digits.
const leastNormal = 0x1p-1022

// wide is a number in two parts, with more digits than one float64: in the tail, a small error of x
// is a large one of Φ(x).
type wide struct{ high, low float64 }

// plus returns x+y, with what rounds away in the low part (Knuth's TwoSum).
func (x wide) plus(y float64) wide {
	sum := x.high + y
	part := sum - x.high
	return wide{sum, x.low + (x.high - (sum - part)) + (y - part)}
}

func (x wide) negative() wide { return wide{-x.high, -x.low} }

// sqrt2Low is what √2 is above the float64 nearest to it.
const sqrt2Low = -9.667293313452913e-17

// normal is Φ. As Φ(x) = erfc(−x/√2)/2 it keeps its digits in the lower tail; what the division by
// √2 leaves is added by the derivative.
func normal(x wide) float64 {
	y := x.high / math.Sqrt2
	phi := math.Erfc(-y) / 2
	density := math.Exp(-x.high*x.high/2) / math.Sqrt(2*math.Pi)
	if density == 0 { // x may be infinite
		return phi
	}
	return phi + density*(x.low+math.FMA(-y, math.Sqrt2, x.high)-y*sqrt2Low)
}

// normalQuantile is Φ⁻¹, so exact that Φ and 1−Φ of it have 15 digits of p and 1−p, whichever is
// less. (That of package math, Erfcinv, has no digits in the lower tail.)
func normalQuantile(p float64) wide {
	if p > 0.5 {
		return normalQuantile(1 - p).negative()
	}
	if p == 0 {
		return wide{high: math.Inf(-1)}
	}
	x := math.Sqrt2 * math.Erfinv(2*p-1)
	if p < 1e-6 { // Φ(x) ~ e^(−x²/2)/(−x√(2π))
		square := -2 * logarithm(p)
		x = -math.Sqrt(square - math.Log(2*math.Pi*square))
	}
	// Newton's method on the logarithm of Φ, which is nearly a parabola in the tail.
	for range 4 {
		phi := normal(wide{high: x})
		x -= overDensity(math.Log(phi/p)*phi, x)
	}
	return wide{x, overDensity(p-normal(wide{high: x}), x)}
}

// overDensity returns y divided by the density at x, in two steps: the density may be below all
// float64.
func overDensity(y, x float64) float64 {
	root := math.Exp(x * x / 4)
	return y * root * math.Sqrt(2*math.Pi) * root
}
