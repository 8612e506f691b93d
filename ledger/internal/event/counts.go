package event

import (
	"github.com/sluicedp/sluice/ledger/api"
)

// The indexes of [Counts] for a sweep: the request that draws, for every chain, what its policy has
// released so far.
const (
	SweepRaised = iota
	SweepUnchanged
)

// SweptQuestion is the result of a sweep in one question. The refusals are in the order of the log.
type SweptQuestion struct {
	SweptCount
	Refusals []api.Refusal // with object names; without those whose events are erased
}

// Verdict is what a request does for an object that is not refused.
type Verdict uint8

const (
	Drawn   Verdict = iota // drawn from the true value, above the current level
	Reused                 // recorded before
	Derived                // derived without the true value, below the current level
)
