package api

import "time"

// SellRequest requests the sale of an order.
type SellRequest struct {
	Key string `json:"-"` // idempotency key, 1 to 256 bytes; such as the id of the host's order
	Order
	// Partial leaves refused objects out, instead of refusing the order.
	Partial bool `json:"partial,omitempty"`
	// QuoteID, if set, sells exactly what was quoted under this ID, or nothing. A quote requests no
	// true values: if the host has no true value of a quoted object, the order is refused for that
	// reason.
	QuoteID string `json:"quote_id,omitempty"`
	// MaxPrice, if set, is the largest price for all objects together, in minor units of the
	// currency.
	MaxPrice *int64 `json:"max_price,omitempty"`
	// Truth is called for the objects whose current level is below ε.
	Truth TruthFunc `json:"-"`
	// Progress is as in [RaiseRequest], with the number of objects done and the total. Each object
	// counts twice: once when it is checked and drawn, and once when that is recorded.
	Progress func(done, total int) `json:"-"`
}

// Sale is an order that was executed.
type Sale struct {
	Number uint64 `json:"sale"` // 1, 2, …; sales and reservations share the sequence
	// Ordinal is the position among the sales and reservations of its buyer, from 1. It is the
	// number that the buyer sees.
	Ordinal uint64 `json:"ordinal"`
	Offer
	// Refund is the difference between the price that a reservation held and the price of the sale.
	// It is for objects that were left out, or that the buyer has obtained since. What was
	// delivered is not refunded.
	Refund int64 `json:"refund"`
	// Refused are the objects of the order that are left out, in the order of their names. They are
	// the objects that this request refused and, for a captured reservation, also the objects that
	// were refused when it was granted. It is empty if neither request was partial.
	Refused                    List[Refusal] `json:"refused"`
	TruthChanged, TruthInvalid []string      `json:"-"`     // among Refused, for the host only; see [RaiseResult]
	Key                        string        `json:"key"`   // of the request
	Time                       time.Time     `json:"time"`  // of the log, in UTC
	First                      uint64        `json:"first"` // first event of the request
	Last                       uint64        `json:"last"`  // last event of the request
}
