package event

// ObjectOf returns the object that an event is about, or "" if it is about none, or is erased.
func ObjectOf(ev Event) string {
	switch c := ev.Change.(type) {
	case Personal:
		return c.About()
	case *Forgotten:
		return c.Object
	}
	return ""
}

// References are the numbers of what a change is about; 0 for none.
type References struct {
	Question    uint32 // that the change defines, or is about
	Policy      uint32 // that the object is under from here on, or whose prices are promised
	Buyer       uint32 // of the reservation or sale that begins
	Reservation uint64 // of which the change is one object
	Sale        uint64 // of which the change is one object
}

// referring is a change that is about what others defined.
type referring interface {
	Change
	references() References
}

// ReferencesOf returns what a change is about. The chains of a [Forgotten] are not among it.
func ReferencesOf(c Change) References {
	if r, is := c.(referring); is {
		return r.references()
	}
	return References{}
}

// QuestionOf returns the number of the question that an event is about, or 0.
func QuestionOf(ev Event) uint32 { return ReferencesOf(ev.Change).Question }

// ShareOf returns the sale or reservation of which a change is one object.
func ShareOf(c Change) (sale uint64, is bool) {
	switch c := c.(type) {
	case *Held:
		return c.Sale, true
	case *Sold:
		return c.Sale, true
	}
	return 0, false
}
