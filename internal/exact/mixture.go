package exact

import (
	"math/big"
	"math/bits"
)

// Weights are the probabilities of a [Mixture], at some precision.
type Weights struct {
	First, Either Interval // if the two values differ: of drawing the first value, and of drawing the first or second
	Same          Interval // if the two values are equal: of drawing that value
}

// Mixture is the law "the first value, or the second value, or else one of all m values uniformly".
// It has one set of probabilities for two different values and another for equal ones. Every draw
// of a chain of randomized responses has this form.
//
// One word is enough for a draw. Let W be a uniform real number in [0,1). The integer part of mW is
// a uniform value, its fraction is a uniform real number U, and the two are independent. For each
// value k, W is in [k/m, (k+1)/m) with probability 1/m, and uniform there, so U = mW−k is uniform
// on [0,1). Both can therefore be computed exactly from one W. The draw is the first value if U is
// below the threshold First of the [Weights], else the second value if U is below Either, and else
// the uniform value.
//
// But 64 bits of W leave a cell of U that is m·2⁻⁶⁴ wide. Around each of three thresholds, and
// where one value ends, that many words and a few more are undecided: at most 7m+24 of 2⁶⁴. For up
// to 2¹¹ values this is below 2⁻⁵⁰ of all draws. For 2²⁰ values, the most of a question, it is
// below 2⁻⁴¹.
type Mixture struct {
	m                   uint64
	first, either, same threshold
	weights             func(prec uint) Weights
}

// threshold is a real number t in [0,1] for comparison with a cell of U, an interval in which U is
// known to be. All numbers are in units of 2⁻⁶⁴. U is below t if the cell begins below lo, and not
// below t if the cell begins above hi. Otherwise it is undecided.
type threshold struct{ lo, hi uint64 }

// NewMixture returns the law on the values 0 … m−1, 1 ≤ m ≤ 2³². weights must enclose the same real
// numbers in [0,1] at every precision, in smaller intervals for a higher precision, with First ≤
// Either.
func NewMixture(m uint32, weights func(prec uint) Weights) *Mixture {
	mix := &Mixture{m: uint64(m), weights: weights}
	for prec := uint(128); ; prec *= 2 {
		w := weights(prec)
		first, either, same := newThreshold(w.First), newThreshold(w.Either), newThreshold(w.Same)
		if first.tight() && either.tight() && same.tight() {
			mix.first, mix.either, mix.same = first.widened(mix.m), either.widened(mix.m), same.widened(mix.m)
			return mix
		}
	}
}

// newThreshold returns the threshold t for cells that are 2⁻⁶⁴ wide.
func newThreshold(t Interval) threshold {
	return threshold{scaled(t.lo), scaled(t.hi)}
}

// widened converts a threshold for cells of 2⁻⁶⁴ to one for cells of width·2⁻⁶⁴. U is then below t
// only if the last part of the cell, width−1 units after its start, starts below lo.
func (t threshold) widened(width uint64) threshold {
	return threshold{t.lo - min(t.lo, width-1), t.hi} // not below 0; with 0, no cell is below
}

// scaled returns ⌊x·2⁶⁴⌋, at most 2⁶⁴−1. Rounding down is safe for the upper end of an interval
// too, because a threshold treats its own last cell as undecided.
func scaled(x *big.Float) uint64 {
	u, _ := new(big.Float).SetMantExp(x, 64).Uint64()
	return u
}

// tight returns true if only a few of the 2⁶⁴ cells are undecided. Otherwise the enclosure of the
// threshold needs a higher precision.
func (t threshold) tight() bool { return t.hi-t.lo <= 8 }

// compare compares U with t for the cell that begins at u. below is all ones if U is below t, and
// zero otherwise. open is all ones if the cell does not decide it, and zero otherwise.
func (t threshold) compare(u uint64) (below, open uint64) {
	_, isBelow := bits.Sub64(u, t.lo, 0)
	_, isAbove := bits.Sub64(t.hi, u, 0)
	return -isBelow, ^(-isBelow | -isAbove)
}

// Draw returns first, second or a uniform value from 0 to m−1, by the law. Its running time depends
// only on the random bits: it computes all results and selects one without a branch.
func (mix *Mixture) Draw(source *Bits, first, second uint32) uint32 {
	word := source.Uint64()
	other, u := bits.Mul64(word, mix.m)    // the uniform value, and the start of the cell of U
	_, cut := bits.Add64(u, mix.m-1, 0)    // not 0 if the cell of mW reaches into the next integer
	isFirst, open1 := mix.first.compare(u) // all ones if U is below the threshold, and zero otherwise; the next two too
	isEither, open2 := mix.either.compare(u)
	isSame, open3 := mix.same.compare(u)
	if cut|open1|open2|open3 != 0 {
		isFirst, isEither, isSame, other = mix.refine(word, source)
	}
	equal := EqualMask(uint64(first), uint64(second))
	isFirst = choose(equal, isSame, isFirst)
	isEither = choose(equal, isSame, isEither)
	value := choose(isEither, uint64(second), other)
	return uint32(choose(isFirst, uint64(first), value))
}

// refine does the same as the 64-bit comparisons of [Mixture.Draw], but reveals as many bits after
// word as needed. The first three results are all ones if U is below the threshold First, Either or
// Same, and zero otherwise. value is the uniform value that is in the same bits.
func (mix *Mixture) refine(word uint64, source *Bits) (isFirst, isEither, isSame, value uint64) {
	r := newLazyReal(source, word, mix.m)
	value = r.split()
	isFirst = r.below(func(prec uint) Interval { return mix.weights(prec).First })
	isEither = r.below(func(prec uint) Interval { return mix.weights(prec).Either })
	isSame = r.below(func(prec uint) Interval { return mix.weights(prec).Same })
	return isFirst, isEither, isSame, value
}

// lazyReal is a real number of which only the first bits are known: width times a uniform real
// number in [0,1) with `length` known bits. So it is uniform in the cell from prefix·2^−length to
// (prefix+width)·2^−length. [lazyReal.split] subtracts its integer part.
type lazyReal struct {
	source        *Bits
	prefix, width *big.Int
	length        int
}

// newLazyReal returns width times a uniform real number in [0,1) that begins with the 64 bits of
// word.
func newLazyReal(source *Bits, word, width uint64) *lazyReal {
	r := &lazyReal{source: source, prefix: new(big.Int), width: new(big.Int).SetUint64(width)}
	r.reveal(word)
	return r
}

// split returns the integer part of the number and subtracts it, so that the fraction remains. It
// reveals bits until all numbers in the cell have the same integer part. Another 64 bits are not
// enough with probability at most width·2⁻⁶⁴.
func (r *lazyReal) split() uint64 {
	for {
		last := new(big.Int).Add(r.prefix, r.width) // becomes the integer part at the end of the cell
		last.Sub(last, big.NewInt(1)).Rsh(last, uint(r.length))
		whole := new(big.Int).Rsh(r.prefix, uint(r.length)) // the integer part at its start
		if whole.Cmp(last) == 0 {
			r.prefix.Sub(r.prefix, last.Lsh(whole, uint(r.length)))
			return whole.Uint64()
		}
		r.extend()
	}
}

// below returns all ones if the number is below t, and zero otherwise. t returns an enclosure at a
// given precision. below reveals bits until the cell of the known bits is on one side of t. Another
// 64 bits are enough with probability 1 − width·2⁻⁶⁴ or more.
func (r *lazyReal) below(t func(prec uint) Interval) uint64 {
	for {
		bound := t(uint(2*r.length + guard))
		if r.cell(1).Cmp(bound.lo) <= 0 {
			return ^uint64(0)
		}
		if r.cell(0).Cmp(bound.hi) >= 0 {
			return 0
		}
		r.extend()
	}
}

// extend reveals 64 more bits.
func (r *lazyReal) extend() { r.reveal(r.source.Uint64()) }

// reveal appends 64 known bits: it narrows the cell to the one of its 2⁶⁴ equal parts that has the
// number word.
func (r *lazyReal) reveal(word uint64) {
	part := new(big.Int).SetUint64(word)
	r.prefix.Lsh(r.prefix, 64)
	r.prefix.Add(r.prefix, part.Mul(part, r.width))
	r.length += 64
}

// cell returns the lower (end 0) or upper (end 1) end of the known cell, exactly.
func (r *lazyReal) cell(end int64) *big.Float {
	n := new(big.Int).Mul(r.width, big.NewInt(end))
	n.Add(n, r.prefix)
	f := new(big.Float).SetPrec(uint(n.BitLen()) + 1).SetInt(n)
	return f.SetMantExp(f, -r.length)
}

// EqualMask returns all ones if a == b, and zero otherwise, without a branch.
func EqualMask(a, b uint64) uint64 {
	_, same := bits.Sub64(a^b, 1, 0) // borrows only if a^b is 0
	return -same
}

// choose returns a if mask is all ones and b if it is zero.
func choose(mask, a, b uint64) uint64 { return b ^ mask&(a^b) }
