package vocabulary

import "time"

// Page selects a part of the list of sales, or of that of reservations.
type Page struct {
	Buyer    string             // only those of this buyer, by name; "" for all
	Question string             // only those of this question, by name; "" for all
	States   []ReservationState // only reservations in one of these states; none for all
	Since    time.Time          // only those that were made at this time or later; zero for no bound
	Until    time.Time          // only those that were made before this time; zero for no bound
	After    uint64             // only those that follow this number in the order of the list; 0 for all
	Newest   bool               // list the highest number first, in place of the lowest
	Limit    int                // how many are returned at most, at least 1
}

// Within reports whether a time is within the bounds of the page.
func (p Page) Within(at time.Time) bool {
	return !at.Before(p.Since) && (p.Until.IsZero() || at.Before(p.Until))
}
