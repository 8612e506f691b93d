package ledger

import (
	"fmt"
	"time"
)

// inLog tells whether a log can have a time. Those beyond would be encoded as others.
func inLog(at time.Time) bool { return at.Equal(time.Unix(0, at.UnixNano())) }

// lastYear is the last one that nanoseconds since 1970 in 64 bits reach the end of.
const lastYear = 2261

// checkTime refuses a clock beyond it.
func checkTime(now time.Time) error {
	if now.Year() > lastYear {
		return fmt.Errorf("%w: it says %v", ErrClock, now)
	}
	return nil
}
