package model

import (
	"errors"
	"testing"

	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// holding is what one buyer has of one object. Of what a forgotten object sold there is no name.
type holding struct {
	buyer, question, object string
	since                   uint64 // the epoch, by the event that began it
}

// chain is an object in a question.
type chain struct{ question, object string }

// place is where a response is recorded.
type place struct {
	chain
	since   uint64
	epsilon privacy.Epsilon
}

// books are what the log says of the market, read event by event.
type books struct {
	testing.TB
	recorded    map[place]string
	paid        map[holding]int64
	top         map[holding]privacy.Epsilon
	sales, sold map[uint64]int64          // what a sale costs, and its objects together
	since       map[chain]uint64          // the event that began the epoch
	buyers      map[chain]uint64          // who have bought something in it
	prices      map[chain]*policy.Terms   // in force
	promised    map[promise]*policy.Terms // when it was reserved
}

// promise is an object of a reservation.
type promise struct {
	sale   uint64
	object string
}

// AuditMarket checks what stands in the records of the market against the log and against the prices
// (invariants 3, 4, 9 and 13): each response is the one recorded at its ε; each buyer pays for each object the price
// of a higher level, in force or promised, less what it has paid for the object; and earnings, payments and revenue are the same money. Of
// what is erased only the money can be checked.
func AuditMarket(t testing.TB, l Book) {
	t.Helper()
	b := books{t, map[place]string{}, map[holding]int64{}, map[holding]privacy.Epsilon{}, map[uint64]int64{}, map[uint64]int64{}, map[chain]uint64{}, map[chain]uint64{}, map[chain]*policy.Terms{}, map[promise]*policy.Terms{}}
	for i, ev := range Events(t, l) {
		if n := uint64(i) + 1; ev.Number != n {
			t.Fatalf("event %d stands where event %d should", ev.Number, n)
		}
		b.enter(ev)
	}
	for number, price := range b.sales {
		if b.sold[number] != price {
			t.Errorf("sale %d costs %d, its objects %d", number, price, b.sold[number])
		}
	}
	for at, want := range b.buyers {
		for _, c := range ObjectOf(t, l, at.object).Chains {
			if c.Question == at.question && c.Buyers != want {
				t.Errorf("%q has %d buyers about %q, by the log %d", at.object, c.Buyers, at.question, want)
			}
		}
	}
	auditMoney(t, l, b.paid)
}

// enter enters what an event says.
func (b books) enter(ev says.Event) {
	switch d := ev.Says.(type) {
	case says.EpochBegun:
		if at := (chain{d.Question, d.Object}); !ev.Erased { // else the object was forgotten, and so is what was bought of it
			b.since[at], b.buyers[at] = ev.Number, 0
		}
	case says.Enrolled:
		b.prices[chain{d.Question, d.Object}] = sold(d.Policy)
	case says.TermsChanged:
		b.prices[chain{d.Question, d.Object}] = sold(d.Policy)
	case says.Held:
		b.promised[promise{d.Sale, d.Object}] = b.prices[chain{d.Question, d.Object}]
	case says.Released:
		at := chain{d.Question, d.Object}
		b.recorded[place{at, b.since[at], d.Epsilon}] = d.Response
	case says.SaleMade:
		b.sales[d.Sale] = d.Price
	case says.Forgotten:
		b.paid[holding{object: d.Object}] += 0 // it may have earned what no event says
	case says.Sold:
		if b.sold[d.Sale] += d.Price; ev.Erased {
			b.paid[holding{buyer: d.Buyer}] += d.Price
		} else {
			b.enterSold(ev.Number, d)
		}
	}
}

// sold returns the terms of sale of a policy, if it has any.
func sold(p *policy.Policy) *policy.Terms {
	if p == nil {
		return nil
	}
	return p.Terms()
}

// enterSold enters one object of a sale.
func (b books) enterSold(number uint64, d says.Sold) {
	c := chain{d.Question, d.Object}
	at := place{c, b.since[c], d.Epsilon}
	if before, twice := b.recorded[at]; twice && before != d.Response {
		b.Errorf("event %d: %q answers %q at ε=%s, and %q before", number, d.Object, d.Response, d.Epsilon, before)
	} else if twice != (d.Method == "resale") {
		b.Errorf("event %d: %q is sold by %s, recorded before: %v", number, d.Object, d.Method, twice)
	}
	b.recorded[at] = d.Response
	who := holding{d.Buyer, d.Question, d.Object, b.since[c]}
	prices, reserved := b.promised[promise{d.Sale, d.Object}]
	if !reserved {
		prices = b.prices[c]
	}
	due := int64(0)
	if prices != nil {
		due = prices.Upgrade(b.top[who], d.Epsilon, b.paid[who])
	}
	if d.Price != due {
		b.Errorf("event %d: %q pays %d for %q, and owes %d", number, d.Buyer, d.Price, d.Object, due)
	}
	b.paid[who] += d.Price
	if b.top[who].IsZero() {
		b.buyers[c]++
	}
	if b.top[who].Less(d.Epsilon) {
		b.top[who] = d.Epsilon
	}
}

// auditMoney checks that what was paid, earned and counted is the same money.
func auditMoney(t testing.TB, l Book, paid map[holding]int64) {
	t.Helper()
	earned, objects, invoices, revenue := map[string]int64{}, map[string]api.ObjectState{}, map[string]int64{}, int64(0)
	forgotten, gone := map[string]bool{}, int64(0) // what no event says who earned it
	for who, amount := range paid {
		o, err := api.ObjectState{}, error(nil)
		if who.object != "" {
			o, err = l.Object(t.Context(), who.object)
		}
		if who.buyer == "" {
			if errors.Is(err, api.ErrUnknown) {
				continue // it was forgotten, and was never enrolled
			}
			forgotten[who.object] = true
		}
		Must(t, err)
		if objects[who.object] = o; who.object == "" {
			gone += amount
		}
		earned[who.object] += amount
		invoices[who.buyer] += amount
		revenue += amount
	}
	delete(objects, "")
	for name, o := range objects {
		if forgotten[name] && o.Earned >= earned[name] {
			gone -= o.Earned - earned[name]
		} else if o.Earned != earned[name] {
			t.Errorf("%q has earned %d, its buyers paid %d", name, o.Earned, earned[name])
		}
	}
	if gone != 0 {
		t.Errorf("those who were forgotten have earned %d less than was paid for them", gone)
	}
	for name, b := range BuyersOf(t, l) {
		if b.Paid != invoices[name] {
			t.Errorf("%q has paid %d, its deliveries cost %d", name, b.Paid, invoices[name])
		}
	}
	if got := Stats(t, l).Revenue; got != revenue {
		t.Errorf("the revenue is %d, the sales brought %d", got, revenue)
	}
}
