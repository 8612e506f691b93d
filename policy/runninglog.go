package policy

import "math/bits"

// fixed128 is an unsigned number of 128 bits. Each use defines its unit.
type fixed128 struct{ hi, lo uint64 }

// plus returns x+y, which must be below 2¹²⁸ units.
func (x fixed128) plus(y fixed128) fixed128 {
	lo, carry := bits.Add64(x.lo, y.lo, 0)
	hi, _ := bits.Add64(x.hi, y.hi, carry)
	return fixed128{hi, lo}
}

// times returns x·y/2¹²⁸: the product of two fractions in units of 2⁻¹²⁸. The result is at most 3
// units too small.
func (x fixed128) times(y fixed128) fixed128 {
	hi, lo := bits.Mul64(x.hi, y.hi)
	one, _ := bits.Mul64(x.hi, y.lo)
	other, _ := bits.Mul64(x.lo, y.hi)
	return fixed128{hi, lo}.plus(fixed128{0, one}).plus(fixed128{0, other})
}

// over returns x/n, rounded down.
func (x fixed128) over(n uint64) fixed128 {
	hi := x.hi / n
	lo, _ := bits.Div64(x.hi%n, x.lo, n)
	return fixed128{hi, lo}
}

// runningLog is a logarithm of a product, to which further factors are added one by one. A line
// needs up to 1,024 logarithms of numbers that are close to each other. A few terms of a series
// give each next one, ten times faster than computing the logarithm from the beginning.
type runningLog struct {
	half      fixed128 // half the natural logarithm, in units of 2⁻¹²⁴, at most 2⁻¹⁰³ too small for each factor
	added     uint64   // how many factors there are
	isInexact bool     // whether a factor was too large for the series
}

// factorError bounds the error of each factor, in units of 2⁻¹²² of the binary logarithm. It covers
// 2⁻¹⁰³, multiplied by four, plus roundings.
const factorError = 1 << 22

// add multiplies the number by a/b, for b < a < 2⁵² and a ≤ 2b. For a larger a/b, it sets
// isInexact, and [runningLog.times] returns false from then on.
//
// With w = (a−b)/(a+b), half the logarithm of a/b is w + w³/3 + w⁵/5 + …, and w² is at most 1/9.
// Numbers are in units of 2⁻¹²⁸. There are at most 34 terms. The roundings and the terms that are
// left out sum to less than 2⁻¹⁰³.
func (l *runningLog) add(a, b uint64) {
	l.added++
	if a > 2*b {
		l.isInexact = true
		return
	}
	hi, rest := bits.Div64(a-b, 0, a+b) // w, by long division in two steps
	lo, _ := bits.Div64(rest, 0, a+b)
	w := fixed128{hi, lo}
	square, sum, power := w.times(w), w, w
	for k := uint64(3); ; k += 2 {
		power = power.times(square)
		if power.hi == 0 && power.lo < 1<<24 {
			break
		}
		sum = sum.plus(power.over(k))
	}
	l.half = l.half.plus(fixed128{sum.hi >> 4, sum.hi<<60 | sum.lo>>4}) // from units of 2⁻¹²⁸ to 2⁻¹²⁴
}

// times returns ⌈h·log₂ of the number⌉ for h < 2⁶³ and a number below 2⁴⁰. It returns false if 128
// bits are not enough to decide, or if the result is 2⁶³ or more.
func (l *runningLog) times(h uint64) (ceil uint64, ok bool) {
	twoByLn2 := fixed128{0xb8aa3b295c17f0bb, 0xbe87fed0691d3e88} // 2/ln 2, in units of 2⁻¹²⁶
	log := l.half.times(twoByLn2)                                // in units of 2⁻¹²²
	// floor returns ⌊h·log⌋, and false if it is 2⁶³ or more. The product has the unit 2⁻⁵⁸ after
	// its lowest 64 bits are dropped.
	floor := func(log fixed128) (uint64, bool) {
		carry, _ := bits.Mul64(h, log.lo)
		hi, lo := bits.Mul64(h, log.hi)
		lo, more := bits.Add64(lo, carry, 0)
		hi += more
		return hi<<6 | lo>>58, hi>>57 == 0
	}
	lowest, fits := floor(log)
	highest, alsoFits := floor(log.plus(fixed128{0, (l.added + 1) * factorError}))
	// The product is irrational, so the next integer is one above its floor.
	return lowest + 1, !l.isInexact && fits && alsoFits && lowest == highest
}
