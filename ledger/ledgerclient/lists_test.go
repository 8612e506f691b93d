package ledgerclient

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
)

// Parts of lists are the same here as where the ledger is open, with the same cursors.
func TestPages_AreThoseOfTheLedger(t *testing.T) {
	l := polled(t, ledgertest.New(t).Ledger, "ann", "bob", "eva")
	terms, err := policy.Market{Max: check.Eps(t, "2"), Prices: []policy.Price{{Epsilon: check.Eps(t, "2"), Amount: 300}}}.Policy()
	check.Must(t, err)
	check.Must(t, l.DefineQuestion(t.Context(), "pets", api.Question{Name: "pets", Values: []string{"yes", "no"}}))
	_, err = l.Enroll(t.Context(), api.EnrollRequest{Key: "sellers", Question: "pets", Objects: []string{"ann", "bob", "eva"}, Policy: terms})
	check.Must(t, err)
	for n := range 6 {
		order := api.Order{Buyer: []string{"acme", "zeta"}[n%2], Question: "pets", Epsilon: check.Eps(t, fmt.Sprintf("0.%d", n+1)), All: true}
		if n < 3 {
			_, err = l.Sell(t.Context(), api.SellRequest{Key: fmt.Sprint(n), Order: order, Truth: allNo})
		} else {
			_, err = l.Reserve(t.Context(), api.ReserveRequest{Key: fmt.Sprint(n), Order: order, For: time.Hour})
		}
		check.Must(t, err)
	}
	c := around(t, l, "", nil)
	for _, p := range []api.Page{
		{Limit: 2}, {Limit: 2, Newest: true}, {Limit: 5000}, {Limit: 1, After: 2}, {Limit: 9, Buyer: "zeta"}, {Limit: 9, Question: "pets"}, {Limit: 9, Question: "vote"},
		{Limit: 9, Since: time.Date(2001, 1, 1, 0, 0, 0, 5, time.UTC)}, {Limit: 9, Until: time.Date(2001, 1, 1, 0, 0, 0, 5, time.UTC)},
	} {
		here, next, err := l.SalesPage(t.Context(), p)
		check.Must(t, err)
		there, then, err := c.SalesPage(t.Context(), p)
		check.That(t, err == nil && next == then && same(here, there),
			"sales %+v: %+v, %d, want %+v, %d: %v", p, there, then, here, next, err)
		p.States = []string{"open", "expired"}
		held, next, err := l.ReservationsPage(t.Context(), p)
		check.Must(t, err)
		kept, then, err := c.ReservationsPage(t.Context(), p)
		check.That(t, err == nil && next == then && same(held, kept),
			"reservations %+v: %+v, %d, want %+v, %d: %v", p, kept, then, held, next, err)
	}
	here, next, err := l.DeliveriesPage(t.Context(), 1, 0, 2)
	check.Must(t, err)
	there, then, err := c.DeliveriesPage(t.Context(), 1, 0, 2)
	check.That(t, err == nil && next != 0 && next == then && len(here) == 2 && same(here, there),
		"%+v, %d, want %+v, %d: %v", there, then, here, next, err)
	rest, last, err := c.DeliveriesPage(t.Context(), 1, then, 2)
	check.That(t, err == nil && last == 0 && len(rest) == 1 && rest[0].Object == "eva", "%+v, %d, %v", rest, last, err)
	if some, last, err := c.ResponsesPage(t.Context(), "pets", check.Eps(t, "0.1"), "ann", 1); err != nil || len(some) != 1 || some[0].Object != "bob" || last != "bob" {
		t.Errorf("%+v, %q, %v", some, last, err)
	}
	none, _, err := c.ReservationsPage(t.Context(), api.Page{Limit: 9, Buyer: "none"})
	check.That(t, err == nil && none == nil, "without a reservation: %#v, %v", none, err)
	check.WantErr(t, check.Err2(c.SalesPage(t.Context(), api.Page{})), api.ErrInvalid, "without a limit")
	check.WantErr(t, check.Err2(l.ReservationsPage(t.Context(), api.Page{})), api.ErrInvalid, "without a limit")
}

// same reports whether two lists have the same items.
func same[T any](here, there []T) bool { return fmt.Sprintf("%+v", here) == fmt.Sprintf("%+v", there) }

// allNo has the same true value for all.
func allNo(_ context.Context, _ string, objects []string) ([]string, error) {
	return slices.Repeat([]string{"no"}, len(objects)), nil
}
