package testenv

import (
	"math"
	"os"
	"runtime/debug"
	"testing"
)

// Tests allocate much memory and keep little of it. With Go's default setting, a collection for
// each 4 MB of garbage takes a quarter of the time. GOGC in the environment overrides these values.
const (
	garbagePercent = 800
	garbageLimit   = 1 << 30 // bytes of memory above which garbage is collected more often
)

func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
		debug.SetMemoryLimit(garbageLimit)
	}
}

// DefaultGC sets Go's default settings of the garbage collector until the test ends. It is for
// tests that measure time or memory.
func DefaultGC(t testing.TB) {
	t.Helper()
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
}
