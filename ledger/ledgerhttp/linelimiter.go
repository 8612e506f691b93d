package ledgerhttp

import (
	"sync/atomic"
	"time"
)

// These constants limit the log lines that clients without a valid token can cause.
const (
	lineRate  = 1 // per second, on average
	lineBurst = 20
)

// lineLimiter limits the rate of log lines that clients without a valid token can cause, and counts
// the lines that it suppresses.
type lineLimiter struct {
	limiter    *rateLimiter
	suppressed atomic.Uint64 // lines suppressed since the last one that was written
}

func newLineLimiter(now func() time.Time) *lineLimiter {
	return &lineLimiter{limiter: newRateLimiter(lineRate, lineBurst, now)}
}

// allow reports whether a line may be written now. If so, left is the number of lines suppressed
// since the last line that was written. If not, allow counts this line as suppressed.
func (l *lineLimiter) allow() (left uint64, may bool) {
	if l.limiter.take(principal{}, 1) > 0 { // one bucket for all clients, because none is identified
		l.suppressed.Add(1)
		return 0, false
	}
	return l.suppressed.Swap(0), true
}
