package api

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Channel describes how a response depends on the true value: what is needed to estimate shares
// from responses.
type Channel struct {
	Encoding string `json:"encoding"` // of the question
	Values   int    `json:"values"`   // how many values the question has
	// P is the probability that a response counts for the object's true value. In direct encoding a
	// response counts for the value that it is; in unary encoding for each value whose bit is 1. In
	// finite encoding P and Q are 0: the question's mechanism has the probability of each output at
	// each ε.
	P float64 `json:"p,omitempty"`
	// Q is the probability that a response counts for any one value that is not the true one.
	Q float64 `json:"q,omitempty"`
}

// Channel returns the channel of the responses to a question at ε. It does not depend on the levels
// before. It returns [ErrInvalid] for ε = 0, and for fewer than two values.
func (q Question) Channel(epsilon privacy.Epsilon) (Channel, error) {
	c := Channel{Encoding: q.Encoding, Values: len(q.Values)}
	if epsilon.IsZero() {
		return c, fmt.Errorf("channel: %w: responses have an ε above 0", errs.ErrInvalid)
	}
	m := c.Values
	switch q.Encoding {
	case encodingFinite:
		return c, nil
	case encodingUnary:
		m = 2 // each bit that is not the true value's is a response of two values
	}
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
