package api

import "time"

// SellRequest asks to carry an order out.
type SellRequest struct {
	Key string `json:"-"` // idempotency key, 1 to 256 bytes: your order's id, say
	Order
	Partial bool `json:"partial,omitempty"` // leave refused objects out, rather than refuse the order
	// QuoteID, if set, sells exactly what was quoted under this ID, or nothing. A quote asks for no
	// truths: if the host turns out to have none of somebody quoted, the order is refused for want
	// of it.
	QuoteID string `json:"quote_id,omitempty"`
	// MaxPrice: if set, the most to be paid in all, in minor units of the currency
	MaxPrice *int64 `json:"max_price,omitempty"`
	// Truth is asked for the objects whose current level lies below ε.
	Truth TruthFunc `json:"-"`
	// Progress is as in [RaiseRequest], with how many objects are done, of how many in all: each counts
	// twice, once when it is looked at and drawn, and once when that is recorded.
	Progress func(done, total int) `json:"-"`
}

// Sale is an order carried out.
type Sale struct {
	Number uint64 `json:"sale"` // 1, 2, …; shared with reservations
	// Ordinal is its place among the sales and reservations of its buyer, from 1: its number for
	// the buyer.
	Ordinal uint64 `json:"ordinal"`
	Offer
	// Refund is what a reservation promised to cost beyond the price: for objects left out, or held
	// by the buyer by now. What was delivered is not refunded.
	Refund int64 `json:"refund"`
	// Refused are the objects of the order that are left out, in the order of their names: those
	// that this request refused, and of a reservation that was captured also those that were
	// refused when it was granted. It is empty if neither was partial.
	Refused                    List[Refusal] `json:"refused"`
	TruthChanged, TruthInvalid []string      `json:"-"`     // of those refused, for the host alone: see [RaiseResult]
	Key                        string        `json:"key"`   // of the request
	Time                       time.Time     `json:"time"`  // in UTC, as the log has it
	First                      uint64        `json:"first"` // first and last event
	Last                       uint64        `json:"last"`  // as First
}
