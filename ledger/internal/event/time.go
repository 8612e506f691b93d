package event

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// InLog reports whether a log can contain a time. The encoding, 64-bit nanoseconds since 1970,
// covers 1677 to 2262. A time outside would overflow, and be encoded as another time.
func InLog(at time.Time) bool { return at.Equal(time.Unix(0, at.UnixNano())) }

// LastYear is the last year that is wholly representable in 64-bit nanoseconds since 1970.
const LastYear = 2261

// CheckTime returns [errs.ErrClock] if the clock is after [LastYear].
func CheckTime(now time.Time) error {
	if now.Year() > LastYear {
		return fmt.Errorf("%w: it shows %v, which is too late", errs.ErrClock, now)
	}
	return nil
}
