package exact

import "math/big"

// Interval is an enclosure lo ≤ x ≤ hi of a real number x ≥ 0. Every operation rounds lo down and
// hi up, so that the result encloses the result of the operation on the enclosed numbers. Its
// precision is that of the more precise operand.
type Interval struct{ lo, hi *big.Float }

// Int returns the exact enclosure of the integer n ≥ 0.
func Int(n int64) Interval {
	x := new(big.Float).SetInt64(n)
	return Interval{x, x}
}

// result returns an interval that stores the result of an operation on x and y: it has the larger
// of their precisions, and rounds outwards.
func result(x, y Interval) Interval { return outwards(max(x.lo.Prec(), y.lo.Prec())) }

// outwards returns the interval from 0 to 0 with a given precision. Every assignment to its ends is
// rounded: lo down and hi up. Both ends are allocated at once, because allocation takes half the
// time of short operations.
func outwards(prec uint) Interval {
	ends := new([2]big.Float)
	return Interval{
		ends[0].SetPrec(prec).SetMode(big.ToNegativeInf),
		ends[1].SetPrec(prec).SetMode(big.ToPositiveInf),
	}
}

// Add returns an enclosure of x + y.
func (x Interval) Add(y Interval) Interval {
	z := result(x, y)
	z.lo.Add(x.lo, y.lo)
	z.hi.Add(x.hi, y.hi)
	return z
}

// Sub returns an enclosure of x − y. The caller ensures that x − y is not negative.
func (x Interval) Sub(y Interval) Interval {
	z := result(x, y)
	if z.lo.Sub(x.lo, near(x.lo, y.hi, z.lo.Prec())).Sign() < 0 {
		z.lo.SetInt64(0)
	}
	z.hi.Sub(x.hi, near(x.hi, y.lo, z.hi.Prec()))
	return z
}

// near returns a number that can replace y ≥ 0 in x − y without changing the result rounded to prec
// bits. prec is at least the precision of x.
//
// The number is y itself, unless x > 0 is so much larger that no bit of y is left in the result.
// Then all tiny numbers above 0 are rounded in the same way. near returns such a number, a power of
// two. Package big would compute all bits from the first of x to the last of y. For a probability y
// near 0, these may be a thousand million bits.
func near(x, y *big.Float, prec uint) *big.Float {
	below := x.MantExp(nil) - int(prec) - 2
	if x.Sign() == 0 || y.Sign() == 0 || y.IsInf() || y.MantExp(nil) > below {
		return y
	}
	return new(big.Float).SetMantExp(big.NewFloat(1), below)
}

// Mul returns an enclosure of x · y.
func (x Interval) Mul(y Interval) Interval {
	z := result(x, y)
	z.lo.Mul(x.lo, y.lo)
	z.hi.Mul(x.hi, y.hi)
	return z
}

// Quo returns an enclosure of x / y. The lower end of y must be above 0.
func (x Interval) Quo(y Interval) Interval {
	z := result(x, y)
	z.lo.Quo(x.lo, y.hi)
	z.hi.Quo(x.hi, y.lo)
	return z
}

// Below returns true if x is certainly below y.
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
	// halved is the number of halvings of the exponent before the power series, and of squarings of
	// the result after it. They make the largest exponent, 1,000, less than 2⁻¹², so that each term
	// of the series adds 12 bits.
	halved = 22
	// guard is more than the precision that is lost in the squarings and the roundings of the
	// series.
	guard = 64
)

// Exp returns an enclosure of e^(nano·10⁻⁹) for 0 ≤ nano ≤ 10¹², with a relative width below
// 2^−prec. It computes e^r for r = nano·10⁻⁹/2²² by the power series, and squares the result 22
// times.
func Exp(nano int64, prec uint) Interval {
	work := prec + guard
	if nano == 0 {
		one := new(big.Float).SetPrec(work).SetInt64(1)
		return Interval{one, one}
	}
	lo, hi := seriesOfExp(nano, work)
	x, spare := outwards(work), outwards(work)
	x.lo.SetMantExp(x.lo.SetInt(lo), -int(work)) // seriesOfExp returns integers in units of 2^−work
	x.hi.SetMantExp(x.hi.SetInt(hi), -int(work))
	for range halved { // alternates between two buffers, so that nothing is allocated
		spare.lo.Mul(x.lo, x.lo)
		spare.hi.Mul(x.hi, x.hi)
		x, spare = spare, x
	}
	return x
}

// seriesOfExp returns an enclosure of e^r with r = nano·10⁻⁹·2⁻²², as integers in units of
// 2^−places. The power series ends at the first term that is 0 in these units. All divisions are
// rounded down. The error of r is less than one unit, and so the error of each term less than two,
// because r < 2⁻¹². The first n terms are summed, of which the last is 0. The sum of the terms
// after it is less than one unit. So 2n+1 units cover the whole error.
func seriesOfExp(nano int64, places uint) (lo, hi *big.Int) {
	r := new(big.Int).Lsh(big.NewInt(nano), places-halved)
	r.Quo(r, big.NewInt(1_000_000_000))
	sum := new(big.Int).Lsh(big.NewInt(1), places)
	term, product, n := new(big.Int).Set(r), new(big.Int), int64(1)
	for term.Sign() > 0 {
		sum.Add(sum, term)
		n++
		product.Mul(term, r)
		product.Rsh(product, places)
		term.Quo(product, big.NewInt(n))
	}
	return sum, new(big.Int).Add(sum, big.NewInt(2*n+1))
}

// Pow returns an enclosure of xⁿ, by a square for each bit of n, from the highest, and a factor x
// if the bit is set. It takes the same steps for every n, because n may depend on the true value.
func (x Interval) Pow(n uint64) Interval {
	power := Interval{new(big.Float).SetPrec(x.lo.Prec()).SetInt64(1), new(big.Float).SetPrec(x.hi.Prec()).SetInt64(1)}
	for bit := 63; bit >= 0; bit-- {
		power = power.Mul(power)
		choices := [2]Interval{power, power.Mul(x)} // both are computed, for any bit
		power = choices[n>>bit&1]
	}
	return power
}

// OrLess returns an enclosure of all numbers from 0 to x.
func (x Interval) OrLess() Interval {
	return Interval{new(big.Float).SetPrec(x.hi.Prec()), x.hi}
}

// Rational returns an enclosure of a rational number x ≥ 0, with a relative width below 2^−prec.
func Rational(x *big.Rat, prec uint) Interval {
	return Interval{
		new(big.Float).SetPrec(prec + 1).SetMode(big.ToNegativeInf).SetRat(x),
		new(big.Float).SetPrec(prec + 1).SetMode(big.ToPositiveInf).SetRat(x),
	}
}
