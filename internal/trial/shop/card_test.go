package shop

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger"
)

// sellByCard sells to a buyer who pays first: it holds budget and price, charges the card, and sells
// what it held.
func (h *host) sellByCard(ctx context.Context, o order) (outcome, error) {
	held, err := h.reserve(ctx, o)
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

// reserve returns the reservation as it was first granted, though it may have lapsed by now.
func (h *host) reserve(ctx context.Context, o order) (held ledger.Reservation, err error) {
	err = h.step("reserve", func() error {
		held, err = h.ledger.Reserve(ctx, ledger.ReserveRequest{
			Key: o.ID.String() + "/reserve", Order: o.wanted(), For: h.hold, Partial: true, MaxPrice: &o.MaxPrice,
		})
		return err
	})
	return held, err
}

func (h *host) charge(ctx context.Context, o order, held ledger.Reservation) (declined string, err error) {
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
func (h *host) commit(ctx context.Context, o order, held ledger.Reservation) (outcome, error) {
	var sale ledger.Sale
	err := h.step("commit", func() (err error) {
		sale, err = h.ledger.Capture(ctx, ledger.CaptureRequest{
			Key: o.ID.String() + "/commit", Reservation: held.Number, Partial: true, Truth: h.books.truth,
		})
		return err
	})
	var none *ledger.RefusedError
	if errors.As(err, &none) || errors.Is(err, ledger.ErrNotReserved) {
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
func (h *host) cancel(ctx context.Context, o order, held ledger.Reservation) error {
	err := h.step("cancel", func() error { return h.ledger.Cancel(ctx, o.ID.String()+"/cancel", held.Number) })
	if errors.Is(err, ledger.ErrNotReserved) {
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
