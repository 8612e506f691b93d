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

// A bazaar is a ledger in which a random host, random sellers and random buyers do something at
// random.
type bazaar struct {
	*testing.T
	random   *rand.Rand
	ledger   *Ledger
	now      time.Time
	people   []string
	policies []policy.Policy
	keys     int
}

// bazaarPolicies are the policies of its sellers: calendars, shares, markets with strides, levels,
// buyers and days.
func bazaarPolicies(t *testing.T) (all []policy.Policy) {
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

func newBazaar(t *testing.T, seed uint64) *bazaar {
	b := &bazaar{T: t, random: rand.New(rand.NewPCG(seed, 1)), now: epoch(), people: crowd(12)}
	b.ledger = inMemory(t, Options{Now: func() time.Time { return b.now }})
	b.policies = bazaarPolicies(t)
	for _, question := range []string{"vote", "home"} {
		define(t, b.ledger, api.Question{Name: question, Values: []string{"yes", "no"}})
		for _, name := range b.people {
			r := api.EnrollRequest{Key: b.key(), Question: question, Objects: []string{name}, Cap: eps(t, []string{"0.8", "1.5", "3"}[len(name+question)%3])}
			r.Policy = b.policies[b.random.IntN(len(b.policies))]
			if question == "home" {
				r.Cap = privacy.Epsilon{}
				r.Policy = policy.Policy{}
			} else {
				r.Cap = b.epsilon(5, 30)
			}
			must(t, check.Err(b.ledger.Enroll(t.Context(), r)))
		}
	}
	return b
}

func (b *bazaar) key() string { b.keys++; return fmt.Sprint("request ", b.keys) }

// epsilon returns a multiple of 0.1.
func (b *bazaar) epsilon(from, to int) privacy.Epsilon {
	return check.Value(privacy.EpsilonFromNano(int64(from+b.random.IntN(to-from)) * 100_000_000))(b.T)
}

func (b *bazaar) some() []string {
	names := slices.Clone(b.people)
	b.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:1+b.random.IntN(4)]
}

func (b *bazaar) buyer() string { return []string{"acme", "zeta", "initech"}[b.random.IntN(3)] }

func (b *bazaar) order() api.Order {
	return api.Order{Buyer: b.buyer(), Question: "vote", Epsilon: b.epsilon(1, 21), Objects: b.some()}
}

// act does something. Most of it may be refused.
func (b *bazaar) act() {
	ctx, l, truth := b.Context(), b.ledger, sameTruth("yes")
	var err error
	switch b.random.IntN(10) {
	case 0:
		_, err = l.Raise(ctx, api.RaiseRequest{Key: b.key(), Question: "vote", Epsilon: b.epsilon(1, 15), Objects: b.some(), Partial: true, Truth: truth})
	case 1:
		_, err = l.Raise(ctx, api.RaiseRequest{Key: b.key(), Question: "home", Epsilon: b.epsilon(1, 6), Objects: b.some(), Partial: true, Truth: truth})
	case 2, 3, 4:
		_, err = l.Sell(ctx, api.SellRequest{Key: b.key(), Order: b.order(), Partial: true, Truth: truth})
	case 5:
		_, err = l.Reserve(ctx, api.ReserveRequest{Key: b.key(), Order: b.order(), For: time.Duration(b.random.IntN(96)) * time.Hour, Partial: true})
	case 6:
		_, err = l.Answer(ctx, api.AnswerRequest{Key: b.key(), Question: "vote", Query: "majority:yes", Epsilon: b.epsilon(1, 3), Objects: b.some(), Partial: true, AcceptLoss: true, Truth: truth})
	case 7:
		if b.random.IntN(4) == 0 {
			err = l.Withdraw(ctx, api.ObjectRequest{Key: b.key(), Object: b.some()[0]})
		}
	case 8:
		_, err = l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: b.key(), Question: "vote", Objects: b.some(), Policy: &b.policies[b.random.IntN(len(b.policies))], Consent: "yes"})
	case 9:
		b.now = b.now.Add(time.Duration(b.random.IntN(30)) * time.Hour)
	}
	var refused *api.RefusedError
	if err != nil && !errors.As(err, &refused) && !errors.Is(err, api.ErrInvalid) && !errors.Is(err, api.ErrUnknown) {
		b.Fatal(err)
	}
}

// tried returns what an order, or a raise if nobody buys, at an ε would bring now.
func (b *bazaar) tried(buyer string, names []string, epsilon privacy.Epsilon) (can uint64, price int64, refused []api.Refusal) {
	b.Helper()
	if buyer != "" {
		q := check.Value(b.ledger.Quote(b.Context(), api.Order{Buyer: buyer, Question: "vote", Epsilon: epsilon, Objects: names}))(b.T)
		return q.Objects, q.Price, q.Refused
	}
	q := check.Value(b.ledger.requests.Question(b.Context(), "vote"))(b.T)
	must(b.T, b.ledger.engine.View(b.Context(), func(s *state.State) error {
		ask := rules.Asking{Question: q, Epsilon: epsilon, At: s.Clock}
		for _, name := range names {
			var x rules.Subject
			r, err := rules.ReadSubject(s, q, name, epsilon, &x)
			if err == nil && r == nil {
				if _, r, err = b.ledger.rules.Assess(s, &x, ask); err == nil && r != nil {
					err = b.ledger.rules.OrLess(s, &x, ask, rules.Offered(q), r)
				}
			}
			must(b.T, err)
			if r != nil {
				refused = append(refused, *r)
			}
		}
		return nil
	}))
	return uint64(len(names) - len(refused)), 0, refused
}

func (b *bazaar) budget(buyer string, names []string, levels ...privacy.Epsilon) api.Budget {
	b.Helper()
	got := check.Value(b.ledger.Budget(b.Context(), api.BudgetRequest{Question: "vote", Buyer: buyer, Objects: names, Epsilons: levels}))(b.T)
	return got
}

// check compares a budget with what orders, or raises, at each of its levels would bring.
func (b *bazaar) check(buyer string, names []string) {
	b.Helper()
	levels := make([]privacy.Epsilon, 1+b.random.IntN(8))
	for i := range levels {
		levels[i] = b.epsilon(1, 25)
	}
	got := b.budget(buyer, names, levels...)
	for _, at := range got.Levels {
		can, price, refused := b.tried(buyer, names, at.Epsilon)
		check.That(b, at.Can == can && at.Price == price && at.Later <= uint64(len(refused)) && at.From.IsZero() == (at.Later == 0),
			"%q, %d people at ε=%s: %+v; tried: %d, for %d, %v", buyer, len(names), at.Epsilon, at, can, price, refused)
	}
	_, _, refused := b.tried(buyer, names, got.Levels[len(got.Levels)-1].Epsilon)
	want := summed(refused)
	check.That(b, sameSums(got.Refused, want), "%q: refused are %+v, not %+v", buyer, got.Refused, want)
	for nano := int64(1); nano <= 30; nano++ {
		at := check.Value(privacy.EpsilonFromNano(nano * 100_000_000))(b.T)
		if _, _, refused := b.tried(buyer, names, at); len(refused) == 0 && got.Largest.Less(at) && b.offered(buyer, names, at) || len(refused) > 0 && got.Largest == at {
			b.Errorf("%q: the largest ε is %s, and at %s are refused %v", buyer, got.Largest, at, refused)
		}
	}
	b.checkKept(api.BudgetRequest{Question: "vote", Buyer: buyer, Objects: names, Epsilons: levels})
}

// checkKept compares a budget that may be kept with one for which everybody is looked at. What is
// kept stays.
func (b *bazaar) checkKept(r api.BudgetRequest) {
	b.Helper()
	got := check.Value(b.ledger.Budget(b.Context(), r))(b.T)
	kept := b.ledger.requests.Forecasts.All
	b.ledger.requests.Forecasts.All = nil
	fresh := check.Value(b.ledger.Budget(b.Context(), r))(b.T)
	b.ledger.requests.Forecasts.All = kept
	check.That(b, fmt.Sprint(got) == fmt.Sprint(fresh), "kept of %+v is %+v, and it is %+v", r, got, fresh)
}

// offered tells whether the terms of all people offer a level. A buyer may hold one that is not on
// offer any more.
func (b *bazaar) offered(buyer string, names []string, level privacy.Epsilon) bool {
	for _, name := range names {
		state := check.Value(b.ledger.Object(b.Context(), name))(b.T)
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

// summed sums refusals as a budget does, but for the time.
func summed(refused []api.Refusal) (sums []api.RefusalSum) {
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

// held tells whether a reservation may hold something of a person. When that ends is counted,
// whether or not it stands in the way.
func (b *bazaar) held(name string) (held bool) {
	must(b.T, b.ledger.engine.View(b.Context(), func(s *state.State) error {
		o, _, err := s.Object(name)
		held = len(o.Held) > 0
		return err
	}))
	return held
}

// checkTime goes to when a person is said to be able to answer, and sees whether it is so, and not
// before.
func (b *bazaar) checkTime(buyer, name string) {
	b.Helper()
	names := []string{name}
	at := b.budget(buyer, names, b.epsilon(1, 25)).Levels[0]
	present := b.now
	if at.Later == 0 && at.Can == 0 {
		b.now = present.AddDate(10, 0, 0) // no time helps
		if can, _, _ := b.tried(buyer, names, at.Epsilon); can > 0 {
			b.Errorf("%q of %s: ε=%s is possible ten years later, and the budget says %+v", buyer, name, at.Epsilon, at)
		}
	}
	if at.Later > 0 {
		b.now = at.From
		if can, _, refused := b.tried(buyer, names, at.Epsilon); can == 0 {
			b.Errorf("%q of %s: ε=%s is to be possible from %v, and is refused: %v", buyer, name, at.Epsilon, at.From, refused)
		}
		b.now = at.From.Add(-1)
		if can, _, _ := b.tried(buyer, names, at.Epsilon); can > 0 && !b.held(name) {
			b.Errorf("%q of %s: ε=%s is possible before %v", buyer, name, at.Epsilon, at.From)
		}
	}
	b.now = present
}

// A budget says what orders and raises at each ε would bring, now and later, whatever has happened.
func TestABudgetAgreesWithOrders(t *testing.T) {
	for seed := range tests.Tries(7, 60, 3_000) { // the seventh has people to whom less and less is on offer
		b := newBazaar(t, uint64(seed))
		for range 40 {
			b.act()
			for _, buyer := range []string{"", b.buyer(), "newcomer"} {
				names := append(b.some(), b.people[0])
				slices.Sort(names)
				if names = slices.Compact(names); b.random.IntN(3) == 0 {
					names = append(names, "stranger")
				}
				b.check(buyer, names)
				b.checkTime(buyer, names[0])
			}
			check.Need(t, !t.Failed(), "seed %d", seed)
		}
	}
}

// Who waits for others' reservation of a level is told until when, unless somebody holds the level.
func TestABudgetWaitsForReservationsOfTheLevel(t *testing.T) {
	half := eps(t, "0.5")
	levels := func(holders int) policy.Policy {
		return market(t, "1", func(m *policy.Market) { m.Stride, m.Holders = half, holders })
	}
	rising := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.1")}, policy.Step{At: epoch().AddDate(0, 0, 9), Ceiling: eps(t, "1")}))(t)
	lower := check.Value(policy.Min(levels(1), rising))(t)
	lowered := func(l *Ledger) { // below what was released: that is still to be had
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
		{"reserved beside one who holds it", 2, sold, false, "0.5", true},
		{"the ceiling is lower by now", 1, lowered, false, "0.5", true},
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
			"%s: the order comes to %v, and the budget is %+v", c.name, err, got)
		if now = want; c.later {
			sell(t, l, api.SellRequest{Key: "sell", Order: order, Truth: sameTruth("yes")})
		}
	}
}

// Who waits for a sale to open is not told of levels that have all their holders; those who
// reserved one make it wait for them, too.
func TestABudgetWaitsForNoLevelThatIsFullWhenTheSaleOpens(t *testing.T) {
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
		if lost { // the noise key: then only what is recorded can be had
			o.NoiseKey = api.NoiseKeys{}
			l = openMemory(t, store, o)
			want[1] = api.BudgetLevel{Epsilon: one}
		}
		for _, asked := range [][]privacy.Epsilon{{half}, {half, one}} {
			got := check.Value(l.Budget(t.Context(), api.BudgetRequest{Question: "vote", Buyer: "zeta", Objects: []string{"ann"}, Epsilons: asked}))(t)
			last := want[len(asked)-1]
			if fmt.Sprint(got.Levels) != fmt.Sprint(want[:len(asked)]) || got.Refused[0].Reason != api.SaleClosed || !got.Refused[0].From.Equal(last.From) {
				t.Errorf("key lost: %v, the budget is %+v, want %+v", lost, got, want[:len(asked)])
			}
		}
	}
}

// A budget is kept until something happens to somebody whom it is about, or time changes it.
func TestABudgetIsKept(t *testing.T) {
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
		"all":   {Question: "vote", All: true, Buyer: "acme", Epsilons: []privacy.Epsilon{eps(t, "0.2"), eps(t, "1"), eps(t, "5")}}, // nobody ever reaches 5
		"names": {Question: "vote", Objects: []string{"ann", "bob"}, Buyer: "acme", Epsilons: []privacy.Epsilon{eps(t, "0.2"), eps(t, "1")}},
	}
	reserved := func(l *Ledger) {
		o := api.Order{Buyer: "zeta", Question: "vote", Epsilon: eps(t, "0.2"), Objects: []string{"bob"}}
		reserve(t, l, api.ReserveRequest{Key: "reserve", Order: o, For: time.Hour})
	}
	for _, c := range []struct {
		name   string
		before func(l *Ledger) // the first look
		then   func(l *Ledger)
		kept   bool
	}{
		{"nothing", nil, func(*Ledger) {}, true},
		{"somebody else is asked", nil, raise("home", "eve"), true},
		{"somebody is asked something else", nil, raise("home", "ann"), false},
		{"somebody is asked", nil, raise("vote", "bob"), false},
		{"time passes", nil, func(*Ledger) { now = now.Add(time.Hour) }, true},
		{"the ceiling rises", nil, func(*Ledger) { now = now.AddDate(0, 0, 4) }, false},
		{"the clock goes back", nil, func(*Ledger) { now = now.Add(-time.Hour) }, false},
		{"something is reserved", nil, reserved, false},
		{"a reservation lasts", reserved, func(*Ledger) { now = now.Add(time.Minute) }, true},
		{"a reservation ends", reserved, func(*Ledger) { now = now.Add(time.Hour) }, false},
		{"a reservation is cancelled", reserved, func(l *Ledger) { must(t, l.Cancel(t.Context(), "cancel", 1)) }, false},
		{"somebody withdraws", nil, func(l *Ledger) { must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "withdraw", Object: "ann"})) }, false},
		{"somebody is forgotten", nil, func(l *Ledger) { must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "eve"})) }, false}, // it may have been anybody
	} {
		for panel, request := range panels {
			l := begun()
			if c.before != nil {
				c.before(l)
			}
			must(t, check.Err(l.Budget(t.Context(), request)))
			for key, one := range l.requests.Forecasts.All {
				one.Budget.Objects = 99 // so it is recognized
				l.requests.Forecasts.All[key] = one
			}
			c.then(l)
			got := check.Value(l.Budget(t.Context(), request))(t)
			if kept := got.Objects == 99; kept != c.kept || got.Event != stats(t, l).Events {
				t.Errorf("%s, of %s: kept is %v, as of event %d", c.name, panel, kept, got.Event)
			}
		}
	}
}

// Whatever happens, and however much time passes, what is kept is what there is.
func TestAKeptBudgetIsTheBudget(t *testing.T) {
	for seed := range tests.Tries(10, 60, 3_000) {
		b := newBazaar(t, uint64(1000+seed))
		var asked []api.BudgetRequest // again and again
		for _, buyer := range []string{"", "acme", "zeta", "newcomer"} {
			r := api.BudgetRequest{Question: "vote", Buyer: buyer, All: true}
			asked = append(asked, r)
			for r.All = false; len(asked)%4 > 0; asked = append(asked, r) {
				r.Objects, r.Epsilons = b.some(), nil
				slices.Sort(r.Objects)
				for range b.random.IntN(4) {
					r.Epsilons = append(r.Epsilons, b.epsilon(1, 25))
				}
			}
		}
		for range 60 {
			switch b.random.IntN(12) {
			default:
				b.act()
			case 0, 1, 2, 3:
				b.now = b.now.Add(time.Duration(b.random.IntN(30)) * time.Hour)
			case 4:
				must(t, b.ledger.Forget(t.Context(), api.ObjectRequest{Key: b.key(), Object: b.some()[0]}))
			case 5:
				var refused *api.RefusedError
				if err := b.ledger.BeginEpoch(t.Context(), api.EpochRequest{Key: b.key(), Question: "vote", Object: b.some()[0]}); err != nil && !errors.As(err, &refused) {
					t.Fatal(err)
				}
			}
			for _, r := range asked {
				b.checkKept(r)
			}
			check.Need(t, !t.Failed(), "seed %d", seed)
		}
	}
}

// A budget is kept no longer than until the first end of a reservation, whichever it is, and until
// the ceiling rises, also where all levels that are asked about can be had: the largest ε is
// another one then.
func TestTimeEndsAKeptBudget(t *testing.T) {
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
			"%s: first the largest ε is %s, and then %s", c.name, before.Largest, got.Largest)
	}
}

// bazaarRequest is a request of a bazaar that may be refused as a whole, to be tried again at
// another ε, or without those refused.
type bazaarRequest struct {
	name string
	do   func(key string, epsilon privacy.Epsilon, partial bool) (done int, err error)
}

// requests returns one of each kind, about the same people. The host knows no truth of some of
// them.
func (b *bazaar) requests(untold string) []bazaarRequest {
	ctx, l, names, buyer := b.Context(), b.ledger, b.some(), b.buyer()
	if b.random.IntN(2) == 0 {
		names = names[:1]
	}
	truth := func(_ context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i, name := range objects {
			if name != untold {
				values[i] = "yes"
			}
		}
		return values, nil
	}
	return []bazaarRequest{
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

// try makes a request and, if it is refused, one of those that it is told are possible instead. It
// returns what that was.
func (b *bazaar) try(r bazaarRequest, untold string) (instead string) {
	asked := b.epsilon(1, 21)
	var refused *api.RefusedError
	if _, err := r.do(b.key(), asked, false); !errors.As(err, &refused) {
		return ""
	}
	possible := refused.Instead
	check.Need(b, possible != nil, "%s: nobody has looked what is possible instead: %v", r.name, refused)
	top := possible.Levels[len(possible.Levels)-1]
	check.That(b, top.Epsilon == asked && possible.Objects != 0 && top.Can != possible.Objects,
		"%s at ε=%s is refused, and possible is %+v", r.name, asked, possible)
	closing := epoch().AddDate(0, 0, 10) // some sell no more then
	later := untold == "" && top.Later > 0 && top.Can+top.Later == possible.Objects && top.From.Before(closing)
	// Nobody was asked for truths if budgets stood in the way: then want of one may be found now.
	well := func(done int, err error, want uint64) bool {
		if untold != "" {
			want = min(want, uint64(done))
		}
		missing := untold != "" && errors.As(err, &refused) && slices.ContainsFunc(refused.Refused, func(r api.Refusal) bool { return r.Reason == api.NoTruth })
		return missing || err == nil && uint64(done) == want
	}
	switch n := b.random.IntN(3); {
	case n == 0 && !possible.Largest.IsZero():
		if done, err := r.do(b.key(), possible.Largest, false); !well(done, err, possible.Objects) {
			b.Errorf("%s at ε=%s instead of %s: %d, %v", r.name, possible.Largest, asked, done, err)
		}
		return "less"
	case n == 1 && top.Can > 0:
		if done, err := r.do(b.key(), asked, true); !well(done, err, top.Can) {
			b.Errorf("%s at ε=%s without those refused: %d of %d, %v", r.name, asked, done, top.Can, err)
		}
		return "fewer"
	case n == 2 && later:
		b.now = top.From
		if done, err := r.do(b.key(), asked, false); !well(done, err, possible.Objects) {
			b.Errorf("%s at ε=%s from %v on: %d, %v", r.name, asked, top.From, done, err)
		}
		return "later"
	}
	return ""
}

// What a refused request is told to be possible instead, is.
func TestARefusedRequestSaysWhatIsPossible(t *testing.T) {
	took := map[string]int{}
	for seed := range tests.Tries(8, 100, 3_000) {
		b := newBazaar(t, uint64(seed))
		for range 60 {
			b.act()
			untold := ""
			if b.random.IntN(3) == 0 {
				untold = b.people[b.random.IntN(len(b.people))]
			}
			all := b.requests(untold)
			r := all[b.random.IntN(len(all))]
			took[r.name+" "+b.try(r, untold)]++
			check.Need(t, !t.Failed(), "seed %d", seed)
		}
	}
	for _, way := range []string{"raise less", "raise fewer", "raise later", "sell less", "sell fewer", "answer less", "answer fewer"} {
		check.That(t, took[way] != 0, "no request was tried again by %q", way)
	}
}

// A sale that is closed is closed at all levels: to look at each of a billion would take minutes.
func TestAClosedSaleIsNotSearchedLevelByLevel(t *testing.T) {
	now := epoch()
	l := inMemory(t, Options{Now: func() time.Time { return now }})
	define(t, l, vote())
	p := check.Value(policy.Parse([]byte(`{"kind":"market","max":"900","price":[["900",100]],"stride":"0.000000001","until":"2026-03-02T00:00:00Z"}`)))(t)
	enrollUnder(t, l, "vote", p, "1000", "ann")
	sell(t, l, purchase(t, "sale", "acme", "2", "ann"))
	now = now.AddDate(0, 0, 7)
	for buyer, want := range map[string]string{"acme": "2", "zeta": "0"} { // what a buyer holds it may have again
		q := check.Value(l.Quote(t.Context(), api.Order{Buyer: buyer, Question: "vote", Epsilon: eps(t, "901"), Objects: []string{"ann"}}))(t)
		check.That(t, len(q.Refused) == 1 && q.Refused[0].Reason == api.NotOnOffer && q.Refused[0].Largest == eps(t, want),
			"%s is refused %+v", buyer, q.Refused)
	}
}

// While many callers spend what people have, each budget is that of the event it names: no later,
// no earlier, no mixture.
func TestABudgetIsAsOfItsEvent(t *testing.T) {
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
			for i := caller; i < people; i += callers { // whoever is asked this can answer nothing else
				_, err := l.Release(t.Context(), api.ReleaseRequest{Key: names[i], Question: "home", Object: names[i], Epsilon: eps(t, "1"), Truth: sameTruth("yes")})
				check.OK(t, err)
			}
		})
	}
	seen := map[uint64]uint64{} // who can answer, as of an event
	for done := false; !done; {
		b := check.Value(l.Budget(t.Context(), api.BudgetRequest{Question: "vote", All: true, Epsilons: []privacy.Epsilon{eps(t, "1")}}))(t)
		known, again := seen[b.Event]
		check.That(t, !again || known == b.Levels[0].Can, "as of event %d: %d, and %d", b.Event, known, b.Levels[0].Can)
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
		check.That(t, !looked || got == can, "as of event %d: %d, where %d can answer", ev.Number, got, can)
	}
}

// Where nobody can answer, the lowest level there is shows it: no other is one of the question's.
func TestABudgetOfNobodyIsAtALevelOfTheQuestion(t *testing.T) {
	l := inMemory(t, Options{})
	family := fixture.Skewed(t)
	define(t, l, api.Question{Name: "numbered", Values: []string{"no", "yes"}, Encoding: "finite", Mechanism: &api.Mechanism{Family: family}})
	enroll(t, l, "numbered", "0.01", "ann")
	got := check.Value(l.Budget(t.Context(), api.BudgetRequest{Question: "numbered", All: true}))(t)
	if lowest := family.Epsilons()[0]; len(got.Levels) != 1 || got.Levels[0].Epsilon != lowest || got.Levels[0].Can != 0 || !got.Largest.IsZero() {
		t.Errorf("%+v, where the lowest level is %s", got, lowest)
	}
}

// A raise of all objects holds budget until it ends. What it could have asked for instead does not
// count that.
func TestRaise_OfAllRefused_InsteadDoesNotCountItsOwnHold(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "2", "ann", "bob")
	for range 10 {
		var refused *api.RefusedError
		r := api.RaiseRequest{Key: "raise", Question: "vote", All: true, Epsilon: eps(t, "3"), Truth: sameTruth("yes")}
		if _, err := l.Raise(t.Context(), r); !errors.As(err, &refused) || refused.Instead == nil {
			t.Fatal(err)
		}
		now, err := l.Budget(t.Context(), api.BudgetRequest{Question: "vote", All: true})
		if must(t, err); refused.Instead.Largest != now.Largest || now.Largest.IsZero() {
			t.Errorf("ε=%s is possible, but the refusal says ε=%s", now.Largest, refused.Instead.Largest)
		}
	}
	wantNoHolds(t, l)
}
