package rrchain

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
)

// The chains of the statistical test have five levels. The order of drawing has every kind of step:
// a first response, a raise, a degradation and two insertions.
const chainValues = 4

var (
	chainLevels = []int64{200_000_000, 500_000_000, 700_000_000, 1_000_000_000, 2_000_000_000}
	chainOrder  = []int{1, 4, 3, 0, 2}
)

// pattern is a chain's responses with the values renamed: 0 is the true value, and the other values
// are numbered in the order in which they appear. The law of a chain is determined by the law of
// its pattern.
type pattern [5]int

func patternOf(truth int, responses []int) (p pattern) {
	names, next := [chainValues]int{}, 1
	for i, response := range responses {
		if response != truth && names[response] == 0 {
			names[response] = next
			next++
		}
		p[i] = names[response]
	}
	return p
}

// expectedPatterns returns the law of the patterns, by the enumeration of jointLaw.
func expectedPatterns() map[pattern]float64 {
	law := map[pattern]float64{}
	table := jointLaw(chainValues, plan(chainValues, chainLevels, chainOrder), trueOdds)
	for code, p := range table[0] {
		x, _ := p.Float64()
		law[patternOf(0, digits(code, chainValues, len(chainLevels)))] += x
	}
	return law
}

// drawPatterns draws n chains. The true value cycles through all values.
func drawPatterns(s *Sampler, n int) map[pattern]int {
	var levels []privacy.Epsilon
	for _, nano := range chainLevels {
		levels = append(levels, fromNano(nano))
	}
	counts := map[pattern]int{}
	for i := range n {
		chain := must(NewChain[int](chainValues))
		truth := i % chainValues
		for _, level := range chainOrder {
			must(extend(chain, s, levels[level], truth))
		}
		responses := [5]int{}
		for i, level := range chain.Levels() {
			responses[i] = level.Response
		}
		counts[patternOf(truth, responses[:])]++
	}
	return counts
}

// drawn is the number of chains. It is large enough that weights that are wrong by 3 % fail the
// test.
const (
	drawn   = 300_000 / (coarser * coarser)
	spoilBy = 3 * coarser // per cent
)

func TestChain_SystemRandomness_HasTheJointLaw(t *testing.T) {
	stattest.Fit(drawPatterns(new(Sampler), drawn), expectedPatterns()).Holds(t, "chains")
}

// The test before must fail for samplers whose weights are wrong by 3 % or more.
func TestChain_WrongWeights_FailTheJointLawTest(t *testing.T) {
	law := expectedPatterns()
	for name, spoil := range map[string]func(exact.Weights) exact.Weights{
		"First": spoilFirst(spoilBy), "Either": spoilEither(spoilBy), "Same": spoilSame(spoilBy),
	} {
		stattest.Fit(drawPatterns(spoiltSampler(spoil), drawn), law).Fails(t, "%s spoilt by %d %%", name, spoilBy)
	}
}

// spoiltSampler returns a sampler whose cache has all laws of the chains, with weights changed by
// spoil.
func spoiltSampler(spoil func(exact.Weights) exact.Weights) *Sampler {
	s := &Sampler{laws: map[law]*exact.Mixture{}}
	for _, step := range plan(chainValues, chainLevels, chainOrder) {
		s.laws[step.law] = exact.NewMixture(chainValues, func(prec uint) exact.Weights { return spoil(step.law.weights(prec)) })
	}
	return s
}

// The test uses more laws than a sampler caches.
func TestSampler_ManyLaws_CacheIsBounded(t *testing.T) {
	s := new(Sampler)
	for i := range int64(maxCached + 100) {
		chain := newChain[int](2)
		must(chain.Raise(s, fromNano(1_000_000_000+i), 1))
		check.Need(t, len(s.laws) <= maxCached, "the sampler keeps %d laws after %d", len(s.laws), i+1)
		check.That(t, i != maxCached-1 || len(s.laws) == maxCached, "the sampler keeps only %d laws of %d", len(s.laws), i+1)
	}
	check.That(t, len(s.laws) != 0, "the sampler keeps nothing")
}

// Further chains with the same levels add no law to the cache, also for another true value.
func TestSampler_SameLevels_ComputesEachLawOnce(t *testing.T) {
	s := new(Sampler)
	drawPatterns(s, 1)
	before := lawsDrawnFrom(s)
	drawPatterns(s, 50)
	check.That(t, len(before) == len(chainOrder) && len(s.laws) == len(before),
		"%d laws after one chain, %d after 51; want %d", len(before), len(s.laws), len(chainOrder))
}

// The rows of the statistical tests have 9 bits, so that they end within the second byte.
const rowBits = 9

// rowsDrawn returns the number of rows drawn by a correct sampler.
func rowsDrawn() int { return testenv.Tries(100_000, 200_000, 200_000) / (coarser * coarser) }

// wrongDrawn is the number of rows drawn by a wrong sampler, whose law is so different that few
// rows suffice.
const wrongDrawn = 30_000

var (
	rowLevels = []int64{200_000_000, 500_000_000, 1_000_000_000, 2_000_000_000, 3_000_000_000}
	rowOrder  = []int{1, 3, 0, 2, 4}
)

// drawRows draws a chain of rows at the levels of rowOrder.
func drawRows(s *Sampler, truth int, chain *Chain[Bits]) []Level[Bits] {
	for _, level := range rowOrder {
		must(extend(chain, s, fromNano(rowLevels[level]), truth))
	}
	return chain.Levels()
}

// patternOfBits returns the pattern of some bits of a chain at some levels.
func patternOfBits(levels []Level[Bits], which []int, bits ...int) (p pattern) {
	for i, level := range which {
		for j, bit := range bits {
			p[i] |= levels[level].Response.Bit(bit) << j
		}
	}
	return p
}

// patternLaw returns the law of such patterns, if the law of bit j at all levels is single(j).
func patternLaw(which []int, bits int, single func(bit int) []*big.Float) map[pattern]float64 {
	law := map[pattern]float64{}
	coalition := uint(0)
	for _, level := range which {
		coalition |= 1 << level
	}
	all := rows(1, bits, len(which), func(_, bit int) []*big.Float {
		return withoutNil(marginal(single(bit), 2, len(rowLevels), coalition))
	})
	for code, p := range all[0] {
		var seen pattern
		copy(seen[:], digits(code, 1<<bits, len(which)))
		law[seen], _ = p.Float64()
	}
	return law
}

// withoutNil removes the codes that a marginal does not have.
func withoutNil(p []*big.Float) []*big.Float {
	return slices.DeleteFunc(p, func(x *big.Float) bool { return x == nil })
}

// The tests check the bit of the true value with one other bit at all levels, and with three other
// bits at three levels.
var (
	everyLevel  = []int{0, 1, 2, 3, 4}
	threeLevels = []int{1, 2, 4}
)

// unaryFits draws n chains and tests both selections of bits against their laws.
func unaryFits(n int, begin func() *Chain[Bits]) (deep, broad stattest.Verdict) {
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
		levels := drawRows(sampler, truth, begin())
		deepCounts[patternOfBits(levels, everyLevel, truth, bit(0))]++
		broadCounts[patternOfBits(levels, threeLevels, truth, bit(0), bit(1), bit(5))]++
	}
	return stattest.Fit(deepCounts, patternLaw(everyLevel, 2, single)), stattest.Fit(broadCounts, patternLaw(threeLevels, 4, single))
}

func TestUnaryChain_SystemRandomness_HasTheJointLaw(t *testing.T) {
	deep, broad := unaryFits(rowsDrawn(), func() *Chain[Bits] { return newChain[Bits](rowBits) })
	deep.Holds(t, "two bits at all levels")
	broad.Holds(t, "four bits at three levels")
}

// The test before must fail for coins that are not drawn from the last response.
func TestUnaryChain_WrongCoin_FailsTheJointLawTest(t *testing.T) {
	for name, coin := range map[string]func(*Sampler) bool{
		"fair for every raise": func(s *Sampler) bool { return s.source().Uint64()&1 == 1 },
		"always set":           func(*Sampler) bool { return true },
	} {
		deep, broad := unaryFits(wrongDrawn, func() *Chain[Bits] {
			c := newChain[Bits](rowBits)
			c.encoding.raise = func(s *Sampler, m int, current Level[Bits], to privacy.Epsilon, truth int) (Bits, error) {
				if coin(s) {
					return s.RaiseBits(m, current, to, row(m, truth))
				}
				return s.RaiseBits(m, current, to, row(m))
			}
			return c
		})
		deep.Fails(t, "%s: two bits at all levels", name)
		broad.Fails(t, "%s: four bits at three levels", name)
	}
}

// The true rows are random. The test compares whether each bit is correct, because the law of that
// does not depend on the true row.
func TestRowChain_SystemRandomness_HasTheJointLaw(t *testing.T) {
	law := jointLaw(2, plan(2, rowLevels, rowOrder), trueOdds)[0]
	single := func(int) []*big.Float { return law }
	random, sampler := rand.New(rand.NewPCG(11, 12)), new(Sampler)
	deepCounts, broadCounts := map[pattern]int{}, map[pattern]int{}
	for i := range rowsDrawn() {
		truth := randomRow(random, rowBits)
		levels := drawRows(sampler, 0, newRows(truth))
		bit := func(k int) int { return (i + k) % rowBits }
		right := func(which []int, bits ...int) (p pattern) {
			p = patternOfBits(levels, which, bits...)
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
	stattest.Fit(deepCounts, patternLaw(everyLevel, 2, single)).Holds(t, "two bits at all levels")
	stattest.Fit(broadCounts, patternLaw(threeLevels, 4, single)).Holds(t, "four bits at three levels")
}
