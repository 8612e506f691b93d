package exact

import (
	"math/big"
	"math/bits"
)

// Weights are the probabilities that make a [Mixture], at some precision.
type Weights struct {
	First, Either Interval // when the two values differ: the first; the first or the second
	Same          Interval // when the two values are one: that value
}

// Mixture is the law "the first value, or the second value, or else one of all m values uniformly"
// with one set of probabilities for two different values and another for equal ones. Every draw of
// a chain of randomized responses has this form.
type Mixture struct {
	m                   uint64
	first, either, same threshold
	weights             func(prec uint) Weights
}

// threshold is a real number t in [0,1] as 64 bits of U see it: U is below t if its first 64 bits
// are below lo, not below t if they are above hi, and undecided between.
type threshold struct{ lo, hi uint64 }

// NewMixture returns the law on the values 0 … m−1, 1 ≤ m ≤ 2³². weights must enclose the same
// real numbers in [0,1] at every precision, more tightly the higher it is, with First ≤ Either.
func NewMixture(m uint32, weights func(prec uint) Weights) *Mixture {
	mix := &Mixture{m: uint64(m), weights: weights}
	for prec := uint(128); ; prec *= 2 {
		w := weights(prec)
		mix.first, mix.either, mix.same = newThreshold(w.First), newThreshold(w.Either), newThreshold(w.Same)
		if mix.first.tight() && mix.either.tight() && mix.same.tight() {
			return mix
		}
	}
}

func newThreshold(t Interval) threshold {
	return threshold{scaled(t.lo), scaled(t.hi)}
}

// scaled returns ⌊x·2⁶⁴⌋, at most 2⁶⁴−1. For the upper end of an interval the rounding down is on the
// safe side, because a threshold calls its own last cell undecided.
func scaled(x *big.Float) uint64 {
	u, _ := new(big.Float).SetMantExp(x, 64).Uint64()
	return u
}

// tight tells whether at most a few of the 2⁶⁴ cells are undecided.
func (t threshold) tight() bool { return t.hi-t.lo <= 8 }

// compare returns all ones for "below" if u is below t, and all ones for "open" if u is too close
// to tell.
func (t threshold) compare(u uint64) (below, open uint64) {
	_, isBelow := bits.Sub64(u, t.lo, 0)
	_, isAbove := bits.Sub64(t.hi, u, 0)
	return -isBelow, ^(-isBelow | -isAbove)
}

// Draw returns first, second or a uniform value, by the law. It takes its time from the random
// bits alone: all outcomes are computed and one is selected without a branch.
func (mix *Mixture) Draw(source *Bits, first, second uint32) uint32 {
	u := source.Uint64()
	other := uniform(source, mix.m)
	isFirst, open1 := mix.first.compare(u)
	isEither, open2 := mix.either.compare(u)
	isSame, open3 := mix.same.compare(u)
	if open1|open2|open3 != 0 {
		isFirst, isEither, isSame = mix.refine(u, source)
	}
	equal := EqualMask(uint64(first), uint64(second))
	isFirst = choose(equal, isSame, isFirst)
	isEither = choose(equal, isSame, isEither)
	value := choose(isEither, uint64(second), other)
	return uint32(choose(isFirst, uint64(first), value))
}

// refine compares U with all three thresholds, revealing more bits of it after the 64 of u.
func (mix *Mixture) refine(u uint64, source *Bits) (isFirst, isEither, isSame uint64) {
	x := &lazyReal{source: source, prefix: new(big.Int).SetUint64(u), length: 64}
	isFirst = x.below(func(prec uint) Interval { return mix.weights(prec).First })
	isEither = x.below(func(prec uint) Interval { return mix.weights(prec).Either })
	isSame = x.below(func(prec uint) Interval { return mix.weights(prec).Same })
	return isFirst, isEither, isSame
}

// lazyReal is a uniform real number in [0,1) of which the first length bits are known.
type lazyReal struct {
	source *Bits
	prefix *big.Int
	length int
}

// below returns all ones if the number is below t and zero if not. It reveals bits until the cell
// of the known ones lies on one side of t. Two lengths of the same cell may both touch t, but
// another 64 bits miss it with probability 1 − 2⁻⁶⁴ or better.
func (x *lazyReal) below(t func(prec uint) Interval) uint64 {
	for {
		bound := t(uint(2*x.length + guard))
		if x.cell(1).Cmp(bound.lo) <= 0 {
			return ^uint64(0)
		}
		if x.cell(0).Cmp(bound.hi) >= 0 {
			return 0
		}
		x.extend()
	}
}

// extend reveals 64 more bits.
func (x *lazyReal) extend() {
	x.prefix.Lsh(x.prefix, 64)
	x.prefix.Or(x.prefix, new(big.Int).SetUint64(x.source.Uint64()))
	x.length += 64
}

// cell returns the lower (end 0) or upper (end 1) end of the known cell, exactly.
func (x *lazyReal) cell(end int64) *big.Float {
	n := new(big.Int).Add(x.prefix, big.NewInt(end))
	f := new(big.Float).SetPrec(uint(x.length) + 1).SetInt(n)
	return f.SetMantExp(f, -x.length)
}

// uniform returns one of 0 … m−1, each with the same probability exactly: of the 2⁶⁴ words the few
// that would favour some values are thrown away (Lemire, "Fast Random Integer Generation in an
// Interval", 2019). Whether a word is thrown away depends on nothing but the word and m.
func uniform(source *Bits, m uint64) uint64 {
	for {
		if value, ok := lemire(source.Uint64(), 64, m); ok {
			return value
		}
	}
}

// lemire maps a word of width bits to a value below m, or refuses it. The width is a parameter so
// that a test can go through all words of a small one.
func lemire(word uint64, width uint, m uint64) (value uint64, ok bool) {
	value, rest := bits.Mul64(word<<(64-width), m)
	if m <<= 64 - width; rest < m { // seldom, and it saves the division
		surplus := -m % m // 2^width mod m, in the top bits
		return value, rest >= surplus
	}
	return value, true
}

// Lemire maps a uniform word to a value below m, each with the same probability exactly, or refuses it: m
// words at most of all 2⁶⁴.
func Lemire(word, m uint64) (value uint64, ok bool) { return lemire(word, 64, m) }

// EqualMask returns all ones if a == b, and zero otherwise, without a branch.
func EqualMask(a, b uint64) uint64 {
	_, same := bits.Sub64(a^b, 1, 0)
	return -same
}

// choose returns a where mask is all ones and b where it is zero.
func choose(mask, a, b uint64) uint64 { return b ^ mask&(a^b) }
