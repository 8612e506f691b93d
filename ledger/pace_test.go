package ledger

import (
	"os"
	"runtime/debug"
	"testing"
)

// How much the tests do, and how fast.

// exhaustive, in the environment, has the enumerations leave nothing out: SLUICE_EXHAUSTIVE=1 go test -timeout 30m ./ledger
const exhaustive = "SLUICE_EXHAUSTIVE"

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
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

// hurried tells whether long tests are to be short ones. So they are under the race detector, which makes them about
// six times as slow, and in which a test in a single goroutine has nothing to find that it does not find without.
func hurried() bool { return os.Getenv(exhaustive) == "" && (raceEnabled || testing.Short()) }

// oneIn returns how many steps an enumeration of like cases takes at a time: the one number usually, the other if
// hurried. Whoever takes steps lets their places vary, so that cases of each kind are met somewhere.
func oneIn(usual, inHurry int) int {
	switch {
	case os.Getenv(exhaustive) != "":
		return 1
	case hurried():
		return inHurry
	}
	return usual
}
