package event

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// InLog tells whether a log can have a time. It reaches from 1677 to 2262; those beyond would be
// encoded as others.
func InLog(at time.Time) bool { return at.Equal(time.Unix(0, at.UnixNano())) }

// LastYear is the last one that nanoseconds since 1970 in 64 bits reach the end of.
const LastYear = 2261

// CheckTime returns [errs.ErrClock] for a clock beyond [LastYear].
func CheckTime(now time.Time) error {
	if now.Year() > LastYear {
		return fmt.Errorf("%w: it says %v", errs.ErrClock, now)
	}
	return nil
}
