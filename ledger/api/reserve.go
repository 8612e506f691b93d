package api

import (
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// ReserveRequest requests that budget and price of an order are held for some time. Exactly one of
// For and Until is set.
type ReserveRequest struct {
	Key string `json:"-"` // idempotency key, 1 to 256 bytes
	Order
	For time.Duration `json:"-"` // how long it is held after it is granted; above 0
	// Until is when the reservation expires, by the time of the log. It is after the time at which
	// the reservation is granted. A repeated request with the same key must have the same Until.
	Until    time.Time `json:"until,omitzero"`
	Partial  bool      `json:"partial,omitempty"`   // as in SellRequest
	QuoteID  string    `json:"quote_id,omitempty"`  // the ID of the quote that the buyer saw, as in SellRequest
	MaxPrice *int64    `json:"max_price,omitempty"` // as in SellRequest
}

// Reservation is an order that is held. Until it expires, the budget that it needs counts as spent
// for all other requests, and its price does not rise.
type Reservation struct {
	Number  uint64 `json:"sale"`    // also the number of the sale, if State is "captured"
	Ordinal uint64 `json:"ordinal"` // as in [Sale]
	// State is the state at the time of the read. "captured" and "cancelled" are final. "expired"
	// is final once the log has an event at or after the expiry, or once the reservation is
	// cancelled.
	//   - "open": it holds its budget and its price, and can be captured or cancelled
	//   - "captured": it became the sale of the same number
	//   - "cancelled": before or after it expired; it holds nothing
	//   - "expired": the ledger's time is at or after its expiry; it holds nothing, and can be
	//     cancelled
	State    string          `json:"state"`
	Buyer    string          `json:"buyer"`    // by its name
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // of the responses
	Price    int64           `json:"price"`    // the largest price to be paid, in minor units of the currency
	Currency string          `json:"currency"` // of the ledger
	Objects  uint64          `json:"objects"`  // how many objects it held when it was granted
	// Refused are the objects of the order that are left out, in the order of their names. They
	// were refused when the reservation was granted or, as in [Sale], by the capture. It is empty
	// if neither request was partial.
	Refused List[Refusal] `json:"refused"`
	Key     string        `json:"key"`     // of the request to reserve
	Expires time.Time     `json:"expires"` // in UTC; the first instant at which it holds nothing
	First   uint64        `json:"first"`   // first event of the request
	Last    uint64        `json:"last"`    // last event of the request
}

// CaptureRequest requests the sale of a reservation.
type CaptureRequest struct {
	Key         string `json:"-"` // idempotency key, 1 to 256 bytes; not the key of the reservation
	Reservation uint64 `json:"-"` // its number
	// Partial leaves out objects that cannot answer any more. Such objects have withdrawn, or their
	// terms allow less than when they were reserved. Or their noise key is lost, or the host has no
	// true value of them. Their price is refunded.
	Partial  bool                  `json:"partial,omitempty"`
	Truth    TruthFunc             `json:"-"` // as in [SellRequest]
	Progress func(done, total int) `json:"-"` // as in [SellRequest]; optional
}
