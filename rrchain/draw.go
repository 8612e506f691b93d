package rrchain

import (
	"fmt"
	"strings"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// Raise draws a response at an ε above all others of a chain over m values, as [Chain.Raise] does.
// current is the chain's highest level, and the zero level before the first response. truth must be
// the same in every call.
//
// The law of a response depends on its two neighbours among the levels of its chain alone. So a
// caller who keeps the levels elsewhere needs no [Chain]: Raise and the methods after it record
// nothing, and allocate nothing but a row of bits. That the given levels belong to one chain, and
// that no other level lies between them, is for the caller to ensure.
//
// Raise returns [privacy.ErrInvalid] unless 2 ≤ m ≤ 2²⁰, the ε is above that of current, and both
// its response and truth are below m.
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
// m values, without the truth, as [Chain.Insert] does. Without a level below, that is the zero
// level. It returns [privacy.ErrInvalid] unless 2 ≤ m ≤ 2²⁰, the three ε rise, and both responses
// are below m.
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
// over m values. Levels, truth and errors are as for [Sampler.Raise], but responses have m bits;
// that of the zero level has none.
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
// others of a chain: each bit by the transition kernel for m = 2, and all of them raised together
// (pan2024 §5.1 and Eq. (54)). Levels, truth and errors are as for [Sampler.RaiseUnary].
//
// The ε is that of one bit. Between two truths that differ in d bits the privacy loss of all
// responses together is at most d·ε for the highest ε, and that much is reached; so the loss of the
// whole is ε times the largest number of bits in which two possible truths differ.
func (s *Sampler) RaiseBits(m int, current Level[Bits], to privacy.Epsilon, truth Bits) (Bits, error) {
	if err := checkRaise(m, current.Epsilon, to, 0); err != nil {
		return Bits{}, err
	}
	if truth.n != m {
		return Bits{}, fmt.Errorf("%w: %d true bits for a chain of %d", privacy.ErrInvalid, truth.n, m)
	}
	if err := checkBelow(current, m); err != nil {
		return Bits{}, err
	}
	return s.drawBits(upwards(2, current.Epsilon, to), m, truth.packed, current.Response.packed), nil
}

// BetweenBits draws a response of m bits at an ε between two levels of a chain, without the truth:
// one in unary encoding, or to a row of true bits. Levels and errors are as for [Sampler.Between],
// but responses have m bits; that of the zero level has none.
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

// hidden draws the hidden bits given the truth and the highest response. Nothing about its time or
// the memory it touches depends on the truth.
func (s *Sampler) hidden(m int, current Level[Bits], truth int) string {
	return hiddenRow(m, byte(s.coin(current, truth)), truth)
}

// hiddenRow returns a row of zeros but for the coin in the place of the true value.
func hiddenRow(m int, coin byte, truth int) string {
	var row strings.Builder
	row.Grow(packedLen(m))
	for i := range packedLen(m) {
		row.WriteByte(coin << (truth & 7) & byte(exact.EqualMask(uint64(i), uint64(truth>>3))))
	}
	return row.String()
}

// coin draws the hidden bit of the true value: fair before the first response, and then what the
// last response says with probability e^ε/(e^ε+1), as if that were a truth to respond to.
func (s *Sampler) coin(current Level[Bits], truth int) int {
	if current.Epsilon.IsZero() {
		return int(s.source().Uint64() & 1)
	}
	last := byte(0)
	for i := range len(current.Response.packed) {
		last |= current.Response.packed[i] & byte(exact.EqualMask(uint64(i), uint64(truth>>3)))
	}
	return s.draw(upwards(2, privacy.Epsilon{}, current.Epsilon), int(last>>(truth&7)&1), 0)
}

func checkRaise(m int, from, to privacy.Epsilon, truth int) error {
	if err := checkValues(m); err != nil {
		return err
	}
	if !from.Less(to) {
		return fmt.Errorf("%w: a raise to ε=%v must lie above the current ε=%v", privacy.ErrInvalid, to, from)
	}
	return checkTruth(truth, m)
}

func checkBetween(m int, below, at, above privacy.Epsilon) error {
	if !below.Less(at) || !at.Less(above) {
		return fmt.Errorf("%w: ε=%v does not lie between ε=%v and ε=%v", privacy.ErrInvalid, at, below, above)
	}
	return checkValues(m)
}

// checkBelow checks the level below, which may be none.
func checkBelow(below Level[Bits], m int) error {
	if below == (Level[Bits]{}) {
		return nil
	}
	return neighborError(checkLength(below.Response, m))
}

func checkResponse(response, m int) error {
	if response < 0 || response >= m {
		return fmt.Errorf("answers with value %d of %d", response, m)
	}
	return nil
}

// checkTruth leaves the number out of its error: it is, or resembles, the truth.
func checkTruth(truth, m int) error {
	if truth < 0 || truth >= m {
		return fmt.Errorf("%w: the true value is not one of the question's %d values", privacy.ErrInvalid, m)
	}
	return nil
}

// neighborError returns what is wrong with a neighbouring level, if anything.
func neighborError(reason error) error {
	if reason == nil {
		return nil
	}
	return fmt.Errorf("%w: a neighbouring level %w", privacy.ErrInvalid, reason)
}
