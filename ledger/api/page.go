package api

import "time"

// Page selects a part of the list of sales, or of the list of reservations.
type Page struct {
	Buyer    string    // only orders of this buyer, by name; "" for all
	Question string    // only orders about this question, by name; "" for all
	States   []string  // only reservations in one of these states (Reservation.State); empty for all
	Since    time.Time // only orders made at this time or later; zero for no bound
	Until    time.Time // only orders made before this time; zero for no bound
	// After is the position at which the previous page ended; 0 for the first page. The position of
	// an order is its number or, if Buyer is set, its ordinal among the orders of that buyer.
	After  uint64
	Newest bool // list the latest orders first, instead of the earliest
	Limit  int  // the largest number of orders to return, at least 1
}

// Within reports whether a time is within the bounds of the page.
func (p Page) Within(at time.Time) bool {
	return !at.Before(p.Since) && (p.Until.IsZero() || at.Before(p.Until))
}
