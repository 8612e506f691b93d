package event

// ObjectOf returns the object that an event is about. It returns "" if the event is about no object
// or several, or is erased. A [Forgotten] is not [Personal], because it is never erased, but it is
// about its object.
func ObjectOf(ev Event) string {
	switch c := ev.Change.(type) {
	case Personal:
		return c.About()
	case *Forgotten:
		return c.Object
	}
	return ""
}

// References are the numbers of the definitions that a change refers to; 0 for none.
type References struct {
	Question    uint32 // defined by the change, or its subject
	Policy      uint32 // the object's policy from here on, or the policy whose prices are promised
	Buyer       uint32 // the buyer of the reservation or sale that starts
	Reservation uint64 // the reservation that has the object of the change
	Sale        uint64 // the sale that has the object of the change
}

// referring is a change that refers to definitions.
type referring interface {
	Change
	references() References
}

// ReferencesOf returns the definitions, and the sale or reservation, that a change refers to. Those
// of the chains of a [Forgotten] are not included.
func ReferencesOf(c Change) References {
	if r, is := c.(referring); is {
		return r.references()
	}
	return References{}
}

// QuestionOf returns the number of the question that an event defines or is about, or 0. It is 0
// for the objects of sales and reservations, whose first event has the question.
func QuestionOf(ev Event) uint32 { return ReferencesOf(ev.Change).Question }

// ShareOf returns the number of the sale or reservation to which the change adds one object ([Sold]
// or [Held]). For any other change it returns false.
func ShareOf(c Change) (sale uint64, is bool) {
	switch c := c.(type) {
	case *Held:
		return c.Sale, true
	case *Sold:
		return c.Sale, true
	}
	return 0, false
}
