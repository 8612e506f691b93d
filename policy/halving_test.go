package policy

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

func TestHalving_CeilingHalvesTheDistance(t *testing.T) {
	const month = 720 * time.Hour
	p := must(t)(Halving(eps("0"), eps("2"), at(0), month, eps("1")))
	wantCeilings(t, p, map[time.Time]string{{}: "0", at(0): "0", at(month - 1): "0", at(month): "1", at(1e6 * time.Hour): "1"})
	check.That(t, p.Limit() == eps("1"), "limit %v", p.Limit())
	p = must(t)(Halving(eps("1"), eps("2"), at(0), month, eps("0.25")))
	wantCeilings(t, p, map[time.Time]string{
		at(-1): "0", at(0): "1", at(month - 1): "1.25", at(month): "1.5", at(2*month - 1): "1.5", at(2 * month): "1.75", at(9 * month): "1.75",
	})
	p = must(t)(Halving(eps("0.7"), eps("1"), at(0), month, eps("1"))) // no multiple between
	wantCeilings(t, p, map[time.Time]string{at(0): "0.7", at(1e6 * time.Hour): "0.7"})
	check.That(t, p.Limit() == eps("0.7"), "limit %v", p.Limit())
	p = must(t)(Halving(eps("0.7"), eps("1"), at(0), month, eps("0.25"))) // 0.5 would be below from
	wantCeilings(t, p, map[time.Time]string{at(0): "0.7", at(month / 8): "0.7", at(month): "0.75", at(1e5 * time.Hour): "0.75"})
	p = must(t)(Halving(eps("0"), eps("1"), at(0), 1, eps("0.001"))) // several levels in the first nanosecond
	wantCeilings(t, p, map[time.Time]string{at(0): "0", at(1): "0.5", at(2): "0.75", at(3): "0.875", at(4): "0.937", at(10): "0.999"})
}

// Levels that would be reached after 2261 do not count for the limit.
func TestHalving_LevelsAfter2261_DoNotCount(t *testing.T) {
	p := must(t)(Halving(eps("0"), eps("1"), at(0), 100*365*24*time.Hour, eps("0.25")))
	got := p.Limit()
	check.That(t, got == eps("0.75"), "limit %v", got)
	p = must(t)(Halving(eps("0"), eps("1"), at(0), 200*365*24*time.Hour, eps("0.25")))
	check.Equal(t, p.Limit(), eps("0.5"), "limit")
	p = must(t)(Halving(eps("0"), eps("1000"), at(0), math.MaxInt64, eps("1")))
	if got := p.Limit(); !got.Less(eps("600")) || got.IsZero() {
		t.Errorf("limit %v", got)
	}
	p = must(t)(Halving(eps("0"), eps("1"), time.Unix(0, 0), time.Duration(lastInstant), eps("0.5")))
	wantCeilings(t, p, map[time.Time]string{lastInstant.time().Add(-1): "0", lastInstant.time(): "0.5"})
}

// By the definition in 400-bit arithmetic, the curve reaches each level at the instant of its step,
// and not a nanosecond earlier.
func TestHalving_EachStep_AgreesWithBigFloats(t *testing.T) {
	g := newGenerator(t)
	steps := 0
	for range testenv.Tries(50, 150, 150) {
		from := g.Int64N(1e11)
		to := from + 2 + g.Int64N(1e12-from-2)
		if g.IntN(3) == 0 {
			from, to = g.Int64N(64), 64+g.Int64N(64)
		}
		r := halving{nanos(from), nanos(to), instant(g.Int64N(int64(lastInstant))), time.Duration(1 + g.Int64N(1<<g.IntN(63))), nanos(1 + (to-from)/(1+g.Int64N(30)))}
		p := must(t)(Halving(r.from, r.to, r.start.time(), r.halfLife, r.stride))
		for _, s := range p.node.line() {
			if s.at > r.start {
				steps++
				checkHalving(t, r, s.at-1, p)
			}
			checkHalving(t, r, s.at, p)
		}
		checkHalving(t, r, r.start+instant(g.Int64N(int64(lastInstant-r.start))), p)
		checkHalving(t, r, lastInstant, p)
	}
	check.That(t, steps >= 500, "only %d steps", steps)
}

func checkHalving(t *testing.T, r halving, x instant, p Policy) {
	t.Helper()
	got, want := p.Ceiling(x.time(), 0).Nano(), halvingAt(r, x)
	check.Need(t, got == want, "%v at %v: %d, want %d", p, x, got, want)
}

// halvingAt returns the ceiling by the definition, from start on. The distance to the limit is
// D·2^(−x). It is rounded up to whole nano-nats, so that the ceiling is rounded down.
func halvingAt(r halving, x instant) int64 {
	missing := new(big.Float).SetPrec(400).SetInt64(r.to.Nano() - r.from.Nano())
	missing.Mul(missing, halved(int64(x-r.start), int64(r.halfLife)))
	up, accuracy := missing.Int64()
	if accuracy != big.Exact {
		up++
	}
	return max(r.from.Nano(), (r.to.Nano()-up)/r.stride.Nano()*r.stride.Nano())
}

// halved returns 2^(−elapsed/h): exactly for whole half-lives, else with an error below 2⁻³⁸⁰.
func halved(elapsed, h int64) *big.Float {
	number := func(n int64) *big.Float { return new(big.Float).SetPrec(400).SetInt64(n) }
	y := number(elapsed % h)
	y.Quo(y, number(h)).Mul(y, ln2()).Neg(y)
	sum, term := number(1), number(1)
	for n := int64(1); n < 100 && term.Sign() != 0; n++ { // (ln 2)¹⁰⁰/100! < 2⁻⁵⁷⁰
		term.Mul(term, y).Quo(term, number(n))
		sum.Add(sum, term)
	}
	return sum.SetMantExp(sum, -int(min(elapsed/h, 10_000)))
}

// ln2 is Σ 1/(n·2ⁿ).
func ln2() *big.Float {
	sum := new(big.Float).SetPrec(420)
	for n := int64(1); n < 420; n++ {
		term := new(big.Float).SetPrec(420).SetInt64(n)
		term.SetMantExp(term, int(n))
		sum.Add(sum, term.Quo(new(big.Float).SetPrec(420).SetInt64(1), term))
	}
	return sum
}

func TestTimesLog2_RoundsUpExactly(t *testing.T) {
	for _, c := range []struct{ h, a, b, want int64 }{
		{1, 1, 1, 0}, {1, 2, 1, 1}, {7, 3, 3, 0}, {7, 12, 3, 14}, {math.MaxInt64, 2, 1, math.MaxInt64},
		{1, 3, 2, 1}, {1, 1e12, 1e12 - 1, 1}, {1, 1e12, 1, 40}, {1000, 3, 1, 1585}, {1_000_000_000, 3, 2, 584_962_501},
		{1_000_000_000_000_000_000, 3, 1, 1_584_962_500_721_156_182}, // log₂3 = 1.58496250072115618145…
	} {
		got, ok := timesLog2(c.h, c.a, c.b)
		check.That(t, ok && got == c.want, "⌈%d·log₂(%d/%d)⌉ = %d, %v; want %d", c.h, c.a, c.b, got, ok, c.want)
	}
	for _, c := range [][3]int64{{math.MaxInt64, 4, 1}, {math.MaxInt64, 5, 2}, {math.MaxInt64, 1e12, 1}} {
		got, ok := timesLog2(c[0], c[1], c[2])
		check.That(t, !ok, "⌈%d·log₂(%d/%d)⌉ = %d; it is not an int64", c[0], c[1], c[2], got)
	}
}

// If too few bits are computed, the functions must report that they cannot decide.
func TestLog2_TooFewBits_IsUndecided(t *testing.T) {
	got, ok := ceilProduct(3, big.NewInt(5), 4)
	check.That(t, !ok, "15/16 to 18/16 has 1 in it, but became %v", got)
	if got, ok := ceilProduct(4, big.NewInt(3), 4); !ok || got.Int64() != 1 { // the bounds are excluded
		t.Errorf("12/16 to 16/16: %v, %v", got, ok)
	}
	if got, ok := log2Fraction(3, 2, 100, 100); ok {
		t.Errorf("100 digits of log₂(3/2) from 100 bits: %v", got)
	}
	if got, ok := log2Fraction(3, 2, 5, 69); !ok || got.Int64() != 18 { // 0.58496 is 18/32 and something
		t.Errorf("%v, %v", got, ok)
	}
	for n := uint(1); n < 100; n++ {
		got := timesFraction(1_000_000_000_000_000_000, 3, 2, n)
		check.That(t, got.Int64() == 584_962_500_721_156_182, "from %d digits: %v", n, got)
	}
}

func TestHalving_InvalidParameters_AreRefused(t *testing.T) {
	zero, one := eps("0"), eps("1")
	wantInvalid(t, "not below limit")(Halving(one, one, at(0), time.Hour, one))
	wantInvalid(t, "not below limit")(Halving(zero, zero, at(0), time.Hour, one))
	wantInvalid(t, "half_life")(Halving(zero, one, at(0), 0, one))
	wantInvalid(t, "half_life")(Halving(zero, one, at(0), -1, one))
	wantInvalid(t, "stride is 0")(Halving(zero, one, at(0), 1, zero))
	wantInvalid(t, "start is not a time")(Halving(zero, one, time.Time{}, 1, one))
	wantInvalid(t, "1024 steps")(Halving(zero, nanos(2000), at(0), 1, nanos(1)))
}
