package model

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

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
	slow, err := policy.Linear(Eps(t, "0"), Eps(t, "1.5"), ledgertest.Begin(), end, Eps(t, "0.05"))
	Must(t, err)
	halving, err := policy.Halving(Eps(t, "0.1"), Eps(t, "2"), ledgertest.Begin().Add(24*time.Hour), 5*24*time.Hour, Eps(t, "0.125"))
	Must(t, err)
	both, err := policy.Sum(halving, policy.Fixed(Eps(t, "0.25")))
	Must(t, err)
	Define(t, l, Vote())
	Define(t, l, Smoker())
	Define(t, l, api.Question{Name: "still", Values: []string{"yes", "no"}, Encoding: api.Direct})
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
				Must(m, m.ledger.Withdraw(m.Context(), "gone", "cid"))
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
	result, err := m.ledger.Advance(m.Context(), api.AdvanceRequest{Key: key, Truth: SameTruth("yes")})
	Must(m, err)
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
			if o := want["ann"][0]; name == "tight" && Eps(t, "2.4").Less(o) {
				t.Errorf("ann has spent %s", o)
			}
			for how, sweeps := range map[string]func(int) bool{
				"once": func(day int) bool { return day == days }, "seldom": func(day int) bool { return day%7 == 3 || day == days },
			} {
				// Where a cap binds, the chains of an object take their turns by the calendar.
				if got := newMonth(t, limit).live(false, sweeps).levels(); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %v\nwant %v", how, got, want)
				}
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
		if !reflect.DeepEqual(got, levels) {
			t.Errorf("%s: %v\nwant %v", how, got, levels)
		}
	}
}

// A sweep costs what the highest level costs, and asks for no truth below it.
func TestASweepBelowTheTopIsFree(t *testing.T) {
	Anywhere(t, testASweepBelowTheTopIsFree)
}

func testASweepBelowTheTopIsFree(t *T) {
	m := newMonth(t, "9")
	m.clock.Set(ledgertest.Begin().Add(15 * 24 * time.Hour)) // 0.75 is released
	CarryOut(t, m.ledger, Order(t, "top", "0.75", "ann", "bob", "cid"))
	before := []api.ObjectState{ObjectOf(t, m.ledger, "ann"), ObjectOf(t, m.ledger, "cid")}
	result, err := m.ledger.Advance(t.Context(), api.AdvanceRequest{Key: "free", Question: "vote", Truth: Never(t)})
	Must(t, err)
	if want := []api.Advanced{{Question: "vote", Raised: 3}}; !reflect.DeepEqual(result.Questions, want) {
		t.Errorf("the sweep came to %+v", result)
	}
	for _, was := range before {
		if is := ObjectOf(t, m.ledger, was.Object); is.Spent != was.Spent || len(is.Chains[0].Levels) != 15 {
			t.Errorf("%+v became %+v", was, is)
		}
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
		result, err := m.ledger.Advance(t.Context(), api.AdvanceRequest{Key: fmt.Sprint("jump ", i), Truth: Never(t)})
		Must(t, err)
		for _, one := range result.Questions {
			if one.Raised != 0 || len(one.Refused) != 0 {
				t.Errorf("day %d: %+v", jump, one)
			}
		}
		if got := m.levels(); !reflect.DeepEqual(got, want) {
			t.Errorf("day %d: %v\nwant %v", jump, got, want)
		}
	}
	if n := CountKind(Events(t, m.ledger), "released"); n != released {
		t.Errorf("%d responses were released by going back", n-released)
	}
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
		if d, is := ev.Says.(says.Released); is && (d.Question != "smoker" || d.Epsilon != Eps(t, "0.25")) {
			t.Errorf("%+v", ev)
		}
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
	result, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Question: "vote", Truth: ListOf("yes", "yes", "")})
	Must(t, err)
	want := []api.Advanced{{Question: "vote", Raised: 1, Refused: []api.Refusal{
		{Object: "bob", Reason: api.ObjectCap, Ceiling: Eps(t, "1"), Spent: Eps(t, "0.5"), Asked: Eps(t, "0.3"), Cost: Eps(t, "0.05"), Remaining: Eps(t, "0"), Remedy: api.RemedyWaiting, Largest: Eps(t, "0.25")},
		{Object: "cid", Reason: api.NoTruth, Asked: Eps(t, "0.05"), Remedy: api.RemedyTruth},
	}}}
	if !reflect.DeepEqual(result.Questions, want) {
		t.Errorf("got %+v", result.Questions)
	}
	if s := Commit(t, l, "c", hold.Number); s.Draws != 1 || ObjectOf(t, l, "bob").Spent != Eps(t, "1") {
		t.Errorf("%+v", s)
	}
	tight := newMonth(t, "0.5")
	tight.clock.Set(ledgertest.Begin().Add(days * 24 * time.Hour))
	for _, one := range tight.sweep("day").Questions {
		for _, refusal := range one.Refused {
			if refusal.Reason != api.ObjectCap || refusal.Remedy != api.RemedyLess || refusal.Largest.IsZero() {
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
func TestTheProgressOfASweepEnds(t *testing.T) {
	Both(t, testTheProgressOfASweepEnds)
}

func testTheProgressOfASweepEnds(t *T) {
	for _, question := range []string{"", "vote", "still"} {
		m := newMonth(t, "9")
		m.clock.Set(ledgertest.Begin().Add(10 * 24 * time.Hour))
		done, total := 0, -1
		_, err := m.ledger.Advance(t.Context(), api.AdvanceRequest{Key: "day", Question: question, Truth: SameTruth("yes"), Progress: func(d, n int) { done, total = d, n }})
		Must(t, err)
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
		shares, err := policy.Unlock(Eps(t, "1"), 10)
		Must(t, err)
		both, err := policy.Sum(shares, straight(t, "0.1"))
		Must(t, err)
		Define(t, l, Vote())
		Define(t, l, Smoker())
		EnrollUnder(t, l, "vote", both, "1", "ann", "bob")
		EnrollUnder(t, l, "smoker", straight(t, "0.1"), "1", "ann")
		for _, day := range days {
			clock.Set(on(day))
			_, err := l.Advance(t.Context(), api.AdvanceRequest{Key: fmt.Sprint(day), Truth: SameTruth("yes")})
			Must(t, err)
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
	if !reflect.DeepEqual(once, daily) || once[2] != "1" {
		t.Errorf("once %v, daily %v", once, daily)
	}
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
	result, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: func(ctx context.Context, q string, objects []string) ([]string, error) {
		asked += len(objects)
		return SameTruth("yes")(ctx, q, objects)
	}})
	Must(t, err)
	if asked != len(names) || result.Questions[0].Raised != len(names) {
		t.Errorf("%d truths asked for %d objects: %+v", asked, len(names), result)
	}
	if n := len(Responses(t, l, "vote", Eps(t, "0.95"))); n != len(names) {
		t.Errorf("%d of %d have the last level but one", n, len(names))
	}
}

// Whoever has another truth than before is left out of a sweep and holds nobody up.
func TestASweepLeavesOutWhoHasChanged(t *testing.T) {
	Anywhere(t, testASweepLeavesOutWhoHasChanged)
}

func testASweepLeavesOutWhoHasChanged(t *T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := Open(t, ledger.Options{Now: clock.Now, TruthKey: TruthKey()})
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", straight(t, "0.1"), "9", "ann", "bob")
	for day, truth := range []api.TruthFunc{nil, ListOf("yes", "yes"), ListOf("no", "yes")} {
		clock.Set(on(day))
		result, err := l.Advance(t.Context(), api.AdvanceRequest{Key: fmt.Sprint(day), Truth: truth})
		Must(t, err)
		if one := result.Questions[0]; day == 2 && (one.Raised != 1 || len(one.Refused) != 1 || one.Refused[0] != (api.Refusal{Object: "ann", Reason: api.NoTruth, Asked: Eps(t, "0.2"), Remedy: api.RemedyTruth, Largest: Eps(t, "0.1")}) || !slices.Equal(one.TruthChanged, []string{"ann"})) {
			t.Errorf("%+v", one)
		}
	}
	if o := ObjectOf(t, l, "ann"); o.Spent != Eps(t, "0.1") {
		t.Errorf("ann has spent %s", o.Spent)
	}
	WantClean(t, l, api.VerifyRequest{})
}
