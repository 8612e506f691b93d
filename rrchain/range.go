package rrchain

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// Range is an interval of numbers whose mean is estimated (pan2024 §5.2). Each number is rounded
// once to one end of the range. The probability of the upper end is proportional to the distance of
// the number from the lower end, so that the rounded numbers have the same mean. That end is the
// true value of a chain with m = 2: 0 for the lower end, 1 for the upper.
//
// The rounding does not protect privacy; the chain does. The rounding must be final: if a number
// were rounded again for every raise, the true value would change. So the host stores the end
// ([Range.Round]), or computes it from a key whenever it is needed ([Range.RoundKeyed]).
//
// Low must be below High, and their difference finite. For any other Range, methods and estimates
// return [privacy.ErrInvalid].
type Range struct {
	Low, High float64
}

// check returns [privacy.ErrInvalid] unless Low is below High and their difference is finite.
func (r Range) check() error {
	if !(r.Low < r.High) || math.IsInf(r.High-r.Low, 0) {
		return fmt.Errorf("%w: range %v to %v; its width must be finite and above 0", privacy.ErrInvalid, r.Low, r.High)
	}
	return nil
}

// Round draws the end that a number is rounded to: exactly with probability (x−low)/(high−low) it
// is 1, the upper end, and otherwise 0, the lower end. A number outside of the range counts as the
// nearest end. Round returns [privacy.ErrInvalid] for NaN; the error does not contain the number.
// The running time depends on x.
func (r Range) Round(s *Sampler, x float64) (int, error) {
	return r.round(x, s.source().Uint64)
}

// RoundKeyed is [Range.Round] with HMAC-SHA256 instead of random bits. The same key, question,
// object, range and number always result in the same end. Without the key, the ends cannot be
// distinguished from random ones. The key must have at least 16 bytes. (A key and the same key with
// zero bytes appended are the same key, as always with HMAC.)
//
// If a number changes, its end may change, though most often it does not. The changed number is
// another true value, and needs another question.
func (r Range) RoundKeyed(key []byte, question, object string, x float64) (int, error) {
	if len(key) < 16 {
		return 0, fmt.Errorf("%w: a key of %d bytes; at least 16 are needed", privacy.ErrInvalid, len(key))
	}
	block := uint64(0) // counts the 64-bit words, so that each has another input of HMAC
	return r.round(x, func() uint64 {
		mac := hmac.New(sha256.New, key)
		mac.Write(binary.BigEndian.AppendUint64(appendTexts(nil, "sluice rounding", question, object), block))
		block++
		return binary.BigEndian.Uint64(mac.Sum(nil))
	})
}

// round returns 1 if a uniform real number in [0,1) is below (x−low)/(high−low), and 0 otherwise.
// Each call of next returns 64 more bits of the uniform number.
func (r Range) round(x float64, next func() uint64) (int, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	if math.IsNaN(x) {
		return 0, fmt.Errorf("%w: the number to round is NaN", privacy.ErrInvalid)
	}
	low, high, at := rational(r.Low), rational(r.High), rational(min(max(x, r.Low), r.High))
	share := new(big.Rat).Quo(at.Sub(at, low), high.Sub(high, low))
	if exact.Below(next, share) {
		return 1, nil
	}
	return 0, nil
}

// rational returns the exact value of a finite float64.
func rational(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
