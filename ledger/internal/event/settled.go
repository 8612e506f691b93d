package event

import (
	"crypto/sha256"

	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// Settled ends a request, or one part of a large request, and records the result. So a repetition
// with the same key returns the same result. The events of the refused objects precede it.
type Settled struct {
	Key string // the idempotency key
	// Digest is the digest of the request, without the fields about several objects. It is zero
	// once it is erased.
	Digest [sha256.Size]byte
	Marks  Marks // of the fields of the request; erased with Digest
	// Named means that the request has fields about several objects, and that this is its first
	// part.
	Named bool
	Names Sum // of the fields about several objects; zero once it is erased
	// Again identifies the responses that the request returned although they were recorded before,
	// if any. It is erased with Digest.
	Again Wanted
	First uint64 // the first event of this part
	// Through is the number of an event. Objects enrolled by later events do not belong to the
	// request.
	Through uint64
	Final   bool         // no further part follows
	Counts  Counts       // of this part
	Spent   uint64       // cost for all objects together, in nano-nats
	Refused uint64       // number of refused objects
	Swept   []SweptCount // counts of a sweep, by question
	Answer  uint64       // the event of the answer that the request returned, or 0
	Sale    uint64       // the sale or reservation that the request created, or 0
	// Done is, for a part that is not the final one, how many of the named objects are done.
	Done uint64
	// Alone means that the request names exactly one object. A guess of the request can be checked
	// against its digest, so the digest is then erased with the object.
	Alone bool
	// Object is the only object if Alone. In a part that is not the final one of a request for all
	// objects, it is the last object that is done.
	Object string
}

func (*Settled) Kind() Kind { return KindSettled }

func (c *Settled) About() string { return c.Object }

// public describes the fields that are kept when the object of the request is forgotten. The key is
// kept, because it remains used. The identity is among them only if the request is not about
// exactly one object; otherwise it is among the hidden fields.
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

// Fields implements [Change]. The hidden fields are those from which the names of objects could be
// guessed.
func (c *Settled) Fields(x wire.Codec) {
	x.Text(&c.Object)
	if c.Alone {
		c.identity(x)
	}
	if c.Named {
		c.Names.fields(x)
	}
}

// identity describes the digest and the marks of the request, and which recorded responses it
// returned.
func (c *Settled) identity(x wire.Codec) {
	x.Array(c.Digest[:])
	c.Marks.fields(x)
	if x.Short(&c.Again.Question); c.Again.Question != 0 {
		x.Epsilon(&c.Again.Epsilon)
	}
}

// mapTo sets the fields of the detail. Statements do not have this kind. For a request that is not
// about exactly one object, the detail names no object, even if Object is set.
func (c *Settled) mapTo(d *event.Settled, m *mapper) {
	same(m, &c.Sale, &d.Sale)
	same(m, &c.Key, &d.Key)
	same(m, (*[3]uint64)(&c.Counts), &d.Counts)
	same(m, &c.Refused, &d.LeftOut)
	if c.Alone {
		same(m, &c.Object, &d.Object)
	}
}

// Wanted is the question and the ε for which a request wants responses.
type Wanted struct {
	Question uint32          // 0 for none
	Epsilon  privacy.Epsilon // above 0
}

// SweptCount is how many chains of a question a sweep raised, left unchanged and refused. The
// refused events are in the same order as the questions.
type SweptCount struct {
	Question                   uint32 // by number
	Raised, Unchanged, Refused uint64 // numbers of chains; each refused one has an event with the reason
}

// Counts are three counts of a request. Their meaning depends on the kind of the request.
type Counts [3]uint64

// checkSwept fails if the refused chains of all questions of a sweep are not as many as the
// refusals of the request. If swept is empty, the request is not a sweep, and nothing is checked.
func checkSwept(d *wire.Decoder, swept []SweptCount, refusals uint64) {
	for _, one := range swept {
		// subtracted one by one, because their sum could overflow
		if one.Refused > refusals {
			d.Fail("a sweep counts fewer refusals than its questions")
			return
		}
		refusals -= one.Refused
	}
	if len(swept) > 0 && refusals > 0 {
		d.Fail("a sweep counts more refusals than its questions")
	}
}
