package exact

// widest is the range of DrawInteger: the integers from 1 − widest to widest.
const widest = 1 << 62

// DrawInteger returns an integer that is at most u with probability cumulative(u), which rises from
// 0 to 1 with u. cumulative encloses it more tightly the higher the precision, as for [NewMixture],
// and may depend on the truth: it is asked for as many u whichever integer comes out.
//
// The integers that can be returned are those above −2⁶² and up to 2⁶². No other is made one of
// them: if the law calls for it, DrawInteger reads bits for ever. To learn that, it would first
// need about as many bits as the logarithm of the probability says; so a law must make it so
// unlikely that it means never.
//
// guess, unless nil, says which integer it most likely is by the first 64 bits, in floats. It
// decides nothing: if it is the one, which two questions prove, it saves the others. It must be
// wrong so seldom that the time tells nothing.
func DrawInteger(source *Bits, guess func(word uint64) int64, cumulative func(u int64, prec uint) Interval) int64 {
	word := source.Uint64()
	x := newLazyReal(source, word, 1)
	below := func(u int64) uint64 { return x.below(func(prec uint) Interval { return cumulative(u, prec) }) }
	if guess != nil {
		u := min(max(guess(word), 1-widest), widest)
		if below(u-1)|^below(u) == 0 {
			return u
		}
	}
	for below(-widest) != 0 || below(widest) == 0 {
		x.extend()
	}
	low := int64(-widest) // the integer is above low
	for step := int64(widest); step > 0; step >>= 1 {
		isBelow := int64(below(low + step))
		low += step &^ isBelow
	}
	return low + 1
}
