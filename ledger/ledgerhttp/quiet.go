package ledgerhttp

import (
	"sync/atomic"
	"time"
)

// These constants limit the log lines that clients without a valid token can cause.
const (
	quietRate  = 1 // per second, on average
	quietBurst = 20
)

// quiet limits the rate of log lines that clients without a valid token can cause, and counts the
// lines that it suppresses.
type quiet struct {
	lines *purses
	left  atomic.Uint64 // lines suppressed since the last one that was written
}

func newQuiet(now func() time.Time) *quiet {
	return &quiet{lines: newPurses(quietRate, quietBurst, now)}
}

// allow reports whether a line may be written now. If so, left is the number of lines suppressed
// since the last one.
func (q *quiet) allow() (left uint64, may bool) {
	if q.lines.take(principal{}, 1) > 0 {
		q.left.Add(1)
		return 0, false
	}
	return q.left.Swap(0), true
}
