package exact

// widest defines the range of [DrawInteger]: the integers from 1 − widest to widest.
const widest = 1 << 62

// DrawInteger returns a random integer with the given distribution function: the integer is at most
// u with probability cumulative(u), which rises from 0 to 1 with u. It is the smallest u for which
// a uniform real number U in [0,1) is below cumulative(u), and a binary search finds it.
//
// cumulative returns an enclosure of the probability, which is smaller for a higher prec, as for
// [NewMixture]. The probability may depend on the true value, because the number of calls of
// cumulative does not depend on the result.
//
// The result is above −2⁶² and at most 2⁶². Other integers are not mapped to this range. If the law
// requires one, DrawInteger reads bits without end. To detect this, it would first need about as
// many bits as the logarithm of the probability. So a law must give these integers a probability
// that is in effect 0.
//
// guess may be nil. It returns the most likely integer if word is the first 64 bits of U, in
// floating point. It decides nothing: if two calls of cumulative prove that the guess is correct,
// the other calls are saved. It must be wrong so rarely that the running time reveals nothing.
func DrawInteger(source *Bits, guess func(word uint64) int64, cumulative func(u int64, prec uint) Interval) int64 {
	word := source.Uint64()
	r := newLazyReal(source, word, 1)
	// below(u) is all ones if U < cumulative(u), and zero otherwise.
	below := func(u int64) uint64 { return r.below(func(prec uint) Interval { return cumulative(u, prec) }) }
	if guess != nil {
		u := min(max(guess(word), 1-widest), widest)
		if below(u-1)|^below(u) == 0 { // cumulative(u−1) ≤ U < cumulative(u)
			return u
		}
	}
	// If the integer is outside of the range, more bits do not change that, and this loop never
	// ends.
	for below(-widest) != 0 || below(widest) == 0 {
		r.extend()
	}
	low := int64(-widest) // the integer is above low
	for step := int64(widest); step > 0; step >>= 1 {
		isBelow := int64(below(low + step)) // all ones, so that no step is taken, or zero
		low += step &^ isBelow
	}
	return low + 1
}
