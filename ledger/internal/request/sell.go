package request

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/rrchain"
)

// limits are the conditions that a buyer sets for an order.
type limits struct {
	quoteID  string // "" accepts any quote
	maxPrice *int64 // nil accepts any price
	partial  bool   // leave refused objects out
}

// Sell executes an order in one transaction. It returns the number of the sale, and the faults of
// the true values.
func (e *Executor) Sell(ctx context.Context, r api.SellRequest) (uint64, *rules.TruthFaults, error) {
	x := &selling{}
	form, err := x.setOrder(ctx, e, "sell", r.Key, r.Order, limits{r.QuoteID, r.MaxPrice, r.Partial})
	if err != nil {
		return 0, nil, err
	}
	x.id, x.source, x.progress = form.Finish(), r.Truth, r.Progress
	return x.execute(ctx)
}

// Capture executes the order of a reservation. It returns the same as Sell.
func (e *Executor) Capture(ctx context.Context, r api.CaptureRequest) (uint64, *rules.TruthFaults, error) {
	x := &selling{limits: limits{partial: r.Partial}}
	if err := x.begin(e, x, r.Key); err != nil {
		return 0, nil, err
	}
	if r.Reservation == 0 {
		return 0, nil, errs.Invalid("no reservation is given")
	}
	x.Reserved, x.partial = r.Reservation, r.Partial
	x.id, x.source, x.progress = event.CaptureRequest(r.Reservation, r.Partial), r.Truth, r.Progress
	return x.execute(ctx)
}

// selling is a request to sell an order, to capture its reservation, or to reserve it.
type selling struct {
	trade
	limits limits
	needy  rules.Needy    // objects that need a true value
	bound  []event.Change // events that bind chains to their true values
	rows   []rrchain.Bits // responses in unary encoding
	sale   uint64         // number of the sale or reservation
	term   term           // how long a reservation is held

	progress func(done, total int) // may be nil
	report   func(done, total int) // calls progress from outside the commit
	ended    func() error          // returns an error if the caller has stopped waiting
}

// setOrder checks an order and prepares the request for it. It returns the first fields of the
// request's canonical form.
func (x *selling) setOrder(
	ctx context.Context, e *Executor, operation, key string, o api.Order, m limits,
) (*event.Form, error) {
	if e.Engine.ReadOnly {
		return nil, errs.ErrReadOnly
	}
	if err := errors.Join(event.CheckName("idempotency key", key), m.check()); err != nil {
		return nil, err
	}
	if err := x.set(ctx, e, o); err != nil {
		return nil, err
	}
	f := x.form(operation)
	m.add(f)
	x.steps, x.key, x.limits, x.partial, x.quoting = x, key, m, m.partial, m.quoteID != "" || m.maxPrice != nil
	return f, nil
}

// execute runs the request and returns the number of the sale or reservation.
func (x *selling) execute(ctx context.Context) (uint64, *rules.TruthFaults, error) {
	if err := x.run(ctx); err != nil {
		return 0, nil, x.alternative(ctx, err)
	}
	return x.sale, &x.faults, nil
}

// found reads which sale or reservation the request has created.
func (x *selling) found(s *state.State) (err error) {
	if x.sale, err = SettledSale(s, x.st.Last); err == nil && x.reserving {
		_, err = OpenReservation(s, x.sale)
	}
	return err
}

// look assesses the order without true values.
func (x *selling) look(s *state.State) error {
	if x.Reserved != 0 {
		if err := x.recall(s); err != nil {
			return err
		}
	}
	x.needy, x.told = rules.Needy{}, false
	if err := x.convene(s, x.at, x.addNeedy); err != nil {
		return err
	}
	m := x.limits
	if m.partial && !x.reserving {
		m.maxPrice = nil // objects without a true value will be left out and cost nothing
	}
	return x.accept(m)
}

// addNeedy adds an object to x.needy if its response must be drawn from the true value.
func (x *selling) addNeedy(o rules.Subject, one *line) {
	if one.verdict == event.Drawn {
		x.needy.Add(o.Name, o.Chain.Bond())
	}
}

// ask asks the host for the true values that draws need. If some are missing, it assesses the order
// again, which refuses the objects without one.
func (x *selling) ask(ctx context.Context) error {
	if x.reserving {
		return nil
	}
	lacking := false
	err := x.askFor(ctx, x.needy, func(names []string, values []int32) {
		x.truths.Add(names, values)
		lacking = lacking || slices.Contains(values, rules.NoTruth)
	})
	x.told = true
	if err == nil && lacking {
		err = x.Engine.View(ctx, func(s *state.State) error {
			return x.convene(s, x.at, func(rules.Subject, *line) {})
		})
	}
	if err != nil {
		return err
	}
	x.needy = rules.Needy{}
	return x.accept(x.limits)
}

// commit executes the transaction. Unless the order is only reserved, it reports progress while the
// transaction runs.
func (x *selling) commit(ctx context.Context) error {
	x.lines = nil // all objects are assessed again in the transaction
	if x.reserving {
		return x.protocol.commit(ctx)
	}
	return callback.WithProgress(ctx, x.progress, func(ctx context.Context, report func(done, total int)) error {
		x.report, x.ended = report, ctx.Err
		return x.propose(ctx, engine.Proposal{Record: x.record})
	})
}

// tell reports progress. done is the number of objects that are drawn or, if recorded is set,
// recorded.
func (x *selling) tell(recorded bool, done int) {
	if recorded {
		done += len(x.names)
	}
	x.report(done, 2*len(x.names))
}

// decide assesses all objects again in the transaction and draws the responses. The order can be
// refused only here. record then writes the events.
func (x *selling) decide(s *state.State) ([]event.Change, error) {
	if x.reserving {
		return x.reserve(s)
	}
	if x.Reserved != 0 {
		if _, err := OpenReservation(s, x.Reserved); err != nil {
			return nil, err
		}
	}
	halted, err := x.reassess(s, rules.Earlier(x.at, s.Clock))
	if err != nil {
		return nil, err
	}
	if err := x.accept(x.limits); err != nil {
		return nil, err
	}
	if x.sum.price > math.MaxInt64-s.Counters.Revenue {
		return nil, errs.Invalid("the revenue would be more than can be counted")
	}
	return nil, halted
}

// reassess assesses the order in the transaction. It also draws the responses, until a draw fails.
// halted is the error of that draw, or nil.
func (x *selling) reassess(s *state.State, at time.Time) (halted, err error) {
	if err := x.anew(s); err != nil {
		return nil, err
	}
	x.bound, x.rows = nil, nil
	err = x.eachPart(func(from int, names []string) error {
		defer x.tell(false, from+len(names))
		return x.assessPart(s, from, names, at, func(o rules.Subject, one *line) {
			if halted == nil {
				halted = x.respond(s, o, one)
			}
		})
	})
	if errors.Is(err, errDecided) {
		err = nil
	}
	return halted, err
}

// respond draws the response of an object and stores it in its line.
func (x *selling) respond(s *state.State, o rules.Subject, one *line) error {
	if err := x.ended(); err != nil {
		return err // nothing has happened yet
	}
	truth, _ := x.truths.Of(o.Name)
	if one.verdict == event.Drawn {
		if err := x.checkTruth(x.question, &o.Chain, o.Name, truth); err != nil {
			return err
		}
	}
	r, first, err := x.Rules.Respond(s.Chances, x.question, &o, x.epsilon, truth)
	if err != nil {
		return err
	}
	x.bound = append(x.bound, first...)
	if one.value = uint32(r.Value.Index); r.Value.IsUnary() {
		one.value = uint32(len(x.rows))
		x.rows = append(x.rows, r.Value.Bits)
	}
	return nil
}

// response returns the response of a line.
func (x *selling) response(one line) event.Response {
	if x.rows != nil {
		return event.Response{Value: event.Value{Bits: x.rows[one.value]}, Method: one.method}
	}
	return event.Response{Value: event.Value{Index: int(one.value)}, Method: one.method}
}

// record writes the events of the sale.
func (x *selling) record(s *state.State) error {
	named, d := x.deal(s)
	if x.Reserved != 0 {
		d.Sale = x.Reserved
	}
	for _, one := range x.lines {
		x.end.Counts[one.verdict]++
	}
	x.sale, x.end.Sale = d.Sale, d.Sale
	if _, _, err := fold.Record(s, named); err != nil {
		return err
	}
	if err := x.recordBound(s); err != nil { // first, because the sale is followed directly by its objects
		return err
	}
	if _, _, err := fold.Record(s, []event.Change{&event.SaleMade{Deal: d, Tally: x.sum.tally}}); err != nil {
		return err
	}
	if err := x.recordSold(s); err != nil {
		return err
	}
	_, _, err := fold.Record(s, Settling(nil, x.question.Number, x.refused.Listed, x.end))
	return err
}

// recordBound writes the events that bind chains to their true values.
func (x *selling) recordBound(s *state.State) error {
	_, _, err := fold.Record(s, x.bound)
	return err
}

// recordSold writes the events that hand out the responses.
func (x *selling) recordSold(s *state.State) error {
	capacity := min(len(x.lines), state.PartSize)
	page, changes := make([]event.Sold, 0, capacity), make([]event.Change, 0, capacity)
	left := x.lines
	return x.eachPart(func(from int, names []string) error {
		defer x.tell(true, from+len(names))
		page, changes = page[:0], changes[:0]
		for len(left) > 0 && int(left[0].at) < from+len(names) {
			one := left[0]
			left = left[1:]
			sold := event.Sold{Object: x.names[one.at], Sale: x.sale, Price: one.price, Response: x.response(one)}
			page = append(page, sold)
			changes = append(changes, &page[len(page)-1])
		}
		_, _, err := fold.Record(s, changes)
		return err
	})
}

// eachPart calls visit for each part of the names. from is the index of the first name of the part.
func (x *selling) eachPart(visit func(from int, names []string) error) error {
	from := 0
	for some := range slices.Chunk(x.names, state.PartSize) {
		if err := visit(from, some); err != nil {
			return err
		}
		from += len(some)
	}
	return nil
}

// deal returns the terms of a sale or reservation under the next number. If the buyer is new, it
// also returns the event that names it.
func (t *trade) deal(s *state.State) ([]event.Change, event.Deal) {
	d := event.Deal{
		Sale: s.Counters.Sales + 1, Buyer: t.Buyer, Question: t.question.Number, Epsilon: t.epsilon,
		Objects: t.sum.objects, Price: t.sum.price, Refused: uint64(t.refused.Count()),
	}
	if t.Buyer != 0 {
		return nil, d
	}
	d.Buyer = s.Counters.Buyers + 1
	return []event.Change{&event.BuyerNamed{Number: d.Buyer, Name: t.buyer}}, d
}

// add adds the limits to the canonical form of a request.
func (m limits) add(f *event.Form) {
	if f.Field("QuoteID").Flag(m.quoteID != ""); m.quoteID != "" {
		f.ObjectField("QuoteID").Text(m.quoteID) // an object field, because it has a digest of the objects
	}
	price := f.Field("MaxPrice")
	if price.Flag(m.maxPrice != nil); m.maxPrice != nil {
		price.U64(uint64(*m.maxPrice))
	}
	f.Field("Partial").Flag(m.partial)
}

// check returns an error if a limit is out of range.
func (m limits) check() error {
	if m.maxPrice != nil && *m.maxPrice < 0 {
		return errs.Invalid("a highest price of %d", *m.maxPrice)
	}
	if len(m.quoteID) > event.MaxNameBytes {
		return errs.Invalid("a quote ID of %d bytes", len(m.quoteID))
	}
	return nil
}

// accept returns an error if the buyer does not agree to the trade as it was assessed: it has
// refusals, another price or another quote.
func (t *trade) accept(m limits) error {
	if t.refused.Count() > 0 && !m.partial || t.sum.objects == 0 {
		return t.refuse(t.refused)
	}
	if m.quoteID == "" && m.maxPrice == nil {
		return nil
	}
	if lacking := t.lackTruth(); m.quoteID != "" && lacking.Count() > 0 {
		return t.refuse(lacking) // another quote would not help
	}
	q := t.quote()
	mismatch := &api.QuoteError{
		Quote: q, Expected: m.quoteID, TermsChanged: areUnderOtherTerms(m.quoteID, q.ID), MaxPrice: m.maxPrice,
	}
	switch {
	case m.maxPrice != nil && *m.maxPrice < q.Price:
		mismatch.Remedy = event.RemedyPaying
	case m.quoteID != "" && !areSameOffer(m.quoteID, q.ID):
		mismatch.Remedy = event.RemedyQuoting
	default:
		return nil
	}
	return mismatch
}
