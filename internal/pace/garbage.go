package pace

import (
	"math"
	"os"
	"runtime/debug"
	"testing"
)

// Tests make much garbage, and keep little. With Go's own setting it is collected whenever there
// are 4 MB of it, which takes a quarter of the time. GOGC in the environment overrides this.
const (
	garbagePercent = 800
	garbageLimit   = 1 << 30 // bytes of memory, from which on it is collected more often
)

func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
		debug.SetMemoryLimit(garbageLimit)
	}
}

// UsualGarbage is for what measures time or memory: until it ends, garbage is collected as in other
// programs.
func UsualGarbage(t testing.TB) {
	t.Helper()
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
}
