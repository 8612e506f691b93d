package rrchain

import (
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

// The rows of the statistical tests: a first response, two raises, a degradation and an insertion. With 9
// bits, the row ends within a byte that is not the first.
const rowBits = 9

// rowsDrawn is how many rows a right sampler draws.
func rowsDrawn() int { return pace.Tries(100_000, 200_000, 200_000) / (coarser * coarser) }

// wrongDrawn is how many a wrong one draws, which is far off.
const wrongDrawn = 30_000

var (
	rowLevels = []int64{200_000_000, 500_000_000, 1_000_000_000, 2_000_000_000, 3_000_000_000}
	rowOrder  = []int{1, 3, 0, 2, 4}
)

// raiser raises a chain in unary encoding, as it should or not.
type raiser func(c *UnaryChain, s *Sampler, to privacy.Epsilon, truth int) (BitLevel, error)

// extendRow records a level by the operation that its neighbours call for.
func extendRow(c *bitChain, s *Sampler, at privacy.Epsilon, raise func() (BitLevel, error)) (BitLevel, error) {
	if c.Current().Epsilon.Less(at) {
		return raise()
	}
	if at.Less(c.Levels()[0].Epsilon) {
		return c.Degrade(s, at)
	}
	return c.Insert(s, at)
}

// drawUnary draws a chain in unary encoding at the levels of rowOrder.
func drawUnary(t *testing.T, s *Sampler, truth int, raise raiser) *UnaryChain {
	t.Helper()
	chain := newUnary(t, rowBits)
	for _, level := range rowOrder {
		at := fromNano(t, rowLevels[level])
		if _, err := extendRow(&chain.bitChain, s, at, func() (BitLevel, error) { return raise(chain, s, at, truth) }); err != nil {
			t.Fatal(err)
		}
	}
	return chain
}

// watch gives the pattern of some of the bits of a chain.
func watch(levels []BitLevel, which []int, bits ...int) (p pattern) {
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

// What the tests look at: the bit of the true value and one other at all levels, and it and three others
// at three levels.
var (
	everyLevel  = []int{0, 1, 2, 3, 4}
	threeLevels = []int{1, 2, 4}
)

// unaryFits draws n chains and holds both views against their laws.
func unaryFits(t *testing.T, n int, raise raiser) (deep, broad stattest.Verdict) {
	steps := plan(2, rowLevels, rowOrder)
	own, other := ownLaw(steps, trueOdds, trueCoin), jointLaw(2, steps, trueOdds)[0]
	single := func(bit int) []*big.Float {
		if bit == 0 {
			return own
		}
		return other
	}
	sampler := NewSampler()
	deepCounts, broadCounts := map[pattern]int{}, map[pattern]int{}
	for i := range n {
		truth, others := i%rowBits, i/rowBits
		bit := func(k int) int { return (truth + 1 + (others+k)%(rowBits-1)) % rowBits }
		levels := drawUnary(t, sampler, truth, raise).Levels()
		deepCounts[watch(levels, everyLevel, truth, bit(0))]++
		broadCounts[watch(levels, threeLevels, truth, bit(0), bit(1), bit(5))]++
	}
	return stattest.Fit(deepCounts, watched(everyLevel, 2, single)), stattest.Fit(broadCounts, watched(threeLevels, 4, single))
}

// TestUnaryChainsHaveTheJointLaw draws chains with the randomness of the operating system.
func TestUnaryChainsHaveTheJointLaw(t *testing.T) {
	deep, broad := unaryFits(t, rowsDrawn(), (*UnaryChain).Raise)
	deep.Holds(t, "two bits at all levels")
	broad.Holds(t, "four bits at three levels")
}

// TestAWrongCoinIsSeen tests the test above with coins that are not drawn from the last response.
func TestAWrongCoinIsSeen(t *testing.T) {
	for name, coin := range map[string]func(*Sampler) bool{
		"fair for every raise": func(s *Sampler) bool { return s.bits.Uint64()&1 == 1 },
		"always set":           func(*Sampler) bool { return true },
	} {
		raise := func(c *UnaryChain, s *Sampler, to privacy.Epsilon, truth int) (BitLevel, error) {
			current := c.Current()
			if err := checkRise(current.Epsilon, to); err != nil {
				return BitLevel{}, err
			}
			hidden := row(t, c.Len())
			if coin(s) {
				hidden = row(t, c.Len(), truth)
			}
			return c.put(to, s.drawBits(upwards(2, current.Epsilon, to), c.Len(), hidden.packed, current.Response.packed)), nil
		}
		deep, broad := unaryFits(t, wrongDrawn, raise)
		deep.Fails(t, "%s: two bits at all levels", name)
		broad.Fails(t, "%s: four bits at three levels", name)
	}
}

// TestChainsOfBitsHaveTheJointLaw draws chains of bits for random truths. A bit is seen as right or wrong:
// the law of that does not depend on the truth.
func TestChainsOfBitsHaveTheJointLaw(t *testing.T) {
	law := jointLaw(2, plan(2, rowLevels, rowOrder), trueOdds)[0]
	single := func(int) []*big.Float { return law }
	random, sampler := rand.New(rand.NewPCG(11, 12)), NewSampler()
	deepCounts, broadCounts := map[pattern]int{}, map[pattern]int{}
	for i := range rowsDrawn() {
		truth := randomRow(t, random, rowBits)
		chain := newBits(t, rowBits)
		for _, level := range rowOrder {
			at := fromNano(t, rowLevels[level])
			if _, err := extendRow(&chain.bitChain, sampler, at, func() (BitLevel, error) { return chain.Raise(sampler, at, truth) }); err != nil {
				t.Fatal(err)
			}
		}
		bit := func(k int) int { return (i + k) % rowBits }
		right := func(which []int, bits ...int) (p pattern) {
			p = watch(chain.Levels(), which, bits...)
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

// TestRowsDrawByThePlan draws in all orders and looks at the laws that the sampler was asked for: those of
// the plan, which the enumeration proves to be right, and for a raise in unary encoding the coin's.
func TestRowsDrawByThePlan(t *testing.T) {
	levels := rowLevels[:4]
	for _, order := range permutations(len(levels)) {
		unary, row := newUnary(t, 3), newBits(t, 3)
		forUnary, forRow := NewSampler(), NewSampler()
		wantUnary, wantRow := map[law]bool{}, map[law]bool{}
		for _, s := range plan(2, levels, order) {
			at := fromNano(t, levels[s.at])
			wantRow[s.law], wantUnary[s.law] = true, true
			if s.above == none && s.below != none {
				wantUnary[law{m: 2, at: s.law.below, above: truthAbove}] = true
			}
			drawnUnary, err1 := extendRow(&unary.bitChain, forUnary, at, func() (BitLevel, error) { return unary.Raise(forUnary, at, 1) })
			drawnRow, err2 := extendRow(&row.bitChain, forRow, at, func() (BitLevel, error) { return row.Raise(forRow, at, drawnUnary.Response) })
			if err1 != nil || err2 != nil {
				t.Fatalf("order %v: %v, %v", order, err1, err2)
			}
			for _, c := range []struct {
				chain     *bitChain
				drawn     BitLevel
				got, want map[law]bool
			}{{&unary.bitChain, drawnUnary, asked(forUnary), wantUnary}, {&row.bitChain, drawnRow, asked(forRow), wantRow}} {
				if recorded, ok := c.chain.At(at); !ok || recorded != c.drawn {
					t.Errorf("order %v: %v was drawn and %v recorded", order, c.drawn, recorded)
				}
				if !maps.Equal(c.got, c.want) {
					t.Fatalf("order %v: the sampler was asked for %v, want %v", order, c.got, c.want)
				}
			}
		}
		for _, chain := range []*bitChain{&unary.bitChain, &row.bitChain} {
			if !slices.IsSortedFunc(chain.Levels(), func(a, b BitLevel) int { return a.Epsilon.Compare(b.Epsilon) }) {
				t.Errorf("order %v: levels %v", order, chain.Levels())
			}
		}
	}
}
