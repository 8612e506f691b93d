package event

import "time"

// Event is one entry of the log with names instead of numbers.
type Event struct {
	Number uint64    // from 1, without gaps
	Time   time.Time // not before the time of the previous event
	// Erased means that the object of the event was forgotten later. Only the fields that are kept
	// for a forgotten object are set.
	Erased bool
	// Says is the detail: a value of one of the types of this package, such as [Released], never a
	// pointer. It is nil only in the zero Event.
	Says Detail
}

// Kind returns the name of the event's kind, such as "released", or "" for the zero Event.
func (e Event) Kind() string {
	if e.Says == nil {
		return ""
	}
	return e.Says.Kind()
}

// Object returns the object that the event is about. It returns "" for an event about no object or
// several, and for an erased event.
func (e Event) Object() string { return objectOf(e.Says) }

// Detail is the content of an event: one of the types of this package. Later versions may add
// types, so a switch over them needs a default if it must handle every event.
type Detail interface {
	// Kind returns the name of the kind. A name never gets a second meaning.
	Kind() string
}

// personal is a detail about one object.
type personal interface {
	Detail
	about() string // the name of the object; "" if erased
}

// objectOf returns the object that a detail is about. It returns "" for a detail about no object or
// several, and for that of an erased event.
func objectOf(d Detail) string {
	if p, is := d.(personal); is {
		return p.about()
	}
	return ""
}
