package evidence

import (
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// Fact is an event of the log in a statement: all that it says, with its salt and its leaf.
// Questions, policies and buyers are given as they were defined; the events that defined them are
// facts before.
//
// As JSON it is one object: "event", "time" and "kind", the fields of the detail, "salt" and
// "leaf". Reading it takes the fields of the kind, and no other.
type Fact struct {
	Event uint64    // its number in the log, from 1
	Time  time.Time // in UTC
	Salt  says.Hex  // 16 bytes
	Leaf  tlog.Hash // the event's leaf in the log
	// Says is what the event says: a pointer to one of the types of package event. It is nil only in
	// a fact that was not read.
	Says says.Detail
}

// Kind returns the kind of what the fact says, or "" if it says nothing.
func (f Fact) Kind() string { return says.Event{Says: f.Says}.Kind() }

// about returns the object that the fact is about, or "".
func (f Fact) about() string { return says.Event{Says: f.Says}.Object() }

// factOf returns an event as a statement has it. With an error, fields may be missing.
func factOf(ev event.Event, leaf tlog.Hash, names event.Names) (Fact, error) {
	said, err := event.DescribeFact(ev.Change, names)
	if said == nil {
		err = noSuchKind(ev.Change.Kind().String())
	}
	return Fact{Event: ev.Number, Time: ev.Time, Says: said, Salt: ev.Salt[:], Leaf: leaf}, err
}

// change returns what the event says that a fact describes, or why there is none.
func (f Fact) change(g *event.Glossary) (event.Change, error) {
	c, err := event.Parse(f.Says, g)
	if c == nil && err == nil {
		err = noSuchKind(f.Kind())
	}
	return c, err
}

// noSuchKind is the error for an event that statements do not have.
func noSuchKind(kind string) error {
	return fmt.Errorf("a statement has no event of the kind %q", excerpt([]byte(kind), 0))
}
