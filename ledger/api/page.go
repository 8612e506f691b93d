package api

import "time"

// Page selects a part of the list of sales, or of that of reservations.
type Page struct {
	Buyer    string    // only those of this buyer, by name; "" for all
	Question string    // only those of this question, by name; "" for all
	States   []string  // only reservations in one of these states (Reservation.State); none for all
	Since    time.Time // only those that were made at this time or later; zero for no bound
	Until    time.Time // only those that were made before this time; zero for no bound
	// After is the place that the page before ended with; 0 at the beginning. The place of an order
	// is its number or, if Buyer is set, its place among those of that buyer.
	After  uint64
	Newest bool // list the latest first, in place of the earliest
	Limit  int  // how many are returned at most, at least 1
}

// Within reports whether a time is within the bounds of the page.
func (p Page) Within(at time.Time) bool {
	return !at.Before(p.Since) && (p.Until.IsZero() || at.Before(p.Until))
}
