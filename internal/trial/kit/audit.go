package kit

import (
	"errors"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// holding is what one buyer has of one object. Of what a forgotten object sold there is no name.
type holding struct {
	buyer, question, object string
	since                   uint64 // the epoch, by the event that began it
}

// AuditMarket checks what stands in the records of the market against the log and against the prices
// (invariants 3, 4 and 9): each response is the one recorded at its ε; each buyer has paid for each object
// the price of the highest level held; and earnings, payments and revenue are the same money. Of what is erased
// only the money can be checked.
func AuditMarket(t testing.TB, l *ledger.Ledger) {
	t.Helper()
	type place struct {
		question, object string
		since            uint64
		epsilon          privacy.Epsilon
	}
	recorded, paid, top := map[place]string{}, map[holding]int64{}, map[holding]privacy.Epsilon{}
	sold, held, n := map[uint64]ledger.Event{}, map[uint64]int64{}, uint64(0)
	since := map[[2]string]uint64{}  // the event that began the epoch
	buyers := map[[2]string]uint64{} // who have bought something in it
	for _, ev := range Events(t, l) {
		if n++; ev.Number != n {
			t.Fatalf("event %d stands where event %d should", ev.Number, n)
		}
		chain := [2]string{ev.Question, ev.Object}
		at := place{ev.Question, ev.Object, since[chain], privacy.Epsilon{}}
		if ev.Epsilon != nil {
			at.epsilon = *ev.Epsilon
		}
		switch ev.Kind {
		case "epoch":
			if !ev.Erased { // else the object was forgotten, and so is what was bought of it
				since[chain], buyers[chain] = ev.Number, 0
			}
		case "released":
			recorded[at] = ev.Response
		case "sale":
			sold[ev.Sale] = ev
		case "forgotten":
			paid[holding{object: ev.Object}] += 0 // it may have earned what no event says
		case "sold":
			held[ev.Sale] += *ev.Price
			if ev.Erased {
				paid[holding{buyer: ev.Buyer}] += *ev.Price
				continue
			}
			if before, twice := recorded[at]; twice && before != ev.Response {
				t.Errorf("event %d: %q answers %q at ε=%s, and %q before", ev.Number, ev.Object, ev.Response, ev.Epsilon, before)
			} else if twice != (ev.Method == "resale") {
				t.Errorf("event %d: %q is sold by %s, recorded before: %v", ev.Number, ev.Object, ev.Method, twice)
			}
			recorded[at] = ev.Response
			who := holding{ev.Buyer, ev.Question, ev.Object, since[chain]}
			paid[who] += *ev.Price
			if top[who].IsZero() {
				buyers[chain]++
			}
			if top[who].Less(*ev.Epsilon) {
				top[who] = *ev.Epsilon
			}
		}
	}
	for number, ev := range sold {
		if held[number] != *ev.Price {
			t.Errorf("sale %d costs %d, its objects %d", number, *ev.Price, held[number])
		}
	}
	for chain, want := range buyers {
		for _, c := range ObjectOf(t, l, chain[1]).Chains {
			if c.Question == chain[0] && c.Buyers != want {
				t.Errorf("%q has %d buyers about %q, by the log %d", chain[1], c.Buyers, chain[0], want)
			}
		}
	}
	auditMoney(t, l, paid, top)
}

// auditMoney checks that what was paid, and earned, is as the prices say.
func auditMoney(t testing.TB, l *ledger.Ledger, paid map[holding]int64, top map[holding]privacy.Epsilon) {
	t.Helper()
	terms, earned, objects, invoices, revenue := map[[2]string]*policy.Terms{}, map[string]int64{}, map[string]ledger.ObjectState{}, map[string]int64{}, int64(0)
	forgotten, gone := map[string]bool{}, int64(0) // what no event says who earned it
	for who, amount := range paid {
		o, err := ledger.ObjectState{}, error(nil)
		if who.object != "" {
			o, err = l.Object(t.Context(), who.object)
		}
		if who.buyer == "" {
			if errors.Is(err, ledger.ErrUnknown) {
				continue // it was forgotten, and was never enrolled
			}
			forgotten[who.object] = true
		}
		Must(t, err)
		for _, c := range o.Chains {
			if c.Policy != nil {
				terms[[2]string{c.Question, who.object}] = c.Policy.Terms()
			}
		}
		if objects[who.object] = o; who.object == "" {
			gone += amount
		} else if want := terms[[2]string{who.question, who.object}].Price(top[who]); who.buyer != "" && amount != want {
			t.Errorf("%q paid %d for %q up to ε=%s, which costs %d", who.buyer, amount, who.object, top[who], want)
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
