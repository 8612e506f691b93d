package ledgertest

import (
	"sync"
	"time"
)

// Begin is when a ledger is created, and its clock begins, if a test does not say otherwise: noon
// on 1 March 2026, UTC.
func Begin() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// Clock is a clock that goes only when it is told to. It may be used concurrently.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at a time.
func NewClock(at time.Time) *Clock { return &Clock{now: at} }

// Now returns the time of the clock. It serves as [github.com/sluicedp/sluice/ledger.Options].Now.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set sets the clock, forward or back.
func (c *Clock) Set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = at
}

// Advance sets the clock forward, or back by less than nothing, and returns its new time.
func (c *Clock) Advance(by time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
	return c.now
}
