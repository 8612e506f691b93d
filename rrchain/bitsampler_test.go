package rrchain

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

// The rows of the statistical tests: a first response, two raises, a degradation and an insertion.
// With 9 bits, the row ends within a byte that is not the first.
const rowBits = 9

// rowsDrawn is how many rows a right sampler draws.
func rowsDrawn() int { return pace.Tries(100_000, 200_000, 200_000) / (coarser * coarser) }

// wrongDrawn is how many a wrong one draws, which is far off.
const wrongDrawn = 30_000

var (
	rowLevels = []int64{200_000_000, 500_000_000, 1_000_000_000, 2_000_000_000, 3_000_000_000}
	rowOrder  = []int{1, 3, 0, 2, 4}
)

// drawRows draws a chain of rows at the levels of rowOrder.
func drawRows(t *testing.T, s *Sampler, truth int, chain *Chain[Bits]) []Level[Bits] {
	t.Helper()
	for _, level := range rowOrder {
		must(extend(chain, s, fromNano(t, rowLevels[level]), truth))
	}
	return chain.Levels()
}

// watch gives the pattern of some of the bits of a chain.
func watch(levels []Level[Bits], which []int, bits ...int) (p pattern) {
	for i, level := range which {
		for j, bit := range bits {
			p[i] |= levels[level].Response.Bit(bit) << j
		}
	}
	return p
}

// watched is the law of such patterns, if the law of bit j at all levels is single(j).
func watched(which []int, bits int, single func(bit int) []*big.Float) map[pattern]float64 {
	law := map[pattern]float64{}
	coalition := uint(0)
	for _, level := range which {
		coalition |= 1 << level
	}
	all := rows(1, bits, len(which), func(_, bit int) []*big.Float {
		return squeeze(marginal(single(bit), 2, len(rowLevels), coalition))
	})
	for code, p := range all[0] {
		var seen pattern
		copy(seen[:], digits(code, 1<<bits, len(which)))
		law[seen], _ = p.Float64()
	}
	return law
}

// squeeze leaves out the codes that a marginal does not have.
func squeeze(p []*big.Float) []*big.Float {
	return slices.DeleteFunc(p, func(x *big.Float) bool { return x == nil })
}

// What the tests look at: the bit of the true value and one other at all levels, and it and three
// others at three levels.
var (
	everyLevel  = []int{0, 1, 2, 3, 4}
	threeLevels = []int{1, 2, 4}
)

// unaryFits draws n chains and holds both views against their laws.
func unaryFits(t *testing.T, n int, begin func() *Chain[Bits]) (deep, broad stattest.Verdict) {
	steps := plan(2, rowLevels, rowOrder)
	own, other := ownLaw(steps, trueOdds, trueCoin), jointLaw(2, steps, trueOdds)[0]
	single := func(bit int) []*big.Float {
		if bit == 0 {
			return own
		}
		return other
	}
	sampler := new(Sampler)
	deepCounts, broadCounts := map[pattern]int{}, map[pattern]int{}
	for i := range n {
		truth, others := i%rowBits, i/rowBits
		bit := func(k int) int { return (truth + 1 + (others+k)%(rowBits-1)) % rowBits }
		levels := drawRows(t, sampler, truth, begin())
		deepCounts[watch(levels, everyLevel, truth, bit(0))]++
		broadCounts[watch(levels, threeLevels, truth, bit(0), bit(1), bit(5))]++
	}
	return stattest.Fit(deepCounts, watched(everyLevel, 2, single)), stattest.Fit(broadCounts, watched(threeLevels, 4, single))
}

// TestUnaryChainsHaveTheJointLaw draws chains with the randomness of the operating system.
func TestUnaryChainsHaveTheJointLaw(t *testing.T) {
	deep, broad := unaryFits(t, rowsDrawn(), func() *Chain[Bits] { return newChain[Bits](t, rowBits) })
	deep.Holds(t, "two bits at all levels")
	broad.Holds(t, "four bits at three levels")
}

// TestAWrongCoinIsSeen tests the test above with coins that are not drawn from the last response.
func TestAWrongCoinIsSeen(t *testing.T) {
	for name, coin := range map[string]func(*Sampler) bool{
		"fair for every raise": func(s *Sampler) bool { return s.source().Uint64()&1 == 1 },
		"always set":           func(*Sampler) bool { return true },
	} {
		deep, broad := unaryFits(t, wrongDrawn, func() *Chain[Bits] {
			c := newChain[Bits](t, rowBits)
			c.encoding.raise = func(s *Sampler, m int, current Level[Bits], to privacy.Epsilon, truth int) (Bits, error) {
				if coin(s) {
					return s.RaiseBits(m, current, to, row(t, m, truth))
				}
				return s.RaiseBits(m, current, to, row(t, m))
			}
			return c
		})
		deep.Fails(t, "%s: two bits at all levels", name)
		broad.Fails(t, "%s: four bits at three levels", name)
	}
}

// TestChainsOfBitsHaveTheJointLaw draws chains of bits for random truths. A bit is seen as right or
// wrong: the law of that does not depend on the truth.
func TestChainsOfBitsHaveTheJointLaw(t *testing.T) {
	law := jointLaw(2, plan(2, rowLevels, rowOrder), trueOdds)[0]
	single := func(int) []*big.Float { return law }
	random, sampler := rand.New(rand.NewPCG(11, 12)), new(Sampler)
	deepCounts, broadCounts := map[pattern]int{}, map[pattern]int{}
	for i := range rowsDrawn() {
		truth := randomRow(t, random, rowBits)
		levels := drawRows(t, sampler, 0, newRows(t, truth))
		bit := func(k int) int { return (i + k) % rowBits }
		right := func(which []int, bits ...int) (p pattern) {
			p = watch(levels, which, bits...)
			for k := range which {
				for j, b := range bits {
					p[k] ^= truth.Bit(b) << j
				}
			}
			return p
		}
		deepCounts[right(everyLevel, bit(0), bit(1))]++
		broadCounts[right(threeLevels, bit(0), bit(2), bit(5), bit(8))]++
	}
	stattest.Fit(deepCounts, watched(everyLevel, 2, single)).Holds(t, "two bits at all levels")
	stattest.Fit(broadCounts, watched(threeLevels, 4, single)).Holds(t, "four bits at three levels")
}
