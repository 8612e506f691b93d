package ledger

import (
	"context"
	"time"

	"github.com/sluicedp/sluice/privacy"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// ReserveRequest asks to hold an order for some time.
type ReserveRequest struct {
	Key string `json:"-"` // idempotency key, 1 to 256 bytes
	Order
	For time.Duration `json:"-"` // from when it is granted; above 0; or
	// Until: until when, by the log's time, after the instant at which it is granted. The same
	// order until the same time is the same request
	Until    time.Time `json:"until,omitzero"`
	Partial  bool      `json:"partial,omitempty"`   // as in SellRequest
	QuoteID  string    `json:"quote_id,omitempty"`  // of the quote that the buyer saw, as in SellRequest
	MaxPrice *int64    `json:"max_price,omitempty"` // as in SellRequest
}

// Reservation is an order held: until it expires, the budget it needs counts as spent for everybody
// else, and its price does not rise.
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
	// Refused are the objects of the order that are left out, in the order of their names: those
	// that were refused when it was granted, and once it is captured also those that the capture
	// refused, as in [Sale]. It is empty if neither request was partial.
	Refused []Refusal `json:"refused"`
	Key     string    `json:"key"`     // of the request
	Expires time.Time `json:"expires"` // in UTC; the first instant at which it holds nothing
	First   uint64    `json:"first"`   // first and last event
	Last    uint64    `json:"last"`    // as First
}

// Reserve holds budget and price of an order for some time, so that the buyer can pay meanwhile.
// Nothing is drawn and no truth is asked for. [Ledger.Capture] carries the order out,
// [Ledger.Cancel] gives it up; what expires frees itself, and what an object has when it withdraws
// ends with that. If terms change meanwhile ([Ledger.ChangeTerms]), the price stays, and so does
// whatever else was checked; but budget that was taken back is no longer held. Errors are those of
// [Ledger.Sell], and a [*ReservationError] if the request was granted before and its reservation is
// not open any more. So the reservation was open during a call of Reserve that returns no error,
// and the buyer may be charged. Repeated with its key, Reserve returns the same while the
// reservation is open. After it was captured, cancelled or has expired, Reserve returns the error,
// and nothing may be charged.
//
// What open reservations will add to the chains of their objects counts as added for other
// requests: see [Full]. Its time is that of the log: after a clock that was ahead has been put
// right, a reservation lasts that much longer, unless it is cancelled.
func (l *Ledger) Reserve(ctx context.Context, r ReserveRequest) (Reservation, error) {
	number, err := l.requests.Reserve(ctx, request.Reserve{
		Key: r.Key, Order: request.Order(r.Order), Term: request.Term{For: r.For, Until: r.Until},
		Limits: request.Limits{QuoteID: r.QuoteID, MaxPrice: r.MaxPrice, Partial: r.Partial},
	})
	if err != nil {
		return Reservation{}, l.orderError(err)
	}
	// It is durable, even if ctx has ended.
	return l.readReservation(context.WithoutCancel(ctx), number, request.AsGranted)
}

// Reservation returns a reservation with its present state, or [ErrUnknown]. Reservations are kept
// for good.
func (l *Ledger) Reservation(ctx context.Context, number uint64) (Reservation, error) {
	return l.readReservation(ctx, number, request.Reservation)
}

// readReservation reads a reservation, which find returns or refuses.
func (l *Ledger) readReservation(
	ctx context.Context, number uint64, find func(*state.State, uint64) (state.Sale, error),
) (Reservation, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (Reservation, error) {
		r, err := find(s, number)
		if err != nil {
			return Reservation{}, err
		}
		return l.describeReserved(s, number, r)
	})
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
		Number: number, Ordinal: r.Ordinal, State: r.ReservationState(s.Now), Epsilon: c.Epsilon, Price: int64(c.Price),
		Currency: l.documents.About.Currency, Objects: c.Objects, Refused: left, Key: end.Key, Expires: c.Expires,
		First: end.First, Last: last,
	}
	out.Buyer, out.Question, err = s.NamesOf(r)
	return out, err
}

// CaptureRequest asks to carry a reservation out.
type CaptureRequest struct {
	Key         string `json:"-"` // idempotency key, 1 to 256 bytes; not that of the reservation
	Reservation uint64 `json:"-"` // its number
	// Partial leaves out objects that cannot answer any more, because they have withdrawn, their
	// terms allow less than when they were reserved, their noise key is lost or the host has no
	// truth of them. Their price is refunded.
	Partial  bool      `json:"partial,omitempty"`
	Truth    TruthFunc `json:"-"` // as of a [SellRequest]
	Progress Progress  `json:"-"` // as of a [SellRequest]; optional
}

// Capture carries a reservation out, as [Ledger.Sell] does an order. For each object the price is
// the reserved one, whatever its terms say now, less what the buyer has paid for it since. Besides
// the errors of Sell there is [*ReservationError], when the reservation has expired, was cancelled
// or was captured under another key.
func (l *Ledger) Capture(ctx context.Context, r CaptureRequest) (Sale, error) {
	number, faults, err := l.requests.Capture(ctx, request.Capture(r))
	return l.sold(ctx, number, faults, err)
}

// Cancel gives a reservation up: what it holds is free again, and nothing of it is to be paid. It
// can be used to settle the matter for good when a reservation has expired, before the host acts on
// it: a reservation that has expired by a clock that was ahead could otherwise hold again when that
// is put right. It returns a [*ReservationError] if the reservation was captured, or was cancelled
// under another key, and [ErrUnknown] if there never was one. key is the request's own, not that of
// the reservation.
func (l *Ledger) Cancel(ctx context.Context, key string, reservation uint64) error {
	return l.requests.Cancel(ctx, key, reservation)
}
