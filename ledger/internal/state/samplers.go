package state

import (
	"crypto/rand"

	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Samplers has the samplers that responses are drawn with. One goroutine may use it at a time.
type Samplers struct {
	Values  *rrchain.Sampler // for all other questions
	Outputs *finite.Sampler  // for questions with a mechanism of their own
}

// NewSamplers returns samplers that share no state with others.
func NewSamplers() Samplers { return Samplers{new(rrchain.Sampler), new(finite.Sampler)} }

// RandomBytes fills b from the operating system's generator.
func RandomBytes(b []byte) { _, _ = rand.Read(b) } // it never returns an error
