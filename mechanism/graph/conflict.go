package graph

import "fmt"

// ConflictError says that no mechanism has the given probabilities, because of those of two
// vertices: the probability of an output at To is above the largest that is possible at that
// distance from From (torkamani2023 Lemma 1). It wraps [ErrInvalid].
type ConflictError struct {
	From, To int // the vertices
	Output   int // whose probability it is
	Distance int // the number of steps of a path between both; if another is shorter, Bound is lower yet

	FromProbability, ToProbability float64 // of Output
	Bound                          float64 // Upper^Distance(FromProbability)
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("vertex %d has output %d with probability %v; at distance %d, vertex %d may have it with "+
		"at most %v, but has it with %v",
		e.From, e.Output, e.FromProbability, e.Distance, e.To, e.Bound, e.ToProbability)
}

// Unwrap returns [ErrInvalid].
func (e *ConflictError) Unwrap() error { return ErrInvalid }

// conflict describes the chances of an output at two vertices that exclude each other. If it is the
// opposite output whose probability is too large, in the other direction, it names that.
func conflict(steps *stepper, e edge, distance int, from, to chance) error {
	bound := walk(steps, from, distance)
	if to.yes <= bound.yes+Tolerance {
		e = edge{e.to, e.from, 1 - e.output}
		from, to = to.opposite(), from.opposite()
		bound = walk(steps, from, distance)
	}
	if err := steps.fault; err != nil {
		return err
	}
	return &ConflictError{e.from, e.to, e.output, distance, from.yes, to.yes, bound.yes}
}
