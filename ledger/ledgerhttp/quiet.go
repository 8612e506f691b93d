package ledgerhttp

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How many lines of the log callers without a token can cause.
const (
	quietRate  = 1 // each second, in the long run
	quietBurst = 20
)

// quiet bounds lines of the log that callers without a token cause, and counts those that are left
// out.
type quiet struct {
	mu    sync.Mutex
	rate  *rate.Limiter
	count uint64 // left out since the last line
}

func newQuiet() *quiet { return &quiet{rate: rate.NewLimiter(quietRate, quietBurst)} }

// allow tells whether there may be a line now, and how many were left out since the last one.
func (q *quiet) allow(now time.Time) (left uint64, may bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.rate.AllowN(now, 1) {
		q.count++
		return 0, false
	}
	left, q.count = q.count, 0
	return left, true
}
