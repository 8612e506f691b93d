package mechanism

import (
	"math/big"

	"github.com/sluicedp/sluice/internal/exact"
)

// Rank computes an answer from a score by any law at the boundary, with any number of outputs. law
// has the exact probabilities of the ranks 0 … k−1 at position 0. At position z, the rank is at
// most j with the probability U^z(law[0] + … + law[j]), where U is graph.Privacy.Upper for δ = 0.
// For negative z the inverse of U is applied. All prefix sums are therefore the largest that z
// steps allow, at the same time. For z ≥ 0 the ranks have the law of graph.Privacy.Law.
//
// With two outputs and law = {α, 1−α}, rank 0 is the answer yes. Where yes is true, at distance d,
// it is correct with the probability graph.Privacy.Truthful for α. Where no is true, it is correct
// with that for the boundary's own probability 1−U⁻¹(α).
//
// The rank is computed from the score and from random bits that are independent of the data. So
// ranks of scores at several ε, for any laws, cost nothing beyond the scores, and they are raised
// with the scores. Two calls for one score use new random bits, so the caller must keep the rank.
//
// The law is correct for the following reason. Let R = Pr(noise > y) + V·Pr(noise = y) for a score
// y and a uniform V. The rank is the first j with R < law[0] + … + law[j]. At position 0, R is
// uniform for every ε. U moves the lattice of the probabilities G(x) = Pr(noise ≥ −x) by one step,
// G(x+1) = U(G(x)). The only point where U is not linear, 1/(e^ε+1) = G(−1), belongs to the
// lattice. So if R < s has the probability s = (1−w)G(x) + wG(x+1) at one position, it has the
// probability U(s) = (1−w)G(x+1) + wG(x+2) at the next.
//
// Rank returns [privacy.ErrInvalid] for an invalid score. It also does so for a law that does not
// sum to exactly 1 or has fewer than 2 or more than 1,024 outputs.
func (s *Sampler) Rank(score Score, law []*big.Rat) (int, error) {
	if err := score.check(); err != nil {
		return 0, err
	}
	if len(law) < 2 || len(law) > maxOutputs {
		return 0, invalid("a law of %d outputs; 2 to %d are possible", len(law), maxOutputs)
	}
	if reason := exact.LawFault(law); reason != "" {
		return 0, invalid("%s", reason)
	}
	r := rankLaw{nano: score.Epsilon.Nano(), value: score.Value, sums: prefixSums(law)}
	return exact.DrawRank(s.random(), s.random().Uint64(), len(law)-1, r.cumulative), nil
}

// prefixSums returns the sums of the first 1 … k probabilities.
func prefixSums(law []*big.Rat) []*big.Rat {
	sums, sum := make([]*big.Rat, len(law)), new(big.Rat)
	for j, p := range law {
		sum = new(big.Rat).Add(sum, p)
		sums[j] = sum
	}
	return sums
}

// rankLaw is the law of the rank given a score.
type rankLaw struct {
	nano  int64 // ε
	value int64
	sums  []*big.Rat
}

// cumulative returns an enclosure of (sum − Pr(noise > value)) / Pr(noise = value), at least 0, for
// all sums except the last. Values above 1 have the same effect as 1.
func (r rankLaw) cumulative(prec uint) []exact.Interval {
	above, at := r.noise(prec)
	chances := make([]exact.Interval, len(r.sums)-1)
	for j := range chances {
		sum := exact.Rational(r.sums[j], prec)
		switch {
		case r.sums[j].Sign() == 0 || sum.Below(above):
			chances[j] = exact.Int(0)
		case r.sums[j].Cmp(big.NewRat(1, 1)) == 0:
			chances[j] = exact.Int(1)
		case above.Below(sum):
			chances[j] = sum.Sub(above).Quo(at)
		default: // not yet known
			chances[j] = exact.Int(1).OrLess()
		}
	}
	return chances
}

// noise returns enclosures of the probabilities that the noise is above the value and equal to it.
// With α = e^−ε, the probability above y is α^(y+1)/(1+α) for y ≥ 0 and 1 − α^−y/(1+α) for y < 0.
// The probability of y is (1−α)/(1+α)·α^|y|.
func (r rankLaw) noise(prec uint) (above, at exact.Interval) {
	one, d := exact.Int(1), newDecay(exact.Exp(r.nano, prec), r.nano, prec)
	alpha := d.pow(1)
	size := uint64(max(r.value, -r.value))
	power := d.pow(size).Quo(one.Add(alpha))
	if r.value >= 0 {
		above = power.Mul(alpha)
	} else {
		above = one.Sub(power)
	}
	return above, one.Sub(alpha).Mul(power)
}
