package vocabulary

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// ClockError says that the clock is so far ahead of the log that it may well be wrong. Nothing was changed, and nothing
// will be until a person confirms the clock (Options.ClockAhead of package ledger) or it is set right. It is an ErrClock of package ledger.
type ClockError struct {
	Clock time.Time     // what it says
	Last  time.Time     // of the log's last event
	Leap  time.Duration // how far ahead of that it may be; see ledger.Options.ClockLeap
}

func (e *ClockError) Error() string {
	const day = 24 * time.Hour
	return fmt.Sprintf("the clock says %s, the last event of the log is of %s: it is further ahead than the %d days (and %v) allowed without a person's word, so nothing was changed; if the clock is right, confirm that time once, and if not, set it",
		e.Clock.Format(time.RFC3339), e.Last.Format(time.RFC3339), e.Leap/day, e.Leap%day)
}

// Unwrap returns ErrClock of package ledger.
func (e *ClockError) Unwrap() error { return errs.ErrClock }
