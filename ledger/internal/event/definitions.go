package event

import (
	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// MaxNoiseKeys is the largest number of noise keys of a ledger. A ledger with a host's keys reads
// them all when it is opened.
const MaxNoiseKeys = 1024

// Created begins the log.
type Created struct {
	ID       [16]byte // a random UUID
	Currency string   // of all prices, such as "USD"
	LogKey   string   `audit:"the log key"` // the verifier key of the log, "" for none
}

func (*Created) Kind() Kind { return KindCreated }

// Fields implements [Change].
func (c *Created) Fields(x wire.Codec) {
	x.Array(c.ID[:])
	x.Text(&c.Currency)
	x.Text(&c.LogKey)
}

func (c *Created) describe(*describer) event.Created {
	return event.Created{ID: uuid.UUID(c.ID).String(), Currency: c.Currency, LogKey: c.LogKey}
}

func (c *Created) parse(d *event.Created, p *parser) {
	id, err := uuid.Parse(d.ID)
	if err != nil {
		p.fail("the id: %w", err)
	}
	c.ID, c.Currency, c.LogKey = id, d.Currency, d.LogKey
}

// TruthKeySet says that from here on chains are bound to their truth by keyed hashes. Check tells
// whether a key is the one.
type TruthKeySet struct{ Check Tag }

func (*TruthKeySet) Kind() Kind { return KindTruthKey }

// Fields implements [Change].
func (c *TruthKeySet) Fields(x wire.Codec) { x.Array(c.Check[:]) }

func (c *TruthKeySet) describe(*describer) event.TruthKeySet { return event.TruthKeySet{} }

// NoiseKeySet gives a noise key a number, by which chains refer to it. Check tells whether a key is
// the one.
type NoiseKeySet struct {
	Number uint32 // from 1
	Name   string // what the host calls it
	Check  Tag    // by which the key is recognized
}

func (*NoiseKeySet) Kind() Kind { return KindNoiseKey }

// Fields implements [Change]. It is also the record of the key.
func (c *NoiseKeySet) Fields(x wire.Codec) {
	x.U32(&c.Number)
	x.Text(&c.Name)
	x.Array(c.Check[:])
}

func (c *NoiseKeySet) describe(*describer) event.NoiseKeySet { return event.NoiseKeySet{Name: c.Name} }

// QuestionDefined adds a question under the next free number.
type QuestionDefined struct {
	Number uint32 // from 1, by which all else refers to it
	vocabulary.Question
}

func (*QuestionDefined) Kind() Kind { return KindQuestion }

// Fields implements [Change]. It is also the record of the question: see [DecodeQuestion].
func (c *QuestionDefined) Fields(x wire.Codec) {
	x.U32(&c.Number)
	x.Text(&c.Name)
	coded(x, &c.Encoding, encodings())
	wire.List(x, &c.Values, 1, x.Text)
	if c.Encoding != vocabulary.Finite {
		return
	}
	if d := x.Reads(); d != nil {
		c.Mechanism = decodeMechanism(d, len(c.Values))
	} else {
		text := string(EncodeMechanism(c.Mechanism))
		x.Text(&text)
	}
}

func (c *QuestionDefined) describe(*describer) event.QuestionDefined {
	return event.QuestionDefined{
		Number: c.Number, Name: c.Name, Values: c.Values, Encoding: c.Encoding, Mechanism: c.Mechanism,
	}
}

func (c *QuestionDefined) parse(d *event.QuestionDefined, p *parser) {
	c.Number = d.Number
	c.Question = vocabulary.Question{Name: d.Name, Values: d.Values, Encoding: d.Encoding, Mechanism: d.Mechanism}
	if err := CheckQuestion(c.Question); err != nil {
		p.fail("%w", err)
	}
}

func (c *QuestionDefined) requests(Names) ([]Identity, error) {
	return []Identity{DefineRequest(c.Question, ""), DefineRequest(c.Question, c.Encoding)}, nil
}

func (c *QuestionDefined) references() References { return References{Question: c.Number} }

// PolicyDefined gives a policy a number, by which chains refer to it.
type PolicyDefined struct {
	Number uint32 // from 1
	JSON   string // as package policy writes it
}

func (*PolicyDefined) Kind() Kind { return KindPolicy }

// Fields implements [Change].
func (c *PolicyDefined) Fields(x wire.Codec) {
	x.U32(&c.Number)
	x.Text(&c.JSON)
}

func (c *PolicyDefined) describe(to *describer) event.PolicyDefined {
	d := event.PolicyDefined{Number: c.Number}
	if p := to.policy(c.Number); p != nil {
		d.Policy = *p
	}
	return d
}

func (c *PolicyDefined) parse(d *event.PolicyDefined, p *parser) {
	if d.Policy.IsZero() {
		p.fail("there is no policy")
		return
	}
	c.Number, c.JSON = d.Number, d.Policy.String()
}

// BuyerNamed gives a buyer a number, by which chains and sales refer to it.
type BuyerNamed struct {
	Number uint32 // from 1
	Name   string // as in an order
}

func (*BuyerNamed) Kind() Kind { return KindBuyer }

// Fields implements [Change].
func (c *BuyerNamed) Fields(x wire.Codec) {
	x.U32(&c.Number)
	x.Text(&c.Name)
}

func (c *BuyerNamed) describe(*describer) event.BuyerNamed {
	return event.BuyerNamed{Number: c.Number, Name: c.Name}
}

func (c *BuyerNamed) parse(d *event.BuyerNamed, p *parser) {
	if err := CheckName("buyer", d.Name); err != nil { // all sales to the buyer repeat it
		p.fail("%w", err)
	}
	c.Number, c.Name = d.Number, d.Name
}
