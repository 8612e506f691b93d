package exact

import "math/big"

// Interval encloses a real number x ≥ 0 by lo ≤ x ≤ hi. Every operation rounds lo down and hi up,
// so that the result encloses the result of the operation on the numbers enclosed. Its precision
// is that of its more precise operand.
type Interval struct{ lo, hi *big.Float }

// Int encloses the integer n ≥ 0, exactly.
func Int(n int64) Interval {
	x := new(big.Float).SetInt64(n)
	return Interval{x, x}
}

func down(x, y Interval) *big.Float { return directed(big.ToNegativeInf, x, y) }
func up(x, y Interval) *big.Float   { return directed(big.ToPositiveInf, x, y) }

func directed(mode big.RoundingMode, x, y Interval) *big.Float {
	return new(big.Float).SetPrec(max(x.lo.Prec(), y.lo.Prec())).SetMode(mode)
}

// Add encloses x + y.
func (x Interval) Add(y Interval) Interval {
	return Interval{down(x, y).Add(x.lo, y.lo), up(x, y).Add(x.hi, y.hi)}
}

// Sub encloses x − y, which the caller knows not to be negative.
func (x Interval) Sub(y Interval) Interval {
	lo := down(x, y).Sub(x.lo, y.hi)
	if lo.Sign() < 0 {
		lo.SetInt64(0)
	}
	return Interval{lo, up(x, y).Sub(x.hi, y.lo)}
}

// Mul encloses x · y.
func (x Interval) Mul(y Interval) Interval {
	return Interval{down(x, y).Mul(x.lo, y.lo), up(x, y).Mul(x.hi, y.hi)}
}

// Quo encloses x / y; the lower end of y must be above 0.
func (x Interval) Quo(y Interval) Interval {
	return Interval{down(x, y).Quo(x.lo, y.hi), up(x, y).Quo(x.hi, y.lo)}
}

// Below tells whether x is certainly below y.
func (x Interval) Below(y Interval) bool { return x.hi.Cmp(y.lo) < 0 }

// Float64 returns the float64 nearest to the middle of the interval.
func (x Interval) Float64() float64 {
	mid := new(big.Float).Add(x.lo, x.hi)
	f, _ := mid.Quo(mid, big.NewFloat(2)).Float64()
	return f
}

// Bounds returns copies of the two ends.
func (x Interval) Bounds() (lo, hi *big.Float) {
	return new(big.Float).Copy(x.lo), new(big.Float).Copy(x.hi)
}

const (
	// halved is the number of times the exponent is halved before the power series and the result
	// squared after it: 1,000 becomes less than 2⁻¹², so that each term of the series adds 12 bits.
	halved = 22
	// guard is the precision that the squarings and the roundings of the series cost, and to spare.
	guard = 64
)

// Exp encloses e^(nano·10⁻⁹) for 0 ≤ nano ≤ 10¹², with a relative width below 2^−prec.
// The power series is cut where its tail, at most twice the first term left out, is below the
// working precision; the tail is added to the upper end.
func Exp(nano int64, prec uint) Interval {
	work := prec + guard
	point := func(n int64) Interval {
		x := new(big.Float).SetPrec(work).SetInt64(n)
		return Interval{x, x}
	}
	if nano == 0 {
		return point(1)
	}
	r := point(nano).Quo(point(1_000_000_000 << halved))
	sum, term := point(1), r
	for n := int64(2); term.hi.MantExp(nil) > -int(work); n++ {
		sum = sum.Add(term)
		term = term.Mul(r).Quo(Int(n))
	}
	tail := term.Mul(Int(2))
	sum.hi = up(sum, tail).Add(sum.hi, tail.hi)
	for range halved {
		sum = sum.Mul(sum)
	}
	return sum
}

// Pow encloses xⁿ. It takes the same steps for every n, because n may depend on the truth.
func (x Interval) Pow(n uint64) Interval {
	power := Interval{new(big.Float).SetPrec(x.lo.Prec()).SetInt64(1), new(big.Float).SetPrec(x.hi.Prec()).SetInt64(1)}
	for bit := 63; bit >= 0; bit-- {
		power = power.Mul(power)
		choices := [2]Interval{power, power.Mul(x)}
		power = choices[n>>bit&1]
	}
	return power
}

// OrLess encloses all numbers from 0 to x.
func (x Interval) OrLess() Interval {
	return Interval{new(big.Float).SetPrec(x.hi.Prec()), x.hi}
}

// Rational encloses a rational number x ≥ 0, with a relative width below 2^−prec.
func Rational(x *big.Rat, prec uint) Interval {
	return Interval{
		new(big.Float).SetPrec(prec + 1).SetMode(big.ToNegativeInf).SetRat(x),
		new(big.Float).SetPrec(prec + 1).SetMode(big.ToPositiveInf).SetRat(x),
	}
}
