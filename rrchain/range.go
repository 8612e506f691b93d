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

// Range is an interval of numbers whose mean is to be estimated (pan2024 §5.2). Each number is
// rounded to an end of it once, to the upper end with a probability proportional to its distance
// from the lower one, so that the rounded numbers have the same mean. That end is the true value of
// a chain with m = 2: 0 for the lower end, 1 for the upper.
//
// The rounding protects nothing; the chain does. What it must be is final: a number rounded anew
// for every raise is a truth that changes. So the host stores the end ([Range.Round]), or has it
// from a key again whenever it is needed ([Range.RoundKeyed]).
//
// Low must be below High, and their difference finite: of another Range, methods and estimates
// return [privacy.ErrInvalid].
type Range struct {
	Low, High float64
}

func (r Range) check() error {
	if !(r.Low < r.High) || math.IsInf(r.High-r.Low, 0) {
		return fmt.Errorf("%w: no numbers from %v to %v", privacy.ErrInvalid, r.Low, r.High)
	}
	return nil
}

// Round draws the end that a number is rounded to: 0 for the lower, 1 for the upper with
// probability (x−low)/(high−low), exactly. A number outside of the range counts as the end next to
// it. Round returns [privacy.ErrInvalid] for NaN; the error does not contain the number. How long
// it takes depends on x.
func (r Range) Round(s *Sampler, x float64) (int, error) {
	return r.round(x, s.source().Uint64)
}

// RoundKeyed is [Range.Round] with HMAC-SHA256 in the place of chance: the same key, question,
// object, range and number always have the same end. To whoever does not know the key, which must
// have at least 16 bytes, the ends are as good as drawn. (A key and the same key with zero bytes
// behind it are one key, as always with HMAC.) A number that changes may change its end, though
// most often it does not; then it is another truth, and needs another question.
func (r Range) RoundKeyed(key []byte, question, object string, x float64) (int, error) {
	if len(key) < 16 {
		return 0, fmt.Errorf("%w: a key of %d bytes; at least 16 are needed", privacy.ErrInvalid, len(key))
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
		return 0, fmt.Errorf("%w: the number is not one", privacy.ErrInvalid)
	}
	low, high, at := rational(r.Low), rational(r.High), rational(min(max(x, r.Low), r.High))
	share := new(big.Rat).Quo(at.Sub(at, low), high.Sub(high, low))
	if exact.Below(next, share) {
		return 1, nil
	}
	return 0, nil
}

// rational returns a finite float64 as the number it is.
func rational(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
