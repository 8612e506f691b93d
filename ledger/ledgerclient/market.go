package ledgerclient

import (
	"context"
	"iter"
	"strconv"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// Methods for buyers and for desks that sell to them.

// Budget is [ledger.Ledger.Budget].
func (c *Client) Budget(ctx context.Context, r api.BudgetRequest) (api.Budget, error) {
	return post[api.Budget](ctx, c, "/v1/budgets", &r)
}

// Quote is [ledger.Ledger.Quote]; with a buyer's token it is [ledger.Ledger.QuoteBuyer].
func (c *Client) Quote(ctx context.Context, o api.Order) (api.Quote, error) {
	return post[api.Quote](ctx, c, "/v1/quotes", &o)
}

// Sell is [ledger.Ledger.Sell] without progress.
func (c *Client) Sell(ctx context.Context, r api.SellRequest) (api.Sale, error) {
	out, err := draw[httpapi.Sold](ctx, c, "/v1/sales", r.Key, r.Truth, func(truths httpapi.Truths) any {
		return &httpapi.Sell{SellRequest: r, Truths: truths}
	})
	return sale(out), err
}

// sale returns the sale in an answer, with the objects that only the host sees in its own fields.
func sale(out httpapi.Sold) api.Sale {
	out.Sale.TruthChanged, out.Sale.TruthInvalid = out.Changed, out.Invalid
	return out.Sale
}

// Reserve is [ledger.Ledger.Reserve].
func (c *Client) Reserve(ctx context.Context, r api.ReserveRequest) (api.Reservation, error) {
	in := httpapi.Reserve{ReserveRequest: r, For: httpapi.Duration(r.For)}
	in.Until = r.Until.UTC() // JSON would drop the seconds of a zone offset
	return change[api.Reservation](ctx, c, "/v1/reservations", r.Key, &in)
}

// numbered returns the path of a numbered resource, such as "/v1/sales/7", and then suffix.
func numbered(kind string, number uint64, suffix string) string {
	return "/v1/" + kind + "/" + strconv.FormatUint(number, 10) + suffix
}

// Capture is [ledger.Ledger.Capture] without progress.
func (c *Client) Capture(ctx context.Context, r api.CaptureRequest) (api.Sale, error) {
	path := numbered("reservations", r.Reservation, "/capture")
	out, err := draw[httpapi.Sold](ctx, c, path, r.Key, r.Truth, func(truths httpapi.Truths) any {
		return &httpapi.Capture{CaptureRequest: r, Truths: truths}
	})
	return sale(out), err
}

// Cancel is [ledger.Ledger.Cancel].
func (c *Client) Cancel(ctx context.Context, key string, reservation uint64) error {
	return c.changeOnly(ctx, numbered("reservations", reservation, "/cancel"), key, &httpapi.Done{})
}

// Sale is [ledger.Ledger.Sale]. With a buyer's token, sales and reservations have the buyer's own
// numbers ([api.Sale.Ordinal]), here and in [Client.Reservation], [Client.Deliveries] and
// [Client.Receipt]. Numbers of events, and the methods of responses, are then 0 or "".
func (c *Client) Sale(ctx context.Context, number uint64) (api.Sale, error) {
	return get[api.Sale](ctx, c, numbered("sales", number, ""), nil)
}

// Reservation is [ledger.Ledger.Reservation].
func (c *Client) Reservation(ctx context.Context, number uint64) (api.Reservation, error) {
	return get[api.Reservation](ctx, c, numbered("reservations", number, ""), nil)
}

// Sales is [ledger.Ledger.Sales].
func (c *Client) Sales(ctx context.Context, buyer string) iter.Seq2[api.Sale, error] {
	return list[api.Sale](ctx, c, "/v1/sales", queryOf(api.Page{Buyer: buyer}), largeAnswer)
}

// Reservations is [ledger.Ledger.Reservations].
func (c *Client) Reservations(
	ctx context.Context, buyer string, states ...string,
) iter.Seq2[api.Reservation, error] {
	page := api.Page{Buyer: buyer, States: states}
	return list[api.Reservation](ctx, c, "/v1/reservations", queryOf(page), largeAnswer)
}

// Deliveries is [ledger.Ledger.Deliveries].
func (c *Client) Deliveries(ctx context.Context, sale uint64) iter.Seq2[api.Delivery, error] {
	return list[api.Delivery](ctx, c, numbered("sales", sale, "/deliveries"), nil, smallAnswer)
}

// Buyers is [ledger.Ledger.Buyers]. It reads all pages before it yields the first buyer.
func (c *Client) Buyers(ctx context.Context) iter.Seq2[api.BuyerState, error] {
	return each(func() (all []api.BuyerState, err error) {
		parameters := query("limit", maxItems)
		for {
			out, err := get[httpapi.Buyers](ctx, c, "/v1/buyers", parameters)
			if err != nil {
				return nil, err
			}
			if all = append(all, out.Buyers...); out.Next == "" {
				return all, nil
			}
			parameters.Set("after", out.Next)
		}
	})
}

// Responses is [ledger.Ledger.Responses].
func (c *Client) Responses(
	ctx context.Context, question string, epsilon privacy.Epsilon,
) iter.Seq2[api.Response, error] {
	return list[api.Response](ctx, c, "/v1/responses", query("question", question, "epsilon", epsilon), smallAnswer)
}
