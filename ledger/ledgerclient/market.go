package ledgerclient

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/internal/api"
	"github.com/sluicedp/sluice/privacy"
)

// What buyers ask, and those who sell to them.

// Budget is [ledger.Ledger.Budget].
func (c *Client) Budget(ctx context.Context, r ledger.BudgetRequest) (b ledger.Budget, err error) {
	err = c.post(ctx, "/v1/budgets", api.BudgetOf(r), &b)
	b.Levels, b.Refused = listed(b.Levels), listed(b.Refused)
	return b, err
}

// Quote is [ledger.Ledger.Quote]; with a buyer's token it is [ledger.Ledger.QuoteBuyer].
func (c *Client) Quote(ctx context.Context, o ledger.Order) (q ledger.Quote, err error) {
	err = c.post(ctx, "/v1/quotes", api.NewOrder(o), &q)
	q.Refused = listed(q.Refused)
	return q, err
}

// Sell is [ledger.Ledger.Sell], but for its progress.
func (c *Client) Sell(ctx context.Context, r ledger.SellRequest) (ledger.Sale, error) {
	var out api.Sold
	err := telling{truth: r.Truth, send: func(truths map[string]api.Truths) error {
		return c.change(ctx, "/v1/sales", r.Key, api.Sell{
			Order: api.NewOrder(r.Order), Limit: api.Limit{Partial: r.Partial, QuoteID: r.QuoteID, MaxPrice: r.MaxPrice}, Truths: one(truths),
		}, &out)
	}}.run(ctx)
	return sale(out), err
}

func sale(out api.Sold) ledger.Sale {
	out.Sale.Refused, out.Sale.TruthChanged, out.Sale.TruthInvalid = listed(out.Sale.Refused), out.TruthChanged, out.TruthInvalid
	return out.Sale
}

// Reserve is [ledger.Ledger.Reserve].
func (c *Client) Reserve(ctx context.Context, r ledger.ReserveRequest) (out ledger.Reservation, err error) {
	err = c.change(ctx, "/v1/reservations", r.Key, api.Reserve{
		Order: api.NewOrder(r.Order), Limit: api.Limit{Partial: r.Partial, QuoteID: r.QuoteID, MaxPrice: r.MaxPrice}, For: api.Duration(r.For), Until: r.Until.UTC(), // else JSON drops the seconds of a zone
	}, &out)
	out.Refused = listed(out.Refused)
	return out, err
}

// numbered is the path of what has a number.
func numbered(kind string, number uint64, behind string) string {
	return "/v1/" + kind + "/" + strconv.FormatUint(number, 10) + behind
}

// Capture is [ledger.Ledger.Capture], but for its progress.
func (c *Client) Capture(ctx context.Context, r ledger.CaptureRequest) (ledger.Sale, error) {
	var out api.Sold
	err := telling{truth: r.Truth, send: func(truths map[string]api.Truths) error {
		return c.change(ctx, numbered("reservations", r.Reservation, "/capture"), r.Key, api.Capture{Partial: r.Partial, Truths: one(truths)}, &out)
	}}.run(ctx)
	return sale(out), err
}

// Cancel is [ledger.Ledger.Cancel].
func (c *Client) Cancel(ctx context.Context, key string, reservation uint64) error {
	return c.change(ctx, numbered("reservations", reservation, "/cancel"), key, api.Done{}, &api.Done{})
}

// Sale is [ledger.Ledger.Sale]. With a buyer's token, numbers of sales and reservations are those of the buyer ([ledger.Sale.Ordinal]), here and
// in [Client.Reservation], [Client.Deliveries] and [Client.Receipt]; numbers of events, and how responses came about, are 0 or "".
func (c *Client) Sale(ctx context.Context, number uint64) (s ledger.Sale, err error) {
	err = c.get(ctx, numbered("sales", number, ""), nil, &s)
	s.Refused = listed(s.Refused)
	return s, err
}

// Reservation is [ledger.Ledger.Reservation].
func (c *Client) Reservation(ctx context.Context, number uint64) (r ledger.Reservation, err error) {
	err = c.get(ctx, numbered("reservations", number, ""), nil, &r)
	r.Refused = listed(r.Refused)
	return r, err
}

func ofBuyer(buyer string) url.Values {
	if buyer == "" {
		return nil
	}
	return url.Values{"buyer": {buyer}}
}

// Sales is [ledger.Ledger.Sales].
func (c *Client) Sales(ctx context.Context, buyer string) iter.Seq2[ledger.Sale, error] {
	return changed(list[ledger.Sale](ctx, c, "/v1/sales", ofBuyer(buyer), many), func(s *ledger.Sale) { s.Refused = listed(s.Refused) })
}

// Reservations is [ledger.Ledger.Reservations].
func (c *Client) Reservations(ctx context.Context, buyer string, states ...ledger.ReservationState) iter.Seq2[ledger.Reservation, error] {
	query := ofBuyer(buyer)
	if len(states) > 0 {
		var words []string
		for _, one := range states {
			words = append(words, string(one))
		}
		if query == nil {
			query = url.Values{}
		}
		query.Set("state", strings.Join(words, ","))
	}
	return changed(list[ledger.Reservation](ctx, c, "/v1/reservations", query, many), func(r *ledger.Reservation) { r.Refused = listed(r.Refused) })
}

// changed yields items as a function leaves them.
func changed[T any](items iter.Seq2[T, error], change func(*T)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range items {
			change(&item)
			if !yield(item, err) {
				return
			}
		}
	}
}

// Deliveries is [ledger.Ledger.Deliveries].
func (c *Client) Deliveries(ctx context.Context, sale uint64) iter.Seq2[ledger.Delivery, error] {
	return list[ledger.Delivery](ctx, c, numbered("sales", sale, "/deliveries"), nil, few)
}

// Buyers is [ledger.Ledger.Buyers].
func (c *Client) Buyers(ctx context.Context) (all []ledger.BuyerState, err error) {
	query := url.Values{"limit": {"1000"}}
	for {
		var out api.Buyers
		if err := c.get(ctx, "/v1/buyers", query, &out); err != nil {
			return nil, err
		}
		if all = append(all, out.Buyers...); out.Next == "" {
			return listed(all), nil
		}
		query.Set("after", out.Next)
	}
}

// Responses is [ledger.Ledger.Responses].
func (c *Client) Responses(ctx context.Context, question string, epsilon privacy.Epsilon) iter.Seq2[ledger.Response, error] {
	return list[ledger.Response](ctx, c, "/v1/responses", url.Values{"question": {question}, "epsilon": {epsilon.String()}}, few)
}
