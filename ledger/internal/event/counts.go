package event

import (
	"github.com/sluicedp/sluice/ledger/api"
)

// The tallies of a sweep.
const (
	SweepRaised = iota
	SweepUnchanged
)

// SweptQuestion is what a sweep did in one question, with the refusals in the order of the log.
type SweptQuestion struct {
	SweptCount
	Refusals []api.Refusal // by name, as far as their events are not erased
}

// Verdict is what a request means for an object that is not refused.
type Verdict uint8

const (
	Drawn   Verdict = iota // above the current level, from the truth
	Reused                 // recorded already
	Derived                // below the current level, without the truth
)
