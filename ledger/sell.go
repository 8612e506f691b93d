package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"slices"
	"time"
)

// SellRequest asks to carry an order out.
type SellRequest struct {
	Key string // idempotency key, 1 to 256 bytes: your order's id, say
	Order
	Partial bool // leave refused objects out, rather than refuse the order
	// QuoteID, if set, sells exactly what was quoted under this ID, or nothing. A quote asks for no truths: if
	// the host turns out to have none of somebody quoted, the order is refused for want of it.
	QuoteID  string
	MaxPrice *int64 // if set, the most to be paid in all, in minor units of the currency
	// Truth is asked for the objects whose current level lies below ε.
	Truth TruthFunc
}

// Sale is an order carried out.
type Sale struct {
	Number uint64 `json:"sale"` // 1, 2, …; shared with reservations
	Offer
	// Refund is what a reservation promised to cost beyond the price: for objects left out, or held by
	// the buyer by now. What was delivered is not refunded.
	Refund int64 `json:"refund"`
	// Refused were left out, only if the request was partial. Whom a reservation left out before is in that.
	Refused []Refusal `json:"refused"`
	Key     string    `json:"key"` // of the request
	Time    time.Time `json:"time"`
	First   uint64    `json:"first"` // first and last event
	Last    uint64    `json:"last"`
}

// Sell carries an order out, in one transaction: it draws the responses that are not recorded yet,
// charges their ε to the objects, credits the objects with the price and hands the responses to the
// buyer, who reads them with [Ledger.Deliveries]. If any object is refused, nothing happens, unless
// the request is partial. Prices are those of [Ledger.Quote]; buying in any order of levels, the buyer
// has paid for each object the price of the highest level held.
//
// Errors: [*RefusedError], [*QuoteError], [ErrUnknown], [ErrInvalid], [ErrKeyConflict],
// [ErrTruthChanged], [ErrTruthKey], [ErrTruthSource] and the error of the Truth function: with these
// nothing was drawn, charged or recorded. After any other, repeat the request with its key.
func (l *Ledger) Sell(ctx context.Context, r SellRequest) (Sale, error) {
	x, request, err := l.newSelling(ctx, "sell", r.Key, r.Order, limits{r.QuoteID, r.MaxPrice, r.Partial})
	if err != nil {
		return Sale{}, err
	}
	x.digest, x.truth = request.sum(), r.Truth
	return x.run(ctx)
}

// newSelling begins to sell or reserve an order. It returns also the beginning of the request's digest.
func (l *Ledger) newSelling(ctx context.Context, operation, key string, o Order, m limits) (*selling, *encoder, error) {
	if l.only {
		return nil, nil, ErrReadOnly
	}
	if err := errors.Join(checkName("idempotency key", key), m.check()); err != nil {
		return nil, nil, err
	}
	t, err := l.newTrade(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	e := t.digest(operation)
	m.encode(e)
	return &selling{trade: t, key: key, limits: m}, e, nil
}

// selling is a trade being carried out.
type selling struct {
	*trade
	limits
	key     string
	digest  [sha256.Size]byte
	truth   TruthFunc
	truths  told
	glanced glance // what the survey read
	through uint64
}

func (x *selling) run(ctx context.Context) (Sale, error) {
	number, err := untilSettled(func() (uint64, error) { return x.attempt(ctx) })
	if err != nil {
		return Sale{}, err
	}
	return x.ledger.Sale(context.WithoutCancel(ctx), number) // it is done, whatever has become of ctx
}

// attempt looks, asks for truths if they are needed, and decides. It returns the number of the sale.
func (x *selling) attempt(ctx context.Context) (number uint64, err error) {
	defer x.truths.forget()
	if number, err = x.survey(ctx); err != nil || number != 0 {
		return number, err
	}
	if err := x.ask(ctx); err != nil {
		return 0, err
	}
	x.lines = nil // they are looked at again
	_, _, err = x.ledger.submit(ctx, func(s *state) (changes []change, err error) {
		changes, number, err = x.decide(ctx, s)
		return changes, err
	})
	return number, err
}

// survey looks at the order without truths. It returns the number of the sale if the key has one.
func (x *selling) survey(ctx context.Context) (done uint64, err error) {
	err = x.ledger.view(ctx, func(s *state) error {
		if !x.order.All && x.reserved == 0 {
			x.glanced.begin(s, len(x.names))
		}
		st, err := s.standing(x.key, x.digest)
		if err != nil {
			return err
		}
		if st.done {
			done, err = s.soldBy(st.last)
			return err
		}
		x.at, x.through = s.clock, st.through
		if x.reserved != 0 {
			err = x.recall(s)
		} else {
			err = x.convene(s, x.through)
		}
		if err != nil {
			return err
		}
		if err := x.assess(s, x.at); err != nil {
			return err
		}
		m := x.limits
		if m.partial {
			m.maxPrice = nil // those without a truth will cost nothing
		}
		return x.accept(m)
	})
	return done, err
}

// soldBy returns the number of the sale or reservation that an event settled.
func (s *state) soldBy(number uint64) (uint64, error) {
	end, err := s.settlement(number)
	if err == nil && end.sale == 0 {
		err = orCorrupt(nil, "event %d settles no sale", number)
	}
	if err != nil {
		return 0, err
	}
	return end.sale, nil
}

// ask fetches the truths that draws will need, in batches.
func (x *selling) ask(ctx context.Context) error {
	var needy []string
	for _, one := range x.lines {
		if one.verdict == drawn {
			needy = append(needy, one.name)
		}
	}
	for batch := range slices.Chunk(needy, partSize) {
		values, err := x.ledger.ask(ctx, x.question, x.truth, batch)
		if err != nil {
			return err
		}
		x.truths.add(batch, values)
	}
	if err := x.dropUntold(); err != nil {
		return err
	}
	return x.accept(x.limits)
}

// dropUntold refuses the lines that need a truth the host does not have.
func (x *selling) dropUntold() error {
	kept := x.lines[:0]
	for _, one := range x.lines {
		truth, asked := x.truths.of(one.name)
		if one.verdict == drawn && !asked {
			return errOvertaken
		}
		if one.verdict == drawn && truth == noTruth {
			x.refused = append(x.refused, *lacksTruth(one.name, x.order.Epsilon))
			continue
		}
		kept = append(kept, one)
	}
	x.lines = kept
	x.refused = inOrder(x.refused)
	return nil
}

// decide makes the events of the sale.
func (x *selling) decide(ctx context.Context, s *state) ([]change, uint64, error) {
	x.glanced.show(s)
	if st, err := s.standing(x.key, x.digest); err != nil {
		return nil, 0, err
	} else if st.done {
		return nil, 0, errOvertaken
	}
	if x.reserved != 0 {
		if r, err := s.sale(x.reserved); err != nil || !r.holds(s.now) {
			return nil, 0, notReserved(err, x.reserved)
		}
	}
	if err := x.assess(s, earlier(x.at, s.clock)); err != nil {
		return nil, 0, err
	}
	if err := x.dropUntold(); err != nil {
		return nil, 0, err
	}
	if err := x.accept(x.limits); err != nil {
		return nil, 0, err
	}
	if x.total() > math.MaxInt64-s.counters.revenue {
		return nil, 0, invalid("the revenue would be more than can be counted")
	}
	end := x.settle(s)
	changes, d := x.begin(s)
	if x.reserved != 0 {
		d.sale = x.reserved
	}
	page := make([]sold, 0, len(x.lines)) // in one piece
	for _, one := range x.lines {
		if err := ctx.Err(); err != nil {
			return nil, 0, err // nothing has happened yet
		}
		truth, _ := x.truths.of(one.name)
		r, first, err := x.ledger.respond(s.chances, x.question, one.subject, d.epsilon, truth)
		if err != nil {
			return nil, 0, err
		}
		end.counts[one.verdict]++
		changes = append(changes, first...) // before the sale, which its objects follow
		page = append(page, sold{one.name, d.sale, one.price, r})
	}
	changes = append(slices.Grow(changes, len(page)+2), &saleMade{d, x.tally()}) // and the event that settles the sale
	for i := range page {
		changes = append(changes, &page[i])
	}
	end.sale = d.sale
	return settling(changes, x.refused, end), d.sale, nil
}

// settle makes the event that ends the request.
func (x *selling) settle(s *state) *settled {
	end := &settled{key: x.key, digest: x.digest, first: s.counters.events + 1, through: x.through, final: true}
	if x.reserved == 0 { // else the request names a reservation
		end.names(x.names, x.order.All)
	}
	return end
}

// begin returns what a sale or a reservation begins with: the buyer's name, if it is new, and what it is
// about under the next number.
func (t *trade) begin(s *state) ([]change, deal) {
	d := deal{sale: s.counters.sales + 1, buyer: t.buyer, question: t.question.number, epsilon: t.order.Epsilon, objects: uint64(len(t.lines)), price: t.total(), refused: uint64(len(t.refused))}
	if t.buyer != 0 {
		return nil, d
	}
	d.buyer = s.counters.buyers + 1
	return []change{&buyerNamed{d.buyer, t.order.Buyer}}, d
}
