package ledger

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/history"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Invariant 12 and the promise of Advance: it does not matter how often it is called. One call after a month
// leaves the levels of one every day, whatever was sold in between, and a clock that goes back releases
// nothing.

// month is a month of a few objects under policies that release something by themselves.
type month struct {
	*testing.T
	ledger *Ledger
	clock  *fakeClock
}

const days = 30

func newMonth(t *testing.T, limit string) *month {
	m := &month{T: t, clock: newClock(epoch())}
	m.ledger = inMemory(t, Options{Now: m.clock.read})
	l, end := m.ledger, epoch().Add(days*24*time.Hour)
	slow, err := policy.Linear(eps(t, "0"), eps(t, "1.5"), epoch(), end, eps(t, "0.05"))
	must(t, err)
	halving, err := policy.Halving(eps(t, "0.1"), eps(t, "2"), epoch().Add(24*time.Hour), 5*24*time.Hour, eps(t, "0.125"))
	must(t, err)
	both, err := policy.Sum(halving, policy.Fixed(eps(t, "0.25")))
	must(t, err)
	define(t, l, vote())
	define(t, l, smoker())
	define(t, l, Question{Name: "still", Values: []string{"yes", "no"}, Encoding: Direct})
	enrollUnder(t, l, "vote", slow, limit, "ann", "bob", "cid")
	enrollUnder(t, l, "smoker", both, limit, "ann", "bob")
	enrollUnder(t, l, "still", market(t, "2"), limit, "bob", "dot") // nothing of it comes by itself
	return m
}

// live lets the month pass with a sale here and there, and sweeps on the days asked for.
func (m *month) live(sales bool, sweeps func(day int) bool) *month {
	m.Helper()
	l := m.ledger
	for day := range days + 1 {
		now := epoch().Add(time.Duration(day) * 24 * time.Hour)
		m.clock.set(now)
		if sales {
			switch day {
			case 10: // 0.5 has been released; this level is none of those that come by themselves
				carryOut(m, l, order(m, "a", "0.33", "ann", "bob"))
				m.sell("still", "0.33", "bob")
			case 15:
				carryOut(m, l, order(m, "b", "0.7", "bob"))
				carryOut(m, l, order(m, "c", "0.725", "bob"))
				m.sell("still", "0.7", "bob", "dot")
			case 20:
				must(m, m.ledger.Withdraw(m.Context(), "gone", "cid"))
			case 21:
				r := ReleaseRequest{Key: "host", Question: "smoker", Object: "ann", Epsilon: eps(m, "0.6"), Truth: TruthOf("yes")}
				release(m, l, r)
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
func (m *month) sell(question, epsilon string, objects ...string) Sale {
	m.Helper()
	r := purchase(m, fmt.Sprint("sold ", question, epsilon), "acme", epsilon, objects...)
	r.Question = question
	return sell(m, m.ledger, r)
}

func (m *month) sweep(key string) AdvanceResult {
	m.Helper()
	result, err := m.ledger.Advance(m.Context(), AdvanceRequest{Key: key, Truth: TruthOf("yes")})
	must(m, err)
	return result
}

// levels are all recorded ε by object and question, without the responses.
func (m *month) levels() map[string][]privacy.Epsilon {
	m.Helper()
	all := map[string][]privacy.Epsilon{}
	for _, name := range []string{"ann", "bob", "cid", "dot"} {
		o := objectOf(m, m.ledger, name)
		all[name] = []privacy.Epsilon{o.Spent, nano(m, o.Earned)}
		for _, c := range o.Chains {
			for _, at := range c.Levels {
				all[name+"/"+c.Question] = append(all[name+"/"+c.Question], at.Epsilon)
			}
		}
	}
	return all
}

func TestOneSweepAfterAMonthIsAsGoodAsThirty(t *testing.T) {
	for name, limit := range map[string]string{"wide": "9", "tight": "2.4"} {
		t.Run(name, func(t *testing.T) {
			want := newMonth(t, limit).live(false, func(int) bool { return true }).levels()
			if name == "wide" && (len(want["ann/vote"]) != 30 || len(want["ann/smoker"]) != 17) || want["bob/still"] != nil {
				t.Errorf("what was released is %v", want)
			}
			if o := want["ann"][0]; name == "tight" && eps(t, "2.4").Less(o) {
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
	want := newMonth(t, "9").live(true, func(int) bool { return true })
	auditAll(t, want.ledger, want.ledger.engine.Store)
	levels := want.levels()
	if !slices.Contains(levels["bob/vote"], eps(t, "0.725")) || len(levels["ann/vote"]) != 31 || len(levels["cid/vote"]) != 19 || len(levels["dot/still"]) != 2 {
		t.Errorf("the month came to %v", levels)
	}
	for how, sweeps := range map[string]func(int) bool{
		"once": func(day int) bool { return day == days }, "seldom": func(day int) bool { return day%4 == 1 || day == 19 || day == days },
	} {
		m := newMonth(t, "9").live(true, sweeps)
		auditAll(t, m.ledger, m.ledger.engine.Store)
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
	m := newMonth(t, "9")
	m.clock.set(epoch().Add(15 * 24 * time.Hour)) // 0.75 is released
	carryOut(t, m.ledger, order(t, "top", "0.75", "ann", "bob", "cid"))
	before := []ObjectState{objectOf(t, m.ledger, "ann"), objectOf(t, m.ledger, "cid")}
	result, err := m.ledger.Advance(t.Context(), AdvanceRequest{Key: "free", Question: "vote", Truth: never(t)})
	must(t, err)
	if want := []Advanced{{Question: "vote", Raised: 3}}; !reflect.DeepEqual(result.Questions, want) {
		t.Errorf("the sweep came to %+v", result)
	}
	for _, was := range before {
		if is := objectOf(t, m.ledger, was.Object); is.Spent != was.Spent || len(is.Chains[0].Levels) != 15 {
			t.Errorf("%+v became %+v", was, is)
		}
	}
	auditStore(t, m.ledger.engine.Store)
}

// A clock that goes back releases nothing, and one that comes back releases nothing twice.
func TestAClockThatGoesBackReleasesNothing(t *testing.T) {
	m := newMonth(t, "9")
	m.clock.set(epoch().Add(10 * 24 * time.Hour))
	m.sweep("day 10")
	want := m.levels()
	released := countKind(events(t, m.ledger), "released")
	for i, jump := range []int{0, 5, -3650, 9, 10} {
		m.clock.set(epoch().Add(time.Duration(jump) * 24 * time.Hour))
		result, err := m.ledger.Advance(t.Context(), AdvanceRequest{Key: fmt.Sprint("jump ", i), Truth: never(t)})
		must(t, err)
		for _, one := range result.Questions {
			if one.Raised != 0 || len(one.Refused) != 0 {
				t.Errorf("day %d: %+v", jump, one)
			}
		}
		if got := m.levels(); !reflect.DeepEqual(got, want) {
			t.Errorf("day %d: %v\nwant %v", jump, got, want)
		}
	}
	if n := countKind(events(t, m.ledger), "released"); n != released {
		t.Errorf("%d responses were released by going back", n-released)
	}
}

// While a sweep runs: the part after the jump releases no more than the clock allows then, and the next sweep
// what is missing, once.
func TestAClockThatGoesBackDuringASweep(t *testing.T) {
	clock := newClock(epoch())
	l := sweepers(t, open(t, create(t), Options{Now: clock.read}), crowd(big)...)
	back := during(func() { clock.set(epoch().Add(-30 * time.Minute)) })
	_, err := l.Advance(t.Context(), AdvanceRequest{Key: "day", Truth: TruthOf("yes"), Progress: back})
	must(t, err)
	wantOrderedTimes(t, l)
	low, high := len(responses(t, l, "vote", eps(t, "0.25"))), len(responses(t, l, "vote", eps(t, "0.5")))
	if low != big || high != state.PartSize {
		t.Errorf("%d and %d have answered, want all %d and the %d of the first part", low, high, big, state.PartSize)
	}
	clock.set(epoch())
	var source asked
	_, err = l.Advance(t.Context(), AdvanceRequest{Key: "again", Truth: source.truth("yes")})
	must(t, err)
	if n := countKind(events(t, l), "released"); n != 2*big || len(source.names()) != big-state.PartSize {
		t.Errorf("%d responses were released, and %d objects asked about", n, len(source.names()))
	}
	auditStore(t, l.engine.Store)
}

// Before the beginning of everything only what has no date is released.
func TestNothingIsReleasedBeforeItsTime(t *testing.T) {
	m := newMonth(t, "9")
	m.clock.set(epoch().Add(-24 * time.Hour))
	m.sweep("early")
	for _, ev := range events(t, m.ledger) {
		if d, is := ev.Says.(history.Released); is && (d.Question != "smoker" || d.Epsilon != eps(t, "0.25")) {
			t.Errorf("%+v", ev)
		}
	}
}

// An object that cannot follow its policy holds nobody up, and says why.
func TestASweepLeavesOutWhoCannotFollow(t *testing.T) {
	m := newMonth(t, "1")
	m.clock.set(epoch().Add(10 * 24 * time.Hour)) // 0.5 is released
	l := m.ledger
	hold := reserve(t, l, ReserveRequest{Key: "h", Order: Order{Buyer: "acme", Question: "still", Epsilon: eps(t, "0.5"), Objects: []string{"bob"}}, For: time.Hour})
	release(t, l, ReleaseRequest{Key: "host", Question: "smoker", Object: "bob", Epsilon: eps(t, "0.25"), Truth: TruthOf("yes")})
	result, err := l.Advance(t.Context(), AdvanceRequest{Key: "day", Question: "vote", Truth: listOf("yes", "yes", "")})
	must(t, err)
	want := []Advanced{{Question: "vote", Raised: 1, Refused: []Refusal{
		{Object: "bob", Reason: ObjectCap, Ceiling: eps(t, "1"), Spent: eps(t, "0.5"), Asked: eps(t, "0.3"), Cost: eps(t, "0.05"), Remaining: eps(t, "0"), Remedy: vocabulary.RemedyWaiting, Largest: eps(t, "0.25")},
		{Object: "cid", Reason: NoTruth, Asked: eps(t, "0.05"), Remedy: vocabulary.RemedyTruth},
	}}}
	if !reflect.DeepEqual(result.Questions, want) {
		t.Errorf("got %+v", result.Questions)
	}
	if s := commit(t, l, "c", hold.Number); s.Draws != 1 || objectOf(t, l, "bob").Spent != eps(t, "1") {
		t.Errorf("%+v", s)
	}
	tight := newMonth(t, "0.5")
	tight.clock.set(epoch().Add(days * 24 * time.Hour))
	for _, one := range tight.sweep("day").Questions {
		for _, refusal := range one.Refused {
			if refusal.Reason != ObjectCap || refusal.Remedy != vocabulary.RemedyLess || refusal.Largest.IsZero() {
				t.Errorf("%s: %+v", one.Question, refusal)
			}
		}
	}
	for _, name := range []string{"ann", "bob", "cid"} {
		// What remains is less than the next step of any of its chains.
		if o := objectOf(t, tight.ledger, name); eps(t, "0.5").Less(o.Spent) || !o.Remaining.Less(eps(t, "0.05")) {
			t.Errorf("%s has spent %s", name, o.Spent)
		}
	}
	auditAll(t, l, l.engine.Store)
	auditStore(t, tight.ledger.engine.Store)
}

// The progress of a sweep counts objects, and of a sweep of one question those who take part in it.
func TestTheProgressOfASweepEnds(t *testing.T) {
	for _, question := range []string{"", "vote", "still"} {
		m := newMonth(t, "9")
		m.clock.set(epoch().Add(10 * 24 * time.Hour))
		done, total := 0, -1
		_, err := m.ledger.Advance(t.Context(), AdvanceRequest{Key: "day", Question: question, Truth: TruthOf("yes"), Progress: func(d, n int) { done, total = d, n }})
		must(t, err)
		if want := map[string]int{"": 4, "vote": 3, "still": 2}[question]; done != want || total != want {
			t.Errorf("question %q: the progress ends with %d of %d, want %d", question, done, total, want)
		}
	}
}
