package ledger

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// counters summarize the log: how many events there are, the root of their tree between transactions, the time of the last,
// and what they made.
type counters struct {
	position
	last      time.Time
	questions uint32
	policies  uint32
	objects   uint64
	chains    uint64
	buyers    uint32
	sales     uint64 // numbers given to sales and reservations
	sold      uint64 // sales carried out
	revenue   uint64 // what they brought, in minor units of the currency
	open      opened
	unsettled uint64 // the sale or reservation whose settled event is to come, with those of who is refused before it
	refused   uint64 // refused events that no settled event counts yet
	charges   charges
	answer    answering
	underway  underway
	erased    erasure
	noises    uint32 // noise keys
}

// charges are those of an answer whose event is still to come. They are empty between transactions.
type charges struct {
	objects  uint64
	question uint32          // 0 if all their events are erased
	epsilon  privacy.Epsilon // likewise
	// renewed is the last event by which one of those charged was forgotten, or began an epoch, or 0.
	renewed uint64
	erased  uint64         // of the charges, whose events are erased
	last    string         // the last object that is not: they come in order
	panel   event.PanelSum // of these objects
}

func (n charges) encode(e *wire.Encoder) {
	e.Uvarint(n.objects)
	e.U32(n.question)
	e.Epsilon(n.epsilon)
	e.Uvarint(n.renewed)
	e.Uvarint(n.erased)
	e.Text(n.last)
	e.Raw(n.panel[:])
}

// answering is an answer whose request is still to be settled. It is empty between transactions.
type answering struct {
	event uint64 // that recorded it; 0: none
	base  uint64 // the event of the answer that it was derived from; 0 if it was drawn from truths
	left  leaves // out of it
	// What it is about, and costs each object, if it was drawn from truths.
	question      uint32
	epsilon, cost privacy.Epsilon
}

// leaves is what is known of whom an answer leaves out.
type leaves uint8

const (
	leavesAnybody  leaves = iota // some of its charges are erased
	leavesNobody                 // it is about those who were charged, and they are all
	leavesSomebody               // those charged and those refused should be who was asked for
)

// checkWhole refuses the end of a transaction in the midst of what belongs together.
func (c counters) checkWhole() error {
	if c.open != (opened{}) || c.unsettled != 0 || c.refused != 0 || c.charges != (charges{}) || c.answer != (answering{}) || c.underway != (underway{}) || c.erased != (erasure{}) {
		return errs.Corrupt(nil, "half of sale %d, %d refusals, %d charges, %d events of a request or %d erased events, which cost %d nano-nats",
			c.open.sale+c.unsettled, c.refused, c.charges.objects, c.underway.events, c.erased.events, c.erased.spent)
	}
	return nil
}

// erasure sums up erased events until the forgotten event comes that says what they were part of. In a
// ledger that erases as it forgets it is always empty; it fills up when an erased log is folded.
type erasure struct {
	events   uint64
	mentions uint64 // of them that only named somebody: refusals and settled events
	earned   uint64
	spent    uint64 // nano-nats
}

// opened is the sale or reservation whose objects are still to come, and what they must add up to. It is
// empty between transactions.
type opened struct {
	sale    uint64
	objects uint64
	price   uint64
	tally   event.SaleTally
	erased  uint64 // objects whose events are erased
	last    string // the last object: they come in order
	held    uint64 // of a sale that was reserved, the event of the object last found in the reservation, or 0
}

func (c counters) Encode() []byte {
	e := &wire.Encoder{}
	e.Uvarint(c.events)
	e.Raw(c.root[:])
	e.Time(c.last)
	e.U32(c.noises)
	e.U32(c.questions)
	e.U32(c.policies)
	e.Uvarint(c.objects)
	e.Uvarint(c.chains)
	e.U32(c.buyers)
	e.Uvarint(c.sales)
	e.Uvarint(c.sold)
	e.Uvarint(c.revenue)
	e.Uvarint(c.unsettled)
	e.Uvarint(c.refused)
	if e.Flag(c.charges != (charges{})); c.charges != (charges{}) {
		c.charges.encode(e)
	}
	e.Uvarint(c.answer.event)
	e.Uvarint(c.answer.base)
	e.U8(uint8(c.answer.left))
	e.U32(c.answer.question)
	e.Epsilon(c.answer.epsilon)
	e.Epsilon(c.answer.cost)
	if e.Flag(c.underway != (underway{})); c.underway != (underway{}) {
		c.underway.encode(e)
	}
	e.Uvarint(c.erased.events)
	e.Uvarint(c.erased.mentions)
	e.Uvarint(c.erased.earned)
	e.Uvarint(c.erased.spent)
	e.Uvarint(c.open.sale)
	if c.open.sale != 0 {
		e.Uvarint(c.open.objects)
		e.Uvarint(c.open.erased)
		e.Uvarint(c.open.price)
		c.open.tally.Encode(e)
		e.Text(c.open.last)
		e.Uvarint(c.open.held)
	}
	return e.Buf
}

func decodeCounters(payload []byte) (counters, error) {
	d := &wire.Decoder{Rest: payload}
	c := counters{position: position{events: d.Uvarint()}}
	d.Array(c.root[:])
	c.last, c.noises, c.questions, c.policies, c.objects, c.chains = d.Time(), d.U32(), d.U32(), d.U32(), d.Uvarint(), d.Uvarint()
	c.buyers, c.sales, c.sold, c.revenue = d.U32(), d.Uvarint(), d.Uvarint(), d.Uvarint()
	c.unsettled, c.refused = d.Uvarint(), d.Uvarint()
	if d.Flag() {
		c.charges = charges{objects: d.Uvarint(), question: d.U32(), epsilon: d.Epsilon(), renewed: d.Uvarint(), erased: d.Uvarint(), last: d.Text()}
		d.Array(c.charges.panel[:])
	}
	c.answer = answering{d.Uvarint(), d.Uvarint(), leaves(d.U8()), d.U32(), d.Epsilon(), d.Epsilon()}
	if d.Flag() {
		c.underway = decodeUnderway(d)
	}
	c.erased = erasure{d.Uvarint(), d.Uvarint(), d.Uvarint(), d.Uvarint()}
	if c.open.sale = d.Uvarint(); c.open.sale != 0 {
		c.open.objects, c.open.erased, c.open.price, c.open.tally, c.open.last, c.open.held = d.Uvarint(), d.Uvarint(), d.Uvarint(), event.DecodeSaleTally(d), d.Text(), d.Uvarint()
	}
	return c, d.Done()
}

// about is what the first event says of the ledger as a whole.
type about struct {
	event.Created
	at time.Time
}

func (a about) Encode() []byte {
	e := &wire.Encoder{}
	e.Time(a.at)
	a.Created.Encode(e)
	return e.Buf
}

func decodeAbout(payload []byte) (about, error) {
	d := &wire.Decoder{Rest: payload}
	a := about{at: d.Time()}
	a.Created = *event.DecodeCreated(d).(*event.Created)
	return a, d.Done()
}

// object is the budget of one object.
type object struct {
	cap    privacy.Epsilon
	spent  privacy.Epsilon
	chains uint64
	// withdrawn is the event by which the object last withdrew, or 0. What it enrolled in later counts.
	withdrawn uint64
	forgotten uint64 // the event that last destroyed what was released of it, or 0
	earned    uint64 // by sales, in minor units of the currency
	links
	held []uint64 // reservations that may hold some of its budget, by rising number
}

// withdrew tells whether the object has withdrawn since it was enrolled in a chain.
func (o object) withdrew(c chain) bool { return o.withdrawn > c.enrolled }

func (o object) Encode() []byte {
	e := &wire.Encoder{}
	o.encodeTo(e)
	return e.Buf
}

func (o *object) encodeTo(e *wire.Encoder) {
	e.Buf = wire.AppendNumbers(e.Buf, uint64(o.cap.Nano()), uint64(o.spent.Nano()), o.chains, o.withdrawn, o.forgotten, o.earned,
		o.latest, o.events, o.settled, o.settles)
	e.Numbers(o.held)
}

func decodeObject(payload []byte) (o object, err error) {
	d := wire.Decoder{Rest: payload}
	var n [10]uint64
	d.Uvarints(n[:])
	o.cap, o.spent = d.AsEpsilon(n[0]), d.AsEpsilon(n[1])
	o.chains, o.withdrawn, o.forgotten, o.earned = n[2], n[3], n[4], n[5]
	o.links = links{n[6], n[7], n[8], n[9]}
	o.held = d.Numbers()
	return o, d.Done()
}

// links lead to what the log has about an object. Events that say something of it, and settled events that only
// name it (see settled.object), are linked apart: a statement lists the first.
type links struct {
	latest  uint64 // the last event about it that is not destroyed, or 0
	events  uint64 // how many there are
	settled uint64 // the last settled event that names it, likewise
	settles uint64 // how many there are
}

func (l links) encode(e *wire.Encoder) {
	for _, n := range []uint64{l.latest, l.events, l.settled, l.settles} {
		e.Uvarint(n)
	}
}

// total is how many events name the object.
func (l links) total() uint64 { return l.events + l.settles }

func decodeLinks(d *wire.Decoder) links {
	return links{d.Uvarint(), d.Uvarint(), d.Uvarint(), d.Uvarint()}
}

// link makes an event the last one of its sort.
func (s *state) link(l *links, ev uint64) {
	s.linked.previous, l.latest = l.latest, ev
	l.events++
}

func (s *state) linkSettled(l *links, ev uint64) {
	s.linked.previous, l.settled = l.settled, ev
	l.settles++
}

// stranger is somebody whom requests named, and refused, and who was never enrolled.
type stranger struct{ links }

func (x stranger) Encode() []byte {
	e := &wire.Encoder{}
	x.links.encode(e)
	return e.Buf
}

func decodeStranger(payload []byte) (stranger, error) {
	d := &wire.Decoder{Rest: payload}
	x := stranger{decodeLinks(d)}
	return x, d.Done()
}

// chain is everything released of one object and question.
type chain struct {
	enrolled uint64     // the event that began it, or by which the object came back
	policy   uint32     // 0 for none
	noise    uint32     // the key that responses are drawn from; 0 for chance
	buyers   uint64     // how many hold a level of it
	bound    *event.Tag // the keyed hash of the truth it belongs to, if there is one
	// answered is what the question cost the object besides its levels: answers about it, and whatever was
	// destroyed when the object was forgotten.
	answered privacy.Epsilon
	since    uint64        // the event that began the current epoch, or destroyed what was before; 0 for the first
	closed   []closedEpoch // in order; empty if since is 0
	levels   []level       // of the current epoch, like all above but enrolled and policy
}

// closedEpoch is what a chain was until its object began a new epoch: about another value, and never drawn from again.
type closedEpoch struct {
	end      uint64 // the event that began the next
	answered privacy.Epsilon
	levels   []level
}

// spent returns the ε that an epoch has cost.
func (c closedEpoch) spent() privacy.Epsilon {
	return plus(chain{levels: c.levels}.current(), c.answered)
}

// bond is what ties a chain to its truth: a keyed hash, if there is one, which is of the epoch that began at an event.
type bond struct {
	tag   *event.Tag
	since uint64
}

func (c *chain) bond() bond { return bond{c.bound, c.since} }

// unused tells whether nothing has happened in the current epoch.
func (c *chain) unused() bool { return len(c.levels) == 0 && c.bound == nil && c.answered.IsZero() }

// during returns the levels of the epoch that an event belongs to.
func (c *chain) during(event uint64) chain {
	for _, one := range c.closed {
		if event < one.end {
			return chain{levels: one.levels}
		}
	}
	return *c
}

// level is a recorded response with the event that recorded it and the buyers who hold it.
type level struct {
	rrchain.LevelOf[event.Value]
	event  uint64
	buyers []uint32
}

func newLevel(epsilon privacy.Epsilon, response event.Value, ev uint64) level {
	return level{LevelOf: rrchain.LevelOf[event.Value]{Epsilon: epsilon, Response: response}, event: ev}
}

// current returns the ε of the highest level.
func (c chain) current() privacy.Epsilon {
	if len(c.levels) == 0 {
		return privacy.Epsilon{}
	}
	return c.levels[len(c.levels)-1].Epsilon
}

// findLevel returns the place of a level, or where it would stand.
func findLevel(levels []level, epsilon privacy.Epsilon) (place int, recorded bool) {
	return slices.BinarySearchFunc(levels, epsilon, func(l level, e privacy.Epsilon) int { return l.Epsilon.Compare(e) })
}

// at returns the level recorded at exactly this ε.
func (c chain) at(epsilon privacy.Epsilon) (level, bool) {
	i, recorded := findLevel(c.levels, epsilon)
	if !recorded {
		return level{}, false
	}
	return c.levels[i], true
}

func (l level) isHeldBy(buyer uint32) bool { return buyer != 0 && slices.Contains(l.buyers, buyer) }

// heldBy returns the highest ε at which a buyer holds a response, or 0.
func (c chain) heldBy(buyer uint32) privacy.Epsilon {
	for _, l := range slices.Backward(c.levels) {
		if l.isHeldBy(buyer) {
			return l.Epsilon
		}
	}
	return privacy.Epsilon{}
}

func (c chain) Encode() []byte {
	e := &wire.Encoder{}
	c.encodeTo(e)
	return e.Buf
}

func (c *chain) encodeTo(e *wire.Encoder) {
	e.Buf = wire.AppendNumbers(e.Buf, c.enrolled, uint64(c.policy), uint64(c.noise), c.buyers)
	event.EncodeTag(e, c.bound)
	e.Epsilon(c.answered)
	if e.Uvarint(c.since); c.since != 0 {
		e.Uvarint(uint64(len(c.closed)))
		for _, one := range c.closed {
			e.Uvarint(one.end)
			e.Epsilon(one.answered)
			encodeLevels(e, one.levels)
		}
	}
	encodeLevels(e, c.levels)
}

func encodeLevels(e *wire.Encoder, levels []level) {
	e.Uvarint(uint64(len(levels)))
	for i := range levels {
		l := &levels[i]
		encodeLevel(e, l)
		e.Uvarint(uint64(len(l.buyers)))
		for _, buyer := range l.buyers {
			e.Uvarint(uint64(buyer))
		}
	}
}

func decodeChain(payload []byte) (chain, error) { return new(levelPage).decodeChain(payload) }

// decodeChain decodes a chain. Its levels are put on the page, unless it is damaged.
func (p *levelPage) decodeChain(payload []byte) (c chain, err error) {
	d := wire.Decoder{Rest: payload}
	bound, levels := c.decodeHead(&d)
	if bound != nil {
		t := event.Tag(bound)
		c.bound = &t
	}
	before := *p
	c.levels = p.take(levels)
	for i := range c.levels {
		l := &c.levels[i]
		l.buyers = decodeBuyers(&d, decodeLevel(&d, l))
	}
	if err := d.Done(); err != nil {
		*p = before
		return chain{}, err
	}
	return c, nil
}

// decodeHead reads what stands before the levels of a chain, and how many levels there are. What the chain is bound
// to stays in the memory of the record.
func (c *chain) decodeHead(d *wire.Decoder) (bound []byte, levels int) {
	var n [5]uint64
	d.Uvarints(n[:])
	c.enrolled, c.policy, c.noise, c.buyers = n[0], d.In32(n[1]), d.In32(n[2]), n[3]
	switch n[4] {
	case 0:
	case 1:
		bound = d.Take(uint64(len(event.Tag{})))
	default:
		d.Fail("broken flag")
	}
	d.Uvarints(n[:2])
	c.answered = d.AsEpsilon(n[0])
	if c.since = n[1]; c.since != 0 {
		c.closed = decodeClosed(d)
	}
	return bound, d.Count(smallestLevel)
}

// smallestLevel is how many bytes a level has at least.
const smallestLevel = 4

func decodeClosed(d *wire.Decoder) []closedEpoch {
	const smallest = 3 // bytes of an epoch
	n := d.Count(smallest)
	if n == 0 {
		return nil
	}
	closed := make([]closedEpoch, n)
	for i := range closed {
		one := &closed[i]
		one.end, one.answered = d.Uvarint(), d.Epsilon()
		one.levels = make([]level, d.Count(smallestLevel))
		for i := range one.levels {
			l := &one.levels[i]
			l.buyers = decodeBuyers(d, decodeLevel(d, l))
		}
	}
	return closed
}

// spent returns the ε that the current epoch has cost the object: the highest level and the answers add up.
func (c chain) spent() privacy.Epsilon { return plus(c.current(), c.answered) }

// total returns the ε that the question has cost the object, in all epochs.
func (c chain) total() privacy.Epsilon {
	sum := c.spent()
	for _, one := range c.closed {
		sum = plus(sum, one.spent())
	}
	return sum
}

// answers is everything answered to one query about one panel, by rising ε.
type answers []answerLevel

// answerLevel is one answer.
type answerLevel struct {
	epsilon privacy.Epsilon
	event.Result
	event uint64
	began uint64 // the event of the fresh answer that it was raised or derived from, or its own
	// objects is the size of the panel it is about: that of a partial request may have become another by the
	// time of the next answer.
	objects uint64
}

func (l answerLevel) asScore() mechanism.Score {
	return mechanism.Score{Epsilon: l.epsilon, Value: l.Score}
}

// find returns the place of an answer, or where it would stand.
func (a answers) find(epsilon privacy.Epsilon) (place int, recorded bool) {
	return slices.BinarySearchFunc(a, epsilon, func(l answerLevel, e privacy.Epsilon) int { return l.epsilon.Compare(e) })
}

// below returns the highest answer below an ε that has the same beginning as another, or none.
func (a answers) below(epsilon privacy.Epsilon, other answerLevel) (answerLevel, bool) {
	for _, l := range slices.Backward(a) {
		if l.epsilon.Less(epsilon) && l.began == other.began {
			return l, true
		}
	}
	return answerLevel{}, false
}

// top returns the highest answer, or none.
func (a answers) top() answerLevel {
	if len(a) == 0 {
		return answerLevel{}
	}
	return a[len(a)-1]
}

// best returns the answer at an ε or, if there is none, the lowest above it.
func (a answers) best(epsilon privacy.Epsilon) (answerLevel, bool) {
	for _, l := range a {
		if !l.epsilon.Less(epsilon) {
			return l, true
		}
	}
	return answerLevel{}, false
}

func (a answers) Encode() []byte {
	e := &wire.Encoder{}
	e.Uvarint(uint64(len(a)))
	for _, l := range a {
		e.Epsilon(l.epsilon)
		event.EncodeResult(e, l.Result)
		e.Uvarint(l.event)
		e.Uvarint(l.began)
		e.Uvarint(l.objects)
	}
	return e.Buf
}

func decodeAnswers(payload []byte) (answers, error) {
	d := &wire.Decoder{Rest: payload}
	const smallest = 6 // bytes of an answer
	a := make(answers, d.Count(smallest))
	for i := range a {
		a[i] = answerLevel{d.Epsilon(), event.DecodeResult(d), d.Uvarint(), d.Uvarint(), d.Uvarint()}
	}
	return a, d.Done()
}

func encodeLevel(e *wire.Encoder, l *level) {
	if l.Response.IsUnary() {
		e.Epsilon(l.Epsilon)
		event.EncodeValue(e, l.Response)
		e.Uvarint(l.event)
		return
	}
	e.Buf = wire.AppendNumbers(e.Buf, uint64(l.Epsilon.Nano()), uint64(l.Response.Index), l.event)
}

// decodeLevel reads a level, and how many buyers hold it. They follow.
func decodeLevel(d *wire.Decoder, into *level) (buyers int) {
	var n [4]uint64
	d.Uvarints(n[:2])
	into.Epsilon, into.Response = d.AsEpsilon(n[0]), event.AsValue(d, n[1])
	d.Uvarints(n[2:])
	into.event = n[2]
	return d.Fits(n[3], 1)
}

// levelPage is memory for the levels of some chains, to be used again for others. Its zero value asks for new memory for
// each chain.
type levelPage struct {
	page []level
	used int
	most int // to how many levels the page may grow, if at all
}

// take returns memory for some levels. On a page there is room for one more behind them.
func (p *levelPage) take(n int) []level {
	if n >= len(p.page)-p.used && n < p.most && len(p.page) < p.most {
		const least, times = 256, 8
		p.page, p.used = make([]level, min(max(times*len(p.page), least, n+1), p.most)), 0 // what was taken keeps the former one
	}
	switch {
	case n < len(p.page)-p.used:
		taken := p.page[p.used : p.used+n : p.used+n+1]
		p.used += n + 1
		return taken
	case n == 0:
		return nil
	}
	return make([]level, n)
}

// clear makes the whole page free. What was taken must not be used any more.
func (p *levelPage) clear() { p.used = 0 }

// decodeBuyers reads so many buyers.
func decodeBuyers(d *wire.Decoder, n int) []uint32 {
	if n == 0 {
		return nil
	}
	buyers := make([]uint32, n)
	for i := range buyers {
		buyers[i] = d.Uvarint32()
	}
	return buyers
}

// request is what an idempotency key stands for: the digest of the request, and the events that
// settled it part by part.
type request struct {
	digest  [sha256.Size]byte
	done    bool
	through uint64 // objects enrolled by later events do not belong to it
	dealt   uint64 // how many of the objects that it names are dealt with, if it is not done
	settled []uint64
}

func (r request) Encode() []byte {
	e := &wire.Encoder{}
	r.encodeTo(e)
	return e.Buf
}

func (r request) encodeTo(e *wire.Encoder) {
	e.Raw(r.digest[:])
	e.Flag(r.done)
	e.Uvarint(r.through)
	e.Uvarint(r.dealt)
	e.Numbers(r.settled)
}

func decodeRequest(payload []byte) (request, error) {
	d := &wire.Decoder{Rest: payload}
	r := request{}
	d.Array(r.digest[:])
	r.done, r.through, r.dealt = d.Flag(), d.Uvarint(), d.Uvarint()
	r.settled = d.Numbers()
	return r, d.Done()
}

// noPolicy stands for an object enrolled without a policy: only its cap binds.
func noPolicy() policy.Policy { return policy.Fixed(privacy.MaxEpsilon()) }

// buyer is a customer of the market.
type buyer struct {
	name string
	sold uint64 // sales to it
	paid uint64 // for them, in minor units of the currency
}

func (b buyer) Encode() []byte {
	e := &wire.Encoder{}
	e.Text(b.name)
	e.Uvarint(b.sold)
	e.Uvarint(b.paid)
	return e.Buf
}

func decodeBuyer(payload []byte) (buyer, error) {
	d := &wire.Decoder{Rest: payload}
	b := buyer{name: d.Text(), sold: d.Uvarint(), paid: d.Uvarint()}
	return b, d.Done()
}

// saleStatus is how far a sale has come. It is stored as one byte.
type saleStatus uint8

const (
	saleReserved saleStatus = iota + 1
	saleSold
	saleCancelled
)

// sale is a sale or a reservation under its number.
type sale struct {
	status   saleStatus
	buyer    uint32
	question uint32
	epsilon  privacy.Epsilon
	objects  uint64
	price    uint64    // in all; of a reservation, what is reserved
	refused  uint64    // objects left out, whose events follow those of its objects
	event    uint64    // that began it; those of its objects follow it
	granted  uint64    // the event that reserved it, 0 without a reservation
	expires  time.Time // of a reservation, else zero
	promised uint64    // what was reserved for a sale that was a reservation before
}

// holds tells whether it is a reservation that holds at an instant.
func (r sale) holds(at time.Time) bool { return r.status == saleReserved && at.Before(r.expires) }

// holdsOn tells whether it is a reservation that holds something of an object. Whoever has withdrawn since it
// was granted is out of it, also when enrolled again.
func (r sale) holdsOn(o object, at time.Time) bool { return r.holds(at) && o.withdrawn < r.granted }

func (r sale) Encode() []byte {
	e := &wire.Encoder{}
	e.U8(uint8(r.status))
	e.U32(r.buyer)
	e.U32(r.question)
	e.Epsilon(r.epsilon)
	e.Uvarint(r.objects)
	e.Uvarint(r.price)
	e.Uvarint(r.refused)
	e.Uvarint(r.event)
	e.Uvarint(r.granted)
	e.Flag(!r.expires.IsZero())
	if !r.expires.IsZero() {
		e.Time(r.expires)
	}
	e.Uvarint(r.promised)
	return e.Buf
}

func decodeSale(payload []byte) (sale, error) {
	d := &wire.Decoder{Rest: payload}
	r := sale{status: saleStatus(d.U8()), buyer: d.U32(), question: d.U32(), epsilon: d.Epsilon(), objects: d.Uvarint(), price: d.Uvarint(), refused: d.Uvarint(), event: d.Uvarint(), granted: d.Uvarint()}
	if d.Flag() {
		r.expires = d.Time()
	}
	r.promised = d.Uvarint()
	if r.status < saleReserved || r.status > saleCancelled || r.objects == 0 || r.objects > MaxPanel {
		d.Fail("sale of %d objects with status %d", r.objects, r.status)
	}
	return r, d.Done()
}
