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

// Reserve holds budget and price of an order for some time, so that the buyer can pay before the
// sale. Nothing is drawn and no true value is requested. [Ledger.Capture] sells the order, and
// [Ledger.Cancel] gives it up. An expired reservation holds nothing, and what is held of an object
// ends when the object withdraws. If terms change while it is held ([Ledger.ChangeTerms]), the
// price stays, and so does everything else that was checked. But budget that the new terms no
// longer allow is no longer held.
//
// Errors are those of [Ledger.Sell], and a [*api.ReservationError] if the request was granted
// before and its reservation is not open any more. If Reserve returns no error, the reservation was
// open during the call, and the buyer may be charged. A repeated call with the same key returns the
// same while the reservation is open. After the reservation was captured, was cancelled or has
// expired, it returns the error, and the buyer must not be charged.
//
// What open reservations will add to the chains of their objects counts for other requests as if it
// were already added: see [api.Full]. Reservations expire by the time of the log. If the clock was
// ahead and has been put right, a reservation lasts longer by that difference, unless it is
// cancelled.
func (l *Ledger) Reserve(ctx context.Context, r api.ReserveRequest) (api.Reservation, error) {
	number, err := l.requests.Reserve(ctx, r)
	if err != nil {
		return api.Reservation{}, err
	}
	// The reservation is durable, and is returned even if ctx has ended.
	return l.readReservation(context.WithoutCancel(ctx), number, request.AsGranted)
}

// Reservation returns a reservation with its current state, or [api.ErrUnknown]. Reservations are
// kept for good.
func (l *Ledger) Reservation(ctx context.Context, number uint64) (api.Reservation, error) {
	return l.readReservation(ctx, number, request.Reservation)
}

// readReservation reads the reservation with a number. find returns its record, or an error if it
// is not one that the caller wants.
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

// describeReserved returns the reservation with a number, whose record is r, as hosts read it. Its
// figures are those of the events that granted and settled it.
func (l *Ledger) describeReserved(s *state.State, number uint64, r state.Sale) (out api.Reservation, err error) {
	begun, err := s.Event(r.Granted)
	if err != nil {
		return out, err
	}
	c, ok := begun.Change.(*event.Reserved)
	if !ok {
		return out, errs.Corrupt(nil, "event %d is not a reservation", begun.Number)
	}
	// The events of its objects and its refusals are between the two.
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

// Capture sells a reserved order, as [Ledger.Sell] sells an order. For each object the price is the
// reserved one, even if its terms have changed, less what the buyer has paid for the object since.
// In addition to the errors of Sell, Capture returns a [*api.ReservationError] if the reservation
// has expired, was cancelled or was captured under another key.
func (l *Ledger) Capture(ctx context.Context, r api.CaptureRequest) (api.Sale, error) {
	number, faults, err := l.requests.Capture(ctx, r)
	return l.sold(ctx, number, faults, err)
}

// Cancel gives up a reservation: what it holds is released, and nothing of it is to be paid. It can
// also be used on an expired reservation, before the host acts on the expiry. Otherwise a
// reservation that expired by a clock that was ahead could hold again after the clock is put right.
//
// Cancel returns a [*api.ReservationError] if the reservation was captured, or was cancelled under
// another key. It returns [api.ErrUnknown] if the reservation does not exist. key is the key of
// this request, not the key of the reservation.
func (l *Ledger) Cancel(ctx context.Context, key string, reservation uint64) error {
	return l.requests.Cancel(ctx, key, reservation)
}
