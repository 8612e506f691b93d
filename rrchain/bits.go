package rrchain

import (
	"fmt"
	"iter"
	"math/bits"
	"strings"

	"github.com/sluicedp/sluice/privacy"
)

// Bits is a row of up to [MaxValues] bits, numbered from 0. It never changes, and can be compared
// with ==. The zero value has no bits.
type Bits struct {
	n      int
	packed string // bit i is bit i%8 of byte i/8; bits from n on are 0
}

// NewBits returns n bits of which the given ones are set. It returns [ErrInvalid] unless 1 ≤ n ≤
// [MaxValues] and every number is below n.
func NewBits(n int, ones ...int) (Bits, error) {
	if n < 1 || n > MaxValues {
		return Bits{}, fmt.Errorf("%w: a row of %d bits; 1 to %d are possible", ErrInvalid, n, MaxValues)
	}
	packed := make([]byte, packedLen(n))
	for _, i := range ones {
		if i < 0 || i >= n {
			return Bits{}, fmt.Errorf("%w: bit %d of %d", ErrInvalid, i, n)
		}
		packed[i/8] |= 1 << (i % 8)
	}
	return Bits{n, string(packed)}, nil
}

// UnpackBits returns the n bits of which [Bits.Pack] is packed. It returns [ErrInvalid] if there
// are none: for another length, or a bit set beyond the last.
func UnpackBits(n int, packed []byte) (Bits, error) {
	if n < 1 || n > MaxValues || len(packed) != packedLen(n) {
		return Bits{}, fmt.Errorf("%w: %d bytes for a row of %d bits", ErrInvalid, len(packed), n)
	}
	if over := n % 8; over != 0 && packed[len(packed)-1]>>over != 0 {
		return Bits{}, fmt.Errorf("%w: a bit beyond the last of %d", ErrInvalid, n)
	}
	return Bits{n, string(packed)}, nil
}

func packedLen(n int) int { return (n + 7) / 8 }

// Len returns the number of bits.
func (b Bits) Len() int { return b.n }

// Bit returns bit i, 0 or 1; of a number that is not from 0 to Len−1, it is 0.
func (b Bits) Bit(i int) int {
	if i < 0 || i >= b.n {
		return 0
	}
	return int(b.packed[i/8] >> (i % 8) & 1)
}

// Count returns how many bits are set.
func (b Bits) Count() int {
	n := 0
	for i := range len(b.packed) {
		n += bits.OnesCount8(b.packed[i])
	}
	return n
}

// Ones goes through the numbers of the bits that are set, rising.
func (b Bits) Ones() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range len(b.packed) {
			for rest := b.packed[i]; rest != 0; rest &= rest - 1 {
				if !yield(8*i + bits.TrailingZeros8(rest)) {
					return
				}
			}
		}
	}
}

// Pack returns the bits in ⌈n/8⌉ bytes: bit i is bit i%8 of byte i/8.
func (b Bits) Pack() []byte { return []byte(b.packed) }

// String returns a 0 or 1 for each bit, that of number 0 first.
func (b Bits) String() string {
	text := make([]byte, b.n)
	for i := range text {
		text[i] = '0' + byte(b.Bit(i))
	}
	return string(text)
}

// ParseBits returns the bits that [Bits.String] writes as text, or [ErrInvalid] if there are none.
func ParseBits(text string) (Bits, error) {
	if len(text) > MaxValues {
		return NewBits(len(text))
	}
	var ones []int
	for i := range len(text) {
		switch text[i] {
		case '0':
		case '1':
			ones = append(ones, i)
		default:
			return Bits{}, fmt.Errorf("%w: a row of bits is written with 0 and 1 only", ErrInvalid)
		}
	}
	return NewBits(len(text), ones...)
}

// BitLevel is one response of a [BitChain] or a [UnaryChain]: the bits handed out at one ε.
type BitLevel = LevelOf[Bits]

// bitChain is what both chains of bits have in common: every bit is a randomized response to itself
// (m = 2), and goes down and between levels by its law alone.
type bitChain struct {
	n int
	ladder[Bits]
}

func newBitChain(n int, recorded []BitLevel) (bitChain, error) {
	levels, err := newLadder(recorded, func(response Bits) error {
		return checkLength(response, n)
	}, func(s *Sampler, below, above BitLevel, at privacy.Epsilon) Bits {
		return s.drawBits(between(2, below.Epsilon, at, above.Epsilon), n, above.Response.packed, below.Response.packed)
	})
	return bitChain{n, levels}, err
}

func checkLength(response Bits, n int) error {
	if response.n != n {
		return fmt.Errorf("has %d bits instead of %d", response.n, n)
	}
	return nil
}

// Len returns the number of bits of every response.
func (c *bitChain) Len() int { return c.n }

// drawBits draws n bits under a law for m = 2, each given its neighbours above and below. Without a
// level below, that is an empty string. The time it takes does not depend on any bit.
func (s *Sampler) drawBits(l law, n int, above, below string) Bits {
	mix := s.mixture(l)
	if below == "" {
		below = above // has no weight
	}
	var packed strings.Builder
	packed.Grow(len(above))
	for i := range len(above) {
		drawn := byte(0)
		for shift := range min(8, n-8*i) {
			drawn |= byte(mix.Draw(s.bits, uint32(above[i]>>shift&1), uint32(below[i]>>shift&1))) << shift
		}
		packed.WriteByte(drawn)
	}
	return Bits{n, packed.String()}
}

// BitChain is everything one object ever answered about a row of true bits, such as a Bloom filter,
// by rising ε: each bit is a chain of randomized responses with m = 2, and all of them are raised
// together (pan2024 §5.1).
//
// Its ε is that of one bit. Between two truths that differ in d bits the privacy loss of all
// responses together is at most d·ε for the highest ε, and that much is reached; so the loss of the
// whole is ε times the largest number of bits in which two possible truths differ.
//
// A chain belongs to one truth. The zero value is not usable; see [NewBitChain].
type BitChain struct{ bitChain }

// NewBitChain returns a chain over n bits with the levels recorded so far, in rising ε. It returns
// [ErrInvalid] unless 1 ≤ n ≤ [MaxValues], every ε is above 0 and above the one before, and every
// response has n bits.
func NewBitChain(n int, recorded ...BitLevel) (*BitChain, error) {
	if n < 1 || n > MaxValues {
		return nil, fmt.Errorf("%w: a row of %d bits; 1 to %d are possible", ErrInvalid, n, MaxValues)
	}
	c, err := newBitChain(n, recorded)
	if err != nil {
		return nil, err
	}
	return &BitChain{c}, nil
}

// Raise draws the response at an ε above the current one, each bit by the transition kernel for m =
// 2 (pan2024 Eq. (54)), and records it. truth is the true bits; they must be the same in every call
// and are not kept. Raise returns [ErrInvalid], and leaves the chain as it was, when the ε is not
// above the current one or there is another number of true bits.
func (c *BitChain) Raise(s *Sampler, to privacy.Epsilon, truth Bits) (BitLevel, error) {
	current := c.Current()
	if err := checkRise(current.Epsilon, to); err != nil {
		return BitLevel{}, err
	}
	if truth.n != c.n {
		return BitLevel{}, fmt.Errorf("%w: %d true bits for a chain of %d", ErrInvalid, truth.n, c.n)
	}
	return c.put(to, s.drawBits(upwards(2, current.Epsilon, to), c.n, truth.packed, current.Response.packed)), nil
}
