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
	Time   time.Time // not before the time of the previous event
	Change Change    // the content
	Salt   Salt      // the salt of the commitment; erased with the object
	// Erased is the commitment to the hidden bytes of an erased event; nil for a whole event. The
	// change of an erased event has only its public part.
	Erased *Commitment
	// Withheld is the commitment to the part of the change that [Withhold] removed; nil if nothing
	// was removed.
	Withheld *Commitment
}

// Change is the content of an event. It contains every outcome, including the drawn response, so
// that the state is a fold of the events.
type Change interface {
	Kind() Kind // determines how its bytes are decoded
	// Fields describes the hidden fields, which are destroyed when the object of the event is
	// forgotten.
	Fields(wire.Codec)
}

// lasting is a change with fields that are kept when its object is forgotten.
type lasting interface {
	Change
	public(wire.Codec)
}

// withholding is a change with a part that buyers may not see, because it depends on what others
// bought. Their receipts have a commitment to that part instead.
type withholding interface {
	Change
	withheld(wire.Codec) // describes that part, which follows the fields
}

// Personal is a change about one object. When the object is forgotten, all but its public part is
// erased.
type Personal interface {
	Change
	About() string // the object; "" if erased
}

// Kind is a kind of event, stored as one byte. A number never gets a second meaning.
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

// kind describes the encoding of the events of a kind, and the conversion to the form for hosts.
type kind struct {
	zero  event.Detail  // an empty detail, which is also that of an erased event
	empty func() Change // returns a new empty change
	// describe returns the detail of a change: a value or, if isFact, a pointer.
	describe func(c Change, names Names, isFact bool) (event.Detail, error)
	// parse returns the change that a detail, a pointer, describes. It returns nil and no error for
	// a detail of another kind. It is nil if statements do not have this kind.
	parse   func(event.Detail, Numbers) (Change, error)
	omitted [][]int // fields of the detail that facts do not have
}

// kindOf returns the row of a kind in the table, derived from mapTo. C is the type of the change, P
// a pointer to it, and D the type of the detail. mapTo converts a change to its detail and, for a
// kind that statements contain, a detail to its change. The direction is that of the mapper.
func kindOf[C any, D event.Detail, P interface {
	*C
	Change
}](mapTo func(P, *D, *mapper)) *kind {
	var zero D
	k := &kind{zero: zero, empty: func() Change { return P(new(C)) }}
	k.describe = func(c Change, names Names, isFact bool) (event.Detail, error) {
		to := &struct { // one allocation for both
			detail D
			mapper mapper
		}{mapper: mapper{names: names, isFact: isFact}}
		mapTo(c.(P), &to.detail, &to.mapper)
		if isFact {
			// a copy, because a pointer into to would keep the mapper in memory
			said := to.detail
			return any(&said).(event.Detail), to.mapper.err
		}
		return to.detail, to.mapper.err
	}
	fields := FactFields(zero)
	if len(fields) == 0 {
		return k // statements do not have this kind
	}
	k.omitted = omittedFields(zero, fields)
	k.parse = func(d event.Detail, numbers Numbers) (Change, error) {
		said, is := any(d).(*D)
		if !is {
			return nil, nil
		}
		// Numbers has the methods of Names, too.
		c, m := P(new(C)), mapper{names: numbers, numbers: numbers, isFact: true}
		m.checkOmitted(d, k.omitted)
		if mapTo(c, said, &m); m.err != nil {
			return nil, m.err
		}
		return c, nil
	}
	return k
}

// omittedFields returns the indexes of the fields of a detail that statements do not contain. said
// has the fields that they contain. An embedded struct is not a field of its own here.
func omittedFields(d event.Detail, said []reflect.StructField) (omitted [][]int) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(d)) {
		isThis := func(one reflect.StructField) bool { return slices.Equal(one.Index, f.Index) }
		if !f.Anonymous && !slices.ContainsFunc(said, isThis) {
			omitted = append(omitted, f.Index)
		}
	}
	return omitted
}

// table returns the rows of all kinds, indexed by kind.
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

// row returns the row of a kind, or nil for an unknown kind.
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

// newChange returns an empty change of a kind, or nil for an unknown kind.
func newChange(k Kind) Change {
	if row := k.row(); row != nil {
		return row.empty()
	}
	return nil
}

// decodeChange decodes a change of kind k from its public and its hidden bytes. hidden is nil if
// the event is erased. It returns how many of the hidden bytes are withheld from buyers. If k is
// unknown, or events of that kind are never erased and hidden is nil, public fails and c is nil.
func decodeChange(public, hidden *wire.Decoder, k Kind) (c Change, withheld int) {
	c = newChange(k)
	if c == nil {
		public.Fail("unknown kind %d", k)
		return nil, 0
	}
	// An answer is about several objects. Only the digest of their names is erased from it.
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
