package api

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// ReservationError reports that a request needs an open reservation, and that this one is not open.
// Nothing was drawn, sold or recorded by the request. It is an [ErrNotReserved].
type ReservationError struct {
	Number uint64 `json:"reservation"` // of the reservation
	// State: see [Reservation]; never "open"; of a request to cancel, never "expired"
	State string `json:"state"`
	// Sale: the number of its sale, if State is "captured"; else 0
	Sale uint64 `json:"sale,omitempty"`
	// Expires: the first instant at which it holds nothing, if State is "expired"; else
	// zero
	Expires time.Time `json:"expires,omitzero"`
}

func (e *ReservationError) Error() string {
	text := fmt.Sprintf("reservation %d: %v: %s", e.Number, errs.ErrNotReserved, e.State)
	switch e.State {
	case "captured":
		text += fmt.Sprintf(" as sale %d", e.Sale)
	case "expired":
		text += " at " + e.Expires.UTC().Format(time.RFC3339Nano)
	}
	return text
}

// Unwrap returns [ErrNotReserved].
func (e *ReservationError) Unwrap() error { return errs.ErrNotReserved }
