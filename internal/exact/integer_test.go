package exact

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// geometric is two-sided geometric noise with α = 1/2 around a center: Pr(k) = 2^−|k−center|/3. The
// interval of a tail below 2^−2prec starts at 0, because adding numbers of very different sizes
// exactly takes too long.
func geometric(center int64) func(u int64, prec uint) Interval {
	return func(u int64, prec uint) Interval {
		n, most := max(center-u-1, u-center), int64(2*prec)
		power := powerOfTwo(-int(min(n, most)))
		tail := fraction(1, 3, prec).Mul(Interval{power, power})
		if n > most {
			tail = tail.OrLess()
		}
		if u < center {
			return tail
		}
		return Int(1).Sub(tail)
	}
}

// geometricAtMost is the same probability, computed in another way.
func geometricAtMost(u int64) *big.Float {
	third := quo(big.NewFloat(1), big.NewFloat(3))
	if u < 0 {
		return third.SetMantExp(third, int(u)+1)
	}
	return sum(big.NewFloat(1), third.Neg(third.SetMantExp(third, -int(u))))
}

// The test finds the U at which each integer begins. It must be the cumulative probability.
func TestDrawInteger_EachInteger_HasItsExactProbability(t *testing.T) {
	for _, center := range []int64{0, 1 << 61} {
		for u := int64(-3); u <= 3; u++ {
			atMost := func(tail uint64, words ...uint64) bool {
				var bits tape
				bits.load(tail, words...)
				return DrawInteger(&bits.Bits, nil, geometric(center)) <= center+u
			}
			t.Run(fmt.Sprintf("%d at most %d", center, u), func(t *testing.T) { checkFlip(t, geometricAtMost(u), atMost) })
		}
	}
}

func TestDrawInteger_LawOfOneInteger_ReturnsIt(t *testing.T) {
	for _, only := range []int64{1 - 1<<62, 2 - 1<<62, -1, 0, 1, 1<<62 - 1, 1 << 62} {
		law := func(u int64, _ uint) Interval {
			if u < only {
				return Int(0)
			}
			return Int(1)
		}
		for _, word := range []uint64{0, 1 << 63, ones} {
			var bits tape
			bits.load(word)
			if got := DrawInteger(&bits.Bits, nil, law); got != only || bits.read() != 1 {
				t.Errorf("%d after %d words, want %d after one", got, bits.read(), only)
			}
		}
	}
}

// The number of calls of the law must not depend on the result, because time would reveal it.
func TestDrawInteger_NearOrFar_TakesSameComparisons(t *testing.T) {
	for _, center := range []int64{0, 1, -12345, 1 << 40, -1 << 61} {
		for _, word := range []uint64{1 << 20, 1 << 62, 1 << 63, ones - 1<<20} {
			asked, law := 0, geometric(center)
			var bits tape
			bits.load(ones/7, word)
			DrawInteger(&bits.Bits, nil, func(u int64, prec uint) Interval {
				asked++
				return law(u, prec)
			})
			check.That(t, asked == 2+63 && bits.read() == 1,
				"center %d, U = %#x…: asked %d times, %d words", center, word, asked, bits.read())
		}
	}
}

// The law gives an eighth of the probability to integers on either side of the range. A draw of
// such an integer must read bits without end.
func TestDrawInteger_OutsideTheRange_IsNeverReturned(t *testing.T) {
	eighth := Int(1).Quo(Int(8))
	law := func(u int64, _ uint) Interval {
		if u < 0 {
			return eighth
		}
		return Int(1).Sub(eighth)
	}
	const enough = 3
	draw := func(word uint64) (n int64, ended bool) {
		pages := 0
		bits := ReplayBits(func(p []byte) {
			if pages++; pages > enough {
				panic("no more bits")
			}
			for i := range p {
				p[i] = byte(word >> 56)
			}
		})
		defer func() { ended = recover() == nil }()
		return DrawInteger(bits, nil, law), true
	}
	for word, mustEnd := range map[uint64]bool{0: false, ones: false, 1 << 63: true} {
		n, ended := draw(word)
		check.That(t, ended == mustEnd && (!ended || n == 0), "U = %#x…: %d, ended: %v", word, n, ended)
	}
}

// For any guess, the draw returns the same integer and reads the same bits. For a correct guess, it
// calls the law twice.
func TestDrawInteger_AnyGuess_ReturnsTheSameInteger(t *testing.T) {
	for _, center := range []int64{0, -12345, 1 << 61} {
		for word := uint64(1) << 40; word < ones-1<<58; word += 1 << 58 {
			draw := func(guess func(uint64) int64) (n int64, asked int) {
				law := geometric(center)
				var bits tape
				bits.load(ones/7, word)
				n = DrawInteger(&bits.Bits, guess, func(u int64, prec uint) Interval {
					asked++
					return law(u, prec)
				})
				check.That(t, bits.read() == 1, "%d words were read", bits.read())
				return n, asked
			}
			want, _ := draw(nil)
			for _, guess := range []int64{want, want - 1, want + 1, 0, -1 << 63, 1<<63 - 1} {
				got, asked := draw(func(first uint64) int64 {
					check.That(t, first == word, "the guess is by %#x, the first word is %#x", first, word)
					return guess
				})
				check.That(t, got == want && (guess != want || asked == 2) && (guess == want || asked == 2+2+63),
					"center %d, U = %#x…, guess %d: %d, asked %d times, want %d", center, word, guess, got, asked, want)
			}
		}
	}
}

// ranks are the cumulative probabilities 0, 1/e², 1/4 ∓ 2⁻²⁰⁰ in wide intervals, 1/e, 1/2, 1/2 and
// 2/3. Some are irrational and some rational. The first rank and one of the equal ones have
// probability 0.
func ranks(prec uint) []Interval {
	e, one, quarter := Exp(1_000_000_000, prec), Int(1), closeSpecimen().weights(prec)
	half := fraction(1, 2, prec)
	return []Interval{fraction(0, 1, prec), one.Quo(e.Mul(e)), quarter.First, quarter.Either, one.Quo(e), half, half, fraction(2, 3, prec)}
}

// exactRanks are the same numbers, computed independently.
func exactRanks() []*big.Float {
	one, e, e2 := big.NewFloat(1), taylor(1_000_000_000, 600), taylor(2_000_000_000, 600)
	half, quarter := big.NewFloat(0.5), closeSpecimen()
	return []*big.Float{big.NewFloat(0), quo(one, e2), quarter.first, quarter.either, quo(one, e), half, half, quo(big.NewFloat(2), big.NewFloat(3))}
}

// The test finds the U at which each rank begins. It must be the cumulative probability.
func TestDrawRank_EachRank_HasItsExactProbability(t *testing.T) {
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

// A draw reads one word, and more only if U is in the same cell as a threshold.
func TestDrawRank_NearAThreshold_ReadsMoreWords(t *testing.T) {
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

func TestDrawRank_NoThreshold_ReturnsZero(t *testing.T) {
	got := DrawRank(NewBits(), 1, 0, func(uint) []Interval { return nil })
	check.That(t, got == 0, "rank %d of a single one", got)
}
