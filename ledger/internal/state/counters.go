package state

import (
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/privacy"
)

// Position is the end of a log: so many events, and the root of their tree. Salts are random, so no
// two logs that went their own ways are ever at the same one.
type Position = journal.Position

// Counters summarize the log: how many events there are, the root of their tree between
// transactions, the time of the last, and what they made.
type Counters struct {
	Position
	Last      time.Time `audit:"the time of the last event"`           // never runs back
	Questions uint32    `audit:"the number of questions"`              // defined; the last one's number
	Policies  uint32    `audit:"the number of policies"`               // the last one's number
	Objects   uint64    `audit:"the number of objects"`                // ever enrolled
	Chains    uint64    `audit:"the number of chains"`                 // current ones
	Buyers    uint32    `audit:"the number of buyers"`                 // the last one's number
	Sales     uint64    `audit:"the number of sales and reservations"` // numbers given to sales and reservations
	Sold      uint64    `audit:"the number of sales carried out"`      // sales carried out
	Revenue   uint64    // what they brought, in minor units of the currency
	Open      Opened    // whose objects are to come
	// Unsettled is the sale or reservation whose settled event is to come, with those of who is
	// refused before it
	Unsettled uint64 `audit:"the sale that no request settles"`
	// Refused counts the refused events that no settled event counts yet.
	Refused  uint64    `audit:"the number of refusals that no request settles"`
	Charges  Charges   // for the answer that is to come
	Answer   Answering `audit:"the answer that no request settles"` // that is to be settled
	Underway Underway  `audit:"what is to be settled"`              // of the request that is to be settled
	Erased   Erasure   // of the object that is to be forgotten
	Noises   uint32    `audit:"the number of noise keys"` // noise keys
	// Named is the last request that may name objects for which it has no event
	// ([event.Settled.IsOpen]), by the event, or 0
	Named uint64 `audit:"the last open request"`
}

// CheckWhole refuses the end of a transaction in the midst of what belongs together.
func (c Counters) CheckWhole() error {
	isOpen := c.Open != Opened{} || c.Unsettled != 0 || c.Answer != Answering{} || c.Charges != Charges{}
	if isOpen || c.Refused != 0 || c.Underway != (Underway{}) || c.Erased != (Erasure{}) {
		return errs.Corrupt(nil, "half of sale %d, %d refusals, %d charges, %d events of a request "+
			"or %d erased events, which cost %d nano-nats",
			c.Open.Sale+c.Unsettled, c.Refused, c.Charges.Objects, c.Underway.Events, c.Erased.Events, c.Erased.Spent)
	}
	return nil
}

// Fields implements [wire.Record].
func (c *Counters) Fields(x wire.Codec) {
	x.Uvarint(&c.Events)
	x.Array(c.Root[:])
	x.Time(&c.Last)
	x.U32(&c.Noises, &c.Questions, &c.Policies)
	x.Uvarint(&c.Objects, &c.Chains)
	x.U32(&c.Buyers)
	x.Uvarint(&c.Sales, &c.Sold, &c.Revenue, &c.Named, &c.Unsettled, &c.Refused)
	if charged := c.Charges != (Charges{}); x.Flag(&charged) {
		c.Charges.fields(x)
	}
	x.Uvarint(&c.Answer.Event, &c.Answer.Base)
	x.U8((*uint8)(&c.Answer.Left))
	x.U32(&c.Answer.Question)
	x.Epsilon(&c.Answer.Epsilon, &c.Answer.Cost)
	if under := c.Underway != (Underway{}); x.Flag(&under) {
		c.Underway.fields(x)
	}
	x.Uvarint(&c.Erased.Events, &c.Erased.Mentions, &c.Erased.Terms, &c.Erased.Earned, &c.Erased.Spent, &c.Erased.Named)
	if x.Uvarint(&c.Open.Sale); c.Open.Sale != 0 {
		x.Uvarint(&c.Open.Objects, &c.Open.Erased, &c.Open.Price)
		c.Open.Tally.Fields(x)
		x.Text(&c.Open.Last)
		x.Uvarint(&c.Open.Held)
	}
}

// Encode returns the payload of the record.
func (c Counters) Encode() []byte { return wire.Encode(&c) }

// DecodeCounters reads what [Counters.Encode] writes.
func DecodeCounters(payload []byte) (Counters, error) { return wire.Decode[Counters](payload) }

// Charges are those of an answer whose event is still to come. They are empty between transactions.
type Charges struct {
	Objects  uint64          `audit:"the number of objects charged for no answer"` // how many are charged
	Question uint32          `audit:"the question of these charges"`               // 0 if all their events are erased
	Epsilon  privacy.Epsilon `audit:"the ε of these charges"`                      // likewise
	// Renewed is the last event by which one of those charged was forgotten, or began an epoch, or
	// 0.
	Renewed uint64 `audit:"the last event that forgot one of them, or began an epoch"`
	// Erased counts the charges whose events are erased.
	Erased uint64 `audit:"the number of these charges that are erased"`
	// Last is the last object whose charge is not erased: they come in order.
	Last  string         `audit:"the last of these objects"`
	Panel event.PanelSum `audit:"the panel of these objects"` // of these objects
}

func (n *Charges) fields(x wire.Codec) {
	x.Uvarint(&n.Objects)
	x.U32(&n.Question)
	x.Epsilon(&n.Epsilon)
	x.Uvarint(&n.Renewed, &n.Erased)
	x.Text(&n.Last)
	x.Array(n.Panel[:])
}

// Answering is an answer whose request is still to be settled. It is empty between transactions.
type Answering struct {
	Event uint64 // that recorded it; 0: none
	Base  uint64 // the event of the answer that it was derived from; 0 if it was drawn from truths
	Left  Leaves // out of it
	// What it is about, and costs each object, if it was drawn from truths.
	Question      uint32
	Epsilon, Cost privacy.Epsilon // of the answer, and what each object pays
}

// Leaves is what is known of whom an answer leaves out.
type Leaves uint8

const (
	LeavesAnybody  Leaves = iota // some of its charges are erased
	LeavesNobody                 // it is about those who were charged, and they are all
	LeavesSomebody               // those charged and those refused should be who was asked for
)

// Erasure sums up erased events until the forgotten event comes that says what they were part of.
// In a ledger that erases as it forgets it is always empty; it fills up when an erased log is
// folded.
type Erasure struct {
	Events uint64 `audit:"the number of erased events that belong to no forgotten object"` // how many
	// Mentions counts those that only named an object: refusals and settled events.
	Mentions uint64 `audit:"the number of those that only named somebody"`
	// Terms counts those that changed the terms of an object.
	Terms uint64 `audit:"the number of those that changed terms"`
	// Earned is in minor units of the currency.
	Earned uint64 `audit:"the money in erased events that belongs to no forgotten object"`
	Spent  uint64 `audit:"the ε in erased events that belongs to no forgotten object"` // nano-nats
	// Named counts open requests whose names are erased: by the object that is forgotten next.
	Named uint64 `audit:"the number of open requests that were erased for no object"`
}

// Opened is the sale or reservation whose objects are still to come, and what they must add up to.
// It is empty between transactions.
type Opened struct {
	Sale    uint64          `audit:"the sale that is not complete"`     // its number, 0 for none
	Objects uint64          `audit:"the number of its objects to come"` // how many are to come
	Price   uint64          `audit:"their price"`                       // of those to come, in minor units
	Tally   event.SaleTally `audit:"their tally"`                       // of those to come
	Erased  uint64          `audit:"the number of its erased objects"`  // objects whose events are erased
	Last    string          `audit:"the last of its objects"`           // the last object: they come in order
	// Held is of a sale that was reserved, the event of the object last found in the reservation,
	// or 0
	Held uint64 `audit:"the last of its reserved objects"`
}
