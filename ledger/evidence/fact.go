package evidence

import (
	"fmt"
	"reflect"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// Fact is an event of the log in a statement: all that it says, with its salt and its leaf.
// Questions, policies and buyers are given as they were defined; the events that defined them are
// facts before.
//
// As JSON it is one object: "event", "time" and "kind", the fields of the [Detail], "salt" and
// "leaf". Reading it takes the fields of the kind, and no other.
type Fact struct {
	Event uint64    // its number in the log, from 1
	Time  time.Time // in UTC
	Says  Detail    // nil only in a fact that was not read
	Salt  Hex       // 16 bytes
	Leaf  tlog.Hash // the event's leaf in the log
}

// Detail is what an event says: a pointer to one of the types of package event, of a kind that
// [says.FactDetails] has.
type Detail = says.Detail

// Hex is bytes whose text form is hexadecimal digits in lower case.
type Hex = says.Hex

// Kind returns the kind of what the fact says, or "" if it says nothing.
func (f Fact) Kind() string { return says.Event{Says: f.Says}.Kind() }

// about returns the object that the fact is about, or "".
func (f Fact) about() string { return says.Event{Says: f.Says}.Object() }

// InWords returns the facts of the events of a log, by their numbers, as a statement has them. A
// fact whose references are not defined, because the log is no ledger's, has fields missing; an
// event that statements do not have says nothing. With it tests make the statements that
// [Statement.Verify] must refuse.
func InWords(log []Entry) map[uint64]Fact {
	facts, g := make(map[uint64]Fact, len(log)), newGlossary()
	for _, ev := range log {
		_ = g.learn(ev.Event)
		facts[ev.Number], _ = g.fact(ev.Event, ev.Leaf)
	}
	return facts
}

// fact returns an event as a statement has it.
func (g *glossary) fact(ev event.Event, leaf tlog.Hash) (Fact, error) {
	f := Fact{Event: ev.Number, Time: ev.Time, Salt: ev.Salt[:], Leaf: leaf}
	d, err := event.DescribeFact(ev.Change, g)
	if d == nil {
		return f, noSuchKind(ev.Change.Kind().String())
	}
	detail := reflect.New(reflect.TypeOf(d))
	detail.Elem().Set(reflect.ValueOf(d))
	f.Says = detail.Interface().(Detail)
	return f, err
}

// change returns what the event says that a fact describes, or why there is none.
func (g *glossary) change(f Fact) (event.Change, error) {
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
