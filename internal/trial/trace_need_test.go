package trial

import (
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
)

// Need ends a test where processes cannot be traced.
func Need(t testing.TB) {
	t.Helper()
	if !supported() {
		pace.Impossible(t, "no tracing of processes, which needs Linux on x86-64 and ptrace")
	}
}
