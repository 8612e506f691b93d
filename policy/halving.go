package policy

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"sort"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// Halving returns the policy that allows nothing before start and `from` at start. After that,
// every half-life halves the distance to the limit:
//
//	limit − (limit−from)·2^(−(t−start)/halfLife), rounded down to a multiple of stride,
//	but never below from.
//
// The ceiling never reaches the limit. [Policy.Limit] is the largest multiple of stride below the
// limit that is reached before 2262. If no multiple above from is reached, it is from.
//
// Halving needs from below limit, start from 1970 to 2261, half-life and stride above 0, and at
// most 1,024 steps.
func Halving(
	from, limit privacy.Epsilon, start time.Time, halfLife time.Duration, stride privacy.Epsilon,
) (Policy, error) {
	return build(halving{from, limit, instantOf(start), halfLife, stride})
}

// halving is the rule of kind "halving".
type halving struct {
	from, to privacy.Epsilon
	start    instant
	halfLife time.Duration
	stride   privacy.Epsilon
}

func (halving) kind() string { return "halving" }

// code implements [rule]: it reads or writes the parameters.
func (r halving) code(c *coder) rule {
	c.epsilon("from", &r.from)
	c.epsilon("limit", &r.to)
	c.instant("start", &r.start)
	c.duration("half_life", &r.halfLife)
	c.epsilon("stride", &r.stride)
	return r
}

// shape checks the parameters. The limit is the last multiple of stride that is reached before
// 2262, found by binary search.
func (r halving) shape() (shape, error) {
	if err := r.start.check("start"); err != nil {
		return shape{}, err
	}
	switch {
	case !r.from.Less(r.to):
		return shape{}, fmt.Errorf("from is %v, not below limit, which is %v", r.from, r.to)
	case r.halfLife <= 0:
		return shape{}, errors.New("half_life is not above 0")
	case r.stride.IsZero():
		return shape{}, errors.New("stride is 0")
	}
	first, between := multiplesBetween(r.from, r.to, r.stride)
	limit := r.from
	reached := sort.Search(int(min(between, maxSteps)), func(k int) bool {
		_, ok := r.reaches(first + int64(k)*r.stride.Nano())
		return !ok
	})
	if reached > 0 {
		limit = nanos(first + int64(reached-1)*r.stride.Nano())
	}
	return shape{steps: stepCount(between), isTimed: true, limit: limit}, nil
}

// line returns a step for `from` and each multiple of stride that is reached before 2262. The
// logarithm of (limit−from)/(limit−level) is computed from that of the preceding level. Where its
// digits do not decide, reaches computes the instant exactly.
func (r halving) line() []step {
	level, count := multiplesBetween(r.from, r.to, r.stride)
	line := appendStep(make([]step, 0, count+1), step{r.start, r.from})
	left := uint64(r.to.Nano() - r.from.Nano()) // the distance of the preceding level to the limit
	var log runningLog
	for range count {
		next := uint64(r.to.Nano() - level) // the distance of this level to the limit
		log.add(left, next)
		left = next
		elapsed, ok := log.times(uint64(r.halfLife))
		at := r.start + instant(elapsed)
		if !ok || elapsed > uint64(lastInstant-r.start) {
			if at, ok = r.reaches(level); !ok {
				break
			}
		}
		line = appendStep(line, step{at, nanos(level)})
		level += r.stride.Nano()
	}
	return line
}

// reaches returns the first nanosecond at which the curve is at a level between from and the limit:
// start + ⌈halfLife·log₂((limit−from)/(limit−level))⌉. It returns false if that is after 2261.
func (r halving) reaches(level int64) (instant, bool) {
	elapsed, ok := timesLog2(int64(r.halfLife), r.to.Nano()-r.from.Nano(), r.to.Nano()-level)
	if !ok || elapsed > int64(lastInstant-r.start) {
		return 0, false
	}
	return r.start + instant(elapsed), true
}

// timesLog2 returns ⌈h·log₂(a/b)⌉ exactly, for h > 0 and 0 < b ≤ a. It returns false if the result
// is above the largest int64. It computes with integers only, so that the result is the same on
// every platform.
func timesLog2(h, a, b int64) (int64, bool) {
	exponent := bits.Len64(uint64(a/b)) - 1 // ⌊log₂(a/b)⌋
	ceil := new(big.Int).Mul(big.NewInt(h), big.NewInt(int64(exponent)))
	if b <<= exponent; a != b { // now 1 ≤ a/b < 2
		var log runningLog
		log.add(uint64(a), uint64(b))
		if fraction, ok := log.times(uint64(h)); ok {
			ceil.Add(ceil, new(big.Int).SetUint64(fraction))
		} else {
			ceil.Add(ceil, timesFraction(h, a, b, uint(bits.Len64(uint64(h)))+32))
		}
	}
	return ceil.Int64(), ceil.IsInt64()
}

// timesFraction returns ⌈h·log₂(a/b)⌉ for b < a < 2b. It starts with n binary digits of the
// logarithm, and doubles their number until the result is decided. This terminates because the
// logarithm is irrational: 2^(p/q) is rational only if p/q is an integer.
func timesFraction(h, a, b int64, n uint) *big.Int {
	for {
		if digits, ok := log2Fraction(a, b, n, n+64); ok {
			if ceil, ok := ceilProduct(h, digits, n); ok {
				return ceil
			}
		}
		n *= 2
	}
}

// ceilProduct returns ⌈h·x⌉ for an x strictly between digits/2ⁿ and (digits+1)/2ⁿ. It returns false
// if an integer is between the two bounds of h·x.
func ceilProduct(h int64, digits *big.Int, n uint) (*big.Int, bool) {
	lo := new(big.Int).Mul(big.NewInt(h), digits)
	hi := new(big.Int).Add(lo, big.NewInt(h-1)) // the last multiple of 2⁻ⁿ below the upper bound
	lo.Rsh(lo, n)
	hi.Rsh(hi, n)
	if lo.Cmp(hi) != 0 {
		return nil, false
	}
	return lo.Add(lo, big.NewInt(1)), true
}

// log2Fraction returns the first n binary digits after the point of log₂(a/b), for b < a < 2b. It
// returns false if arithmetic with a resolution of 2⁻ᵖ does not decide them.
//
// Squaring a number doubles its logarithm, so a square of 2 or more means that the next digit is 1.
// The number is between lo and hi, in units of 2⁻ᵖ. Each squaring doubles the distance of lo and
// hi, so p must be well above n.
func log2Fraction(a, b int64, n, p uint) (*big.Int, bool) {
	// The first number is a/b itself.
	lo, rest := new(big.Int).QuoRem(new(big.Int).Lsh(big.NewInt(a), p), big.NewInt(b), new(big.Int))
	hi := new(big.Int).Set(lo)
	if rest.Sign() > 0 {
		hi.Add(hi, big.NewInt(1))
	}
	digits, one := new(big.Int), big.NewInt(1)
	for range n {
		lo.Mul(lo, lo).Rsh(lo, p)
		hi.Mul(hi, hi).Rsh(hi, p).Add(hi, one)
		digits.Lsh(digits, 1)
		switch two := int(p) + 2; { // numbers of 2 or more have that many bits
		case lo.BitLen() >= two:
			digits.Add(digits, one)
			lo.Rsh(lo, 1)
			hi.Rsh(hi, 1).Add(hi, one)
		case hi.BitLen() >= two:
			return nil, false
		}
	}
	return digits, true
}
