package ledger

import (
	"github.com/sluicedp/sluice/mechanism"
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

func (c *created) encode(e *encoder) {
	e.raw(c.id[:])
	e.text(c.currency)
	e.text(c.logKey)
}

func decodeCreated(d *decoder) change {
	c := &created{}
	d.array(c.id[:])
	c.currency, c.logKey = d.text(), d.text()
	return c
}

func (c *truthKeySet) encode(e *encoder) { e.raw(c.check[:]) }

func decodeTruthKeySet(d *decoder) change {
	c := &truthKeySet{}
	d.array(c.check[:])
	return c
}

func (c *questionDefined) encode(e *encoder) {
	e.u32(c.number)
	e.text(c.Name)
	e.u8(c.Encoding.code())
	e.uvarint(uint64(len(c.Values)))
	for _, value := range c.Values {
		e.text(value)
	}
	if c.Encoding == Finite {
		e.text(string(c.Mechanism.encode()))
	}
}

func decodeQuestionDefined(d *decoder) change {
	c := &questionDefined{d.u32(), Question{Name: d.text(), Encoding: decodeEncoding(d)}}
	c.Values = make([]string, d.count(1))
	for i := range c.Values {
		c.Values[i] = d.text()
	}
	if c.Encoding == Finite {
		c.Mechanism = decodeMechanism(d, len(c.Values))
	}
	return c
}

func (c *policyDefined) encode(e *encoder) {
	e.u32(c.number)
	e.text(c.json)
}

func decodePolicyDefined(d *decoder) change {
	return &policyDefined{number: d.u32(), json: d.text()}
}

func (c *enrolled) encode(e *encoder) {
	e.text(c.object)
	e.u32(c.question)
	e.u32(c.policy)
	e.u32(c.noise)
	e.epsilon(c.cap)
}

func decodeEnrolled(d *decoder) change {
	c := &enrolled{}
	c.decode(d)
	return c
}

func (c *enrolled) decode(d *decoder) {
	*c = enrolled{object: d.text(), question: d.u32(), policy: d.u32(), noise: d.u32(), cap: d.epsilon()}
}

func (c *released) encode(e *encoder) {
	e.text(c.object)
	e.u32(c.question)
	e.epsilon(c.epsilon)
	encodeResponse(e, c.response)
}

func decodeReleased(d *decoder) change {
	c := &released{}
	c.decode(d)
	return c
}

func (c *released) decode(d *decoder) {
	c.object, c.question = d.text(), d.u32()
	var n [2]uint64
	d.uvarints(n[:])
	c.epsilon = d.asEpsilon(n[0])
	c.response = decodeMethod(d, asValue(d, n[1]))
	if c.method == methodResale {
		d.fail("a response released as a resale")
	}
}

func encodeResponse(e *encoder, r response) {
	encodeValue(e, r.value)
	e.u8(uint8(r.method))
}

func decodeResponse(d *decoder) response { return decodeMethod(d, decodeValue(d)) }

// decodeMethod reads how a response came about.
func decodeMethod(d *decoder, v value) response {
	r := response{value: v, method: method(d.u8())}
	if (r.method < methodRaise || r.method > methodInsert) && r.method != methodResale {
		d.fail("unknown method %d", r.method)
	}
	return r
}

func (c *buyerNamed) encode(e *encoder) {
	e.u32(c.number)
	e.text(c.name)
}

func decodeBuyerNamed(d *decoder) change { return &buyerNamed{number: d.u32(), name: d.text()} }

func (c deal) encode(e *encoder) {
	e.uvarint(c.sale)
	e.u32(c.buyer)
	e.u32(c.question)
	e.epsilon(c.epsilon)
	e.uvarint(c.objects)
	e.uvarint(c.price)
	e.uvarint(c.refused)
}

func decodeDeal(d *decoder) deal {
	return deal{sale: d.uvarint(), buyer: d.u32(), question: d.u32(), epsilon: d.epsilon(), objects: d.uvarint(), price: d.uvarint(), refused: d.uvarint()}
}

func (c *reserved) encode(e *encoder) {
	c.deal.encode(e)
	e.time(c.expires)
}

func decodeReserved(d *decoder) change { return &reserved{deal: decodeDeal(d), expires: d.time()} }

// What an object was reserved or sold for outlives it: the sale must still add up.

func (c *held) encodePublic(e *encoder) { encodeShare(e, c.sale, c.price) }

func (c *held) encode(e *encoder) { e.text(c.object) }

func decodeHeld(d, hidden *decoder) change {
	c := &held{}
	c.sale, c.price = d.uvarint(), d.uvarint()
	if hidden != nil {
		c.object = hidden.text()
	}
	return c
}

func encodeShare(e *encoder, sale, price uint64) {
	e.uvarint(sale)
	e.uvarint(price)
}

func (c *cancelled) encode(e *encoder) { e.uvarint(c.sale) }

func decodeCancelled(d *decoder) change { return &cancelled{sale: d.uvarint()} }

func (c *saleMade) encode(e *encoder) {
	c.deal.encode(e)
	c.tally.encode(e)
}

func decodeSaleMade(d *decoder) change {
	return &saleMade{deal: decodeDeal(d), tally: decodeSaleTally(d)}
}

func (t saleTally) encode(e *encoder) {
	for _, n := range []uint64{t.draws, t.resales, t.degradations, t.insertions, t.upgrades} {
		e.uvarint(n)
	}
}

func decodeSaleTally(d *decoder) saleTally {
	return saleTally{draws: d.uvarint(), resales: d.uvarint(), degradations: d.uvarint(), insertions: d.uvarint(), upgrades: d.uvarint()}
}

func (c *sold) encodePublic(e *encoder) { encodeShare(e, c.sale, c.price) }

func (c *sold) encode(e *encoder) {
	e.text(c.object)
	encodeResponse(e, c.response)
}

func decodeSold(d, hidden *decoder) change {
	c := &sold{}
	c.sale, c.price = d.uvarint(), d.uvarint()
	if hidden != nil {
		c.object, c.response = hidden.text(), decodeResponse(hidden)
	}
	return c
}

func (c *withdrawn) encode(e *encoder) { e.text(c.object) }

func decodeWithdrawn(d *decoder) change { return &withdrawn{object: d.text()} }

func (c *epochBegun) encode(e *encoder) {
	e.text(c.object)
	e.u32(c.question)
}

func decodeEpoch(d *decoder) change { return &epochBegun{object: d.text(), question: d.u32()} }

func (c *charged) encode(e *encoder) {
	e.text(c.object)
	e.u32(c.question)
	e.epsilon(c.epsilon)
}

func decodeCharged(d *decoder) change {
	return &charged{object: d.text(), question: d.u32(), epsilon: d.epsilon()}
}

func (c *truthBound) encode(e *encoder) {
	e.text(c.object)
	e.u32(c.question)
	e.raw(c.tag[:])
}

func decodeBound(d *decoder) change {
	c := &truthBound{object: d.text(), question: d.u32()}
	d.array(c.tag[:])
	return c
}

func (c *objectRefused) encode(e *encoder) {
	e.u32(c.question)
	encodeRefusal(e, c.Refusal)
}

func decodeRefused(d *decoder) change {
	return &objectRefused{question: d.u32(), Refusal: decodeRefusal(d)}
}

func (a account) encode(e *encoder) {
	e.epsilon(a.cap)
	e.epsilon(a.spent)
	e.uvarint(a.earned)
}

func decodeAccount(d *decoder) account {
	return account{cap: d.epsilon(), spent: d.epsilon(), earned: d.uvarint()}
}

func (c *stated) encode(e *encoder) {
	e.text(c.object)
	e.uvarint(c.forgotten)
	e.numbers(c.events)
	c.account.encode(e)
}

func decodeStated(d *decoder) change {
	return &stated{object: d.text(), forgotten: d.uvarint(), events: d.numbers(), account: decodeAccount(d)}
}

func (c *forgotten) encode(e *encoder) {
	e.text(c.object)
	e.uvarint(c.events)
	c.account.encode(e)
	e.uvarint(uint64(len(c.chains)))
	for _, r := range c.chains {
		e.u32(r.question)
		e.u32(r.policy)
		e.epsilon(r.spent)
	}
}

func decodeForgotten(d *decoder) change {
	c := &forgotten{object: d.text(), events: d.uvarint(), account: decodeAccount(d)}
	const smallest = 9 // bytes of a remnant
	if n := d.count(smallest); n > 0 {
		c.chains = make([]remnant, n)
	}
	for i := range c.chains {
		c.chains[i] = remnant{question: d.u32(), policy: d.u32(), spent: d.epsilon()}
	}
	return c
}

func (c *answered) encode(e *encoder) {
	e.u32(c.question)
	e.text(c.query)
	e.raw(c.panel[:])
	e.uvarint(c.objects)
	e.epsilon(c.epsilon)
	encodeResult(e, c.result)
	e.u8(uint8(c.method))
}

func decodeAnswered(d *decoder) change {
	c := &answered{question: d.u32(), query: d.text()}
	d.array(c.panel[:])
	c.objects, c.epsilon, c.result, c.method = d.uvarint(), d.epsilon(), decodeResult(d), method(d.u8())
	derived := c.method == methodRaise || c.method == methodInsert
	if c.method != methodFresh && c.method != methodDegrade && !(derived && c.scored) {
		d.fail("unknown method %d", c.method)
	}
	return c
}

// encodeResult writes an output, or a score with its sign in the last bit.
func encodeResult(e *encoder, r result) {
	e.flag(r.scored)
	if r.scored {
		e.uvarint(uint64(r.score<<1 ^ r.score>>63))
	} else {
		e.uvarint(uint64(r.output))
	}
}

func decodeResult(d *decoder) result {
	if !d.flag() {
		return result{output: d.output()}
	}
	n := d.uvarint()
	r := result{scored: true, score: int64(n>>1) ^ -int64(n&1)}
	if r.score < -mechanism.MaxScore || r.score > mechanism.MaxScore {
		d.fail("a score beyond ±2^61")
	}
	return r
}

// A key stays used, whatever becomes of the object.
func (c *settled) encodePublic(e *encoder) {
	e.text(c.key)
	if e.flag(c.alone); !c.alone {
		c.encodeIdentity(e)
	}
	e.uvarint(c.first)
	e.uvarint(c.through)
	e.flag(c.final)
	for _, n := range c.counts {
		e.uvarint(n)
	}
	e.uvarint(c.spent)
	e.uvarint(c.refused)
	e.uvarint(uint64(len(c.swept)))
	for _, one := range c.swept {
		e.uvarint(uint64(one.question))
		e.uvarint(one.raised)
		e.uvarint(one.unchanged)
		e.uvarint(one.refused)
	}
	e.uvarint(c.answer)
	e.uvarint(c.sale)
	e.uvarint(c.done)
}

func (c *settled) encode(e *encoder) {
	e.text(c.object)
	if c.alone {
		c.encodeIdentity(e)
	}
}

func (c *settled) encodeIdentity(e *encoder) {
	e.raw(c.digest[:])
	c.marks.encode(e)
}

func (c *settled) decodeIdentity(d *decoder) {
	d.array(c.digest[:])
	c.marks = decodeMarks(d)
}

func decodeSettled(d, hidden *decoder) change {
	c := &settled{key: d.text()}
	if c.alone = d.flag(); !c.alone {
		c.decodeIdentity(d)
	}
	c.first, c.through, c.final = d.uvarint(), d.uvarint(), d.flag()
	for i := range c.counts {
		c.counts[i] = d.uvarint()
	}
	c.spent, c.refused = d.uvarint(), d.uvarint()
	c.swept = decodeSwept(d, c.refused)
	c.answer, c.sale, c.done = d.uvarint(), d.uvarint(), d.uvarint()
	if hidden == nil {
		return c
	}
	if c.object = hidden.text(); c.alone {
		c.decodeIdentity(hidden)
	}
	return c
}

// decodeSwept reads the counts of a sweep with this many refusals.
func decodeSwept(d *decoder, refusals uint64) []sweptCount {
	const smallest = 4 // bytes of a count
	n := d.count(smallest)
	if n == 0 {
		return nil // the refusals are those of something else
	}
	swept := make([]sweptCount, n)
	for i := range swept {
		one := &swept[i]
		one.question, one.raised, one.unchanged, one.refused = d.uvarint32(), d.uvarint(), d.uvarint(), d.uvarint()
		if one.refused > refusals {
			d.fail("a sweep that refused more than it counts")
			return nil
		}
		refusals -= one.refused
	}
	if refusals > 0 {
		d.fail("a sweep that refused less than it counts")
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

func encodeRefusal(e *encoder, r Refusal) {
	e.text(r.Object)
	e.u8(codeOf(reasonCodes(), r.Reason))
	e.u8(codeOf(helpCodes(), r.Helps))
	for _, v := range []privacy.Epsilon{r.Ceiling, r.Spent, r.Asked, r.Cost, r.Remaining, r.Largest} {
		e.epsilon(v)
	}
}

func decodeRefusal(d *decoder) Refusal {
	r := Refusal{Object: d.text()}
	r.Reason = fromCode(d, reasonCodes())
	r.Helps = fromCode(d, helpCodes())
	for _, field := range []*privacy.Epsilon{&r.Ceiling, &r.Spent, &r.Asked, &r.Cost, &r.Remaining, &r.Largest} {
		*field = d.epsilon()
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

func fromCode[T any](d *decoder, codes []T) (value T) {
	code := int(d.u8())
	if code < 1 || code > len(codes) {
		d.fail("unknown code %d", code)
		return value
	}
	return codes[code-1]
}

// decodeChange reads what an event says: its public part, and the hidden one unless that is erased and nil.
func decodeChange(d, hidden *decoder, k kind) change {
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
func decodeNothing(d *decoder, k kind) change {
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
	d.fail("an event of kind %d cannot be erased", k)
	return nil
}

func decodeHidden(d *decoder, k kind) change {
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
	d.fail("unknown kind %d", k)
	return nil
}
