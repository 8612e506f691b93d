package graph

import (
	"math"
	"math/big"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// precision is the precision of the reference computations, in bits. It is far above any
// cancellation.
const precision = 400

func bigOf(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

func bigAdd(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Add(a, b) }
func bigSub(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Sub(a, b) }
func bigMul(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Mul(a, b) }
func bigQuo(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Quo(a, b) }

func bigMin(a, b *big.Float) *big.Float {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

func bigMax(a, b *big.Float) *big.Float {
	if a.Cmp(b) >= 0 {
		return a
	}
	return b
}

// bigExp returns e^x by the series of e^(x/2^k), squared k times.
func bigExp(x *big.Float) *big.Float {
	const halvings = 40
	small := new(big.Float).SetPrec(precision).SetMantExp(x, -halvings)
	sum, term := bigOf(1), bigOf(1)
	for n := 1; n < 40; n++ {
		term = bigQuo(bigMul(term, small), bigOf(float64(n)))
		sum = bigAdd(sum, term)
	}
	for range halvings {
		sum = bigMul(sum, sum)
	}
	return sum
}

// bigUpper is torkamani2023 Eq. (8) as printed.
func bigUpper(dp Privacy, alpha *big.Float) *big.Float {
	return upperOf(bigExp(bigOf(dp.Epsilon)), bigOf(dp.Delta), alpha)
}

func upperOf(e, delta, alpha *big.Float) *big.Float {
	grown := bigAdd(bigMul(e, alpha), delta)
	shrunk := bigQuo(bigAdd(bigSub(bigAdd(e, delta), bigOf(1)), alpha), e)
	return bigMin(bigMin(grown, shrunk), bigOf(1))
}

// bigLower is torkamani2023 Eq. (9), with e^ε α − δ − e^ε + 1 in an order that does not cancel.
func bigLower(dp Privacy, alpha *big.Float) *big.Float {
	e, delta := bigExp(bigOf(dp.Epsilon)), bigOf(dp.Delta)
	rest := bigSub(bigSub(bigOf(1), delta), bigMul(e, bigSub(bigOf(1), alpha)))
	shrunk := bigQuo(bigSub(alpha, delta), e)
	return bigMax(bigMax(rest, shrunk), new(big.Float))
}

// bigTradeoff is 1 less torkamani2023 Eq. (8), and how much of it a float64 may lose to
// cancellation: (1−α)−δ is divided by e^ε afterwards.
func bigTradeoff(dp Privacy, alpha float64) (tradeoff, lost float64) {
	e, rest := bigExp(bigOf(dp.Epsilon)), bigSub(bigSub(bigOf(1), bigOf(alpha)), bigOf(dp.Delta))
	grown := bigSub(bigSub(bigOf(1), bigOf(dp.Delta)), bigMul(e, bigOf(alpha)))
	shrunk := bigQuo(rest, e)
	tradeoff, _ = bigMax(bigMax(grown, shrunk), new(big.Float)).Float64()
	if grown.Cmp(shrunk) > 0 {
		return tradeoff, 4e-16
	}
	return tradeoff, 2e-16 * math.Exp(-dp.Epsilon)
}

var (
	someEpsilons = []float64{1e-300, 1e-12, 1e-6, 0.001, 0.1, math.Ln2, 1, 2.5, 10, 36, 50, 300, 700, 701, 710, 1000}
	someDeltas   = []float64{0, 1e-300, 1e-15, 1e-9, 1e-6, 0.01, 0.1, 0.5, 0.999999}
	someAlphas   = []float64{0, 5e-324, 1e-300, 1e-20, 1e-12, 1e-5, 0.01, 0.2, 0.3, 0.4999, 0.5, 0.6, 0.9, 1 - 1e-6, 1 - 0x1p-53, 1}
)

// Upper and Lower must agree with the formulas in 400 bits. Upper has 15 digits everywhere. Lower
// has them where it is (α−δ)/e^ε, and elsewhere loses the digits that cancel in 1 − e^ε(1−α).
func TestPrivacyBounds_AgreeWithBigFloats(t *testing.T) {
	for _, epsilon := range someEpsilons {
		for _, delta := range someDeltas {
			dp := Privacy{epsilon, delta}
			check.Must(t, dp.Validate())
			if epsilon == 1e-300 && delta == 1e-300 {
				continue // 400 bits are too few for a sum of both and 1
			}
			for _, alpha := range someAlphas {
				upper, _ := bigUpper(dp, bigOf(alpha)).Float64()
				if got := dp.Upper(alpha); apart(got, upper, 1e-15, 0) || got < alpha {
					t.Errorf("%v Upper(%v): %v, want %v", dp, alpha, got, upper)
				}
				tradeoff, lost := bigTradeoff(dp, alpha)
				if got := dp.powers().opposite(alpha); apart(got, tradeoff, 1e-15, max(lost, tiny)) || got > 1-alpha {
					t.Errorf("%v opposite(%v): %v, want %v", dp, alpha, got, tradeoff)
				}
				lower, _ := bigLower(dp, bigOf(alpha)).Float64()
				if got := dp.powers().lower(alpha); apart(got, lower, 1e-15, 4e-16) || got > alpha {
					t.Errorf("%v Lower(%v): %v, want %v", dp, alpha, got, lower)
				}
			}
		}
	}
}

// For these probabilities α, 1 − α in float64 has no digits of α.
func TestPrivacyLower_SmallProbabilities_KeepTheirDigits(t *testing.T) {
	for _, alpha := range []float64{1e-290, 1e-30, 1e-10} {
		got, want := (Privacy{1, 0}).powers().lower(alpha), alpha/math.E
		check.That(t, !apart(got, want, 1e-15, 0), "Lower(%v) = %v, want %v", alpha, got, want)
	}
}

func TestPrivacyValidate_OutOfRange_IsRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, dp := range []Privacy{
		{0, 0}, {-1, 0}, {math.Nextafter(1000, inf), 0}, {nan, 0}, {inf, 0}, {-inf, 0},
		{1, -1e-300}, {1, 1}, {1, nan}, {1, inf}, {1, -inf},
	} {
		check.Is(t, dp.Validate(), privacy.ErrInvalid, "%v", dp)
	}
	for _, dp := range []Privacy{{5e-324, 0}, {1000, math.Nextafter(1, 0)}} {
		check.Equal(t, dp.Validate(), nil, "%v", dp)
	}
}
