package rrchain

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// The exact law of a staircase, from its definition. Nothing of it comes from law.go: the
// retentions are those of the slow definition.
//
// Between two floors a < b there is no V_j with a probability of a/b, wherever the steps before
// ended: call it p(v) where the last one was at v ≥ b. The next factor goes below both floors, or
// stays above b:
//
//	p(v) = a/v + ∫ p(vw) dw, for w from b/v to 1.
//
// p = a/b solves this: a/v + (a/b)(1 − b/v) = a/b. So gaps have an arrival or none independently of
// each other, with b = 1 for the first one. The response below a gap without one is that above;
// with one it is the draw of the last arrival, which no response above it is of, so uniform and
// independent of all of them.

// gap says whether there is an arrival between two levels.
type gap struct{ none, some *big.Float }

// gaps returns the gaps above each of the levels, by rising ε.
func gaps(m int64, levels []int64) []gap {
	list := make([]gap, len(levels))
	above := number(1)
	for i := len(levels) - 1; i >= 0; i-- {
		retention := retentionOf(m, levels[i])
		none := quo(retention, above)
		list[i] = gap{none, sub(1, none)}
		above = retention
	}
	return list
}

// retentionOf returns λ(ε).
func retentionOf(m, nano int64) *big.Float {
	const places = 400
	low, high := retained(m, nano, places)
	mid := number(new(big.Float).SetPrec(2 * places).SetInt(low.Add(low, high)))
	return mid.SetMantExp(mid, -places-1)
}

// staircaseLaw sums over all ways to have arrivals in the gaps, and over all values of the draws.
func staircaseLaw(m int64, levels []int64) joint {
	table, chances := make(joint, m), gaps(m, levels)
	for truth := range table {
		table[truth] = make([]*big.Float, power(m, len(levels)))
		for code := range table[truth] {
			table[truth][code] = number(0)
		}
		for arrivals := range 1 << len(levels) {
			for draws := range power(m, len(levels)) { // a draw for each gap, whether used or not
				p, value, code := quo(1, power(m, len(levels))), truth, 0
				for i := len(levels) - 1; i >= 0; i-- {
					if arrivals>>i&1 == 0 {
						p.Mul(p, chances[i].none)
					} else {
						p.Mul(p, chances[i].some)
						value = digits(draws, m, len(levels))[i]
					}
					code += value * power(m, i)
				}
				table[truth][code].Add(table[truth][code], p)
			}
		}
	}
	return table
}

// stairLevels are sets of two to four levels, close ones and distant ones.
var stairLevels = [][]int64{
	{500_000_000},
	{500_000_000, 1_000_000_000},
	{1_000_000_000, 1_000_000_001},
	{1, 30_000_000_000},
	{100_000_000, 1_000_000_000, 2_000_000_000},
	{1, 2, 1_000_000_000},
	{200_000_000, 500_000_000, 1_000_000_000, 4_000_000_000},
}

// TestStaircaseHasTheLawOfAChain compares the two laws for every truth and all responses at all
// levels, of chains that were drawn in rising order. (That the order does not matter is proved for
// chains.)
func TestStaircaseHasTheLawOfAChain(t *testing.T) {
	for m := int64(2); m <= 4; m++ {
		for _, levels := range stairLevels {
			stairs := staircaseLaw(m, levels)
			chain := jointLaw(m, plan(m, levels, permutations(len(levels))[0]), trueOdds)
			check.That(t, sameJoint(stairs, chain), "m=%d, levels %v: the laws differ", m, levels)
			total := number(0)
			for _, p := range stairs[0] {
				total.Add(total, p)
			}
			wantNear(t, fmt.Sprintf("m=%d, levels %v: all together", m, levels), total, 1, exactly)
		}
	}
}

// TestAnotherStaircaseHasAnotherLaw tests the test above: a staircase for an ε that is a thousandth
// too high is told from the chain.
func TestAnotherStaircaseHasAnotherLaw(t *testing.T) {
	levels := []int64{500_000_000, 1_000_000_000}
	chain := jointLaw(3, plan(3, levels, []int{0, 1}), trueOdds)
	for i := range levels {
		wrong := []int64{levels[0], levels[1]}
		wrong[i] += wrong[i] / 1000
		check.That(t, !sameJoint(staircaseLaw(3, wrong), chain), "levels %v and %v have one law", wrong, levels)
	}
}

// TestUnaryStaircaseHasTheLawOfAUnaryChain compares the laws of a single bit, as the bits of both
// are independent given the truth. Another bit than the true value's has a hidden bit of 0. That of
// the true value is a coin: the staircase has one for all levels, the chain draws it again for each
// raise, from the last response.
func TestUnaryStaircaseHasTheLawOfAUnaryChain(t *testing.T) {
	for _, levels := range stairLevels {
		stairs := staircaseLaw(2, levels)
		steps := plan(2, levels, permutations(len(levels))[0])
		other := jointLaw(2, steps, trueOdds)[0]
		for code := range other {
			name := fmt.Sprintf("levels %v, responses %v", levels, digits(code, 2, len(levels)))
			wantNear(t, name+", another bit", stairs[0][code], other[code], exactly)
			own := quo(add(stairs[0][code], stairs[1][code]), 2)
			wantNear(t, name+", the true bit", own, raisedCoins(steps, code), exactly)
		}
	}
}

// raisedCoins is the probability that the bit of the true value has the responses of code when it
// is raised in rising order, with a new coin each time.
func raisedCoins(steps []step, code int) *big.Float {
	responses, p := digits(code, 2, len(steps)), number(1)
	for _, s := range steps {
		last, coin := 0, [2]*big.Float{number(0.5), number(0.5)}
		if s.below != none {
			last = responses[s.below]
			o := trueOdds(law{m: 2, at: s.law.below, above: truthAbove}) // a response to the last response
			coin = [2]*big.Float{o.of(0, last, 0), o.of(1, last, 0)}
		}
		raise := trueOdds(s.law)
		p.Mul(p, add(mul(coin[0], raise.of(responses[s.at], 0, last)), mul(coin[1], raise.of(responses[s.at], 1, last))))
	}
	return p
}
