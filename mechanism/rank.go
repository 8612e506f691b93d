package mechanism

import (
	"math/big"

	"github.com/sluicedp/sluice/internal/exact"
)

// Rank makes an answer of a score by any law at the boundary, with any number of outputs. law has
// the probabilities of the ranks 0 … k−1 at position 0, exactly. At position z, the rank is at most
// j with the probability U^z(law[0] + … + law[j]), where U is graph.Privacy.Upper for δ = 0, and
// for negative z the inverse of U is applied: all prefix sums are the largest that z steps allow,
// at once. For z ≥ 0 the ranks have the law of graph.Privacy.Law. With two outputs and law = {α,
// 1−α}, rank 0 is the answer yes: at distance d it is right with the probability
// graph.Privacy.Truthful has for α where yes is true, and where no is true with that for the
// boundary's own probability 1−U⁻¹(α).
//
// The rank is made of the score and of coins that know nothing of the data, so that ranks of scores
// at several ε, for laws of any kind, cost nothing beyond the scores: they are raised with the
// scores. To ask twice about one score tosses new coins: keep the rank.
//
// Why the law is the right one: let R = Pr(noise > y) + V·Pr(noise = y) for a score y and a uniform
// V; the rank is the first j with R < law[0] + … + law[j]. At position 0, R is uniform, whatever ε
// is. The lattice of the probabilities G(x) = Pr(noise ≥ −x) is moved by U one step, G(x+1) =
// U(G(x)), and the only point where U is not linear, 1/(e^ε+1) = G(−1), belongs to it. So if R < s
// has the probability s = (1−w)G(x) + wG(x+1) at one position, it has U(s) = (1−w)G(x+1) + wG(x+2)
// at the next.
//
// It returns [privacy.ErrInvalid] for what is no score, and for a law that does not add up to
// exactly 1 or has fewer than 2 or more than 1,024 outputs.
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

// cumulative encloses (sum − Pr(noise > value)) / Pr(noise = value), at least 0, for all sums but
// the last. What is above 1 is as good as 1.
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

// noise encloses the probabilities of noise above the value and of noise that is the value: with α
// = e^−ε, α^(y+1)/(1+α) above y ≥ 0, 1 − α^−y/(1+α) above y < 0, and (1−α)/(1+α)·α^|y|.
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
