package rrchain

import (
	"math"
	"strings"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// UnaryChain is everything one object ever answered to a question in unary encoding, by rising ε. A
// response has a bit for each value: that of the true value is set with probability 1/2, each other
// with 1/(e^ε+1). This is the optimized unary encoding of Wang, Blocki, Li and Jha, "Locally
// Differentially Private Protocols for Frequency Estimation" (USENIX Security 2017),
// ε-differentially private, and for questions with many values better than randomized response; see
// [UnaryFrom].
//
// Raising it is ours. Let H be a row of hidden bits: 0 for each value but the true one, and a fair
// coin for that. A unary response at ε is a randomized response at ε (m = 2) to every bit of H, for
// a bit that is 0 is then set with probability 1/(e^ε+1) and a coin with 1/2. So the chain of every
// bit is a chain of randomized responses, and has its properties: each response has the law of its
// own ε, and by Lemma 3.1 the ones below the highest say nothing more about H, hence about the
// truth. All responses together cost the largest ε, colluding buyers gain nothing, and a response
// below or between others is drawn from these alone. Nobody has to keep the coin: it is a response
// to the last response and drawn anew from it for each raise, with the probability that Bayes' rule
// gives.
//
// A chain belongs to one truth. The zero value is not usable; see [NewUnaryChain].
type UnaryChain struct{ bitChain }

// NewUnaryChain returns a chain over m values with the levels recorded so far, in rising ε. It
// returns [ErrInvalid] unless 2 ≤ m ≤ [MaxValues], every ε is above 0 and above the one before, and
// every response has m bits.
func NewUnaryChain(m int, recorded ...BitLevel) (*UnaryChain, error) {
	if err := checkValues(m); err != nil {
		return nil, err
	}
	c, err := newBitChain(m, recorded)
	if err != nil {
		return nil, err
	}
	return &UnaryChain{c}, nil
}

// Raise draws the response at an ε above the current one and records it. The chain's privacy loss
// rises to that ε. truth is the number of the object's true value; it must be the same in every
// call and is not kept. Raise returns [ErrInvalid], and leaves the chain as it was, when the ε is
// not above the current one or truth is not a value of the question.
func (c *UnaryChain) Raise(s *Sampler, to privacy.Epsilon, truth int) (BitLevel, error) {
	response, err := s.RaiseUnary(c.n, c.Current(), to, truth)
	if err != nil {
		return BitLevel{}, err
	}
	return c.put(to, response), nil
}

// hidden draws the hidden bits given the truth and the highest response. Nothing about its time or
// the memory it touches depends on the truth.
func (s *Sampler) hidden(m int, current BitLevel, truth int) string {
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
func (s *Sampler) coin(current BitLevel, truth int) int {
	if current.Epsilon.IsZero() {
		return int(s.bits.Uint64() & 1)
	}
	last := byte(0)
	for i := range len(current.Response.packed) {
		last |= current.Response.packed[i] & byte(exact.EqualMask(uint64(i), uint64(truth>>3)))
	}
	return s.draw(upwards(2, privacy.Epsilon{}, current.Epsilon), int(last>>(truth&7)&1), 0)
}

// UnaryFrom returns the smallest number of values for which unary encoding at an ε estimates better
// than randomized response, or [MaxValues]+1 if there is none.
//
// Better means a smaller mean squared error summed over all values. That sum does not depend on how
// common the values are: with E = e^ε it is (m−1)(2E+m−2)/(n(E−1)²) for randomized response and
// ((E+1)²+4(m−1)E)/(n(E−1)²) for unary encoding. The two meet at m = 1 +
// (2E+1+√((2E+1)²+4(E+1)²))/2: 6 values for a small ε, 10 at ε=1, 21 at ε=2, and (1+√2)E for a
// large one. (For a single rare value, which is what Wang et al. compare, they meet at 3E+2.)
func UnaryFrom(epsilon privacy.Epsilon) int {
	e := math.Exp(min(epsilon.Float64(), 20)) // far above MaxValues already
	meet := 1 + (2*e+1+math.Hypot(2*e+1, 2*(e+1)))/2
	return min(int(math.Floor(meet))+1, MaxValues+1)
}
