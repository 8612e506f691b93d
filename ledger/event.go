package ledger

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// event is one entry of the log. Its number is its key there.
type event struct {
	number uint64
	time   time.Time
	change change
}

// change is what an event says. It holds every outcome, the drawn response included, so that the
// state is a fold of the events.
type change interface {
	kind() kind
	encode(*encoder)
}

// kind is stored as one byte. A number is never given a second meaning.
type kind uint8

const (
	kindCreated kind = iota + 1
	kindTruthKey
	kindQuestion
	kindPolicy
	kindEnrolled
	kindReleased
	kindSettled
	kindCharged
	kindAnswered
	kindBuyer
	kindReserved
	kindHeld
	kindCancelled
	kindSale
	kindSold
	kindWithdrawn
)

func (k kind) String() string {
	names := [...]string{"", "created", "truth-key", "question", "policy", "enrolled", "released", "settled", "charged", "answered",
		"buyer", "reserved", "held", "cancelled", "sale", "sold", "withdrawn"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// created begins the log.
type created struct {
	id       [16]byte // a random UUID
	currency string
	logKey   string
}

// truthKeySet says that from here on chains are bound to their truth by keyed hashes.
type truthKeySet struct{ check tag }

// questionDefined adds a question under the next free number.
type questionDefined struct {
	number uint32
	name   string
	values []string
}

// policyDefined gives a policy a number, by which chains refer to it.
type policyDefined struct {
	number uint32
	json   string
}

// enrolled begins the chain of an object and a question. cap is the object's from here on.
type enrolled struct {
	object   string
	question uint32
	policy   uint32 // 0 for none
	cap      privacy.Epsilon
}

// method tells how a response came about.
type method uint8

const (
	methodRaise method = iota + 1
	methodDegrade
	methodInsert
	methodFresh  // an answer to a query drawn from the truth, whatever was answered before
	methodResale // a recorded response sold again
)

func (m method) String() string {
	names := [...]string{"", "raise", "degrade", "insert", "fresh", "resale"}
	if int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("method %d", uint8(m))
}

// released records a response.
type released struct {
	object   string
	question uint32
	epsilon  privacy.Epsilon
	response
}

// charged adds the ε of an answer about a question to what an object has spent. The answered event of
// the same transaction follows.
type charged struct {
	object   string
	question uint32
	epsilon  privacy.Epsilon
	bound    *tag // as in released
}

// answered records the answer to a query about a panel of objects.
type answered struct {
	question uint32
	query    string            // as mechanism.ParseQuery reads it
	panel    [sha256.Size]byte // see inquiry.panelDigest
	objects  uint64            // the size of the panel
	epsilon  privacy.Epsilon
	output   int
	method   method // methodFresh or methodDegrade
}

// buyerNamed gives a buyer a number, by which chains and sales refer to it.
type buyerNamed struct {
	number uint32
	name   string
}

// deal is what reservations and sales have in common. The events of its objects follow.
type deal struct {
	sale     uint64 // its number; a reservation and the sale that comes of it have the same
	buyer    uint32
	question uint32
	epsilon  privacy.Epsilon
	objects  uint64
	price    uint64 // in all, in minor units of the currency
}

// reserved holds budget for a sale, at a price, until an instant.
type reserved struct {
	deal
	expires time.Time
}

// held is one object of the reservation before it.
type held struct {
	object string
	sale   uint64
	price  uint64
}

// cancelled ends a reservation.
type cancelled struct{ sale uint64 }

// saleMade begins a sale.
type saleMade struct {
	deal
	tally saleTally
}

// saleTally counts the objects of a sale by how their responses come about. Upgrades are those of
// which the buyer holds a lower level.
type saleTally struct{ draws, resales, degradations, insertions, upgrades uint64 }

// sold is one object of the sale before it, with its response, recorded now or before.
type sold struct {
	object string
	sale   uint64
	price  uint64
	response
}

// withdrawn ends the object's part in all questions, until it is enrolled again.
type withdrawn struct{ object string }

// settled ends a request, or one part of a large one, and records what came of it, so that the same
// key gives the same result again.
type settled struct {
	key     string
	digest  [sha256.Size]byte // of the request
	first   uint64            // the first event of this part
	swept   []sweptCount      // of a sweep, by question
	answer  uint64            // the event of the answer that the request got, if it asked for one
	through uint64            // objects enrolled by later events do not belong to the request
	last    string            // the last object of this part
	final   bool              // no further part follows
	counts  counts
	refused []Refusal
}

// sweptCount tells how many chains of a question a sweep raised, left unchanged and refused. The refusals
// of the settled event are those of the questions, one after the other.
type sweptCount struct {
	question                   uint32
	raised, unchanged, refused uint64
}

// counts are the tallies of a request; what each means depends on the request.
type counts [3]uint64

func (*created) kind() kind         { return kindCreated }
func (*truthKeySet) kind() kind     { return kindTruthKey }
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
	e.text(c.name)
	e.uvarint(uint64(len(c.values)))
	for _, value := range c.values {
		e.text(value)
	}
}

func decodeQuestionDefined(d *decoder) change {
	c := &questionDefined{number: d.u32(), name: d.text()}
	c.values = make([]string, d.count(1))
	for i := range c.values {
		c.values[i] = d.text()
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
	e.epsilon(c.cap)
}

func decodeEnrolled(d *decoder) change {
	return &enrolled{object: d.text(), question: d.u32(), policy: d.u32(), cap: d.epsilon()}
}

func (c *released) encode(e *encoder) {
	e.text(c.object)
	e.u32(c.question)
	e.epsilon(c.epsilon)
	encodeResponse(e, c.response)
}

func decodeReleased(d *decoder) change {
	c := &released{object: d.text(), question: d.u32(), epsilon: d.epsilon(), response: decodeResponse(d)}
	if c.method == methodResale {
		d.fail("a response released as a resale")
	}
	return c
}

func encodeResponse(e *encoder, r response) {
	e.uvarint(uint64(r.value))
	e.u8(uint8(r.method))
	encodeTag(e, r.bound)
}

func decodeResponse(d *decoder) response {
	r := response{value: d.response(), method: method(d.u8()), bound: decodeTag(d)}
	if (r.method < methodRaise || r.method > methodInsert) && r.method != methodResale {
		d.fail("unknown method %d", r.method)
	}
	return r
}

// truthful tells whether a response that a truth is bound to came from one.
func (r response) truthful() bool { return r.bound == nil || r.method == methodRaise }

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
}

func decodeDeal(d *decoder) deal {
	return deal{sale: d.uvarint(), buyer: d.u32(), question: d.u32(), epsilon: d.epsilon(), objects: d.uvarint(), price: d.uvarint()}
}

func (c *reserved) encode(e *encoder) {
	c.deal.encode(e)
	e.time(c.expires)
}

func decodeReserved(d *decoder) change { return &reserved{deal: decodeDeal(d), expires: d.time()} }

func (c *held) encode(e *encoder) {
	e.text(c.object)
	e.uvarint(c.sale)
	e.uvarint(c.price)
}

func decodeHeld(d *decoder) change {
	return &held{object: d.text(), sale: d.uvarint(), price: d.uvarint()}
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

func (c *sold) encode(e *encoder) {
	e.text(c.object)
	e.uvarint(c.sale)
	e.uvarint(c.price)
	encodeResponse(e, c.response)
}

func decodeSold(d *decoder) change {
	return &sold{object: d.text(), sale: d.uvarint(), price: d.uvarint(), response: decodeResponse(d)}
}

func (c *withdrawn) encode(e *encoder) { e.text(c.object) }

func decodeWithdrawn(d *decoder) change { return &withdrawn{object: d.text()} }

func (c *charged) encode(e *encoder) {
	e.text(c.object)
	e.u32(c.question)
	e.epsilon(c.epsilon)
	encodeTag(e, c.bound)
}

func decodeCharged(d *decoder) change {
	return &charged{object: d.text(), question: d.u32(), epsilon: d.epsilon(), bound: decodeTag(d)}
}

func (c *answered) encode(e *encoder) {
	e.u32(c.question)
	e.text(c.query)
	e.raw(c.panel[:])
	e.uvarint(c.objects)
	e.epsilon(c.epsilon)
	e.uvarint(uint64(c.output))
	e.u8(uint8(c.method))
}

func decodeAnswered(d *decoder) change {
	c := &answered{question: d.u32(), query: d.text()}
	d.array(c.panel[:])
	c.objects, c.epsilon, c.output, c.method = d.uvarint(), d.epsilon(), d.response(), method(d.u8())
	if c.method != methodFresh && c.method != methodDegrade {
		d.fail("unknown method %d", c.method)
	}
	return c
}

func (c *settled) encode(e *encoder) {
	e.text(c.key)
	e.raw(c.digest[:])
	e.uvarint(c.first)
	e.uvarint(c.through)
	e.text(c.last)
	e.flag(c.final)
	for _, n := range c.counts {
		e.uvarint(n)
	}
	e.uvarint(uint64(len(c.refused)))
	for _, refusal := range c.refused {
		encodeRefusal(e, refusal)
	}
	e.uvarint(uint64(len(c.swept)))
	for _, one := range c.swept {
		e.uvarint(uint64(one.question))
		e.uvarint(one.raised)
		e.uvarint(one.unchanged)
		e.uvarint(one.refused)
	}
	e.uvarint(c.answer)
}

func decodeSettled(d *decoder) change {
	c := &settled{key: d.text()}
	d.array(c.digest[:])
	c.first, c.through, c.last, c.final = d.uvarint(), d.uvarint(), d.text(), d.flag()
	for i := range c.counts {
		c.counts[i] = d.uvarint()
	}
	const smallest = 8 // bytes: the length of an empty name, two codes, five ε
	if n := d.count(smallest); n > 0 {
		c.refused = make([]Refusal, n)
	}
	for i := range c.refused {
		c.refused[i] = decodeRefusal(d)
	}
	c.swept = decodeSwept(d, uint64(len(c.refused)))
	c.answer = d.uvarint()
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
			d.fail("a sweep that refused more than it lists")
			return nil
		}
		refusals -= one.refused
	}
	if refusals > 0 {
		d.fail("a sweep that refused less than it lists")
	}
	return swept
}

// reasonCodes and helpCodes number the reasons and helps on disk, from 1.
func reasonCodes() []Reason {
	return []Reason{
		ChainCeiling, ObjectCap, NotEnrolled, NoTruth, CapDiffers, PolicyDiffers,
		Withdrawn, NotForSale, NotOnOffer, BuyerRefused, SaleClosed, HoldersFull, TruthChanged,
	}
}

func helpCodes() []Help {
	return []Help{HelpsNothing, HelpsWaiting, HelpsEnrolling, HelpsTruth}
}

func encodeRefusal(e *encoder, r Refusal) {
	e.text(r.Object)
	e.u8(codeOf(reasonCodes(), r.Reason))
	e.u8(codeOf(helpCodes(), r.Helps))
	for _, v := range []privacy.Epsilon{r.Ceiling, r.Spent, r.Asked, r.Cost, r.Remaining} {
		e.epsilon(v)
	}
}

func decodeRefusal(d *decoder) Refusal {
	r := Refusal{Object: d.text()}
	r.Reason = fromCode(d, reasonCodes())
	r.Helps = fromCode(d, helpCodes())
	for _, field := range []*privacy.Epsilon{&r.Ceiling, &r.Spent, &r.Asked, &r.Cost, &r.Remaining} {
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

// eventVersion is the version of the event encoding.
const eventVersion = 1

// encodeEvent returns the payload of the event's record, without its number and checksum.
func encodeEvent(ev event) []byte {
	e := &encoder{}
	e.u8(eventVersion)
	e.u8(uint8(ev.change.kind()))
	e.time(ev.time)
	ev.change.encode(e)
	return e.buf
}

func decodeEvent(number uint64, payload []byte) (event, error) {
	d := &decoder{rest: payload}
	if version := d.u8(); d.err == nil && version != eventVersion {
		return event{}, fmt.Errorf("event %d: %w (event version %d)", number, ErrVersion, version)
	}
	k := kind(d.u8())
	ev := event{number: number, time: d.time()}
	ev.change = decodeChange(d, k)
	if err := d.done(); err != nil {
		return event{}, fmt.Errorf("event %d: %w", number, err)
	}
	return ev, nil
}

func decodeChange(d *decoder, k kind) change {
	switch k {
	case kindCreated:
		return decodeCreated(d)
	case kindTruthKey:
		return decodeTruthKeySet(d)
	case kindQuestion:
		return decodeQuestionDefined(d)
	case kindPolicy:
		return decodePolicyDefined(d)
	case kindEnrolled:
		return decodeEnrolled(d)
	case kindReleased:
		return decodeReleased(d)
	case kindSettled:
		return decodeSettled(d)
	case kindCharged:
		return decodeCharged(d)
	case kindAnswered:
		return decodeAnswered(d)
	case kindBuyer:
		return decodeBuyerNamed(d)
	case kindReserved:
		return decodeReserved(d)
	case kindHeld:
		return decodeHeld(d)
	case kindCancelled:
		return decodeCancelled(d)
	case kindSale:
		return decodeSaleMade(d)
	case kindSold:
		return decodeSold(d)
	case kindWithdrawn:
		return decodeWithdrawn(d)
	}
	d.fail("unknown kind %d", k)
	return nil
}
