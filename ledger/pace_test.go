package ledger

import (
	"testing"

	tests "github.com/sluicedp/sluice/internal/testenv" // pace is what an audit keeps to
)

// How much the tests do, and how fast.

// usualGarbage is for tests that measure time or memory: until the test ends, garbage is collected
// as in other programs.
func usualGarbage(t testing.TB) {
	t.Helper()
	tests.DefaultGC(t)
}

// hurried reports whether tests are to be quicker than usual.
func hurried() bool { return tests.Short() }

// oneIn returns the step through an enumeration of similar cases: 1 in the deep form of the tests,
// and otherwise many.
func oneIn(many int) int { return tests.Stride(many, many) }
