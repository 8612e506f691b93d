package rrchain

import (
	"fmt"
	"iter"
	"math/bits"
	"strings"

	"github.com/sluicedp/sluice/privacy"
)

// Bits is a row of 1 to 2²⁰ bits, numbered from 0. It is immutable and can be compared with ==. Its
// text form has a 0 or 1 for each bit, starting with bit 0. The zero value has no bits and
// represents no response. Its text is empty, and UnmarshalText refuses it.
type Bits struct {
	n      int
	packed string // bit i is bit i%8 of byte i/8; bits from n on are 0
}

// NewBits returns the n bits that [Bits.Pack] packs: bit i is bit i%8 of byte i/8. It returns
// [privacy.ErrInvalid] unless 1 ≤ n ≤ 2²⁰, there are ⌈n/8⌉ bytes, and the bits after bit n−1 are 0.
func NewBits(n int, packed []byte) (Bits, error) {
	if n < 1 || n > maxValues || len(packed) != packedLen(n) {
		return Bits{}, fmt.Errorf("%w: %d bytes for a row of %d bits", privacy.ErrInvalid, len(packed), n)
	}
	if over := n % 8; over != 0 && packed[len(packed)-1]>>over != 0 {
		return Bits{}, fmt.Errorf("%w: a bit after the last of %d bits is set", privacy.ErrInvalid, n)
	}
	return Bits{n, string(packed)}, nil
}

// packedLen returns ⌈n/8⌉, the number of bytes of n packed bits.
func packedLen(n int) int { return (n + 7) / 8 }

// Len returns the number of bits.
func (b Bits) Len() int { return b.n }

// Bit returns bit i, 0 or 1. It returns 0 if i is not from 0 to Len−1.
func (b Bits) Bit(i int) int {
	if i < 0 || i >= b.n {
		return 0
	}
	return int(b.packed[i/8] >> (i % 8) & 1)
}

// Ones iterates over the numbers of the bits that are set, in ascending order.
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

// String returns a 0 or 1 for each bit, starting with bit 0.
func (b Bits) String() string {
	text := make([]byte, b.n)
	for i := range text {
		text[i] = '0' + byte(b.Bit(i))
	}
	return string(text)
}

// MarshalText returns [Bits.String].
func (b Bits) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads the form of [Bits.String] for 1 to 2²⁰ bits. For any other text, including
// the empty one, it returns [privacy.ErrInvalid] and leaves b unchanged.
func (b *Bits) UnmarshalText(text []byte) error {
	packed := make([]byte, packedLen(len(text)))
	for i, digit := range text {
		if digit != '0' && digit != '1' {
			return fmt.Errorf("%w: a row of bits consists of the digits 0 and 1 only", privacy.ErrInvalid)
		}
		packed[i/8] |= (digit - '0') << (i % 8)
	}
	read, err := NewBits(len(text), packed)
	if err != nil {
		return err
	}
	*b = read
	return nil
}

// checkLength returns an error that completes a sentence about a level unless the response has n
// bits.
func checkLength(response Bits, n int) error {
	if response.n != n {
		return fmt.Errorf("has %d bits instead of %d", response.n, n)
	}
	return nil
}

// drawBits draws n bits under a law for m = 2. Each bit is drawn given the same bit of the
// neighbours, which are packed as by [Bits.Pack]. above is the response above or the true bits.
// below is the response below, or empty if there is none. The running time does not depend on any
// bit.
func (s *Sampler) drawBits(l law, n int, above, below string) Bits {
	mix, source := s.mixture(l), s.source()
	if below == "" {
		below = above // any value: without a level below, the law does not depend on it
	}
	var packed strings.Builder
	packed.Grow(len(above))
	for i := range len(above) {
		drawn := byte(0)
		for shift := range min(8, n-8*i) {
			drawn |= byte(mix.Draw(source, uint32(above[i]>>shift&1), uint32(below[i]>>shift&1))) << shift
		}
		packed.WriteByte(drawn)
	}
	return Bits{n, packed.String()}
}
