package model

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

func on(day int) time.Time { return ledgertest.Begin().Add(time.Duration(day) * 24 * time.Hour) }

// However late ctx ends, an error means that nothing was sold.
func (openLedger) Sell_ContextEnds_ErrorMeansNoSale(t *T) {
	calls, end, cancel := 0, 0, func() {}
	l := Open(t, ledger.Options{Now: func() time.Time {
		if calls++; calls == end {
			cancel()
		}
		return ledgertest.Begin()
	}})
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "2"), "9", "ann")
	for end = 1; end < 8; end++ {
		var ctx context.Context
		ctx, cancel = context.WithCancel(t.Context())
		before := Stats(t, l).Sales
		calls = 0
		r := Purchase(t, fmt.Sprint(end), "acme", fmt.Sprint("0.", end), "ann")
		s, err := l.Sell(ctx, r)
		calls = 100
		if made := Stats(t, l).Sales - before; (err == nil) != (made == 1) || err == nil && s.Objects != 1 {
			t.Errorf("ctx ended at read %d of the clock: %d sales were made, and Sell returned %+v, %v", end, made, s, err)
		}
		cancel()
	}
}

// An object without a true value costs nothing, and so does not exceed a price limit. If the cap is
// the limit, waiting does not help.
func (anyLedger) Sell_PriceLimit_CountsOnlyWhatIsSold(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "2"), "9", "ann", "bob")
	r := Purchase(t, "1", "acme", "0.5", "ann", "bob")
	one := check.Value(l.Quote(t.Context(), api.Order{Buyer: "acme", Question: "vote", Epsilon: Eps(t, "0.5"), Objects: []string{"ann"}}))(t)
	less := one.Price - 1
	r.Partial, r.MaxPrice, r.Truth = true, &less, ListOf("yes", "")
	_, err := l.Sell(t.Context(), r)
	dearer, is := errors.AsType[*api.QuoteError](err)
	check.That(t, is && dearer.Quote.Price == one.Price, "with a limit one below the price: %v", err)
	r.MaxPrice = &one.Price
	s := Sell(t, l, r)
	check.That(t, s.Price == one.Price && len(s.Refused) == 1, "%+v", s)
	clock := ledgertest.NewClock(ledgertest.Begin())
	late := Open(t, ledger.Options{Now: clock.Now})
	Define(t, late, Vote())
	EnrollUnder(t, late, "vote", straight(t, "0.1"), "0.5", "ann")
	_, err = late.Release(t.Context(), ReleaseOf(t, "k", "ann", "0.9"))
	got := Refusals(t, err)
	check.That(t, got[0].Reason == api.ChainCeiling && got[0].Remedy == "nothing", "got the error %v", err)
}

// A request for all objects returns ErrUnknown while there are none, because that may change.
func (anyLedger) Sell_NoObjectsYet_ReturnsErrUnknown(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	r := Purchase(t, "1", "acme", "0.5")
	_, err := l.Sell(t.Context(), r)
	check.That(t, errors.Is(err, api.ErrUnknown) && !errors.Is(err, api.ErrInvalid), "got the error %v", err)
	EnrollUnder(t, l, "vote", Market(t, "2"), "9", "ann")
	Sell(t, l, r)
	for _, broken := range []string{"a\uFFFDb"} {
		if _, err := l.Sell(t.Context(), Purchase(t, "2", broken, "0.5", "ann")); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("the buyer %q is accepted: %v", broken, err)
		}
	}
}

// Invariant 12 and the promise of Advance: the number of calls does not matter. One call after a
// month leaves the same levels as one every day, with any sales in between. A clock that goes back
// releases nothing.

// month is a month of a few objects under policies that release levels by the calendar.
type month struct {
	*T
	ledger LedgerAPI
	clock  *ledgertest.Clock
}

const days = 30

func newMonth(t *T, limit string) *month {
	m := &month{T: t, clock: ledgertest.NewClock(ledgertest.Begin())}
	m.ledger = Open(t, ledger.Options{Now: m.clock.Now})
	l, end := m.ledger, ledgertest.Begin().Add(days*24*time.Hour)
	slow := check.Value(policy.Linear(Eps(t, "0"), Eps(t, "1.5"), ledgertest.Begin(), end, Eps(t, "0.05")))(t)
	halving := check.Value(policy.Halving(Eps(t, "0.1"), Eps(t, "2"), ledgertest.Begin().Add(24*time.Hour), 5*24*time.Hour, Eps(t, "0.125")))(t)
	both := check.Value(policy.Sum(halving, policy.Fixed(Eps(t, "0.25"))))(t)
	Define(t, l, Vote())
	Define(t, l, Smoker())
	Define(t, l, api.Question{Name: "still", Values: []string{"yes", "no"}, Encoding: "direct"})
	EnrollUnder(t, l, "vote", slow, limit, "ann", "bob", "cid")
	EnrollUnder(t, l, "smoker", both, limit, "ann", "bob")
	EnrollUnder(t, l, "still", Market(t, "2"), limit, "bob", "dot") // nothing of it is released by the calendar
	return m
}

// run runs the month with some sales, and sweeps on the selected days.
func (m *month) run(sales bool, sweeps func(day int) bool) *month {
	m.Helper()
	l := m.ledger
	for day := range days + 1 {
		now := ledgertest.Begin().Add(time.Duration(day) * 24 * time.Hour)
		m.clock.Set(now)
		if sales {
			switch day {
			case 10: // 0.5 has been released; the calendar does not release this level
				Raise(m, l, RaiseOf(m, "a", "0.33", "ann", "bob"))
				m.sell("still", "0.33", "bob")
			case 15:
				Raise(m, l, RaiseOf(m, "b", "0.7", "bob"))
				Raise(m, l, RaiseOf(m, "c", "0.725", "bob"))
				m.sell("still", "0.7", "bob", "dot")
			case 20:
				check.Must(m, m.ledger.Withdraw(m.Context(), api.ObjectRequest{Key: "gone", Object: "cid"}))
			case 21:
				r := api.ReleaseRequest{Key: "host", Question: "smoker", Object: "ann", Epsilon: Eps(m, "0.6"), Truth: SameTruth("yes")}
				Release(m, l, r)
			case 22:
				m.sell("still", "0.01", "dot")
			}
		}
		if sweeps(day) {
			m.sweep(fmt.Sprint("day ", day))
		}
	}
	return m
}

// sell sells to acme.
func (m *month) sell(question, epsilon string, objects ...string) api.Sale {
	m.Helper()
	r := Purchase(m, fmt.Sprint("sold ", question, epsilon), "acme", epsilon, objects...)
	r.Question = question
	return Sell(m, m.ledger, r)
}

func (m *month) sweep(key string) api.AdvanceResult {
	m.Helper()
	return check.Value(m.ledger.Advance(m.Context(), api.AdvanceRequest{Key: key, Truth: SameTruth("yes")}))(m)
}

// levels returns all recorded ε by object and question, without the responses.
func (m *month) levels() map[string][]privacy.Epsilon {
	m.Helper()
	all := map[string][]privacy.Epsilon{}
	for _, name := range []string{"ann", "bob", "cid", "dot"} {
		o := ObjectOf(m, m.ledger, name)
		all[name] = []privacy.Epsilon{o.Spent, Nano(m, o.Earned)}
		for _, c := range o.Chains {
			for _, at := range c.Levels {
				all[name+"/"+c.Question] = append(all[name+"/"+c.Question], at.Epsilon)
			}
		}
	}
	return all
}

func (anyLedger) Advance_OnceAfterAMonth_EqualsDaily(t *T) {
	for name, limit := range map[string]string{"wide": "9", "tight": "2.4"} {
		t.Run(name, func(t *T) {
			want := newMonth(t, limit).run(false, func(int) bool { return true }).levels()
			if name == "wide" && (len(want["ann/vote"]) != 30 || len(want["ann/smoker"]) != 17) || want["bob/still"] != nil {
				t.Errorf("released levels: %v", want)
			}
			o := want["ann"][0]
			check.That(t, name != "tight" || !Eps(t, "2.4").Less(o), "ann has spent %s", o)
			for how, sweeps := range map[string]func(int) bool{
				"once": func(day int) bool { return day == days }, "seldom": func(day int) bool { return day%7 == 3 || day == days },
			} {
				// If a cap is the limit, the chains of an object are raised in turns, in the order
				// of the calendar.
				got := newMonth(t, limit).run(false, sweeps).levels()
				check.That(t, reflect.DeepEqual(got, want), "%s: %v\nwant %v", how, got, want)
			}
		})
	}
}

// With sales in between, the levels are the same: levels below a sale are derived at no cost.
func (anyLedger) Advance_SalesInBetween_SameLevels(t *T) {
	want := newMonth(t, "9").run(true, func(int) bool { return true })
	AuditAll(t, want.ledger)
	levels := want.levels()
	if !slices.Contains(levels["bob/vote"], Eps(t, "0.725")) || len(levels["ann/vote"]) != 31 || len(levels["cid/vote"]) != 19 || len(levels["dot/still"]) != 2 {
		t.Errorf("levels after the month: %v", levels)
	}
	for how, sweeps := range map[string]func(int) bool{
		"once": func(day int) bool { return day == days }, "seldom": func(day int) bool { return day%4 == 1 || day == 19 || day == days },
	} {
		m := newMonth(t, "9").run(true, sweeps)
		AuditAll(t, m.ledger)
		got := m.levels()
		// cid left on day 20, with the levels of the sweep before.
		for _, gone := range []string{"cid", "cid/vote"} {
			delete(got, gone)
			delete(levels, gone)
		}
		check.That(t, reflect.DeepEqual(got, levels), "%s: %v\nwant %v", how, got, levels)
	}
}

// The progress of a sweep counts objects; in a sweep of one question, the objects in that question.
func (openLedger) Advance_Progress_CountsObjects(t *T) {
	for _, question := range []string{"", "vote", "still"} {
		m := newMonth(t, "9")
		m.clock.Set(ledgertest.Begin().Add(10 * 24 * time.Hour))
		done, total := 0, -1
		check.Must(t, check.Err(m.ledger.Advance(t.Context(), api.AdvanceRequest{Key: "day", Question: question, Truth: SameTruth("yes"), Progress: func(d, n int) { done, total = d, n }})))
		if want := map[string]int{"": 4, "vote": 3, "still": 2}[question]; done != want || total != want {
			t.Errorf("question %q: the progress ends with %d of %d, want %d", question, done, total, want)
		}
	}
}

// For any number of due levels, each true value is requested once.
func (anyLedger) Advance_ManyLevels_RequestsEachTruthOnce(t *T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := Open(t, ledger.Options{Now: clock.Now})
	Define(t, l, Vote())
	names := Crowd(1500)
	EnrollUnder(t, l, "vote", straight(t, "0.05"), "9", names...)
	clock.Set(on(20))
	asked := 0
	result := check.Value(l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: func(ctx context.Context, q string, objects []string) ([]string, error) {
		asked += len(objects)
		return SameTruth("yes")(ctx, q, objects)
	}}))(t)
	check.That(t, asked == len(names) && result.Questions[0].Raised == len(names),
		"%d true values were requested for %d objects: %+v", asked, len(names), result)
	n := len(Responses(t, l, "vote", Eps(t, "0.95")))
	check.That(t, n == len(names), "%d of %d objects have the second last level", n, len(names))
}

// straight returns a calendar of ten days from 0 to 1.
func straight(t testing.TB, stride string) policy.Policy {
	t.Helper()
	return check.Value(policy.Linear(Eps(t, "0"), Eps(t, "1"), ledgertest.Begin(), ledgertest.Begin().Add(10*24*time.Hour), Eps(t, stride)))(t)
}

// Each way to read a reservation reports the same state at the same instant: the result of Reserve,
// the read by number, the lists, and the errors of requests that need an open one. Reserve repeated
// with its key succeeds only while the reservation is open.
func (openLedger) Reservation_EachReadingReportsTheSameState(t *T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := Open(t, ledger.Options{Now: clock.Now})
	t.Run("called", func(t *T) { testReservationStates(t, l, clock, "called") })
	t.Run("served", func(t *T) { testReservationStates(t, Served(t, l.(*ledger.Ledger)), clock, "served") })
	WantClean(t, l, api.VerifyRequest{})
}

func testReservationStates(t *T, l LedgerAPI, clock *ledgertest.Clock, buyer string) {
	if buyer == "called" {
		Sellers(t, l, "9", "9", "ann")
	}
	request := func(key string) api.ReserveRequest {
		return api.ReserveRequest{Key: buyer + key, Order: Purchase(t, "", buyer, "0.1", "ann").Order, For: time.Hour}
	}
	open, captured, cancelled, expired := request("open"), request("captured"), request("cancelled"), request("expired")
	expired.For = time.Minute
	number := map[string]uint64{}
	for state, r := range map[string]api.ReserveRequest{
		"open": open, "captured": captured, "cancelled": cancelled, "expired": expired,
	} {
		made := Reserve(t, l, r)
		if number[state] = made.Number; made.State != "open" {
			t.Errorf("a new reservation is %s", made.State)
		}
	}
	sale := Commit(t, l, buyer+"paid", number["captured"])
	check.Must(t, l.Cancel(t.Context(), buyer+"cancel", number["cancelled"]))

	end := clock.Now().Add(time.Minute)
	clock.Set(end.Add(-1)) // the last instant at which the short reservation is open
	if _, err := l.Reserve(t.Context(), expired); err != nil {
		t.Errorf("one nanosecond before it expires: %v", err)
	}
	clock.Set(end)
	for state, r := range map[string]api.ReserveRequest{
		"open": open, "captured": captured, "cancelled": cancelled, "expired": expired,
	} {
		n := number[state]
		want := api.ReservationError{Number: n, State: state}
		switch state {
		case "captured":
			want.Sale = sale.Number
		case "expired":
			want.Expires = end
		}
		read, err := l.Reservation(t.Context(), n)
		check.That(t, err == nil && read.State == state, "%s: the reservation is read as %s, %v", state, read.State, err)
		again, err := l.Reserve(t.Context(), r)
		if state == "open" {
			check.That(t, err == nil && again.State == state && again.Number == n,
				"%s: reserved again as %+v, %v", state, again, err)
			continue
		}
		wantClosed(t, "reserve", want, err)
		check.That(t, again.Number == 0, "%s: the error comes with %+v", state, again)
		_, err = l.Capture(t.Context(), api.CaptureRequest{Key: buyer + "capture" + string(state), Reservation: n, Truth: SameTruth("yes")})
		wantClosed(t, "capture", want, err)
		if state != "expired" {
			wantClosed(t, "cancel", want, l.Cancel(t.Context(), buyer+"cancel"+string(state), n))
		}
	}
	for _, states := range [][]string{
		nil, {"open"}, {"captured"}, {"cancelled"}, {"expired"},
		{"expired", "captured"},
	} {
		var got, want []uint64
		for state, n := range number {
			if states == nil || slices.Contains(states, state) {
				want = append(want, n)
			}
		}
		for r, err := range l.Reservations(t.Context(), buyer, states...) {
			check.Must(t, err)
			if got = append(got, r.Number); number[r.State] != r.Number {
				t.Errorf("reservation %d is listed as %s", r.Number, r.State)
			}
		}
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("reservations in the states %q: %v, want %v", states, got, want)
		}
	}
	for _, err := range l.Reservations(t.Context(), "", "sold") {
		check.That(t, errors.Is(err, api.ErrInvalid), "list reservations in an unknown state: %v", err)
	}

	// An expired reservation can be cancelled. Then a corrected clock does not open it again.
	check.Must(t, l.Cancel(t.Context(), buyer+"settle", number["expired"]))
	_, err := l.Reserve(t.Context(), expired)
	wantClosed(t, "after it was settled", api.ReservationError{Number: number["expired"], State: "cancelled"}, err)

	// A sale that was never reserved is not a reservation.
	direct := Sell(t, l, Purchase(t, buyer+"direct", buyer, "0.1", "ann"))
	_, read := l.Reservation(t.Context(), direct.Number)
	_, capture := l.Capture(t.Context(), api.CaptureRequest{Key: buyer + "direct capture", Reservation: direct.Number, Truth: SameTruth("yes")})
	for _, err := range []error{read, capture, l.Cancel(t.Context(), buyer+"direct cancel", direct.Number)} {
		check.That(t, errors.Is(err, api.ErrUnknown), "a sale that was never reserved: %v", err)
	}
}

// wantClosed checks that an error reports a reservation that is not open.
func wantClosed(t *T, what string, want api.ReservationError, err error) {
	t.Helper()
	var got *api.ReservationError
	if !errors.As(err, &got) || !got.Expires.Equal(want.Expires) {
		t.Errorf("%s: %v, want %v", what, err, &want)
		return
	}
	if flat := *got; flat.Number != want.Number || flat.State != want.State || flat.Sale != want.Sale {
		t.Errorf("%s: %+v, want %+v", what, flat, want)
	}
}

// The objects that an order excludes are listed in one place, whichever request excluded them, and
// in every read.
func (openLedger) Reservation_RefusedObjects_AreCompleteInEveryReading(t *T) {
	l := Open(t, ledger.Options{})
	Sellers(t, l, "9", "9", "ann", "bob", "cyd")
	r := api.ReserveRequest{Key: "r", Order: Purchase(t, "", "acme", "1", "ann", "bob", "cyd", "zoe").Order, For: time.Hour, Partial: true}
	made := Reserve(t, l, r)
	wantLeftOut(t, "reserved", made.Refused, "zoe")
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "bob"}))
	wantLeftOut(t, "reserved again", Reserve(t, l, r).Refused, "zoe")
	capture := api.CaptureRequest{Key: "c", Reservation: made.Number, Partial: true, Truth: SameTruth("yes")}
	for range 2 {
		sold := check.Value(l.Capture(t.Context(), capture))(t)
		wantLeftOut(t, "captured", sold.Refused, "bob", "zoe")
	}
	read := check.Value(l.Reservation(t.Context(), made.Number))(t)
	wantLeftOut(t, "the reservation", read.Refused, "bob", "zoe")
	check.That(t, read.Objects == 3 && read.First == made.First && read.Last == made.Last,
		"it was granted as %+v, and is read as %+v", made, read)
	sale := check.Value(l.Sale(t.Context(), made.Number))(t)
	wantLeftOut(t, "the sale", sale.Refused, "bob", "zoe")
	for s, err := range l.Sales(t.Context(), "acme") {
		check.Must(t, err)
		wantLeftOut(t, "the list of sales", s.Refused, "bob", "zoe")
	}
	check.Must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "bob"}))
	read = check.Value(l.Reservation(t.Context(), made.Number))(t)
	wantLeftOut(t, "after one was forgotten", read.Refused, "zoe")
}

func wantLeftOut(t *T, what string, refused []api.Refusal, want ...string) {
	t.Helper()
	var got []string
	for _, r := range refused {
		got = append(got, r.Object)
	}
	check.That(t, slices.Equal(got, want), "%s: %q are left out, want %q", what, got, want)
}
