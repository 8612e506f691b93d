package market

import (
	"context"
	"errors"

	"github.com/sluicedp/sluice/ledger/api"
)

// sell sells to a buyer who pays by invoice.
func (h *host) sell(ctx context.Context, o order) (outcome, error) {
	var sale api.Sale
	err := h.step("sell", func() (err error) {
		sale, err = h.ledger.Sell(ctx, api.SellRequest{
			Key: o.ID.String(), Order: o.wanted(), Partial: true, MaxPrice: &o.MaxPrice, Truth: h.books.truth,
		})
		return err
	})
	if isRefusal(err) {
		return refusing(err.Error()), nil
	}
	if err != nil {
		return outcome{}, err
	}
	return h.sold(ctx, sale)
}

// isRefusal tells whether the ledger has decided against an order. Any other error decides nothing: a
// full disk, a source of truths that is down, a request cut short. The order then stays placed.
func isRefusal(err error) bool {
	var refused *api.RefusedError // by the people's policies and budgets
	var quote *api.QuoteError     // dearer than the buyer would pay
	if errors.Is(err, api.ErrTruthSource) {
		return false // our own fault; the order is good
	}
	return errors.As(err, &refused) || errors.As(err, &quote) ||
		errors.Is(err, api.ErrInvalid) || errors.Is(err, api.ErrUnknown) // never possible
}

// sold is the outcome of a sale. Reading deliveries is free, so each attempt may do it.
func (h *host) sold(ctx context.Context, sale api.Sale) (outcome, error) {
	out := outcome{state: sold, sale: sale}
	for one, err := range h.ledger.Deliveries(ctx, sale.Number) {
		if err != nil {
			return outcome{}, err
		}
		out.deliveries = append(out.deliveries, one)
	}
	return out, nil
}
