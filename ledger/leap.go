package ledger

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// usualLeap is how far the clock may be ahead of the log unless the host says otherwise: as long as a ledger may lie idle
// without that anybody is asked.
const usualLeap = 366 * 24 * time.Hour

// ClockError says that the clock is so far ahead of the log that it may well be wrong. Nothing was changed, and nothing
// will be until a person confirms the clock ([Options.ClockAhead]) or it is set right. It is an [ErrClock].
type ClockError struct {
	Clock time.Time     // what it says
	Last  time.Time     // of the log's last event
	Leap  time.Duration // how far ahead of that it may be; see [Options.ClockLeap]
}

func (e *ClockError) Error() string {
	const day = 24 * time.Hour
	return fmt.Sprintf("the clock says %s, the last event of the log is of %s: it is further ahead than the %d days (and %v) allowed without a person's word, so nothing was changed; if the clock is right, confirm that time once, and if not, set it",
		e.Clock.Format(time.RFC3339), e.Last.Format(time.RFC3339), e.Leap/day, e.Leap%day)
}

// Unwrap returns [ErrClock].
func (e *ClockError) Unwrap() error { return ErrClock }

// leap is how far the clock may be ahead of the log.
type leap struct {
	allowed   time.Duration // 0 for the usual one
	confirmed time.Time     // up to which a person has confirmed the clock
}

func (p leap) check() error {
	if p.allowed < 0 {
		return errs.Invalid("a clock that may be %v ahead of the log", p.allowed)
	}
	return nil
}

// of returns a [*ClockError] if the clock of a state is too far ahead of its log, as it was when the transaction began.
func (p leap) of(s *state.State) error {
	if p.allowed == 0 {
		p.allowed = usualLeap
	}
	last := s.Durable.Last
	if s.Clock.Sub(last) <= p.allowed || !s.Clock.After(p.confirmed) {
		return nil
	}
	return &ClockError{s.Clock, last, p.allowed}
}
