package rrchain

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/privacy"
)

// Level is one response of a chain, at one ε.
type Level[R any] struct {
	Epsilon  privacy.Epsilon // above 0
	Response R               // the only response ever drawn at this ε
}

// Chain holds all responses of one object to one question, by rising ε. Its privacy loss is the ε
// of its highest level, never the sum (pan2024 Theorem 3.5).
//
// R is the encoding of the responses. With int, a response is one of m values (randomized
// response). With [Bits], a response has a bit for each of the m values (unary encoding).
//
// A chain belongs to one true value. Raising it for another value is not an ε-differentially
// private release: a changed true value needs a new question. The zero value is not usable; see
// [NewChain]. A Chain is not safe for concurrent use.
//
// # Unary encoding
//
// In a response of bits, the bit of the true value is set with probability 1/2, and each other bit
// with 1/(e^ε+1). This is the optimized unary encoding of Wang, Blocki, Li and Jha, "Locally
// Differentially Private Protocols for Frequency Estimation" (USENIX Security 2017). It is
// ε-differentially private, and estimates better than randomized response for questions with many
// values. If the mean squared errors of the shares of all values are added, it is better from 6
// values on for a small ε, from 10 at ε = 1, from 21 at ε = 2, and from (1+√2)·e^ε for a large ε.
//
// Raising a response in unary encoding is our own construction. Let H be a row of hidden bits: 0
// for each value except the true one, and a fair coin for the true value. A unary response at ε is
// a randomized response at ε (m = 2) to every bit of H: a hidden 0 is set with probability
// 1/(e^ε+1), and a coin with 1/2. So the chain of every bit is a chain of randomized responses and
// has its properties. Each response has the law of its own ε. By Lemma 3.1, the responses below the
// highest say nothing more about H, and therefore nothing more about the true value.
//
// All responses together cost the largest ε, and buyers gain nothing by pooling. A response below
// or between others is drawn from these alone. The coin is not stored. Each raise draws it again
// from the last response, with the probability that Bayes' rule gives.
type Chain[R int | Bits] struct {
	m        int
	levels   []Level[R]
	encoding encoding[R]
}

// encoding holds the functions that check and draw the responses of a chain.
type encoding[R any] struct {
	check   func(response R, m int) error
	raise   func(s *Sampler, m int, current Level[R], to privacy.Epsilon, truth int) (R, error)
	between func(s *Sampler, m int, below Level[R], at privacy.Epsilon, above Level[R]) (R, error)
}

// encodingOf returns the functions for the encoding R: randomized response for int, and unary
// encoding for [Bits].
func encodingOf[R int | Bits]() (e encoding[R]) {
	switch e := any(&e).(type) { // the inner e points to the result
	case *encoding[int]:
		*e = encoding[int]{checkResponse, (*Sampler).Raise, (*Sampler).Between}
	case *encoding[Bits]:
		*e = encoding[Bits]{checkLength, (*Sampler).RaiseUnary, (*Sampler).BetweenBits}
	}
	return e
}

// NewChain returns a chain over m values with the levels recorded so far, in rising ε. It returns
// [privacy.ErrInvalid] unless 2 ≤ m ≤ 2²⁰, every ε is above 0 and above the preceding one, and
// every response is from 0 to m−1 or, in unary encoding, has m bits.
func NewChain[R int | Bits](m int, recorded ...Level[R]) (*Chain[R], error) {
	if err := checkValues(m); err != nil {
		return nil, err
	}
	c := &Chain[R]{m, slices.Clone(recorded), encodingOf[R]()}
	last := privacy.Epsilon{} // of the preceding level; 0 before the first
	for i, level := range recorded {
		if !last.Less(level.Epsilon) {
			return nil, fmt.Errorf("%w: level %d at ε=%v is not above ε=%v",
				privacy.ErrInvalid, i, level.Epsilon, last)
		}
		if err := c.encoding.check(level.Response, m); err != nil {
			return nil, fmt.Errorf("%w: level %d %w", privacy.ErrInvalid, i, err)
		}
		last = level.Epsilon
	}
	return c, nil
}

// Levels returns a copy of all levels, by rising ε.
func (c *Chain[R]) Levels() []Level[R] { return slices.Clone(c.levels) }

// Current returns the highest level. Before the first response it returns the zero level, because
// uniform noise is a response at ε = 0.
func (c *Chain[R]) Current() (highest Level[R]) {
	if len(c.levels) > 0 {
		highest = c.levels[len(c.levels)-1]
	}
	return highest
}

// At returns the level recorded at exactly this ε. found is false if there is none.
func (c *Chain[R]) At(epsilon privacy.Epsilon) (level Level[R], found bool) {
	i, found := c.find(epsilon)
	if found {
		level = c.levels[i]
	}
	return level, found
}

// find returns the index of the level at exactly this ε and true. If there is none, it returns the
// index at which the level would be inserted, and false.
func (c *Chain[R]) find(epsilon privacy.Epsilon) (int, bool) {
	return slices.BinarySearchFunc(c.levels, epsilon,
		func(l Level[R], e privacy.Epsilon) int { return l.Epsilon.Compare(e) })
}

// Raise draws the response at an ε above the current one by the transition kernel (pan2024 Eq.
// (54), Algorithm 1) and records it. If the chain is empty, it draws a first response. The chain's
// privacy loss rises to the new ε. truth is the number of the object's true value. It must be the
// same in every call, and is not stored.
//
// Raise returns [privacy.ErrInvalid] and leaves the chain unchanged if the ε is not above the
// current one, if truth is not a value of the question, or if the chain is the zero value.
func (c *Chain[R]) Raise(s *Sampler, to privacy.Epsilon, truth int) (Level[R], error) {
	if c.encoding.raise == nil {
		return Level[R]{}, fmt.Errorf("%w: raising the zero Chain; create chains with NewChain", privacy.ErrInvalid)
	}
	response, err := c.encoding.raise(s, c.m, c.Current(), to, truth)
	return c.record(len(c.levels), to, response, err)
}

// Insert draws the response at an ε below the highest one, and records it. The draw uses only the
// responses just below and just above this ε. It has no privacy cost and needs no true value,
// because it is post-processing. Insert returns [privacy.ErrInvalid] and leaves the chain unchanged
// if ε is 0, if there is a level at this ε, or if there is none above it.
func (c *Chain[R]) Insert(s *Sampler, at privacy.Epsilon) (Level[R], error) {
	i, found := c.find(at)
	if found || i == len(c.levels) {
		return Level[R]{}, fmt.Errorf("%w: inserting at ε=%v needs a level above it and none at it",
			privacy.ErrInvalid, at)
	}
	var below Level[R]
	if i > 0 {
		below = c.levels[i-1]
	}
	response, err := c.encoding.between(s, c.m, below, at, c.levels[i])
	return c.record(i, at, response, err)
}

// record inserts a response as level i and returns the level. If err is not nil, it returns err and
// changes nothing.
func (c *Chain[R]) record(i int, at privacy.Epsilon, response R, err error) (Level[R], error) {
	if err != nil {
		return Level[R]{}, err
	}
	level := Level[R]{at, response}
	c.levels = slices.Insert(c.levels, i, level)
	return level, nil
}
