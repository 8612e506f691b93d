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

// kind is how the events of a kind are encoded, described and read.
type kind struct {
	zero     event.Detail                               // what an erased event says
	empty    func() Change                              // returns a new change
	describe func(Change, *describer) event.Detail      // nil for a change of another kind
	parse    func(event.Detail, *parser) (Change, bool) // of what a statement has; nil for kinds that it has not
	omitted  [][]int                                    // fields of the detail that a statement does not have
}

// kindOf makes the row of a kind in the table. parse is nil for kinds that no statement has.
func kindOf[C, D any, P interface {
	*C
	Change
}](describe func(P, *describer) D, parse func(P, *D, *parser)) *kind {
	k := &kind{empty: func() Change { return P(new(C)) }}
	k.zero, _ = any(*new(D)).(event.Detail)
	k.describe = func(c Change, to *describer) event.Detail {
		one, is := c.(P)
		if !is {
			return nil
		}
		d, _ := any(describe(one, to)).(event.Detail)
		return d
	}
	if parse != nil {
		k.omitted = omittedFields(k.zero)
		k.parse = func(d event.Detail, from *parser) (Change, bool) {
			said, is := any(d).(*D)
			if !is {
				return nil, false
			}
			c := P(new(C))
			parse(c, said, from)
			return c, true
		}
	}
	return k
}

// omittedFields returns the indexes of the fields of a detail that a statement does not have.
func omittedFields(d event.Detail) (omitted [][]int) {
	said := event.FactFields(d)
	for _, f := range reflect.VisibleFields(reflect.TypeOf(d)) {
		isSaid := slices.ContainsFunc(said, func(one reflect.StructField) bool { return slices.Equal(one.Index, f.Index) })
		if !isSaid && !f.Anonymous {
			omitted = append(omitted, f.Index)
		}
	}
	return omitted
}

// table has a row for each kind, by its number.
var table = sync.OnceValue(func() []*kind {
	return []*kind{
		KindCreated:   kindOf((*Created).describe, (*Created).parse),
		KindTruthKey:  kindOf((*TruthKeySet).describe, nil),
		KindNoiseKey:  kindOf((*NoiseKeySet).describe, nil),
		KindQuestion:  kindOf((*QuestionDefined).describe, (*QuestionDefined).parse),
		KindPolicy:    kindOf((*PolicyDefined).describe, (*PolicyDefined).parse),
		KindEnrolled:  kindOf((*Enrolled).describe, (*Enrolled).parse),
		KindReleased:  kindOf((*Released).describe, (*Released).parse),
		KindSettled:   kindOf((*Settled).describe, nil),
		KindCharged:   kindOf((*Charged).describe, (*Charged).parse),
		KindAnswered:  kindOf((*Answered).describe, nil),
		KindBuyer:     kindOf((*BuyerNamed).describe, (*BuyerNamed).parse),
		KindReserved:  kindOf((*Reserved).describe, (*Reserved).parse),
		KindHeld:      kindOf((*Held).describe, (*Held).parse),
		KindCancelled: kindOf((*Cancelled).describe, nil),
		KindSale:      kindOf((*SaleMade).describe, (*SaleMade).parse),
		KindSold:      kindOf((*Sold).describe, (*Sold).parse),
		KindWithdrawn: kindOf((*Withdrawn).describe, (*Withdrawn).parse),
		KindBound:     kindOf((*TruthBound).describe, (*TruthBound).parse),
		KindRefused:   kindOf((*ObjectRefused).describe, (*ObjectRefused).parse),
		KindStated:    kindOf((*Stated).describe, (*Stated).parse),
		KindForgotten: kindOf((*Forgotten).describe, (*Forgotten).parse),
		KindEpoch:     kindOf((*EpochBegun).describe, (*EpochBegun).parse),
		KindTerms:     kindOf((*TermsChanged).describe, (*TermsChanged).parse),
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
