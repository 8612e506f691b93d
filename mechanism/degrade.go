package mechanism

import (
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// Degrade computes from an answer at ε₂ an answer for a lower ε₁, without the data. It keeps the
// answer with probability r and otherwise draws one of the k outputs uniformly, where
//
//	r/(1−r) = (e^ε₁−1)(e^ε₂+1) / (k(e^ε₂−e^ε₁)).
//
// The degraded answer alone is ε₁-private for any ε₂-differentially private mechanism that gave the
// answer. To see this, let a set of outputs have the probabilities p and p′ on neighbouring
// datasets, with p ≤ e^ε₂p′ and 1−p′ ≤ e^ε₂(1−p). So p′ ≤ 1/(e^ε₂+1) wherever p = e^ε₂p′. The new
// probabilities are rp+c and rp′+c with c ≥ (1−r)/k. Their ratio is largest at p′ = 1/(e^ε₂+1),
// where it is e^ε₁.
//
// Both answers together are ε₂-private, because the degraded one is computed from the first alone.
// With two outputs, the law on the boundary is again randomized response at ε₁. Farther away, a
// fresh answer at ε₁ would be better.
//
// Degrade returns [privacy.ErrInvalid] unless 0 < ε₁ < ε₂ and the answer is one of 2 to 1,024
// outputs.
func (s *Sampler) Degrade(outputs, answer int, from, to privacy.Epsilon) (int, error) {
	if outputs < 2 || outputs > maxOutputs || answer < 0 || answer >= outputs {
		return 0, invalid("answer %d is not an output of a query with %d outputs", answer, outputs)
	}
	if to.IsZero() || !to.Less(from) {
		return 0, invalid("an answer at ε = %v cannot be degraded to ε = %v", from, to)
	}
	keep := func(prec uint) exact.Weights {
		r := retention(int64(outputs), from, to, prec)
		return exact.Weights{First: r, Either: r, Same: r}
	}
	value := uint32(answer)
	return int(exact.NewMixture(uint32(outputs), keep).Draw(s.random(), value, value)), nil
}

// retention returns an enclosure of r.
func retention(k int64, from, to privacy.Epsilon, prec uint) exact.Interval {
	one, e1, e2 := exact.Int(1), exact.Exp(to.Nano(), prec), exact.Exp(from.Nano(), prec)
	kept := e1.Sub(one).Mul(e2.Add(one))
	return kept.Quo(kept.Add(exact.Int(k).Mul(e2.Sub(e1))))
}
