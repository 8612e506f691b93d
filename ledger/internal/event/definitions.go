package event

import (
	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// MaxNoiseKeys is the maximum number of noise keys of a ledger. A ledger that is opened with a
// host's keys reads all of them.
const MaxNoiseKeys = 1024

// Created is the first change of the log.
type Created struct {
	ID       [16]byte // a random UUID
	Currency string   // the currency of all prices, such as "USD"
	LogKey   string   `audit:"the log key"` // the verifier key of the log; "" for none
}

func (*Created) Kind() Kind { return KindCreated }

// Fields implements [Change].
func (c *Created) Fields(x wire.Codec) {
	x.Array(c.ID[:])
	x.Text(&c.Currency)
	x.Text(&c.LogKey)
}

// mapTo copies the fields to the detail or, if m parses, from the detail. In the detail, the ID is
// the text of a UUID.
func (c *Created) mapTo(d *event.Created, m *mapper) {
	if m.parses() {
		id, err := uuid.Parse(d.ID)
		if err != nil {
			m.fail("the id: %w", err)
		}
		c.ID = id
	} else {
		d.ID = uuid.UUID(c.ID).String()
	}
	same(m, &c.Currency, &d.Currency)
	same(m, &c.LogKey, &d.LogKey)
}

// TruthKeySet records that from here on chains are bound to their true values by keyed hashes.
// Check identifies the key.
type TruthKeySet struct{ Check Tag }

func (*TruthKeySet) Kind() Kind { return KindTruthKey }

// Fields implements [Change].
func (c *TruthKeySet) Fields(x wire.Codec) { x.Array(c.Check[:]) }

// mapTo copies nothing, because the detail has no fields.
func (*TruthKeySet) mapTo(*event.TruthKeySet, *mapper) {}

// NoiseKeySet defines a noise key under a number, by which chains refer to it. Check identifies
// the key.
type NoiseKeySet struct {
	Number uint32 // from 1
	Name   string // the host's name of the key
	Check  Tag    // identifies the key
}

func (*NoiseKeySet) Kind() Kind { return KindNoiseKey }

// Fields implements [Change]. It is also the record of the key.
func (c *NoiseKeySet) Fields(x wire.Codec) {
	x.U32(&c.Number)
	x.Text(&c.Name)
	x.Array(c.Check[:])
}

// mapTo copies the name. The detail has neither the number nor the check of the key.
func (c *NoiseKeySet) mapTo(d *event.NoiseKeySet, m *mapper) {
	same(m, &c.Name, &d.Name)
}

// QuestionDefined defines a question under the next free number.
type QuestionDefined struct {
	Number uint32 // from 1; other events refer to the question by it
	api.Question
}

func (*QuestionDefined) Kind() Kind { return KindQuestion }

// Fields implements [Change]. It is also the record of the question: see [DecodeQuestion]. In
// finite encoding, the mechanism follows as a text with its canonical JSON.
func (c *QuestionDefined) Fields(x wire.Codec) {
	x.U32(&c.Number)
	x.Text(&c.Name)
	coded(x, &c.Encoding, Encodings())
	wire.List(x, &c.Values, 1, x.Text)
	if c.Encoding != EncodingFinite {
		return
	}
	if d := x.Reads(); d != nil {
		c.Mechanism = decodeMechanism(d, len(c.Values))
	} else {
		text := string(EncodeMechanism(c.Mechanism))
		x.Text(&text)
	}
}

// mapTo copies the fields to the detail or, if m parses, from the detail. A detail may come from a
// forged document, so mapTo records an error if no ledger could have defined the question.
func (c *QuestionDefined) mapTo(d *event.QuestionDefined, m *mapper) {
	same(m, &c.Number, &d.Number)
	same(m, &c.Name, &d.Name)
	same(m, &c.Values, &d.Values)
	same(m, &c.Encoding, &d.Encoding)
	same(m, &c.Mechanism, &d.Mechanism)
	if m.parses() {
		m.note(CheckQuestion(c.Question))
	}
}

// requests returns two identities, because the request may have named the encoding, or may have
// left its choice to the ledger ("").
func (c *QuestionDefined) requests(Names) ([]Identity, error) {
	return []Identity{DefineRequest(c.Question, ""), DefineRequest(c.Question, c.Encoding)}, nil
}

// references implements [referring].
func (c *QuestionDefined) references() References { return References{Question: c.Number} }

// PolicyDefined defines a policy under a number, by which chains refer to it.
type PolicyDefined struct {
	Number uint32 // from 1
	JSON   string // the canonical JSON of package policy
}

func (*PolicyDefined) Kind() Kind { return KindPolicy }

// Fields implements [Change].
func (c *PolicyDefined) Fields(x wire.Codec) {
	x.U32(&c.Number)
	x.Text(&c.JSON)
}

// mapTo copies the number, and converts the policy, which is canonical JSON in the change. If m
// parses, a detail without a policy is an error. Otherwise it looks the policy up by its number,
// which saves parsing the JSON again.
func (c *PolicyDefined) mapTo(d *event.PolicyDefined, m *mapper) {
	same(m, &c.Number, &d.Number)
	switch {
	case !m.parses():
		if p := m.policyOf(c.Number); p != nil {
			d.Policy = *p
		}
	case d.Policy.IsZero():
		m.fail("the policy is missing")
	default:
		c.JSON = d.Policy.String()
	}
}

// BuyerNamed defines a buyer under a number, by which chains and sales refer to the buyer.
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

// mapTo copies the number and the name to the detail or, if m parses, from the detail.
func (c *BuyerNamed) mapTo(d *event.BuyerNamed, m *mapper) {
	if m.parses() {
		// A document repeats the name in every sale to the buyer. An invalid name is refused here,
		// once.
		m.note(CheckName("buyer", d.Name))
	}
	same(m, &c.Number, &d.Number)
	same(m, &c.Name, &d.Name)
}
