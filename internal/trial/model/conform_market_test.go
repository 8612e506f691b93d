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
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

func on(day int) time.Time { return ledgertest.Begin().Add(time.Duration(day) * 24 * time.Hour) }

// However late ctx ends, an error means that nothing was sold.
func TestASaleIsToldWhenItIsMade(t *testing.T) { Both(t, testASaleIsToldWhenItIsMade) }

func testASaleIsToldWhenItIsMade(t *T) {
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
			t.Errorf("ctx ended at look %d at the clock: %d sales made, and %+v, %v", end, made, s, err)
		}
		cancel()
	}
}

// A reservation brings the share that its order unlocks, and takes nothing that others have without it.
func TestAReservationBringsItsShare(t *testing.T) { Anywhere(t, testAReservationBringsItsShare) }

func testAReservationBringsItsShare(t *T) {
	shares := check.Value(policy.Unlock(Eps(t, "0.5"), 5))(t)
	both := check.Value(policy.Sum(shares, policy.Fixed(Eps(t, "0.5"))))(t)
	p := check.Value(policy.Min(both, Market(t, "2")))(t)
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", p, "9", "ann")
	r := Reserve(t, l, api.ReserveRequest{Key: "r", Order: api.Order{Buyer: "acme", Question: "vote", Epsilon: Eps(t, "0.6"), Objects: []string{"ann"}}, For: time.Hour})
	Release(t, l, ReleaseOf(t, "host", "ann", "0.5"))
	_, err := l.Release(t.Context(), ReleaseOf(t, "more", "ann", "0.500000001"))
	check.That(t, Refusals(t, err)[0].Reason == api.ChainCeiling, "got the error %v", err)
	s := Commit(t, l, "c", r.Number)
	check.That(t, s.Draws == 1, "%+v", s)
	WantClean(t, l, api.VerifyRequest{})
}

// Who withdraws takes back what was reserved of it, also by coming back.
func TestAReservationEndsWithAWithdrawal(t *testing.T) {
	Anywhere(t, testAReservationEndsWithAWithdrawal)
}

func testAReservationEndsWithAWithdrawal(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	Define(t, l, Smoker())
	back := func(question string) { EnrollUnder(t, l, question, Market(t, "2"), "1", "ann") }
	back("vote")
	back("smoker")
	r := Reserve(t, l, api.ReserveRequest{Key: "r", Order: api.Order{Buyer: "acme", Question: "vote", Epsilon: Eps(t, "1"), Objects: []string{"ann"}}, For: time.Hour})
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "ann"}))
	enroll := func(key, question string) {
		check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: question, Objects: []string{"ann"}, Policy: Market(t, "2")})))
	}
	enroll("back", "smoker")
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Held.IsZero(), "%s is held of who has withdrawn", o.Held)
	Sell(t, l, api.SellRequest{Key: "s", Order: api.Order{Buyer: "zeta", Question: "smoker", Epsilon: Eps(t, "0.5"), Objects: []string{"ann"}}, Truth: SameTruth("yes")})
	enroll("again", "vote")
	_, err := l.Capture(t.Context(), api.CaptureRequest{Key: "c", Reservation: r.Number, Truth: Never(t)})
	got := Refusals(t, err)
	check.That(t, got[0].Reason == api.Withdrawn && got[0].Remedy == "nothing", "got the error %v", err)
	WantClean(t, l, api.VerifyRequest{})
}

// Whoever has no truth costs nothing, and so does not break a limit; and no waiting helps against a cap.
func TestLimitsAreThoseOfWhatIsSold(t *testing.T) { Anywhere(t, testLimitsAreThoseOfWhatIsSold) }

func testLimitsAreThoseOfWhatIsSold(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "2"), "9", "ann", "bob")
	r := Purchase(t, "1", "acme", "0.5", "ann", "bob")
	one, err := l.Quote(t.Context(), api.Order{Buyer: "acme", Question: "vote", Epsilon: Eps(t, "0.5"), Objects: []string{"ann"}})
	check.Must(t, err)
	less := one.Price - 1
	r.Partial, r.MaxPrice, r.Truth = true, &less, ListOf("yes", "")
	_, err = l.Sell(t.Context(), r)
	dearer, is := errors.AsType[*api.QuoteError](err)
	check.That(t, is && dearer.Quote.Price == one.Price, "for one less than it costs: %v", err)
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

// Whether there is anybody may change; a request for all who take part is not wrong for ever.
func TestNobodyYet(t *testing.T) { Anywhere(t, testNobodyYet) }

func testNobodyYet(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	r := Purchase(t, "1", "acme", "0.5")
	_, err := l.Sell(t.Context(), r)
	check.That(t, errors.Is(err, api.ErrUnknown) && !errors.Is(err, api.ErrInvalid), "got the error %v", err)
	EnrollUnder(t, l, "vote", Market(t, "2"), "9", "ann")
	Sell(t, l, r)
	for _, broken := range []string{"a\uFFFDb"} {
		if _, err := l.Sell(t.Context(), Purchase(t, "2", broken, "0.5", "ann")); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("the buyer %q is served: %v", broken, err)
		}
	}
}

// Who withdraws and comes back finds everything spent that was spent.
func TestComingBackRestoresNoBudget(t *testing.T) { Anywhere(t, testComingBackRestoresNoBudget) }

func testComingBackRestoresNoBudget(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "2"), "1", "ann")
	Sell(t, l, Purchase(t, "1", "acme", "0.75", "ann"))
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "ann"}))
	for name, call := range map[string]func() error{
		"a resale": func() error { _, err := l.Sell(t.Context(), Purchase(t, "2", "zeta", "0.75", "ann")); return err },
		"a draw":   func() error { _, err := l.Release(t.Context(), ReleaseOf(t, "3", "ann", "1")); return err },
		"an answer": func() error {
			_, err := l.Answer(t.Context(), Inquire(t, "4", "majority:yes", "0.1", Never(t), "ann"))
			return err
		},
	} {
		if got := Refusals(t, call()); got[0].Reason != api.Withdrawn || got[0].Remedy != "enrolling" {
			t.Errorf("%s of who has withdrawn: %+v", name, got)
		}
	}
	check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"ann"}, Policy: Market(t, "2"), Cap: Eps(t, "1")})))
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Spent == Eps(t, "0.75") && len(o.Chains[0].Levels) == 1, "%+v", o)
	got := Refusals(t, check.Err(l.Sell(t.Context(), Purchase(t, "5", "zeta", "1.000000001", "ann"))))
	check.That(t, got[0].Reason == api.ObjectCap && got[0].Remaining == Eps(t, "0.25"), "got %+v", got)
}

// A policy is what its JSON says, whoever wrote it: an object comes back under the same terms only.
func TestComingBackKeepsTheTerms(t *testing.T) { Anywhere(t, testComingBackKeepsTheTerms) }

func testComingBackKeepsTheTerms(t *T) {
	l := Sellers(t, Open(t, ledger.Options{}), "2", "2", "ann")
	Sell(t, l, Purchase(t, "1", "acme", "1", "ann"))
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "ann"}))
	for name, p := range map[string]policy.Policy{"cheaper": Market(t, "2", func(m *policy.Market) { m.Floor = 1 }), "none": {}} {
		_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: name, Question: "vote", Objects: []string{"ann"}, Policy: p})
		got := Refusals(t, err)
		check.That(t, got[0].Reason == api.PolicyDiffers, "%s: %+v", name, got)
	}
	check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "same", Question: "vote", Objects: []string{"ann"}, Policy: Market(t, "2")})))
	s := Sell(t, l, Purchase(t, "2", "acme", "1", "ann"))
	check.That(t, s.Price == 0 && s.Resales == 1, "what acme has paid for costs %+v", s)
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Spent == Eps(t, "1") && o.Earned == 100, "ann came back as %+v", o)
	AuditAll(t, l)
}

// Invariant 12 and the promise of Advance: it does not matter how often it is called. One call after a month
// leaves the levels of one every day, whatever was sold in between, and a clock that goes back releases
// nothing.

// month is a month of a few objects under policies that release something by themselves.
type month struct {
	*T
	ledger Book
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
	EnrollUnder(t, l, "still", Market(t, "2"), limit, "bob", "dot") // nothing of it comes by itself
	return m
}

// live lets the month pass with a sale here and there, and sweeps on the days asked for.
func (m *month) live(sales bool, sweeps func(day int) bool) *month {
	m.Helper()
	l := m.ledger
	for day := range days + 1 {
		now := ledgertest.Begin().Add(time.Duration(day) * 24 * time.Hour)
		m.clock.Set(now)
		if sales {
			switch day {
			case 10: // 0.5 has been released; this level is none of those that come by themselves
				CarryOut(m, l, Order(m, "a", "0.33", "ann", "bob"))
				m.sell("still", "0.33", "bob")
			case 15:
				CarryOut(m, l, Order(m, "b", "0.7", "bob"))
				CarryOut(m, l, Order(m, "c", "0.725", "bob"))
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
	result := check.Value(m.ledger.Advance(m.Context(), api.AdvanceRequest{Key: key, Truth: SameTruth("yes")}))(m)
	return result
}

// levels are all recorded ε by object and question, without the responses.
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

func TestOneSweepAfterAMonthIsAsGoodAsThirty(t *testing.T) {
	Anywhere(t, testOneSweepAfterAMonthIsAsGoodAsThirty)
}

func testOneSweepAfterAMonthIsAsGoodAsThirty(t *T) {
	for name, limit := range map[string]string{"wide": "9", "tight": "2.4"} {
		t.Run(name, func(t *T) {
			want := newMonth(t, limit).live(false, func(int) bool { return true }).levels()
			if name == "wide" && (len(want["ann/vote"]) != 30 || len(want["ann/smoker"]) != 17) || want["bob/still"] != nil {
				t.Errorf("what was released is %v", want)
			}
			o := want["ann"][0]
			check.That(t, name != "tight" || !Eps(t, "2.4").Less(o), "ann has spent %s", o)
			for how, sweeps := range map[string]func(int) bool{
				"once": func(day int) bool { return day == days }, "seldom": func(day int) bool { return day%7 == 3 || day == days },
			} {
				// Where a cap binds, the chains of an object take their turns by the calendar.
				got := newMonth(t, limit).live(false, sweeps).levels()
				check.That(t, reflect.DeepEqual(got, want), "%s: %v\nwant %v", how, got, want)
			}
		})
	}
}

// With sales in between: what a sale has overtaken is derived for nothing, and the levels are the same.
func TestSweepsAndSalesComeToTheSameLevels(t *testing.T) {
	Anywhere(t, testSweepsAndSalesComeToTheSameLevels)
}

func testSweepsAndSalesComeToTheSameLevels(t *T) {
	want := newMonth(t, "9").live(true, func(int) bool { return true })
	AuditAll(t, want.ledger)
	levels := want.levels()
	if !slices.Contains(levels["bob/vote"], Eps(t, "0.725")) || len(levels["ann/vote"]) != 31 || len(levels["cid/vote"]) != 19 || len(levels["dot/still"]) != 2 {
		t.Errorf("the month came to %v", levels)
	}
	for how, sweeps := range map[string]func(int) bool{
		"once": func(day int) bool { return day == days }, "seldom": func(day int) bool { return day%4 == 1 || day == 19 || day == days },
	} {
		m := newMonth(t, "9").live(true, sweeps)
		AuditAll(t, m.ledger)
		got := m.levels()
		// cid left on day 20, with what had been released at the sweep before.
		for _, gone := range []string{"cid", "cid/vote"} {
			delete(got, gone)
			delete(levels, gone)
		}
		check.That(t, reflect.DeepEqual(got, levels), "%s: %v\nwant %v", how, got, levels)
	}
}

// A sweep costs what the highest level costs, and asks for no truth below it.
func TestASweepBelowTheTopIsFree(t *testing.T) { Anywhere(t, testASweepBelowTheTopIsFree) }

func testASweepBelowTheTopIsFree(t *T) {
	m := newMonth(t, "9")
	m.clock.Set(ledgertest.Begin().Add(15 * 24 * time.Hour)) // 0.75 is released
	CarryOut(t, m.ledger, Order(t, "top", "0.75", "ann", "bob", "cid"))
	before := []api.ObjectState{ObjectOf(t, m.ledger, "ann"), ObjectOf(t, m.ledger, "cid")}
	result, err := m.ledger.Advance(t.Context(), api.AdvanceRequest{Key: "free", Question: "vote", Truth: Never(t)})
	check.Must(t, err)
	want := []api.Advanced{{Question: "vote", Raised: 3}}
	check.That(t, reflect.DeepEqual([]api.Advanced(result.Questions), want), "the sweep came to %+v", result)
	for _, was := range before {
		is := ObjectOf(t, m.ledger, was.Object)
		check.That(t, is.Spent == was.Spent && len(is.Chains[0].Levels) == 15, "%+v became %+v", was, is)
	}
	WantClean(t, m.ledger, api.VerifyRequest{})
}

// A clock that goes back releases nothing, and one that comes back releases nothing twice.
func TestAClockThatGoesBackReleasesNothing(t *testing.T) {
	Anywhere(t, testAClockThatGoesBackReleasesNothing)
}

func testAClockThatGoesBackReleasesNothing(t *T) {
	m := newMonth(t, "9")
	m.clock.Set(ledgertest.Begin().Add(10 * 24 * time.Hour))
	m.sweep("day 10")
	want := m.levels()
	released := CountKind(Events(t, m.ledger), "released")
	for i, jump := range []int{0, 5, -3650, 9, 10} {
		m.clock.Set(ledgertest.Begin().Add(time.Duration(jump) * 24 * time.Hour))
		result := check.Value(m.ledger.Advance(t.Context(), api.AdvanceRequest{Key: fmt.Sprint("jump ", i), Truth: Never(t)}))(t)
		for _, one := range result.Questions {
			check.That(t, one.Raised == 0 && len(one.Refused) == 0, "day %d: %+v", jump, one)
		}
		got := m.levels()
		check.That(t, reflect.DeepEqual(got, want), "day %d: %v\nwant %v", jump, got, want)
	}
	n := CountKind(Events(t, m.ledger), "released")
	check.That(t, n == released, "%d responses were released by going back", n-released)
}

// Before the beginning of everything only what has no date is released.
func TestNothingIsReleasedBeforeItsTime(t *testing.T) {
	Anywhere(t, testNothingIsReleasedBeforeItsTime)
}

func testNothingIsReleasedBeforeItsTime(t *T) {
	m := newMonth(t, "9")
	m.clock.Set(ledgertest.Begin().Add(-24 * time.Hour))
	m.sweep("early")
	for _, ev := range Events(t, m.ledger) {
		d, is := ev.Says.(says.Released)
		check.That(t, !is || d.Question == "smoker" && d.Epsilon == Eps(t, "0.25"), "%+v", ev)
	}
}

// An object that cannot follow its policy holds nobody up, and says why.
func TestASweepLeavesOutWhoCannotFollow(t *testing.T) {
	Anywhere(t, testASweepLeavesOutWhoCannotFollow)
}

func testASweepLeavesOutWhoCannotFollow(t *T) {
	m := newMonth(t, "1")
	m.clock.Set(ledgertest.Begin().Add(10 * 24 * time.Hour)) // 0.5 is released
	l := m.ledger
	hold := Reserve(t, l, api.ReserveRequest{Key: "h", Order: api.Order{Buyer: "acme", Question: "still", Epsilon: Eps(t, "0.5"), Objects: []string{"bob"}}, For: time.Hour})
	Release(t, l, api.ReleaseRequest{Key: "host", Question: "smoker", Object: "bob", Epsilon: Eps(t, "0.25"), Truth: SameTruth("yes")})
	result := check.Value(l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Question: "vote", Truth: ListOf("yes", "yes", "")}))(t)
	want := []api.Advanced{{Question: "vote", Raised: 1, Refused: []api.Refusal{
		{Object: "bob", Reason: api.ObjectCap, Ceiling: Eps(t, "1"), Spent: Eps(t, "0.5"), Asked: Eps(t, "0.3"), Cost: Eps(t, "0.05"), Remaining: Eps(t, "0"), Remedy: "waiting", Largest: Eps(t, "0.25")},
		{Object: "cid", Reason: api.NoTruth, Asked: Eps(t, "0.05"), Remedy: "truth"},
	}}}
	check.That(t, reflect.DeepEqual([]api.Advanced(result.Questions), want), "got %+v", result.Questions)
	s := Commit(t, l, "c", hold.Number)
	check.That(t, s.Draws == 1 && ObjectOf(t, l, "bob").Spent == Eps(t, "1"), "%+v", s)
	tight := newMonth(t, "0.5")
	tight.clock.Set(ledgertest.Begin().Add(days * 24 * time.Hour))
	for _, one := range tight.sweep("day").Questions {
		for _, refusal := range one.Refused {
			if refusal.Reason != api.ObjectCap || refusal.Remedy != "less" || refusal.Largest.IsZero() {
				t.Errorf("%s: %+v", one.Question, refusal)
			}
		}
	}
	for _, name := range []string{"ann", "bob", "cid"} {
		// What remains is less than the next step of any of its chains.
		if o := ObjectOf(t, tight.ledger, name); Eps(t, "0.5").Less(o.Spent) || !o.Remaining.Less(Eps(t, "0.05")) {
			t.Errorf("%s has spent %s", name, o.Spent)
		}
	}
	AuditAll(t, l)
	WantClean(t, tight.ledger, api.VerifyRequest{})
}

// The progress of a sweep counts objects, and of a sweep of one question those who take part in it.
func TestTheProgressOfASweepEnds(t *testing.T) { Both(t, testTheProgressOfASweepEnds) }

func testTheProgressOfASweepEnds(t *T) {
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

// A sweep does not depend on how often it runs, also where a part of the policy waits for orders.
func TestSweepsBesideAPolicyThatWaitsForOrders(t *testing.T) {
	Anywhere(t, testSweepsBesideAPolicyThatWaitsForOrders)
}

func testSweepsBesideAPolicyThatWaitsForOrders(t *T) {
	run := func(days ...int) []string {
		clock := ledgertest.NewClock(ledgertest.Begin())
		l := Open(t, ledger.Options{Now: clock.Now})
		shares := check.Value(policy.Unlock(Eps(t, "1"), 10))(t)
		both := check.Value(policy.Sum(shares, straight(t, "0.1")))(t)
		Define(t, l, Vote())
		Define(t, l, Smoker())
		EnrollUnder(t, l, "vote", both, "1", "ann", "bob")
		EnrollUnder(t, l, "smoker", straight(t, "0.1"), "1", "ann")
		for _, day := range days {
			clock.Set(on(day))
			_, err := l.Advance(t.Context(), api.AdvanceRequest{Key: fmt.Sprint(day), Truth: SameTruth("yes")})
			check.Must(t, err)
		}
		var out []string
		for _, name := range []string{"ann", "bob"} {
			for _, c := range ObjectOf(t, l, name).Chains {
				out = append(out, c.Epsilon.String())
			}
		}
		return out
	}
	once, daily := run(10), run(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	check.That(t, reflect.DeepEqual(once, daily) && once[2] == "1", "once %v, daily %v", once, daily)
}

// However many levels there are to catch up with, each truth is asked for once.
func TestASweepAsksOnce(t *testing.T) { Anywhere(t, testASweepAsksOnce) }

func testASweepAsksOnce(t *T) {
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
		"%d truths asked for %d objects: %+v", asked, len(names), result)
	n := len(Responses(t, l, "vote", Eps(t, "0.95")))
	check.That(t, n == len(names), "%d of %d have the last level but one", n, len(names))
}

// Whoever has another truth than before is left out of a sweep and holds nobody up.
func TestASweepLeavesOutWhoHasChanged(t *testing.T) { Anywhere(t, testASweepLeavesOutWhoHasChanged) }

func testASweepLeavesOutWhoHasChanged(t *T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := Open(t, ledger.Options{Now: clock.Now, TruthKey: TruthKey()})
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", straight(t, "0.1"), "9", "ann", "bob")
	for day, truth := range []api.TruthFunc{nil, ListOf("yes", "yes"), ListOf("no", "yes")} {
		clock.Set(on(day))
		result := check.Value(l.Advance(t.Context(), api.AdvanceRequest{Key: fmt.Sprint(day), Truth: truth}))(t)
		if one := result.Questions[0]; day == 2 && (one.Raised != 1 || len(one.Refused) != 1 || one.Refused[0] != (api.Refusal{Object: "ann", Reason: api.NoTruth, Asked: Eps(t, "0.2"), Remedy: "truth", Largest: Eps(t, "0.1")}) || !slices.Equal(one.TruthChanged, []string{"ann"})) {
			t.Errorf("%+v", one)
		}
	}
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Spent == Eps(t, "0.1"), "ann has spent %s", o.Spent)
	WantClean(t, l, api.VerifyRequest{})
}

// unlocking sells ann's vote: half of ε=1 is unlocked by each of two buyers.
func unlocking(t testing.TB) Book {
	t.Helper()
	l := Open(t, ledger.Options{Now: ledgertest.Begin})
	Define(t, l, Vote())
	halves := check.Value(policy.Unlock(Eps(t, "1"), 2))(t)
	p := check.Value(policy.Min(Market(t, "1"), halves))(t)
	EnrollUnder(t, l, "vote", p, "9", "ann")
	return l
}

// straight is a calendar of some days from 0 to 1.
func straight(t testing.TB, stride string) policy.Policy {
	t.Helper()
	p := check.Value(policy.Linear(Eps(t, "0"), Eps(t, "1"), ledgertest.Begin(), ledgertest.Begin().Add(10*24*time.Hour), Eps(t, stride)))(t)
	return p
}

// Many small upgrades by one buyer unlock what one order does; another buyer unlocks the rest.
func TestUnlockCountsBuyers(t *testing.T) { Anywhere(t, testUnlockCountsBuyers) }

func testUnlockCountsBuyers(t *T) {
	l := unlocking(t)
	for _, e := range []string{"0.1", "0.2", "0.3", "0.4", "0.5"} {
		Sell(t, l, Purchase(t, e, "acme", e, "ann"))
	}
	_, err := l.Sell(t.Context(), Purchase(t, "more", "acme", "0.500000001", "ann"))
	if r := Refusals(t, err)[0]; r.Reason != api.ChainCeiling || r.Ceiling != Eps(t, "0.5") || r.Remedy != "waiting" {
		t.Errorf("one buyer wants more than its share: %+v", r)
	}
	if c := ObjectOf(t, l, "ann").Chains[0]; c.Buyers != 1 || c.Ceiling != Eps(t, "0.5") {
		t.Errorf("one buyer is counted as %d, and unlocks %s", c.Buyers, c.Ceiling)
	}
	Sell(t, l, Purchase(t, "zeta", "zeta", "1", "ann"))
	Sell(t, l, Purchase(t, "all", "acme", "1", "ann"))
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "ann"}))
	_, err = l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"ann"}, Policy: *ObjectOf(t, l, "ann").Chains[0].Policy})
	check.Must(t, err)
	if c := ObjectOf(t, l, "ann").Chains[0]; c.Buyers != 2 || c.Ceiling != Eps(t, "1") {
		t.Errorf("of %d buyers after a change of mind, %s is unlocked", c.Buyers, c.Ceiling)
	}
	// Who has bought is destroyed with the responses: the shares are unlocked anew.
	check.Must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "ann"}))
	if c := ObjectOf(t, l, "ann").Chains[0]; c.Buyers != 0 || !c.Ceiling.IsZero() {
		t.Errorf("of %d buyers of a forgotten chain, %s is unlocked", c.Buyers, c.Ceiling)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// A reservation counts on the share of its own buyer and of those before it. Whatever others buy meanwhile, also the same
// buyer in another order, and whatever is answered, it can be captured.
func TestAReservationOutlivesWhatOthersUnlock(t *testing.T) {
	Anywhere(t, testAReservationOutlivesWhatOthersUnlock)
}

func testAReservationOutlivesWhatOthersUnlock(t *T) {
	reserved := func(l Book, key, buyer, e string) api.Reservation {
		r := check.Value(l.Reserve(t.Context(), api.ReserveRequest{Key: key, Order: Purchase(t, key, buyer, e, "ann").Order, For: time.Hour}))(t)
		return r
	}
	captured := func(l Book, r api.Reservation) {
		t.Helper()
		check.Must(t, check.Err(l.Capture(t.Context(), api.CaptureRequest{Key: "capture " + r.Key, Reservation: r.Number, Truth: SameTruth("yes")})))
	}
	for name, meanwhile := range map[string]func(l Book){
		"another buyer":           func(l Book) { Sell(t, l, Purchase(t, "z", "zeta", "0.25", "ann")) },
		"another buyer, for more": func(l Book) { Sell(t, l, Purchase(t, "z", "zeta", "0.5", "ann")) },
		"two others": func(l Book) {
			Sell(t, l, Purchase(t, "z", "zeta", "0.5", "ann"))
			Sell(t, l, Purchase(t, "h", "hooli", "1", "ann"))
		},
		"the same buyer":                  func(l Book) { Sell(t, l, Purchase(t, "a", "acme", "0.1", "ann")) },
		"another reservation of the same": func(l Book) { captured(l, reserved(l, "again", "acme", "0.3")) },
		"one that is cancelled": func(l Book) {
			check.Must(t, l.Cancel(t.Context(), "c", reserved(l, "z", "zeta", "0.5").Number))
		},
	} {
		t.Run(name, func(t *T) {
			l := unlocking(t)
			r := reserved(l, "r", "acme", "0.5")
			meanwhile(l)
			captured(l, r)
			WantClean(t, l, api.VerifyRequest{})
		})
	}
}

// An answer may take what a further buyer would unlock, but nothing that a reservation counts on: its buyer, who is counted
// already, unlocks nothing more by it.
func TestAnAnswerLeavesAKnownBuyersReservation(t *testing.T) {
	Anywhere(t, testAnAnswerLeavesAKnownBuyersReservation)
}

func testAnAnswerLeavesAKnownBuyersReservation(t *T) {
	l := unlocking(t)
	Sell(t, l, Purchase(t, "a", "acme", "0.1", "ann"))
	r, err := l.Reserve(t.Context(), api.ReserveRequest{Key: "r", Order: Purchase(t, "r", "acme", "0.5", "ann").Order, For: time.Hour})
	check.Must(t, err)
	_, err = l.Answer(t.Context(), Inquire(t, "q", "majority:yes", "0.1", Ballots("ann"), "ann"))
	if refused := Refusals(t, err)[0]; refused.Reason != api.ChainCeiling || !refused.Remaining.IsZero() {
		t.Errorf("an answer takes what is reserved: %+v", refused)
	}
	_, err = l.Capture(t.Context(), api.CaptureRequest{Key: "c", Reservation: r.Number, Truth: SameTruth("yes")})
	check.Must(t, err)
}

// What is for sale is released by sales: the calendar raises the ceiling and draws nothing. The host may raise it itself.
func TestAdvanceDrawsNothingThatIsForSale(t *testing.T) {
	Anywhere(t, testAdvanceDrawsNothingThatIsForSale)
}

func testAdvanceDrawsNothingThatIsForSale(t *T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := Open(t, ledger.Options{Now: clock.Now})
	Define(t, l, Vote())
	calendar := straight(t, "0.1")
	sold := check.Value(policy.Min(calendar, Market(t, "1")))(t)
	EnrollUnder(t, l, "vote", sold, "9", "ann", "bob")
	EnrollUnder(t, l, "vote", calendar, "9", "cid")
	clock.Set(ledgertest.Begin().Add(5 * 24 * time.Hour))
	done := check.Value(l.Advance(t.Context(), api.AdvanceRequest{Key: "a", Truth: SameTruth("yes")}))(t)
	q := done.Questions[0]
	check.That(t, q.Raised == 1 && q.Unchanged == 2 && len(q.Refused) == 0, "%+v", q)
	for name, want := range map[string]string{"ann": "0", "cid": "0.5"} {
		if o := ObjectOf(t, l, name); o.Spent != Eps(t, want) || o.Chains[0].Ceiling != Eps(t, "0.5") {
			t.Errorf("%s has spent %s of %s", name, o.Spent, o.Chains[0].Ceiling)
		}
	}
	s := Sell(t, l, Purchase(t, "s", "acme", "0.5", "ann"))
	check.That(t, s.Draws == 1, "the sale drew %d", s.Draws)
	Release(t, l, ReleaseOf(t, "host", "bob", "0.5"))
}

// Each reading of a reservation reports the same state at the same instant: the result of Reserve, the reading by number, the
// lists, and the errors of requests that need an open one. Reserve repeated with its key succeeds only while the reservation is open.
func TestReservation_EachReadingReportsTheSameState(t *testing.T) {
	Both(t, func(t *T) {
		clock := ledgertest.NewClock(ledgertest.Begin())
		l := Open(t, ledger.Options{Now: clock.Now})
		t.Run("called", func(t *T) { testReservationStates(t, l, clock, "called") })
		t.Run("served", func(t *T) { testReservationStates(t, Served(t, l.(*ledger.Ledger)), clock, "served") })
		WantClean(t, l, api.VerifyRequest{})
	})
}

func testReservationStates(t *T, l Book, clock *ledgertest.Clock, buyer string) {
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
	clock.Set(end.Add(-1)) // the last instant at which the short one is open
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
		check.That(t, err == nil && read.State == state, "%s: it is read as %s, %v", state, read.State, err)
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
			t.Errorf("in the states %q are %v, want %v", states, got, want)
		}
	}
	for _, err := range l.Reservations(t.Context(), "", "sold") {
		check.That(t, errors.Is(err, api.ErrInvalid), "of a state that there is not: %v", err)
	}

	// One that has expired can be cancelled, and then no clock that is put right opens it again.
	check.Must(t, l.Cancel(t.Context(), buyer+"settle", number["expired"]))
	_, err := l.Reserve(t.Context(), expired)
	wantClosed(t, "after it was settled", api.ReservationError{Number: number["expired"], State: "cancelled"}, err)

	// A sale that was never reserved is no reservation, whatever is asked of it.
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
	if !errors.As(err, &got) || !errors.Is(err, api.ErrNotReserved) || !got.Expires.Equal(want.Expires) {
		t.Errorf("%s: %v, want %v", what, err, &want)
		return
	}
	if flat := *got; flat.Number != want.Number || flat.State != want.State || flat.Sale != want.Sale {
		t.Errorf("%s: %+v, want %+v", what, flat, want)
	}
}

// A reservation that expired by a clock which was ahead, and by which nothing was written, is open again when the clock is put right.
func TestReservation_ClockPutRight_IsOpenAgain(t *testing.T) {
	Both(t, func(t *T) {
		clock := ledgertest.NewClock(ledgertest.Begin())
		l := Open(t, ledger.Options{Now: clock.Now})
		Sellers(t, l, "9", "9", "ann")
		r := api.ReserveRequest{Key: "r", Order: Purchase(t, "", "acme", "1", "ann").Order, For: time.Hour}
		made := Reserve(t, l, r)
		clock.Advance(time.Hour)
		_, err := l.Reserve(t.Context(), r)
		check.That(t, errors.Is(err, api.ErrNotReserved), "by the clock that is ahead: %v", err)
		clock.Advance(-time.Minute)
		if again := Reserve(t, l, r); again.Number != made.Number || again.State != "open" {
			t.Errorf("by the clock put right: %+v", again)
		}
		clock.Advance(time.Minute)
		Release(t, l, ReleaseOf(t, "an event", "ann", "0.1")) // which moves the log's time on
		clock.Advance(-time.Minute)
		if _, err := l.Reserve(t.Context(), r); !errors.Is(err, api.ErrNotReserved) {
			t.Errorf("after the log has passed the expiry: %v", err)
		}
	})
}

// The objects of an order that are left out are in one place, whichever request left them out, and whenever it is read.
func TestReservation_RefusedObjects_AreCompleteInEveryReading(t *testing.T) {
	Both(t, func(t *T) {
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
	})
}

func wantLeftOut(t *T, what string, refused []api.Refusal, want ...string) {
	t.Helper()
	var got []string
	for _, r := range refused {
		got = append(got, r.Object)
	}
	check.That(t, slices.Equal(got, want), "%s: %q are left out, want %q", what, got, want)
}

// An object is part of so many open reservations, and no more, until one of them ends.
func TestReserve_ManyOfOneObject_AreBounded(t *testing.T) { Anywhere(t, testReservationsAreBounded) }

func testReservationsAreBounded(t *T) {
	now := on(1)
	l := Open(t, ledger.Options{Now: func() time.Time { return now }})
	Sellers(t, l, "2", "9", "ann", "bob")
	request := func(key string) api.ReserveRequest {
		return api.ReserveRequest{Key: key, Order: Purchase(t, key, "buyer "+key, "1", "ann").Order, For: time.Hour}
	}
	var last api.Reservation
	for i := range 128 {
		last = Reserve(t, l, request(fmt.Sprint(i)))
	}
	refused := func(key string) {
		t.Helper()
		got := Refusals(t, check.Err(l.Reserve(t.Context(), request(key))))
		check.That(t, len(got) == 1 && got[0].Reason == api.Full && got[0].Remedy == "waiting",
			"refused %+v", got)
	}
	refused("over")
	Sell(t, l, Purchase(t, "sold", "another", "1", "ann"))
	Commit(t, l, "captured", last.Number)
	Reserve(t, l, request("in its place"))
	refused("over again")
	now = now.Add(time.Hour)
	Reserve(t, l, request("after they have expired"))
	AuditAll(t, l)
}
