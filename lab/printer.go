package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"github.com/sluicedp/sluice/privacy"
)

// The exit codes.
const (
	done = iota
	unexpected
	misuse
)

// fault is an error with its kind, for programs, and a hint, for people.
type fault struct {
	kind string
	hint string
	err  error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// usageError is an error in the command line.
func usageError(hint, format string, args ...any) error {
	return &fault{"usage", hint, fmt.Errorf(format, args...)}
}

// inputError is an error in a file that the command line names.
func inputError(hint, format string, args ...any) error {
	return &fault{"input", hint, fmt.Errorf(format, args...)}
}

// result is what a command prints. Its JSON form has the documented keys.
type result interface {
	// Table writes the result for people. Tabs align the columns.
	Table(w io.Writer)
}

// printer prints results and errors, for people or as JSON.
type printer struct {
	stdout, stderr io.Writer
	json           bool
	quiet          bool // no progress bar
}

func (p *printer) print(r result) error {
	if p.json {
		return writeJSON(p.stdout, r)
	}
	aligned := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	r.Table(aligned)
	return aligned.Flush()
}

// fail prints an error and returns the exit code.
func (p *printer) fail(err error) int {
	class, code := classify(err)
	message := err.Error()
	if class.kind == "interrupted" {
		message = class.kind
	}
	// An error in writing to standard error cannot be reported.
	if p.json {
		details := map[string]string{}
		if class.hint != "" {
			details["hint"] = class.hint
		}
		_ = writeJSON(p.stderr, map[string]any{"error": map[string]any{"kind": class.kind, "message": message,
			"details": details}})
		return code
	}
	if class.hint != "" {
		message += " (hint: " + class.hint + ")"
	}
	_, _ = fmt.Fprintln(p.stderr, oneLine("lab: "+message))
	return code
}

func classify(err error) (fault, int) {
	var classed *fault
	switch {
	case errors.Is(err, context.Canceled):
		return fault{kind: "interrupted"}, unexpected
	case errors.As(err, &classed):
		return *classed, misuse
	case errors.Is(err, privacy.ErrInvalid):
		return fault{kind: "invalid"}, misuse
	}
	return fault{kind: "unexpected"}, unexpected
}

// writeJSON writes one JSON value on one line.
func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// number is a float64 with 17 significant digits in JSON, so that the same number can be read back.
// NaN and infinities are null.
type number float64

// MarshalJSON implements [json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 17, 64), nil
}

func numbers(values []float64) []number {
	out := make([]number, len(values))
	for i, value := range values {
		out[i] = number(value)
	}
	return out
}
