package hosts

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// clock is one that the tests set, forwards and back, and that remembers what it showed.
type clock struct {
	ticks   *atomic.Int64 // the order of all that happens in a history
	now     atomic.Int64  // in minutes since the opening
	mu      sync.Mutex
	changes []change
}

// change is a time that a clock showed, at the earliest from one tick on and at the latest until another.
type change struct{ from, until, shown int64 }

func newClock(ticks *atomic.Int64) *clock {
	return &clock{ticks: ticks, changes: []change{{until: forEver}}}
}

const forEver = 1 << 62

func (c *clock) time() time.Time { return minute(c.now.Load()) }

func (c *clock) set(shown int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, change{c.ticks.Add(1), forEver, shown})
	c.now.Store(shown)
	c.changes[len(c.changes)-2].until = c.ticks.Add(1)
}

// during returns what the clock may have shown between two ticks.
func (c *clock) during(from, until int64) (shown window) {
	for _, one := range slices.Backward(c.changes) {
		if one.until < from {
			break
		}
		if one.from < until && !slices.Contains(shown, one.shown) {
			shown = append(shown, one.shown)
		}
	}
	return shown
}

// latest returns the latest time that the clock can have shown before a tick.
func (c *clock) latest(before int64) (shown int64) {
	for _, one := range c.changes {
		if one.from < before {
			shown = max(shown, one.shown)
		}
	}
	return shown
}
