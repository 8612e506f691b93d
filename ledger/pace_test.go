package ledger

import (
	"math"
	"os"
	"runtime/debug"
	"testing"

	tests "github.com/sluicedp/sluice/internal/pace" // pace is what an audit keeps to
)

// How much the tests do, and how fast.

// Tests make much garbage, and keep little. With Go's own setting it is collected whenever there are 4 MB of it, which
// takes a quarter of the time. GOGC in the environment overrides this.
const (
	garbagePercent = 800
	garbageLimit   = 1 << 30 // bytes of memory, from which on it is collected more often
)

func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
		debug.SetMemoryLimit(garbageLimit)
	}
	os.Exit(m.Run())
}

// usualGarbage is for what measures time or memory: until it ends, garbage is collected as in other programs.
func usualGarbage(t testing.TB) {
	t.Helper()
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
}

// hurried tells whether tests are to be quicker than usual.
func hurried() bool { return tests.Hurried() }

// oneIn returns how many of an enumeration of like cases a test takes at a time: in its deep form all one by one, and else one in
// so many.
func oneIn(many int) int { return tests.Stride(many, many) }
