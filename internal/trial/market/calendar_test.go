package market

import (
	"sync"
	"time"
)

// calendar is the clock of the month. Its days are counted from 1, and it begins tomorrow, because the
// ledger's time cannot go back behind the creation of its file.
type calendar struct {
	first time.Time // midnight before day 1
	mu    sync.Mutex
	now   time.Time
}

func newCalendar() *calendar {
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	return &calendar{first: first, now: first}
}

// Now is the clock that the ledger goes by.
func (c *calendar) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// set puts the clock to a full hour of a day.
func (c *calendar) set(day, hour int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.midnight(day).Add(time.Duration(hour) * time.Hour)
}

// midnight returns the beginning of a day.
func (c *calendar) midnight(day int) time.Time { return c.first.AddDate(0, 0, day-1) }

// day returns the day of an instant.
func (c *calendar) day(at time.Time) int { return int(at.Sub(c.first)/(24*time.Hour)) + 1 }

func (c *calendar) today() int { return c.day(c.Now()) }
