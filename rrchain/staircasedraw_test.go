package rrchain

import (
	"math/big"
	"strconv"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/internal/stattest"
)

// The statistical tests draw with fixed keys, so they give the same in every run. There are ten
// million responses to them together in the deep form.
const stairBits = 500

// stairObjects is how many objects respond directly, at the five levels of chainLevels.
func stairObjects() int { return pace.Tries(120_000, 500_000, 500_000) / (coarser * coarser) }

// stairRows is how many respond in unary encoding, at three levels.
func stairRows() int { return pace.Tries(1_200, 5_000, 5_000) / coarser }

// drawStairs draws the responses of n objects, each value being the truth in turn.
func drawStairs(t *testing.T, k *NoiseKey, n int) map[pattern]int {
	counts := map[pattern]int{}
	responses := make([]int, len(chainLevels))
	for i := range n {
		truth := i % chainValues
		s := newStairs(k, "question", strconv.Itoa(i), chainValues)
		for level, nano := range chainLevels {
			responses[level] = s.at(t, nano, truth)
		}
		counts[patternOf(truth, responses)]++
	}
	return counts
}

// project leaves only some levels of counts or of a law, the others being 0, and joins the names of
// the values that this makes the same.
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

// TestStaircasesAreDrawnByTheirLaw looks at all levels together, at three of them, at pairs and at
// each alone.
func TestStaircasesAreDrawnByTheirLaw(t *testing.T) {
	t.Parallel()
	law := expectedPatterns()
	counts := drawStairs(t, newKey(t, fixedKey()), stairObjects())
	views := [][]int{{0, 1, 2, 3, 4}, {0, 2, 4}, {1, 2, 3}, {0, 4}, {3, 4}, {0}, {1}, {2}, {3}, {4}}
	for _, levels := range views {
		stattest.Fit(project(counts, levels...), project(law, levels...)).Holds(t, "levels %v", levels)
	}
}

// TestASpoiltFloorIsFoundOut tests the test above: the floor of one level is that of an ε that is
// 10 % higher, or more.
func TestASpoiltFloorIsFoundOut(t *testing.T) {
	t.Parallel()
	const objects = 100_000 / (coarser * coarser)
	expected := expectedPatterns()
	for _, level := range []int{4, 0, 2}[:pace.Tries(1, 3, 3)] {
		k := newKey(t, fixedKey())
		l := law{m: chainValues, at: chainLevels[level], above: truthAbove}
		higher := l
		higher.at += l.at / 10 * coarser
		k.floors[l] = newFloor(higher)
		stattest.Fit(drawStairs(t, k, objects), expected).Fails(t, "level %d", level)
	}
}

// lawOfBits is the law of the patterns of some bits whose responses have the probabilities given.
// Bit j of a pattern's level is bit j's response there.
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

// TestUnaryStaircasesAreDrawnByTheirLaw looks at the bits of other values than the true one at all
// levels; at that of the true value, beside its neighbour; and at bits that are next to each other,
// or 256 apart.
func TestUnaryStaircasesAreDrawnByTheirLaw(t *testing.T) {
	t.Parallel()
	levels := []int64{500_000_000, 1_000_000_000, 3_000_000_000}
	stairs := staircaseLaw(2, levels)
	other := stairs[0]
	own := make([]*big.Float, len(other))
	for code := range own {
		own[code] = quo(add(stairs[0][code], stairs[1][code]), 2)
	}
	var single, ownPairs, nextPairs, farPairs [8][8]int // by the responses of two bits, the lowest level first
	k := newKey(t, fixedKey())
	for i := range stairRows() {
		s, truth := newStairs(k, "question", strconv.Itoa(i), stairBits), i%stairBits
		var codes [stairBits]int
		for level, nano := range levels {
			for v := range s.bits(t, nano, truth).Ones() {
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

// TestNoiseIsIndependent looks at pairs of responses whose noise must have nothing to do with each
// other: of two objects, to two questions, to one name with other numbers of values, and directly
// and in unary encoding. A pair with the same noise shows that the test would notice.
func TestNoiseIsIndependent(t *testing.T) {
	t.Parallel()
	n := pace.Tries(15_000, 40_000, 40_000) / (coarser * coarser)
	k, one := newKey(t, fixedKey()), fromNano(t, 1_000_000_000)
	direct := func(question, object string, m int) int {
		return newStairs(k, question, object, m).at(t, one.Nano(), 0)
	}
	isTruth := func(response int) int { return min(response, 1) }
	bit := func(object string) int {
		return newStairs(k, "q", object, 2).bits(t, one.Nano(), 1).Bit(0)
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
