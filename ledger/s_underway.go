package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// underway sums up what is recorded of a request, or of a part of one, until its settled event comes: what that one tells
// is compared with it. It is empty between transactions.
type underway struct {
	events   uint64
	requests requests
	enrolled uint64
	raised   uint64 // responses above the current level
	derived  uint64 // other responses that were recorded, but for those of a sale
	erased   uint64 // responses whose events are erased
	draws    uint64 // responses drawn for a sale whose events are erased
	spent    uint64 // that it costs all objects together, in nano-nats, as far as events say it
	last     string // the last object enrolled or with a response: they come in order
	question uint32 // that the first response or refusal is about; 0 if there was none
	asked    privacy.Epsilon
	sweep    bool     // responses or refusals are such as only those of a sweep can be
	refused  recordID // the last object refused
	one      string   // the first object that an event names
	more     bool     // another one is named as well
	doubt    string   // why an object cannot have been refused as it was, unless the request is for an answer given again
	loose    bool     // events are missing, or were left out: an audit compares nothing
}

func (u underway) encode(e *wire.Encoder) {
	for _, n := range []uint64{u.events, u.enrolled, u.raised, u.derived, u.erased, u.draws, u.spent} {
		e.Uvarint(n)
	}
	e.U8(uint8(u.requests))
	e.Text(u.last)
	e.U32(u.question)
	e.Epsilon(u.asked)
	e.Flag(u.sweep)
	e.U32(u.refused.question)
	e.Text(u.refused.name)
	e.Text(u.doubt)
	e.Text(u.one)
	e.Flag(u.more)
}

func decodeUnderway(d *wire.Decoder) underway {
	return underway{
		events: d.Uvarint(), enrolled: d.Uvarint(), raised: d.Uvarint(), derived: d.Uvarint(), erased: d.Uvarint(), draws: d.Uvarint(), spent: d.Uvarint(),
		requests: requests(d.U8()), last: d.Text(), question: d.U32(), asked: d.Epsilon(), sweep: d.Flag(),
		refused: recordID{d.U32(), d.Text()}, doubt: d.Text(), one: d.Text(), more: d.Flag(),
	}
}

// requests are the sorts of requests that events can be of.
type requests uint8

// requestsWith returns the sorts of requests that record an event of a kind.
func requestsWith(k event.Kind) requests {
	switch k {
	case event.KindReleased:
		return ofRaise
	case event.KindBound:
		return ofRaise | ofAnswer | ofSale
	case event.KindPolicy, event.KindEnrolled:
		return ofEnrolment
	case event.KindCharged, event.KindAnswered:
		return ofAnswer
	case event.KindBuyer:
		return ofSale | ofReservation | ofChange
	case event.KindSale, event.KindSold:
		return ofSale
	case event.KindReserved, event.KindHeld:
		return ofReservation
	case event.KindRefused:
		return ofRaise | ofAnswer | ofSale | ofReservation
	}
	return ofChange
}

const (
	ofRaise requests = 1 << iota // or of a sweep
	ofEnrolment
	ofAnswer
	ofSale
	ofReservation
	ofChange // a single change
)
