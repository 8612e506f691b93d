package engine

import (
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// UsualLeap is how far the clock may be ahead of the log unless the host says otherwise: as long as
// a ledger may lie idle without that anybody is asked.
const UsualLeap = 366 * 24 * time.Hour

// Leap is how far the clock may be ahead of the log.
type Leap struct {
	Allowed   time.Duration // 0 for the usual one
	Confirmed time.Time     // up to which a person has confirmed the clock
}

func (p Leap) check() error {
	if p.Allowed < 0 {
		return errs.Invalid("a clock that may be %v ahead of the log", p.Allowed)
	}
	return nil
}

// of returns a [*ClockError] if the clock of a state is too far ahead of its log, as it was when
// the transaction began.
func (p Leap) of(s *state.State) error {
	if p.Allowed == 0 {
		p.Allowed = UsualLeap
	}
	last := s.Durable.Last
	if s.Clock.Sub(last) <= p.Allowed || !s.Clock.After(p.Confirmed) {
		return nil
	}
	return &vocabulary.ClockError{Clock: s.Clock, Last: last, Leap: p.Allowed}
}
