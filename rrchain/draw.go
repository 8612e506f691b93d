package rrchain

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
)

// Of all levels of a chain, the law of a response depends on its two neighbours alone. So whoever
// has these needs no chain. The methods of Sampler here draw what chains draw, without making one:
// nothing is allocated but a row of bits. They record nothing, and they cannot see the other
// levels: that no level lies between the neighbours given, and that those belong to one chain, is
// the caller's to know.

// Raise draws a response at an ε above all others of a chain over m values, as [Chain.Raise] does.
// current is the chain's highest level, and the zero level before the first response. truth must be
// the same in every call. It returns [ErrInvalid] unless 2 ≤ m ≤ [MaxValues], the ε is above that
// of current, and both its response and truth are below m.
func (s *Sampler) Raise(m int, current Level, to privacy.Epsilon, truth int) (int, error) {
	if err := checkRaise(m, current.Epsilon, to, truth); err != nil {
		return 0, err
	}
	if err := checkResponse(current.Response, m); err != nil {
		return 0, neighborError(err)
	}
	return s.draw(upwards(m, current.Epsilon, to), truth, current.Response), nil
}

// Between draws a response at an ε between the levels just below and just above it in a chain over
// m values, without the truth, as [Chain.Insert] does. Without a level below, that is the zero
// level, and it draws as [Chain.Degrade] does. It returns [ErrInvalid] unless 2 ≤ m ≤ [MaxValues],
// the three ε rise, and both responses are below m.
func (s *Sampler) Between(m int, below Level, at privacy.Epsilon, above Level) (int, error) {
	if err := checkBetween(m, below.Epsilon, at, above.Epsilon); err != nil {
		return 0, err
	}
	for _, response := range [...]int{below.Response, above.Response} {
		if err := checkResponse(response, m); err != nil {
			return 0, neighborError(err)
		}
	}
	return s.draw(between(m, below.Epsilon, at, above.Epsilon), above.Response, below.Response), nil
}

// RaiseUnary draws a response in unary encoding at an ε above all others of a chain over m values,
// as [UnaryChain.Raise] does. Levels, truth and errors are as for [Sampler.Raise], but responses
// have m bits; that of the zero level has none.
func (s *Sampler) RaiseUnary(m int, current BitLevel, to privacy.Epsilon, truth int) (Bits, error) {
	if err := checkRaise(m, current.Epsilon, to, truth); err != nil {
		return Bits{}, err
	}
	if err := checkBelow(current, m); err != nil {
		return Bits{}, err
	}
	hidden := s.hidden(m, current, truth)
	return s.drawBits(upwards(2, current.Epsilon, to), m, hidden, current.Response.packed), nil
}

// BetweenUnary draws a response in unary encoding at an ε between two levels of a chain over m
// values, without the truth, as the methods Insert and Degrade of [UnaryChain] do. Levels and
// errors are as for [Sampler.Between], but responses have m bits; that of the zero level has none.
func (s *Sampler) BetweenUnary(m int, below BitLevel, at privacy.Epsilon, above BitLevel) (Bits, error) {
	if err := checkBetween(m, below.Epsilon, at, above.Epsilon); err != nil {
		return Bits{}, err
	}
	if err := checkBelow(below, m); err != nil {
		return Bits{}, err
	}
	if err := checkLength(above.Response, m); err != nil {
		return Bits{}, neighborError(err)
	}
	law := between(2, below.Epsilon, at, above.Epsilon)
	return s.drawBits(law, m, above.Response.packed, below.Response.packed), nil
}

func checkRaise(m int, from, to privacy.Epsilon, truth int) error {
	if err := checkValues(m); err != nil {
		return err
	}
	if err := checkRise(from, to); err != nil {
		return err
	}
	return checkTruth(truth, m)
}

func checkBetween(m int, below, at, above privacy.Epsilon) error {
	if !below.Less(at) || !at.Less(above) {
		return fmt.Errorf("%w: ε=%v does not lie between ε=%v and ε=%v", ErrInvalid, at, below, above)
	}
	return checkValues(m)
}

// checkBelow checks the level below, which may be none.
func checkBelow(below BitLevel, m int) error {
	if below == (BitLevel{}) {
		return nil
	}
	if err := checkLength(below.Response, m); err != nil {
		return neighborError(err)
	}
	return nil
}

func neighborError(reason error) error {
	return fmt.Errorf("%w: a neighbouring level %w", ErrInvalid, reason)
}
