package ledgerhttp

import (
	"sync/atomic"
	"time"
)

// How many lines of the log callers without a token can cause.
const (
	quietRate  = 1 // each second, in the long run
	quietBurst = 20
)

// quiet bounds lines of the log that callers without a token cause, and counts those that are left
// out.
type quiet struct {
	lines *purses
	left  atomic.Uint64 // out since the last line
}

func newQuiet(now func() time.Time) *quiet {
	return &quiet{lines: newPurses(quietRate, quietBurst, now)}
}

// allow reports whether there may be a line now, and how many were left out since the last one.
func (q *quiet) allow() (left uint64, may bool) {
	if q.lines.take(principal{}, 1) > 0 {
		q.left.Add(1)
		return 0, false
	}
	return q.left.Swap(0), true
}
