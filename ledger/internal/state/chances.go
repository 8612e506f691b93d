package state

import (
	"crypto/rand"

	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Chances are where draws take their randomness from, for one goroutine at a time.
type Chances struct {
	Sampler *rrchain.Sampler // for all other questions
	Outputs *finite.Sampler  // for questions with a mechanism of their own
}

// NewChances returns sources of randomness that share nothing with others.
func NewChances() Chances { return Chances{new(rrchain.Sampler), new(finite.Sampler)} }

// RandomBytes fills b from the operating system's generator.
func RandomBytes(b []byte) { _, _ = rand.Read(b) } // it never fails
