package api

import (
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// ReserveRequest asks to hold an order for some time.
type ReserveRequest struct {
	Key string `json:"-"` // idempotency key, 1 to 256 bytes
	Order
	For time.Duration `json:"-"` // from when it is granted; above 0; or
	// Until: until when, by the log's time, after the instant at which it is granted. The same
	// order until the same time is the same request
	Until    time.Time `json:"until,omitzero"`
	Partial  bool      `json:"partial,omitempty"`   // as in SellRequest
	QuoteID  string    `json:"quote_id,omitempty"`  // of the quote that the buyer saw, as in SellRequest
	MaxPrice *int64    `json:"max_price,omitempty"` // as in SellRequest
}

// Reservation is an order held: until it expires, the budget it needs counts as spent for everybody
// else, and its price does not rise.
type Reservation struct {
	Number  uint64 `json:"sale"`    // the sale has the same number, once State is "captured"
	Ordinal uint64 `json:"ordinal"` // as in [Sale]
	// State is what it was when it was read. "captured" and "cancelled" are final. An expired
	// reservation is final once an event of the log is not earlier than its expiry, or once it is
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
	Price    int64           `json:"price"`    // at most, in minor units of the currency
	Currency string          `json:"currency"` // the ledger's
	Objects  uint64          `json:"objects"`  // that it held when it was granted
	// Refused are the objects of the order that are left out, in the order of their names: those
	// that were refused when it was granted, and once it is captured also those that the capture
	// refused, as in [Sale]. It is empty if neither request was partial.
	Refused List[Refusal] `json:"refused"`
	Key     string        `json:"key"`     // of the request
	Expires time.Time     `json:"expires"` // in UTC; the first instant at which it holds nothing
	First   uint64        `json:"first"`   // first and last event
	Last    uint64        `json:"last"`    // as First
}

// CaptureRequest asks to carry a reservation out.
type CaptureRequest struct {
	Key         string `json:"-"` // idempotency key, 1 to 256 bytes; not that of the reservation
	Reservation uint64 `json:"-"` // its number
	// Partial leaves out objects that cannot answer any more, because they have withdrawn, their
	// terms allow less than when they were reserved, their noise key is lost or the host has no
	// truth of them. Their price is refunded.
	Partial  bool                  `json:"partial,omitempty"`
	Truth    TruthFunc             `json:"-"` // as of a [SellRequest]
	Progress func(done, total int) `json:"-"` // as in [SellRequest]; optional
}
