package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/batch"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/terms"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// Order is what a buyer asks for: the responses of objects to a question at one ε.
type Order struct {
	Buyer    string          // 1 to 256 bytes; the ledger does not know who it is; see [NameError]
	Question string          // by its name
	Epsilon  privacy.Epsilon // above 0
	Objects  []string        // the objects, at most MaxPanel (of questions in unary or finite encoding fewer), or
	All      bool            // everyone enrolled in the question by now, who has not withdrawn
}

// Offer is what a buyer gets and pays.
type Offer struct {
	Buyer    string          `json:"buyer"`    // by its name
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // of the responses
	Price    int64           `json:"price"`    // in all, in minor units of the currency
	Currency string          `json:"currency"` // the ledger's
	Objects  uint64          `json:"objects"`  // that answer
	// The objects by how their responses come about; together they are all. A buyer behind an address is quoted 0 of each kind.
	Draws        uint64 `json:"draws"`        // drawn from the truth and charged to the object
	Resales      uint64 `json:"resales"`      // recorded before
	Degradations uint64 `json:"degradations"` // derived from the lowest response
	Insertions   uint64 `json:"insertions"`   // derived from those below and above
	// Upgrades are the objects of which the buyer holds a lower level, and pays the difference.
	Upgrades uint64 `json:"upgrades"`
}

// Quote says what an order would cost and bring. It is a promise only together with a reservation;
// without one, a sale can be held to it by its ID.
type Quote struct {
	// ID stands for the buyer, the question, ε, every object with its price, and every object
	// refused with the reason; and for the policies that they are under. Equal IDs are equal offers. An order that is held to it is
	// the same offer, or refused; then [QuoteError] tells whether it was made under other terms.
	ID string `json:"id"`
	Offer
	Refused []Refusal `json:"refused"` // who would not answer, and why
	Event   uint64    `json:"event"`   // the last one that all this counts; 0 in a [QuoteError]
	// Instead says what the same objects could answer, if somebody is refused: see [RefusedError].
	Instead *Budget `json:"instead,omitempty"`
}

// Quote says what an order would cost now and whom it would refuse. It charges nobody, changes nothing
// and asks for no truth. The price of an object is that of its terms ([policy.Terms]) for holding ε,
// less what the buyer has paid for the object already, never less than nothing; and nothing if the buyer holds ε or more.
//
// Errors: [ErrInvalid], [ErrUnknown].
func (l *Ledger) Quote(ctx context.Context, o Order) (Quote, error) {
	t, err := l.newTrade(ctx, o)
	if err != nil {
		return Quote{}, err
	}
	t.quoting = true
	var q Quote
	err = l.engine.View(ctx, func(s *state.State) error {
		t.at = s.Clock
		if err := t.convene(s, s.Counters.Events, t.at, func(terms.Subject, *line) {}); err != nil {
			return err
		}
		q = t.quote()
		q.Event = s.Counters.Events
		return nil
	})
	if err != nil {
		return Quote{}, err
	}
	if len(q.Refused) > 0 {
		refused := batch.RefusalList{Listed: q.Refused}.Error(t.Question)
		_ = t.instead(ctx, refused)
		q.Instead = refused.Instead
	}
	return q, nil
}

// instead adds to the error of a refused order what would have been possible. A reservation cannot be carried out for less.
func (t *trade) instead(ctx context.Context, err error) error {
	err = callback.Tell(err)
	if t.Reserved != 0 {
		return err
	}
	return t.ledger.instead(ctx, err, t.Question, t.order.Buyer, t.order.Epsilon, t.names, t.order.All)
}

// trade is an order being looked at, for a quote, a reservation or a sale.
type trade struct {
	terms.Bid
	ledger  *Ledger
	order   Order
	key     string   // of the request; "" for a quote
	names   []string // the objects asked for, in order
	at      time.Time
	lines   []line
	refused []Refusal
	faults  rules.TruthFaults // of those refused, if truths were asked for
	// promised are, of a reservation that is carried out, the policies by whose prices the names were reserved, by number.
	promised []uint32
	quoting  bool // the ID of the quote is wanted, so:
	people   hash.Hash
	under    hash.Hash // people, with the policies that they are under
}

// line is one object of a trade. It is small, for there may be many: whoever needs more of the object reads it again.
type line struct {
	price   uint64
	at      uint32 // its place among the names
	value   uint32 // its response, once there is one: a value, or the place of a row of bits; see selling
	verdict event.Verdict
	method  event.Method // by which its response comes about
	upgrade bool         // the buyer holds a lower level of it
}

func (t *trade) asker() asker { return asker{t.key, t.order.Buyer} }

func (l *Ledger) newTrade(ctx context.Context, o Order) (*trade, error) {
	if err := names.Check("buyer", o.Buyer); err != nil {
		return nil, err
	}
	t := &trade{Bid: terms.Bid{Client: o.Buyer, Epsilon: o.Epsilon}, ledger: l, order: o}
	var err error
	if t.names, err = names.CheckAsked(o.Objects, o.All, MaxPanel); err != nil {
		return nil, err
	}
	if t.Question, err = l.findQuestion(ctx, o.Question); err != nil {
		return nil, err
	}
	return t, t.Question.CheckLevel(o.Epsilon)
}

// digest begins the canonical form of a request with the order.
func (t *trade) form(operation string) *event.Form {
	f := event.NewForm(operation)
	f.Field("Buyer").Text(t.order.Buyer)
	f.Field("Question").Text(t.order.Question)
	f.Field("Epsilon").Epsilon(t.order.Epsilon)
	f.Objects(t.names, t.order.All)
	return f
}

// convene finds out who is asked for, of an order for all those enrolled by an event, and says what the trade means for
// each of them at an instant. They are looked at part by part, while what there is of them is at hand; taken is as in
// assessPart.
func (t *trade) convene(s *state.State, through uint64, at time.Time, taken func(x terms.Subject, one *line)) error {
	p := batch.Panel{Names: t.names, All: t.order.All, Question: t.Question.Number, Through: through}
	if err := t.anew(s); err != nil {
		return err
	}
	most := mostWork / t.Question.Work()
	count := 0
	for last := false; !last && count <= MaxPanel; {
		behind := ""
		if count > 0 {
			behind = t.names[count-1]
		}
		some, end, err := p.After(s, behind, state.PartSize)
		if err != nil {
			return err
		}
		if p.All {
			t.names = append(roomFor(t.names[:count], len(some)), some...)
		}
		if last = end; count+len(some) <= most {
			err = t.assessPart(s, count, some, at, taken)
		}
		if count += len(some); err != nil {
			return err
		}
	}
	if err := batch.CheckPanel(t.Question, count); err != nil {
		return err
	}
	if count > most {
		return errs.Invalid("question %q: an order about %d objects; %d are possible at a time", t.Question.Name, count, most)
	}
	return nil
}

// anew begins to look at the objects.
func (t *trade) anew(s *state.State) (err error) {
	t.lines, t.refused = make([]line, 0, len(t.names)), nil
	if t.quoting {
		t.people, t.under = sha256.New(), sha256.New()
	}
	t.Buyer, _, err = s.BuyerNumber(t.order.Buyer)
	return err
}

// assessPart says what the trade means for the objects that stand at a place among the names. Each that is not refused is
// passed to taken, with the line that it gets.
func (t *trade) assessPart(s *state.State, from int, names []string, at time.Time, taken func(x terms.Subject, one *line)) error {
	t.lines = roomFor(t.lines, len(names))
	for i, name := range names {
		one, x, refusal, err := t.look(s, from+i, name, at)
		if t.quoting {
			t.notePerson(name, &x)
		}
		switch {
		case err != nil:
			return err
		case refusal != nil:
			t.refused = append(t.refused, *refusal)
		default:
			taken(x, &one)
			t.lines = append(t.lines, one)
		}
	}
	return nil
}

// roomFor makes room for more items of a list that may get many.
func roomFor[T any](list []T, more int) []T {
	if cap(list)-len(list) < more {
		list = slices.Grow(list, max(more, len(list)))
	}
	return list
}

// notePerson adds an object to those that the ID of a quote stands for.
func (t *trade) notePerson(name string, x *terms.Subject) {
	e := wire.Encoder{Buf: make([]byte, 0, 64)}
	e.Text(name)
	_, _ = t.people.Write(e.Buf) // it never fails
	e.Uvarint(uint64(x.Chain.Policy))
	_, _ = t.under.Write(e.Buf)
}

// look says what the trade means for one object, which stands at a place among the names, and at what price.
func (t *trade) look(s *state.State, place int, name string, at time.Time) (one line, x terms.Subject, refusal *Refusal, err error) {
	if x, refusal, err = t.ledger.rules.Subject(s, t.Question, name, t.order.Epsilon); err != nil || refusal != nil {
		return one, x, refusal, err
	}
	held := x.Chain.HeldBy(t.Buyer)
	if t.Reserved != 0 {
		at = s.Now // which is not before the reservation was granted, whatever the clock says now
	}
	ask := t.asking(&x, at)
	refusal, err = t.CheckSale(s, &x)
	if err == nil && refusal == nil {
		one.verdict, refusal, err = t.ledger.rules.Assess(s, &x, ask)
	}
	if err == nil && refusal != nil {
		err = t.ledger.rules.OrLess(s, &x, ask, t.Offer(s, &x), refusal)
	}
	if err != nil || refusal != nil {
		return one, x, refusal, err
	}
	one.at, one.method, one.upgrade = uint32(place), terms.MethodOf(x.Chain, t.order.Epsilon), !held.IsZero() && held.Less(t.order.Epsilon)
	one.price, err = t.due(s, place, &x)
	return one, x, nil, err
}

// due is the price of an object: by its terms, or by those that were in force when it was reserved.
func (t *trade) due(s *state.State, place int, x *terms.Subject) (price uint64, err error) {
	p := x.Policy
	if t.Reserved != 0 {
		if p, err = s.Policy(t.promised[place]); err != nil {
			return 0, err
		}
	}
	return terms.Due(p, &x.Chain, t.Buyer, t.order.Epsilon), nil
}

// asking is what the trade wants of an object at an instant.
func (t *trade) asking(x *terms.Subject, at time.Time) rules.Asking {
	return rules.Asking{Question: t.Question, Epsilon: t.order.Epsilon, At: at, Buyer: t.Buyer, Newcomer: x.Chain.HeldBy(t.Buyer).IsZero(), Sale: t.Reserved}
}

// total returns the price of all lines.
func (t *trade) total() (sum uint64) {
	for _, one := range t.lines {
		sum += one.price // at most MaxPanel times the largest price there is, 10¹²
	}
	return sum
}

// tally counts the lines by how their responses come about.
func (t *trade) tally() (n event.SaleTally) {
	for _, one := range t.lines {
		switch one.method {
		case event.MethodRaise:
			n.Draws++
		case event.MethodResale:
			n.Resales++
		case event.MethodDegrade:
			n.Degradations++
		case event.MethodInsert:
			n.Insertions++
		}
		if one.upgrade {
			n.Upgrades++
		}
	}
	return n
}

func (t *trade) quote() Quote {
	about := event.Deal{Epsilon: t.order.Epsilon, Price: t.total(), Objects: uint64(len(t.lines))}
	o := t.ledger.offer(about, t.tally())
	o.Buyer, o.Question = t.order.Buyer, t.order.Question
	return Quote{ID: t.id(), Offer: o, Refused: slices.Clone(t.refused)}
}

// offer puts a deal in words, without its names.
func (l *Ledger) offer(d event.Deal, n event.SaleTally) Offer {
	return Offer{
		Epsilon: d.Epsilon, Price: int64(d.Price), Currency: l.prover.About.Currency, Objects: d.Objects,
		Draws: n.Draws, Resales: n.Resales, Degradations: n.Degradations, Insertions: n.Insertions, Upgrades: n.Upgrades,
	}
}

// id is the identity of a quote: of what the buyer would get and pay, of whom, and under which policies.
func (t *trade) id() string {
	sum := sha256.New()
	e := wire.NewDigest("quote")
	more := func() {
		sum.Write(e.Buf)
		e.Buf = e.Buf[:0]
	}
	e.Raw(t.ledger.prover.About.ID[:])
	e.Text(t.order.Buyer)
	e.U32(t.Question.Number)
	e.Epsilon(t.order.Epsilon)
	e.Uvarint(uint64(len(t.lines)))
	for _, one := range t.lines {
		e.Text(t.names[one.at])
		e.Uvarint(one.price)
		more()
	}
	for _, refusal := range t.refused {
		e.Text(refusal.Object)
		e.Text(string(refusal.Reason))
		more()
	}
	more()
	return hex.EncodeToString(slices.Concat(sum.Sum(nil)[:offerBytes], t.people.Sum(nil)[:peopleBytes], t.under.Sum(nil)[:termsBytes]))
}

// The parts of the ID of a quote, in bytes: what is offered, of whom, and under which policies. A part is a hash.
const (
	offerBytes  = 16
	peopleBytes = 4
	termsBytes  = 8
)

// offerOf is the part of the ID of a quote that says what is offered.
func offerOf(id string) string { return id[:min(len(id), 2*offerBytes)] }

// underOtherTerms tells whether one quote is about the same people as another, under other policies.
func underOtherTerms(id, other string) bool {
	const people, all = 2 * offerBytes, 2 * (offerBytes + peopleBytes + termsBytes)
	const terms = people + 2*peopleBytes
	return len(id) == all && len(other) == all && id[people:terms] == other[people:terms] && id[terms:] != other[terms:]
}

// untold returns those refused because the host has no truth of them.
func (t *trade) untold() (missing []Refusal) {
	for _, refusal := range t.refused {
		if refusal.Reason == NoTruth {
			missing = append(missing, refusal)
		}
	}
	return missing
}

// limits are what a buyer agrees to.
type limits struct {
	quoteID  string
	maxPrice *int64
	partial  bool
}

// add adds the fields of the limits to the form of a request.
func (m limits) add(f *event.Form) {
	if f.Field("QuoteID").Flag(m.quoteID != ""); m.quoteID != "" {
		f.ObjectField("QuoteID").Text(m.quoteID) // it has a digest of the objects
	}
	price := f.Field("MaxPrice")
	if price.Flag(m.maxPrice != nil); m.maxPrice != nil {
		price.U64(uint64(*m.maxPrice))
	}
	f.Field("Partial").Flag(m.partial)
}

func (m limits) check() error {
	if m.maxPrice != nil && *m.maxPrice < 0 {
		return errs.Invalid("a highest price of %d", *m.maxPrice)
	}
	if len(m.quoteID) > names.MaxBytes {
		return errs.Invalid("a quote ID of %d bytes", len(m.quoteID))
	}
	return nil
}

// accept returns why a trade is not one the buyer agrees to, or nil.
func (t *trade) accept(m limits) error {
	if len(t.refused) > 0 && !m.partial || len(t.lines) == 0 {
		return t.ledger.refuse(t.asker(), t.Question, t.order.Epsilon, batch.RefusalList{Listed: t.refused}, &t.faults)
	}
	if untold := t.untold(); m.quoteID != "" && len(untold) > 0 {
		return t.ledger.refuse(t.asker(), t.Question, t.order.Epsilon, batch.RefusalList{Listed: untold}, &t.faults) // another quote would not help
	}
	if m.quoteID == "" && m.maxPrice == nil {
		return nil
	}
	q := t.quote()
	switch {
	case m.maxPrice != nil && *m.maxPrice < q.Price:
		return &QuoteError{Quote: q, Expected: m.quoteID, TermsChanged: underOtherTerms(m.quoteID, q.ID), MaxPrice: m.maxPrice, Remedy: vocabulary.RemedyPaying}
	case m.quoteID != "" && offerOf(m.quoteID) != offerOf(q.ID):
		return &QuoteError{Quote: q, Expected: m.quoteID, TermsChanged: underOtherTerms(m.quoteID, q.ID), MaxPrice: m.maxPrice, Remedy: vocabulary.RemedyQuoting}
	}
	return nil
}
