package request

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Quote returns what an order would cost now, and which objects it would refuse. If listed is set,
// the quote is for the buyer, who may only buy levels listed in the terms. It then does not say
// what is possible instead of refusals, because the buyer may not learn that.
func (e *Executor) Quote(ctx context.Context, o api.Order, listed bool) (api.Quote, error) {
	t := &trade{}
	if err := t.prepare(ctx, e, o); err != nil {
		return api.Quote{}, err
	}
	t.Listed, t.isQuote, t.countsOnly = listed, true, true
	var q api.Quote
	err := e.Engine.View(ctx, func(s *state.State) error {
		t.start(s, Progress{Through: s.Counters.Events})
		if err := t.assessPanel(s, t.at, nil); err != nil { // nil: a quote keeps no lines
			return err
		}
		q = t.quote()
		q.Event = s.Counters.Events
		return nil
	})
	if err == nil && t.refused.Count() > 0 && !listed {
		refused := t.refused.Error(t.question)
		_ = t.alternative(ctx, refused) // returns refused, with the field Instead set
		q.Instead, err = refused.Instead, ctx.Err()
	}
	if err != nil {
		return api.Quote{}, err
	}
	return q, nil
}

// Offered returns the terms of a sale or reservation, d, in the form for callers. n counts how the
// responses are obtained, and buyer and question are the names.
func (e *Executor) Offered(d event.Deal, n event.SaleTally, buyer, question string) api.Offer {
	return api.Offer{
		Buyer: buyer, Question: question, Epsilon: d.Epsilon, Price: int64(d.Price), Currency: e.Currency,
		Objects: d.Objects, Draws: n.Draws, Resales: n.Resales, Degradations: n.Degradations,
		Insertions: n.Insertions, Upgrades: n.Upgrades,
	}
}

// trade is an order that is assessed for a quote, a reservation or a sale.
type trade struct {
	protocol
	rules.Bid
	names         []string    // sorted names of the order; of an order for all, those that were read and are kept
	stopAtRefusal bool        // the assessment may end at the first refusal
	lines         []line      // objects that answer; empty if the order is refused, or if only sums are needed
	sum           sums        // sums of the objects that answer
	refused       RefusalList // the refusals of the other objects
	// reservedPolicies has, for the capture of a reservation, the policy of each name by whose
	// prices it was reserved.
	reservedPolicies []uint32
	isReservation    bool // the trade becomes a reservation
	wasAsked         bool // the host was asked for true values, so objects without one are refused
	partial          bool // leave refused objects out; otherwise one refusal refuses the order
	countsOnly       bool // only sums are needed
	isQuote          bool // the ID of the quote is needed; then also:
	quotedObjects    *quotedObjects
	offer            *quotedOffer
}

// prepare checks the order and prepares the trade for it. It checks everything but the idempotency
// key, which a quote does not have.
func (t *trade) prepare(ctx context.Context, e *Executor, o api.Order) (err error) {
	if err := event.CheckName("buyer", o.Buyer); err != nil {
		return err
	}
	if t.names, err = event.CheckAsked(o.Objects, o.All, api.MaxPanel); err != nil {
		return err
	}
	if t.question, err = e.Question(ctx, o.Question); err != nil {
		return err
	}
	t.Executor, t.buyer, t.epsilon, t.stopAtRefusal = e, o.Buyer, o.Epsilon, o.StopAtRefusal
	t.panel = Panel{Names: t.names, All: o.All, Question: t.question.Number}
	t.Bid = rules.Bid{Question: t.question, Client: o.Buyer, Epsilon: o.Epsilon}
	return t.question.CheckLevel(o.Epsilon)
}

// form returns the canonical form of a request, with the fields of the order. operation is its
// kind.
func (t *trade) form(operation string) *event.Form {
	f := event.NewForm(operation)
	f.Field("Buyer").Text(t.buyer)
	f.Field("Question").Text(t.question.Name)
	f.Field("Epsilon").Epsilon(t.epsilon)
	f.Objects(t.panel.Names, t.panel.All)
	return f
}

// alternative adds to the error of a refused order what is possible instead, and reports the error
// to the host. It adds nothing for the capture of a reservation, which cannot be for a lower ε. Nor
// does it for an order that stops at the first refusal.
func (t *trade) alternative(ctx context.Context, err error) error {
	err = callback.Report(err)
	if t.Reserved != 0 || t.stopAtRefusal {
		return err
	}
	bid := rules.Bid{Question: t.question, Client: t.buyer}
	panel := Panel{Names: t.names, All: t.panel.All, Question: t.question.Number}
	f := &forecast{Executor: t.Executor, bid: bid, buying: true, panel: panel, withoutTruth: t.refused.WithoutTruth}
	return f.alternative(ctx, err, t.epsilon)
}

// sums are the totals of the objects that answer.
type sums struct {
	objects, price uint64 // the price is at most MaxPanel times the largest price, 10¹²
	tally          event.SaleTally
}

// add adds the line of an object that answers.
func (n *sums) add(one *line) {
	n.objects++
	n.price += one.price
	n.tally.Add(one.method, one.upgrade)
}

// errDecided ends the assessment of an order after the first refusal, if the request needs no more
// than that.
var errDecided = errors.New("refused")

// line is one object of a trade. It is small, because an order may have many; the other data of the
// object are read again.
type line struct {
	price   uint64
	at      uint32 // index among the names
	value   uint32 // its response, once drawn: a value, or an index of [selling.unaryResponses]
	verdict event.Verdict
	method  event.Method // how its response is obtained
	upgrade bool         // the buyer holds a lower level of this chain
}

// assessPanel reads the objects of the order part by part, and assesses each by the ceilings of a
// time. It sets the lines, sums and refusals of t. onLine is as in assessPart. A refusal is not an
// error. If an order is too large for one transaction, all its objects are still counted, for the
// error.
func (t *trade) assessPanel(s *state.State, at time.Time, onLine func(x rules.Subject, one *line)) error {
	p := Panel{Names: t.names, All: t.panel.All, Question: t.question.Number, Through: t.panel.Through}
	if err := t.reset(s); err != nil {
		return err
	}
	most := maxWork / t.question.Work() // the largest number of objects in one transaction
	count, after, size := 0, "", state.PartSize
	if t.stopAtRefusal {
		size = firstPart
	}
	for last := false; !last && count <= api.MaxPanel; size = min(2*size, state.PartSize) {
		some, end, err := p.After(s, after, size)
		if err != nil {
			return err
		}
		if p.All && t.needsLines() {
			t.names = append(t.names[:count], some...)
		}
		if last = end; count+len(some) <= most {
			err = t.assessPart(s, count, some, at, onLine)
		}
		if errors.Is(err, errDecided) {
			return nil
		}
		if count += len(some); err != nil {
			return err
		}
		if len(some) > 0 {
			after = some[len(some)-1]
		}
	}
	if err := CheckPanel(t.question, count); err != nil {
		return err
	}
	if count > most {
		const text = "question %q: an order about %d objects: at most %d are possible in one order"
		return errs.Invalid(text, t.question.Name, count, most)
	}
	return nil
}

// firstPart is the number of objects in the first part if the first refusal decides the order. It
// is small, because the refusal may be among them.
const firstPart = 32

// reset resets the results of the assessment, and reads the number of the buyer again, which may
// have been named since.
func (t *trade) reset(s *state.State) (err error) {
	t.lines, t.sum, t.refused = nil, sums{}, NewRefusals(t.partial)
	if t.isQuote {
		t.quotedObjects, t.offer = newQuotedObjects(), t.newOffer()
	}
	t.Buyer, _, err = s.BuyerNumber(t.buyer)
	return err
}

// newOffer returns the offer of the trade, without objects.
func (t *trade) newOffer() *quotedOffer {
	return newQuotedOffer(t.ID, t.buyer, t.question.Number, t.epsilon)
}

// needsLines reports whether lines and names are kept. They are not for a quote, and not after a
// refusal of an order that is not partial.
func (t *trade) needsLines() bool { return !t.countsOnly && (t.partial || t.refused.Count() == 0) }

// assessPart assesses some objects. from is the index of the first of them among the names of the
// order. For each object that answers, it calls onLine with the object and its line, if lines are
// kept. It returns errDecided if the order needs no further assessment.
func (t *trade) assessPart(
	s *state.State, from int, names []string, at time.Time, onLine func(subject rules.Subject, one *line),
) error {
	if t.needsLines() {
		t.lines = slices.Grow(t.lines, max(len(names), len(t.names)-len(t.lines)))
	}
	for i, name := range names {
		one, subject, refusal, err := t.assess(s, from+i, name, at)
		if t.isQuote {
			t.quotedObjects.add(name, subject.Chain.Policy)
		}
		switch {
		case err != nil:
			return err
		case refusal != nil:
			if err := t.leaveOut(refusal); err != nil {
				return err
			}
		default:
			if t.needsLines() {
				onLine(subject, &one)
				t.lines = append(t.lines, one)
			}
			t.count(name, &one)
		}
	}
	return nil
}

// leaveOut adds a refusal. Unless the order is partial, it drops the lines, because the order is
// refused. It returns errDecided if the order needs no further assessment.
func (t *trade) leaveOut(r *api.Refusal) error {
	t.refused.Add(*r)
	if t.isQuote {
		t.offer.refuses(r.Object)
	}
	if t.partial {
		return nil
	}
	if t.lines = nil; t.stopAtRefusal {
		return errDecided
	}
	return nil
}

// count adds the line of an object to the sums and, for a quote, to the offer.
func (t *trade) count(name string, one *line) {
	if t.sum.add(one); t.isQuote {
		t.offer.sells(name, one.price)
	}
}

// assess returns the line of one object, with its price, or its refusal. index is the index of the
// object among the names. subject has the records of the object, as far as they were read.
func (t *trade) assess(
	s *state.State, index int, name string, at time.Time,
) (one line, subject rules.Subject, refusal *api.Refusal, err error) {
	if refusal, err = rules.ReadSubject(s, t.question, name, t.epsilon, &subject); err != nil || refusal != nil {
		return one, subject, refusal, err
	}
	held := subject.Chain.HeldBy(t.Buyer)
	if t.Reserved != 0 {
		at = s.Now // not before the grant of the reservation, even if the clock went back
	}
	ask := t.requestFor(&subject, at)
	refusal, err = t.CheckSale(s, &subject)
	if err == nil && refusal == nil {
		one.verdict, refusal, err = t.Rules.Assess(s, &subject, ask)
	}
	if err == nil && refusal == nil && t.wasAsked && one.verdict == event.Drawn {
		refusal, err = t.checkTrueValue(&subject)
	}
	if err == nil && refusal != nil && !t.Listed { // the refusal is not explained to a buyer
		err = t.Rules.FindLargest(s, &subject, ask, t.Offer(s, &subject), refusal)
	}
	if err != nil || refusal != nil {
		return one, subject, refusal, err
	}
	one.at, one.method = uint32(index), rules.MethodOf(subject.Chain, t.epsilon)
	one.upgrade = !held.IsZero() && held.Less(t.epsilon)
	one.price, err = t.priceOf(s, index, &subject)
	return one, subject, nil, err
}

// checkTrueValue returns a refusal if the host has no usable true value of an object that needs
// one, or nil. It returns errOvertaken if the host was not asked for it.
func (t *trade) checkTrueValue(subject *rules.Subject) (*api.Refusal, error) {
	truth, asked := t.trueValues.Of(subject.Name)
	switch {
	case !asked:
		return nil, errOvertaken
	case truth == rules.NoTruth:
		return rules.LacksTruth(subject.Name, t.epsilon), nil
	}
	return nil, nil
}

// priceOf returns the price of an object. For the capture of a reservation it is the price by the
// policy in force when the object was reserved. place is the index of the object among the names.
func (t *trade) priceOf(s *state.State, place int, subject *rules.Subject) (price uint64, err error) {
	p := subject.Policy
	if t.Reserved != 0 {
		if p, err = s.Policy(t.reservedPolicies[place]); err != nil {
			return 0, err
		}
	}
	return rules.Due(p, &subject.Chain, t.Buyer, t.epsilon), nil
}

// requestFor returns the request for one object, by the ceilings of a time.
func (t *trade) requestFor(subject *rules.Subject, at time.Time) rules.Request {
	return rules.Request{
		Question: t.question, Epsilon: t.epsilon, At: at, Buyer: t.Buyer,
		IsNewBuyer: subject.Chain.HeldBy(t.Buyer).IsZero(), Sale: t.Reserved, IsReservation: t.isReservation,
	}
}

// quote describes the trade. If the assessment stopped at a refusal, the quote has no ID, price or
// objects.
func (t *trade) quote() api.Quote {
	refused := t.refused.Error(t.question)
	q := api.Quote{Refused: refused.Refused, Unlisted: refused.Unlisted, Sums: refused.Sums}
	if d := (event.Deal{Epsilon: t.epsilon}); t.stopAtRefusal && t.refused.Count() > 0 && !t.partial {
		q.Offer = t.Offered(d, event.SaleTally{}, t.buyer, t.question.Name)
	} else {
		d.Price, d.Objects = t.sum.price, t.sum.objects
		q.Offer, q.ID = t.Offered(d, t.sum.tally, t.buyer, t.question.Name), t.offer.id(t.quotedObjects)
	}
	return q
}

// refusedWithoutTruth returns the listed refusals of objects that the host has no usable true value
// of.
func (t *trade) refusedWithoutTruth() (missing RefusalList) {
	for _, refusal := range t.refused.Listed {
		if refusal.Reason == api.NoTruth {
			missing.Add(refusal)
		}
	}
	return missing
}

// maxWork is the largest number of bits that one transaction may draw, or of probabilities that it
// may read. It takes about ten seconds, during which other requests wait.
const maxWork = 1 << 28
