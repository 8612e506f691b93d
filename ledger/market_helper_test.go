package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Terms, orders and sales to test with.

// market returns a policy that sells up to a level, at 100 minor units for ε=1, with some changes.
func market(t testing.TB, most string, more ...func(*policy.Market)) policy.Policy {
	t.Helper()
	m := policy.Market{Max: eps(t, most), Prices: []policy.Price{{Epsilon: eps(t, "1"), Amount: 100}, {Epsilon: eps(t, "1000"), Amount: 99_901}}}
	for _, change := range more {
		change(&m)
	}
	return check.Value(m.Policy())(t)
}

// enrollUnder enrolls objects in a question under a policy, each with the same cap.
func enrollUnder(t testing.TB, l *Ledger, question string, p policy.Policy, limit string, objects ...string) {
	t.Helper()
	key := fmt.Sprintf("enrol in %.40s %.40q %d under %.60s", question, objects[0], len(objects), p)
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: question, Objects: objects, Policy: p, Cap: eps(t, limit)})
	must(t, err)
}

// sellers defines the vote and enrolls objects that sell it.
func sellers(t testing.TB, l *Ledger, most, limit string, objects ...string) *Ledger {
	t.Helper()
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, most), limit, objects...)
	return l
}

// purchase returns an order for votes, which are all yes.
func purchase(t testing.TB, key, buyer, epsilon string, objects ...string) api.SellRequest {
	t.Helper()
	return api.SellRequest{
		Key: key, Order: api.Order{Buyer: buyer, Question: "vote", Epsilon: eps(t, epsilon), Objects: objects, All: objects == nil},
		Truth: sameTruth("yes"),
	}
}

func sell(t testing.TB, l *Ledger, r api.SellRequest) api.Sale {
	t.Helper()
	return check.Value(l.Sell(t.Context(), r))(t)
}

func capture(t testing.TB, l *Ledger, key string, reservation uint64) api.Sale {
	t.Helper()
	s, err := l.Capture(t.Context(), api.CaptureRequest{Key: key, Reservation: reservation, Truth: sameTruth("yes")})
	must(t, err)
	return s
}

func reserve(t testing.TB, l *Ledger, r api.ReserveRequest) api.Reservation {
	t.Helper()
	return check.Value(l.Reserve(t.Context(), r))(t)
}

// delivered returns the deliveries of a sale, by object, and checks their order.
func delivered(t testing.TB, l *Ledger, number uint64) map[string]api.Delivery {
	t.Helper()
	all, last := map[string]api.Delivery{}, ""
	for d, err := range l.Deliveries(t.Context(), number) {
		must(t, err)
		check.That(t, d.Object > last, "sale %d delivers %q after %q", number, d.Object, last)
		all[d.Object], last = d, d.Object
	}
	return all
}

func buyersOf(t testing.TB, l *Ledger) map[string]api.BuyerState {
	t.Helper()
	list := check.Value(api.Collect(l.Buyers(t.Context())))(t)
	all := map[string]api.BuyerState{}
	for _, one := range list {
		all[one.Buyer] = one
	}
	return all
}

// asked is a source of true values that counts the requests for each object.
type asked struct {
	mu    sync.Mutex
	times map[string]int
}

func (a *asked) truth(value string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.times == nil {
			a.times = map[string]int{}
		}
		values := make([]string, len(objects))
		for i, name := range objects {
			a.times[name]++
			values[i] = value
		}
		return values, nil
	}
}

func (a *asked) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.times))
}

// holding is what one buyer has of one object. A forgotten object has no name in what it sold.
type holding struct {
	buyer, question, object string
	since                   uint64 // the epoch, by the event that began it
}

// auditMarket checks the records of the market against the log and the prices (invariants 3, 4, 9
// and 13). Each response is the one recorded at its ε. Each buyer pays for each object the price of
// a higher level, in force or promised, less what it has paid for the object. Earnings, payments
// and revenue are the same money. Of erased events only the money can be checked.
func auditMarket(t testing.TB, l *Ledger) {
	t.Helper()
	type place struct {
		question, object string
		since            uint64
		epsilon          privacy.Epsilon
	}
	recorded, paid, top := map[place]string{}, map[holding]int64{}, map[holding]privacy.Epsilon{}
	sold, held, n := map[uint64]int64{}, map[uint64]int64{}, uint64(0)
	since := map[[2]string]uint64{}         // the event that began the epoch
	buyers := map[[2]string]uint64{}        // the number that bought in it
	prices := map[[2]string]*policy.Terms{} // in force
	promised := map[string]*policy.Terms{}  // when it was reserved
	for _, ev := range events(t, l) {
		if n++; ev.Number != n {
			t.Fatalf("event %d is in the place of event %d", ev.Number, n)
		}
		r, _ := recordedBy(ev)
		chain := [2]string{r.Question, r.Object}
		at := place{r.Question, r.Object, since[chain], r.Epsilon}
		switch d := ev.Says.(type) {
		case event.EpochBegun:
			if chain := [2]string{d.Question, d.Object}; !ev.Erased { // else the object was forgotten, and so is what was bought of it
				since[chain], buyers[chain] = ev.Number, 0
			}
		case event.Enrolled:
			prices[[2]string{d.Question, d.Object}] = termsOfSale(d.Policy)
		case event.TermsChanged:
			prices[[2]string{d.Question, d.Object}] = termsOfSale(d.Policy)
		case event.Held:
			promised[fmt.Sprint(d.Sale, d.Object)] = prices[[2]string{d.Question, d.Object}]
		case event.Released:
			recorded[at] = d.Response
		case event.SaleMade:
			sold[d.Sale] = d.Price
		case event.Forgotten:
			paid[holding{object: d.Object}] += 0 // it may have earned what no event says
		case event.Sold:
			held[d.Sale] += d.Price
			if ev.Erased {
				paid[holding{buyer: d.Buyer}] += d.Price
				continue
			}
			if before, twice := recorded[at]; twice && before != d.Response {
				t.Errorf("event %d: %q answers %q at ε=%s, and %q before", ev.Number, d.Object, d.Response, d.Epsilon, before)
			} else if twice != (d.Method == "resale") {
				t.Errorf("event %d: %q is sold by %s, recorded before: %v", ev.Number, d.Object, d.Method, twice)
			}
			recorded[at] = d.Response
			who := holding{d.Buyer, d.Question, d.Object, since[chain]}
			owed, reserved := promised[fmt.Sprint(d.Sale, d.Object)]
			if !reserved {
				owed = prices[chain]
			}
			due := int64(0)
			if owed != nil {
				due = owed.Upgrade(top[who], d.Epsilon, paid[who])
			}
			check.That(t, d.Price == due,
				"event %d: %q pays %d for %q, and owes %d", ev.Number, d.Buyer, d.Price, d.Object, due)
			paid[who] += d.Price
			if top[who].IsZero() {
				buyers[chain]++
			}
			if top[who].Less(d.Epsilon) {
				top[who] = d.Epsilon
			}
		}
	}
	for number, price := range sold {
		check.That(t, held[number] == price, "sale %d costs %d, its objects %d", number, price, held[number])
	}
	for chain, want := range buyers {
		for _, c := range objectOf(t, l, chain[1]).Chains {
			check.That(t, c.Question != chain[0] || c.Buyers == want,
				"%q has %d buyers about %q, by the log %d", chain[1], c.Buyers, chain[0], want)
		}
	}
	auditMoney(t, l, paid)
}

// termsOfSale returns the terms of a policy, or nil if it has none.
func termsOfSale(p *policy.Policy) *policy.Terms {
	if p == nil {
		return nil
	}
	return p.Terms()
}

func auditMoney(t testing.TB, l *Ledger, paid map[holding]int64) {
	t.Helper()
	earned, objects, invoices, revenue := map[string]int64{}, map[string]api.ObjectState{}, map[string]int64{}, int64(0)
	forgotten, gone := map[string]bool{}, int64(0) // earned by objects that no event names
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
		must(t, err)
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
	check.That(t, gone == 0, "forgotten objects have earned %d less than was paid for them", gone)
	for name, b := range buyersOf(t, l) {
		check.That(t, b.Paid == invoices[name], "%q has paid %d, its deliveries cost %d", name, b.Paid, invoices[name])
	}
	got := stats(t, l).Revenue
	check.That(t, got == revenue, "the revenue is %d, the sales brought %d", got, revenue)
}

// auditAll compares the fold of the log with the stored records, and the money with the prices.
func auditAll(t testing.TB, l *Ledger, s kv.Store) {
	t.Helper()
	auditStore(t, s)
	auditMarket(t, l)
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
