package api

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// ClockError reports that the clock is so far ahead of the log that it is probably wrong. Nothing
// was changed. The ledger records nothing until the clock is set right, or an operator confirms it
// (Options.ClockAhead of package ledger). It is an [ErrClock].
type ClockError struct {
	Clock time.Time     `json:"clock"` // the time of the clock
	Last  time.Time     `json:"last"`  // the time of the last event in the log
	Leap  time.Duration `json:"leap"`  // how far Clock may be after Last; see ledger.Options.ClockLeap
}

// Error returns the two times, and what to do.
func (e *ClockError) Error() string {
	return fmt.Sprintf("the clock is at %s, more than %[3]s after the last event of the log at %[2]s: "+
		"set the clock right, or have an operator confirm it; nothing was changed",
		e.Clock.Format(time.RFC3339), e.Last.Format(time.RFC3339), days(e.Leap))
}

// days formats a duration: as a number of days if it is a whole number of days, and otherwise like
// [time.Duration.String].
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day != 0 {
		return d.String()
	}
	return fmt.Sprintf("%d days", d/day)
}

// Unwrap returns [ErrClock].
func (e *ClockError) Unwrap() error { return errs.ErrClock }
