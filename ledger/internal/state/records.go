package state

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/budget"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Counters summarize the log: how many events there are, the root of their tree between transactions, the time of the last,
// and what they made.
type Counters struct {
	Position
	Last      time.Time
	Questions uint32
	Policies  uint32
	Objects   uint64
	Chains    uint64
	Buyers    uint32
	Sales     uint64 // numbers given to sales and reservations
	Sold      uint64 // sales carried out
	Revenue   uint64 // what they brought, in minor units of the currency
	Open      Opened
	Unsettled uint64 // the sale or reservation whose settled event is to come, with those of who is refused before it
	Refused   uint64 // refused events that no settled event counts yet
	Charges   Charges
	Answer    Answering
	Underway  Underway
	Erased    Erasure
	Noises    uint32 // noise keys
}

// Charges are those of an answer whose event is still to come. They are empty between transactions.
type Charges struct {
	Objects  uint64
	Question uint32          // 0 if all their events are erased
	Epsilon  privacy.Epsilon // likewise
	// Renewed is the last event by which one of those charged was forgotten, or began an epoch, or 0.
	Renewed uint64
	Erased  uint64         // of the charges, whose events are erased
	Last    string         // the last object that is not: they come in order
	Panel   event.PanelSum // of these objects
}

func (n Charges) encode(e *wire.Encoder) {
	e.Uvarint(n.Objects)
	e.U32(n.Question)
	e.Epsilon(n.Epsilon)
	e.Uvarint(n.Renewed)
	e.Uvarint(n.Erased)
	e.Text(n.Last)
	e.Raw(n.Panel[:])
}

// Answering is an answer whose request is still to be settled. It is empty between transactions.
type Answering struct {
	Event uint64 // that recorded it; 0: none
	Base  uint64 // the event of the answer that it was derived from; 0 if it was drawn from truths
	Left  Leaves // out of it
	// What it is about, and costs each object, if it was drawn from truths.
	Question      uint32
	Epsilon, Cost privacy.Epsilon
}

// Leaves is what is known of whom an answer leaves out.
type Leaves uint8

const (
	LeavesAnybody  Leaves = iota // some of its charges are erased
	LeavesNobody                 // it is about those who were charged, and they are all
	LeavesSomebody               // those charged and those refused should be who was asked for
)

// CheckWhole refuses the end of a transaction in the midst of what belongs together.
func (c Counters) CheckWhole() error {
	if c.Open != (Opened{}) || c.Unsettled != 0 || c.Refused != 0 || c.Charges != (Charges{}) || c.Answer != (Answering{}) || c.Underway != (Underway{}) || c.Erased != (Erasure{}) {
		return errs.Corrupt(nil, "half of sale %d, %d refusals, %d charges, %d events of a request or %d erased events, which cost %d nano-nats",
			c.Open.Sale+c.Unsettled, c.Refused, c.Charges.Objects, c.Underway.Events, c.Erased.Events, c.Erased.Spent)
	}
	return nil
}

// Erasure sums up erased events until the forgotten event comes that says what they were part of. In a
// ledger that erases as it forgets it is always empty; it fills up when an erased log is folded.
type Erasure struct {
	Events   uint64
	Mentions uint64 // of them that only named somebody: refusals and settled events
	Earned   uint64
	Spent    uint64 // nano-nats
}

// Opened is the sale or reservation whose objects are still to come, and what they must add up to. It is
// empty between transactions.
type Opened struct {
	Sale    uint64
	Objects uint64
	Price   uint64
	Tally   event.SaleTally
	Erased  uint64 // objects whose events are erased
	Last    string // the last object: they come in order
	Held    uint64 // of a sale that was reserved, the event of the object last found in the reservation, or 0
}

func (c Counters) Encode() []byte {
	e := &wire.Encoder{}
	e.Uvarint(c.Events)
	e.Raw(c.Root[:])
	e.Time(c.Last)
	e.U32(c.Noises)
	e.U32(c.Questions)
	e.U32(c.Policies)
	e.Uvarint(c.Objects)
	e.Uvarint(c.Chains)
	e.U32(c.Buyers)
	e.Uvarint(c.Sales)
	e.Uvarint(c.Sold)
	e.Uvarint(c.Revenue)
	e.Uvarint(c.Unsettled)
	e.Uvarint(c.Refused)
	if e.Flag(c.Charges != (Charges{})); c.Charges != (Charges{}) {
		c.Charges.encode(e)
	}
	e.Uvarint(c.Answer.Event)
	e.Uvarint(c.Answer.Base)
	e.U8(uint8(c.Answer.Left))
	e.U32(c.Answer.Question)
	e.Epsilon(c.Answer.Epsilon)
	e.Epsilon(c.Answer.Cost)
	if e.Flag(c.Underway != (Underway{})); c.Underway != (Underway{}) {
		c.Underway.encode(e)
	}
	e.Uvarint(c.Erased.Events)
	e.Uvarint(c.Erased.Mentions)
	e.Uvarint(c.Erased.Earned)
	e.Uvarint(c.Erased.Spent)
	e.Uvarint(c.Open.Sale)
	if c.Open.Sale != 0 {
		e.Uvarint(c.Open.Objects)
		e.Uvarint(c.Open.Erased)
		e.Uvarint(c.Open.Price)
		c.Open.Tally.Encode(e)
		e.Text(c.Open.Last)
		e.Uvarint(c.Open.Held)
	}
	return e.Buf
}

func DecodeCounters(payload []byte) (Counters, error) {
	d := &wire.Decoder{Rest: payload}
	c := Counters{Position: Position{Events: d.Uvarint()}}
	d.Array(c.Root[:])
	c.Last, c.Noises, c.Questions, c.Policies, c.Objects, c.Chains = d.Time(), d.U32(), d.U32(), d.U32(), d.Uvarint(), d.Uvarint()
	c.Buyers, c.Sales, c.Sold, c.Revenue = d.U32(), d.Uvarint(), d.Uvarint(), d.Uvarint()
	c.Unsettled, c.Refused = d.Uvarint(), d.Uvarint()
	if d.Flag() {
		c.Charges = Charges{Objects: d.Uvarint(), Question: d.U32(), Epsilon: d.Epsilon(), Renewed: d.Uvarint(), Erased: d.Uvarint(), Last: d.Text()}
		d.Array(c.Charges.Panel[:])
	}
	c.Answer = Answering{d.Uvarint(), d.Uvarint(), Leaves(d.U8()), d.U32(), d.Epsilon(), d.Epsilon()}
	if d.Flag() {
		c.Underway = decodeUnderway(d)
	}
	c.Erased = Erasure{d.Uvarint(), d.Uvarint(), d.Uvarint(), d.Uvarint()}
	if c.Open.Sale = d.Uvarint(); c.Open.Sale != 0 {
		c.Open.Objects, c.Open.Erased, c.Open.Price, c.Open.Tally, c.Open.Last, c.Open.Held = d.Uvarint(), d.Uvarint(), d.Uvarint(), event.DecodeSaleTally(d), d.Text(), d.Uvarint()
	}
	return c, d.Done()
}

// Object is the budget of one object.
type Object struct {
	Cap    privacy.Epsilon
	Spent  privacy.Epsilon
	Chains uint64
	// Withdrawn is the event by which the object last withdrew, or 0. What it enrolled in later counts.
	Withdrawn uint64
	Forgotten uint64 // the event that last destroyed what was released of it, or 0
	Earned    uint64 // by sales, in minor units of the currency
	Links
	Held []uint64 // reservations that may hold some of its budget, by rising number
}

// Withdrew tells whether the object has withdrawn since it was enrolled in a chain.
func (o Object) Withdrew(c Chain) bool { return o.Withdrawn > c.Enrolled }

func (o Object) Encode() []byte {
	e := &wire.Encoder{}
	o.encodeTo(e)
	return e.Buf
}

func (o *Object) encodeTo(e *wire.Encoder) {
	e.Buf = wire.AppendNumbers(e.Buf, uint64(o.Cap.Nano()), uint64(o.Spent.Nano()), o.Chains, o.Withdrawn, o.Forgotten, o.Earned,
		o.Latest, o.Events, o.Settled, o.Settles)
	e.Numbers(o.Held)
}

func DecodeObject(payload []byte) (o Object, err error) {
	d := wire.Decoder{Rest: payload}
	var n [10]uint64
	d.Uvarints(n[:])
	o.Cap, o.Spent = d.AsEpsilon(n[0]), d.AsEpsilon(n[1])
	o.Chains, o.Withdrawn, o.Forgotten, o.Earned = n[2], n[3], n[4], n[5]
	o.Links = Links{n[6], n[7], n[8], n[9]}
	o.Held = d.Numbers()
	return o, d.Done()
}

// Links lead to what the log has about an object. Events that say something of it, and settled events that only
// name it (see settled.object), are linked apart: a statement lists the first.
type Links struct {
	Latest  uint64 // the last event about it that is not destroyed, or 0
	Events  uint64 // how many there are
	Settled uint64 // the last settled event that names it, likewise
	Settles uint64 // how many there are
}

func (l Links) encode(e *wire.Encoder) {
	for _, n := range []uint64{l.Latest, l.Events, l.Settled, l.Settles} {
		e.Uvarint(n)
	}
}

// Total is how many events name the object.
func (l Links) Total() uint64 { return l.Events + l.Settles }

func decodeLinks(d *wire.Decoder) Links {
	return Links{d.Uvarint(), d.Uvarint(), d.Uvarint(), d.Uvarint()}
}

// Link makes an event the last one of its sort.
func (s *State) Link(l *Links, ev uint64) {
	s.Linked.Previous, l.Latest = l.Latest, ev
	l.Events++
}

func (s *State) LinkSettled(l *Links, ev uint64) {
	s.Linked.Previous, l.Settled = l.Settled, ev
	l.Settles++
}

// Stranger is somebody whom requests named, and refused, and who was never enrolled.
type Stranger struct{ Links }

func (x Stranger) Encode() []byte {
	e := &wire.Encoder{}
	x.Links.encode(e)
	return e.Buf
}

func DecodeStranger(payload []byte) (Stranger, error) {
	d := &wire.Decoder{Rest: payload}
	x := Stranger{decodeLinks(d)}
	return x, d.Done()
}

// Chain is everything released of one object and question.
type Chain struct {
	Enrolled uint64     // the event that began it, or by which the object came back
	Policy   uint32     // 0 for none
	Noise    uint32     // the key that responses are drawn from; 0 for chance
	Buyers   uint64     // how many hold a level of it
	Bound    *event.Tag // the keyed hash of the truth it belongs to, if there is one
	// Answered is what the question cost the object besides its levels: answers about it, and whatever was
	// destroyed when the object was forgotten.
	Answered privacy.Epsilon
	Since    uint64        // the event that began the current epoch, or destroyed what was before; 0 for the first
	Closed   []ClosedEpoch // in order; empty if since is 0
	Levels   []Level       // of the current epoch, like all above but enrolled and policy
}

// ClosedEpoch is what a chain was until its object began a new epoch: about another value, and never drawn from again.
type ClosedEpoch struct {
	End      uint64 // the event that began the next
	Answered privacy.Epsilon
	Levels   []Level
}

// spent returns the ε that an epoch has cost.
func (c ClosedEpoch) spent() privacy.Epsilon {
	return budget.Plus(Chain{Levels: c.Levels}.Current(), c.Answered)
}

// Bond is what ties a chain to its truth: a keyed hash, if there is one, which is of the epoch that began at an event.
type Bond struct {
	Tag   *event.Tag
	Since uint64
}

func (c *Chain) Bond() Bond { return Bond{c.Bound, c.Since} }

// Unused tells whether nothing has happened in the current epoch.
func (c *Chain) Unused() bool { return len(c.Levels) == 0 && c.Bound == nil && c.Answered.IsZero() }

// During returns the levels of the epoch that an event belongs to.
func (c *Chain) During(event uint64) Chain {
	for _, one := range c.Closed {
		if event < one.End {
			return Chain{Levels: one.Levels}
		}
	}
	return *c
}

// Level is a recorded response with the event that recorded it and the buyers who hold it.
type Level struct {
	rrchain.LevelOf[event.Value]
	Event  uint64
	Buyers []uint32
}

func NewLevel(epsilon privacy.Epsilon, response event.Value, ev uint64) Level {
	return Level{LevelOf: rrchain.LevelOf[event.Value]{Epsilon: epsilon, Response: response}, Event: ev}
}

// Current returns the ε of the highest level.
func (c Chain) Current() privacy.Epsilon {
	if len(c.Levels) == 0 {
		return privacy.Epsilon{}
	}
	return c.Levels[len(c.Levels)-1].Epsilon
}

// FindLevel returns the place of a level, or where it would stand.
func FindLevel(levels []Level, epsilon privacy.Epsilon) (place int, recorded bool) {
	return slices.BinarySearchFunc(levels, epsilon, func(l Level, e privacy.Epsilon) int { return l.Epsilon.Compare(e) })
}

// At returns the level recorded at exactly this ε.
func (c Chain) At(epsilon privacy.Epsilon) (Level, bool) {
	i, recorded := FindLevel(c.Levels, epsilon)
	if !recorded {
		return Level{}, false
	}
	return c.Levels[i], true
}

func (l Level) IsHeldBy(buyer uint32) bool { return buyer != 0 && slices.Contains(l.Buyers, buyer) }

// HeldBy returns the highest ε at which a buyer holds a response, or 0.
func (c Chain) HeldBy(buyer uint32) privacy.Epsilon {
	for _, l := range slices.Backward(c.Levels) {
		if l.IsHeldBy(buyer) {
			return l.Epsilon
		}
	}
	return privacy.Epsilon{}
}

func (c Chain) Encode() []byte {
	e := &wire.Encoder{}
	c.encodeTo(e)
	return e.Buf
}

func (c *Chain) encodeTo(e *wire.Encoder) {
	e.Buf = wire.AppendNumbers(e.Buf, c.Enrolled, uint64(c.Policy), uint64(c.Noise), c.Buyers)
	event.EncodeTag(e, c.Bound)
	e.Epsilon(c.Answered)
	if e.Uvarint(c.Since); c.Since != 0 {
		e.Uvarint(uint64(len(c.Closed)))
		for _, one := range c.Closed {
			e.Uvarint(one.End)
			e.Epsilon(one.Answered)
			encodeLevels(e, one.Levels)
		}
	}
	encodeLevels(e, c.Levels)
}

func encodeLevels(e *wire.Encoder, levels []Level) {
	e.Uvarint(uint64(len(levels)))
	for i := range levels {
		l := &levels[i]
		encodeLevel(e, l)
		e.Uvarint(uint64(len(l.Buyers)))
		for _, buyer := range l.Buyers {
			e.Uvarint(uint64(buyer))
		}
	}
}

func DecodeChain(payload []byte) (Chain, error) { return new(LevelPage).DecodeChain(payload) }

// DecodeChain decodes a chain. Its levels are put on the page, unless it is damaged.
func (p *LevelPage) DecodeChain(payload []byte) (c Chain, err error) {
	d := wire.Decoder{Rest: payload}
	bound, levels := c.DecodeHead(&d)
	if bound != nil {
		t := event.Tag(bound)
		c.Bound = &t
	}
	before := *p
	c.Levels = p.take(levels)
	for i := range c.Levels {
		l := &c.Levels[i]
		l.Buyers = DecodeBuyers(&d, DecodeLevel(&d, l))
	}
	if err := d.Done(); err != nil {
		*p = before
		return Chain{}, err
	}
	return c, nil
}

// DecodeHead reads what stands before the levels of a chain, and how many levels there are. What the chain is bound
// to stays in the memory of the record.
func (c *Chain) DecodeHead(d *wire.Decoder) (bound []byte, levels int) {
	var n [5]uint64
	d.Uvarints(n[:])
	c.Enrolled, c.Policy, c.Noise, c.Buyers = n[0], d.In32(n[1]), d.In32(n[2]), n[3]
	switch n[4] {
	case 0:
	case 1:
		bound = d.Take(uint64(len(event.Tag{})))
	default:
		d.Fail("broken flag")
	}
	d.Uvarints(n[:2])
	c.Answered = d.AsEpsilon(n[0])
	if c.Since = n[1]; c.Since != 0 {
		c.Closed = decodeClosed(d)
	}
	return bound, d.Count(smallestLevel)
}

// smallestLevel is how many bytes a level has at least.
const smallestLevel = 4

func decodeClosed(d *wire.Decoder) []ClosedEpoch {
	const smallest = 3 // bytes of an epoch
	n := d.Count(smallest)
	if n == 0 {
		return nil
	}
	closed := make([]ClosedEpoch, n)
	for i := range closed {
		one := &closed[i]
		one.End, one.Answered = d.Uvarint(), d.Epsilon()
		one.Levels = make([]Level, d.Count(smallestLevel))
		for i := range one.Levels {
			l := &one.Levels[i]
			l.Buyers = DecodeBuyers(d, DecodeLevel(d, l))
		}
	}
	return closed
}

// Spent returns the ε that the current epoch has cost the object: the highest level and the answers add up.
func (c Chain) Spent() privacy.Epsilon { return budget.Plus(c.Current(), c.Answered) }

// Total returns the ε that the question has cost the object, in all epochs.
func (c Chain) Total() privacy.Epsilon {
	sum := c.Spent()
	for _, one := range c.Closed {
		sum = budget.Plus(sum, one.spent())
	}
	return sum
}

// Answers is everything answered to one query about one panel, by rising ε.
type Answers []AnswerLevel

// AnswerLevel is one answer.
type AnswerLevel struct {
	Epsilon privacy.Epsilon
	event.Result
	Event uint64
	Began uint64 // the event of the fresh answer that it was raised or derived from, or its own
	// Objects is the size of the panel it is about: that of a partial request may have become another by the
	// time of the next answer.
	Objects uint64
}

func (l AnswerLevel) AsScore() mechanism.Score {
	return mechanism.Score{Epsilon: l.Epsilon, Value: l.Score}
}

// Find returns the place of an answer, or where it would stand.
func (a Answers) Find(epsilon privacy.Epsilon) (place int, recorded bool) {
	return slices.BinarySearchFunc(a, epsilon, func(l AnswerLevel, e privacy.Epsilon) int { return l.Epsilon.Compare(e) })
}

// Below returns the highest answer below an ε that has the same beginning as another, or none.
func (a Answers) Below(epsilon privacy.Epsilon, other AnswerLevel) (AnswerLevel, bool) {
	for _, l := range slices.Backward(a) {
		if l.Epsilon.Less(epsilon) && l.Began == other.Began {
			return l, true
		}
	}
	return AnswerLevel{}, false
}

// Top returns the highest answer, or none.
func (a Answers) Top() AnswerLevel {
	if len(a) == 0 {
		return AnswerLevel{}
	}
	return a[len(a)-1]
}

// Best returns the answer at an ε or, if there is none, the lowest above it.
func (a Answers) Best(epsilon privacy.Epsilon) (AnswerLevel, bool) {
	for _, l := range a {
		if !l.Epsilon.Less(epsilon) {
			return l, true
		}
	}
	return AnswerLevel{}, false
}

func (a Answers) Encode() []byte {
	e := &wire.Encoder{}
	e.Uvarint(uint64(len(a)))
	for _, l := range a {
		e.Epsilon(l.Epsilon)
		event.EncodeResult(e, l.Result)
		e.Uvarint(l.Event)
		e.Uvarint(l.Began)
		e.Uvarint(l.Objects)
	}
	return e.Buf
}

func DecodeAnswers(payload []byte) (Answers, error) {
	d := &wire.Decoder{Rest: payload}
	const smallest = 6 // bytes of an answer
	a := make(Answers, d.Count(smallest))
	for i := range a {
		a[i] = AnswerLevel{d.Epsilon(), event.DecodeResult(d), d.Uvarint(), d.Uvarint(), d.Uvarint()}
	}
	return a, d.Done()
}

func encodeLevel(e *wire.Encoder, l *Level) {
	if l.Response.IsUnary() {
		e.Epsilon(l.Epsilon)
		event.EncodeValue(e, l.Response)
		e.Uvarint(l.Event)
		return
	}
	e.Buf = wire.AppendNumbers(e.Buf, uint64(l.Epsilon.Nano()), uint64(l.Response.Index), l.Event)
}

// DecodeLevel reads a level, and how many buyers hold it. They follow.
func DecodeLevel(d *wire.Decoder, into *Level) (buyers int) {
	var n [4]uint64
	d.Uvarints(n[:2])
	into.Epsilon, into.Response = d.AsEpsilon(n[0]), event.AsValue(d, n[1])
	d.Uvarints(n[2:])
	into.Event = n[2]
	return d.Fits(n[3], 1)
}

// LevelPage is memory for the levels of some chains, to be used again for others. Its zero value asks for new memory for
// each chain.
type LevelPage struct {
	Page []Level
	Used int
	most int // to how many levels the page may grow, if at all
}

// take returns memory for some levels. On a page there is room for one more behind them.
func (p *LevelPage) take(n int) []Level {
	if n >= len(p.Page)-p.Used && n < p.most && len(p.Page) < p.most {
		const least, times = 256, 8
		p.Page, p.Used = make([]Level, min(max(times*len(p.Page), least, n+1), p.most)), 0 // what was taken keeps the former one
	}
	switch {
	case n < len(p.Page)-p.Used:
		taken := p.Page[p.Used : p.Used+n : p.Used+n+1]
		p.Used += n + 1
		return taken
	case n == 0:
		return nil
	}
	return make([]Level, n)
}

// Clear makes the whole page free. What was taken must not be used any more.
func (p *LevelPage) Clear() { p.Used = 0 }

// DecodeBuyers reads so many buyers.
func DecodeBuyers(d *wire.Decoder, n int) []uint32 {
	if n == 0 {
		return nil
	}
	buyers := make([]uint32, n)
	for i := range buyers {
		buyers[i] = d.Uvarint32()
	}
	return buyers
}

// Request is what an idempotency key stands for: the digest of the request, and the events that
// settled it part by part.
type Request struct {
	Digest  [sha256.Size]byte
	Done    bool
	Through uint64 // objects enrolled by later events do not belong to it
	Dealt   uint64 // how many of the objects that it names are dealt with, if it is not done
	Settled []uint64
}

func (r Request) Encode() []byte {
	e := &wire.Encoder{}
	r.encodeTo(e)
	return e.Buf
}

func (r Request) encodeTo(e *wire.Encoder) {
	e.Raw(r.Digest[:])
	e.Flag(r.Done)
	e.Uvarint(r.Through)
	e.Uvarint(r.Dealt)
	e.Numbers(r.Settled)
}

func DecodeRequest(payload []byte) (Request, error) {
	d := &wire.Decoder{Rest: payload}
	r := Request{}
	d.Array(r.Digest[:])
	r.Done, r.Through, r.Dealt = d.Flag(), d.Uvarint(), d.Uvarint()
	r.Settled = d.Numbers()
	return r, d.Done()
}

// noPolicy stands for an object enrolled without a policy: only its cap binds.
func noPolicy() policy.Policy { return policy.Fixed(privacy.MaxEpsilon()) }

// Buyer is a customer of the market.
type Buyer struct {
	Name string
	Sold uint64 // sales to it
	Paid uint64 // for them, in minor units of the currency
}

func (b Buyer) Encode() []byte {
	e := &wire.Encoder{}
	e.Text(b.Name)
	e.Uvarint(b.Sold)
	e.Uvarint(b.Paid)
	return e.Buf
}

func DecodeBuyer(payload []byte) (Buyer, error) {
	d := &wire.Decoder{Rest: payload}
	b := Buyer{Name: d.Text(), Sold: d.Uvarint(), Paid: d.Uvarint()}
	return b, d.Done()
}

// SaleStatus is how far a sale has come. It is stored as one byte.
type SaleStatus uint8

const (
	SaleReserved SaleStatus = iota + 1
	SaleSold
	SaleCancelled
)

// Sale is a sale or a reservation under its number.
type Sale struct {
	Status   SaleStatus
	Buyer    uint32
	Question uint32
	Epsilon  privacy.Epsilon
	Objects  uint64
	Price    uint64    // in all; of a reservation, what is reserved
	Refused  uint64    // objects left out, whose events follow those of its objects
	Event    uint64    // that began it; those of its objects follow it
	Granted  uint64    // the event that reserved it, 0 without a reservation
	Expires  time.Time // of a reservation, else zero
	Promised uint64    // what was reserved for a sale that was a reservation before
}

// Holds tells whether it is a reservation that holds at an instant.
func (r Sale) Holds(at time.Time) bool { return r.Status == SaleReserved && at.Before(r.Expires) }

// HoldsOn tells whether it is a reservation that holds something of an object. Whoever has withdrawn since it
// was granted is out of it, also when enrolled again.
func (r Sale) HoldsOn(o Object, at time.Time) bool { return r.Holds(at) && o.Withdrawn < r.Granted }

func (r Sale) Encode() []byte {
	e := &wire.Encoder{}
	e.U8(uint8(r.Status))
	e.U32(r.Buyer)
	e.U32(r.Question)
	e.Epsilon(r.Epsilon)
	e.Uvarint(r.Objects)
	e.Uvarint(r.Price)
	e.Uvarint(r.Refused)
	e.Uvarint(r.Event)
	e.Uvarint(r.Granted)
	e.Flag(!r.Expires.IsZero())
	if !r.Expires.IsZero() {
		e.Time(r.Expires)
	}
	e.Uvarint(r.Promised)
	return e.Buf
}

func DecodeSale(payload []byte) (Sale, error) {
	d := &wire.Decoder{Rest: payload}
	r := Sale{Status: SaleStatus(d.U8()), Buyer: d.U32(), Question: d.U32(), Epsilon: d.Epsilon(), Objects: d.Uvarint(), Price: d.Uvarint(), Refused: d.Uvarint(), Event: d.Uvarint(), Granted: d.Uvarint()}
	if d.Flag() {
		r.Expires = d.Time()
	}
	r.Promised = d.Uvarint()
	if r.Status < SaleReserved || r.Status > SaleCancelled || r.Objects == 0 || r.Objects > vocabulary.MaxPanel {
		d.Fail("sale of %d objects with status %d", r.Objects, r.Status)
	}
	return r, d.Done()
}
