package state

import (
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// RecordID names a chain, by question and object.
type RecordID struct {
	Question uint32 // by number
	Name     string // of the object
}

// Underway sums up what is recorded of a request, or of a part of one, until its settled event
// comes: what that one tells is compared with it. It is empty between transactions.
type Underway struct {
	Events   uint64          // since the last settled event
	Requests Requests        // which it can be of
	Enrolled uint64          // how many objects, or put under other terms, or withdrawn
	Raised   uint64          // responses above the current level
	Derived  uint64          // other responses that were recorded, but for those of a sale
	Erased   uint64          // responses and charges whose events are erased, but for those of a sale
	Gone     uint64          // events that are erased
	Draws    uint64          // responses drawn for a sale whose events are erased
	Spent    uint64          // that it costs all objects together, in nano-nats, as far as events say it
	Last     string          // the last object enrolled or with a response: they come in order
	Question uint32          // that the first response or refusal is about; 0 if there was none
	Asked    privacy.Epsilon // likewise, its ε
	Sweep    bool            // responses or refusals are such as only those of a sweep can be
	Refused  RecordID        // the last object refused
	One      string          // the first object that an event names
	More     bool            // another one is named as well
	// Doubt is why an object cannot have been refused as it was, unless the request is for an
	// answer given again
	Doubt string
	Bound Binding // the truths that chains were bound to, for what is drawn from them
	Loose bool    // events are missing, or were left out: an audit compares nothing
}

func (u *Underway) fields(x wire.Codec) {
	x.Uvarint(&u.Events, &u.Enrolled, &u.Raised, &u.Derived, &u.Erased, &u.Gone, &u.Draws, &u.Spent)
	x.U8((*uint8)(&u.Requests))
	x.Text(&u.Last)
	x.U32(&u.Question)
	x.Epsilon(&u.Asked)
	x.Flag(&u.Sweep)
	x.U32(&u.Refused.Question)
	x.Text(&u.Refused.Name)
	x.Text(&u.Doubt)
	x.Text(&u.One)
	x.Flag(&u.More)
	x.Uvarint(&u.Bound.Undrawn, &u.Bound.First, &u.Bound.Last)
	x.U32(&u.Bound.Question)
}

// Binding sums up the events of a request that bind chains to truths. Those of a sale or an answer
// stand in a row, before all that is drawn.
type Binding struct {
	Undrawn     uint64 // chains that were bound, and not drawn from since
	First, Last uint64 // events of the last row of them; 0 if there was none
	Question    uint32 // of this row
}

// Requests are sorts of requests, as a set: those that some events can be of.
type Requests uint8

// RequestsWith returns the sorts of requests that record an event of a kind.
func RequestsWith(k event.Kind) Requests {
	switch k {
	case event.KindReleased:
		return OfRaise
	case event.KindBound:
		return OfRaise | OfAnswer | OfSale
	case event.KindPolicy:
		return OfEnrolment | OfTerms
	case event.KindEnrolled:
		return OfEnrolment
	case event.KindTerms:
		return OfTerms
	case event.KindWithdrawn:
		return OfChange | OfWithdrawal
	case event.KindCharged, event.KindAnswered:
		return OfAnswer
	case event.KindBuyer:
		return OfSale | OfReservation | OfChange
	case event.KindSale, event.KindSold:
		return OfSale
	case event.KindReserved, event.KindHeld:
		return OfReservation
	case event.KindRefused:
		return OfRaise | OfAnswer | OfSale | OfReservation | OfEnrolment | OfTerms
	}
	return OfChange
}

// The sorts of requests.
const (
	OfRaise       Requests = 1 << iota // a raise, or a sweep
	OfEnrolment                        // of objects in a question
	OfAnswer                           // about a panel
	OfSale                             // new or reserved
	OfReservation                      // of a sale
	OfChange                           // a single change
	OfTerms                            // that change, of objects in a question
	OfWithdrawal                       // of several objects
)
