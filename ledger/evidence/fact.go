package evidence

import (
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// Fact is an event of the log in a statement: its whole content, its salt and its leaf. It
// contains questions, policies and buyers in full. The events that defined them are earlier facts.
//
// Its JSON is one object with the keys "event", "time" and "kind", the fields of the detail,
// "salt" and "leaf". A field that the kind does not have is an error.
type Fact struct {
	Event uint64    // its number in the log, from 1
	Time  time.Time // in UTC
	Salt  says.Hex  // 16 bytes
	Leaf  tlog.Hash // the event's leaf in the log
	// Says is the content of the event: a pointer to one of the types of package event. It is nil
	// only in a fact that was not read.
	Says says.Detail
}

// Kind returns the kind of the event, or "" if Says is nil.
func (f Fact) Kind() string { return says.Event{Says: f.Says}.Kind() }

// about returns the object that the fact is about, or "".
func (f Fact) about() string { return says.Event{Says: f.Says}.Object() }

// factOf returns an event as a fact with the given leaf. It returns an error if statements do not
// have the kind, or if names does not have a definition. The fact is then returned without these
// fields.
func factOf(ev event.Event, leaf tlog.Hash, names event.Names) (Fact, error) {
	said, err := event.DescribeFact(ev.Change, names)
	if said == nil {
		err = noSuchKind(ev.Change.Kind().String())
	}
	return Fact{Event: ev.Number, Time: ev.Time, Says: said, Salt: ev.Salt[:], Leaf: leaf}, err
}

// change returns the change of the event that a fact describes. It returns nil and an error if the
// fact is of a kind that statements do not have, or has an invalid field. g has the definitions of
// earlier facts.
func (f Fact) change(g *event.Glossary) (event.Change, error) {
	c, err := event.Parse(f.Says, g)
	if c == nil && err == nil {
		err = noSuchKind(f.Kind())
	}
	return c, err
}

// noSuchKind returns the error for a kind of event that statements do not have.
func noSuchKind(kind string) error {
	return fmt.Errorf("a statement has no event of the kind %q", excerpt([]byte(kind), 0))
}
