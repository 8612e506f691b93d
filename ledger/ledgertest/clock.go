package ledgertest

import (
	"sync"
	"time"
)

// Begin returns the default time at which a ledger is created and its clock starts: noon on 1 March
// 2026, UTC.
func Begin() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// Clock is a clock that changes only by Set and Advance. Several goroutines may use it at once.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that is set to a time.
func NewClock(at time.Time) *Clock { return &Clock{now: at} }

// Now returns the time of the clock. It can be used as
// [github.com/sluicedp/sluice/ledger.Options].Now.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set sets the clock to a time, later or earlier than before.
func (c *Clock) Set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = at
}

// Advance adds a duration to the clock, which may be negative, and returns the new time.
func (c *Clock) Advance(by time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
	return c.now
}
