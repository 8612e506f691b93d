package ledger

// The tallies of a sweep.
const (
	sweepRaised = iota
	sweepUnchanged
)

// sweptQuestion is what a sweep did in one question.
type sweptQuestion struct {
	sweptCount
	refusals []Refusal
}

// verdict is what a request means for an object that is not refused.
type verdict uint8

const (
	drawn    verdict = iota // above the current level, from the truth
	reused                  // recorded already
	derived                 // below the current level, without the truth
	verdicts = 3
)
