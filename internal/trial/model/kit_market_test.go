package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
)

// Market is a policy that sells up to a level for 100 minor units of ε=1, and more as given.
func Market(t testing.TB, most string, more ...func(*policy.Market)) policy.Policy {
	t.Helper()
	m := policy.Market{Max: Eps(t, most), Prices: []policy.Price{{Epsilon: Eps(t, "1"), Amount: 100}, {Epsilon: Eps(t, "1000"), Amount: 99_901}}}
	for _, change := range more {
		change(&m)
	}
	p, err := m.Policy()
	Must(t, err)
	return p
}

// EnrollUnder enrols objects in a question under a policy, each with the same cap.
func EnrollUnder(t testing.TB, l Book, question string, p policy.Policy, limit string, objects ...string) {
	t.Helper()
	key := fmt.Sprintf("enrol in %.40s %.40q %d under <%.60s>", question, objects[0], len(objects), p)
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: question, Objects: objects, Policy: p, Cap: Eps(t, limit)})
	Must(t, err)
}

// Sellers defines the vote and puts objects in it on the market.
func Sellers(t testing.TB, l Book, most, limit string, objects ...string) Book {
	t.Helper()
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, most), limit, objects...)
	return l
}

// Purchase is an order for votes, which are all yes.
func Purchase(t testing.TB, key, buyer, epsilon string, objects ...string) api.SellRequest {
	t.Helper()
	return api.SellRequest{
		Key: key, Order: api.Order{Buyer: buyer, Question: "vote", Epsilon: Eps(t, epsilon), Objects: objects, All: objects == nil},
		Truth: SameTruth("yes"),
	}
}

// Sell makes a sale.
func Sell(t testing.TB, l Book, r api.SellRequest) api.Sale {
	t.Helper()
	s, err := l.Sell(t.Context(), r)
	Must(t, err)
	return s
}

// Commit makes a sale of a reservation.
func Commit(t testing.TB, l Book, key string, reservation uint64) api.Sale {
	t.Helper()
	s, err := l.Capture(t.Context(), api.CaptureRequest{Key: key, Reservation: reservation, Truth: SameTruth("yes")})
	Must(t, err)
	return s
}

// Reserve makes a reservation.
func Reserve(t testing.TB, l Book, r api.ReserveRequest) api.Reservation {
	t.Helper()
	got, err := l.Reserve(t.Context(), r)
	Must(t, err)
	return got
}

// Delivered returns what a sale delivered, by object.
func Delivered(t testing.TB, l Book, number uint64) map[string]api.Delivery {
	t.Helper()
	all, last := map[string]api.Delivery{}, ""
	for d, err := range l.Deliveries(t.Context(), number) {
		Must(t, err)
		if d.Object <= last {
			t.Errorf("sale %d delivers %q after %q", number, d.Object, last)
		}
		all[d.Object], last = d, d.Object
	}
	return all
}

// BuyersOf returns all buyers by name.
func BuyersOf(t testing.TB, l Book) map[string]api.BuyerState {
	t.Helper()
	list, err := l.Buyers(t.Context())
	Must(t, err)
	all := map[string]api.BuyerState{}
	for _, one := range list {
		all[one.Buyer] = one
	}
	return all
}

// Asked is a source of truths that counts whom it was asked about.
type Asked struct {
	mu    sync.Mutex
	times map[string]int
}

// Truth gives everybody a value.
func (a *Asked) Truth(value string) api.TruthFunc {
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

// Times tells how often it was asked about each.
func (a *Asked) Times() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.times)
}

// Names are those it was asked about.
func (a *Asked) Names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.times))
}
