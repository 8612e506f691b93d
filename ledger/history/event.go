package history

import "time"

// Event is one entry of the log in words.
type Event struct {
	Number uint64    // from 1, without gaps
	Time   time.Time // never before that of the event before
	// Erased: the object that the event was about is forgotten since. Of what it said, only what outlives the object is left.
	Erased bool
	// Says is a value of one of the types of this package, such as [Released], never a pointer to one. It is nil
	// only in the zero Event.
	Says Detail
}

// Kind is the name of the event's kind, such as "released"; "" for the zero Event.
func (e Event) Kind() string {
	if e.Says == nil {
		return ""
	}
	return e.Says.Kind()
}

// Object is the object that the event is about; "" if it is about none or about many, or was erased.
func (e Event) Object() string {
	if e.Says == nil {
		return ""
	}
	return e.Says.about()
}

// Detail is what an event says. Only the types of this package implement it. Later versions may add some: a switch over them has a
// default, if it must not miss any.
type Detail interface {
	// Kind is the name of the kind. No name is ever given a second meaning.
	Kind() string
	// about is the object that it is about, if it is about one.
	about() string
}
