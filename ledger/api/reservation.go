package api

import (
	"fmt"
	"time"
)

// ReservationError reports that a request needs an open reservation, and that this reservation is
// not open: it was captured, was cancelled, or has expired. The request drew, sold and recorded
// nothing. ledger.Ledger.Cancel makes the end of an expired reservation final.
type ReservationError struct {
	Number uint64 `json:"reservation"` // of the reservation
	// State is the state of the reservation (see [Reservation]). It is never "open", and never
	// "expired" for a request to cancel.
	State string `json:"state"`
	// Sale is the number of the reservation's sale if State is "captured"; otherwise it is 0.
	Sale uint64 `json:"sale,omitempty"`
	// Expires is the first instant at which the reservation holds nothing, if State is "expired";
	// otherwise it is zero.
	Expires time.Time `json:"expires,omitzero"`
}

// Is makes [errors.Is] true for every error of this type. The fields of target do not matter:
// errors.Is(err, &ReservationError{}).
func (*ReservationError) Is(target error) bool {
	_, is := target.(*ReservationError)
	return is
}

// Error returns the state of the reservation, with its sale or its end.
func (e *ReservationError) Error() string {
	text := fmt.Sprintf("reservation %d: not open: %s", e.Number, e.State)
	switch e.State {
	case "captured":
		text += fmt.Sprintf(" as sale %d", e.Sale)
	case "expired":
		text += " at " + e.Expires.UTC().Format(time.RFC3339Nano)
	}
	return text
}
