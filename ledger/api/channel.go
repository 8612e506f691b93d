package api

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Channel describes how a response depends on the true value. Estimates of shares need it.
type Channel struct {
	Encoding string `json:"encoding"` // of the question
	Values   int    `json:"values"`   // how many values the question has
	// P is the probability that a response counts for the true value of the object. In direct
	// encoding a response counts for the value that it is. In unary encoding it counts for each
	// value whose bit is 1. In finite encoding P and Q are 0, because the question's mechanism has
	// the probability of each output at each ε.
	P float64 `json:"p,omitempty"`
	// Q is the probability that a response counts for one given value that is not the true value.
	Q float64 `json:"q,omitempty"`
}

// Channel returns the channel of the responses to a question at ε. In direct encoding with m
// values, P is e^ε/(e^ε + m − 1), and Q is 1/(e^ε + m − 1). In unary encoding, P is 1/2, and Q is
// 1/(e^ε + 1). The channel does not depend on the lower levels of a chain. Channel returns
// [ErrInvalid] for ε = 0, and for a question with fewer than two values.
func (q Question) Channel(epsilon privacy.Epsilon) (Channel, error) {
	c := Channel{Encoding: q.Encoding, Values: len(q.Values)}
	if epsilon.IsZero() {
		return c, fmt.Errorf("channel: %w: ε is 0, and responses have an ε above 0", errs.ErrInvalid)
	}
	m := c.Values
	switch q.Encoding {
	case encodingFinite:
		return c, nil
	case encodingUnary:
		// In unary encoding, the bit of a value other than the true value is a randomized response
		// with two values.
		m = 2
	}
	// The kernel from ε = 0 to ε is the distribution of a response that is drawn from the true
	// value.
	first, err := rrchain.NewKernel(m, privacy.Epsilon{}, epsilon)
	if err != nil {
		return c, fmt.Errorf("channel at ε=%s: %w: %w", epsilon, errs.ErrInvalid, err)
	}
	c.P, c.Q = first.PAA, first.OneMinusPAA/float64(m-1)
	if q.Encoding == encodingUnary {
		c.P = 0.5
	}
	return c, nil
}
