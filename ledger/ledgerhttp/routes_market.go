package ledgerhttp

import (
	"time"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/ledger/api"
)

// Functions that serve the routes for buyers and for desks that sell to them (see marketRoutes).
// Their results are as the holder may see them (see view.go).

// quote returns what an order would cost and deliver. A buyer may only quote for itself.
func quote(c *call, in api.Order) (api.Quote, error) {
	if err := c.checkBuyer(in.Buyer); err != nil {
		return api.Quote{}, err
	}
	return c.quoted(in)
}

func budget(c *call, in api.BudgetRequest) (api.Budget, error) {
	return c.ledger().Budget(c.ctx(), in)
}

// sell executes an order.
func sell(c *call, in httpapi.Sell) (httpapi.Sold, error) {
	if err := c.checkTruths(in.Truths); err != nil {
		return httpapi.Sold{}, err
	}
	r := in.SellRequest
	r.Key, r.Truth = c.key, c.truths(in.Truths).values
	s, err := c.ledger().Sell(c.ctx(), r)
	return c.sold(s), err
}

// sold returns a new sale as the holder sees it.
func (c *call) sold(s api.Sale) httpapi.Sold {
	return httpapi.Sold{Sale: c.seenSale(s), HostDetails: c.hostDetails(s.TruthChanged, s.TruthInvalid)}
}

// saleOf returns the sale in the path, as the ledger has it. A buyer gives its own number of the
// sale, and finds only its own sales. The error for a sale that is not found has this number.
func (c *call) saleOf() (s api.Sale, err error) {
	asked, err := c.pathNumber("sale")
	if err != nil {
		return s, err
	}
	number, err := c.numberOf(asked)
	if err == nil {
		s, err = c.ledger().Sale(c.ctx(), number)
	}
	return s, unknown("sale", asked, err)
}

// buyerOf returns the buyer whose sales or reservations are requested, or "" for all buyers. For
// the role buyer the default is the holder, and another buyer is an error.
func (c *call) buyerOf() (string, error) {
	buyer := c.text("buyer")
	if c.holder.Role == roleBuyer && buyer == "" {
		buyer = c.holder.Whom
	}
	return buyer, c.checkBuyer(buyer)
}

// orderPage returns the part of the sales or reservations that the request selects.
func (c *call) orderPage(p page) (api.Page, error) {
	buyer, err := c.buyerOf()
	return api.Page{
		Buyer: buyer, Question: c.text("question"), Since: c.time("since"), Until: c.time("until"),
		After: p.number(), Newest: p.newest, Limit: p.limit,
	}, err
}

// sales returns a part of the list of sales, and the cursor at its end.
func sales(c *call, p page) ([]api.Sale, string, error) {
	part, err := c.orderPage(p)
	if err != nil {
		return nil, "", err
	}
	all, next, err := c.ledger().SalesPage(c.ctx(), part)
	for i := range all {
		all[i] = c.seenSale(all[i])
	}
	return all, cursor(next), err
}

func sale(c *call) (api.Sale, error) {
	s, err := c.saleOf()
	return c.seenSale(s), err
}

// deliveries returns a part of the responses of the sale in the path, and the cursor at its end.
func deliveries(c *call, p page) ([]api.Delivery, string, error) {
	if c.sale == nil { // for a list that is sent as a stream, look up the sale only once
		s, err := c.saleOf()
		if err != nil {
			return nil, "", err
		}
		c.sale = &s
	}
	all, next, err := c.ledger().DeliveriesPage(c.ctx(), c.sale.Number, p.number(), p.limit)
	number := c.seenSale(*c.sale).Number
	for i := range all {
		all[i] = c.seenDelivery(number, all[i])
	}
	return all, cursor(next), err
}

// reserve reserves an order.
func reserve(c *call, in httpapi.Reserve) (api.Reservation, error) {
	r := in.ReserveRequest
	r.Key, r.For = c.key, time.Duration(in.For) // in JSON, For is a text such as "15m"
	done, err := c.ledger().Reserve(c.ctx(), r)
	return c.seenReservation(done), err
}

// reservations returns a part of the list of reservations, and the cursor at its end.
func reservations(c *call, p page) ([]api.Reservation, string, error) {
	part, err := c.orderPage(p)
	if err != nil {
		return nil, "", err
	}
	part.States = listed(c.params["state"])
	all, next, err := c.ledger().ReservationsPage(c.ctx(), part)
	for i := range all {
		all[i] = c.seenReservation(all[i])
	}
	return all, cursor(next), err
}

// buyers returns a part of the list of buyers, and the cursor at its end.
func buyers(c *call) (httpapi.Buyers, error) {
	p, err := c.page()
	if err != nil {
		return httpapi.Buyers{}, err
	}
	all, next, err := c.ledger().BuyersPage(c.ctx(), p.number(), p.limit)
	return httpapi.Buyers{Buyers: all, Next: cursor(next)}, err
}

// reservation returns the reservation in the path. Buyers and numbers are as for saleOf.
func reservation(c *call) (r api.Reservation, err error) {
	asked, err := c.pathNumber("reservation")
	if err != nil {
		return r, err
	}
	number, err := c.numberOf(asked)
	if err == nil {
		r, err = c.ledger().Reservation(c.ctx(), number)
	}
	return c.seenReservation(r), unknown("reservation", asked, err)
}

// capture turns the reservation in the path into a sale.
func capture(c *call, in httpapi.Capture) (httpapi.Sold, error) {
	if err := c.checkTruths(in.Truths); err != nil {
		return httpapi.Sold{}, err
	}
	number, err := c.pathNumber("reservation")
	if err != nil {
		return httpapi.Sold{}, err
	}
	r := in.CaptureRequest
	r.Key, r.Reservation, r.Truth = c.key, number, c.truths(in.Truths).values
	s, err := c.ledger().Capture(c.ctx(), r)
	return c.sold(s), err
}

// cancel cancels the reservation in the path.
func cancel(c *call, _ httpapi.Done) (httpapi.Done, error) {
	number, err := c.pathNumber("reservation")
	if err != nil {
		return httpapi.Done{}, err
	}
	return httpapi.Done{}, c.ledger().Cancel(c.ctx(), c.key, number)
}
