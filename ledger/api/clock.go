package api

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// ClockError says that the clock is so far ahead of the log that it may well be wrong. Nothing was
// changed, and nothing will be until a person confirms the clock (Options.ClockAhead of package
// ledger) or it is set right. It is an [ErrClock].
type ClockError struct {
	Clock time.Time     `json:"clock"` // what it says
	Last  time.Time     `json:"last"`  // of the log's last event
	Leap  time.Duration `json:"leap"`  // how far ahead of that it may be; see ledger.Options.ClockLeap
}

func (e *ClockError) Error() string {
	return fmt.Sprintf("the clock says %s, the last event of the log is of %s: more than %s ahead it counts only "+
		"once a person has confirmed it; nothing was changed",
		e.Clock.Format(time.RFC3339), e.Last.Format(time.RFC3339), days(e.Leap))
}

// days is a duration in days, if it is whole ones.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day != 0 {
		return d.String()
	}
	return fmt.Sprintf("%d days", d/day)
}

// Unwrap returns [ErrClock].
func (e *ClockError) Unwrap() error { return errs.ErrClock }
