package rrchain

import (
	"fmt"
	"math/big"
	"strconv"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
)

// This file derives the exact law of a staircase from its definition, without law.go. The
// retentions are those of the slow definition.
//
// Let a < b be two floors, and let p(v) be the probability that no later V_j is between them if the
// last step was at v ≥ b. The next factor takes V below both floors, or V stays above b:
//
//	p(v) = a/v + ∫ p(vw) dw, for w from b/v to 1.
//
// p = a/b solves this: a/v + (a/b)(1 − b/v) = a/b. So the gaps between neighbouring floors have an
// arrival or none independently of each other, with b = 1 for the first gap. The response below a
// gap without an arrival is the response above it. With an arrival it is the draw of the last one,
// which is uniform and independent of all responses above.

// gap holds the probabilities of no arrival, and of some, between two levels.
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

// stairLevels are sets of one to four levels, some close and some distant.
var stairLevels = [][]int64{
	{500_000_000},
	{500_000_000, 1_000_000_000},
	{1_000_000_000, 1_000_000_001},
	{1, 30_000_000_000},
	{100_000_000, 1_000_000_000, 2_000_000_000},
	{1, 2, 1_000_000_000},
	{200_000_000, 500_000_000, 1_000_000_000, 4_000_000_000},
}

// The two laws are compared for every true value and all responses, for chains drawn in rising
// order. Other tests prove that the order does not matter for chains.
func TestStaircase_HasTheJointLawOfAChain(t *testing.T) {
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

// The test before must distinguish a staircase whose ε is 0.1 % too high from the chain.
func TestStaircaseLaw_OtherEpsilon_IsDistinguished(t *testing.T) {
	levels := []int64{500_000_000, 1_000_000_000}
	chain := jointLaw(3, plan(3, levels, []int{0, 1}), trueOdds)
	for i := range levels {
		wrong := []int64{levels[0], levels[1]}
		wrong[i] += wrong[i] / 1000
		check.That(t, !sameJoint(staircaseLaw(3, wrong), chain), "levels %v and %v have one law", wrong, levels)
	}
}

// Given the true value, bits are independent, so the laws of single bits are compared. The hidden
// bit of the true value is a coin: the staircase has one for all levels, and the chain draws it
// again from the last response for each raise. All other hidden bits are 0.
func TestUnaryStaircase_HasTheLawOfAUnaryChain(t *testing.T) {
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

// raisedCoins returns the probability that the bit of the true value has the responses of code if
// it is raised in rising order, with a new coin each time.
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

// The statistical tests use fixed keys, so every run has the same result. In the deep form they
// draw ten million responses.
const stairBits = 500

// stairObjects returns the number of objects that respond directly, at the five levels of
// chainLevels.
func stairObjects() int { return testenv.Tries(120_000, 500_000, 500_000) / (coarser * coarser) }

// stairRows returns the number of objects that respond in unary encoding, at three levels.
func stairRows() int { return testenv.Tries(1_200, 5_000, 5_000) / coarser }

// drawStairs draws the responses of n objects. The true value cycles through all values.
func drawStairs(k *NoiseKey, n int) map[pattern]int {
	counts := map[pattern]int{}
	responses := make([]int, len(chainLevels))
	for i := range n {
		truth := i % chainValues
		s := newStairs(k, "question", strconv.Itoa(i), chainValues)
		for level, nano := range chainLevels {
			responses[level] = s.at(nano, truth)
		}
		counts[patternOf(truth, responses)]++
	}
	return counts
}

// project keeps only some levels of counts or of a law, sets the others to 0, and adds up the
// patterns that become equal.
func project[N int | float64](of map[pattern]N, levels ...int) map[pattern]N {
	sums := map[pattern]N{}
	for p, n := range of {
		kept := make([]int, len(p))
		for _, level := range levels {
			kept[level] = p[level]
		}
		sums[patternOf(0, kept)] += n
	}
	return sums
}

// The law is tested for all levels together, for three of them, for pairs and for each level alone.
func TestNoiseKey_ManyObjects_FollowTheStaircaseLaw(t *testing.T) {
	t.Parallel()
	law := expectedPatterns()
	counts := drawStairs(newKey(fixedKey()), stairObjects())
	views := [][]int{{0, 1, 2, 3, 4}, {0, 2, 4}, {1, 2, 3}, {0, 4}, {3, 4}, {0}, {1}, {2}, {3}, {4}}
	for _, levels := range views {
		stattest.Fit(project(counts, levels...), project(law, levels...)).Holds(t, "levels %v", levels)
	}
}

// The test before must fail if the floor of one level is that of an ε that is higher by 10 % or
// more.
func TestNoiseKey_WrongFloor_FailsTheLawTest(t *testing.T) {
	t.Parallel()
	const objects = 100_000 / (coarser * coarser)
	expected := expectedPatterns()
	for _, level := range []int{4, 0, 2}[:testenv.Tries(1, 3, 3)] {
		k := newKey(fixedKey())
		l := law{m: chainValues, at: chainLevels[level], above: truthAbove}
		higher := l
		higher.at += l.at / 10 * coarser
		k.floors[l] = newFloor(higher)
		stattest.Fit(drawStairs(k, objects), expected).Fails(t, "level %d", level)
	}
}

// lawOfBits returns the law of the patterns of some bits whose responses have the given
// probabilities. Bit j of a pattern's level is the response of bit j at that level.
func lawOfBits(levels int, bits ...[]*big.Float) map[pattern]float64 {
	law := map[pattern]float64{{}: 1}
	for j, probabilities := range bits {
		joined := map[pattern]float64{}
		for p, x := range law {
			for code, probability := range probabilities {
				next := p
				for level, bit := range digits(code, 2, levels) {
					next[level] |= bit << j
				}
				f, _ := probability.Float64()
				joined[next] += x * f
			}
		}
		law = joined
	}
	return law
}

// The law is tested for single bits of other values at all levels, for the bit of the true value
// with its neighbour, and for pairs of bits at a distance of 1 and of 256.
func TestUnaryResponse_ManyObjects_FollowTheirLaw(t *testing.T) {
	t.Parallel()
	levels := []int64{500_000_000, 1_000_000_000, 3_000_000_000}
	stairs := staircaseLaw(2, levels)
	other := stairs[0]
	own := make([]*big.Float, len(other))
	for code := range own {
		own[code] = quo(add(stairs[0][code], stairs[1][code]), 2)
	}
	var single, ownPairs, nextPairs, farPairs [8][8]int // by the responses of two bits, the lowest level first
	k := newKey(fixedKey())
	for i := range stairRows() {
		s, truth := newStairs(k, "question", strconv.Itoa(i), stairBits), i%stairBits
		var codes [stairBits]int
		for level, nano := range levels {
			for v := range s.bits(nano, truth).Ones() {
				codes[v] |= 1 << level
			}
		}
		apart := func(v, distance int) int { return codes[(v+distance)%stairBits] }
		ownPairs[codes[truth]][apart(truth, 1)]++
		for v, code := range codes {
			if v != truth {
				single[code][0]++
			}
		}
		// each bit is in one pair, so the pairs are independent; the true value is at 0 or 1 of one
		// of each
		for v := 2; v < stairBits/2; v++ {
			nextPairs[apart(truth, 2*v)][apart(truth, 2*v+1)]++
		}
		for v := 1; v < stairBits-256; v++ {
			farPairs[apart(truth, v)][apart(truth, v+256)]++
		}
	}
	pairs := func(table [8][8]int) map[pattern]int {
		counts := map[pattern]int{}
		for a, row := range table {
			for b, count := range row {
				var p pattern
				for level := range levels {
					p[level] = a>>level&1 | b>>level&1<<1
				}
				counts[p] += count
			}
		}
		return counts
	}
	stattest.Fit(pairs(single), lawOfBits(3, other)).Holds(t, "other bits")
	stattest.Fit(pairs(ownPairs), lawOfBits(3, own, other)).Holds(t, "the true value and the next")
	stattest.Fit(pairs(nextPairs), lawOfBits(3, other, other)).Holds(t, "next to each other")
	stattest.Fit(pairs(farPairs), lawOfBits(3, other, other)).Holds(t, "256 apart")
}

// Pairs of responses must be independent: of two objects, to two questions, for different numbers
// of values, and direct or in unary encoding. A pair with the same noise must fail the test.
func TestNoiseKey_UnrelatedResponses_AreIndependent(t *testing.T) {
	t.Parallel()
	n := testenv.Tries(15_000, 40_000, 40_000) / (coarser * coarser)
	k, one := newKey(fixedKey()), fromNano(1_000_000_000)
	direct := func(question, object string, m int) int {
		return newStairs(k, question, object, m).at(one.Nano(), 0)
	}
	isTruth := func(response int) int { return min(response, 1) }
	bit := func(object string) int {
		return newStairs(k, "q", object, 2).bits(one.Nano(), 1).Bit(0)
	}
	for _, c := range []struct {
		name        string
		m           int64 // of the second response
		second      func(i int, object string) int
		independent bool
	}{
		{"the next object", 4, func(i int, _ string) int { return direct("q", strconv.Itoa(i+1), 4) }, true},
		{"an object of like name", 4, func(_ int, object string) int { return direct("q", object+"0", 4) }, true},
		{"another question", 4, func(_ int, object string) int { return direct("Q", object, 4) }, true},
		{"two values", 2, func(_ int, object string) int { return direct("q", object, 2) }, true},
		{"five values", 5, func(_ int, object string) int { return direct("q", object, 5) }, true},
		{"unary encoding", 2, func(_ int, object string) int { return bit(object) }, true},
		{"itself", 4, func(_ int, object string) int { return direct("q", object, 4) }, false},
	} {
		counts, law := map[pattern]int{}, map[pattern]float64{}
		for i := range n {
			object := strconv.Itoa(i)
			counts[pattern{direct("q", object, 4), isTruth(c.second(i, object))}]++
		}
		p1, q1 := response(4, one.Nano())
		p2, _ := response(c.m, one.Nano())
		for first := range 4 {
			for second, x := range []any{p2, sub(1, p2)} {
				probability := mul(q1, x)
				if first == 0 {
					probability = mul(p1, x)
				}
				law[pattern{first, second}], _ = probability.Float64()
			}
		}
		if v := stattest.Fit(counts, law); c.independent {
			v.Holds(t, "%s", c.name)
		} else {
			v.Fails(t, "%s", c.name)
		}
	}
}
