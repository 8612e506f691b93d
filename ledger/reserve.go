package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Reserve holds budget and price of an order for some time, so that the buyer can pay meanwhile.
// Nothing is drawn and no truth is asked for. [Ledger.Capture] carries the order out,
// [Ledger.Cancel] gives it up; what expires frees itself, and what an object has when it withdraws
// ends with that. If terms change meanwhile ([Ledger.ChangeTerms]), the price stays, and so does
// whatever else was checked; but budget that was taken back is no longer held. Errors are those of
// [Ledger.Sell], and a [*api.ReservationError] if the request was granted before and its reservation is
// not open any more. So the reservation was open during a call of Reserve that returns no error,
// and the buyer may be charged. Repeated with its key, Reserve returns the same while the
// reservation is open. After it was captured, cancelled or has expired, Reserve returns the error,
// and nothing may be charged.
//
// What open reservations will add to the chains of their objects counts as added for other
// requests: see [api.Full]. Its time is that of the log: after a clock that was ahead has been put
// right, a reservation lasts that much longer, unless it is cancelled.
func (l *Ledger) Reserve(ctx context.Context, r api.ReserveRequest) (api.Reservation, error) {
	number, err := l.requests.Reserve(ctx, r)
	if err != nil {
		return api.Reservation{}, err
	}
	// It is durable, even if ctx has ended.
	return l.readReservation(context.WithoutCancel(ctx), number, request.AsGranted)
}

// Reservation returns a reservation with its present state, or [api.ErrUnknown]. Reservations are kept
// for good.
func (l *Ledger) Reservation(ctx context.Context, number uint64) (api.Reservation, error) {
	return l.readReservation(ctx, number, request.Reservation)
}

// readReservation reads a reservation, which find returns or refuses.
func (l *Ledger) readReservation(
	ctx context.Context, number uint64, find func(*state.State, uint64) (state.Sale, error),
) (api.Reservation, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (api.Reservation, error) {
		r, err := find(s, number)
		if err != nil {
			return api.Reservation{}, err
		}
		return l.describeReserved(s, number, r)
	})
}

// describeReserved returns a reservation as hosts read it.
func (l *Ledger) describeReserved(s *state.State, number uint64, r state.Sale) (out api.Reservation, err error) {
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
	out = api.Reservation{
		Number: number, Ordinal: r.Ordinal, State: r.ReservationState(s.Now), Epsilon: c.Epsilon, Price: int64(c.Price),
		Currency: l.documents.About.Currency, Objects: c.Objects, Refused: left, Key: end.Key, Expires: c.Expires,
		First: end.First, Last: last,
	}
	out.Buyer, out.Question, err = s.NamesOf(r)
	return out, err
}

// Capture carries a reservation out, as [Ledger.Sell] does an order. For each object the price is
// the reserved one, whatever its terms say now, less what the buyer has paid for it since. Besides
// the errors of Sell there is [*api.ReservationError], when the reservation has expired, was cancelled
// or was captured under another key.
func (l *Ledger) Capture(ctx context.Context, r api.CaptureRequest) (api.Sale, error) {
	number, faults, err := l.requests.Capture(ctx, r)
	return l.sold(ctx, number, faults, err)
}

// Cancel gives a reservation up: what it holds is free again, and nothing of it is to be paid. It
// can be used to settle the matter for good when a reservation has expired, before the host acts on
// it: a reservation that has expired by a clock that was ahead could otherwise hold again when that
// is put right. It returns a [*api.ReservationError] if the reservation was captured, or was cancelled
// under another key, and [api.ErrUnknown] if there never was one. key is the request's own, not that of
// the reservation.
func (l *Ledger) Cancel(ctx context.Context, key string, reservation uint64) error {
	return l.requests.Cancel(ctx, key, reservation)
}
