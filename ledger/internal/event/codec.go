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
func (c *TruthBound) About() string    { return c.Object }
func (c *ObjectRefused) About() string { return c.Object }
func (c *Stated) About() string        { return c.Object }
func (c *Settled) About() string       { return c.Object }

func (c *Created) Encode(e *wire.Encoder) {
	e.Raw(c.ID[:])
	e.Text(c.Currency)
	e.Text(c.LogKey)
}

func decodeCreated(d *wire.Decoder) Change {
	c := &Created{}
	d.Array(c.ID[:])
	c.Currency, c.LogKey = d.Text(), d.Text()
	return c
}

func (c *TruthKeySet) Encode(e *wire.Encoder) { e.Raw(c.Check[:]) }

func decodeTruthKeySet(d *wire.Decoder) Change {
	c := &TruthKeySet{}
	d.Array(c.Check[:])
	return c
}

// Encode implements [Change]. It is also the record of the question: see [DecodeQuestion].
func (c *QuestionDefined) Encode(e *wire.Encoder) {
	e.U32(c.Number)
	e.Text(c.Name)
	e.U8(encodingCode(c.Encoding))
	e.Uvarint(uint64(len(c.Values)))
	for _, value := range c.Values {
		e.Text(value)
	}
	if c.Encoding == vocabulary.Finite {
		e.Text(string(EncodeMechanism(c.Mechanism)))
	}
}

func decodeQuestionDefined(d *wire.Decoder) Change {
	c := &QuestionDefined{d.U32(), vocabulary.Question{Name: d.Text(), Encoding: decodeEncoding(d)}}
	c.Values = make([]string, d.Count(1))
	for i := range c.Values {
		c.Values[i] = d.Text()
	}
	if c.Encoding == vocabulary.Finite {
		c.Mechanism = decodeMechanism(d, len(c.Values))
	}
	return c
}

func (c *PolicyDefined) Encode(e *wire.Encoder) {
	e.U32(c.Number)
	e.Text(c.JSON)
}

func decodePolicyDefined(d *wire.Decoder) Change {
	return &PolicyDefined{Number: d.U32(), JSON: d.Text()}
}

func (c *Enrolled) Encode(e *wire.Encoder) {
	e.Text(c.Object)
	e.U32(c.Question)
	e.U32(c.Policy)
	e.U32(c.Noise)
	e.Epsilon(c.Cap)
}

func decodeEnrolled(d *wire.Decoder) Change {
	c := &Enrolled{}
	c.decode(d)
	return c
}

// decode reads a change over another one.
func (c *Enrolled) decode(d *wire.Decoder) {
	*c = Enrolled{Object: d.Text(), Question: d.U32(), Policy: d.U32(), Noise: d.U32(), Cap: d.Epsilon()}
}

func (c *Released) Encode(e *wire.Encoder) {
	e.Text(c.Object)
	e.U32(c.Question)
	e.Epsilon(c.Epsilon)
	encodeResponse(e, c.Response)
}

func decodeReleased(d *wire.Decoder) Change {
	c := &Released{}
	c.decode(d)
	return c
}

// decode reads a change over another one.
func (c *Released) decode(d *wire.Decoder) {
	c.Object, c.Question = d.Text(), d.U32()
	var n [2]uint64
	d.Uvarints(n[:])
	c.Epsilon = d.AsEpsilon(n[0])
	c.Response = decodeMethod(d, AsValue(d, n[1]))
	if c.Method == MethodResale {
		d.Fail("a response released as a resale")
	}
}

func (c *BuyerNamed) Encode(e *wire.Encoder) {
	e.U32(c.Number)
	e.Text(c.Name)
}

func decodeBuyerNamed(d *wire.Decoder) Change { return &BuyerNamed{Number: d.U32(), Name: d.Text()} }

func (c Deal) encode(e *wire.Encoder) {
	e.Uvarint(c.Sale)
	e.U32(c.Buyer)
	e.U32(c.Question)
	e.Epsilon(c.Epsilon)
	e.Uvarint(c.Objects)
	e.Uvarint(c.Price)
	e.Uvarint(c.Refused)
}

func decodeDeal(d *wire.Decoder) Deal {
	return Deal{Sale: d.Uvarint(), Buyer: d.U32(), Question: d.U32(), Epsilon: d.Epsilon(), Objects: d.Uvarint(), Price: d.Uvarint(), Refused: d.Uvarint()}
}

func (c *Reserved) Encode(e *wire.Encoder) {
	c.Deal.encode(e)
	e.Time(c.Expires)
}

func decodeReserved(d *wire.Decoder) Change { return &Reserved{Deal: decodeDeal(d), Expires: d.Time()} }

// What an object was reserved or sold for outlives it: the sale must still add up.

func (c *Held) encodePublic(e *wire.Encoder) { encodeShare(e, c.Sale, c.Price) }
func (c *Held) Encode(e *wire.Encoder)       { e.Text(c.Object) }

func decodeHeld(d, hidden *wire.Decoder) Change {
	c := &Held{}
	c.Sale, c.Price = d.Uvarint(), d.Uvarint()
	if hidden != nil {
		c.Object = hidden.Text()
	}
	return c
}

func encodeShare(e *wire.Encoder, sale, price uint64) {
	e.Uvarint(sale)
	e.Uvarint(price)
}

func (c *Cancelled) Encode(e *wire.Encoder)  { e.Uvarint(c.Sale) }
func decodeCancelled(d *wire.Decoder) Change { return &Cancelled{Sale: d.Uvarint()} }

func (c *SaleMade) Encode(e *wire.Encoder) {
	c.Deal.encode(e)
	c.Tally.Encode(e)
}

func decodeSaleMade(d *wire.Decoder) Change {
	return &SaleMade{Deal: decodeDeal(d), Tally: DecodeSaleTally(d)}
}

func (c *Sold) encodePublic(e *wire.Encoder) { encodeShare(e, c.Sale, c.Price) }

func (c *Sold) Encode(e *wire.Encoder) {
	e.Text(c.Object)
	encodeResponse(e, c.Response)
}

func decodeSold(d, hidden *wire.Decoder) Change {
	c := &Sold{}
	c.Sale, c.Price = d.Uvarint(), d.Uvarint()
	if hidden != nil {
		c.Object, c.Response = hidden.Text(), decodeResponse(hidden)
	}
	return c
}

func (c *Withdrawn) Encode(e *wire.Encoder)  { e.Text(c.Object) }
func decodeWithdrawn(d *wire.Decoder) Change { return &Withdrawn{Object: d.Text()} }

func (c *EpochBegun) Encode(e *wire.Encoder) {
	e.Text(c.Object)
	e.U32(c.Question)
}

func decodeEpoch(d *wire.Decoder) Change { return &EpochBegun{Object: d.Text(), Question: d.U32()} }

func (c *Charged) Encode(e *wire.Encoder) {
	e.Text(c.Object)
	e.U32(c.Question)
	e.Epsilon(c.Epsilon)
}

func decodeCharged(d *wire.Decoder) Change {
	return &Charged{Object: d.Text(), Question: d.U32(), Epsilon: d.Epsilon()}
}

func (c *TruthBound) Encode(e *wire.Encoder) {
	e.Text(c.Object)
	e.U32(c.Question)
	e.Raw(c.Tag[:])
}

func decodeBound(d *wire.Decoder) Change {
	c := &TruthBound{Object: d.Text(), Question: d.U32()}
	d.Array(c.Tag[:])
	return c
}

func (c *ObjectRefused) Encode(e *wire.Encoder) {
	e.U32(c.Question)
	encodeRefusal(e, c.Refusal)
}

func decodeRefused(d *wire.Decoder) Change {
	return &ObjectRefused{Question: d.U32(), Refusal: decodeRefusal(d)}
}

func (a Account) encode(e *wire.Encoder) {
	e.Epsilon(a.Cap)
	e.Epsilon(a.Spent)
	e.Uvarint(a.Earned)
}

func decodeAccount(d *wire.Decoder) Account {
	return Account{Cap: d.Epsilon(), Spent: d.Epsilon(), Earned: d.Uvarint()}
}

func (c *Stated) Encode(e *wire.Encoder) {
	e.Text(c.Object)
	e.Uvarint(c.Forgotten)
	e.Numbers(c.Events)
	c.Account.encode(e)
}

func decodeStated(d *wire.Decoder) Change {
	return &Stated{Object: d.Text(), Forgotten: d.Uvarint(), Events: d.Numbers(), Account: decodeAccount(d)}
}

func (c *Forgotten) Encode(e *wire.Encoder) {
	e.Text(c.Object)
	e.Uvarint(c.Events)
	c.Account.encode(e)
	e.Uvarint(uint64(len(c.Chains)))
	for _, r := range c.Chains {
		e.U32(r.Question)
		e.U32(r.Policy)
		e.Epsilon(r.Spent)
	}
}

func decodeForgotten(d *wire.Decoder) Change {
	c := &Forgotten{Object: d.Text(), Events: d.Uvarint(), Account: decodeAccount(d)}
	const smallest = 9 // bytes of a remnant
	if n := d.Count(smallest); n > 0 {
		c.Chains = make([]Remnant, n)
	}
	for i := range c.Chains {
		c.Chains[i] = Remnant{Question: d.U32(), Policy: d.U32(), Spent: d.Epsilon()}
	}
	return c
}

func (c *Answered) Encode(e *wire.Encoder) {
	e.U32(c.Question)
	e.Text(c.Query)
	e.Raw(c.Panel[:])
	e.Uvarint(c.Objects)
	e.Epsilon(c.Epsilon)
	EncodeResult(e, c.Result)
	e.U8(uint8(c.Method))
}

func decodeAnswered(d *wire.Decoder) Change {
	c := &Answered{Question: d.U32(), Query: d.Text()}
	d.Array(c.Panel[:])
	c.Objects, c.Epsilon, c.Result, c.Method = d.Uvarint(), d.Epsilon(), DecodeResult(d), Method(d.U8())
	derived := c.Method == MethodRaise || c.Method == MethodInsert
	if c.Method != MethodFresh && c.Method != MethodDegrade && !(derived && c.Scored) {
		d.Fail("unknown method %d", c.Method)
	}
	return c
}

// A key stays used, whatever becomes of the object.
func (c *Settled) encodePublic(e *wire.Encoder) {
	e.Text(c.Key)
	if e.Flag(c.Alone); !c.Alone {
		c.encodeIdentity(e)
	}
	e.Uvarint(c.First)
	e.Uvarint(c.Through)
	e.Flag(c.Final)
	for _, n := range c.Counts {
		e.Uvarint(n)
	}
	e.Uvarint(c.Spent)
	e.Uvarint(c.Refused)
	e.Uvarint(uint64(len(c.Swept)))
	for _, one := range c.Swept {
		e.Uvarint(uint64(one.Question))
		e.Uvarint(one.Raised)
		e.Uvarint(one.Unchanged)
		e.Uvarint(one.Refused)
	}
	e.Uvarint(c.Answer)
	e.Uvarint(c.Sale)
	e.Uvarint(c.Done)
}

func (c *Settled) Encode(e *wire.Encoder) {
	e.Text(c.Object)
	if c.Alone {
		c.encodeIdentity(e)
	}
}

func (c *Settled) encodeIdentity(e *wire.Encoder) {
	e.Raw(c.Digest[:])
	c.Marks.encode(e)
}

func (c *Settled) decodeIdentity(d *wire.Decoder) {
	d.Array(c.Digest[:])
	c.Marks = decodeMarks(d)
}

// decodeSettled reads a settled event, of which all but who it is about is public.
func decodeSettled(d, hidden *wire.Decoder) Change {
	c := &Settled{Key: d.Text()}
	if c.Alone = d.Flag(); !c.Alone {
		c.decodeIdentity(d)
	}
	c.First, c.Through, c.Final = d.Uvarint(), d.Uvarint(), d.Flag()
	for i := range c.Counts {
		c.Counts[i] = d.Uvarint()
	}
	c.Spent, c.Refused = d.Uvarint(), d.Uvarint()
	c.Swept = decodeSwept(d, c.Refused)
	c.Answer, c.Sale, c.Done = d.Uvarint(), d.Uvarint(), d.Uvarint()
	if hidden == nil {
		return c
	}
	if c.Object = hidden.Text(); c.Alone {
		c.decodeIdentity(hidden)
	}
	return c
}

// decodeSwept reads the counts of a sweep with this many refusals.
func decodeSwept(d *wire.Decoder, refusals uint64) []SweptCount {
	const smallest = 4 // bytes of a count
	n := d.Count(smallest)
	if n == 0 {
		return nil // the refusals are those of something else
	}
	swept := make([]SweptCount, n)
	for i := range swept {
		one := &swept[i]
		one.Question, one.Raised, one.Unchanged, one.Refused = d.Uvarint32(), d.Uvarint(), d.Uvarint(), d.Uvarint()
		if one.Refused > refusals {
			d.Fail("a sweep that refused more than it counts")
			return nil
		}
		refusals -= one.Refused
	}
	if refusals > 0 {
		d.Fail("a sweep that refused less than it counts")
	}
	return swept
}

// decodeChange reads what an event says: its public part, and the hidden one unless that is erased and nil.
func decodeChange(d, hidden *wire.Decoder, k Kind) Change {
	switch k {
	case KindSettled:
		return decodeSettled(d, hidden)
	case KindHeld:
		return decodeHeld(d, hidden)
	case KindSold:
		return decodeSold(d, hidden)
	}
	if hidden != nil {
		return decodeHidden(hidden, k)
	}
	return decodeNothing(d, k)
}

// decodeNothing returns the change of an erased event that leaves nothing but its kind.
func decodeNothing(d *wire.Decoder, k Kind) Change {
	switch k {
	case KindEnrolled:
		return &Enrolled{}
	case KindReleased:
		return &Released{}
	case KindCharged:
		return &Charged{}
	case KindWithdrawn:
		return &Withdrawn{}
	case KindEpoch:
		return &EpochBegun{}
	case KindBound:
		return &TruthBound{}
	case KindRefused:
		return &ObjectRefused{}
	case KindStated:
		return &Stated{}
	}
	d.Fail("an event of kind %d cannot be erased", k)
	return nil
}

// decodeHidden reads the change of a whole event that has no public part.
func decodeHidden(d *wire.Decoder, k Kind) Change {
	switch k {
	case KindCreated:
		return decodeCreated(d)
	case KindTruthKey:
		return decodeTruthKeySet(d)
	case KindNoiseKey:
		return DecodeNoiseKeySet(d)
	case KindQuestion:
		return decodeQuestionDefined(d)
	case KindPolicy:
		return decodePolicyDefined(d)
	case KindEnrolled:
		return decodeEnrolled(d)
	case KindReleased:
		return decodeReleased(d)
	case KindCharged:
		return decodeCharged(d)
	case KindAnswered:
		return decodeAnswered(d)
	case KindBuyer:
		return decodeBuyerNamed(d)
	case KindReserved:
		return decodeReserved(d)
	case KindCancelled:
		return decodeCancelled(d)
	case KindSale:
		return decodeSaleMade(d)
	case KindWithdrawn:
		return decodeWithdrawn(d)
	case KindEpoch:
		return decodeEpoch(d)
	case KindBound:
		return decodeBound(d)
	case KindRefused:
		return decodeRefused(d)
	case KindStated:
		return decodeStated(d)
	case KindForgotten:
		return decodeForgotten(d)
	}
	d.Fail("unknown kind %d", k)
	return nil
}

// Encode implements [Change]. It is also the record of the key: see [DecodeNoiseKeySet].
func (c *NoiseKeySet) Encode(e *wire.Encoder) {
	e.U32(c.Number)
	e.Text(c.Name)
	e.Raw(c.Check[:])
}

// DecodeNoiseKeySet reads a [*NoiseKeySet].
func DecodeNoiseKeySet(d *wire.Decoder) Change {
	c := &NoiseKeySet{Number: d.U32(), Name: d.Text()}
	d.Array(c.Check[:])
	return c
}
