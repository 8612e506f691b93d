package ledger

import (
	"testing"

	tests "github.com/sluicedp/sluice/internal/testenv" // pace is what an audit keeps to
)

// How much the tests do, and how fast.

// usualGarbage is for what measures time or memory: until it ends, garbage is collected as in other
// programs.
func usualGarbage(t testing.TB) {
	t.Helper()
	tests.DefaultGC(t)
}

// hurried tells whether tests are to be quicker than usual.
func hurried() bool { return tests.Short() }

// oneIn returns how many of an enumeration of like cases a test takes at a time: in its deep form
// all one by one, and else one in so many.
func oneIn(many int) int { return tests.Stride(many, many) }
