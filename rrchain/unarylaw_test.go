package rrchain

import (
	"fmt"
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
)

// rows returns the law of rows of bits that are drawn independently. The response of a level is the
// number whose bit i is bit i of the row. single returns the law of all levels of one bit.
func rows(truths, n, levels int, single func(truth, bit int) []*big.Float) joint {
	table, responses := make(joint, truths), int64(1)<<n
	for truth := range table {
		table[truth] = make([]*big.Float, power(responses, levels))
		for code := range table[truth] {
			row, p := digits(code, responses, levels), number(1)
			for bit := range n {
				own := 0
				for level, response := range row {
					own |= response >> bit & 1 << level
				}
				p.Mul(p, single(truth, bit)[own])
			}
			table[truth][code] = p
		}
	}
	return table
}

// chainsOfBits returns the kind for chains of n bits that are raised together. Every row is a
// possible true row.
func chainsOfBits(n int, draw func(law) odds) kind {
	law := func(bit joint, levels int) joint {
		return rows(1<<n, n, levels, func(truth, i int) []*big.Float { return bit[truth>>i&1] })
	}
	return kind{
		responses: 1 << n,
		joint: func(levels []int64, order []int) joint {
			return law(jointLaw(2, plan(2, levels, order), draw), len(levels))
		},
		alone: func(nano int64) joint {
			p, q := response(2, nano)
			return law(joint{{p, q}, {q, p}}, 1)
		},
		cost: func(a, b int) int { return bits.OnesCount(uint(a ^ b)) },
	}
}

// coin returns the probabilities of the hidden bit of the true value, 0 and 1, given the last
// response to it and its ε. Before the first response ε is 0.
type coin func(nano int64, last int) [2]*big.Float

// trueCoin is the coin of a [Chain] in unary encoding: fair at first, then a response to the last
// response.
func trueCoin(nano int64, last int) [2]*big.Float {
	if nano == 0 {
		return [2]*big.Float{number(0.5), number(0.5)}
	}
	o := trueOdds(law{m: 2, at: nano, above: truthAbove})
	return [2]*big.Float{o.of(0, last, 0), o.of(1, last, 0)}
}

// unaryChains returns the kind for chains in unary encoding over m values.
func unaryChains(m int, draw func(law) odds, hidden coin) kind {
	law := func(own, other []*big.Float, levels int) joint {
		return rows(m, m, levels, func(truth, bit int) []*big.Float {
			if bit == truth {
				return own
			}
			return other
		})
	}
	return kind{
		responses: 1 << m,
		joint: func(levels []int64, order []int) joint {
			steps := plan(2, levels, order)
			return law(ownLaw(steps, draw, hidden), jointLaw(2, steps, draw)[0], len(levels))
		},
		alone: func(nano int64) joint { // Wang et al. 2017, optimized unary encoding
			half, often := number(0.5), quo(1, add(middle(exact.Exp(nano, prec)), 1))
			return law([]*big.Float{half, half}, []*big.Float{sub(1, often), often}, 1)
		},
		cost: differ,
	}
}

// ownLaw returns the law of all levels of the bit of the true value. Each raise draws the coin
// again, from the response below alone.
func ownLaw(steps []step, draw func(law) odds, hidden coin) []*big.Float {
	law := make([]*big.Float, power(2, len(steps)))
	for code := range law {
		responses, p := digits(code, 2, len(steps)), number(1)
		for _, s := range steps {
			chance, below := draw(s.law), 0
			if s.below != none {
				below = responses[s.below]
			}
			if s.above != none {
				p.Mul(p, chance.of(responses[s.at], responses[s.above], below))
				continue
			}
			either := number(0)
			for side, probability := range hidden(s.law.below, below) {
				either.Add(either, mul(probability, chance.of(responses[s.at], side, below)))
			}
			p.Mul(p, either)
		}
		law[code] = p
	}
	return law
}

// This is the proof of [TestChain_AnyCoalition_LearnsOnlyTheHighestLevel] for unary encoding. Every
// level has the law of its own ε, the joint law is the same for every order of drawing, and all
// responses together cost exactly the highest ε.
func TestUnaryChain_AnyCoalition_LearnsOnlyTheHighestLevel(t *testing.T) {
	for _, c := range []struct {
		m      int
		levels []int64
	}{
		{2, []int64{100_000_000, 500_000_000, 1_000_000_000, 2_000_000_000}},
		{2, []int64{1, 100_000_000, 30_000_000_000}},
		{3, []int64{500_000_000, 1_000_000_000, 3_000_000_000}},
		{3, []int64{1_000_000_000, 1_000_000_001}},
		{4, []int64{200_000_000, 1_000_000_000}},
		{4, []int64{100_000_000, 1_000_000_000, 2_000_000_000}},
	} {
		wantProof(t, fmt.Sprint("m=", c.m), unaryChains(c.m, trueOdds, trueCoin), c.levels)
	}
}

// This is the same proof for rows of bits. The privacy loss between two true rows is the highest ε
// times the number of bits in which they differ.
func TestRowChain_AnyCoalition_LearnsOnlyTheHighestLevel(t *testing.T) {
	for _, c := range []struct {
		n      int
		levels []int64
	}{
		{1, []int64{100_000_000, 500_000_000, 1_000_000_000, 2_000_000_000}},
		{2, []int64{500_000_000, 1_000_000_000, 3_000_000_000}},
		{3, []int64{1, 1_000_000_000}},
		{3, []int64{500_000_000, 1_000_000_000, 2_000_000_000}},
	} {
		wantProof(t, fmt.Sprint(c.n, " bits"), chainsOfBits(c.n, trueOdds), c.levels)
	}
}

// The following four coins are wrong.

// alwaysFair is fair for every raise and ignores the last response.
func alwaysFair(int64, int) [2]*big.Float { return trueCoin(0, 0) }

// alwaysSet is always 1, so that the hidden bits are the true value without noise.
func alwaysSet(int64, int) [2]*big.Float { return [2]*big.Float{number(0), number(1)} }

// lastResponse is equal to the last response.
func lastResponse(nano int64, last int) [2]*big.Float {
	if nano == 0 {
		return trueCoin(0, 0)
	}
	coin := [2]*big.Float{number(0), number(0)}
	coin[last] = number(1)
	return coin
}

// tooLowEpsilon is drawn for an ε that is 1 % too low.
func tooLowEpsilon(nano int64, last int) [2]*big.Float { return trueCoin(nano-nano/100, last) }

// The two tests before rely on collusionFaults, which must detect the wrong coins.
func TestCollusionFaults_WrongCoins_AreDetected(t *testing.T) {
	levels := []int64{500_000_000, 1_000_000_000, 2_000_000_000}
	leaks := slices.Clip([]string{lossAdds, ratioDiffers, collusionPays})
	for _, c := range []struct {
		name   string
		hidden coin
		want   []string
	}{
		{"true", trueCoin, nil},
		{"alwaysFair", alwaysFair, append(leaks, orderMatters)},
		{"always set", alwaysSet, append(leaks, wrongMarginal)},
		{"lastResponse", lastResponse, append(leaks, orderMatters)},
		{"tooLowEpsilon", tooLowEpsilon, append(leaks, orderMatters)},
	} {
		for m := 2; m <= 3; m++ {
			got := collusionFaults(unaryChains(m, trueOdds, c.hidden), levels)
			check.That(t, slices.Equal(got, slices.Sorted(slices.Values(c.want))),
				"%s, m=%d: found %q, want %q", c.name, m, got, c.want)
		}
	}
}

// The test derives the raise of a unary response without the coin. From ε₂ down to ε₁ a bit is
// flipped with f = (q₁−q₂)/(1−2q₂), where q = 1/(e^ε+1). This maps both laws of a bit, 1/2 and q₂,
// to 1/2 and q₁. By Bayes' rule for this channel, the bit of the true value is kept with 1−f, and
// any other bit is raised by the kernel for m = 2.
func TestUnaryKernel_AgreesWithBayesRule(t *testing.T) {
	for _, c := range [][2]int64{
		{1, 2}, {1, 1_000_000_000}, {100_000_000, 500_000_000}, {500_000_000, 1_000_000_000},
		{1_000_000_000, 1_000_000_001}, {2_000_000_000, 10_000_000_000}, {30_000_000_000, 60_000_000_000},
	} {
		from, to := c[0], c[1]
		name := fmt.Sprintf("%d→%d: ", from, to)
		_, q1 := response(2, from)
		_, q2 := response(2, to)
		flip := quo(sub(q1, q2), sub(1, mul(2, q2)))
		down := func(last, next int) *big.Float { // from the next response to the last
			if last == next {
				return sub(1, flip)
			}
			return flip
		}
		const digits = 1e-50 // the differences of close ε cost some
		wantNear(t, name+"channel of the true bit", add(mul(0.5, down(1, 1)), mul(0.5, down(1, 0))), 0.5, digits)
		wantNear(t, name+"channel of another bit", add(mul(q2, down(1, 1)), mul(sub(1, q2), down(1, 0))), q1, digits)

		raise := plan(2, c[:], []int{0, 1})
		own, other := ownLaw(raise, trueOdds, trueCoin), jointLaw(2, raise, trueOdds)[0]
		kernel := must(NewKernel(2, fromNano(from), fromNano(to)))
		closed := [2][2]float64{{kernel.PAA, kernel.OneMinusPAA}, {kernel.PBA, kernel.PBB}}
		for last := range 2 {
			for next := range 2 {
				name := fmt.Sprintf("%s%d after %d, ", name, next, last)
				code := last + 2*next
				wantNear(t, name+"true bit", own[code], mul(0.5, down(last, next)), digits)
				prior := [2]*big.Float{sub(1, q2), q2}[next]
				wantNear(t, name+"another bit", other[code], mul(prior, down(last, next)), digits)
				given := quo(other[code], add(other[last], other[last+2]))
				wantNear(t, name+"another bit and the kernel", closed[last][next], given, 1e-13)
			}
		}
	}
}
