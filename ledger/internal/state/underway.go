package state

import (
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// RecordID identifies a chain by question and object.
type RecordID struct {
	Question uint32 // number of the question
	Name     string // name of the object
}

// Underway sums up what is recorded of a request, or of a part of one, until its settled event.
// That event is compared with the sums. It is empty between transactions.
type Underway struct {
	Events   uint64          // number of events since the last settled event
	Requests Requests        // the kinds of request that the events can be part of
	Enrolled uint64          // number of objects enrolled, put under other terms, or withdrawn
	Raised   uint64          // responses above the current level
	Derived  uint64          // other recorded responses, except those of a sale
	Erased   uint64          // responses and charges whose events are erased, except those of a sale
	Gone     uint64          // number of erased events
	Draws    uint64          // drawn responses of a sale whose events are erased
	Spent    uint64          // total cost to all objects in nano-nats, as far as events have it
	Last     string          // the last object enrolled or with a response; objects are in the order of names
	Question uint32          // question of the first response or refusal; 0 if there was none
	Asked    privacy.Epsilon // ε of the first response or refusal
	Sweep    bool            // some responses or refusals can only be those of a sweep
	Refused  RecordID        // the last refused object
	One      string          // the first object that an event names
	More     bool            // another object is named as well
	// Doubt is why an object cannot have been refused as recorded. It does not apply if the request
	// is for an answer that was recorded before.
	Doubt string
	Bound Binding // bindings of chains to the true values that responses are drawn from
	Loose bool    // events are missing or were left out, so an audit compares nothing
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

// Binding sums up the events of a request that bind chains to true values. In a sale or an answer,
// these events are consecutive and precede everything drawn.
type Binding struct {
	Undrawn     uint64 // number of chains that were bound, and not drawn from since then
	First, Last uint64 // first and last event of the last consecutive bindings; 0 if there was none
	Question    uint32 // the question of these bindings
}

// Requests is a set of kinds of requests.
type Requests uint8

// RequestsWith returns the kinds of requests that record an event of a kind.
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

// The kinds of requests.
const (
	OfRaise       Requests = 1 << iota // a raise or a sweep
	OfEnrolment                        // enrolment of objects in a question
	OfAnswer                           // an answer about a panel
	OfSale                             // a sale, new or reserved before
	OfReservation                      // a reservation
	OfChange                           // a single change
	OfTerms                            // other terms for objects in a question
	OfWithdrawal                       // withdrawal of several objects
)
