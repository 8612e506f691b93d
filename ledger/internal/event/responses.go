package event

import (
	"crypto/sha256"

	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// TruthBound binds the chain of an object to the true value from which the draw or answer after it
// is made.
type TruthBound struct {
	Object   string // by name
	Question uint32 // by number
	Tag      Tag    // a keyed hash of the true value
}

func (*TruthBound) Kind() Kind { return KindBound }

func (c *TruthBound) About() string { return c.Object }

// Fields implements [Change].
func (c *TruthBound) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question)
	x.Array(c.Tag[:])
}

// mapTo copies the fields to the detail or, if m parses, from the detail.
func (c *TruthBound) mapTo(d *event.TruthBound, m *mapper) {
	same(m, &c.Object, &d.Object)
	m.question(&c.Question, &d.Question)
	m.tag(&c.Tag, &d.Truth)
}

// references implements [referring].
func (c *TruthBound) references() References { return References{Question: c.Question} }

// Released records a response.
type Released struct {
	Object   string          // by name
	Question uint32          // by number
	Epsilon  privacy.Epsilon // the response's level
	Response
}

func (*Released) Kind() Kind { return KindReleased }

func (c *Released) About() string { return c.Object }

// Fields implements [Change].
func (c *Released) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question)
	x.Epsilon(&c.Epsilon)
	c.Response.fields(x)
	if d := x.Reads(); d != nil && c.Method == MethodResale {
		d.Fail("a released response has the method resale")
	}
}

// mapTo copies the fields to the detail or, if m parses, from the detail.
func (c *Released) mapTo(d *event.Released, m *mapper) {
	same(m, &c.Object, &d.Object)
	m.question(&c.Question, &d.Question)
	same(m, &c.Epsilon, &d.Epsilon)
	m.response(c.Object, Deal{Question: c.Question, Epsilon: c.Epsilon}, &c.Response, &d.Response, &d.Method)
}

// references implements [referring].
func (c *Released) references() References { return References{Question: c.Question} }

// Charged adds the ε of an answer to what an object has spent on a question. The answered event of
// the same transaction follows.
type Charged struct {
	Object   string          // by name
	Question uint32          // by number
	Epsilon  privacy.Epsilon // the amount added
}

func (*Charged) Kind() Kind { return KindCharged }

func (c *Charged) About() string { return c.Object }

// Fields implements [Change].
func (c *Charged) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question)
	x.Epsilon(&c.Epsilon)
}

// mapTo copies the fields to the detail or, if m parses, from the detail.
func (c *Charged) mapTo(d *event.Charged, m *mapper) {
	same(m, &c.Object, &d.Object)
	m.question(&c.Question, &d.Question)
	same(m, &c.Epsilon, &d.Epsilon)
}

// references implements [referring].
func (c *Charged) references() References { return References{Question: c.Question} }

// Answered records the answer to a query about a panel of objects.
type Answered struct {
	Question uint32            // by number
	Query    string            // in the form that mechanism.ParseQuery reads
	Panel    [sha256.Size]byte // [PanelOf] the requested objects; erased when one of them is forgotten
	Objects  uint64            // the size of the panel
	Epsilon  privacy.Epsilon   // ε of the answer
	Result
	Method Method // MethodFresh or MethodDegrade; for a score also MethodRaise or MethodInsert
	Base   uint64 // the event of the answer that it was raised or derived from; 0 for a fresh answer
}

func (*Answered) Kind() Kind { return KindAnswered }

// public describes everything but the digest of the panel. An answer is about all objects of the
// panel, so it is kept when one of them is forgotten. Decoding fails for a method that such an
// answer cannot have: only a score can be raised or inserted.
func (c *Answered) public(x wire.Codec) {
	x.U32(&c.Question)
	x.Text(&c.Query)
	x.Uvarint(&c.Objects)
	x.Epsilon(&c.Epsilon)
	c.Result.Fields(x)
	x.U8((*uint8)(&c.Method))
	derived := c.Method == MethodRaise || c.Method == MethodInsert
	if d := x.Reads(); d != nil && c.Method != MethodFresh && c.Method != MethodDegrade && !(derived && c.Scored) {
		d.Fail("unknown method %d", c.Method)
	}
	x.Uvarint(&c.Base)
}

// Fields implements [Change].
func (c *Answered) Fields(x wire.Codec) { x.Array(c.Panel[:]) }

// mapTo sets the fields of the detail. Statements do not have answers, so no change is ever made of
// a detail.
func (c *Answered) mapTo(d *event.Answered, m *mapper) {
	same(m, &c.Epsilon, &d.Epsilon)
	same(m, &c.Query, &d.Query)
	same(m, &c.Objects, &d.Objects)
	d.Method = c.Method.String()
	q, err := m.names.Question(c.Question)
	if err == nil {
		d.Question = q.Name
		d.Response, err = q.AnswerText(c.Query, c.Result)
	}
	m.note(err)
}

// references implements [referring].
func (c *Answered) references() References { return References{Question: c.Question} }
