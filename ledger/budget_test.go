package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// A randomMarket is a ledger that gets random requests of a host, its objects and buyers.
type randomMarket struct {
	*testing.T
	random   *rand.Rand
	ledger   *Ledger
	now      time.Time
	people   []string
	policies []policy.Policy
	keys     int
}

// randomMarketPolicies returns the policies of its objects: calendars, shares, markets with
// strides, levels, buyers and days.
func randomMarketPolicies(t *testing.T) (all []policy.Policy) {
	const calendar = `{"kind":"steps","steps":[["2026-03-02T00:00:00Z","0.3"],["2026-03-05T00:00:00Z","0.7"],["2026-03-11T00:00:00Z","2"]]}`
	price := `"price":[["0.5",100],["1",250],["2",400]]`
	for _, text := range []string{
		`{"kind":"fixed","ceiling":"1.2"}`, calendar, `{"kind":"unlock","total":"2","orders":3}`,
		`{"kind":"market","max":"2",` + price + `,"stride":"0.1"}`,
		`{"kind":"market","max":"1.5",` + price + `,"stride":"0.3","floor":7,"barred":["zeta"]}`,
		`{"kind":"market","max":"2",` + price + `,"levels":["0.2","0.5","1.1"],"holders":1}`,
		`{"kind":"market","max":"2",` + price + `,"stride":"0.2","holders":2}`,
		`{"kind":"market","max":"1",` + price + `,"from":"2026-03-04T00:00:00Z","until":"2026-03-12T00:00:00Z"}`,
		`{"kind":"min","of":[{"kind":"market","max":"2",` + price + `},` + calendar + `]}`,
		`{"kind":"min","of":[{"kind":"market","max":"2",` + price + `},{"kind":"unlock","total":"1","orders":2}]}`,
		`{"kind":"min","of":[{"kind":"market","max":"2",` + price + `},{"kind":"sum","of":[` + calendar + `,{"kind":"unlock","total":"0.8","orders":2}]}]}`,
	} {
		p := check.Value(policy.Parse([]byte(text)))(t)
		all = append(all, p)
	}
	return all
}

func newRandomMarket(t *testing.T, seed uint64) *randomMarket {
	m := &randomMarket{T: t, random: rand.New(rand.NewPCG(seed, 1)), now: epoch(), people: crowd(12)}
	m.ledger = inMemory(t, Options{Now: func() time.Time { return m.now }})
	m.policies = randomMarketPolicies(t)
	for _, question := range []string{"vote", "home"} {
		define(t, m.ledger, api.Question{Name: question, Values: []string{"yes", "no"}})
		for _, name := range m.people {
			r := api.EnrollRequest{Key: m.key(), Question: question, Objects: []string{name}, Cap: eps(t, []string{"0.8", "1.5", "3"}[len(name+question)%3])}
			r.Policy = m.policies[m.random.IntN(len(m.policies))]
			if question == "home" {
				r.Cap = privacy.Epsilon{}
				r.Policy = policy.Policy{}
			} else {
				r.Cap = m.epsilon(5, 30)
			}
			must(t, check.Err(m.ledger.Enroll(t.Context(), r)))
		}
	}
	return m
}

func (m *randomMarket) key() string { m.keys++; return fmt.Sprint("request ", m.keys) }

// epsilon returns a multiple of 0.1.
func (m *randomMarket) epsilon(from, to int) privacy.Epsilon {
	return check.Value(privacy.EpsilonFromNano(int64(from+m.random.IntN(to-from)) * 100_000_000))(m.T)
}

func (m *randomMarket) someObjects() []string {
	names := slices.Clone(m.people)
	m.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:1+m.random.IntN(4)]
}

func (m *randomMarket) buyer() string { return []string{"acme", "zeta", "initech"}[m.random.IntN(3)] }

func (m *randomMarket) order() api.Order {
	return api.Order{Buyer: m.buyer(), Question: "vote", Epsilon: m.epsilon(1, 21), Objects: m.someObjects()}
}

// step makes a random request, or moves the clock. The request may be refused.
func (m *randomMarket) step() {
	ctx, l, truth := m.Context(), m.ledger, sameTruth("yes")
	var err error
	switch m.random.IntN(10) {
	case 0:
		_, err = l.Raise(ctx, api.RaiseRequest{Key: m.key(), Question: "vote", Epsilon: m.epsilon(1, 15), Objects: m.someObjects(), Partial: true, Truth: truth})
	case 1:
		_, err = l.Raise(ctx, api.RaiseRequest{Key: m.key(), Question: "home", Epsilon: m.epsilon(1, 6), Objects: m.someObjects(), Partial: true, Truth: truth})
	case 2, 3, 4:
		_, err = l.Sell(ctx, api.SellRequest{Key: m.key(), Order: m.order(), Partial: true, Truth: truth})
	case 5:
		_, err = l.Reserve(ctx, api.ReserveRequest{Key: m.key(), Order: m.order(), For: time.Duration(m.random.IntN(96)) * time.Hour, Partial: true})
	case 6:
		_, err = l.Answer(ctx, api.AnswerRequest{Key: m.key(), Question: "vote", Query: "majority:yes", Epsilon: m.epsilon(1, 3), Objects: m.someObjects(), Partial: true, AcceptLoss: true, Truth: truth})
	case 7:
		if m.random.IntN(4) == 0 {
			err = l.Withdraw(ctx, api.ObjectRequest{Key: m.key(), Object: m.someObjects()[0]})
		}
	case 8:
		_, err = l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: m.key(), Question: "vote", Objects: m.someObjects(), Policy: &m.policies[m.random.IntN(len(m.policies))], Consent: "yes"})
	case 9:
		m.now = m.now.Add(time.Duration(m.random.IntN(30)) * time.Hour)
	}
	var refused *api.RefusedError
	if err != nil && !errors.As(err, &refused) && !errors.Is(err, api.ErrInvalid) && !errors.Is(err, api.ErrUnknown) {
		m.Fatal(err)
	}
}

// expected returns what an order at an ε would give now, or a raise if buyer is "".
func (m *randomMarket) expected(buyer string, names []string, epsilon privacy.Epsilon) (can uint64, price int64, refused []api.Refusal) {
	m.Helper()
	if buyer != "" {
		q := check.Value(m.ledger.Quote(m.Context(), api.Order{Buyer: buyer, Question: "vote", Epsilon: epsilon, Objects: names}))(m.T)
		return q.Objects, q.Price, q.Refused
	}
	q := check.Value(m.ledger.requests.Question(m.Context(), "vote"))(m.T)
	must(m.T, m.ledger.engine.View(m.Context(), func(s *state.State) error {
		ask := rules.Request{Question: q, Epsilon: epsilon, At: s.Clock}
		for _, name := range names {
			var x rules.Subject
			r, err := rules.ReadSubject(s, q, name, epsilon, &x)
			if err == nil && r == nil {
				if _, r, err = m.ledger.rules.Assess(s, &x, ask); err == nil && r != nil {
					err = m.ledger.rules.FindLargest(s, &x, ask, rules.Offered(q), r)
				}
			}
			must(m.T, err)
			if r != nil {
				refused = append(refused, *r)
			}
		}
		return nil
	}))
	return uint64(len(names) - len(refused)), 0, refused
}

func (m *randomMarket) budget(buyer string, names []string, levels ...privacy.Epsilon) api.Budget {
	m.Helper()
	got := check.Value(m.ledger.Budget(m.Context(), api.BudgetRequest{Question: "vote", Buyer: buyer, Objects: names, Epsilons: levels}))(m.T)
	return got
}

// check compares a budget with what orders, or raises, at each of its levels would give.
func (m *randomMarket) check(buyer string, names []string) {
	m.Helper()
	levels := make([]privacy.Epsilon, 1+m.random.IntN(8))
	for i := range levels {
		levels[i] = m.epsilon(1, 25)
	}
	got := m.budget(buyer, names, levels...)
	for _, at := range got.Levels {
		can, price, refused := m.expected(buyer, names, at.Epsilon)
		check.That(m, at.Can == can && at.Price == price && at.Later <= uint64(len(refused)) && at.From.IsZero() == (at.Later == 0),
			"%q, %d objects at ε=%s: the budget is %+v; an order gives %d objects for %d, refused %v", buyer, len(names), at.Epsilon, at, can, price, refused)
	}
	_, _, refused := m.expected(buyer, names, got.Levels[len(got.Levels)-1].Epsilon)
	want := sumRefusals(refused)
	check.That(m, sameSums(got.Refused, want), "%q: the budget refuses %+v, an order %+v", buyer, got.Refused, want)
	for nano := int64(1); nano <= 30; nano++ {
		at := check.Value(privacy.EpsilonFromNano(nano * 100_000_000))(m.T)
		if _, _, refused := m.expected(buyer, names, at); len(refused) == 0 && got.Largest.Less(at) && m.isOffered(buyer, names, at) || len(refused) > 0 && got.Largest == at {
			m.Errorf("%q: the budget's largest ε is %s, and at %s an order refuses %v", buyer, got.Largest, at, refused)
		}
	}
	m.checkCached(api.BudgetRequest{Question: "vote", Buyer: buyer, Objects: names, Epsilons: levels})
}

// checkCached compares a budget that may be cached with one that is computed from all objects. It
// leaves the cache as it was.
func (m *randomMarket) checkCached(r api.BudgetRequest) {
	m.Helper()
	got := check.Value(m.ledger.Budget(m.Context(), r))(m.T)
	kept := m.ledger.requests.Forecasts.All
	m.ledger.requests.Forecasts.All = nil
	fresh := check.Value(m.ledger.Budget(m.Context(), r))(m.T)
	m.ledger.requests.Forecasts.All = kept
	check.That(m, fmt.Sprint(got) == fmt.Sprint(fresh), "the cached budget of %+v is %+v, and a fresh one %+v", r, got, fresh)
}

// isOffered reports whether the terms of all objects offer a level. A buyer may hold one that is no
// longer offered.
func (m *randomMarket) isOffered(buyer string, names []string, level privacy.Epsilon) bool {
	for _, name := range names {
		state := check.Value(m.ledger.Object(m.Context(), name))(m.T)
		for _, c := range state.Chains {
			if buyer == "" || c.Question != "vote" {
				continue
			}
			if c.Policy == nil || c.Policy.Terms() == nil || !c.Policy.Terms().Offers(level) {
				return false
			}
		}
	}
	return true
}

// sumRefusals sums refusals as a budget does, but for the time.
func sumRefusals(refused []api.Refusal) (sums []api.RefusalSum) {
	for _, r := range refused {
		i := slices.IndexFunc(sums, func(one api.RefusalSum) bool { return one.Reason == r.Reason })
		if i < 0 {
			i = len(sums)
			sums = append(sums, api.RefusalSum{Reason: r.Reason, Largest: r.Largest})
		}
		sums[i].Count++
		if r.Largest.Less(sums[i].Largest) {
			sums[i].Largest = r.Largest
		}
	}
	return sums
}

func sameSums(a, b []api.RefusalSum) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(one api.RefusalSum) bool {
		one.From = time.Time{}
		return !slices.Contains(b, one)
	})
}

// hasHold reports whether a reservation may hold budget of an object. Its end is counted even if it
// is not what prevents an order.
func (m *randomMarket) hasHold(name string) (held bool) {
	must(m.T, m.ledger.engine.View(m.Context(), func(s *state.State) error {
		o, _, err := s.Object(name)
		held = len(o.Held) > 0
		return err
	}))
	return held
}

// checkTime moves the clock to when the budget says that an object can answer, and checks that it
// can then, and not before.
func (m *randomMarket) checkTime(buyer, name string) {
	m.Helper()
	names := []string{name}
	at := m.budget(buyer, names, m.epsilon(1, 25)).Levels[0]
	present := m.now
	if at.Later == 0 && at.Can == 0 {
		m.now = present.AddDate(10, 0, 0) // no time helps
		if can, _, _ := m.expected(buyer, names, at.Epsilon); can > 0 {
			m.Errorf("%q of %s: ε=%s is possible ten years later, and the budget says %+v", buyer, name, at.Epsilon, at)
		}
	}
	if at.Later > 0 {
		m.now = at.From
		if can, _, refused := m.expected(buyer, names, at.Epsilon); can == 0 {
			m.Errorf("%q of %s: the budget says that ε=%s is possible from %v, and it is refused: %v", buyer, name, at.Epsilon, at.From, refused)
		}
		m.now = at.From.Add(-1)
		if can, _, _ := m.expected(buyer, names, at.Epsilon); can > 0 && !m.hasHold(name) {
			m.Errorf("%q of %s: ε=%s is possible before the time that the budget gives, %v", buyer, name, at.Epsilon, at.From)
		}
	}
	m.now = present
}

// After any history, a budget says what orders and raises at each ε would give, now and later.
func TestBudget_RandomHistory_AgreesWithOrders(t *testing.T) {
	for seed := range tests.Tries(7, 60, 3_000) { // the seventh has objects that offer less and less
		m := newRandomMarket(t, uint64(seed))
		for range 40 {
			m.step()
			for _, buyer := range []string{"", m.buyer(), "newcomer"} {
				names := append(m.someObjects(), m.people[0])
				slices.Sort(names)
				if names = slices.Compact(names); m.random.IntN(3) == 0 {
					names = append(names, "stranger")
				}
				m.check(buyer, names)
				m.checkTime(buyer, names[0])
			}
			check.Need(t, !t.Failed(), "seed %d", seed)
		}
	}
}

// If only the reservation of another buyer prevents an order, the budget reports when that ends.
func TestBudget_LevelReserved_ReportsWhenReservationEnds(t *testing.T) {
	half := eps(t, "0.5")
	levels := func(holders int) policy.Policy {
		return market(t, "1", func(m *policy.Market) { m.Stride, m.Holders = half, holders })
	}
	rising := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.1")}, policy.Step{At: epoch().AddDate(0, 0, 9), Ceiling: eps(t, "1")}))(t)
	lower := check.Value(policy.Min(levels(1), rising))(t)
	lowered := func(l *Ledger) { // below what was released, which can still be sold
		raise(t, l, raiseOf(t, "raise", "1", "ann"))
		must(t, check.Err(l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: "terms", Question: "vote", Objects: []string{"ann"}, Policy: &lower, Consent: "yes"})))
	}
	sold := func(l *Ledger) { sell(t, l, purchase(t, "sale", "initech", "0.5", "ann")) }
	for _, c := range []struct {
		name    string
		holders int
		before  func(l *Ledger)
		lost    bool // the noise key
		level   string
		later   bool
	}{
		{"reserved", 1, nil, false, "0.5", true},
		{"another level is reserved", 1, nil, false, "1", false},
		{"reserved, with one holder", 2, sold, false, "0.5", true},
		{"the ceiling was lowered", 1, lowered, false, "0.5", true},
		{"without the noise key", 1, nil, true, "0.5", false},
		{"recorded, without the noise key", 2, sold, true, "0.5", true},
	} {
		now, store := epoch(), &kv.Memory{}
		begin(t, store)
		o := Options{Now: func() time.Time { return now }, NoiseKey: noiseKeys("2026")}
		l := openMemory(t, store, o)
		define(t, l, vote())
		enrollUnder(t, l, "vote", levels(c.holders), "5", "ann")
		if c.before != nil {
			c.before(l)
		}
		order := api.Order{Buyer: "acme", Question: "vote", Epsilon: half, Objects: []string{"ann"}}
		reserve(t, l, api.ReserveRequest{Key: "reserve", Order: order, For: time.Hour})
		if c.lost {
			o.NoiseKey = api.NoiseKeys{}
			l = openMemory(t, store, o)
		}
		order.Buyer, order.Epsilon = "zeta", eps(t, c.level)
		want := time.Time{}
		if c.later {
			want = now.Add(time.Hour)
		}
		got := check.Value(l.Budget(t.Context(), api.BudgetRequest{Question: "vote", Buyer: order.Buyer, Objects: order.Objects, Epsilons: []privacy.Epsilon{order.Epsilon}}))(t)
		if at := got.Levels[0]; at.Later > 0 != c.later || !at.From.Equal(want) || len(got.Refused) > 0 && !got.Refused[0].From.Equal(want) {
			t.Errorf("%s: the budget is %+v", c.name, got)
		}
		var refused *api.RefusedError
		_, err := l.Sell(t.Context(), api.SellRequest{Key: "sell", Order: order, Truth: sameTruth("yes")})
		check.That(t, errors.As(err, &refused) == (len(got.Refused) > 0) && (refused == nil || fmt.Sprint(refused.Instead.Levels[len(refused.Instead.Levels)-1]) == fmt.Sprint(got.Levels[0])),
			"%s: the order ends with %v, and the budget is %+v", c.name, err, got)
		if now = want; c.later {
			sell(t, l, api.SellRequest{Key: "sell", Order: order, Truth: sameTruth("yes")})
		}
	}
}

// Before a sale opens, a level that has all its holders is never available later. A level that is
// reserved becomes available when the reservation ends.
func TestBudget_SaleNotOpenYet_ExcludesFullLevels(t *testing.T) {
	half, one := eps(t, "0.5"), eps(t, "1")
	opens := epoch().AddDate(0, 0, 2)
	levels := func(from time.Time) policy.Policy {
		return market(t, "1", func(m *policy.Market) { m.Stride, m.Holders, m.From = half, 1, from })
	}
	now, store := epoch(), &kv.Memory{}
	begin(t, store)
	o := Options{Now: func() time.Time { return now }, NoiseKey: noiseKeys("2026")}
	l := openMemory(t, store, o)
	define(t, l, vote())
	enrollUnder(t, l, "vote", levels(time.Time{}), "5", "ann")
	sell(t, l, purchase(t, "sale", "initech", "0.5", "ann"))
	until := opens.AddDate(0, 0, 3)
	reserve(t, l, api.ReserveRequest{Key: "reserve", Order: api.Order{Buyer: "acme", Question: "vote", Epsilon: one, Objects: []string{"ann"}}, Until: until})
	closed := levels(opens)
	must(t, check.Err(l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: "terms", Question: "vote", Objects: []string{"ann"}, Policy: &closed})))
	for _, lost := range []bool{false, true} {
		want := []api.BudgetLevel{{Epsilon: half}, {Epsilon: one, Later: 1, From: until}}
		if lost { // the noise key: then only recorded levels can be sold
			o.NoiseKey = api.NoiseKeys{}
			l = openMemory(t, store, o)
			want[1] = api.BudgetLevel{Epsilon: one}
		}
		for _, asked := range [][]privacy.Epsilon{{half}, {half, one}} {
			got := check.Value(l.Budget(t.Context(), api.BudgetRequest{Question: "vote", Buyer: "zeta", Objects: []string{"ann"}, Epsilons: asked}))(t)
			last := want[len(asked)-1]
			if fmt.Sprint(got.Levels) != fmt.Sprint(want[:len(asked)]) || got.Refused[0].Reason != api.SaleClosed || !got.Refused[0].From.Equal(last.From) {
				t.Errorf("noise key lost: %v: the budget is %+v, want %+v", lost, got, want[:len(asked)])
			}
		}
	}
}

// A cached budget is used until an event concerns one of its objects, or time changes the result.
func TestBudgetCache_EventOrTime_InvalidatesWhatItAffects(t *testing.T) {
	now := epoch()
	steps := check.Value(policy.Parse([]byte(`{"kind":"min","of":[{"kind":"market","max":"2","price":[["2",100]]},{"kind":"steps","steps":[["2026-03-02T00:00:00Z","0.3"],["2026-03-05T00:00:00Z","2"]]}]}`)))(t)
	begun := func() *Ledger {
		now = epoch()
		l := inMemory(t, Options{Now: func() time.Time { return now }})
		define(t, l, api.Question{Name: "vote", Values: []string{"yes", "no"}})
		define(t, l, api.Question{Name: "home", Values: []string{"yes", "no"}})
		enrollUnder(t, l, "vote", steps, "2", "ann", "bob")
		enroll(t, l, "home", "2", "ann", "eve")
		now = now.AddDate(0, 0, 1)
		return l
	}
	raise := func(question, name string) func(l *Ledger) {
		return func(l *Ledger) {
			must(t, check.Err(l.Raise(t.Context(), api.RaiseRequest{Key: "raise", Question: question, Objects: []string{name}, Epsilon: eps(t, "0.1"), Truth: sameTruth("yes")})))
		}
	}
	panels := map[string]api.BudgetRequest{
		"all":   {Question: "vote", All: true, Buyer: "acme", Epsilons: []privacy.Epsilon{eps(t, "0.2"), eps(t, "1"), eps(t, "5")}}, // no object ever reaches 5
		"names": {Question: "vote", Objects: []string{"ann", "bob"}, Buyer: "acme", Epsilons: []privacy.Epsilon{eps(t, "0.2"), eps(t, "1")}},
	}
	reserved := func(l *Ledger) {
		o := api.Order{Buyer: "zeta", Question: "vote", Epsilon: eps(t, "0.2"), Objects: []string{"bob"}}
		reserve(t, l, api.ReserveRequest{Key: "reserve", Order: o, For: time.Hour})
	}
	for _, c := range []struct {
		name   string
		before func(l *Ledger) // before the first request
		then   func(l *Ledger)
		kept   bool
	}{
		{"nothing", nil, func(*Ledger) {}, true},
		{"another object is raised", nil, raise("home", "eve"), true},
		{"an object is raised in another question", nil, raise("home", "ann"), false},
		{"an object is raised", nil, raise("vote", "bob"), false},
		{"time passes", nil, func(*Ledger) { now = now.Add(time.Hour) }, true},
		{"the ceiling rises", nil, func(*Ledger) { now = now.AddDate(0, 0, 4) }, false},
		{"the clock goes back", nil, func(*Ledger) { now = now.Add(-time.Hour) }, false},
		{"something is reserved", nil, reserved, false},
		{"a reservation lasts", reserved, func(*Ledger) { now = now.Add(time.Minute) }, true},
		{"a reservation ends", reserved, func(*Ledger) { now = now.Add(time.Hour) }, false},
		{"a reservation is cancelled", reserved, func(l *Ledger) { must(t, l.Cancel(t.Context(), "cancel", 1)) }, false},
		{"an object withdraws", nil, func(l *Ledger) { must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "withdraw", Object: "ann"})) }, false},
		{"an object is forgotten", nil, func(l *Ledger) { must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "eve"})) }, false}, // the log no longer says which one
	} {
		for panel, request := range panels {
			l := begun()
			if c.before != nil {
				c.before(l)
			}
			must(t, check.Err(l.Budget(t.Context(), request)))
			for key, one := range l.requests.Forecasts.All {
				one.Budget.Objects = 99 // to recognize it
				l.requests.Forecasts.All[key] = one
			}
			c.then(l)
			got := check.Value(l.Budget(t.Context(), request))(t)
			if kept := got.Objects == 99; kept != c.kept || got.Event != stats(t, l).Events {
				t.Errorf("%s, of %s: cached: %v, as of event %d", c.name, panel, kept, got.Event)
			}
		}
	}
}

// After any history, a cached budget equals a fresh one.
func TestBudgetCache_RandomHistory_EqualsFreshBudget(t *testing.T) {
	for seed := range tests.Tries(10, 60, 3_000) {
		m := newRandomMarket(t, uint64(1000+seed))
		var asked []api.BudgetRequest // again and again
		for _, buyer := range []string{"", "acme", "zeta", "newcomer"} {
			r := api.BudgetRequest{Question: "vote", Buyer: buyer, All: true}
			asked = append(asked, r)
			for r.All = false; len(asked)%4 > 0; asked = append(asked, r) {
				r.Objects, r.Epsilons = m.someObjects(), nil
				slices.Sort(r.Objects)
				for range m.random.IntN(4) {
					r.Epsilons = append(r.Epsilons, m.epsilon(1, 25))
				}
			}
		}
		for range 60 {
			switch m.random.IntN(12) {
			default:
				m.step()
			case 0, 1, 2, 3:
				m.now = m.now.Add(time.Duration(m.random.IntN(30)) * time.Hour)
			case 4:
				must(t, m.ledger.Forget(t.Context(), api.ObjectRequest{Key: m.key(), Object: m.someObjects()[0]}))
			case 5:
				var refused *api.RefusedError
				if err := m.ledger.BeginEpoch(t.Context(), api.EpochRequest{Key: m.key(), Question: "vote", Object: m.someObjects()[0]}); err != nil && !errors.As(err, &refused) {
					t.Fatal(err)
				}
			}
			for _, r := range asked {
				m.checkCached(r)
			}
			check.Need(t, !t.Failed(), "seed %d", seed)
		}
	}
}

// A budget is cached until the first reservation ends or the ceiling rises. That holds even if all
// requested levels can be sold, because the largest ε changes.
func TestBudgetCache_ReservationEndsOrCeilingRises_Expires(t *testing.T) {
	rising := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.5")}, policy.Step{At: epoch().Add(time.Hour), Ceiling: eps(t, "1")}))(t)
	stride := func(m *policy.Market) { m.Stride, m.Holders = eps(t, "0.5"), 1 }
	for _, c := range []struct {
		name     string
		policy   policy.Policy
		buyer    string
		reserved []string // questions in which another buyer reserves the highest level: in the first for an hour, in the second for two
		levels   []privacy.Epsilon
	}{
		{"the level has all its holders", market(t, "1", stride), "zeta", []string{"vote"}, []privacy.Epsilon{eps(t, "1")}},
		{"two reservations hold what the cap allows", market(t, "1"), "zeta", []string{"home", "diet"}, []privacy.Epsilon{eps(t, "1")}},
		{"the ceiling rises above all levels", rising, "", nil, []privacy.Epsilon{eps(t, "0.3")}},
		{"the ceiling rises, and no levels are given", rising, "", nil, nil},
	} {
		now := epoch()
		l := inMemory(t, Options{Now: func() time.Time { return now }})
		for _, question := range []string{"vote", "home", "diet"} {
			define(t, l, api.Question{Name: question, Values: []string{"yes", "no"}})
			enrollUnder(t, l, question, c.policy, "2", "ann")
		}
		for i, question := range c.reserved {
			o := api.Order{Buyer: "acme", Question: question, Epsilon: eps(t, "1"), Objects: []string{"ann"}}
			reserve(t, l, api.ReserveRequest{Key: question, Order: o, For: time.Duration(i+1) * time.Hour})
		}
		r := api.BudgetRequest{Question: "vote", Buyer: c.buyer, Objects: []string{"ann"}, Epsilons: c.levels}
		before := check.Value(l.Budget(t.Context(), r))(t)
		now = now.Add(time.Hour)
		got := check.Value(l.Budget(t.Context(), r))(t)
		check.That(t, before.Largest != eps(t, "1") && got.Largest == eps(t, "1"),
			"%s: the largest ε is %s, and %s an hour later; want less than 1, and 1", c.name, before.Largest, got.Largest)
	}
}

// randomMarketRequest is a request that may be refused as a whole, and tried again at another ε, or
// without the refused objects.
type randomMarketRequest struct {
	name string
	do   func(key string, epsilon privacy.Epsilon, partial bool) (done int, err error)
}

// requests returns one request of each kind, about the same objects. The host has no true value of
// the object untold.
func (m *randomMarket) requests(withoutTruth string) []randomMarketRequest {
	ctx, l, names, buyer := m.Context(), m.ledger, m.someObjects(), m.buyer()
	if m.random.IntN(2) == 0 {
		names = names[:1]
	}
	truth := func(_ context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i, name := range objects {
			if name != withoutTruth {
				values[i] = "yes"
			}
		}
		return values, nil
	}
	return []randomMarketRequest{
		{"raise", func(key string, epsilon privacy.Epsilon, partial bool) (int, error) {
			r, err := l.Raise(ctx, api.RaiseRequest{Key: key, Question: "vote", Epsilon: epsilon, Objects: names, Partial: partial, Truth: truth})
			return r.Drawn + r.Reused + r.Derived, err
		}},
		{"release", func(key string, epsilon privacy.Epsilon, _ bool) (int, error) {
			_, err := l.Release(ctx, api.ReleaseRequest{Key: key, Question: "vote", Epsilon: epsilon, Object: names[0], Truth: truth})
			return 1, err
		}},
		{"sell", func(key string, epsilon privacy.Epsilon, partial bool) (int, error) {
			r, err := l.Sell(ctx, api.SellRequest{Key: key, Order: api.Order{Buyer: buyer, Question: "vote", Epsilon: epsilon, Objects: names}, Partial: partial, Truth: truth})
			return int(r.Objects), err
		}},
		{"reserve", func(key string, epsilon privacy.Epsilon, partial bool) (int, error) {
			r, err := l.Reserve(ctx, api.ReserveRequest{Key: key, Order: api.Order{Buyer: buyer, Question: "vote", Epsilon: epsilon, Objects: names}, Partial: partial, For: time.Hour})
			return int(r.Objects), err
		}},
		{"answer", func(key string, epsilon privacy.Epsilon, partial bool) (int, error) {
			r, err := l.Answer(ctx, api.AnswerRequest{Key: key, Question: "vote", Query: "majority:yes", Epsilon: epsilon, Objects: names, Partial: partial, AcceptLoss: true, Truth: truth})
			return int(r.Objects), err
		}},
	}
}

// tryInstead makes a request and, if it is refused, one of those that the refusal says are possible
// instead. It returns which one.
func (m *randomMarket) tryInstead(r randomMarketRequest, withoutTruth string) (instead string) {
	asked := m.epsilon(1, 21)
	var refused *api.RefusedError
	if _, err := r.do(m.key(), asked, false); !errors.As(err, &refused) {
		return ""
	}
	possible := refused.Instead
	check.Need(m, possible != nil, "%s: the refusal does not say what is possible instead: %v", r.name, refused)
	top := possible.Levels[len(possible.Levels)-1]
	check.That(m, top.Epsilon == asked && possible.Objects != 0 && top.Can != possible.Objects,
		"%s at ε=%s is refused, but the refusal says that this is possible: %+v", r.name, asked, possible)
	closing := epoch().AddDate(0, 0, 10) // some sell no more then
	later := withoutTruth == "" && top.Later > 0 && top.Can+top.Later == possible.Objects && top.From.Before(closing)
	// If budgets were exceeded, true values were not requested: then a missing one may be found
	// now.
	well := func(done int, err error, want uint64) bool {
		if withoutTruth != "" {
			want = min(want, uint64(done))
		}
		missing := withoutTruth != "" && errors.As(err, &refused) && slices.ContainsFunc(refused.Refused, func(r api.Refusal) bool { return r.Reason == api.NoTruth })
		return missing || err == nil && uint64(done) == want
	}
	switch n := m.random.IntN(3); {
	case n == 0 && !possible.Largest.IsZero():
		if done, err := r.do(m.key(), possible.Largest, false); !well(done, err, possible.Objects) {
			m.Errorf("%s at ε=%s instead of %s: got %d objects, error %v", r.name, possible.Largest, asked, done, err)
		}
		return "less"
	case n == 1 && top.Can > 0:
		if done, err := r.do(m.key(), asked, true); !well(done, err, top.Can) {
			m.Errorf("%s at ε=%s without the refused objects: got %d of %d objects, error %v", r.name, asked, done, top.Can, err)
		}
		return "fewer"
	case n == 2 && later:
		m.now = top.From
		if done, err := r.do(m.key(), asked, false); !well(done, err, possible.Objects) {
			m.Errorf("%s at ε=%s from %v on: got %d objects, error %v", r.name, asked, top.From, done, err)
		}
		return "later"
	}
	return ""
}

// What a refusal says is possible instead succeeds when it is tried.
func TestRefusedRequest_TriedAsInstead_Succeeds(t *testing.T) {
	took := map[string]int{}
	for seed := range tests.Tries(8, 100, 3_000) {
		m := newRandomMarket(t, uint64(seed))
		for range 60 {
			m.step()
			withoutTruth := ""
			if m.random.IntN(3) == 0 {
				withoutTruth = m.people[m.random.IntN(len(m.people))]
			}
			all := m.requests(withoutTruth)
			r := all[m.random.IntN(len(all))]
			took[r.name+" "+m.tryInstead(r, withoutTruth)]++
			check.Need(t, !t.Failed(), "seed %d", seed)
		}
	}
	for _, way := range []string{"raise less", "raise fewer", "raise later", "sell less", "sell fewer", "answer less", "answer fewer"} {
		check.That(t, took[way] != 0, "the test never tried %q", way)
	}
}

// A sale that is closed is closed at all levels. Checking each of a billion levels would take
// minutes.
func TestQuote_SaleClosed_DoesNotSearchEachLevel(t *testing.T) {
	now := epoch()
	l := inMemory(t, Options{Now: func() time.Time { return now }})
	define(t, l, vote())
	p := check.Value(policy.Parse([]byte(`{"kind":"market","max":"900","price":[["900",100]],"stride":"0.000000001","until":"2026-03-02T00:00:00Z"}`)))(t)
	enrollUnder(t, l, "vote", p, "1000", "ann")
	sell(t, l, purchase(t, "sale", "acme", "2", "ann"))
	now = now.AddDate(0, 0, 7)
	for buyer, want := range map[string]string{"acme": "2", "zeta": "0"} { // a buyer can have a level that it holds again
		q := check.Value(l.Quote(t.Context(), api.Order{Buyer: buyer, Question: "vote", Epsilon: eps(t, "901"), Objects: []string{"ann"}}))(t)
		check.That(t, len(q.Refused) == 1 && q.Refused[0].Reason == api.NotOnOffer && q.Refused[0].Largest == eps(t, want),
			"%s: the quote refuses %+v", buyer, q.Refused)
	}
}

// While many callers spend budget, each reported budget is exactly that of the event it names.
func TestBudget_ConcurrentReleases_IsThatOfItsEvent(t *testing.T) {
	people, callers := tests.Tries(256, 2_048, 1_000_000), 64
	l := open(t, create(t), Options{})
	define(t, l, vote())
	define(t, l, api.Question{Name: "home", Values: []string{"yes", "no"}})
	names := make([]string, people)
	for i := range names {
		names[i] = crowdName(i)
	}
	enroll(t, l, "vote", "1", names...)
	enroll(t, l, "home", "1", names...)
	var spending sync.WaitGroup
	for caller := range callers {
		spending.Go(func() {
			for i := caller; i < people; i += callers { // which takes all of the object's budget
				_, err := l.Release(t.Context(), api.ReleaseRequest{Key: names[i], Question: "home", Object: names[i], Epsilon: eps(t, "1"), Truth: sameTruth("yes")})
				check.OK(t, err)
			}
		})
	}
	seen := map[uint64]uint64{} // how many objects can answer, as of an event
	for done := false; !done; {
		b := check.Value(l.Budget(t.Context(), api.BudgetRequest{Question: "vote", All: true, Epsilons: []privacy.Epsilon{eps(t, "1")}}))(t)
		known, again := seen[b.Event]
		check.That(t, !again || known == b.Levels[0].Can, "two budgets as of event %d: %d objects and %d", b.Event, known, b.Levels[0].Can)
		seen[b.Event] = b.Levels[0].Can
		done = b.Levels[0].Can == 0
	}
	spending.Wait()
	can := uint64(people)
	for ev, err := range l.Events(t.Context(), 1) {
		must(t, err)
		if r, is := ev.Says.(event.Released); is && r.Question == "home" {
			can--
		}
		got, looked := seen[ev.Number]
		check.That(t, !looked || got == can, "the budget as of event %d: got %d objects, want %d", ev.Number, got, can)
	}
}

// If no object can answer, the budget shows the lowest level of the question's mechanism.
func TestBudget_NoObjectCanAnswer_ShowsLowestLevel(t *testing.T) {
	l := inMemory(t, Options{})
	family := fixture.Skewed(t)
	define(t, l, api.Question{Name: "numbered", Values: []string{"no", "yes"}, Encoding: "finite", Mechanism: &api.Mechanism{Family: family}})
	enroll(t, l, "numbered", "0.01", "ann")
	got := check.Value(l.Budget(t.Context(), api.BudgetRequest{Question: "numbered", All: true}))(t)
	if lowest := family.Epsilons()[0]; len(got.Levels) != 1 || got.Levels[0].Epsilon != lowest || got.Levels[0].Can != 0 || !got.Largest.IsZero() {
		t.Errorf("got the budget %+v, want one level, %s, that no object can answer", got, lowest)
	}
}

// A raise of all objects holds budget until it ends. The refusal does not count that against what
// is possible instead.
func TestRaise_OfAllRefused_InsteadIgnoresItsOwnHold(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "2", "ann", "bob")
	for range 10 {
		var refused *api.RefusedError
		r := api.RaiseRequest{Key: "raise", Question: "vote", All: true, Epsilon: eps(t, "3"), Truth: sameTruth("yes")}
		if _, err := l.Raise(t.Context(), r); !errors.As(err, &refused) || refused.Instead == nil {
			t.Fatal(err)
		}
		now, err := l.Budget(t.Context(), api.BudgetRequest{Question: "vote", All: true})
		if must(t, err); refused.Instead.Largest != now.Largest || now.Largest.IsZero() {
			t.Errorf("the budget says that ε=%s is possible, the refusal ε=%s", now.Largest, refused.Instead.Largest)
		}
	}
	wantNoHolds(t, l)
}
