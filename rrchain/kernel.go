package rrchain

import (
	"fmt"
	"math"

	"github.com/sluicedp/sluice/privacy"
)

// maxValues is the largest number of values a question may have.
const maxValues = 1 << 20

// checkValues returns [privacy.ErrInvalid] unless a question can have m values.
func checkValues(m int) error {
	if m < 2 || m > maxValues {
		return fmt.Errorf("%w: %d values; a question has 2 to %d", privacy.ErrInvalid, m, maxValues)
	}
	return nil
}

// Kernel holds the transition probabilities that raise a randomized response from one ε to a higher
// one, pan2024 Eq. (50) and (54). Let a be the true value, b another value, and c any third one.
// Then PXY is the probability that the next response is Y if the last one was X.
//
// The probabilities are float64 values for display and analysis. Each has a relative error of a few
// 10⁻¹⁴ if it is above 10⁻³⁰⁰. Smaller ones lose digits, and the smallest become 0. Drawing does
// not use them (see [Sampler]).
type Kernel struct {
	Values      int             // m, the number of values of the question
	From, To    privacy.Epsilon // the levels; From is 0 for a first response
	PAA         float64         // the true value again
	OneMinusPAA float64         // from the true value to any other; exact where PAA rounds to 1
	PBA         float64         // from a false value to the true one
	PBB         float64         // the same false value again
	PBC         float64         // from a false value to one particular third value; 0 for m = 2
}

// NewKernel returns the kernel for m values from one ε to another. It returns [privacy.ErrInvalid]
// unless 2 ≤ m ≤ 2²⁰ and from ≤ to. From ε = 0 the kernel is the law of a first response. From an ε
// to itself it is the identity.
//
// The paper's closed form suffers from cancellation if the two ε are close or small, and overflows
// if they are large. The code therefore computes Eqs. (109), (108) and (110) with e^{ε₂} divided
// out, so that every exponent is negative and every difference is an expm1.
func NewKernel(m int, from, to privacy.Epsilon) (Kernel, error) {
	k := Kernel{Values: m, From: from, To: to}
	if err := checkValues(m); err != nil {
		return k, err
	}
	rise, err := to.Sub(from)
	if err != nil {
		return k, fmt.Errorf("%w: a response is raised from %v to a higher ε, not to %v", privacy.ErrInvalid, from, to)
	}
	if rise.IsZero() {
		k.PAA, k.PBB = 1, 1
		return k, nil
	}
	others := float64(m - 1)
	// moved = (e^ε₂ − e^ε₁)/(e^ε₂ − 1) is the probability that a false value is drawn again.
	moved := expm1Neg(rise) / expm1Neg(to)
	k.PBA = moved / (1 + others*expNeg(to))
	if m > 2 {
		k.PBC = k.PBA * expNeg(to)
	}
	k.PBB = expNeg(rise)*expm1Neg(from)/expm1Neg(to) + k.PBA*expNeg(to)
	k.OneMinusPAA = others * k.PBA * expNeg(to) * expNeg(from)
	// The difference 1 − OneMinusPAA would suffer from cancellation: for large m and small ε, p_aa
	// is about 1/m.
	k.PAA = (1 + others*expNeg(to)*expm1Neg(from)/expm1Neg(to)) / (1 + others*expNeg(to))
	return k, nil
}

// expNeg returns e^−ε. It corrects for the rounding of ε to a float64, because near ε = 1,000 this
// rounding alone would cause a relative error of 10⁻¹³.
func expNeg(e privacy.Epsilon) float64 {
	x := e.Float64()
	residual := -math.FMA(x, 1e9, -float64(e.Nano())) / 1e9
	return math.Exp(-x) * (1 - residual)
}

// expm1Neg returns 1 − e^−ε without cancellation.
func expm1Neg(e privacy.Epsilon) float64 { return -math.Expm1(-e.Float64()) }
