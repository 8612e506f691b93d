package event

import (
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// The kinds of the changes.
func (*Created) Kind() Kind { return KindCreated }

func (*TruthKeySet) Kind() Kind     { return KindTruthKey }
func (*NoiseKeySet) Kind() Kind     { return KindNoiseKey }
func (*QuestionDefined) Kind() Kind { return KindQuestion }
func (*PolicyDefined) Kind() Kind   { return KindPolicy }
func (*Enrolled) Kind() Kind        { return KindEnrolled }
func (*Released) Kind() Kind        { return KindReleased }
func (*Settled) Kind() Kind         { return KindSettled }
func (*Charged) Kind() Kind         { return KindCharged }
func (*Answered) Kind() Kind        { return KindAnswered }
func (*BuyerNamed) Kind() Kind      { return KindBuyer }
func (*Reserved) Kind() Kind        { return KindReserved }
func (*Held) Kind() Kind            { return KindHeld }
func (*Cancelled) Kind() Kind       { return KindCancelled }
func (*SaleMade) Kind() Kind        { return KindSale }
func (*Sold) Kind() Kind            { return KindSold }
func (*Withdrawn) Kind() Kind       { return KindWithdrawn }
func (*EpochBegun) Kind() Kind      { return KindEpoch }
func (*TermsChanged) Kind() Kind    { return KindTerms }
func (*TruthBound) Kind() Kind      { return KindBound }
func (*ObjectRefused) Kind() Kind   { return KindRefused }
func (*Stated) Kind() Kind          { return KindStated }
func (*Forgotten) Kind() Kind       { return KindForgotten }

// Whom the personal changes are about.
func (c *Enrolled) About() string { return c.Object }

func (c *Released) About() string      { return c.Object }
func (c *Charged) About() string       { return c.Object }
func (c *Held) About() string          { return c.Object }
func (c *Sold) About() string          { return c.Object }
func (c *Withdrawn) About() string     { return c.Object }
func (c *EpochBegun) About() string    { return c.Object }
func (c *TermsChanged) About() string  { return c.Object }
func (c *TruthBound) About() string    { return c.Object }
func (c *ObjectRefused) About() string { return c.Object }
func (c *Stated) About() string        { return c.Object }
func (c *Settled) About() string       { return c.Object }

// Fields implements [Change].
func (c *Created) Fields(x wire.Codec) {
	x.Array(c.ID[:])
	x.Text(&c.Currency)
	x.Text(&c.LogKey)
}

// Fields implements [Change].
func (c *TruthKeySet) Fields(x wire.Codec) { x.Array(c.Check[:]) }

// Fields implements [Change]. It is also the record of the key.
func (c *NoiseKeySet) Fields(x wire.Codec) {
	x.U32(&c.Number)
	x.Text(&c.Name)
	x.Array(c.Check[:])
}

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

// Fields implements [Change].
func (c *PolicyDefined) Fields(x wire.Codec) {
	x.U32(&c.Number)
	x.Text(&c.JSON)
}

// Fields implements [Change].
func (c *Enrolled) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question, &c.Policy, &c.Noise)
	x.Epsilon(&c.Cap)
}

// Fields implements [Change].
func (c *TermsChanged) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question, &c.Policy)
	x.Epsilon(&c.Cap)
	x.Text(&c.Consent)
}

// Fields implements [Change].
func (c *Released) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question)
	x.Epsilon(&c.Epsilon)
	c.Response.fields(x)
	if d := x.Reads(); d != nil && c.Method == MethodResale {
		d.Fail("a response released as a resale")
	}
}

// Fields implements [Change].
func (c *BuyerNamed) Fields(x wire.Codec) {
	x.U32(&c.Number)
	x.Text(&c.Name)
}

func (c *Deal) fields(x wire.Codec) {
	x.Uvarint(&c.Sale)
	x.U32(&c.Buyer, &c.Question)
	x.Epsilon(&c.Epsilon)
	x.Uvarint(&c.Objects, &c.Price, &c.Refused)
}

// Fields implements [Change].
func (c *Reserved) Fields(x wire.Codec) {
	c.Deal.fields(x)
	x.Time(&c.Expires)
}

// What an object was reserved or sold for outlives it: the sale must still add up.

func (c *Held) public(x wire.Codec) { x.Uvarint(&c.Sale, &c.Price) }

// Fields implements [Change].
func (c *Held) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.Short(&c.Policy)
}

// Fields implements [Change].
func (c *Cancelled) Fields(x wire.Codec) { x.Uvarint(&c.Sale) }

// Fields implements [Change].
func (c *SaleMade) Fields(x wire.Codec) {
	c.Deal.fields(x)
	x.Uvarint(&c.Tally.Upgrades)
}

func (c *SaleMade) withheld(x wire.Codec) { c.Tally.methods(x) }

func (c *Sold) public(x wire.Codec) { x.Uvarint(&c.Sale, &c.Price) }

// Fields implements [Change].
func (c *Sold) Fields(x wire.Codec) {
	x.Text(&c.Object)
	c.Value.Fields(x)
}

func (c *Sold) withheld(x wire.Codec) { c.Method.fields(x) }

// Fields implements [Change].
func (c *Withdrawn) Fields(x wire.Codec) { x.Text(&c.Object) }

// Fields implements [Change].
func (c *EpochBegun) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question)
}

// Fields implements [Change].
func (c *Charged) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question)
	x.Epsilon(&c.Epsilon)
}

// Fields implements [Change].
func (c *TruthBound) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question)
	x.Array(c.Tag[:])
}

// Fields implements [Change].
func (c *ObjectRefused) Fields(x wire.Codec) {
	x.U32(&c.Question)
	x.Text(&c.Object)
	coded(x, &c.Reason, ReasonCodes())
	coded(x, &c.Remedy, RemedyCodes())
	x.Epsilon(&c.Ceiling, &c.Spent, &c.Asked, &c.Cost, &c.Remaining, &c.Largest)
	if c.Reason == vocabulary.NeedsConsent {
		x.Text(&c.Why)
	}
}

func (a *Account) fields(x wire.Codec) {
	x.Epsilon(&a.Cap, &a.Spent)
	x.Uvarint(&a.Earned)
}

// Fields implements [Change].
func (c *Stated) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.Uvarint(&c.Forgotten)
	x.Numbers(&c.Events)
	c.Account.fields(x)
}

// Fields implements [Change].
func (c *Forgotten) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.Uvarint(&c.Events)
	c.Account.fields(x)
	const smallest = 9 // bytes of a remnant
	wire.List(x, &c.Chains, smallest, func(r *Remnant) {
		x.U32(&r.Question, &r.Policy)
		x.Epsilon(&r.Spent)
	})
}

// An answer is about everybody in the panel, so it outlives each of them.
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

// checkSwept refuses the counts of a sweep that do not count so many refusals. Without any, those are of something else.
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

// newChange returns an empty change of a kind, or nil.
func newChange(k Kind) Change {
	all := [...]func() Change{
		KindCreated:   func() Change { return &Created{} },
		KindTruthKey:  func() Change { return &TruthKeySet{} },
		KindNoiseKey:  func() Change { return &NoiseKeySet{} },
		KindQuestion:  func() Change { return &QuestionDefined{} },
		KindPolicy:    func() Change { return &PolicyDefined{} },
		KindEnrolled:  func() Change { return &Enrolled{} },
		KindReleased:  func() Change { return &Released{} },
		KindSettled:   func() Change { return &Settled{} },
		KindCharged:   func() Change { return &Charged{} },
		KindAnswered:  func() Change { return &Answered{} },
		KindBuyer:     func() Change { return &BuyerNamed{} },
		KindReserved:  func() Change { return &Reserved{} },
		KindHeld:      func() Change { return &Held{} },
		KindCancelled: func() Change { return &Cancelled{} },
		KindSale:      func() Change { return &SaleMade{} },
		KindSold:      func() Change { return &Sold{} },
		KindWithdrawn: func() Change { return &Withdrawn{} },
		KindEpoch:     func() Change { return &EpochBegun{} },
		KindTerms:     func() Change { return &TermsChanged{} },
		KindBound:     func() Change { return &TruthBound{} },
		KindRefused:   func() Change { return &ObjectRefused{} },
		KindStated:    func() Change { return &Stated{} },
		KindForgotten: func() Change { return &Forgotten{} },
	}
	if int(k) >= len(all) || all[k] == nil {
		return nil
	}
	return all[k]()
}

// decodeChange reads what an event says: its public part, and the hidden one unless that is erased and nil. It returns how many of the
// hidden bytes are withheld from buyers.
func decodeChange(public, hidden *wire.Decoder, k Kind) (c Change, withheld int) {
	c = newChange(k)
	if c == nil {
		public.Fail("unknown kind %d", k)
		return nil, 0
	}
	if _, personal := c.(Personal); hidden == nil && !personal && k != KindAnswered {
		public.Fail("an event of kind %d cannot be erased", k)
		return nil, 0
	}
	if l, is := c.(lasting); is {
		l.public(wire.Reading(public))
	}
	if hidden == nil {
		return c, 0
	}
	c.Fields(wire.Reading(hidden))
	if w, is := c.(withholding); is {
		withheld = len(hidden.Rest)
		w.withheld(wire.Reading(hidden))
	}
	return c, withheld
}
