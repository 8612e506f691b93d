package ledger

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/rrchain"
)

// SellRequest asks to carry an order out.
type SellRequest struct {
	Key string `json:"-"` // idempotency key, 1 to 256 bytes: your order's id, say
	Order
	Partial bool `json:"partial,omitempty"` // leave refused objects out, rather than refuse the order
	// QuoteID, if set, sells exactly what was quoted under this ID, or nothing. A quote asks for no truths: if
	// the host turns out to have none of somebody quoted, the order is refused for want of it.
	QuoteID string `json:"quote_id,omitempty"`
	// MaxPrice: if set, the most to be paid in all, in minor units of the currency
	MaxPrice *int64 `json:"max_price,omitempty"`
	// Truth is asked for the objects whose current level lies below ε.
	Truth TruthFunc `json:"-"`
	// Progress, if set, is told how many objects are dealt with, of how many in all: each counts twice, once when it is
	// looked at and drawn, and once when that is recorded.
	Progress Progress `json:"-"`
}

// Sale is an order carried out.
type Sale struct {
	Number  uint64 `json:"sale"`    // 1, 2, …; shared with reservations
	Ordinal uint64 `json:"ordinal"` // its place among the sales and reservations of its buyer, from 1: its number for the buyer
	Offer
	// Refund is what a reservation promised to cost beyond the price: for objects left out, or held by
	// the buyer by now. What was delivered is not refunded.
	Refund int64 `json:"refund"`
	// Refused are the objects of the order that are left out, in the order of their names: those that this request refused, and
	// of a reservation that was captured also those that were refused when it was granted. It is empty if neither was partial.
	Refused                    []Refusal `json:"refused"`
	TruthChanged, TruthInvalid []string  `json:"-"`     // of those refused, for the host alone: see [RaiseResult]
	Key                        string    `json:"key"`   // of the request
	Time                       time.Time `json:"time"`  // in UTC, as the log has it
	First                      uint64    `json:"first"` // first and last event
	Last                       uint64    `json:"last"`  // as First
}

// Sell carries an order out, in one transaction: it draws the responses that are not recorded yet,
// charges their ε to the objects, credits the objects with the price and hands the responses to the
// buyer, who reads them with [Ledger.Deliveries]. If any object is refused, nothing happens, unless
// the request is partial. Prices are those of [Ledger.Quote]: as long as terms stay as they are, the buyer has paid for each
// object the price of the highest level held, in whatever order levels were bought.
//
// Errors: [*RefusedError], [*QuoteError], [ErrUnknown], [ErrInvalid], [ErrKeyConflict],
// [ErrTruthSource] and the error of the Truth function: with these nothing was drawn, charged or recorded. After any other, repeat the request with its key.
func (l *Ledger) Sell(ctx context.Context, r SellRequest) (Sale, error) {
	x, form, err := l.newSelling(ctx, "sell", r.Key, r.Order, limits{r.QuoteID, r.MaxPrice, r.Partial})
	if err != nil {
		return Sale{}, err
	}
	x.id, x.truth, x.progress = form.Finish(), r.Truth, r.Progress
	return x.run(ctx)
}

// newSelling begins to sell or reserve an order. It returns also the beginning of the request's form.
func (l *Ledger) newSelling(ctx context.Context, operation, key string, o Order, m limits) (*selling, *event.Form, error) {
	if l.engine.ReadOnly {
		return nil, nil, ErrReadOnly
	}
	if err := errors.Join(names.Check("idempotency key", key), m.check()); err != nil {
		return nil, nil, err
	}
	t, err := l.newTrade(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	f := t.form(operation)
	m.add(f)
	t.key, t.leaves, t.quoting = key, m.partial, m.quoteID != "" || m.maxPrice != nil
	return &selling{trade: t, limits: m}, f, nil
}

// selling is a trade being carried out.
type selling struct {
	*trade
	limits
	id      event.Identity
	truth   TruthFunc
	needy   rules.Needy // of those prechecked
	truths  rules.Told
	asOf    uint64 // the last event when those were looked at
	through uint64
	bound   []event.Change // what binds chains to their truths
	rows    []rrchain.Bits // the responses, in unary encoding
	sale    uint64         // its number

	progress Progress // may be nil
	report   Progress // has progress called, outside of the commit
}

// tell says how many objects are drawn for, or recorded after all are.
func (x *selling) tell(recorded bool, done int) {
	if recorded {
		done += len(x.names)
	}
	x.report(done, 2*len(x.names))
}

func (x *selling) run(ctx context.Context) (Sale, error) {
	number, err := request.UntilSettled(func() (uint64, error) { return x.attempt(ctx) })
	if err != nil {
		return Sale{}, x.instead(ctx, err)
	}
	sale, err := x.ledger.Sale(context.WithoutCancel(ctx), number) // it is done, whatever has become of ctx
	sale.TruthChanged, sale.TruthInvalid = x.faults.Among(sale.Refused)
	return sale, err
}

// attempt looks, asks for truths if they are needed, and decides. It returns the number of the sale.
func (x *selling) attempt(ctx context.Context) (number uint64, err error) {
	defer x.truths.Forget()
	if number, err = x.precheck(ctx); err != nil || number != 0 {
		return number, err
	}
	if err := x.ask(ctx); err != nil {
		return 0, err
	}
	x.lines = nil // they are looked at again
	err = callback.WithProgress(ctx, x.progress, func(ctx context.Context, report callback.Progress) error {
		x.report = report
		_, _, err := x.ledger.engine.Propose(ctx, &engine.Proposal{
			Decide: func(s *state.State) ([]event.Change, error) { return nil, x.decide(ctx, s) },
			Record: x.record,
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	return x.sale, nil
}

// precheck looks at the order without truths. It returns the number of the sale if the key has one.
func (x *selling) precheck(ctx context.Context) (done uint64, err error) {
	err = x.ledger.engine.View(ctx, func(s *state.State) error {
		st, err := request.StandingOf(s, x.key, x.id)
		if err != nil {
			return err
		}
		if st.Done {
			done, err = request.SettledSale(s, st.Last)
			return err
		}
		x.at, x.asOf, x.through = s.Clock, s.Counters.Events, st.Through
		if x.Reserved != 0 {
			if err := x.recall(s); err != nil {
				return err
			}
		}
		x.needy = rules.Needy{}
		if err := x.convene(s, x.through, x.at, x.addNeedy); err != nil {
			return err
		}
		m := x.limits
		if m.partial && !x.reserving {
			m.maxPrice = nil // those without a truth will cost nothing
		}
		return x.accept(m)
	})
	return done, err
}

// addNeedy notes an object whose response is drawn from the truth.
func (x *selling) addNeedy(o rules.Subject, one *line) {
	if one.verdict == event.Drawn {
		x.needy.Add(o.Name, o.Chain.Bond())
	}
}

// ask fetches the truths that draws will need, in batches.
func (x *selling) ask(ctx context.Context) error {
	var later rules.Later
	for batch := range x.needy.Batches() {
		values, err := x.ledger.rules.Ask(ctx, x.Question, x.truth, batch, &x.faults)
		if later.Is(err) {
			continue
		}
		if err != nil {
			return err
		}
		x.truths.Add(batch.Names, values)
	}
	if later.Err != nil {
		return later.Err
	}
	x.needy = rules.Needy{}
	if err := x.ledger.engine.View(ctx, x.dropUntold); err != nil {
		return err
	}
	return x.accept(x.limits)
}

// dropUntold refuses the lines that need a truth the host does not have.
func (x *selling) dropUntold(s *state.State) error {
	lines, kept := x.lines, x.lines[:0]
	for _, one := range lines {
		truth, asked := x.truths.Of(x.names[one.at])
		if one.verdict == event.Drawn && !asked {
			return request.ErrOvertaken
		}
		if one.verdict == event.Drawn && truth == rules.NoTruth {
			refusal, err := x.refuseUntold(s, x.names[one.at])
			if err != nil {
				return err
			}
			x.refused.Add(*refusal)
			continue
		}
		kept = append(kept, one)
	}
	if x.lines = kept; len(kept) < len(lines) {
		x.recount()
	}
	return nil
}

// refuseUntold refuses an object that there is no truth of, or for what else it would be refused by now.
func (x *selling) refuseUntold(s *state.State, name string) (*Refusal, error) {
	o, refusal, err := x.ledger.rules.Subject(s, x.Question, name, x.order.Epsilon)
	if err != nil || refusal != nil {
		return refusal, err
	}
	return x.ledger.rules.LacksTruth(s, &o, x.asking(&o, x.at), x.Offer(s, &o))
}

// decide looks at everybody again, in the transaction, and draws. All that can be refused is refused here.
func (x *selling) decide(ctx context.Context, s *state.State) error {
	if st, err := request.StandingOf(s, x.key, x.id); err != nil {
		return err
	} else if st.Done {
		return request.ErrOvertaken
	}
	if x.Reserved != 0 {
		if _, err := request.OpenReservation(s, x.Reserved); err != nil {
			return err
		}
	}
	halted, err := x.reassess(ctx, s, rules.Earlier(x.at, s.Clock))
	if err != nil {
		return err
	}
	if err := x.dropUntold(s); err != nil {
		return err
	}
	if err := x.accept(x.limits); err != nil {
		return err
	}
	if x.sum.price > math.MaxInt64-s.Counters.Revenue {
		return errs.Invalid("the revenue would be more than can be counted")
	}
	return halted
}

// reassess says in the transaction what the order means for each object. It draws the responses too, as long as it looks as
// if they will be sold. halted is why one could not be drawn.
func (x *selling) reassess(ctx context.Context, s *state.State, at time.Time) (halted, err error) {
	if err := x.anew(s); err != nil {
		return nil, err
	}
	x.bound, x.rows = nil, nil
	err = x.eachPart(func(from int, names []string) error {
		defer x.tell(false, from+len(names))
		return x.assessPart(s, from, names, at, func(o rules.Subject, one *line) {
			if halted == nil {
				halted = x.respond(ctx, s, o, one)
			}
		})
	})
	if errors.Is(err, errDecided) {
		err = nil
	}
	return halted, err
}

// respond fills in the response of a line, unless it needs a truth that is not there.
func (x *selling) respond(ctx context.Context, s *state.State, o rules.Subject, one *line) error {
	if err := ctx.Err(); err != nil {
		return err // nothing has happened yet
	}
	truth, asked := x.truths.Of(o.Name)
	if one.verdict == event.Drawn && (!asked || truth == rules.NoTruth) {
		return nil
	}
	if one.verdict == event.Drawn && !x.ledger.rules.StillFits(x.Question, &o.Chain, o.Name, truth, x.asOf) {
		return request.ErrOvertaken // it is about another one since
	}
	r, first, err := x.ledger.rules.Respond(s.Chances, x.Question, &o, x.order.Epsilon, truth)
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

// record records what was decided.
func (x *selling) record(s *state.State) error {
	end := x.settle(s)
	named, d := x.begin(s)
	if x.Reserved != 0 {
		d.Sale = x.Reserved
	}
	for _, one := range x.lines {
		end.Counts[one.verdict]++
	}
	x.sale, end.Sale = d.Sale, d.Sale
	if _, _, err := fold.Record(s, named); err != nil {
		return err
	}
	if err := x.recordBound(s); err != nil { // before the sale, which its objects follow
		return err
	}
	if _, _, err := fold.Record(s, []event.Change{&event.SaleMade{Deal: d, Tally: x.sum.tally}}); err != nil {
		return err
	}
	if err := x.recordSold(s); err != nil {
		return err
	}
	_, _, err := fold.Record(s, request.Settling(nil, x.Question.Number, x.refused.Listed, end))
	return err
}

// recordBound binds the chains to their truths that are not bound yet.
func (x *selling) recordBound(s *state.State) error {
	_, _, err := fold.Record(s, x.bound)
	return err
}

// recordSold hands out the responses.
func (x *selling) recordSold(s *state.State) error {
	room := min(len(x.lines), state.PartSize)
	page, changes := make([]event.Sold, 0, room), make([]event.Change, 0, room)
	left := x.lines
	return x.eachPart(func(from int, names []string) error {
		defer x.tell(true, from+len(names))
		page, changes = page[:0], changes[:0]
		for len(left) > 0 && int(left[0].at) < from+len(names) {
			one := left[0]
			left = left[1:]
			page = append(page, event.Sold{Object: x.names[one.at], Sale: x.sale, Price: one.price, Response: x.response(one)})
			changes = append(changes, &page[len(page)-1])
		}
		_, _, err := fold.Record(s, changes)
		return err
	})
}

// eachPart passes the objects to visit, part by part, each with its place among the names.
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

// settle makes the event that ends the request.
func (x *selling) settle(s *state.State) *event.Settled {
	end := &event.Settled{Key: x.key, First: s.Counters.Events + 1, Through: x.through, Final: true}
	end.Of(&x.id)
	if x.Reserved == 0 { // else the request names a reservation
		request.NamesAlone(end, x.names, x.order.All)
	}
	return end
}

// begin returns what a sale or a reservation begins with: the buyer's name, if it is new, and what it is
// about under the next number.
func (t *trade) begin(s *state.State) ([]event.Change, event.Deal) {
	d := event.Deal{Sale: s.Counters.Sales + 1, Buyer: t.Buyer, Question: t.Question.Number, Epsilon: t.order.Epsilon, Objects: t.sum.objects, Price: t.sum.price, Refused: uint64(t.refused.Count())}
	if t.Buyer != 0 {
		return nil, d
	}
	d.Buyer = s.Counters.Buyers + 1
	return []event.Change{&event.BuyerNamed{Number: d.Buyer, Name: t.order.Buyer}}, d
}
