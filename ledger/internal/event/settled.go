package event

import (
	"crypto/sha256"

	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// Settled ends a request, or one part of a large one, and records what came of it, so that the same
// key gives the same result again. The events of the objects refused stand before it.
type Settled struct {
	Key     string            // the idempotency key
	Digest  [sha256.Size]byte // of the request, but for what is about several objects; zero once it is erased
	Marks   Marks             // of its fields, likewise
	Named   bool              // the request says something of several objects, and this is its first part
	Names   Sum               // of what it says of them; zero once it is erased
	Again   Wanted            // the responses handed out again, if the request got any; likewise
	First   uint64            // the first event of this part
	Through uint64            // objects enrolled by later events do not belong to the request
	Final   bool              // no further part follows
	Counts  Counts            // of this part
	Spent   uint64            // what it cost all objects together, in nano-nats
	Refused uint64            // objects refused
	Swept   []SweptCount      // of a sweep, by question
	Answer  uint64            // the event of the answer that the request got, if it asked for one
	Sale    uint64            // the sale or reservation that the request made, if it did
	Done    uint64            // of a part that is not the final one: how many of the objects named are dealt with
	// Alone: the request names one object, and no other. Then its digest is as good as the request
	// to anybody who guesses, so it is erased with the object.
	Alone  bool
	Object string // the one, if it is alone; or the last one of a part that is not the final one, of a request for all
}

func (*Settled) Kind() Kind { return KindSettled }

func (c *Settled) About() string { return c.Object }

// A key stays used, whatever becomes of the object.
func (c *Settled) public(x wire.Codec) {
	x.Text(&c.Key)
	if !x.Flag(&c.Alone) {
		x.Flag(&c.Named)
		c.identity(x)
	}
	x.Uvarint(&c.First, &c.Through)
	x.Flag(&c.Final)
	for i := range c.Counts {
		x.Uvarint(&c.Counts[i])
	}
	x.Uvarint(&c.Spent, &c.Refused)
	const smallest = 4 // bytes of a count
	wire.List(x, &c.Swept, smallest, func(one *SweptCount) {
		x.Short(&one.Question)
		x.Uvarint(&one.Raised, &one.Unchanged, &one.Refused)
	})
	if d := x.Reads(); d != nil {
		checkSwept(d, c.Swept, c.Refused)
	}
	x.Uvarint(&c.Answer, &c.Sale, &c.Done)
}

// Fields implements [Change].
func (c *Settled) Fields(x wire.Codec) {
	x.Text(&c.Object)
	if c.Alone {
		c.identity(x)
	}
	if c.Named {
		c.Names.fields(x)
	}
}

func (c *Settled) identity(x wire.Codec) {
	x.Array(c.Digest[:])
	c.Marks.fields(x)
	if x.Short(&c.Again.Question); c.Again.Question != 0 {
		x.Epsilon(&c.Again.Epsilon)
	}
}

func (c *Settled) mapTo(d *event.Settled, m *mapper) {
	same(m, &c.Sale, &d.Sale)
	same(m, &c.Key, &d.Key)
	same(m, (*[3]uint64)(&c.Counts), &d.Counts)
	same(m, &c.Refused, &d.LeftOut)
	if c.Alone { // else a request about many
		same(m, &c.Object, &d.Object)
	}
}

// Wanted is the question, by number, and the ε at which a request wants responses.
type Wanted struct {
	Question uint32          // 0 for none
	Epsilon  privacy.Epsilon // above 0
}

// SweptCount tells how many chains of a question a sweep raised, left unchanged and refused. The
// refused events come in the same order.
type SweptCount struct {
	Question                   uint32 // by number
	Raised, Unchanged, Refused uint64 // how many chains; an event for each refused one says why
}

// Counts are the tallies of a request; what each means depends on the request.
type Counts [3]uint64

// checkSwept refuses the counts of a sweep that do not count so many refusals. Without any, those
// are of something else.
func checkSwept(d *wire.Decoder, swept []SweptCount, refusals uint64) {
	for _, one := range swept {
		if one.Refused > refusals {
			d.Fail("a sweep that refused more than it counts")
			return
		}
		refusals -= one.Refused
	}
	if len(swept) > 0 && refusals > 0 {
		d.Fail("a sweep that refused less than it counts")
	}
}
