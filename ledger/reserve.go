package ledger

import (
	"context"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// ReserveRequest asks to hold an order for some time.
type ReserveRequest struct {
	Key string `json:"-"` // idempotency key, 1 to 256 bytes
	Order
	For time.Duration `json:"-"` // from when it is granted; above 0; or
	// Until: until when, by the log's time, after the instant at which it is granted. The same order
	// until the same time is the same request
	Until    time.Time `json:"until,omitzero"`
	Partial  bool      `json:"partial,omitempty"`   // as in SellRequest
	QuoteID  string    `json:"quote_id,omitempty"`  // of the quote that the buyer saw, as in SellRequest
	MaxPrice *int64    `json:"max_price,omitempty"` // as in SellRequest
}

// Reservation is an order held: until it expires, the budget it needs counts as spent for everybody else,
// and its price does not rise.
type Reservation struct {
	Number   uint64           `json:"sale"`     // the sale has the same number, once State is [ReservationCaptured]
	Ordinal  uint64           `json:"ordinal"`  // as in [Sale]
	State    ReservationState `json:"state"`    // when it was read
	Buyer    string           `json:"buyer"`    // by its name
	Question string           `json:"question"` // by its name
	Epsilon  privacy.Epsilon  `json:"epsilon"`  // of the responses
	Price    int64            `json:"price"`    // at most, in minor units of the currency
	Currency string           `json:"currency"` // the ledger's
	Objects  uint64           `json:"objects"`  // that it held when it was granted
	// Refused are the objects of the order that are left out, in the order of their names: those that were refused when it
	// was granted, and once it is captured also those that the capture refused, as in [Sale]. It is empty if neither
	// request was partial.
	Refused []Refusal `json:"refused"`
	Key     string    `json:"key"`     // of the request
	Expires time.Time `json:"expires"` // in UTC; the first instant at which it holds nothing
	First   uint64    `json:"first"`   // first and last event
	Last    uint64    `json:"last"`    // as First
}

// Reserve holds budget and price of an order for some time, so that the buyer can pay meanwhile. Nothing
// is drawn and no truth is asked for. [Ledger.Capture] carries the order out, [Ledger.Cancel] gives it
// up; what expires frees itself, and what an object has when it withdraws ends with that. If terms change meanwhile
// ([Ledger.ChangeTerms]), the price stays, and so does whatever else was checked; but budget that was taken back is no longer held.
// Errors are those of [Ledger.Sell], and a [*ReservationError] if the request was granted before and its reservation is
// not open any more. So the reservation was open during a call of Reserve that returns no error, and the buyer may be charged.
// Repeated with its key, Reserve returns the same while the reservation is open. After it was captured, cancelled or has
// expired, Reserve returns the error, and nothing may be charged.
//
// What open reservations will add to the chains of their objects counts as added for other requests: see [Full].
// Its time is that of the log: after a clock that was ahead has been put right, a reservation lasts that
// much longer, unless it is cancelled.
func (l *Ledger) Reserve(ctx context.Context, r ReserveRequest) (Reservation, error) {
	term := request.Term{For: r.For, Until: r.Until}
	if err := term.Check(); err != nil {
		return Reservation{}, err
	}
	x, form, err := l.newSelling(ctx, "reserve", r.Key, r.Order, limits{r.QuoteID, r.MaxPrice, r.Partial})
	if err != nil {
		return Reservation{}, err
	}
	form.Field("For").U64(uint64(r.For))
	if !r.Until.IsZero() {
		form.Field("Until").U64(uint64(r.Until.UnixNano()))
	}
	x.id, x.reserving = form.Finish(), true
	if x.order.All || len(x.names) > state.PartSize {
		// Nobody else waits while a refusal is found out outside of the transaction.
		if _, err := x.precheck(ctx); err != nil {
			return Reservation{}, x.instead(ctx, err)
		}
	}
	var number uint64
	_, _, err = l.engine.Submit(ctx, func(s *state.State) ([]event.Change, error) {
		st, err := request.StandingOf(s, x.key, x.id)
		if err != nil {
			return nil, err
		}
		if st.Done {
			if number, err = request.SettledSale(s, st.Last); err == nil {
				_, err = request.OpenReservation(s, number)
			}
			return nil, err
		}
		x.through = st.Through
		expires, err := term.Expires(s.Now)
		if err != nil {
			return nil, err
		}
		changes, made, err := x.reserve(s, expires)
		number = made
		return changes, err
	})
	if err != nil {
		return Reservation{}, x.instead(ctx, err)
	}
	return l.readReservation(context.WithoutCancel(ctx), number, request.AsGranted) // it is done, whatever has become of ctx
}

// reserve makes the events of the reservation.
func (x *selling) reserve(s *state.State, expires time.Time) ([]event.Change, uint64, error) {
	if expires.Year() > event.LastYear {
		return nil, 0, errs.Invalid("a reservation until %v", expires)
	}
	var under []uint32 // the policies of those who take part
	note := func(o rules.Subject, _ *line) { under = append(under, o.Chain.Policy) }
	if err := x.convene(s, x.through, s.Clock, note); err != nil {
		return nil, 0, err
	}
	if err := x.accept(x.limits); err != nil {
		return nil, 0, err
	}
	end := x.settle(s)
	changes, d := x.begin(s)
	changes = append(changes, &event.Reserved{Deal: d, Expires: expires})
	for i, one := range x.lines {
		changes = append(changes, &event.Held{Object: x.names[one.at], Sale: d.Sale, Price: one.price, Policy: under[i]})
	}
	end.Sale = d.Sale
	return request.Settling(changes, x.Question.Number, x.refused.Listed, end), d.Sale, nil
}

// Reservation returns a reservation with its present state, or [ErrUnknown]. Reservations are kept for good.
func (l *Ledger) Reservation(ctx context.Context, number uint64) (Reservation, error) {
	return l.readReservation(ctx, number, request.Reservation)
}

// readReservation reads a reservation, which find returns or refuses.
func (l *Ledger) readReservation(ctx context.Context, number uint64, find func(*state.State, uint64) (state.Sale, error)) (Reservation, error) {
	var out Reservation
	err := l.engine.View(ctx, func(s *state.State) error {
		r, err := find(s, number)
		if err == nil {
			out, err = l.describeReserved(s, number, r)
		}
		return err
	})
	if err != nil {
		return Reservation{}, err
	}
	return out, nil
}

// describeReserved returns a reservation as hosts read it.
func (l *Ledger) describeReserved(s *state.State, number uint64, r state.Sale) (out Reservation, err error) {
	begun, err := s.Event(r.Granted)
	if err != nil {
		return out, err
	}
	c, ok := begun.Change.(*event.Reserved)
	if !ok {
		return out, errs.Corrupt(nil, "event %d makes no reservation", begun.Number)
	}
	last := begun.Number + c.Objects + c.Refused + 1
	end, err := s.Settlement(last)
	if err != nil {
		return out, err
	}
	left, err := request.OrderRefusals(s, r)
	if err != nil {
		return out, err
	}
	out = Reservation{
		Number: number, Ordinal: r.Ordinal, State: r.ReservationState(s.Now), Epsilon: c.Epsilon, Price: int64(c.Price), Currency: l.prover.About.Currency, Objects: c.Objects,
		Refused: left, Key: end.Key, Expires: c.Expires, First: end.First, Last: last,
	}
	out.Buyer, out.Question, err = s.NamesOf(r)
	return out, err
}

// CaptureRequest asks to carry a reservation out.
type CaptureRequest struct {
	Key         string `json:"-"` // idempotency key, 1 to 256 bytes; not that of the reservation
	Reservation uint64 `json:"-"` // its number
	// Partial leaves out objects that cannot answer any more, because they have withdrawn, their terms allow less than when they
	// were reserved, their noise key is lost or the host has no truth of them. Their price is refunded.
	Partial  bool      `json:"partial,omitempty"`
	Truth    TruthFunc `json:"-"` // as of a [SellRequest]
	Progress Progress  `json:"-"` // as of a [SellRequest]; optional
}

// Capture carries a reservation out, as [Ledger.Sell] does an order. For each object the price is the
// reserved one, whatever its terms say now, less what the buyer has paid for it since. Besides the errors of Sell there is
// [*ReservationError], when the reservation has expired, was cancelled or was captured under another key.
func (l *Ledger) Capture(ctx context.Context, r CaptureRequest) (Sale, error) {
	if l.engine.ReadOnly {
		return Sale{}, ErrReadOnly
	}
	if err := names.Check("idempotency key", r.Key); err != nil {
		return Sale{}, err
	}
	if r.Reservation == 0 {
		return Sale{}, errs.Invalid("no reservation is given")
	}
	x := &selling{
		trade:  &trade{ledger: l, key: r.Key, leaves: r.Partial, Bid: rules.Bid{Reserved: r.Reservation}},
		limits: limits{partial: r.Partial}, truth: r.Truth, id: event.CaptureRequest(r.Reservation, r.Partial), progress: r.Progress,
	}
	return x.run(ctx)
}

// recall reads what was reserved into the trade.
func (x *selling) recall(s *state.State) error {
	r, err := request.OpenReservation(s, x.Reserved)
	if err != nil {
		return err
	}
	if x.Question, err = s.Question(r.Question); err != nil {
		return err
	}
	x.order = Order{Epsilon: r.Epsilon}
	if x.order.Buyer, x.order.Question, err = s.NamesOf(r); err != nil {
		return err
	}
	x.Client, x.Epsilon, x.Granted, x.names, x.promised = x.order.Buyer, r.Epsilon, r.Granted, nil, nil
	var gone request.RefusalList
	for n := r.Event + 1; n <= r.Event+r.Objects; n++ {
		ev, err := s.Event(n)
		if err != nil {
			return err
		}
		c, ok := ev.Change.(*event.Held)
		if !ok {
			return errs.Corrupt(nil, "event %d reserves nothing", n)
		}
		if ev.Erased != nil {
			gone.Add(Refusal{Reason: Withdrawn, Asked: r.Epsilon, Remedy: vocabulary.RemedyNothing}) // it was forgotten, its name too
			continue
		}
		x.names, x.promised = append(x.names, c.Object), append(x.promised, c.Policy)
	}
	if gone.Count() > 0 && (!x.partial || len(x.names) == 0) {
		return x.ledger.refuse(x.asker(), x.Question, r.Epsilon, &gone, &x.faults)
	}
	return nil
}

// Cancel gives a reservation up: what it holds is free again, and nothing of it is to be paid. It can be
// used to settle the matter for good when a reservation has expired, before the host acts on it: a
// reservation that has expired by a clock that was ahead could otherwise hold again when that is put
// right. It returns a [*ReservationError] if the reservation was captured, or was cancelled under another key,
// and [ErrUnknown] if there never was one. key is the request's own, not that of the reservation.
func (l *Ledger) Cancel(ctx context.Context, key string, reservation uint64) error {
	return request.Once(ctx, &l.engine, key, "", event.CancelRequest(reservation), func(s *state.State) (event.Change, error) {
		r, err := request.Reservation(s, reservation)
		if err == nil && r.Status != state.SaleReserved {
			err = request.ClosedReservation(reservation, r, s.Now)
		}
		if err != nil {
			return nil, err
		}
		return &event.Cancelled{Sale: reservation}, nil
	})
}
