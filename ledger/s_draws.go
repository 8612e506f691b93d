package ledger

import (
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// chances are where draws take their randomness from, for one goroutine at a time.
type chances struct {
	sampler *rrchain.Sampler
	outputs *finite.Sampler // for questions with a mechanism of their own
}

func newChances() chances { return chances{rrchain.NewSampler(), finite.NewSampler()} }
