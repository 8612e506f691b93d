package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

func (*created) kind() kind         { return kindCreated }
func (*truthKeySet) kind() kind     { return kindTruthKey }
func (*noiseKeySet) kind() kind     { return kindNoiseKey }
func (*questionDefined) kind() kind { return kindQuestion }
func (*policyDefined) kind() kind   { return kindPolicy }
func (*enrolled) kind() kind        { return kindEnrolled }
func (*released) kind() kind        { return kindReleased }
func (*settled) kind() kind         { return kindSettled }
func (*charged) kind() kind         { return kindCharged }
func (*answered) kind() kind        { return kindAnswered }
func (*buyerNamed) kind() kind      { return kindBuyer }
func (*reserved) kind() kind        { return kindReserved }
func (*held) kind() kind            { return kindHeld }
func (*cancelled) kind() kind       { return kindCancelled }
func (*saleMade) kind() kind        { return kindSale }
func (*sold) kind() kind            { return kindSold }
func (*withdrawn) kind() kind       { return kindWithdrawn }
func (*epochBegun) kind() kind      { return kindEpoch }
func (*truthBound) kind() kind      { return kindBound }
func (*objectRefused) kind() kind   { return kindRefused }
func (*stated) kind() kind          { return kindStated }
func (*forgotten) kind() kind       { return kindForgotten }

func (c *enrolled) about() string      { return c.object }
func (c *released) about() string      { return c.object }
func (c *charged) about() string       { return c.object }
func (c *held) about() string          { return c.object }
func (c *sold) about() string          { return c.object }
func (c *withdrawn) about() string     { return c.object }
func (c *epochBegun) about() string    { return c.object }
func (c *truthBound) about() string    { return c.object }
func (c *objectRefused) about() string { return c.Object }
func (c *stated) about() string        { return c.object }

func (c *settled) about() string { return c.object }

func (c *created) encode(e *wire.Encoder) {
	e.Raw(c.id[:])
	e.Text(c.currency)
	e.Text(c.logKey)
}

func decodeCreated(d *wire.Decoder) change {
	c := &created{}
	d.Array(c.id[:])
	c.currency, c.logKey = d.Text(), d.Text()
	return c
}

func (c *truthKeySet) encode(e *wire.Encoder) { e.Raw(c.check[:]) }

func decodeTruthKeySet(d *wire.Decoder) change {
	c := &truthKeySet{}
	d.Array(c.check[:])
	return c
}

func (c *questionDefined) encode(e *wire.Encoder) {
	e.U32(c.number)
	e.Text(c.Name)
	e.U8(encodingCode(c.Encoding))
	e.Uvarint(uint64(len(c.Values)))
	for _, value := range c.Values {
		e.Text(value)
	}
	if c.Encoding == Finite {
		e.Text(string(c.Mechanism.Encode()))
	}
}

func decodeQuestionDefined(d *wire.Decoder) change {
	c := &questionDefined{d.U32(), Question{Name: d.Text(), Encoding: decodeEncoding(d)}}
	c.Values = make([]string, d.Count(1))
	for i := range c.Values {
		c.Values[i] = d.Text()
	}
	if c.Encoding == Finite {
		c.Mechanism = decodeMechanism(d, len(c.Values))
	}
	return c
}

func (c *policyDefined) encode(e *wire.Encoder) {
	e.U32(c.number)
	e.Text(c.json)
}

func decodePolicyDefined(d *wire.Decoder) change {
	return &policyDefined{number: d.U32(), json: d.Text()}
}

func (c *enrolled) encode(e *wire.Encoder) {
	e.Text(c.object)
	e.U32(c.question)
	e.U32(c.policy)
	e.U32(c.noise)
	e.Epsilon(c.cap)
}

func decodeEnrolled(d *wire.Decoder) change {
	c := &enrolled{}
	c.decode(d)
	return c
}

func (c *enrolled) decode(d *wire.Decoder) {
	*c = enrolled{object: d.Text(), question: d.U32(), policy: d.U32(), noise: d.U32(), cap: d.Epsilon()}
}

func (c *released) encode(e *wire.Encoder) {
	e.Text(c.object)
	e.U32(c.question)
	e.Epsilon(c.epsilon)
	encodeResponse(e, c.response)
}

func decodeReleased(d *wire.Decoder) change {
	c := &released{}
	c.decode(d)
	return c
}

func (c *released) decode(d *wire.Decoder) {
	c.object, c.question = d.Text(), d.U32()
	var n [2]uint64
	d.Uvarints(n[:])
	c.epsilon = d.AsEpsilon(n[0])
	c.response = decodeMethod(d, asValue(d, n[1]))
	if c.method == methodResale {
		d.Fail("a response released as a resale")
	}
}

func (c *buyerNamed) encode(e *wire.Encoder) {
	e.U32(c.number)
	e.Text(c.name)
}

func decodeBuyerNamed(d *wire.Decoder) change { return &buyerNamed{number: d.U32(), name: d.Text()} }

func (c deal) encode(e *wire.Encoder) {
	e.Uvarint(c.sale)
	e.U32(c.buyer)
	e.U32(c.question)
	e.Epsilon(c.epsilon)
	e.Uvarint(c.objects)
	e.Uvarint(c.price)
	e.Uvarint(c.refused)
}

func decodeDeal(d *wire.Decoder) deal {
	return deal{sale: d.Uvarint(), buyer: d.U32(), question: d.U32(), epsilon: d.Epsilon(), objects: d.Uvarint(), price: d.Uvarint(), refused: d.Uvarint()}
}

func (c *reserved) encode(e *wire.Encoder) {
	c.deal.encode(e)
	e.Time(c.expires)
}

func decodeReserved(d *wire.Decoder) change { return &reserved{deal: decodeDeal(d), expires: d.Time()} }

// What an object was reserved or sold for outlives it: the sale must still add up.

func (c *held) encodePublic(e *wire.Encoder) { encodeShare(e, c.sale, c.price) }

func (c *held) encode(e *wire.Encoder) { e.Text(c.object) }

func decodeHeld(d, hidden *wire.Decoder) change {
	c := &held{}
	c.sale, c.price = d.Uvarint(), d.Uvarint()
	if hidden != nil {
		c.object = hidden.Text()
	}
	return c
}

func encodeShare(e *wire.Encoder, sale, price uint64) {
	e.Uvarint(sale)
	e.Uvarint(price)
}

func (c *cancelled) encode(e *wire.Encoder) { e.Uvarint(c.sale) }

func decodeCancelled(d *wire.Decoder) change { return &cancelled{sale: d.Uvarint()} }

func (c *saleMade) encode(e *wire.Encoder) {
	c.deal.encode(e)
	c.tally.encode(e)
}

func decodeSaleMade(d *wire.Decoder) change {
	return &saleMade{deal: decodeDeal(d), tally: decodeSaleTally(d)}
}

func (t saleTally) encode(e *wire.Encoder) {
	for _, n := range []uint64{t.draws, t.resales, t.degradations, t.insertions, t.upgrades} {
		e.Uvarint(n)
	}
}

func decodeSaleTally(d *wire.Decoder) saleTally {
	return saleTally{draws: d.Uvarint(), resales: d.Uvarint(), degradations: d.Uvarint(), insertions: d.Uvarint(), upgrades: d.Uvarint()}
}

func (c *sold) encodePublic(e *wire.Encoder) { encodeShare(e, c.sale, c.price) }

func (c *sold) encode(e *wire.Encoder) {
	e.Text(c.object)
	encodeResponse(e, c.response)
}

func decodeSold(d, hidden *wire.Decoder) change {
	c := &sold{}
	c.sale, c.price = d.Uvarint(), d.Uvarint()
	if hidden != nil {
		c.object, c.response = hidden.Text(), decodeResponse(hidden)
	}
	return c
}

func (c *withdrawn) encode(e *wire.Encoder) { e.Text(c.object) }

func decodeWithdrawn(d *wire.Decoder) change { return &withdrawn{object: d.Text()} }

func (c *epochBegun) encode(e *wire.Encoder) {
	e.Text(c.object)
	e.U32(c.question)
}

func decodeEpoch(d *wire.Decoder) change { return &epochBegun{object: d.Text(), question: d.U32()} }

func (c *charged) encode(e *wire.Encoder) {
	e.Text(c.object)
	e.U32(c.question)
	e.Epsilon(c.epsilon)
}

func decodeCharged(d *wire.Decoder) change {
	return &charged{object: d.Text(), question: d.U32(), epsilon: d.Epsilon()}
}

func (c *truthBound) encode(e *wire.Encoder) {
	e.Text(c.object)
	e.U32(c.question)
	e.Raw(c.tag[:])
}

func decodeBound(d *wire.Decoder) change {
	c := &truthBound{object: d.Text(), question: d.U32()}
	d.Array(c.tag[:])
	return c
}

func (c *objectRefused) encode(e *wire.Encoder) {
	e.U32(c.question)
	encodeRefusal(e, c.Refusal)
}

func decodeRefused(d *wire.Decoder) change {
	return &objectRefused{question: d.U32(), Refusal: decodeRefusal(d)}
}

func (a account) encode(e *wire.Encoder) {
	e.Epsilon(a.cap)
	e.Epsilon(a.spent)
	e.Uvarint(a.earned)
}

func decodeAccount(d *wire.Decoder) account {
	return account{cap: d.Epsilon(), spent: d.Epsilon(), earned: d.Uvarint()}
}

func (c *stated) encode(e *wire.Encoder) {
	e.Text(c.object)
	e.Uvarint(c.forgotten)
	e.Numbers(c.events)
	c.account.encode(e)
}

func decodeStated(d *wire.Decoder) change {
	return &stated{object: d.Text(), forgotten: d.Uvarint(), events: d.Numbers(), account: decodeAccount(d)}
}

func (c *forgotten) encode(e *wire.Encoder) {
	e.Text(c.object)
	e.Uvarint(c.events)
	c.account.encode(e)
	e.Uvarint(uint64(len(c.chains)))
	for _, r := range c.chains {
		e.U32(r.question)
		e.U32(r.policy)
		e.Epsilon(r.spent)
	}
}

func decodeForgotten(d *wire.Decoder) change {
	c := &forgotten{object: d.Text(), events: d.Uvarint(), account: decodeAccount(d)}
	const smallest = 9 // bytes of a remnant
	if n := d.Count(smallest); n > 0 {
		c.chains = make([]remnant, n)
	}
	for i := range c.chains {
		c.chains[i] = remnant{question: d.U32(), policy: d.U32(), spent: d.Epsilon()}
	}
	return c
}

func (c *answered) encode(e *wire.Encoder) {
	e.U32(c.question)
	e.Text(c.query)
	e.Raw(c.panel[:])
	e.Uvarint(c.objects)
	e.Epsilon(c.epsilon)
	encodeResult(e, c.result)
	e.U8(uint8(c.method))
}

func decodeAnswered(d *wire.Decoder) change {
	c := &answered{question: d.U32(), query: d.Text()}
	d.Array(c.panel[:])
	c.objects, c.epsilon, c.result, c.method = d.Uvarint(), d.Epsilon(), decodeResult(d), method(d.U8())
	derived := c.method == methodRaise || c.method == methodInsert
	if c.method != methodFresh && c.method != methodDegrade && !(derived && c.scored) {
		d.Fail("unknown method %d", c.method)
	}
	return c
}

// A key stays used, whatever becomes of the object.
func (c *settled) encodePublic(e *wire.Encoder) {
	e.Text(c.key)
	if e.Flag(c.alone); !c.alone {
		c.encodeIdentity(e)
	}
	e.Uvarint(c.first)
	e.Uvarint(c.through)
	e.Flag(c.final)
	for _, n := range c.counts {
		e.Uvarint(n)
	}
	e.Uvarint(c.spent)
	e.Uvarint(c.refused)
	e.Uvarint(uint64(len(c.swept)))
	for _, one := range c.swept {
		e.Uvarint(uint64(one.question))
		e.Uvarint(one.raised)
		e.Uvarint(one.unchanged)
		e.Uvarint(one.refused)
	}
	e.Uvarint(c.answer)
	e.Uvarint(c.sale)
	e.Uvarint(c.done)
}

func (c *settled) encode(e *wire.Encoder) {
	e.Text(c.object)
	if c.alone {
		c.encodeIdentity(e)
	}
}

func (c *settled) encodeIdentity(e *wire.Encoder) {
	e.Raw(c.digest[:])
	c.marks.encode(e)
}

func (c *settled) decodeIdentity(d *wire.Decoder) {
	d.Array(c.digest[:])
	c.marks = decodeMarks(d)
}

func decodeSettled(d, hidden *wire.Decoder) change {
	c := &settled{key: d.Text()}
	if c.alone = d.Flag(); !c.alone {
		c.decodeIdentity(d)
	}
	c.first, c.through, c.final = d.Uvarint(), d.Uvarint(), d.Flag()
	for i := range c.counts {
		c.counts[i] = d.Uvarint()
	}
	c.spent, c.refused = d.Uvarint(), d.Uvarint()
	c.swept = decodeSwept(d, c.refused)
	c.answer, c.sale, c.done = d.Uvarint(), d.Uvarint(), d.Uvarint()
	if hidden == nil {
		return c
	}
	if c.object = hidden.Text(); c.alone {
		c.decodeIdentity(hidden)
	}
	return c
}

// decodeSwept reads the counts of a sweep with this many refusals.
func decodeSwept(d *wire.Decoder, refusals uint64) []sweptCount {
	const smallest = 4 // bytes of a count
	n := d.Count(smallest)
	if n == 0 {
		return nil // the refusals are those of something else
	}
	swept := make([]sweptCount, n)
	for i := range swept {
		one := &swept[i]
		one.question, one.raised, one.unchanged, one.refused = d.Uvarint32(), d.Uvarint(), d.Uvarint(), d.Uvarint()
		if one.refused > refusals {
			d.Fail("a sweep that refused more than it counts")
			return nil
		}
		refusals -= one.refused
	}
	if refusals > 0 {
		d.Fail("a sweep that refused less than it counts")
	}
	return swept
}

// reasonCodes and helpCodes number the reasons and helps on disk, from 1.
func reasonCodes() []Reason {
	return []Reason{
		ChainCeiling, ObjectCap, NotEnrolled, NoTruth, CapDiffers, PolicyDiffers,
		Withdrawn, NotForSale, NotOnOffer, BuyerRefused, SaleClosed, HoldersFull, NoNoiseKey, NoTruthKey, EpochBegun,
	}
}

func helpCodes() []Help {
	return []Help{HelpsNothing, HelpsWaiting, HelpsEnrolling, HelpsTruth, HelpsKey, HelpsLess}
}

func encodeRefusal(e *wire.Encoder, r Refusal) {
	e.Text(r.Object)
	e.U8(codeOf(reasonCodes(), r.Reason))
	e.U8(codeOf(helpCodes(), r.Helps))
	for _, v := range []privacy.Epsilon{r.Ceiling, r.Spent, r.Asked, r.Cost, r.Remaining, r.Largest} {
		e.Epsilon(v)
	}
}

func decodeRefusal(d *wire.Decoder) Refusal {
	r := Refusal{Object: d.Text()}
	r.Reason = fromCode(d, reasonCodes())
	r.Helps = fromCode(d, helpCodes())
	for _, field := range []*privacy.Epsilon{&r.Ceiling, &r.Spent, &r.Asked, &r.Cost, &r.Remaining, &r.Largest} {
		*field = d.Epsilon()
	}
	return r
}

func codeOf[T comparable](codes []T, value T) uint8 {
	for i, code := range codes {
		if code == value {
			return uint8(i + 1)
		}
	}
	return 0
}

func fromCode[T any](d *wire.Decoder, codes []T) (value T) {
	code := int(d.U8())
	if code < 1 || code > len(codes) {
		d.Fail("unknown code %d", code)
		return value
	}
	return codes[code-1]
}

// decodeChange reads what an event says: its public part, and the hidden one unless that is erased and nil.
func decodeChange(d, hidden *wire.Decoder, k kind) change {
	switch k {
	case kindSettled:
		return decodeSettled(d, hidden)
	case kindHeld:
		return decodeHeld(d, hidden)
	case kindSold:
		return decodeSold(d, hidden)
	}
	if hidden != nil {
		return decodeHidden(hidden, k)
	}
	return decodeNothing(d, k)
}

// decodeNothing returns the change of an erased event that leaves nothing but its kind.
func decodeNothing(d *wire.Decoder, k kind) change {
	switch k {
	case kindEnrolled:
		return &enrolled{}
	case kindReleased:
		return &released{}
	case kindCharged:
		return &charged{}
	case kindWithdrawn:
		return &withdrawn{}
	case kindEpoch:
		return &epochBegun{}
	case kindBound:
		return &truthBound{}
	case kindRefused:
		return &objectRefused{}
	case kindStated:
		return &stated{}
	}
	d.Fail("an event of kind %d cannot be erased", k)
	return nil
}

func decodeHidden(d *wire.Decoder, k kind) change {
	switch k {
	case kindCreated:
		return decodeCreated(d)
	case kindTruthKey:
		return decodeTruthKeySet(d)
	case kindNoiseKey:
		return decodeNoiseKeySet(d)
	case kindQuestion:
		return decodeQuestionDefined(d)
	case kindPolicy:
		return decodePolicyDefined(d)
	case kindEnrolled:
		return decodeEnrolled(d)
	case kindReleased:
		return decodeReleased(d)
	case kindCharged:
		return decodeCharged(d)
	case kindAnswered:
		return decodeAnswered(d)
	case kindBuyer:
		return decodeBuyerNamed(d)
	case kindReserved:
		return decodeReserved(d)
	case kindCancelled:
		return decodeCancelled(d)
	case kindSale:
		return decodeSaleMade(d)
	case kindWithdrawn:
		return decodeWithdrawn(d)
	case kindEpoch:
		return decodeEpoch(d)
	case kindBound:
		return decodeBound(d)
	case kindRefused:
		return decodeRefused(d)
	case kindStated:
		return decodeStated(d)
	case kindForgotten:
		return decodeForgotten(d)
	}
	d.Fail("unknown kind %d", k)
	return nil
}

func (c *noiseKeySet) encode(e *wire.Encoder) {
	e.U32(c.number)
	e.Text(c.name)
	e.Raw(c.check[:])
}

func decodeNoiseKeySet(d *wire.Decoder) change {
	c := &noiseKeySet{number: d.U32(), name: d.Text()}
	d.Array(c.check[:])
	return c
}
