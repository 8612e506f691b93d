package rrchain

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/privacy"
)

// Level is one response of a chain: the value handed out at one ε.
type Level struct {
	Epsilon  privacy.Epsilon // above 0
	Response int             // 0 to m−1
}

// Chain is everything one object ever answered to one question, by rising ε. Its privacy loss is
// the ε of its highest level, never the sum (pan2024 Theorem 3.5). The zero value is not usable;
// see [NewChain].
//
// A chain belongs to one truth. Raising it for another value is not an ε-differentially private
// release: a changed truth is a new question.
type Chain struct {
	m      int
	levels []Level
}

// NewChain returns a chain over m values with the levels recorded so far, in rising ε. It returns
// [ErrInvalid] unless 2 ≤ m ≤ [MaxValues], every ε is above 0 and above the one before, and every
// response is below m.
func NewChain(m int, recorded ...Level) (*Chain, error) {
	if err := checkValues(m); err != nil {
		return nil, err
	}
	last := privacy.Epsilon{}
	for i, level := range recorded {
		if !last.Less(level.Epsilon) {
			return nil, fmt.Errorf("%w: level %d at ε=%v does not lie above ε=%v", ErrInvalid, i, level.Epsilon, last)
		}
		if level.Response < 0 || level.Response >= m {
			return nil, fmt.Errorf("%w: level %d answers with value %d of %d", ErrInvalid, i, level.Response, m)
		}
		last = level.Epsilon
	}
	return &Chain{m: m, levels: slices.Clone(recorded)}, nil
}

// Values returns m, the number of values of the question.
func (c *Chain) Values() int { return c.m }

// Levels returns a copy of all levels by rising ε.
func (c *Chain) Levels() []Level { return slices.Clone(c.levels) }

// Current returns the highest level. Before the first response it returns the zero Level: uniform
// noise is a response at ε = 0.
func (c *Chain) Current() Level {
	if len(c.levels) == 0 {
		return Level{}
	}
	return c.levels[len(c.levels)-1]
}

// At returns the level recorded at exactly this ε, if there is one.
func (c *Chain) At(epsilon privacy.Epsilon) (Level, bool) {
	i, found := c.find(epsilon)
	if !found {
		return Level{}, false
	}
	return c.levels[i], true
}

func (c *Chain) find(epsilon privacy.Epsilon) (int, bool) {
	return slices.BinarySearchFunc(c.levels, epsilon, func(l Level, e privacy.Epsilon) int { return l.Epsilon.Compare(e) })
}

// Raise draws the response at an ε above the current one by the transition kernel (pan2024 Eq. (54),
// Algorithm 1; a first response when the chain is empty) and records it. The chain's privacy loss
// rises to that ε. truth is the object's true value; it must be the same in every call and is not
// kept. Raise returns [ErrInvalid], and leaves the chain as it was, when the ε is not above the
// current one or truth is not a value of the question.
func (c *Chain) Raise(s *Sampler, to privacy.Epsilon, truth int) (Level, error) {
	current := c.Current()
	if !current.Epsilon.Less(to) {
		return Level{}, fmt.Errorf("%w: a raise to ε=%v must lie above the current ε=%v", ErrInvalid, to, current.Epsilon)
	}
	if truth < 0 || truth >= c.m {
		// The number is left out: it is, or resembles, the truth.
		return Level{}, fmt.Errorf("%w: the true value is not one of the question's %d values", ErrInvalid, c.m)
	}
	level := Level{to, s.raise(c.m, current, to, truth)}
	c.levels = append(c.levels, level)
	return level, nil
}

// Degrade draws a response at an ε below every recorded one from the lowest response and records
// it. It costs nothing and needs no truth (it is post-processing). It returns [ErrInvalid] when the
// chain is empty, or ε is 0 or not below the lowest level.
func (c *Chain) Degrade(s *Sampler, to privacy.Epsilon) (Level, error) {
	if len(c.levels) == 0 || !to.Less(c.levels[0].Epsilon) {
		return Level{}, fmt.Errorf("%w: a degradation to ε=%v needs a recorded level above it and none below", ErrInvalid, to)
	}
	return c.derive(s, 0, to)
}

// Insert draws a response at an ε between two recorded ones from these two and records it. It costs
// nothing and needs no truth. It returns [ErrInvalid] unless there is a level below and one above,
// and none at this ε.
func (c *Chain) Insert(s *Sampler, at privacy.Epsilon) (Level, error) {
	i, found := c.find(at)
	if found || i == 0 || i == len(c.levels) {
		return Level{}, fmt.Errorf("%w: an insertion at ε=%v needs a level below it, one above it, and none at it", ErrInvalid, at)
	}
	return c.derive(s, i, at)
}

// derive draws and records the response at an ε just below level i.
func (c *Chain) derive(s *Sampler, i int, at privacy.Epsilon) (Level, error) {
	if at.IsZero() {
		return Level{}, fmt.Errorf("%w: a response at ε=0 is noise", ErrInvalid)
	}
	below := Level{}
	if i > 0 {
		below = c.levels[i-1]
	}
	level := Level{at, s.bridge(c.m, below, c.levels[i], at)}
	c.levels = slices.Insert(c.levels, i, level)
	return level, nil
}
