package rrchain

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
)

// Level is one randomized response of a chain: the value handed out at one ε, from 0 to m−1.
type Level = LevelOf[int]

// Chain is everything one object ever answered to one question, by rising ε. Its privacy loss is
// the ε of its highest level, never the sum (pan2024 Theorem 3.5). The zero value is not usable;
// see [NewChain].
//
// A chain belongs to one truth. Raising it for another value is not an ε-differentially private
// release: a changed truth is a new question.
type Chain struct {
	m int
	ladder[int]
}

// NewChain returns a chain over m values with the levels recorded so far, in rising ε. It returns
// [ErrInvalid] unless 2 ≤ m ≤ [MaxValues], every ε is above 0 and above the one before, and every
// response is below m.
func NewChain(m int, recorded ...Level) (*Chain, error) {
	if err := checkValues(m); err != nil {
		return nil, err
	}
	levels, err := newLadder(recorded, func(response int) error {
		return checkResponse(response, m)
	}, func(s *Sampler, below, above Level, at privacy.Epsilon) int {
		return s.draw(between(m, below.Epsilon, at, above.Epsilon), above.Response, below.Response)
	})
	if err != nil {
		return nil, err
	}
	return &Chain{m, levels}, nil
}

// Values returns m, the number of values of the question.
func (c *Chain) Values() int { return c.m }

// Raise draws the response at an ε above the current one by the transition kernel (pan2024 Eq.
// (54), Algorithm 1; a first response when the chain is empty) and records it. The chain's privacy
// loss rises to that ε. truth is the object's true value; it must be the same in every call and is
// not kept. Raise returns [ErrInvalid], and leaves the chain as it was, when the ε is not above the
// current one or truth is not a value of the question.
func (c *Chain) Raise(s *Sampler, to privacy.Epsilon, truth int) (Level, error) {
	response, err := s.Raise(c.m, c.Current(), to, truth)
	if err != nil {
		return Level{}, err
	}
	return c.put(to, response), nil
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
		return fmt.Errorf("%w: the true value is not one of the question's %d values", ErrInvalid, m)
	}
	return nil
}
