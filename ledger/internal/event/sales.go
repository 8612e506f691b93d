package event

import (
	"time"

	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// Deal is what reservations and sales have in common. The events of its objects follow, and then
// those of the objects it leaves out.
type Deal struct {
	Sale     uint64          // its number; a reservation and the sale that comes of it have the same
	Buyer    uint32          // by number
	Question uint32          // by number
	Epsilon  privacy.Epsilon // of the responses
	Objects  uint64          // how many take part
	Price    uint64          // in all, in minor units of the currency
	Refused  uint64          // objects left out
}

func (c *Deal) fields(x wire.Codec) {
	x.Uvarint(&c.Sale)
	x.U32(&c.Buyer, &c.Question)
	x.Epsilon(&c.Epsilon)
	x.Uvarint(&c.Objects, &c.Price, &c.Refused)
}

// Reserved holds budget for a sale, at a price, until an instant.
type Reserved struct {
	Deal
	Expires time.Time // from then on it holds nothing
}

func (*Reserved) Kind() Kind { return KindReserved }

// Fields implements [Change].
func (c *Reserved) Fields(x wire.Codec) {
	c.Deal.fields(x)
	x.Time(&c.Expires)
}

func (c *Reserved) describe(to *describer) event.Reserved {
	return event.Reserved{
		Question: to.question(c.Question), Epsilon: c.Epsilon, Objects: c.Objects, Sale: c.Sale,
		Buyer: to.buyer(c.Buyer), Price: int64(c.Price), Expires: c.Expires, Refused: c.Refused,
	}
}

func (c *Reserved) parse(d *event.Reserved, p *parser) {
	c.Deal = Deal{d.Sale, p.buyer(d.Buyer), p.question(d.Question), d.Epsilon, d.Objects, p.amount(d.Price), d.Refused}
	if c.Expires = d.Expires; !InLog(d.Expires) {
		p.fail("the time %v is none of a log", d.Expires)
	}
}

func (c *Reserved) references() References { return References{Question: c.Question, Buyer: c.Buyer} }

// Held is one object of the reservation before it.
type Held struct {
	Object string // by name
	Sale   uint64 // the number of the reservation
	Price  uint64 // of the object, in minor units
	Policy uint32 // of its chain then, whose prices are promised; 0 for none
}

func (*Held) Kind() Kind { return KindHeld }

func (c *Held) About() string { return c.Object }

func (c *Held) public(x wire.Codec) { x.Uvarint(&c.Sale, &c.Price) }

// Fields implements [Change].
func (c *Held) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.Short(&c.Policy)
}

func (c *Held) describe(to *describer) event.Held {
	d := event.Held{Object: c.Object, Sale: c.Sale, Price: int64(c.Price), Policy: to.policy(c.Policy)}
	if !to.isFact {
		d.Question, d.Epsilon, d.Buyer = to.namesOf(to.deal(KindReserved, c.Sale))
	}
	return d
}

func (c *Held) parse(d *event.Held, p *parser) {
	c.Object, c.Sale, c.Price, c.Policy = d.Object, d.Sale, p.amount(d.Price), p.policy(d.Policy)
}

func (c *Held) references() References { return References{Policy: c.Policy, Reservation: c.Sale} }

// Cancelled ends a reservation.
type Cancelled struct{ Sale uint64 }

func (*Cancelled) Kind() Kind { return KindCancelled }

// Fields implements [Change].
func (c *Cancelled) Fields(x wire.Codec) { x.Uvarint(&c.Sale) }

func (c *Cancelled) requests(Names) ([]Identity, error) {
	return []Identity{CancelRequest(c.Sale)}, nil
}

func (c *Cancelled) describe(to *describer) event.Cancelled {
	d := event.Cancelled{Sale: c.Sale}
	d.Question, d.Epsilon, d.Buyer = to.namesOf(to.deal(KindReserved, c.Sale))
	return d
}

// SaleMade begins a sale.
type SaleMade struct {
	Deal
	Tally SaleTally // the objects by how they answer
}

func (*SaleMade) Kind() Kind { return KindSale }

// Fields implements [Change].
func (c *SaleMade) Fields(x wire.Codec) {
	c.Deal.fields(x)
	x.Uvarint(&c.Tally.Upgrades)
}

func (c *SaleMade) withheld(x wire.Codec) { c.Tally.methods(x) }

func (c *SaleMade) describe(to *describer) event.SaleMade {
	return event.SaleMade{
		Question: to.question(c.Question), Epsilon: c.Epsilon, Objects: c.Objects, Sale: c.Sale,
		Buyer: to.buyer(c.Buyer), Price: int64(c.Price), Refused: c.Refused,
		Draws: c.Tally.Draws, Resales: c.Tally.Resales, Degradations: c.Tally.Degradations,
		Insertions: c.Tally.Insertions, Upgrades: c.Tally.Upgrades,
	}
}

func (c *SaleMade) parse(d *event.SaleMade, p *parser) {
	c.Deal = Deal{d.Sale, p.buyer(d.Buyer), p.question(d.Question), d.Epsilon, d.Objects, p.amount(d.Price), d.Refused}
	c.Tally = SaleTally{d.Draws, d.Resales, d.Degradations, d.Insertions, d.Upgrades}
}

func (c *SaleMade) references() References { return References{Question: c.Question, Buyer: c.Buyer} }

// Sold is one object of the sale before it, with its response, recorded now or before.
type Sold struct {
	Object string // by name
	Sale   uint64 // its number
	Price  uint64 // to the object, in minor units
	Response
}

func (*Sold) Kind() Kind { return KindSold }

func (c *Sold) About() string { return c.Object }

func (c *Sold) public(x wire.Codec) { x.Uvarint(&c.Sale, &c.Price) }

// Fields implements [Change].
func (c *Sold) Fields(x wire.Codec) {
	x.Text(&c.Object)
	c.Value.Fields(x)
}

func (c *Sold) withheld(x wire.Codec) { c.Method.fields(x) }

func (c *Sold) describe(to *describer) event.Sold {
	d, of := event.Sold{Object: c.Object, Sale: c.Sale, Price: int64(c.Price)}, to.deal(KindSale, c.Sale)
	if c.Method != 0 { // else it is erased
		d.Response, d.Method = to.response(c.Object, of.Question, of.Epsilon, c.Response)
	}
	if !to.isFact {
		d.Question, d.Epsilon, d.Buyer = to.namesOf(of)
	}
	return d
}

func (c *Sold) parse(d *event.Sold, p *parser) {
	of, _ := p.from.Deal(KindSale, d.Sale) // without it there is no question
	c.Object, c.Sale, c.Price = d.Object, d.Sale, p.amount(d.Price)
	c.Response = p.response(of.Question, of.Epsilon, d.Response, d.Method)
}

func (c *Sold) references() References { return References{Sale: c.Sale} }
