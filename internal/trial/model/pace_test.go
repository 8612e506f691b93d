package model

import (
	"os"
	"runtime/debug"
	"testing"
)

// Games make much garbage, and keep little: it is collected less often than by Go's own setting, which GOGC in the
// environment overrides.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
		debug.SetMemoryLimit(1 << 30)
	}
	os.Exit(m.Run())
}
