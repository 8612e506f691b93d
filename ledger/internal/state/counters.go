package state

import (
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/privacy"
)

// Position is the end of a log: the number of its events and the root of their tree. Salts are
// random, so two logs that have diverged are never at the same position.
type Position = journal.Position

// Counters summarizes the log: the number of events, the root of their tree, the time of the last
// event, and what the events have created. The root is up to date only between transactions.
type Counters struct {
	Position
	Last      time.Time `audit:"the time of the last event"`           // never decreases
	Questions uint32    `audit:"the number of questions"`              // defined so far, which is also the last number
	Policies  uint32    `audit:"the number of policies"`               // the last number
	Objects   uint64    `audit:"the number of objects"`                // ever enrolled
	Chains    uint64    `audit:"the number of chains"`                 // current chains
	Buyers    uint32    `audit:"the number of buyers"`                 // the last number
	Sales     uint64    `audit:"the number of sales and reservations"` // numbers given to sales and reservations
	Sold      uint64    `audit:"the number of executed sales"`         // executed sales
	Revenue   uint64    // of all sales, in minor units of the currency
	Open      Opened    // the sale or reservation whose object events are incomplete
	// Unsettled is the sale or reservation whose settled event has not been recorded yet. The
	// refusals of its request precede that event.
	Unsettled uint64 `audit:"the sale that no request settles"`
	// Refused is the number of refused events that are not counted by a settled event yet.
	Refused    uint64     `audit:"the number of refusals that no request settles"`
	Charges    Charges    // for the next answer
	Answer     Answering  `audit:"the answer that no request settles"` // the answer that is not settled yet
	InProgress InProgress `audit:"what is to be settled"`              // of the request that is not settled yet
	Erased     Erasure    // of the object whose forgotten event is next
	Noises     uint32     `audit:"the number of noise keys"` // number of noise keys
	// Named is the event of the last request that may name objects for which it has no event
	// ([event.Settled.IsOpen]), or 0.
	Named uint64 `audit:"the last open request"`
}

// CheckWhole returns [errs.ErrCorrupt] if the log ends between events that belong together. That is
// the case if one of the fields is set that are empty between transactions.
func (c Counters) CheckWhole() error {
	isOpen := c.Open != Opened{} || c.Unsettled != 0 || c.Answer != Answering{} || c.Charges != Charges{}
	if isOpen || c.Refused != 0 || c.InProgress != (InProgress{}) || c.Erased != (Erasure{}) {
		return errs.Corrupt(nil, "the log ends inside a transaction: sale %d, %d refusals, %d charges and %d events "+
			"of a request are not settled, or %d erased events, which cost %d nano-nats, belong to no object",
			c.Open.Sale+c.Unsettled, c.Refused, c.Charges.Objects, c.InProgress.Events, c.Erased.Events, c.Erased.Spent)
	}
	return nil
}

// Fields implements [wire.Record]. Charges, InProgress and Open are usually empty. Each then takes
// one byte, which says so.
func (c *Counters) Fields(x wire.Codec) {
	x.Uvarint(&c.Events)
	x.Array(c.Root[:])
	x.Time(&c.Last)
	x.U32(&c.Noises, &c.Questions, &c.Policies)
	x.Uvarint(&c.Objects, &c.Chains)
	x.U32(&c.Buyers)
	x.Uvarint(&c.Sales, &c.Sold, &c.Revenue, &c.Named, &c.Unsettled, &c.Refused)
	// x.Flag encodes or decodes whether the fields follow, and returns it.
	if charged := c.Charges != (Charges{}); x.Flag(&charged) {
		c.Charges.fields(x)
	}
	x.Uvarint(&c.Answer.Event, &c.Answer.Base)
	x.U8((*uint8)(&c.Answer.Left))
	x.U32(&c.Answer.Question)
	x.Epsilon(&c.Answer.Epsilon, &c.Answer.Cost)
	if under := c.InProgress != (InProgress{}); x.Flag(&under) {
		c.InProgress.fields(x)
	}
	e := &c.Erased
	x.Uvarint(&e.Events, &e.OnlyNamed, &e.Terms, &e.Earned, &e.Spent, &e.Named)
	if x.Uvarint(&c.Open.Sale); c.Open.Sale != 0 {
		x.Uvarint(&c.Open.Objects, &c.Open.Erased, &c.Open.Price)
		c.Open.Tally.Fields(x)
		x.Text(&c.Open.Last)
		x.Uvarint(&c.Open.Held)
	}
}

// Encode returns the payload of the record.
func (c Counters) Encode() []byte { return wire.Encode(&c) }

// DecodeCounters decodes what [Counters.Encode] returns.
func DecodeCounters(payload []byte) (Counters, error) { return wire.Decode[Counters](payload) }

// Charges summarizes the charges for an answer whose event has not been recorded yet. It is empty
// between transactions.
type Charges struct {
	Objects  uint64          `audit:"the number of objects charged for no answer"` // number of charged objects
	Question uint32          `audit:"the question of these charges"`               // 0 if all their events are erased
	Epsilon  privacy.Epsilon `audit:"the ε of these charges"`                      // likewise
	// Renewed is the last event by which a charged object was forgotten or began an epoch, or 0.
	Renewed uint64 `audit:"the last event that forgot one of them, or began an epoch"`
	// Erased is the number of charges whose events are erased.
	Erased uint64 `audit:"the number of these charges that are erased"`
	// Last is the last object whose charge is not erased. Charges are in the order of names.
	Last  string         `audit:"the last of these objects"`
	Panel event.PanelSum `audit:"the panel of these objects"` // of the charged objects
}

// fields encodes or decodes the charges.
func (n *Charges) fields(x wire.Codec) {
	x.Uvarint(&n.Objects)
	x.U32(&n.Question)
	x.Epsilon(&n.Epsilon)
	x.Uvarint(&n.Renewed, &n.Erased)
	x.Text(&n.Last)
	x.Array(n.Panel[:])
}

// Answering is an answer whose request is not settled yet. It is empty between transactions.
type Answering struct {
	Event uint64 // the event that recorded the answer; 0 for none
	Base  uint64 // the event of the answer that it was derived from; 0 if it was drawn from true values
	Left  Leaves // what is known of the objects that it left out
	// If it was drawn from true values:
	Question      uint32
	Epsilon, Cost privacy.Epsilon // ε of the answer, and charge to each object
}

// Leaves is what is known about the objects that an answer leaves out.
type Leaves uint8

const (
	LeavesUnknown Leaves = iota // not known, because some of its charges are erased
	LeavesNone                  // no object: the charged objects are the whole panel
	LeavesSome                  // some object: the charged and the refused objects should be the whole panel
)

// Erasure sums up erased events until the forgotten event of their object, which describes what
// they were part of. It is always empty while a ledger records, because events are erased after the
// forgotten event. It is used when an erased log is folded.
type Erasure struct {
	Events uint64 `audit:"the number of erased events that belong to no forgotten object"` // number of erased events
	// OnlyNamed is the number of events that only named an object: refusals and settled events.
	OnlyNamed uint64 `audit:"the number of those that only named an object"`
	// Terms is the number of events that changed the terms of an object.
	Terms uint64 `audit:"the number of those that changed terms"`
	// Earned is in minor units of the currency.
	Earned uint64 `audit:"the money in erased events that belongs to no forgotten object"`
	Spent  uint64 `audit:"the ε in erased events that belongs to no forgotten object"` // in nano-nats
	// Named is the number of open requests whose names were erased for the next forgotten object.
	Named uint64 `audit:"the number of open requests that were erased for no object"`
}

// Opened is the sale or reservation whose object events are incomplete, and the sums that these
// events must add up to. It is empty between transactions.
type Opened struct {
	Sale    uint64          `audit:"the sale that is not complete"`     // its number; 0 for none
	Objects uint64          `audit:"the number of its objects to come"` // number of objects that are missing
	Price   uint64          `audit:"their price"`                       // price of the missing objects, in minor units
	Tally   event.SaleTally `audit:"their tally"`                       // of the missing objects
	Erased  uint64          `audit:"the number of its erased objects"`  // number of objects whose events are erased
	Last    string          `audit:"the last of its objects"`           // the last object, in the order of names
	// Held is, for the capture of a reservation, the event of the last object found in the
	// reservation, or 0.
	Held uint64 `audit:"the last of its reserved objects"`
}
