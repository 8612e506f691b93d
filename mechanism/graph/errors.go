package graph

import (
	"errors"
	"fmt"
)

// ErrInvalid says that an argument is outside the domain of a function; the error that wraps it
// says which and why.
var ErrInvalid = errors.New("invalid argument")

// InputError says what is wrong with the description of a graph or a mechanism, and where. It wraps
// [ErrInvalid]. Of a file, its text and Reason name the line, and nothing that is in the file.
type InputError struct {
	File   string // "nodes", "edges" or "boundary" when read from CSV
	Line   int    // of that file, from 1; 0 if not read from a file
	Edge   int    // number of the edge, from 1; 0 if not about one edge of a list
	Vertex string // id or number of the vertex; "" if not about one
	Reason string // what is wrong there
}

func (e *InputError) Error() string {
	where := ""
	if e.Line > 0 {
		where += fmt.Sprintf("%s line %d: ", e.File, e.Line)
	}
	if e.Edge > 0 && e.Line == 0 {
		where += fmt.Sprintf("edge %d: ", e.Edge)
	}
	if e.Vertex != "" && e.Line == 0 { // a cell could be anything if a column is named wrongly
		where += fmt.Sprintf("vertex %q: ", e.Vertex)
	}
	return where + e.Reason
}

// Unwrap returns [ErrInvalid].
func (e *InputError) Unwrap() error { return ErrInvalid }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// faultAt is an error about a vertex.
func faultAt[V any](v V, format string, args ...any) error {
	return &InputError{Vertex: fmt.Sprint(v), Reason: fmt.Sprintf(format, args...)}
}
