package api

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// ReservationState is the present state of a reservation. Cancelled and captured are final. An
// expired reservation is final once an event of the log is not earlier than its expiry, or once it
// is cancelled.
type ReservationState string

const (
	// ReservationOpen: it holds its budget and its price, and can be captured or cancelled.
	ReservationOpen ReservationState = "open"
	// ReservationCaptured: it became the sale of the same number.
	ReservationCaptured ReservationState = "captured"
	// ReservationCancelled: it was cancelled, before or after it expired. It holds nothing.
	ReservationCancelled ReservationState = "cancelled"
	// ReservationExpired: the ledger's time is at or after its expiry. It holds nothing, and can be
	// cancelled.
	ReservationExpired ReservationState = "expired"
)

// ReservationError reports that a request needs an open reservation, and that this one is not open.
// Nothing was drawn, sold or recorded by the request. It is an [ErrNotReserved].
type ReservationError struct {
	Number uint64 `json:"reservation"` // of the reservation
	// State: never [ReservationOpen]; of a request to cancel, never [ReservationExpired]
	State ReservationState `json:"state"`
	// Sale: the number of its sale, if State is [ReservationCaptured]; else 0
	Sale uint64 `json:"sale,omitempty"`
	// Expires: the first instant at which it holds nothing, if State is [ReservationExpired]; else
	// zero
	Expires time.Time `json:"expires,omitzero"`
}

func (e *ReservationError) Error() string {
	text := fmt.Sprintf("reservation %d: %v: %s", e.Number, errs.ErrNotReserved, e.State)
	switch e.State {
	case ReservationCaptured:
		text += fmt.Sprintf(" as sale %d", e.Sale)
	case ReservationExpired:
		text += " at " + e.Expires.UTC().Format(time.RFC3339Nano)
	}
	return text
}

// Unwrap returns [ErrNotReserved].
func (e *ReservationError) Unwrap() error { return errs.ErrNotReserved }
