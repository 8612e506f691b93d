package ledgerhttp

import (
	"time"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/ledger/api"
)

// Routes for buyers and for desks that sell to them.

func quote(c *call, in api.Order) (api.Quote, error) {
	if err := c.checkBuyer(in.Buyer); err != nil {
		return api.Quote{}, err
	}
	return c.quoted(in)
}

func budget(c *call, in api.BudgetRequest) (api.Budget, error) {
	return c.ledger().Budget(c.ctx(), in)
}

func sell(c *call, in httpapi.Sell) (httpapi.Sold, error) {
	if err := c.checkTruths(in.Truths); err != nil {
		return httpapi.Sold{}, err
	}
	r := in.SellRequest
	r.Key, r.Truth = c.key, c.truths(in.Truths).values
	s, err := c.ledger().Sell(c.ctx(), r)
	return c.sold(s), err
}

func (c *call) sold(s api.Sale) httpapi.Sold {
	return httpapi.Sold{Sale: c.seenSale(s), HostDetails: c.hostDetails(s.TruthChanged, s.TruthInvalid)}
}

// saleOf returns the sale in the path. A buyer gives its own number of the sale.
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

// buyerOf returns the buyer whose sales or reservations are requested. For the role buyer the
// default is the holder, and another buyer is an error.
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

func reserve(c *call, in httpapi.Reserve) (api.Reservation, error) {
	r := in.ReserveRequest
	r.Key, r.For = c.key, time.Duration(in.For)
	done, err := c.ledger().Reserve(c.ctx(), r)
	return c.seenReservation(done), err
}

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

func buyers(c *call) (httpapi.Buyers, error) {
	p, err := c.page()
	if err != nil {
		return httpapi.Buyers{}, err
	}
	all, next, err := c.ledger().BuyersPage(c.ctx(), p.number(), p.limit)
	return httpapi.Buyers{Buyers: all, Next: cursor(next)}, err
}

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

func cancel(c *call, _ httpapi.Done) (httpapi.Done, error) {
	number, err := c.pathNumber("reservation")
	if err != nil {
		return httpapi.Done{}, err
	}
	return httpapi.Done{}, c.ledger().Cancel(c.ctx(), c.key, number)
}
