package event

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Event is one entry of the log.
type Event struct {
	Number uint64    // from 1; its key in the log
	Time   time.Time // never before that of the event before
	Change Change    // what it says
	Salt   Salt      // hides what is erased with the object
	// Erased is the commitment to what an erased event said: nil for a whole one. Of the change,
	// only what is public is left.
	Erased *Commitment
	// Withheld is the commitment to what [Withhold] left out of the change of an event; nil for a
	// whole one.
	Withheld *Commitment
}

// Change is what an event says. It holds every outcome, the drawn response included, so that the
// state is a fold of the events.
type Change interface {
	Kind() Kind // by which its bytes are read again
	// Fields describes what is destroyed when the object that the event is about is forgotten.
	Fields(wire.Codec)
}

// lasting is a change of which something outlives the object that it is about.
type lasting interface {
	Change
	public(wire.Codec)
}

// withholding is a change of which a part is withheld from buyers: their receipts have a commitment
// in its place, because it depends on what others bought.
type withholding interface {
	Change
	withheld(wire.Codec) // what follows on the fields
}

// Personal is a change about one object. When the object is forgotten, all but its public part is
// erased.
type Personal interface {
	Change
	About() string // the object; "" once it is erased
}

// Kind is stored as one byte. A number is never given a second meaning.
type Kind uint8

// The kinds of events, by the types of their changes.
const (
	KindCreated   Kind = iota + 1 // [Created]
	KindTruthKey                  // [TruthKeySet]
	KindQuestion                  // [QuestionDefined]
	KindPolicy                    // [PolicyDefined]
	KindEnrolled                  // [Enrolled]
	KindReleased                  // [Released]
	KindSettled                   // [Settled]
	KindCharged                   // [Charged]
	KindAnswered                  // [Answered]
	KindBuyer                     // [BuyerNamed]
	KindReserved                  // [Reserved]
	KindHeld                      // [Held]
	KindCancelled                 // [Cancelled]
	KindSale                      // [SaleMade]
	KindSold                      // [Sold]
	KindWithdrawn                 // [Withdrawn]
	KindBound                     // [TruthBound]
	KindRefused                   // [ObjectRefused]
	KindStated                    // [Stated]
	KindForgotten                 // [Forgotten]
	KindNoiseKey                  // [NoiseKeySet]
	KindEpoch                     // [EpochBegun]
	KindTerms                     // [TermsChanged]
)

// kind is how the events of a kind are encoded, and mapped to what hosts read.
type kind struct {
	zero     event.Detail  // what an erased event says
	empty    func() Change // returns a new change
	describe func(c Change, names Names, isFact bool) (event.Detail, error)
	parse    func(event.Detail, Numbers) (Change, error) // returns nil for another kind; nil if no fact is of it
	omitted  [][]int                                     // fields of the detail that a fact does not have
}

// kindOf makes the row of a kind in the table. mapTo maps a change to its detail and, of a kind
// that statements have, back.
func kindOf[C any, D event.Detail, P interface {
	*C
	Change
}](mapTo func(P, *D, *mapper)) *kind {
	var zero D
	k := &kind{zero: zero, empty: func() Change { return P(new(C)) }}
	k.describe = func(c Change, names Names, isFact bool) (event.Detail, error) {
		to := &struct { // in one piece of memory
			detail D
			mapper mapper
		}{mapper: mapper{names: names, isFact: isFact}}
		mapTo(c.(P), &to.detail, &to.mapper)
		if isFact {
			said := to.detail
			return any(&said).(event.Detail), to.mapper.err
		}
		return to.detail, to.mapper.err
	}
	fields := FactFields(zero)
	if len(fields) == 0 {
		return k
	}
	k.omitted = omittedFields(zero, fields)
	k.parse = func(d event.Detail, numbers Numbers) (Change, error) {
		said, is := any(d).(*D)
		if !is {
			return nil, nil
		}
		c, m := P(new(C)), mapper{names: numbers, numbers: numbers, isFact: true}
		m.checkOmitted(d, k.omitted)
		if mapTo(c, said, &m); m.err != nil {
			return nil, m.err
		}
		return c, nil
	}
	return k
}

// omittedFields returns the indexes of the fields of a detail that are not said in a statement.
func omittedFields(d event.Detail, said []reflect.StructField) (omitted [][]int) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(d)) {
		isThis := func(one reflect.StructField) bool { return slices.Equal(one.Index, f.Index) }
		if !f.Anonymous && !slices.ContainsFunc(said, isThis) {
			omitted = append(omitted, f.Index)
		}
	}
	return omitted
}

// table has a row for each kind, by its number.
var table = sync.OnceValue(func() []*kind {
	return []*kind{
		KindCreated:   kindOf((*Created).mapTo),
		KindTruthKey:  kindOf((*TruthKeySet).mapTo),
		KindNoiseKey:  kindOf((*NoiseKeySet).mapTo),
		KindQuestion:  kindOf((*QuestionDefined).mapTo),
		KindPolicy:    kindOf((*PolicyDefined).mapTo),
		KindEnrolled:  kindOf((*Enrolled).mapTo),
		KindReleased:  kindOf((*Released).mapTo),
		KindSettled:   kindOf((*Settled).mapTo),
		KindCharged:   kindOf((*Charged).mapTo),
		KindAnswered:  kindOf((*Answered).mapTo),
		KindBuyer:     kindOf((*BuyerNamed).mapTo),
		KindReserved:  kindOf((*Reserved).mapTo),
		KindHeld:      kindOf((*Held).mapTo),
		KindCancelled: kindOf((*Cancelled).mapTo),
		KindSale:      kindOf((*SaleMade).mapTo),
		KindSold:      kindOf((*Sold).mapTo),
		KindWithdrawn: kindOf((*Withdrawn).mapTo),
		KindBound:     kindOf((*TruthBound).mapTo),
		KindRefused:   kindOf((*ObjectRefused).mapTo),
		KindStated:    kindOf((*Stated).mapTo),
		KindForgotten: kindOf((*Forgotten).mapTo),
		KindEpoch:     kindOf((*EpochBegun).mapTo),
		KindTerms:     kindOf((*TermsChanged).mapTo),
	}
})

// row returns the row of a kind, or nil for a kind that does not exist.
func (k Kind) row() *kind {
	if all := table(); int(k) < len(all) {
		return all[k]
	}
	return nil
}

// String returns the name of the kind.
func (k Kind) String() string {
	if row := k.row(); row != nil {
		return row.zero.Kind()
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// newChange returns an empty change of a kind, or nil.
func newChange(k Kind) Change {
	if row := k.row(); row != nil {
		return row.empty()
	}
	return nil
}

// decodeChange reads what an event says: its public part, and the hidden one unless that is erased
// and nil. It returns how many of the hidden bytes are withheld from buyers.
func decodeChange(public, hidden *wire.Decoder, k Kind) (c Change, withheld int) {
	c = newChange(k)
	if c == nil {
		public.Fail("unknown kind %d", k)
		return nil, 0
	}
	if _, personal := c.(Personal); hidden == nil && !personal && k != KindAnswered {
		public.Fail("an event of kind %d cannot be erased", k)
		return nil, 0
	}
	if l, is := c.(lasting); is {
		l.public(wire.Reading(public))
	}
	if hidden == nil {
		return c, 0
	}
	c.Fields(wire.Reading(hidden))
	if w, is := c.(withholding); is {
		withheld = len(hidden.Rest)
		w.withheld(wire.Reading(hidden))
	}
	return c, withheld
}
