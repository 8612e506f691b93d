package event

import "time"

// Event is one entry of the log in words.
type Event struct {
	Number uint64    // from 1, without gaps
	Time   time.Time // never before that of the event before
	// Erased: the object that the event was about was forgotten later. Only what outlives the
	// object is left.
	Erased bool
	// Says is a value of one of the types of this package, such as [Released], never a pointer to
	// one. It is nil only in the zero Event.
	Says Detail
}

// Kind is the name of the event's kind, such as "released"; "" for the zero Event.
func (e Event) Kind() string {
	if e.Says == nil {
		return ""
	}
	return e.Says.Kind()
}

// Object returns the object that the event is about: "" for an event about none or many, and for an
// erased one.
func (e Event) Object() string { return objectOf(e.Says) }

// Detail is what an event says: one of the types of this package. Later versions may add some, so a
// switch over them needs a default if it must not miss any.
type Detail interface {
	// Kind returns the name of the kind. No name is ever given a second meaning.
	Kind() string
}

// personal is a detail about one object.
type personal interface {
	Detail
	about() string // the name of the object; "" once it is erased
}

// objectOf returns the object that a detail is about; "" for none.
func objectOf(d Detail) string {
	if p, is := d.(personal); is {
		return p.about()
	}
	return ""
}
