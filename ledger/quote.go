package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// Order is what a buyer asks for: the responses of objects to a question at one ε.
type Order struct {
	// Buyer: 1 to 256 bytes; the ledger does not know who it is; see [NameError]
	Buyer    string          `json:"buyer"`
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // above 0
	// Objects: the objects, at most MaxPanel (of questions in unary or finite encoding fewer), or
	Objects []string `json:"objects,omitzero"`
	All     bool     `json:"all,omitempty"` // everyone enrolled in the question by now, who has not withdrawn
	// StopAtRefusal ends the order at the first object that is refused, unless it is sold in part: nothing is computed about
	// the others, nor what would be possible instead. It is for buyers who may not see refusals, and no part of what a key stands for.
	StopAtRefusal bool `json:"stop_at_refusal,omitempty"`
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
	// refused; and for the policies that they are under. Equal IDs are equal offers. An order that is held to it is
	// the same offer, or refused; then [QuoteError] tells whether it was made under other terms.
	ID string `json:"id"`
	Offer
	// Refused are the objects that would not answer, and why: the first [vocabulary.MaxListed] of them. With
	// [Order.StopAtRefusal] it is the first alone, and the quote has neither ID nor price.
	Refused  []Refusal    `json:"refused"`
	Unlisted int          `json:"unlisted,omitempty"` // how many more
	Sums     []RefusalSum `json:"sums,omitempty"`     // all of them, by reason
	Event    uint64       `json:"event"`              // the last one that all this counts; 0 in a [QuoteError]
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
	q, err := t.quoteNow(ctx)
	if err != nil || t.refused.Count() == 0 {
		return q, err
	}
	refused := t.refused.Error(t.Question)
	_ = t.instead(ctx, refused)
	if q.Instead = refused.Instead; ctx.Err() != nil {
		return Quote{}, ctx.Err()
	}
	return q, nil
}

// QuoteBuyer is what the buyer itself may learn of [Ledger.Quote]: its price, and yes or no for each object, at levels that the terms of the
// object list ([policy.Terms.Lists]). At others an object is refused whatever has become of it, unless the buyer holds that level. All refusals
// read the same ([vocabulary.NotAvailable]). How responses come about, Sums, Event and Instead are left out.
func (l *Ledger) QuoteBuyer(ctx context.Context, o Order) (Quote, error) {
	t, err := l.newTrade(ctx, o)
	if err != nil {
		return Quote{}, err
	}
	t.Listed = true
	q, err := t.quoteNow(ctx)
	q.Refused, q.Sums, q.Event = vocabulary.Unexplained(q.Refused), nil, 0
	q.Draws, q.Resales, q.Degradations, q.Insertions = 0, 0, 0, 0
	return q, err
}

// quoteNow returns the quote of the trade as of the present state.
func (t *trade) quoteNow(ctx context.Context) (q Quote, err error) {
	t.quoting, t.counting = true, true
	err = t.ledger.engine.View(ctx, func(s *state.State) error {
		t.at = s.Clock
		if err := t.convene(s, s.Counters.Events, t.at, nil); err != nil {
			return err
		}
		q = t.quote()
		q.Event = s.Counters.Events
		return nil
	})
	return q, err
}

// instead adds to the error of a refused order what would have been possible. A reservation cannot be carried out for less.
func (t *trade) instead(ctx context.Context, err error) error {
	err = callback.Tell(err)
	if t.Reserved != 0 || t.order.StopAtRefusal {
		return err
	}
	x := &forecast{ledger: t.ledger, bid: rules.Bid{Question: t.Question, Client: t.order.Buyer}, buying: true, names: t.names, all: t.order.All, untold: t.refused.Untold}
	return x.instead(ctx, err, t.order.Epsilon)
}

// trade is an order being looked at, for a quote, a reservation or a sale.
type trade struct {
	rules.Bid
	ledger  *Ledger
	order   Order
	key     string   // of the request; "" for a quote
	names   []string // the objects asked for, in order; of all, those that were read and are kept
	at      time.Time
	lines   []line              // of those who answer; none of an order that is refused, or only counted
	sum     sums                // of the same
	refused request.RefusalList // the others
	faults  rules.TruthFaults   // of those refused, if truths were asked for
	// promised are, of a reservation that is carried out, the policies by whose prices the names were reserved, by number.
	promised  []uint32
	reserving bool // it becomes a reservation
	leaves    bool // those refused are left out; else a single one refuses all
	counting  bool // nothing but sums is wanted
	quoting   bool // the ID of the quote is wanted, so:
	people    *request.QuotedPeople
	offer     *request.QuotedOffer
}

// sums are of what is sold.
type sums struct {
	objects, price uint64 // the price is at most MaxPanel times the largest price there is, 10¹²
	tally          event.SaleTally
}

// add counts a line.
func (n *sums) add(one *line) {
	n.objects++
	n.price += one.price
	n.tally.Add(one.method, one.upgrade)
}

// errDecided ends the reading of an order of which the first refusal is known, and nothing else is wanted.
var errDecided = errors.New("refused")

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
	t := &trade{Bid: rules.Bid{Client: o.Buyer, Epsilon: o.Epsilon}, ledger: l, order: o}
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
func (t *trade) convene(s *state.State, through uint64, at time.Time, taken func(x rules.Subject, one *line)) error {
	p := request.Panel{Names: t.names, All: t.order.All, Question: t.Question.Number, Through: through}
	if err := t.anew(s); err != nil {
		return err
	}
	most := mostWork / t.Question.Work()
	count, behind, size := 0, "", state.PartSize
	if t.order.StopAtRefusal {
		size = firstPart
	}
	for last := false; !last && count <= MaxPanel; size = min(2*size, state.PartSize) {
		some, end, err := p.After(s, behind, size)
		if err != nil {
			return err
		}
		if p.All && t.keeps() {
			t.names = append(roomFor(t.names[:count], len(some)), some...)
		}
		if last = end; count+len(some) <= most {
			err = t.assessPart(s, count, some, at, taken)
		}
		if errors.Is(err, errDecided) {
			return nil
		}
		if count += len(some); err != nil {
			return err
		}
		if len(some) > 0 {
			behind = some[len(some)-1]
		}
	}
	if err := request.CheckPanel(t.Question, count); err != nil {
		return err
	}
	if count > most {
		return errs.Invalid("question %q: an order about %d objects; %d are possible at a time", t.Question.Name, count, most)
	}
	return nil
}

// firstPart is how many objects are read first where the first refusal decides: one of them may be it.
const firstPart = 32

// anew begins to look at the objects.
func (t *trade) anew(s *state.State) (err error) {
	t.lines, t.sum, t.refused = nil, sums{}, request.NewRefusals(t.leaves)
	if t.quoting {
		t.people, t.offer = request.NewQuotedPeople(), t.newOffer()
	}
	t.Buyer, _, err = s.BuyerNumber(t.order.Buyer)
	return err
}

func (t *trade) newOffer() *request.QuotedOffer {
	return request.NewQuotedOffer(t.ledger.prover.About.ID, t.order.Buyer, t.Question.Number, t.order.Epsilon)
}

// keeps tells whether the lines are needed: not for a quote, nor once a whole order is refused.
func (t *trade) keeps() bool { return !t.counting && (t.leaves || t.refused.Count() == 0) }

// assessPart says what the trade means for the objects that stand at a place among the names. Each whose line is kept is
// passed to taken, with the line that it gets.
func (t *trade) assessPart(s *state.State, from int, names []string, at time.Time, taken func(x rules.Subject, one *line)) error {
	if t.keeps() {
		t.lines = roomFor(t.lines, max(len(names), len(t.names)-len(t.lines)))
	}
	for i, name := range names {
		one, x, refusal, err := t.look(s, from+i, name, at)
		if t.quoting {
			t.people.Add(name, x.Chain.Policy)
		}
		switch {
		case err != nil:
			return err
		case refusal != nil:
			if err := t.leaveOut(refusal); err != nil {
				return err
			}
		default:
			if t.keeps() {
				taken(x, &one)
				t.lines = append(t.lines, one)
			}
			t.count(name, &one)
		}
	}
	return nil
}

// leaveOut notes a refusal, and returns errDecided if that is all that is wanted.
func (t *trade) leaveOut(r *Refusal) error {
	t.refused.Add(*r)
	if t.quoting {
		t.offer.Refuses(r.Object)
	}
	if t.leaves {
		return nil
	}
	if t.lines = nil; t.order.StopAtRefusal {
		return errDecided
	}
	return nil
}

// count counts the line of an object.
func (t *trade) count(name string, one *line) {
	if t.sum.add(one); t.quoting {
		t.offer.Sells(name, one.price)
	}
}

// recount counts the lines again, after some of them were refused.
func (t *trade) recount() {
	t.refused.Sort()
	if t.sum = (sums{}); t.quoting {
		t.offer = t.newOffer()
	}
	left := t.refused.Listed
	refuseBefore := func(name string) {
		for ; t.quoting && len(left) > 0 && (name == "" || left[0].Object < name); left = left[1:] {
			t.offer.Refuses(left[0].Object)
		}
	}
	for i := range t.lines {
		name := t.names[t.lines[i].at]
		refuseBefore(name)
		t.count(name, &t.lines[i])
	}
	refuseBefore("")
}

// roomFor makes room for more items of a list that may get many.
func roomFor[T any](list []T, more int) []T {
	if cap(list)-len(list) < more {
		list = slices.Grow(list, max(more, len(list)))
	}
	return list
}

// look says what the trade means for one object, which stands at a place among the names, and at what price.
func (t *trade) look(s *state.State, place int, name string, at time.Time) (one line, x rules.Subject, refusal *Refusal, err error) {
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
	if err == nil && refusal != nil && !t.Listed { // else it is not explained
		err = t.ledger.rules.OrLess(s, &x, ask, t.Offer(s, &x), refusal)
	}
	if err != nil || refusal != nil {
		return one, x, refusal, err
	}
	one.at, one.method, one.upgrade = uint32(place), rules.MethodOf(x.Chain, t.order.Epsilon), !held.IsZero() && held.Less(t.order.Epsilon)
	one.price, err = t.due(s, place, &x)
	return one, x, nil, err
}

// due is the price of an object: by its terms, or by those that were in force when it was reserved.
func (t *trade) due(s *state.State, place int, x *rules.Subject) (price uint64, err error) {
	p := x.Policy
	if t.Reserved != 0 {
		if p, err = s.Policy(t.promised[place]); err != nil {
			return 0, err
		}
	}
	return rules.Due(p, &x.Chain, t.Buyer, t.order.Epsilon), nil
}

// asking is what the trade wants of an object at an instant.
func (t *trade) asking(x *rules.Subject, at time.Time) rules.Asking {
	return rules.Asking{Question: t.Question, Epsilon: t.order.Epsilon, At: at, Buyer: t.Buyer, Newcomer: x.Chain.HeldBy(t.Buyer).IsZero(), Sale: t.Reserved, Reserving: t.reserving}
}

// quote puts the trade in words, which is not to be sold if it stopped at a refusal.
func (t *trade) quote() Quote {
	about := event.Deal{Epsilon: t.order.Epsilon, Price: t.sum.price, Objects: t.sum.objects}
	refused := t.refused.Error(t.Question)
	q := Quote{Offer: t.ledger.offer(about, t.sum.tally), Refused: refused.Refused, Unlisted: refused.Unlisted, Sums: refused.Sums}
	if t.order.StopAtRefusal && t.refused.Count() > 0 && !t.leaves {
		q.Offer = t.ledger.offer(event.Deal{Epsilon: t.order.Epsilon}, event.SaleTally{})
	} else {
		q.ID = t.offer.ID(t.people)
	}
	q.Buyer, q.Question = t.order.Buyer, t.order.Question
	return q
}

// offer puts a deal in words, without its names.
func (l *Ledger) offer(d event.Deal, n event.SaleTally) Offer {
	return Offer{
		Epsilon: d.Epsilon, Price: int64(d.Price), Currency: l.prover.About.Currency, Objects: d.Objects,
		Draws: n.Draws, Resales: n.Resales, Degradations: n.Degradations, Insertions: n.Insertions, Upgrades: n.Upgrades,
	}
}

// untold returns those refused because the host has no truth of them.
func (t *trade) untold() (missing request.RefusalList) {
	for _, refusal := range t.refused.Listed {
		if refusal.Reason == NoTruth {
			missing.Add(refusal)
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
	if t.refused.Count() > 0 && !m.partial || t.sum.objects == 0 {
		return t.ledger.refuse(t.asker(), t.Question, t.order.Epsilon, &t.refused, &t.faults)
	}
	if untold := t.untold(); m.quoteID != "" && untold.Count() > 0 {
		return t.ledger.refuse(t.asker(), t.Question, t.order.Epsilon, &untold, &t.faults) // another quote would not help
	}
	if m.quoteID == "" && m.maxPrice == nil {
		return nil
	}
	q := t.quote()
	switch {
	case m.maxPrice != nil && *m.maxPrice < q.Price:
		return &QuoteError{Quote: q, Expected: m.quoteID, TermsChanged: request.UnderOtherTerms(m.quoteID, q.ID), MaxPrice: m.maxPrice, Remedy: vocabulary.RemedyPaying}
	case m.quoteID != "" && !request.SameOffer(m.quoteID, q.ID):
		return &QuoteError{Quote: q, Expected: m.quoteID, TermsChanged: request.UnderOtherTerms(m.quoteID, q.ID), MaxPrice: m.maxPrice, Remedy: vocabulary.RemedyQuoting}
	}
	return nil
}
