package exact

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
)

// rationals have finite and infinite binary expansions, within one word and beyond it. Some are 0
// or 1, or next to them.
func rationals() []*big.Rat {
	power := func(n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), n) }
	tiny := new(big.Rat).SetFrac(big.NewInt(1), power(200))
	return []*big.Rat{
		big.NewRat(0, 1), big.NewRat(1, 1), big.NewRat(1, 2), big.NewRat(1, 3), big.NewRat(2, 3), big.NewRat(3, 8),
		big.NewRat(1, 1<<62), big.NewRat(999_999_999, 1_000_000_000), big.NewRat(355, 1130),
		new(big.Rat).SetFrac(big.NewInt(5), power(64)),
		new(big.Rat).SetFrac(big.NewInt(5), power(65)),
		new(big.Rat).SetFrac(power(127), new(big.Int).Add(power(128), big.NewInt(3))),
		tiny,
		new(big.Rat).Sub(big.NewRat(1, 1), tiny),
		new(big.Rat).Add(big.NewRat(1, 4), tiny),
		new(big.Rat).Quo(tiny, big.NewRat(7, 1)),
	}
}

// The test finds the U from which on the result is false. It must be the number.
func TestBelow_FlipsAtTheNumber(t *testing.T) {
	var bits tape
	for _, number := range rationals() {
		t.Run(number.RatString(), func(t *testing.T) {
			at := new(big.Float).SetPrec(1000).SetRat(number)
			checkFlip(t, at, func(_ uint64, u ...uint64) bool {
				bits.load(1, u...) // with a tail of zeros, U could equal the number, and Below would never end
				return Below(bits.Uint64, number)
			})
		})
	}
}

// The numbers have a given word as their first 64 bits and any next four bits. If the first word of
// U is equal to that word, the second decides.
func TestBelow_FirstWordEqual_SecondWordDecides(t *testing.T) {
	const steps = 16
	scale := new(big.Int).Lsh(big.NewInt(steps), 64)
	var bits tape
	for _, cell := range []uint64{0, 1, 1 << 63, ones - 1, ones} {
		for j := range uint64(steps) {
			numerator := new(big.Int).SetUint64(cell)
			numerator.Mul(numerator, big.NewInt(steps)).Add(numerator, new(big.Int).SetUint64(j))
			number := new(big.Rat).SetFrac(numerator, scale)
			for step := range uint64(steps) {
				checkBelow(t, &bits, number, step < j, 2, cell, step<<60|1)
			}
			if cell > 0 {
				checkBelow(t, &bits, number, true, 1, cell-1)
			}
			if cell < ones {
				checkBelow(t, &bits, number, false, 1, cell+1)
			}
		}
	}
}

// checkBelow checks a result, and how many words were read for it.
func checkBelow(t *testing.T, bits *tape, number *big.Rat, want bool, read int, u ...uint64) {
	t.Helper()
	bits.load(ones, u...)
	if got := Below(bits.Uint64, number); got != want || bits.read() != read {
		t.Errorf("U = %#x… below %v is %v after %d words, want %v after %d", u, number, got, bits.read(), want, read)
	}
}

// No real number in [0,1) is below 0, and every one is below 1.
func TestBelow_ZeroOrOne_IsCertain(t *testing.T) {
	var bits tape
	for _, word := range []uint64{1, 1 << 63, ones} {
		checkBelow(t, &bits, big.NewRat(0, 1), false, 1, word)
		checkBelow(t, &bits, big.NewRat(1, 1), true, 1, word)
	}
	checkBelow(t, &bits, big.NewRat(1, 1), true, 1, 0)
}

func TestBelow_LeavesTheNumberUnchanged(t *testing.T) {
	for _, number := range rationals() {
		before := fmt.Sprint(number)
		var bits tape
		bits.load(ones, 1<<63, 1<<62)
		Below(bits.Uint64, number)
		check.Equal(t, fmt.Sprint(number), before, "the number after the draw")
	}
}

func TestBelow_SystemRandomness_HasTheGivenProbability(t *testing.T) {
	const n = 100_000
	bits := NewBits()
	for _, number := range []*big.Rat{big.NewRat(1, 3), big.NewRat(1, 100), big.NewRat(19, 20)} {
		p, _ := number.Float64()
		yes := 0
		for range n {
			if Below(bits.Uint64, number) {
				yes++
			}
		}
		stattest.Share(yes, n, p, p).Holds(t, "%v", number)
	}
}

func TestLawFault_NotALaw_IsReported(t *testing.T) {
	half, third := big.NewRat(1, 2), big.NewRat(1, 3)
	for _, law := range [][]*big.Rat{{half, half}, {third, third, third}, {big.NewRat(1, 1), new(big.Rat)}} {
		check.Equal(t, LawFault(law), "", "the fault of %v", law)
	}
	for _, bad := range [][]*big.Rat{nil, {half}, {half, nil, half}, {big.NewRat(3, 2), big.NewRat(-1, 2)}, {half, half, third}} {
		check.That(t, LawFault(bad) != "", "%v: no fault", bad)
	}
}
