package rrchain

import (
	"fmt"
	"strings"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// Raise draws a response at an ε above all others of a chain over m values, as [Chain.Raise] does.
// current is the chain's highest level, or the zero level before the first response. truth must be
// the same in every call.
//
// The law of a response depends only on its two neighbours among the levels of its chain. So a
// caller that stores the levels elsewhere needs no [Chain]. Raise and the following methods record
// nothing, and allocate only rows of bits. The caller must ensure that the given levels belong to
// one chain, and that no other level is between them.
//
// Raise returns [privacy.ErrInvalid] unless 2 ≤ m ≤ 2²⁰, the ε is above the ε of current, and the
// response of current and truth are both from 0 to m−1.
func (s *Sampler) Raise(m int, current Level[int], to privacy.Epsilon, truth int) (int, error) {
	if err := checkRaise(m, current.Epsilon, to, truth); err != nil {
		return 0, err
	}
	if err := neighborError(checkResponse(current.Response, m)); err != nil {
		return 0, err
	}
	return s.draw(upwards(m, current.Epsilon, to), truth, current.Response), nil
}

// Between draws a response at an ε between the levels just below and just above it in a chain over
// m values, as [Chain.Insert] does. It does not need the true value. If there is no level below,
// below is the zero level. It returns [privacy.ErrInvalid] unless 2 ≤ m ≤ 2²⁰, the three ε rise,
// and both responses are from 0 to m−1.
func (s *Sampler) Between(m int, below Level[int], at privacy.Epsilon, above Level[int]) (int, error) {
	if err := checkBetween(m, below.Epsilon, at, above.Epsilon); err != nil {
		return 0, err
	}
	for _, response := range [...]int{below.Response, above.Response} {
		if err := neighborError(checkResponse(response, m)); err != nil {
			return 0, err
		}
	}
	return s.draw(between(m, below.Epsilon, at, above.Epsilon), above.Response, below.Response), nil
}

// RaiseUnary draws a response in unary encoding (see [Chain]) at an ε above all others of a chain
// over m values. Levels, truth and errors are as for [Sampler.Raise], except that responses have m
// bits. The response of the zero level has none.
func (s *Sampler) RaiseUnary(m int, current Level[Bits], to privacy.Epsilon, truth int) (Bits, error) {
	if err := checkRaise(m, current.Epsilon, to, truth); err != nil {
		return Bits{}, err
	}
	if err := checkBelow(current, m); err != nil {
		return Bits{}, err
	}
	hidden := s.hidden(m, current, truth)
	return s.drawBits(upwards(2, current.Epsilon, to), m, hidden, current.Response.packed), nil
}

// RaiseBits draws a response to a row of m true bits, such as a Bloom filter, at an ε above all
// others of a chain. It raises each bit by the transition kernel for m = 2 (pan2024 §5.1 and Eq.
// (54)). Levels, truth and errors are as for [Sampler.RaiseUnary].
//
// The ε is the ε of one bit. If two rows of true bits differ in d bits, the privacy loss of all
// responses together is at most d·ε for the highest ε, and this bound is tight. The loss of the
// whole response is therefore ε times the largest number of bits in which two possible rows differ.
func (s *Sampler) RaiseBits(m int, current Level[Bits], to privacy.Epsilon, truth Bits) (Bits, error) {
	if err := checkRaise(m, current.Epsilon, to, 0); err != nil { // 0: the true bits are checked below
		return Bits{}, err
	}
	if truth.n != m {
		return Bits{}, fmt.Errorf("%w: %d true bits for a chain of %d bits", privacy.ErrInvalid, truth.n, m)
	}
	if err := checkBelow(current, m); err != nil {
		return Bits{}, err
	}
	return s.drawBits(upwards(2, current.Epsilon, to), m, truth.packed, current.Response.packed), nil
}

// BetweenBits draws a response of m bits at an ε between two levels of a chain, without the true
// value. The chain is in unary encoding or responds to a row of true bits. Levels and errors are as
// for [Sampler.Between], except that responses have m bits. The response of the zero level has
// none.
func (s *Sampler) BetweenBits(m int, below Level[Bits], at privacy.Epsilon, above Level[Bits]) (Bits, error) {
	if err := checkBetween(m, below.Epsilon, at, above.Epsilon); err != nil {
		return Bits{}, err
	}
	if err := checkBelow(below, m); err != nil {
		return Bits{}, err
	}
	if err := neighborError(checkLength(above.Response, m)); err != nil {
		return Bits{}, err
	}
	law := between(2, below.Epsilon, at, above.Epsilon)
	return s.drawBits(law, m, above.Response.packed, below.Response.packed), nil
}

// hidden draws the hidden bits of unary encoding (see [Chain]), packed, given the true value and
// the highest response. Neither its time nor its memory accesses depend on the true value.
func (s *Sampler) hidden(m int, current Level[Bits], truth int) string {
	return hiddenRow(m, byte(s.coin(current, truth)), truth)
}

// hiddenRow returns a packed row of m bits that are 0, except the bit of the true value, which is
// the coin, 0 or 1. It writes all bytes in the same way, so that its time does not depend on the
// true value.
func hiddenRow(m int, coin byte, truth int) string {
	var row strings.Builder
	row.Grow(packedLen(m))
	for i := range packedLen(m) {
		row.WriteByte(coin << (truth & 7) & byte(exact.EqualMask(uint64(i), uint64(truth>>3))))
	}
	return row.String()
}

// coin draws the hidden bit of the true value. It is fair before the first response. After that it
// equals the bit of the highest response with probability e^ε/(e^ε+1), like a randomized response
// to that bit.
func (s *Sampler) coin(current Level[Bits], truth int) int {
	if current.Epsilon.IsZero() {
		return int(s.source().Uint64() & 1)
	}
	// All bytes are read, and the one with the bit is selected without a branch.
	last := byte(0)
	for i := range len(current.Response.packed) {
		last |= current.Response.packed[i] & byte(exact.EqualMask(uint64(i), uint64(truth>>3)))
	}
	return s.draw(upwards(2, privacy.Epsilon{}, current.Epsilon), int(last>>(truth&7)&1), 0)
}

// checkRaise returns [privacy.ErrInvalid] unless m is a valid number of values, `to` is above from,
// and truth is from 0 to m−1.
func checkRaise(m int, from, to privacy.Epsilon, truth int) error {
	if err := checkValues(m); err != nil {
		return err
	}
	if !from.Less(to) {
		return fmt.Errorf("%w: raising to ε=%v, which is not above the current ε=%v", privacy.ErrInvalid, to, from)
	}
	return checkTruth(truth, m)
}

// checkBetween returns [privacy.ErrInvalid] unless m is a valid number of values and below < at <
// above.
func checkBetween(m int, below, at, above privacy.Epsilon) error {
	if !below.Less(at) || !at.Less(above) {
		return fmt.Errorf("%w: ε=%v is not between ε=%v and ε=%v", privacy.ErrInvalid, at, below, above)
	}
	return checkValues(m)
}

// checkBelow returns [privacy.ErrInvalid] unless the response of the level below has m bits. The
// zero level is valid, and means that there is no level below.
func checkBelow(below Level[Bits], m int) error {
	if below == (Level[Bits]{}) {
		return nil
	}
	return neighborError(checkLength(below.Response, m))
}

// checkResponse returns an error that completes a sentence about a level unless the response is
// from 0 to m−1.
func checkResponse(response, m int) error {
	if response < 0 || response >= m {
		return fmt.Errorf("has response %d instead of 0 to %d", response, m-1)
	}
	return nil
}

// checkTruth returns [privacy.ErrInvalid] unless truth is from 0 to m−1. The error does not contain
// the number, because the number is, or resembles, the true value.
func checkTruth(truth, m int) error {
	if truth < 0 || truth >= m {
		return fmt.Errorf("%w: the true value is not one of the question's %d values", privacy.ErrInvalid, m)
	}
	return nil
}

// neighborError returns the error for a fault of a neighbouring level, as returned by checkResponse
// or checkLength. It returns nil if reason is nil.
func neighborError(reason error) error {
	if reason == nil {
		return nil
	}
	return fmt.Errorf("%w: a neighbouring level %w", privacy.ErrInvalid, reason)
}
