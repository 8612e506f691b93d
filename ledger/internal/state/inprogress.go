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

// InProgress sums up what is recorded of a request, or of a part of one, until its settled event.
// That event is compared with the sums. It is empty between transactions.
type InProgress struct {
	Events          uint64          // number of events since the last settled event
	Requests        Requests        // the kinds of request that the events can be part of
	Enrolled        uint64          // number of objects enrolled, put under other terms, or withdrawn
	Raised          uint64          // responses above the current level
	Derived         uint64          // other recorded responses, except those of a sale
	ErasedResponses uint64          // responses and charges whose events are erased, except those of a sale
	ErasedEvents    uint64          // number of erased events
	ErasedDraws     uint64          // drawn responses of a sale whose events are erased
	Spent           uint64          // total cost to all objects in nano-nats, as far as events have it
	LastObject      string          // the last object enrolled or with a response; objects are in the order of names
	Question        uint32          // question of the first response or refusal; 0 if there was none
	Epsilon         privacy.Epsilon // ε of the first response or refusal
	MustBeSweep     bool            // some responses or refusals can only be those of a sweep
	Refused         RecordID        // the last refused object
	FirstObject     string          // the first object that an event names
	HasOthers       bool            // another object is named as well
	// ImplausibleRefusal is why an object cannot have been refused as recorded. It does not apply
	// if the request is for an answer that was recorded before.
	ImplausibleRefusal string
	Bindings           BindingSums // bindings of chains to the true values that responses are drawn from
	IsIncomplete       bool        // events are missing or were left out, so an audit compares nothing
}

// fields encodes or decodes the sums. IsIncomplete is not stored, because only an audit sets it.
func (u *InProgress) fields(x wire.Codec) {
	x.Uvarint(&u.Events, &u.Enrolled, &u.Raised, &u.Derived)
	x.Uvarint(&u.ErasedResponses, &u.ErasedEvents, &u.ErasedDraws, &u.Spent)
	x.U8((*uint8)(&u.Requests))
	x.Text(&u.LastObject)
	x.U32(&u.Question)
	x.Epsilon(&u.Epsilon)
	x.Flag(&u.MustBeSweep)
	x.U32(&u.Refused.Question)
	x.Text(&u.Refused.Name)
	x.Text(&u.ImplausibleRefusal)
	x.Text(&u.FirstObject)
	x.Flag(&u.HasOthers)
	x.Uvarint(&u.Bindings.Undrawn, &u.Bindings.First, &u.Bindings.Last)
	x.U32(&u.Bindings.Question)
}

// BindingSums sums up the events of a request that bind chains to true values. In a sale or an
// answer, these events are consecutive and precede everything drawn.
type BindingSums struct {
	Undrawn     uint64 // number of chains that were bound, and not drawn from since then
	First, Last uint64 // first and last event of the last consecutive bindings; 0 if there was none
	Question    uint32 // the question of these bindings
}

// Requests is a set of kinds of requests.
type Requests uint8

// RequestsWith returns the kinds of requests that may record an event of a kind. For a kind that is
// not listed, that is only a request for a single change.
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
