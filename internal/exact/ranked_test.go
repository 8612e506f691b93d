package exact

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// ranks are the cumulative probabilities 0, 1/e², 1/4 ∓ 2⁻²⁰⁰ in wide intervals, 1/e, 1/2, 1/2 and 2/3:
// irrational ones, rational ones, a rank that never comes because it adds nothing, and one that
// nothing lies below.
func ranks(prec uint) []Interval {
	e, one, quarter := Exp(1_000_000_000, prec), Int(1), closeSpecimen().weights(prec)
	half := fraction(1, 2, prec)
	return []Interval{fraction(0, 1, prec), one.Quo(e.Mul(e)), quarter.First, quarter.Either, one.Quo(e), half, half, fraction(2, 3, prec)}
}

// exactRanks are the same numbers, computed in another way.
func exactRanks() []*big.Float {
	one, e, e2 := big.NewFloat(1), taylor(1_000_000_000, 600), taylor(2_000_000_000, 600)
	half, quarter := big.NewFloat(0.5), closeSpecimen()
	return []*big.Float{big.NewFloat(0), quo(one, e2), quarter.first, quarter.either, quo(one, e), half, half, quo(big.NewFloat(2), big.NewFloat(3))}
}

// TestRanksHaveTheirProbabilities finds the U at which each rank begins, as for a Mixture.
func TestRanksHaveTheirProbabilities(t *testing.T) {
	exact := exactRanks()
	for j, at := range exact {
		atMost := func(tail uint64, u ...uint64) bool {
			var bits tape
			bits.load(tail, u...)
			return DrawRank(&bits.Bits, bits.Uint64(), len(exact), ranks) <= j
		}
		t.Run(fmt.Sprintf("at most %d", j), func(t *testing.T) { checkFlip(t, at, atMost) })
	}
}

// TestRankTakesAWordUnlessItIsClose counts the words: one, and more in the cell of a threshold.
func TestRankTakesAWordUnlessItIsClose(t *testing.T) {
	const length = 128
	edge := words(ceiling(exactRanks()[4], length), length) // just above 1/e
	var bits tape
	for _, c := range []struct {
		u          []uint64
		rank, read int
	}{
		{[]uint64{1}, 1, 1},
		{[]uint64{1<<62 - 2}, 2, 1},
		{[]uint64{1 << 62}, 4, 2},
		{[]uint64{edge[0] - 1}, 4, 1},
		{[]uint64{edge[0], edge[1] - 2}, 4, 2},
		{edge, 5, 2},
		{[]uint64{edge[0] + 1}, 5, 1},
		{[]uint64{1<<63 - 1}, 5, 1},
		{[]uint64{1 << 63}, 7, 1},
		{[]uint64{ones}, 8, 1},
	} {
		bits.load(ones, c.u...)
		if got := DrawRank(&bits.Bits, bits.Uint64(), 8, ranks); got != c.rank || bits.read() != c.read {
			t.Errorf("U = %#x…: rank %d after %d words, want %d after %d", c.u, got, bits.read(), c.rank, c.read)
		}
	}
}

// TestTheOnlyRank has no threshold: the rank is 0.
func TestTheOnlyRank(t *testing.T) {
	got := DrawRank(NewBits(), 1, 0, func(uint) []Interval { return nil })
	check.That(t, got == 0, "rank %d of a single one", got)
}
