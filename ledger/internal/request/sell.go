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

// Sell executes an order in one transaction. It returns the number of the sale, and which true
// values could not be used.
func (e *Executor) Sell(ctx context.Context, r api.SellRequest) (uint64, *rules.TruthFaults, error) {
	sl := &selling{}
	form, err := sl.setOrder(ctx, e, "sell", r.Key, r.Order, limits{r.QuoteID, r.MaxPrice, r.Partial})
	if err != nil {
		return 0, nil, err
	}
	sl.id, sl.source, sl.onProgress = form.Finish(), r.Truth, r.Progress
	return sl.execute(ctx)
}

// Capture executes the order of a reservation, and returns what [Executor.Sell] returns.
func (e *Executor) Capture(ctx context.Context, r api.CaptureRequest) (uint64, *rules.TruthFaults, error) {
	sl := &selling{limits: limits{partial: r.Partial}}
	if err := sl.begin(e, sl, r.Key); err != nil {
		return 0, nil, err
	}
	if r.Reservation == 0 {
		return 0, nil, errs.Invalid("the number of the reservation is 0: numbers begin with 1")
	}
	sl.Reserved, sl.partial = r.Reservation, r.Partial
	sl.id, sl.source, sl.onProgress = event.CaptureRequest(r.Reservation, r.Partial), r.Truth, r.Progress
	return sl.execute(ctx)
}

// selling is a request to sell an order, to capture its reservation, or to reserve it.
type selling struct {
	trade
	limits         limits             // the conditions of the buyer; for a capture, only partial is set
	needs          rules.TruthRequest // objects that need a true value
	bindings       []event.Change     // events that bind chains to their true values
	unaryResponses []rrchain.Bits     // responses in unary encoding
	sale           uint64             // number of the sale or reservation
	term           term               // how long the order is held, if it is to be reserved

	onProgress func(done, total int) // of the host; may be nil
	report     func(done, total int) // passes progress to onProgress, which runs outside of the transaction
	callerErr  func() error          // returns an error if the context of the caller has ended
}

// setOrder checks an order and prepares the request for it. operation is "sell" or "reserve". It
// returns the first fields of the request's canonical form, to which the caller adds others.
func (sl *selling) setOrder(
	ctx context.Context, e *Executor, operation, key string, o api.Order, m limits,
) (*event.Form, error) {
	if e.Engine.ReadOnly {
		return nil, errs.ErrReadOnly
	}
	if err := errors.Join(event.CheckName("idempotency key", key), m.checkRange()); err != nil {
		return nil, err
	}
	if err := sl.prepare(ctx, e, o); err != nil {
		return nil, err
	}
	f := sl.form(operation)
	m.add(f)
	sl.steps, sl.key, sl.limits, sl.partial, sl.isQuote = sl, key, m, m.partial, m.quoteID != "" || m.maxPrice != nil
	return f, nil
}

// execute runs the request. It returns the number of the sale or reservation, and which true values
// could not be used. If the order is refused, the error says what is possible instead.
func (sl *selling) execute(ctx context.Context) (uint64, *rules.TruthFaults, error) {
	if err := sl.run(ctx); err != nil {
		return 0, nil, sl.alternative(ctx, err)
	}
	return sl.sale, &sl.faults, nil
}

// readSettled reads which sale or reservation the request has created. It returns an error for a
// reservation that is not open any more.
func (sl *selling) readSettled(s *state.State) (err error) {
	if sl.sale, err = SettledSale(s, sl.progress.Last); err == nil && sl.isReservation {
		_, err = OpenReservation(s, sl.sale)
	}
	return err
}

// assessNew assesses the order without true values, and returns an error if it is refused or the
// buyer does not accept the result.
func (sl *selling) assessNew(s *state.State) error {
	if sl.Reserved != 0 {
		if err := sl.readReservation(s); err != nil {
			return err
		}
	}
	sl.needs, sl.wasAsked = rules.TruthRequest{}, false
	if err := sl.assessPanel(s, sl.at, sl.addNeed); err != nil {
		return err
	}
	m := sl.limits
	if m.partial && !sl.isReservation {
		m.maxPrice = nil // objects without a true value will be left out and cost nothing
	}
	return sl.accept(m)
}

// addNeed adds an object to sl.needs if its response must be drawn from the true value.
func (sl *selling) addNeed(o rules.Subject, one *line) {
	if one.verdict == event.Drawn {
		sl.needs.Add(o.Name, o.Chain.Binding())
	}
}

// ask asks the host for the true values that draws need. If some cannot be used, it assesses the
// order again, which refuses their objects. It returns an error if the buyer does not accept the
// result.
func (sl *selling) ask(ctx context.Context) error {
	if sl.isReservation {
		return nil
	}
	lacking := false
	err := sl.askFor(ctx, sl.needs, func(names []string, values []int32) {
		sl.trueValues.Add(names, values)
		lacking = lacking || slices.Contains(values, rules.NoTruth)
	})
	sl.wasAsked = true
	if err == nil && lacking {
		err = sl.Engine.View(ctx, func(s *state.State) error {
			return sl.assessPanel(s, sl.at, func(rules.Subject, *line) {}) // the needs are known
		})
	}
	if err != nil {
		return err
	}
	sl.needs = rules.TruthRequest{}
	return sl.accept(sl.limits)
}

// commit executes the transaction. A sale reports progress while the transaction runs, outside of
// it. Its events are written by record.
func (sl *selling) commit(ctx context.Context) error {
	sl.lines = nil // all objects are assessed again in the transaction
	if sl.isReservation {
		return sl.protocol.commit(ctx)
	}
	return callback.WithProgress(ctx, sl.onProgress, func(ctx context.Context, report func(done, total int)) error {
		sl.report, sl.callerErr = report, ctx.Err
		return sl.propose(ctx, engine.Proposal{Record: sl.record})
	})
}

// reportProgress reports how much of the transaction is done. Each object counts twice: when it is
// drawn, and when it is recorded. done is the number of objects that are drawn or, if recorded is
// set, recorded.
func (sl *selling) reportProgress(recorded bool, done int) {
	if recorded {
		done += len(sl.names)
	}
	sl.report(done, 2*len(sl.names))
}

// decide assesses all objects again in the transaction and draws the responses. It returns no
// events: record writes them afterwards. The order can be refused only here. A refusal takes
// precedence over the error of a draw.
func (sl *selling) decide(s *state.State) ([]event.Change, error) {
	if sl.isReservation {
		return sl.reserve(s)
	}
	if sl.Reserved != 0 {
		if _, err := OpenReservation(s, sl.Reserved); err != nil {
			return nil, err
		}
	}
	drawErr, err := sl.reassess(s, rules.Earlier(sl.at, s.Clock))
	if err != nil {
		return nil, err
	}
	if err := sl.accept(sl.limits); err != nil {
		return nil, err
	}
	if sl.sum.price > math.MaxInt64-s.Counters.Revenue {
		return nil, errs.Invalid("the ledger's revenue would exceed the largest amount that can be counted")
	}
	return nil, drawErr // nil: record writes the events
}

// reassess assesses the order in the transaction. It also draws the responses, until a draw fails.
// drawErr is the error of that draw, or nil.
func (sl *selling) reassess(s *state.State, at time.Time) (drawErr, err error) {
	if err := sl.reset(s); err != nil {
		return nil, err
	}
	sl.bindings, sl.unaryResponses = nil, nil
	err = sl.eachPart(func(from int, names []string) error {
		defer sl.reportProgress(false, from+len(names))
		return sl.assessPart(s, from, names, at, func(o rules.Subject, one *line) {
			if drawErr == nil {
				drawErr = sl.respond(s, o, one)
			}
		})
	})
	if errors.Is(err, errDecided) { // accept will refuse the order
		err = nil
	}
	return drawErr, err
}

// respond draws the response of an object, or reads a recorded one, and stores it in its line. It
// returns an error if the caller has stopped waiting.
func (sl *selling) respond(s *state.State, o rules.Subject, one *line) error {
	if err := sl.callerErr(); err != nil {
		return err // nothing has happened yet
	}
	truth, _ := sl.trueValues.Of(o.Name)
	if one.verdict == event.Drawn {
		if err := sl.checkTruth(sl.question, &o.Chain, o.Name, truth); err != nil {
			return err
		}
	}
	r, first, err := sl.Rules.Respond(s.Samplers, sl.question, &o, sl.epsilon, truth)
	if err != nil {
		return err
	}
	sl.bindings = append(sl.bindings, first...)
	if one.value = uint32(r.Value.Index); r.Value.IsUnary() {
		one.value = uint32(len(sl.unaryResponses))
		sl.unaryResponses = append(sl.unaryResponses, r.Value.Bits)
	}
	return nil
}

// response returns the response of a line, as respond has stored it.
func (sl *selling) response(one line) event.Response {
	if sl.unaryResponses != nil {
		return event.Response{Value: event.Value{Bits: sl.unaryResponses[one.value]}, Method: one.method}
	}
	return event.Response{Value: event.Value{Index: int(one.value)}, Method: one.method}
}

// record writes the events of the sale: the name of a new buyer, the bindings, the sale, its
// objects, the refusals, and the settlement of the request. It runs in the transaction after
// decide.
func (sl *selling) record(s *state.State) error {
	named, d := sl.deal(s)
	if sl.Reserved != 0 {
		d.Sale = sl.Reserved // a captured reservation keeps its number
	}
	for _, one := range sl.lines {
		sl.end.Counts[one.verdict]++
	}
	sl.sale, sl.end.Sale = d.Sale, d.Sale
	if _, _, err := fold.Record(s, named); err != nil {
		return err
	}
	if err := sl.recordBindings(s); err != nil { // first, because the sale is followed directly by its objects
		return err
	}
	if _, _, err := fold.Record(s, []event.Change{&event.SaleMade{Deal: d, Tally: sl.sum.tally}}); err != nil {
		return err
	}
	if err := sl.recordSold(s); err != nil {
		return err
	}
	_, _, err := fold.Record(s, AppendSettled(nil, sl.question.Number, sl.refused.Listed, sl.end))
	return err
}

// recordBindings writes the events that bind chains to their true values.
func (sl *selling) recordBindings(s *state.State) error {
	_, _, err := fold.Record(s, sl.bindings)
	return err
}

// recordSold writes the events that hand out the responses, part by part. page has capacity for a
// whole part. So it is not moved while changes has pointers into it.
func (sl *selling) recordSold(s *state.State) error {
	capacity := min(len(sl.lines), state.PartSize)
	page, changes := make([]event.Sold, 0, capacity), make([]event.Change, 0, capacity)
	left := sl.lines // the lines that are not recorded yet
	return sl.eachPart(func(from int, names []string) error {
		defer sl.reportProgress(true, from+len(names))
		page, changes = page[:0], changes[:0]
		for len(left) > 0 && int(left[0].at) < from+len(names) {
			one := left[0]
			left = left[1:]
			sold := event.Sold{Object: sl.names[one.at], Sale: sl.sale, Price: one.price, Response: sl.response(one)}
			page = append(page, sold)
			changes = append(changes, &page[len(page)-1])
		}
		_, _, err := fold.Record(s, changes)
		return err
	})
}

// eachPart calls visit for each part of the names. from is the index of the first name of the part.
func (sl *selling) eachPart(visit func(from int, names []string) error) error {
	from := 0
	for some := range slices.Chunk(sl.names, state.PartSize) {
		if err := visit(from, some); err != nil {
			return err
		}
		from += len(some)
	}
	return nil
}

// deal returns the terms of a sale or reservation under the next number. If the buyer is new to the
// ledger, it also returns the event that names it. Otherwise there is no event.
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

// add adds the limits to the canonical form of a request. An absent limit differs from every
// present one.
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

// checkRange returns an error if the price is negative or the quote ID is too long.
func (m limits) checkRange() error {
	if m.maxPrice != nil && *m.maxPrice < 0 {
		return errs.Invalid("MaxPrice is %d: it must not be negative", *m.maxPrice)
	}
	if len(m.quoteID) > event.MaxNameBytes {
		return errs.Invalid("QuoteID has %d bytes: at most %d are possible", len(m.quoteID), event.MaxNameBytes)
	}
	return nil
}

// accept returns an error if the buyer does not agree to the trade as it was assessed. A trade with
// refusals that is not partial, or without objects, is refused. Another price above the limit, or
// another quote than expected, gives a [*api.QuoteError].
func (t *trade) accept(m limits) error {
	if t.refused.Count() > 0 && !m.partial || t.sum.objects == 0 {
		return t.refuse(t.refused)
	}
	if m.quoteID == "" && m.maxPrice == nil {
		return nil
	}
	if lacking := t.refusedWithoutTruth(); m.quoteID != "" && lacking.Count() > 0 {
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
