package graph

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
)

// InputError describes what is wrong with the description of a graph or a mechanism, and where. It
// wraps [privacy.ErrInvalid]. For a file, its text and Reason name the line, and contain nothing
// from the file.
type InputError struct {
	File   string // "nodes", "edges" or "boundary" when read from CSV
	Line   int    // of that file, from 1; 0 if not read from a file
	Edge   int    // number of the edge, from 1; 0 if not about one edge of a list
	Vertex string // id or number of the vertex; "" if not about one
	Reason string // what is wrong there
}

// Error returns the place and the reason. For a file, it names the line, but no id, because an id
// is from the file.
func (e *InputError) Error() string {
	where := ""
	if e.Line > 0 {
		where += fmt.Sprintf("%s line %d: ", e.File, e.Line)
	}
	if e.Edge > 0 && e.Line == 0 {
		where += fmt.Sprintf("edge %d: ", e.Edge)
	}
	if e.Vertex != "" && e.Line == 0 { // with a wrong column name, a cell could hold private data
		where += fmt.Sprintf("vertex %q: ", e.Vertex)
	}
	return where + e.Reason
}

// Unwrap returns [privacy.ErrInvalid].
func (e *InputError) Unwrap() error { return privacy.ErrInvalid }

// ConflictError means that no private mechanism has the given laws, and names two vertices: at To,
// one of Outputs has a higher probability than is possible at that distance from From. It wraps
// [privacy.ErrInvalid].
//
// Two other conflicts have no outputs: laws of more than two outputs that exclude each other only
// together (Others), and a boundary without laws (Missing).
type ConflictError struct {
	From, To int   // the vertices
	Outputs  []int // the outputs whose probabilities are summed, in ascending order
	Distance int   // the number of steps of a path between both; for a shorter path, Bound would be lower

	FromProbability, ToProbability float64 // the summed probabilities of Outputs
	Bound                          float64 // the largest possible ToProbability

	Others  []int // further vertices whose laws take part, in ascending order
	Missing bool  // From and To are neighbours of different colours, and neither has a law
}

// Error describes one of the three conflicts: a boundary without laws, laws that exclude each other
// only together, or two vertices.
func (e *ConflictError) Error() string {
	switch {
	case e.Missing:
		return fmt.Sprintf("vertices %d and %d are neighbours with different true answers, and neither has a given law",
			e.From, e.To)
	case len(e.Outputs) == 0:
		return fmt.Sprintf("no private mechanism has the laws given at vertices %v",
			append([]int{e.From, e.To}, e.Others...))
	}
	return fmt.Sprintf("vertex %d has outputs %v with probability %v; at distance %d, vertex %d may have them with "+
		"at most %v, but has them with %v",
		e.From, e.Outputs, e.FromProbability, e.Distance, e.To, e.Bound, e.ToProbability)
}

// Unwrap returns [privacy.ErrInvalid].
func (e *ConflictError) Unwrap() error { return privacy.ErrInvalid }

// invalid returns an error that wraps [privacy.ErrInvalid].
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{privacy.ErrInvalid}, args...)...)
}

// faultAt returns an [*InputError] about vertex v.
func faultAt(v int, format string, args ...any) error {
	return &InputError{Vertex: fmt.Sprint(v), Reason: fmt.Sprintf(format, args...)}
}
