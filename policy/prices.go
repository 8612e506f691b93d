package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/sluicedp/sluice/privacy"
)

// maxAmount is the largest amount of money, in minor units. The total price of a million objects
// still fits in 64 bits.
const maxAmount = 1_000_000_000_000

// Price is a point of a price curve: the price of holding a level of one object's chain, in minor
// units of the ledger's currency, 0 to 10¹².
type Price struct {
	Epsilon privacy.Epsilon // the level, above 0
	Amount  int64           // in minor units
}

// readPrice reads a point of a price curve, which is a list of the level and the amount.
func readPrice(raw []byte) (p Price, err error) {
	p.Epsilon, p.Amount, err = readPair(raw, readEpsilon, readAmount)
	return p, err
}

// writePrice appends a point of a price curve as JSON.
func writePrice(to []byte, p Price) []byte {
	to = appendString(append(to, '['), p.Epsilon)
	return append(appendInteger(append(to, ','), p.Amount), ']')
}

// curve is a list of points. The point (0,0) is implied, and left out, if there is no other point
// at ε = 0.
type curve []Price

// newCurve returns a curve of the points, which are copied. It leaves out a first point (0,0) that
// is implied, so that equal curves have equal points.
func newCurve(points []Price) curve {
	if len(points) > 0 && points[0] == (Price{}) && (len(points) == 1 || !points[1].Epsilon.IsZero()) {
		points = points[1:]
	}
	return slices.Clone(points)
}

// check returns an error unless there is a point, the ε rise strictly and the amounts are in range
// and do not fall.
func (c curve) check() error {
	if len(c) == 0 {
		return errors.New("the price curve is empty")
	}
	var before Price
	for i, p := range c {
		switch {
		case p.Amount < 0 || p.Amount > maxAmount:
			return fmt.Errorf("price %d: the amount is %d; 0 to %d is allowed", i+1, p.Amount, int64(maxAmount))
		case i > 0 && !before.Epsilon.Less(p.Epsilon):
			return fmt.Errorf("price %d: ε does not rise above %v", i+1, before.Epsilon)
		case p.Amount < before.Amount:
			return fmt.Errorf("the price falls from %d at ε = %v to %d at ε = %v: a buyer who wants the former would "+
				"buy the latter", before.Amount, before.Epsilon, p.Amount, p.Epsilon)
		}
		before = p
	}
	return nil
}

// at returns the price at a level in nano-nats before it is rounded up. The price is on the
// straight line between the points around the level. Above the last point it is the last amount.
func (c curve) at(level int64) fraction {
	i, found := slices.BinarySearchFunc(c, level, func(p Price, level int64) int {
		return cmp.Compare(p.Epsilon.Nano(), level)
	})
	switch {
	case found:
		return wholeAmount(c[i].Amount)
	case i == len(c):
		return wholeAmount(c[i-1].Amount)
	}
	before, next := c.before(i), c[i]
	// The price is before + (next−before)·(level−before)/width. The code adds the numerators over
	// the common denominator width, in 128 bits.
	width := uint64(next.Epsilon.Nano() - before.Epsilon.Nano())
	hi, lo := bits.Mul64(uint64(next.Amount-before.Amount), uint64(level-before.Epsilon.Nano()))
	baseHi, baseLo := bits.Mul64(uint64(before.Amount), width)
	lo, carry := bits.Add64(lo, baseLo, 0)
	return fraction{hi + baseHi + carry, lo, width}
}

// before returns the point before point i, which is (0,0) for the first point.
func (c curve) before(i int) Price {
	if i == 0 {
		return Price{}
	}
	return c[i-1]
}

// fraction is (hi·2⁶⁴+lo)/den. Its numerator is below 2⁸¹ and its denominator at most 10¹².
type fraction struct{ hi, lo, den uint64 }

// wholeAmount returns an amount as a fraction.
func wholeAmount(amount int64) fraction { return fraction{0, uint64(amount), 1} }

// less returns true if f is below g. It compares the products of each numerator and the other
// denominator.
func (f fraction) less(g fraction) bool {
	times := func(f fraction, n uint64) (hi, lo uint64) {
		carry, lo := bits.Mul64(f.lo, n)
		return f.hi*n + carry, lo // below 2⁶⁴: the product is below 2¹²¹
	}
	hi, lo := times(f, g.den)
	otherHi, otherLo := times(g, f.den)
	return hi < otherHi || hi == otherHi && lo < otherLo
}

// roundedUp returns the smallest integer that is not below the fraction. The fraction is an amount,
// so the result fits an int64.
func (f fraction) roundedUp() int64 {
	whole, rest := bits.Div64(f.hi, f.lo, f.den)
	if rest > 0 {
		whole++
	}
	return int64(whole)
}

// float64 returns the fraction as a float64, for errors.
func (f fraction) float64() float64 {
	return (float64(f.hi)*(1<<64) + float64(f.lo)) / float64(f.den)
}
