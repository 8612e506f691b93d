package exact

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// exponentials are e^(nano·10⁻⁹) to 100 significant digits, from mpmath 1.3.0 with mp.dps = 150:
// mp.nstr(mp.exp(mp.mpf(nano)/10**9), 100).
var exponentials = []struct {
	nano   int64
	digits string
}{
	{0, "1.0"},
	{1, "1.00000000100000000050000000016666666670833333334166666666805555555575396825399305555555831128747823"},
	{100_000_000, "1.105170918075647624811707826490246668224547194737518718792863289440967966747654302989143318970748654"},
	{589_000_000, "1.802185328676077197670978426229854361752117733915316321441755849226210596518186494179204094541899294"},
	{1_000_000_000, "2.718281828459045235360287471352662497757247093699959574966967627724076630353547594571382178525166427"},
	{1_000_000_000_000, "1.97007111401704699388887935224332312531693798532384578995280299138506385078244119347497807656302689e+434"},
}

// truncated is the widest gap, relative, between a number and its 100 digits.
var truncated, _ = new(big.Float).SetPrec(64).SetString("1e-99")

// taylor returns e^(nano·10⁻⁹) with a relative error below 2^−prec. It shares nothing with Exp: one
// power series in fixed-point integers, no halving and no interval. Each term is rounded down by
// less than one unit of the last place, and there are far fewer than 2⁶³ terms. The terms after the
// first term of zero add less than one unit more.
func taylor(nano int64, prec uint) *big.Float {
	places := prec + 64
	term := new(big.Int).Lsh(big.NewInt(1), places)
	sum := new(big.Int)
	x, unit := big.NewInt(nano), big.NewInt(1_000_000_000)
	for n := int64(1); term.Sign() > 0; n++ {
		sum.Add(sum, term)
		term.Mul(term, x)
		term.Quo(term, new(big.Int).Mul(unit, big.NewInt(n)))
	}
	f := new(big.Float).SetPrec(uint(sum.BitLen())).SetInt(sum)
	return f.SetMantExp(f, -int(places))
}

// encloses returns whether the interval contains a number that is known to be y·(1 ± slack).
func (x Interval) encloses(y, slack *big.Float) bool {
	margin := new(big.Float).SetPrec(64).Mul(y, slack)
	wide := y.Prec() + 64
	low := new(big.Float).SetPrec(wide).Sub(y, margin)
	high := new(big.Float).SetPrec(wide).Add(y, margin)
	return x.lo.Cmp(high) <= 0 && x.hi.Cmp(low) >= 0
}

// relativeWidth returns (hi−lo)/hi.
func (x Interval) relativeWidth() *big.Float {
	gap := new(big.Float).SetPrec(x.hi.Prec()+64).Sub(x.hi, x.lo)
	return gap.Quo(gap, x.hi)
}

// powerOfTwo returns 2^n.
func powerOfTwo(n int) *big.Float { return new(big.Float).SetMantExp(big.NewFloat(1), n) }

func TestTaylor_AgreesWithMpmath(t *testing.T) {
	for _, e := range exponentials {
		want := parse(t, e.digits)
		got := taylor(e.nano, 400)
		check.That(t, (Interval{got, got}).encloses(want, truncated),
			"e^(%d·10⁻⁹) = %.100g, mpmath has %s", e.nano, got, e.digits)
	}
}

func TestExp_EnclosesTheDigitsOfMpmath(t *testing.T) {
	for _, e := range exponentials {
		want := parse(t, e.digits)
		for _, prec := range []uint{64, 128, 256} { // beyond, 100 digits are coarser than the interval
			if x := Exp(e.nano, prec); !x.encloses(want, truncated) {
				t.Errorf("Exp(%d, %d) = [%.90g, %.90g], mpmath has %s", e.nano, prec, x.lo, x.hi, e.digits)
			}
		}
	}
}

func TestExp_EachPrecision_EnclosesNarrowlyAndNested(t *testing.T) {
	nanos := []int64{0, 1, 2, 1_000, 100_000_000, 589_000_000, 1_000_000_000, 37_000_000_007, 999_999_999_999, 1_000_000_000_000}
	for _, nano := range nanos {
		reference := taylor(nano, 2048+guard+128)
		outer := Exp(nano, 32)
		for prec := uint(64); prec <= 2048; prec *= 2 {
			x := Exp(nano, prec)
			check.That(t, x.lo.Cmp(reference) <= 0 && x.hi.Cmp(reference) >= 0,
				"Exp(%d, %d) does not hold e^ε", nano, prec)
			check.That(t, x.relativeWidth().Cmp(powerOfTwo(-int(prec))) < 0,
				"Exp(%d, %d) has the relative width %.3g", nano, prec, x.relativeWidth())
			check.That(t, x.lo.Cmp(outer.lo) >= 0 && x.hi.Cmp(outer.hi) <= 0,
				"Exp(%d, %d) is not inside the interval of half its precision", nano, prec)
			outer = x
		}
	}
}

// At a low precision the series has few terms, and their rounding may be smaller than the terms
// that are left out. For the three listed ε it is smaller.
func TestExp_LowPrecision_IncludesTruncationError(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	check := func(nano int64, prec uint) {
		reference := taylor(nano, prec+guard+128)
		x := Exp(nano, prec)
		check.That(t, x.lo.Cmp(reference) <= 0 && x.hi.Cmp(reference) >= 0, "Exp(%d, %d) does not hold e^ε", nano, prec)
	}
	check(102, 27)
	check(168, 26)
	check(40, 30)
	for range 5000 {
		check(1+random.Int64N(1_000_000_000_000)>>random.IntN(40), uint(random.IntN(64)))
	}
}

// Each operation on random rationals, rounded outward to random precisions, must enclose the exact
// rational result.
func TestInterval_Operations_EncloseTheExactResult(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		a, b := randomRat(random), randomRat(random)
		if a.Cmp(b) < 0 {
			a, b = b, a
		}
		x, y := outward(a, random), outward(b, random)
		for _, op := range []struct {
			name  string
			got   Interval
			exact *big.Rat
		}{
			{"+", x.Add(y), new(big.Rat).Add(a, b)},
			{"-", x.Sub(y), new(big.Rat).Sub(a, b)},
			{"·", x.Mul(y), new(big.Rat).Mul(a, b)},
			{"/", x.Quo(y), new(big.Rat).Quo(a, b)},
		} {
			if lo, hi := rat(op.got.lo), rat(op.got.hi); lo.Cmp(op.exact) > 0 || hi.Cmp(op.exact) < 0 || lo.Sign() < 0 {
				t.Fatalf("%v %s %v = %v is not in [%v, %v]", a, op.name, b, op.exact, lo, hi)
			}
			if want := max(x.lo.Prec(), y.lo.Prec()); op.got.lo.Prec() != want || op.got.hi.Prec() != want {
				t.Fatalf("%s at precisions %d and %d has precision %d", op.name, x.lo.Prec(), y.lo.Prec(), op.got.lo.Prec())
			}
			// An enclosure may not be bought with width: three roundings of the coarser operand.
			coarse := min(x.lo.Prec(), y.lo.Prec())
			check.Need(t, op.name == "-" || op.got.relativeWidth().Cmp(powerOfTwo(3-int(coarse))) <= 0,
				"%v %s %v has the relative width %.3g at precision %d", a, op.name, b, op.got.relativeWidth(), coarse)
		}
	}
}

func TestIntervalPow_SmallExponents_EnclosesTheExactPower(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	for range 300 {
		base := randomRat(random)
		x, exact := outward(base, random), big.NewRat(1, 1)
		for n := range uint64(20) {
			power := x.Pow(n)
			check.Need(t, rat(power.lo).Cmp(exact) <= 0 && rat(power.hi).Cmp(exact) >= 0,
				"%v to the power of %d is not in [%v, %v]", base, n, power.lo, power.hi)
			exact.Mul(exact, base)
		}
	}
}

// The n-th power of e^ε is e^(nε).
func TestIntervalPow_LargeExponents_EnclosesNarrowly(t *testing.T) {
	for _, n := range []uint64{0, 1, 2, 3, 1 << 16, 1_000_000_000, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		const prec = 512
		power, want := Exp(1, prec).Pow(n), taylor(int64(n), prec+256)
		check.That(t, power.lo.Cmp(want) <= 0 && power.hi.Cmp(want) >= 0,
			"e to the power of %d·10⁻⁹ is not in [%.20g, %.20g]", n, power.lo, power.hi)
		if power.relativeWidth().Cmp(powerOfTwo(32-prec)) > 0 { // each step doubles the relative width
			t.Errorf("e to the power of %d·10⁻⁹ has the relative width %.3g", n, power.relativeWidth())
		}
	}
}

// The result of subtracting a number near or far below the last bit is that of package big alone.
func TestIntervalSub_MuchSmallerOperand_RoundsAsBigFloat(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 16))
	for range 5000 {
		x, y := outward(randomRat(random), random), outward(randomRat(random), random)
		if random.IntN(4) == 0 {
			x = Int(1) // below a power of two the floats are twice as dense
		}
		z := result(x, y)
		distance := x.lo.MantExp(nil) - y.lo.MantExp(nil) - int(z.lo.Prec()) - random.IntN(9) + 2
		y.lo.SetMantExp(y.lo, distance)
		y.hi.SetMantExp(y.hi, distance)
		z.lo.Sub(x.lo, y.hi)
		z.hi.Sub(x.hi, y.lo)
		if got := x.Sub(y); got.lo.Cmp(z.lo) != 0 || got.hi.Cmp(z.hi) != 0 {
			t.Fatalf("[%v, %v] − [%v, %v] = [%v, %v], want [%v, %v]", x.lo, x.hi, y.lo, y.hi, got.lo, got.hi, z.lo, z.hi)
		}
	}
	least := new(big.Float).SetMantExp(big.NewFloat(1), big.MinExp)
	if got := Int(1).Sub(Interval{least, least}); got.lo.Cmp(big.NewFloat(1)) >= 0 || got.hi.Cmp(big.NewFloat(1)) != 0 {
		t.Errorf("1 minus the least float is [%v, %v]", got.lo, got.hi)
	}
	// An upper end of +Inf must not be taken for a small number.
	got := Int(1).Mul(Exp(1_000_000_000_000, 64)).Sub(Interval{new(big.Float), new(big.Float).SetInf(false)})
	check.That(t, got.lo.Sign() == 0, "e^1000 minus an unbounded number is at least %v", got.lo)
}

func TestIntervalSub_EqualOperands_LowerEndIsZero(t *testing.T) {
	third := Int(1).Quo(Int(3))
	zero := third.Sub(third)
	check.That(t, zero.lo.Sign() == 0 && zero.hi.Sign() > 0,
		"1/3 − 1/3 = [%v, %v], want 0 at the lower end and above it at the upper", zero.lo, zero.hi)
}

func TestInt_IsExact(t *testing.T) {
	for _, n := range []int64{0, 1, 1<<53 + 1, 1<<63 - 1} {
		lo, hi := Int(n).Bounds()
		low, _ := lo.Int64()
		check.That(t, low == n && lo.Cmp(hi) == 0, "Int(%d) = [%v, %v]", n, lo, hi)
	}
}

func TestIntervalFloat64_IsTheMiddle(t *testing.T) {
	got := (Interval{big.NewFloat(1), big.NewFloat(2)}).Float64()
	check.That(t, got == 1.5, "the middle of [1, 2] is %v", got)
	check.Equal(t, Exp(1_000_000_000, 128).Float64(), 2.718281828459045, "e")
}

func TestIntervalBounds_AreCopies(t *testing.T) {
	x := Int(7)
	lo, hi := x.Bounds()
	lo.SetInt64(1)
	hi.SetInt64(1)
	check.That(t, x.Float64() == 7, "writing to the bounds of 7 made it %v", x.Float64())
}

func parse(t *testing.T, digits string) *big.Float {
	t.Helper()
	x, ok := new(big.Float).SetPrec(400).SetString(digits)
	check.Need(t, ok, "%q is not a number", digits)
	return x
}

// randomRat returns a rational above 0 of random size, from 2⁻⁶³ to 2⁶³.
func randomRat(random *rand.Rand) *big.Rat {
	part := func() int64 { return 1 + random.Int64()>>random.IntN(63) }
	return big.NewRat(part(), part())
}

// outward returns the narrowest interval of a random precision that holds r.
func outward(r *big.Rat, random *rand.Rand) Interval {
	prec := 8 + uint(random.IntN(200))
	rounded := func(mode big.RoundingMode) *big.Float {
		return new(big.Float).SetPrec(prec).SetMode(mode).SetRat(r)
	}
	return Interval{rounded(big.ToNegativeInf), rounded(big.ToPositiveInf)}
}

func rat(x *big.Float) *big.Rat {
	r, _ := x.Rat(nil)
	return r
}

// The n-th power of e^x is e^(nx), up to e^1000. A number below 1 may have a power that is below
// any float.
func TestIntervalPow_ExtremeResults_AreEnclosed(t *testing.T) {
	want := taylor(1_000_000_000_000, 1024)
	if power := Exp(1, 512).Pow(1_000_000_000_000); power.lo.Cmp(want) > 0 || power.hi.Cmp(want) < 0 {
		t.Errorf("e^1000 is not in [%.20g, %.20g]", power.lo, power.hi)
	}
	const most = 1<<64 - 1
	if power := Int(1).Pow(most); power.lo.Cmp(power.hi) != 0 || power.Float64() != 1 {
		t.Errorf("1 to the largest power is in [%v, %v]", power.lo, power.hi)
	}
	if power := fraction(1, 2, 64).Pow(most); power.lo.Sign() < 0 || power.hi.Cmp(powerOfTwo(-1<<20)) > 0 {
		t.Errorf("1/2 to the largest power is in [%v, %v]", power.lo, power.hi)
	}
}

func TestIntervalOrLess_StartsAtZero(t *testing.T) {
	x := Exp(1_000_000_000, 128)
	less := x.OrLess()
	check.That(t, less.lo.Sign() == 0 && less.hi.Cmp(x.hi) == 0 && less.lo.Prec() == x.hi.Prec(),
		"e or less is [%v, %v]", less.lo, less.hi)
	check.That(t, x.lo.Sign() != 0, "OrLess wrote to its interval")
}

// Random rationals are rounded outward, and rationals that are floats stay exact.
func TestRational_EnclosesNarrowly(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	for range 2000 {
		r, prec := randomRat(random), 2+uint(random.IntN(300))
		x := Rational(r, prec)
		check.Need(t, rat(x.lo).Cmp(r) <= 0 && rat(x.hi).Cmp(r) >= 0, "%v is not in [%v, %v]", r, x.lo, x.hi)
		check.Need(t, x.relativeWidth().Cmp(powerOfTwo(-int(prec))) < 0,
			"%v at precision %d has the relative width %.3g", r, prec, x.relativeWidth())
	}
	for _, r := range []*big.Rat{new(big.Rat), big.NewRat(1, 1), big.NewRat(5, 8)} {
		x := Rational(r, 16)
		check.That(t, rat(x.lo).Cmp(r) == 0 && rat(x.hi).Cmp(r) == 0, "%v became [%v, %v]", r, x.lo, x.hi)
	}
}
