package market

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/api"
)

// sellByCard sells to a buyer who pays first: it holds budget and price, charges the card, and sells
// what it held.
func (h *host) sellByCard(ctx context.Context, o order) (outcome, error) {
	held, err := h.reserve(ctx, o)
	var closed *api.ReservationError
	if errors.As(err, &closed) {
		return h.endClosed(ctx, o, closed)
	}
	if isRefusal(err) {
		return refusing(err.Error()), nil
	}
	if err != nil {
		return outcome{}, err
	}
	declined, err := h.charge(ctx, o, held)
	if err != nil {
		return outcome{}, err
	}
	if declined != "" {
		return refusing("the card was not charged: " + declined), h.cancel(ctx, o, held)
	}
	out, err := h.commit(ctx, o, held)
	out.charged = held.Price
	return out, err
}

// endClosed ends an order whose reservation is not open any more: an earlier life got further. It charges nothing. What was charged before
// is for the sale, or is refunded.
func (h *host) endClosed(ctx context.Context, o order, closed *api.ReservationError) (outcome, error) {
	paid, err := h.cards.earned(ctx, o.ID)
	if err != nil {
		return outcome{}, err
	}
	held := api.Reservation{Number: closed.Number, Price: paid}
	var out outcome
	if closed.State == api.ReservationCaptured {
		out, err = h.commit(ctx, o, held) // by its key: the sale is made already
	} else {
		out, err = refusing(closed.Error()), h.cancel(ctx, o, held)
		out.refund = paid
	}
	out.charged = paid
	return out, err
}

// reserve holds the order. It returns a [*api.ReservationError] if that was done before, and is not open any more.
func (h *host) reserve(ctx context.Context, o order) (held api.Reservation, err error) {
	err = h.step("reserve", func() error {
		held, err = h.ledger.Reserve(ctx, api.ReserveRequest{
			Key: o.ID.String() + "/reserve", Order: o.wanted(), For: h.hold, Partial: true, MaxPrice: &o.MaxPrice,
		})
		return err
	})
	return held, err
}

func (h *host) charge(ctx context.Context, o order, held api.Reservation) (declined string, err error) {
	if held.Price == 0 {
		return "", nil
	}
	err = h.step("charge", func() error {
		declined, err = h.cards.charge(ctx, charge{Key: o.ID, Card: o.Card, Amount: held.Price, Before: held.Expires})
		return err
	})
	return declined, err
}

// commit sells what is reserved. Of whom the host has no answer the ledger cannot draw one; the
// buyer gets the others, and the difference back.
func (h *host) commit(ctx context.Context, o order, held api.Reservation) (outcome, error) {
	var sale api.Sale
	err := h.step("commit", func() (err error) {
		sale, err = h.ledger.Capture(ctx, api.CaptureRequest{
			Key: o.ID.String() + "/commit", Reservation: held.Number, Partial: true, Truth: h.books.truth,
		})
		return err
	})
	var none *api.RefusedError
	if errors.As(err, &none) || errors.Is(err, api.ErrNotReserved) {
		out := refusing(err.Error())
		out.refund = held.Price
		return out, h.cancel(ctx, o, held)
	}
	if err != nil {
		return outcome{}, err
	}
	out, err := h.sold(ctx, sale)
	out.refund = sale.Refund
	return out, err
}

// cancel gives a reservation up, so that others need not wait until it lapses; and one that has lapsed, so
// that no clock brings it back.
func (h *host) cancel(ctx context.Context, o order, held api.Reservation) error {
	err := h.step("cancel", func() error { return h.ledger.Cancel(ctx, o.ID.String()+"/cancel", held.Number) })
	if errors.Is(err, api.ErrNotReserved) {
		return nil // it was ended before
	}
	return err
}

// payBack refunds what an order's recorded outcome says. It comes after the outcome, never before: until
// that is committed, another life might still be sold what the money was for.
func (h *host) payBack(ctx context.Context, id uuid.UUID) error {
	due, err := h.books.refundDue(ctx, id)
	if err != nil || due == 0 {
		return err
	}
	if err := h.step("refund", func() error { return h.cards.refund(ctx, id, due) }); err != nil {
		return err
	}
	return h.books.noteRefund(ctx, id)
}
