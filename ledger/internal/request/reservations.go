package request

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// OrderRefusals returns the objects of an order that its reservation or its sale refused, in the
// order of their names, without those that were forgotten since. Every reading of a reservation and
// of a sale uses it.
func OrderRefusals(s *state.State, r state.Sale) (all []vocabulary.Refusal, err error) {
	var ends []uint64 // the events that settled the requests
	if r.Granted != 0 {
		begun, err := s.Event(r.Granted)
		if err != nil {
			return nil, err
		}
		c, ok := begun.Change.(*event.Reserved)
		if !ok {
			return nil, errs.Corrupt(nil, "event %d makes no reservation", begun.Number)
		}
		ends = append(ends, r.Granted+c.Objects+c.Refused+1)
	}
	if r.Status == state.SaleSold {
		ends = append(ends, r.Last())
	}
	for _, last := range ends {
		end, err := s.Settlement(last)
		if err != nil {
			return nil, err
		}
		left, err := RefusalsOf(s, last, end)
		if err != nil {
			return nil, err
		}
		all = append(all, left...)
	}
	if len(ends) > 1 {
		all = event.SortRefusals(all)
	}
	return all, nil
}

// AsGranted is [Reservation] without what has become of the reservation since it was granted.
func AsGranted(s *state.State, number uint64) (state.Sale, error) {
	r, err := Reservation(s, number)
	r.Status, r.Expires = state.SaleReserved, s.Now.Add(1)
	return r, err
}

// Reservation returns a reservation by a number that a caller gave.
func Reservation(s *state.State, number uint64) (state.Sale, error) {
	unknown := fmt.Errorf("reservation %d: %w", number, errs.ErrUnknown)
	if number == 0 || number > s.Counters.Sales {
		return state.Sale{}, unknown
	}
	r, err := s.Sale(number)
	if err == nil && r.Granted == 0 { // a sale that was never reserved
		err = unknown
	}
	return r, err
}

// OpenReservation returns a reservation by a number that a caller gave, or a
// [*vocabulary.ReservationError] if it is not open.
func OpenReservation(s *state.State, number uint64) (state.Sale, error) {
	r, err := Reservation(s, number)
	if err == nil && !r.Holds(s.Now) {
		err = ClosedReservation(number, r, s.Now)
	}
	return r, err
}

// ClosedReservation says why a reservation is not open at an instant.
func ClosedReservation(number uint64, r state.Sale, at time.Time) *vocabulary.ReservationError {
	err := &vocabulary.ReservationError{Number: number, State: r.ReservationState(at)}
	switch err.State {
	case vocabulary.ReservationCaptured:
		err.Sale = number
	case vocabulary.ReservationExpired:
		err.Expires = r.Expires
	}
	return err
}

// Term is how long a reservation is held: for some time, or until a time.
type Term struct {
	For   time.Duration // from when it is granted; or
	Until time.Time     // by the log's time
}

// Check refuses a time that is none, before anything is looked up.
func (r Term) Check() error {
	switch {
	case r.Until.IsZero() && r.For <= 0, !r.Until.IsZero() && r.For != 0:
		return errs.Invalid("a reservation for %v, until %v: give one of them", r.For, r.Until)
	case !r.Until.IsZero() && (r.Until.UTC().Year() < 1970 || r.Until.UTC().Year() > event.LastYear):
		return errs.Invalid("a reservation until %v", r.Until)
	}
	return nil
}

// Expires is when a reservation that is granted now ends.
func (r Term) Expires(now time.Time) (time.Time, error) {
	if r.Until.IsZero() {
		return now.Add(r.For), nil
	}
	if !r.Until.After(now) {
		return time.Time{}, errs.Invalid("a reservation until %s, and it is %s already", r.Until.UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano))
	}
	return r.Until.UTC(), nil
}
