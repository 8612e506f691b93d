package rrchain

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"github.com/sluicedp/sluice/internal/exact"
)

// Range is an interval of numbers whose mean is to be estimated (pan2024 §5.2). Each number is
// rounded to an end of it once, to the upper end with a probability proportional to its distance
// from the lower one, so that the rounded numbers have the same mean. That end is the true value of
// a chain with m = 2: 0 for the lower end, 1 for the upper.
//
// The rounding protects nothing; the chain does. What it must be is final: a number rounded anew
// for every raise is a truth that changes. So the host stores the end ([Range.Round]), or has it
// from a key again whenever it is needed ([Range.RoundKeyed]).
//
// The zero value is not usable; see [NewRange].
type Range struct {
	low, high float64
}

// check refuses the zero value.
func (r Range) check() error {
	if !(r.low < r.high) {
		return fmt.Errorf("%w: a range without numbers", ErrInvalid)
	}
	return nil
}

// NewRange returns the numbers from low to high. It returns [ErrInvalid] unless both are finite,
// low is below high, and their difference is finite.
func NewRange(low, high float64) (Range, error) {
	if !(low < high) || math.IsInf(high-low, 0) {
		return Range{}, fmt.Errorf("%w: no numbers from %v to %v", ErrInvalid, low, high)
	}
	return Range{low, high}, nil
}

// Low returns the lower end.
func (r Range) Low() float64 { return r.low }

// High returns the upper end.
func (r Range) High() float64 { return r.high }

// Round draws the end that a number is rounded to: 0 for the lower, 1 for the upper with
// probability (x−low)/(high−low), exactly. A number outside of the range counts as the end next to
// it. Round returns [ErrInvalid] for NaN; the error does not contain the number. How long it takes
// depends on x.
func (r Range) Round(s *Sampler, x float64) (int, error) {
	return r.round(x, s.bits.Uint64)
}

// RoundKeyed is [Range.Round] with HMAC-SHA256 in the place of chance: the same key, question,
// object, range and number always have the same end. To whoever does not know the key, which must
// have at least 16 bytes, the ends are as good as drawn. (A key and the same key with zero bytes
// behind it are one key, as always with HMAC.) A number that changes may change its end, though
// most often it does not; then it is another truth, and needs another question.
func (r Range) RoundKeyed(key []byte, question, object string, x float64) (int, error) {
	if len(key) < 16 {
		return 0, fmt.Errorf("%w: a key of %d bytes; at least 16 are needed", ErrInvalid, len(key))
	}
	block := uint64(0)
	return r.round(x, func() uint64 {
		mac := hmac.New(sha256.New, key)
		mac.Write(binary.BigEndian.AppendUint64(appendTexts(nil, "sluice rounding", question, object), block))
		block++
		return binary.BigEndian.Uint64(mac.Sum(nil))
	})
}

// round tells whether a uniform real number in [0,1), of which next returns 64 more bits, is below
// (x−low)/(high−low).
func (r Range) round(x float64, next func() uint64) (int, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	if math.IsNaN(x) {
		return 0, fmt.Errorf("%w: the number is not one", ErrInvalid)
	}
	low, high, at := rational(r.low), rational(r.high), rational(min(max(x, r.low), r.high))
	share := new(big.Rat).Quo(at.Sub(at, low), high.Sub(high, low))
	if exact.Below(next, share) {
		return 1, nil
	}
	return 0, nil
}

// rational returns a finite float64 as the number it is.
func rational(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
