package graph

import "math"

// Privacy holds the parameters of (ε,δ)-differential privacy between neighbouring datasets.
type Privacy struct {
	Epsilon float64 // in nats, above 0 and at most 1,000
	Delta   float64 // in [0,1)
}

// Validate returns [ErrInvalid] unless 0 < ε ≤ 1,000 and 0 ≤ δ < 1.
func (dp Privacy) Validate() error {
	if !(dp.Epsilon > 0 && dp.Epsilon <= 1000) {
		return invalid("ε = %v is not above 0 and at most 1000", dp.Epsilon)
	}
	if !(dp.Delta >= 0 && dp.Delta < 1) {
		return invalid("δ = %v is not in [0,1)", dp.Delta)
	}
	return nil
}

// Upper is torkamani2023 Eq. (8), the largest probability of an output that a neighbour may have,
// for α in [0,1] and valid parameters: min(e^ε α + δ, (e^ε + δ − 1 + α)/e^ε, 1). It is never below
// α. As both terms may be alike but not equally exact, it is Lemma 3 that tells which of them is
// the lesser.
func (dp Privacy) Upper(alpha float64) float64 { return dp.powers().upper(alpha) }

// Lower is torkamani2023 Eq. (9), the smallest probability of an output that a neighbour may have:
// max(e^ε α − δ − e^ε + 1, (α − δ)/e^ε, 0) = 1 − Upper(1 − α). It is never above α, and as small
// probabilities keep their digits it is not computed as that difference.
func (dp Privacy) Lower(alpha float64) float64 { return dp.powers().lower(alpha) }

// powers are e^ε, which may be above all float64, as a product, and e^−ε, for many probabilities.
type powers struct{ delta, grow, again, shrink float64 }

func (dp Privacy) powers() powers {
	first := min(dp.Epsilon, 700)
	return powers{dp.Delta, math.Exp(first), math.Exp(dp.Epsilon - first), math.Exp(-dp.Epsilon)}
}

func (p powers) upper(alpha float64) float64 {
	rest := (1 - alpha) - p.delta
	if grown := alpha * p.grow * p.again; grown <= rest {
		return max(alpha, grown+p.delta)
	}
	return max(alpha, min(1-p.shrink*rest, 1))
}

func (p powers) lower(alpha float64) float64 {
	rest := 1 - p.delta - (1-alpha)*p.grow*p.again
	return min(alpha, max(rest, p.shrink*(alpha-p.delta), 0))
}

// tradeoff is 1 − Upper(α), with the digits that Upper loses near 1: the greater of 1 less both its
// terms.
func (p powers) tradeoff(alpha float64) float64 {
	rest := 1 - p.delta - alpha*p.grow*p.again
	return min(1-alpha, max(rest, p.shrink*((1-alpha)-p.delta), 0))
}

// Pair returns the bounds of (ε,δ)-differential privacy as a suitable pair (torkamani2023
// Proposition 2). Where its Lower and Tradeoff would be positive but below 1e-300, they are that
// (or α itself, or 1−α, if it is less): an error rounded to 0 would tell neighbours apart.
func (dp Privacy) Pair() Pair {
	positive := func(bound, alpha float64) float64 {
		if alpha > dp.Delta { // else it is 0
			bound = min(alpha, max(tiny, bound))
		}
		return bound
	}
	p := dp.powers()
	return Pair{
		Lower:    func(alpha float64) float64 { return positive(p.lower(alpha), alpha) },
		Upper:    p.upper,
		Tradeoff: func(alpha float64) float64 { return positive(p.tradeoff(alpha), 1-alpha) },
	}
}

// scaled returns x·e^(steps·rate), also where the power by itself is above all float64 or x is 0.
// For one step it is right to a few units in the last place; for more, the rounding of the exponent
// adds a relative error below 1e-12. The result may be +Inf.
func scaled(x, rate float64, steps int) float64 {
	exponent := float64(steps) * rate
	switch {
	case x == 0:
		return 0
	case math.Abs(exponent) <= 700:
		return x * math.Exp(exponent)
	}
	half := math.Exp(exponent / 2)
	return x * half * half
}

// logarithm is ln x. (On some machines, math.Log is wrong for x below 2^−1022: by 36 in the worst
// case.)
func logarithm(x float64) float64 {
	if x < 0x1p-1022 {
		return math.Log(x*0x1p64) - 64*math.Ln2
	}
	return math.Log(x)
}
