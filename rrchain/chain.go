package rrchain

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/privacy"
)

// Level is one response of a chain: what was handed out at one ε.
type Level[R any] struct {
	Epsilon  privacy.Epsilon // above 0
	Response R               // never drawn again at this ε
}

// Chain is everything one object ever answered to one question, by rising ε. Its privacy loss is
// the ε of its highest level, never the sum (pan2024 Theorem 3.5).
//
// R is the encoding of the responses: with int, a response is one of m values, a randomized
// response; with [Bits], it has a bit for each of the m values.
//
// A chain belongs to one truth. Raising it for another value is not an ε-differentially private
// release: a changed truth is a new question. The zero value is not usable; see [NewChain]. A Chain
// is not safe for concurrent use.
//
// # Unary encoding
//
// In a response of bits that of the true value is set with probability 1/2, and each other with
// 1/(e^ε+1). This is the optimized unary encoding of Wang, Blocki, Li and Jha, "Locally
// Differentially Private Protocols for Frequency Estimation" (USENIX Security 2017),
// ε-differentially private, and better than randomized response for questions with many values:
// from 6 values on for a small ε, 10 at ε = 1, 21 at ε = 2, and (1+√2)·e^ε for a large one, if the
// mean squared errors of the shares of all values are added.
//
// Raising it is ours. Let H be a row of hidden bits: 0 for each value but the true one, and a fair
// coin for that. A unary response at ε is a randomized response at ε (m = 2) to every bit of H, for
// a bit that is 0 is then set with probability 1/(e^ε+1) and a coin with 1/2. So the chain of every
// bit is a chain of randomized responses, and has its properties: each response has the law of its
// own ε, and by Lemma 3.1 the ones below the highest say nothing more about H, hence about the
// truth. All responses together cost the largest ε, colluding buyers gain nothing, and a response
// below or between others is drawn from these alone. The coin is not kept: it is a response to the
// last response and drawn again from it for each raise, with the probability that Bayes' rule
// gives.
type Chain[R int | Bits] struct {
	m        int
	levels   []Level[R]
	encoding encoding[R]
}

// encoding is how the responses of a chain are checked and drawn.
type encoding[R any] struct {
	check   func(response R, m int) error
	raise   func(s *Sampler, m int, current Level[R], to privacy.Epsilon, truth int) (R, error)
	between func(s *Sampler, m int, below Level[R], at privacy.Epsilon, above Level[R]) (R, error)
}

func encodingOf[R int | Bits]() (e encoding[R]) {
	switch e := any(&e).(type) {
	case *encoding[int]:
		*e = encoding[int]{checkResponse, (*Sampler).Raise, (*Sampler).Between}
	case *encoding[Bits]:
		*e = encoding[Bits]{checkLength, (*Sampler).RaiseUnary, (*Sampler).BetweenBits}
	}
	return e
}

// NewChain returns a chain over m values with the levels recorded so far, in rising ε. It returns
// [privacy.ErrInvalid] unless 2 ≤ m ≤ 2²⁰, every ε is above 0 and above the one before, and every
// response is below m or, in unary encoding, has m bits.
func NewChain[R int | Bits](m int, recorded ...Level[R]) (*Chain[R], error) {
	if err := checkValues(m); err != nil {
		return nil, err
	}
	c := &Chain[R]{m, slices.Clone(recorded), encodingOf[R]()}
	last := privacy.Epsilon{}
	for i, level := range recorded {
		if !last.Less(level.Epsilon) {
			return nil, fmt.Errorf("%w: level %d at ε=%v does not lie above ε=%v",
				privacy.ErrInvalid, i, level.Epsilon, last)
		}
		if err := c.encoding.check(level.Response, m); err != nil {
			return nil, fmt.Errorf("%w: level %d %w", privacy.ErrInvalid, i, err)
		}
		last = level.Epsilon
	}
	return c, nil
}

// Levels returns a copy of all levels by rising ε.
func (c *Chain[R]) Levels() []Level[R] { return slices.Clone(c.levels) }

// Current returns the highest level. Before the first response it returns the zero level: noise is
// a response at ε = 0.
func (c *Chain[R]) Current() (highest Level[R]) {
	if len(c.levels) > 0 {
		highest = c.levels[len(c.levels)-1]
	}
	return highest
}

// At returns the level recorded at exactly this ε, if there is one.
func (c *Chain[R]) At(epsilon privacy.Epsilon) (level Level[R], found bool) {
	i, found := c.find(epsilon)
	if found {
		level = c.levels[i]
	}
	return level, found
}

func (c *Chain[R]) find(epsilon privacy.Epsilon) (int, bool) {
	return slices.BinarySearchFunc(c.levels, epsilon,
		func(l Level[R], e privacy.Epsilon) int { return l.Epsilon.Compare(e) })
}

// Raise draws the response at an ε above the current one by the transition kernel (pan2024 Eq.
// (54), Algorithm 1; a first response when the chain is empty) and records it. The chain's privacy
// loss rises to that ε. truth is the number of the object's true value; it must be the same in
// every call and is not kept. Raise returns [privacy.ErrInvalid], and leaves the chain as it was,
// when the ε is not above the current one, truth is not a value of the question, or the chain is
// the zero value.
func (c *Chain[R]) Raise(s *Sampler, to privacy.Epsilon, truth int) (Level[R], error) {
	if c.encoding.raise == nil {
		return Level[R]{}, fmt.Errorf("%w: a raise of the zero Chain; NewChain makes chains", privacy.ErrInvalid)
	}
	response, err := c.encoding.raise(s, c.m, c.Current(), to, truth)
	return c.record(len(c.levels), to, response, err)
}

// Insert draws the response at an ε below the highest one from the responses just below and just
// above it, and records it. It costs nothing and needs no truth: it is post-processing. Insert
// returns [privacy.ErrInvalid], and leaves the chain as it was, when ε is 0, there is a level at
// this ε, or none above it.
func (c *Chain[R]) Insert(s *Sampler, at privacy.Epsilon) (Level[R], error) {
	i, found := c.find(at)
	if found || i == len(c.levels) {
		return Level[R]{}, fmt.Errorf("%w: an insertion at ε=%v needs a level above it, and none at it",
			privacy.ErrInvalid, at)
	}
	var below Level[R]
	if i > 0 {
		below = c.levels[i-1]
	}
	response, err := c.encoding.between(s, c.m, below, at, c.levels[i])
	return c.record(i, at, response, err)
}

// record makes a response, if it was drawn, the level at place i.
func (c *Chain[R]) record(i int, at privacy.Epsilon, response R, err error) (Level[R], error) {
	if err != nil {
		return Level[R]{}, err
	}
	level := Level[R]{at, response}
	c.levels = slices.Insert(c.levels, i, level)
	return level, nil
}
