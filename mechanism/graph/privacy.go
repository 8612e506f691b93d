package graph

import (
	"cmp"
	"math"
)

// Privacy holds the parameters of (ε,δ)-differential privacy between neighbouring datasets.
type Privacy struct {
	Epsilon float64 // in nats, above 0 and at most 1,000
	Delta   float64 // in [0,1)
}

// Validate returns [privacy.ErrInvalid] unless 0 < ε ≤ 1,000 and 0 ≤ δ < 1.
func (dp Privacy) Validate() error {
	if !(dp.Epsilon > 0 && dp.Epsilon <= 1000) {
		return invalid("ε = %v is not above 0 and at most 1000", dp.Epsilon)
	}
	if !(dp.Delta >= 0 && dp.Delta < 1) {
		return invalid("δ = %v is not in [0,1)", dp.Delta)
	}
	return nil
}

// Upper returns the largest probability of an output that a neighbour may have (torkamani2023 Eq.
// (8)), for α in [0,1] and valid parameters: min(e^ε α + δ, (e^ε + δ − 1 + α)/e^ε, 1). It is never
// below α. The first two terms may be almost equal and have different rounding errors, so Lemma 3
// decides which of them is smaller.
func (dp Privacy) Upper(alpha float64) float64 { return dp.powers().upper(alpha) }

// RandomizedResponse returns the law of randomized response on k outputs in preference order:
// e^ε/(e^ε+k−1) for the true answer and 1/(e^ε+k−1) for each other. It does not use δ.
//
// It may be the boundary law of every rainbow on every graph. At any two neighbours, each output
// has one of these two probabilities, whose ratio is e^ε, for any ranking of the outputs. So the
// condition across regions holds with δ = 0, and with any δ.
//
// It returns [privacy.ErrInvalid] for parameters that [Privacy.Validate] refuses and k outside 2 …
// 1,024.
func (dp Privacy) RandomizedResponse(outputs int) ([]float64, error) {
	if err := dp.Validate(); err != nil {
		return nil, err
	}
	if err := checkOutputs(outputs); err != nil {
		return nil, err
	}
	other := max(tiny, math.Exp(-dp.Epsilon))
	total := 1 + float64(outputs-1)*other
	law := make([]float64, outputs)
	for rank := range law {
		law[rank] = other / total
	}
	law[0] = 1 / total
	return law, nil
}

// balanced returns the law of two outputs, in preference order, that makes the true answer as
// probable as possible on both sides of a boundary: (e^ε+δ)/(e^ε+1) (torkamani2023 Corollary 2,
// doliveira2021 Corollary 2).
func (dp Privacy) balanced() []float64 {
	odds := math.Exp(-dp.Epsilon)
	wrong := max(tiny, (1-dp.Delta)*odds/(1+odds))
	return []float64{1 - wrong, wrong}
}

// tiny is the lower limit of a probability that must remain above 0. If it were rounded to 0, the
// ratio of neighbours would be infinite. A larger probability of an error costs no privacy.
const tiny = 1e-300

// powers holds δ, e^ε as the product grow·again, because it may overflow, and shrink = e^−ε. It is
// computed once for many probabilities.
type powers struct{ delta, grow, again, shrink float64 }

// powers returns the powers for valid parameters.
func (dp Privacy) powers() powers {
	first := min(dp.Epsilon, 700)
	return powers{dp.Delta, math.Exp(first), math.Exp(dp.Epsilon - first), math.Exp(-dp.Epsilon)}
}

// upper is [Privacy.Upper].
func (p powers) upper(alpha float64) float64 {
	rest := (1 - alpha) - p.delta
	if grown := alpha * p.grow * p.again; grown <= rest { // the first term is the smaller one (Lemma 3)
		return max(alpha, grown+p.delta)
	}
	return max(alpha, min(1-p.shrink*rest, 1))
}

// lower returns the smallest probability of an output that a neighbour may have (torkamani2023 Eq.
// (9)): max(e^ε α − δ − e^ε + 1, (α − δ)/e^ε, 0) = 1 − Upper(1 − α). It is not computed as that
// difference, so that small probabilities keep their digits.
func (p powers) lower(alpha float64) float64 {
	return p.positive(alpha, max(1-p.delta-(1-alpha)*p.grow*p.again, p.shrink*(alpha-p.delta)))
}

// opposite returns 1 − Upper(α), with the digits that Upper loses near 1. It is the larger of 1
// minus each of the first two terms of [Privacy.Upper].
func (p powers) opposite(alpha float64) float64 {
	return p.positive(1-alpha, max(1-p.delta-alpha*p.grow*p.again, p.shrink*((1-alpha)-p.delta)))
}

// positive returns bound, a lower bound of the probability of a neighbour of α, after rounding. If
// the bound must be positive, because α is above δ, positive returns at least tiny. It returns at
// most α. A small probability rounded to 0 would distinguish the neighbours.
func (p powers) positive(alpha, bound float64) float64 {
	least := 0.0
	if alpha > p.delta {
		least = tiny
	}
	return min(alpha, max(least, bound))
}

// chance is the probability of an event and of its opposite. Both are stored, so that neither loses
// its digits if the other is near 1.
type chance struct{ yes, no float64 }

// chanceOf returns the chance of an event with probability p, for a p that is not near 1.
func chanceOf(p float64) chance { return chance{p, 1 - p} }

// chanceIn returns the chance of output 0 in a law of two outputs. It uses the probability that has
// more digits.
func chanceIn(law []float64) chance {
	if law[0] <= law[1] {
		return chanceOf(law[0])
	}
	return chanceOf(law[1]).opposite()
}

// opposite returns the chance of the opposite event.
func (c chance) opposite() chance { return chance{c.no, c.yes} }

// below returns true if c is below d. It distinguishes chances near 1 that differ only in no.
func (c chance) below(d chance) bool { return c.compare(d) < 0 }

// compare compares two chances for sorting.
func (c chance) compare(d chance) int {
	return cmp.Or(cmp.Compare(c.yes, d.yes), cmp.Compare(d.no, c.no))
}

// next returns the largest chance of an output that a neighbour may have. Only Upper is needed: two
// chances are within the bounds of each other if each is at most the Upper of the other
// (torkamani2023 Lemma 9). But from 1/2 on, the opposite chance has more digits.
func (p powers) next(c chance) chance {
	yes := p.upper(c.yes)
	if yes <= 0.5 {
		return chanceOf(yes)
	}
	no := 0.0
	if c.yes <= 0.5 {
		no = p.opposite(c.yes)
	} else {
		no = p.lower(c.no)
	}
	no = min(c.no, no)
	return chance{1 - no, no}
}

// within returns true if a dataset may have the chance `to` beside a neighbour with the chance
// from. bound is next(from). For both outputs, the tolerance is allowed above the bound. Testing
// one output is not enough: if e^ε is large, a harmless excess of a chance near 1 is a large excess
// of its opposite.
func (p powers) within(from, bound, to chance) bool {
	return to.yes <= bound.yes && to.no >= bound.no ||
		to.yes <= bound.yes+tolerance && from.no <= p.next(to.opposite()).yes+tolerance
}

// walk returns the largest chance at a distance from a dataset with chance c. It stops early where
// the chance no longer grows.
func (p powers) walk(c chance, distance int) chance {
	for range distance {
		before := c
		if c = p.next(c); c == before {
			break
		}
	}
	return c
}
