package event

import (
	"time"

	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// Deal has the fields that reservations and sales share. The events of its objects follow, and
// then the events of the refused objects.
type Deal struct {
	Sale     uint64          // its number; a reservation and its sale have the same number
	Buyer    uint32          // by number
	Question uint32          // by number
	Epsilon  privacy.Epsilon // of the responses
	Objects  uint64          // number of objects that take part
	Price    uint64          // the total, in minor units of the currency
	Refused  uint64          // objects left out
}

// fields describes the fields of a deal, in their order.
func (c *Deal) fields(x wire.Codec) {
	x.Uvarint(&c.Sale)
	x.U32(&c.Buyer, &c.Question)
	x.Epsilon(&c.Epsilon)
	x.Uvarint(&c.Objects, &c.Price, &c.Refused)
}

// Reserved reserves budget for a sale, at a price, until Expires.
type Reserved struct {
	Deal
	Expires time.Time // from then on nothing is reserved
}

func (*Reserved) Kind() Kind { return KindReserved }

// Fields implements [Change].
func (c *Reserved) Fields(x wire.Codec) {
	c.Deal.fields(x)
	x.Time(&c.Expires)
}

// mapTo copies the fields to the detail or, if m parses, from the detail. It records an error for
// an expiry that the encoding of times cannot represent.
func (c *Reserved) mapTo(d *event.Reserved, m *mapper) {
	same(m, &c.Sale, &d.Sale)
	m.buyer(&c.Buyer, &d.Buyer)
	m.question(&c.Question, &d.Question)
	same(m, &c.Epsilon, &d.Epsilon)
	same(m, &c.Objects, &d.Objects)
	m.amount(&c.Price, &d.Price)
	same(m, &c.Refused, &d.Refused)
	same(m, &c.Expires, &d.Expires)
	if m.parses() && !InLog(c.Expires) {
		m.fail("the expiry %v is not a time that a log can have", c.Expires)
	}
}

// references implements [referring].
func (c *Reserved) references() References { return References{Question: c.Question, Buyer: c.Buyer} }

// Held is one object of the preceding reservation.
type Held struct {
	Object string // by name
	Sale   uint64 // the number of the reservation
	Price  uint64 // of the object, in minor units
	Policy uint32 // the policy of its chain at that time, whose prices are promised; 0 for none
}

func (*Held) Kind() Kind { return KindHeld }

func (c *Held) About() string { return c.Object }

// public implements [lasting]: these fields are kept when the object is forgotten.
func (c *Held) public(x wire.Codec) { x.Uvarint(&c.Sale, &c.Price) }

// Fields implements [Change].
func (c *Held) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.Short(&c.Policy)
}

// mapTo copies the fields to the detail or, if m parses, from the detail. Outside of statements,
// the detail also has fields of the reservation.
func (c *Held) mapTo(d *event.Held, m *mapper) {
	same(m, &c.Object, &d.Object)
	same(m, &c.Sale, &d.Sale)
	m.amount(&c.Price, &d.Price)
	m.policy(&c.Policy, &d.Policy)
	if !m.isFact {
		d.Question, d.Epsilon, d.Buyer = m.namesOf(m.dealOf(KindReserved, c.Sale))
	}
}

// references implements [referring].
func (c *Held) references() References { return References{Policy: c.Policy, Reservation: c.Sale} }

// Cancelled ends a reservation.
type Cancelled struct{ Sale uint64 }

func (*Cancelled) Kind() Kind { return KindCancelled }

// Fields implements [Change].
func (c *Cancelled) Fields(x wire.Codec) { x.Uvarint(&c.Sale) }

// requests implements [single].
func (c *Cancelled) requests(Names) ([]Identity, error) {
	return []Identity{CancelRequest(c.Sale)}, nil
}

// mapTo sets the fields of the detail, including fields of the reservation. Statements do not have
// this kind.
func (c *Cancelled) mapTo(d *event.Cancelled, m *mapper) {
	same(m, &c.Sale, &d.Sale)
	d.Question, d.Epsilon, d.Buyer = m.namesOf(m.dealOf(KindReserved, c.Sale))
}

// SaleMade starts a sale.
type SaleMade struct {
	Deal
	Tally SaleTally // counts the objects by how their responses were made
}

func (*SaleMade) Kind() Kind { return KindSale }

// Fields implements [Change].
func (c *SaleMade) Fields(x wire.Codec) {
	c.Deal.fields(x)
	x.Uvarint(&c.Tally.Upgrades)
}

// withheld implements [withholding]: buyers do not get these fields.
func (c *SaleMade) withheld(x wire.Codec) { c.Tally.methods(x) }

// mapTo copies the fields to the detail or, if m parses, from the detail.
func (c *SaleMade) mapTo(d *event.SaleMade, m *mapper) {
	same(m, &c.Sale, &d.Sale)
	m.buyer(&c.Buyer, &d.Buyer)
	m.question(&c.Question, &d.Question)
	same(m, &c.Epsilon, &d.Epsilon)
	same(m, &c.Objects, &d.Objects)
	m.amount(&c.Price, &d.Price)
	same(m, &c.Refused, &d.Refused)
	same(m, &c.Tally.Draws, &d.Draws)
	same(m, &c.Tally.Resales, &d.Resales)
	same(m, &c.Tally.Degradations, &d.Degradations)
	same(m, &c.Tally.Insertions, &d.Insertions)
	same(m, &c.Tally.Upgrades, &d.Upgrades)
}

// references implements [referring].
func (c *SaleMade) references() References { return References{Question: c.Question, Buyer: c.Buyer} }

// Sold is one object of the preceding sale, with its response, which is new or was recorded
// before.
type Sold struct {
	Object string // by name
	Sale   uint64 // number of the sale
	Price  uint64 // paid for the object, in minor units
	Response
}

func (*Sold) Kind() Kind { return KindSold }

func (c *Sold) About() string { return c.Object }

// public implements [lasting]: these fields are kept when the object is forgotten.
func (c *Sold) public(x wire.Codec) { x.Uvarint(&c.Sale, &c.Price) }

// Fields implements [Change].
func (c *Sold) Fields(x wire.Codec) {
	x.Text(&c.Object)
	c.Value.Fields(x)
}

// withheld implements [withholding]: buyers do not get these fields.
func (c *Sold) withheld(x wire.Codec) { c.Method.fields(x) }

// mapTo copies the fields to the detail or, if m parses, from the detail. The text of the response
// depends on the question and the ε of the sale. Outside of statements, the detail also has fields
// of the sale.
func (c *Sold) mapTo(d *event.Sold, m *mapper) {
	same(m, &c.Object, &d.Object)
	same(m, &c.Sale, &d.Sale)
	m.amount(&c.Price, &d.Price)
	of := m.dealOf(KindSale, c.Sale)
	if c.Method != 0 || m.parses() { // a change without a method is erased, and has no response
		m.response(c.Object, of, &c.Response, &d.Response, &d.Method)
	}
	if !m.isFact {
		d.Question, d.Epsilon, d.Buyer = m.namesOf(of)
	}
}

// references implements [referring].
func (c *Sold) references() References { return References{Sale: c.Sale} }
