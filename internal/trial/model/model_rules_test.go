package model

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	rational "math/big"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// The model of policies: their documentation, computed again in fractions. In the model ε is a
// number of nano-nats.

// rule is a policy with the model's version of it.
type rule struct {
	policy  policy.Policy
	ceiling func(at time.Time, orders int64) int64
	turns   []time.Time // the instants at which the ceiling may rise by the calendar, in order
	timed   bool        // there are instants other than the beginning of time
	terms   *policy.Market
}

// everyOrder is more orders than any policy here requires, and doomsday is after all instants.
const everyOrder = math.MaxInt32

func timeZero() time.Time { return time.Unix(0, 0).UTC() }
func doomsday() time.Time { return time.Date(2261, 12, 31, 23, 59, 59, 999_999_999, time.UTC) }

func (r rule) limit() int64 { return r.ceiling(doomsday(), everyOrder) }

// releases returns the levels that the calendar releases, and when: those that the ceiling reaches
// over time, with these orders.
func (r rule) releases(until time.Time, orders int64) (due []modelStep) {
	top := int64(0)
	for _, at := range r.turns {
		if e := r.ceiling(at, orders); r.timed && !at.After(until) && e > top {
			due, top = append(due, modelStep{e: e, at: at}), e
		}
	}
	return due
}

// turnsOf returns the instants in a range at which a rising ceiling rises.
func turnsOf(ceiling func(time.Time, int64) int64, after, until time.Time) []time.Time {
	switch distance := until.Sub(after); {
	case ceiling(after, everyOrder) == ceiling(until, everyOrder):
		return nil
	case distance == 1:
		return []time.Time{until}
	default:
		middle := after.Add(distance / 2)
		return append(turnsOf(ceiling, after, middle), turnsOf(ceiling, middle, until)...)
	}
}

func ratio(a, b int64) *rational.Rat { return rational.NewRat(a, b) }

func floorOf(x *rational.Rat) int64 { return new(rational.Int).Div(x.Num(), x.Denom()).Int64() }
func ceilOf(x *rational.Rat) int64  { return -floorOf(new(rational.Rat).Neg(x)) }

func sound(p policy.Policy, err error) policy.Policy {
	if err != nil {
		panic(err)
	}
	return p
}

func epsilonOf(n int64) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(n)
	if err != nil {
		panic(err)
	}
	return e
}

// constantly returns a ceiling that depends neither on time nor on orders.
func constantly(e int64) func(time.Time, int64) int64 {
	return func(time.Time, int64) int64 { return e }
}

func noRule() rule {
	return rule{ceiling: constantly(privacy.MaxEpsilon().Nano()), turns: []time.Time{timeZero()}}
}

func fixedRule(e int64) rule {
	return rule{policy: policy.Fixed(epsilonOf(e)), ceiling: constantly(e), turns: []time.Time{timeZero()}}
}

func linearRule(from, to int64, start, end time.Time, stride int64) rule {
	ceiling := func(at time.Time, _ int64) int64 {
		switch {
		case at.Before(start):
			return 0
		case !at.Before(end):
			return to
		}
		line := ratio(int64(at.Sub(start)), int64(end.Sub(start)))
		line.Mul(line, ratio(to-from, 1)).Add(line, ratio(from, 1))
		return max(from, stride*floorOf(line.Quo(line, ratio(stride, 1))))
	}
	return rule{
		policy:  sound(policy.Linear(epsilonOf(from), epsilonOf(to), start, end, epsilonOf(stride))),
		ceiling: ceiling, turns: turnsOf(ceiling, start.Add(-1), end), timed: true,
	}
}

func stepsRule(of ...policy.Step) rule {
	var turns []time.Time
	for _, s := range of {
		turns = append(turns, s.At)
	}
	ceiling := func(at time.Time, _ int64) (e int64) {
		for _, s := range of {
			if !at.Before(s.At) {
				e = s.Ceiling.Nano()
			}
		}
		return e
	}
	return rule{policy: sound(policy.Steps(of...)), ceiling: ceiling, turns: turns, timed: true}
}

// curveRule returns a policy whose transcendental ceiling is computed by package policy, and tested
// there.
func curveRule(p policy.Policy, start, end time.Time) rule {
	ceiling := func(at time.Time, _ int64) int64 { return p.Ceiling(at, 0).Nano() }
	return rule{policy: p, ceiling: ceiling, turns: turnsOf(ceiling, start.Add(-1), end), timed: true}
}

func unlockRule(total int64, orders int) rule {
	return rule{
		policy: sound(policy.Unlock(epsilonOf(total), orders)), turns: []time.Time{timeZero()},
		ceiling: func(_ time.Time, n int64) int64 {
			share := ratio(min(n, int64(orders)), int64(orders))
			return floorOf(share.Mul(share, ratio(total, 1)))
		},
	}
}

func joinRules(join func(...policy.Policy) (policy.Policy, error), add func(a, b int64) int64, of []rule) (whole rule) {
	var parts []policy.Policy
	for _, part := range of {
		parts = append(parts, part.policy)
		whole.turns = append(whole.turns, part.turns...)
		whole.timed = whole.timed || part.timed
		if part.terms != nil {
			whole.terms = part.terms
		}
	}
	slices.SortFunc(whole.turns, time.Time.Compare)
	whole.policy = sound(join(parts...))
	whole.ceiling = func(at time.Time, orders int64) int64 {
		e := of[0].ceiling(at, orders)
		for _, part := range of[1:] {
			e = add(e, part.ceiling(at, orders))
		}
		return e
	}
	return whole
}

func minRule(of ...rule) rule {
	return joinRules(policy.Min, func(a, b int64) int64 { return min(a, b) }, of)
}

func sumRule(of ...rule) rule {
	return joinRules(policy.Sum, func(a, b int64) int64 { return a + b }, of)
}

func marketRule(m policy.Market) rule {
	r := fixedRule(m.Max.Nano())
	r.policy, r.terms = sound(m.Policy()), &m
	return r
}

// priceOf returns the price of a level: on straight lines between the points, from (0, 0) unless
// there is a point at 0, rounded up; at least the floor.
func priceOf(m *policy.Market, level int64) int64 {
	if level == 0 {
		return 0
	}
	below, price := policy.Price{}, m.Prices[len(m.Prices)-1].Amount
	for _, above := range m.Prices {
		if a, b := below.Epsilon.Nano(), above.Epsilon.Nano(); level <= b {
			line := ratio(level-a, b-a)
			line.Mul(line, ratio(above.Amount-below.Amount, 1))
			price = below.Amount + ceilOf(line)
			break
		}
		below = above
	}
	return max(price, m.Floor)
}

// In games the unit is a milli-nat, and an hour is a long time.
func milli(n int64) int64              { return n * 1_000_000 }
func milliNat(n int64) privacy.Epsilon { return epsilonOf(milli(n)) }
func atHour(n int) time.Time           { return ledgertest.Begin().Add(time.Duration(n) * time.Hour) }
func pricePoint(e, amount int64) policy.Price {
	return policy.Price{Epsilon: milliNat(e), Amount: amount}
}
func plainPrices() []policy.Price { return []policy.Price{pricePoint(500, 100), pricePoint(1000, 180)} }

// allRules returns all policies of the games, by number. Finding their instants takes time.
var allRules = sync.OnceValue(func() []rule {
	plain := func() rule { return marketRule(policy.Market{Max: milliNat(1000), Prices: plainPrices()}) }
	steps := stepsRule(policy.Step{At: atHour(2), Ceiling: milliNat(200)}, policy.Step{At: atHour(24), Ceiling: milliNat(500)}, policy.Step{At: atHour(48), Ceiling: milliNat(1000)})
	linear := linearRule(milli(100), milli(700), atHour(1), atHour(11), milli(100))
	halving := curveRule(sound(policy.Halving(milliNat(200), milliNat(1000), atHour(1), 6*time.Hour, milliNat(100))), atHour(1), doomsday())
	return []rule{
		noRule(),
		fixedRule(milli(300)),
		fixedRule(milli(1000)),
		linear,
		linearRule(milli(50), milli(950), atHour(0).Add(1), atHour(7), milli(200)),
		steps,
		halving,
		curveRule(sound(policy.NoisySampling(milliNat(1000), milliNat(500), atHour(1), 12*time.Hour, 6)), atHour(1), atHour(100)),
		unlockRule(milli(700), 3),
		minRule(fixedRule(milli(500)), linear),
		sumRule(fixedRule(milli(200)), steps),
		sumRule(unlockRule(milli(300), 3), linear),
		plain(),
		plain(),
		marketRule(policy.Market{Max: milliNat(1000), Stride: milliNat(100), Floor: 37, Prices: []policy.Price{pricePoint(300, 10), pricePoint(700, 55), pricePoint(1200, 56)}}),
		marketRule(policy.Market{Max: milliNat(700), Floor: 3, Prices: []policy.Price{pricePoint(0, 5), pricePoint(1000, 12)}, Holders: 2, Stride: milliNat(50)}),
		marketRule(policy.Market{Max: milliNat(1000), Prices: plainPrices(), Holders: 1, Levels: []privacy.Epsilon{milliNat(100), milliNat(300), milliNat(500), milliNat(1000)}}),
		marketRule(policy.Market{Max: milliNat(1000), Prices: plainPrices(), Buyers: []string{"acme", "bolt"}}),
		marketRule(policy.Market{Max: milliNat(1000), Prices: plainPrices(), Barred: []string{"cryo"}, From: atHour(3), Until: atHour(30)}),
		marketRule(policy.Market{Max: milliNat(1000), Prices: plainPrices(), Until: atHour(2)}),
		minRule(plain(), unlockRule(milli(1000), 3)),
		minRule(linear, marketRule(policy.Market{Max: milliNat(1000), Prices: plainPrices(), Holders: 2, Stride: milliNat(100), From: atHour(2)})),
		minRule(plain(), halving),
		minRule(plain(), sumRule(unlockRule(milli(400), 2), steps)),
		minRule(plain(), fixedRule(milli(500))),
	}
})

// mechanisms returns the mechanisms of the games' questions, by their number of values: pairs of
// values at ε=0.1, and single ones at 0.3, 0.5 and 1. Computing their channels takes time.
var mechanisms = sync.OnceValue(func() map[int]*api.Mechanism {
	all := map[int]*api.Mechanism{}
	for inputs := 3; inputs <= 4; inputs++ {
		levels := []*finite.Matrix{subsetsOnPaper(inputs, 2, 100), subsetsOnPaper(inputs, 1, 300), subsetsOnPaper(inputs, 1, 500), subsetsOnPaper(inputs, 1, 1000)}
		family, err := finite.NewFamily(context.Background(), levels...)
		if err != nil {
			panic(err)
		}
		m := &api.Mechanism{Family: family}
		for i, level := range levels {
			var names []string
			for o := range level.Outputs() {
				names = append(names, string("uvwx"[i])+string(rune('0'+o)))
			}
			m.Outputs = append(m.Outputs, names)
		}
		all[inputs] = m
	}
	return all
})

func subsetsOnPaper(inputs, size int, e int64) *finite.Matrix {
	design, err := finite.SubsetSelection(inputs, size)
	if err != nil {
		panic(err)
	}
	level, err := design.At(milliNat(e))
	if err != nil {
		panic(err)
	}
	return level
}

// firstMarket is the number of the first rule with terms of sale.
const firstMarket = 12

// The capacity of records in the model: entries are listed one by one.

// chainEntry is an entry of a chain: a level or a part of it, a buyer of a level, or an epoch that
// has ended.
type chainEntry struct {
	epoch int
	level int64 // 0 for an ended epoch
	part  int
	buyer string
}

// levelEntries adds the entries for a level, and for a buyer of it unless that is "".
func levelEntries(all map[chainEntry]bool, q api.Question, epoch int, e int64, buyer string) {
	parts := 1
	if q.Encoding == "unary" {
		parts += len(q.Values) / 256
	}
	for part := range parts {
		all[chainEntry{epoch: epoch, level: e, part: part}] = true
	}
	if buyer != "" {
		all[chainEntry{epoch: epoch, level: e, buyer: buyer}] = true
	}
}

// entries returns the entries of a chain.
func (c *modelChain) entries(q api.Question) map[chainEntry]bool {
	all := map[chainEntry]bool{}
	for i, one := range c.epochs() {
		if i > 0 {
			all[chainEntry{epoch: i}] = true // the epoch that ended before the current one
		}
		for e, l := range one.levels {
			for _, buyer := range append(slices.Clone(l.holders), "") {
				levelEntries(all, q, i, e, buyer)
			}
		}
	}
	return all
}

// added returns how many entries a request adds to a chain, if nothing else is added.
func (c *modelChain) added(q api.Question, e int64, buyer string) int {
	all := c.entries(q)
	before := len(all)
	levelEntries(all, q, len(c.earlier), e, buyer)
	return len(all) - before
}

// full returns the refusal if the chain of an object, or its list of reservations, has no capacity
// for a wish. A reservation counts as if it were captured.
func (m *model) full(c *modelChain, w wish) *api.Refusal {
	q, _ := m.question(w.question)
	there, added, promised, open := len(c.entries(q)), c.added(q, w.e, w.buyer), 0, 0
	for _, d := range m.deals {
		if !m.holdsFor(d, w.object) {
			continue
		}
		if open++; d.Question == w.question {
			promised += c.added(q, d.epsilon(), d.Buyer)
		}
	}
	r := &api.Refusal{Object: w.object, Reason: api.Full, Asked: epsilonOf(w.e), Remedy: "waiting"}
	switch {
	case w.reserved:
		return nil
	case added > 0 && there+added > 1024:
		r.Remedy = "nothing"
	case added > 0 && there+promised+added > 1024, w.reserves && open >= 128:
	default:
		return nil
	}
	return r
}

// Budgets in the model: each ε is tried.

// budgets compares what an order's objects can answer, for its buyer and for the host, at its ε and
// at some others.
func (g *game) budgets(o api.Order) {
	g.Helper()
	q, err := g.model.question(o.Question)
	if err != nil {
		return
	}
	levels := []privacy.Epsilon{o.Epsilon}
	for _, e := range []int64{100, 300, 500, 1000, 2000} {
		if e := milli(e); hasLevel(q, e) && epsilonOf(e) != o.Epsilon {
			levels = append(levels, epsilonOf(e))
		}
	}
	for _, buyer := range []string{o.Buyer, ""} {
		got, err := g.ledger.Budget(g.Context(), api.BudgetRequest{Question: o.Question, Objects: o.Objects, All: o.All, Buyer: buyer, Epsilons: levels})
		check.Need(g, err == nil, "a budget: %v", err)
		for _, at := range got.Levels {
			can, price := g.model.able(o, buyer, at.Epsilon)
			if at.Can != can || at.Price != price || got.Largest == at.Epsilon && can < got.Objects {
				g.Fatalf("the budget for %q at ε=%s is\n\t\t%+v, and the largest ε is %s\n\twant %d, for %d", buyer, at.Epsilon, at, got.Largest, can, price)
			}
		}
	}
}

// able returns how many objects an order, or a raise by the host, could include at an ε, and their
// price.
func (m *model) able(o api.Order, buyer string, epsilon privacy.Epsilon) (can uint64, price int64) {
	o.Epsilon = epsilon
	if buyer != "" {
		if t, err := m.trade(o, nil); err == nil {
			return uint64(len(t.lines)), t.price()
		}
		return 0, 0
	}
	for _, name := range m.members(o.Question, o.Objects) {
		if m.excluded(o.Question, name, epsilon.Nano()) != nil {
			continue
		}
		w := wish{question: o.Question, object: name, e: epsilon.Nano(), orders: m.orders(o.Question, name)}
		if _, refusal := m.assess(w); refusal == nil {
			can++
		}
	}
	return can, 0
}

// withoutInstead returns a refusal without the alternatives, which are not recorded. [game.budgets]
// checks them.
func withoutInstead(err error) error {
	var refused *api.RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	bare := *refused
	bare.Instead = nil
	return &bare
}

// Levels that a charge displaces, in the model: each level on offer is tried before and after the
// charge.

// displaced returns the levels on offer that objects lose if each is charged for an answer.
func (m *model) displaced(question string, names []string, cost int64) (rows []api.Displaced) {
	for _, name := range names {
		p := m.people[name]
		for _, q := range m.questions {
			if m.chain(q.Name, name) == nil || m.chain(q.Name, name).withdrawn {
				continue
			}
			for _, e := range m.lost(p, name, q, question, cost) {
				i := slices.IndexFunc(rows, func(one api.Displaced) bool { return one.Question == q.Name && one.Epsilon.Nano() == e })
				if i < 0 {
					i, rows = len(rows), append(rows, api.Displaced{Question: q.Name, Epsilon: epsilonOf(e)})
				}
				rows[i].Objects++
				rows[i].Revenue += priceOf(p.chains[q.Name].rule.terms, e)
			}
		}
	}
	slices.SortFunc(rows, func(a, b api.Displaced) int {
		return cmp.Or(strings.Compare(a.Question, b.Question), b.Epsilon.Compare(a.Epsilon))
	})
	return rows
}

// lost returns the levels that could be sold before a charge, at once or ever, and not after it.
func (m *model) lost(p *person, name string, q api.Question, charged string, cost int64) []int64 {
	c := p.chains[q.Name]
	market := c.rule.terms
	if market == nil {
		return nil
	}
	horizons := []func(e int64) bool{
		func(e int64) bool { return m.sellableNow(p, name, q.Name, e) },
		func(e int64) bool { return m.sellableEver(p, q.Name, e) },
	}
	before := map[int64][]bool{}
	tries, most := modelOffers(q, market)
	if tries == nil { // every level is for sale: try the highest that can be sold, and the points of the prices
		for _, point := range market.Prices {
			tries = append(tries, point.Epsilon.Nano())
		}
		for _, sellable := range horizons {
			tries = append(tries, c.current()+int64(sort.Search(int(most-c.current()), func(n int) bool { return !sellable(c.current() + 1 + int64(n)) })))
		}
	}
	slices.Sort(tries)
	tries = slices.DeleteFunc(slices.Compact(tries), func(e int64) bool { return e <= 0 || e > most })
	for _, e := range tries {
		before[e] = []bool{horizons[0](e), horizons[1](e)}
	}
	p.spent += cost
	defer func() { p.spent -= cost }()
	if q.Name == charged {
		c.answered += cost
		defer func() { c.answered -= cost }()
	}
	return slices.DeleteFunc(tries, func(e int64) bool {
		return !(before[e][0] && !horizons[0](e)) && !(before[e][1] && !horizons[1](e))
	})
}

// sellableNow returns whether a new buyer could have a level at once.
func (m *model) sellableNow(p *person, name, question string, e int64) bool {
	c := p.chains[question]
	market := c.rule.terms
	if !market.From.IsZero() && m.now().Before(market.From) || !market.Until.IsZero() && !m.now().Before(market.Until) {
		return false
	}
	w := wish{question: question, object: name, e: e, orders: c.buyers() + 1}
	return e <= c.current() || m.budget(p, c, w, e-c.current(), e) == nil
}

// sellableEver returns whether a buyer could have a level before the sale closes, after any number
// of buyers, if nothing is reserved.
func (m *model) sellableEver(p *person, question string, e int64) bool {
	c := p.chains[question]
	limit := c.rule.limit()
	if until := c.rule.terms.Until; !until.IsZero() {
		if !m.now().Before(until) {
			return false
		}
		limit = c.rule.ceiling(until.Add(-1), everyOrder)
	}
	return e <= c.current() || e-c.current() <= min(limit-c.spent(), p.cap-p.spent)
}

// loss returns the error of an answer that would displace levels, unless the request accepts it.
func (m *model) loss(r api.AnswerRequest, names []string, cost int64) error {
	lost := m.displaced(r.Question, names, cost)
	if r.AcceptLoss || len(lost) == 0 {
		return nil
	}
	return &api.DisplacedError{Question: r.Question, Displaced: lost}
}

// Alternatives to what was refused, in the model: each ε on offer is tried.

// modelOffers returns the ε that a request may have, rising, or nil if these are all up to a
// highest one.
func modelOffers(q api.Question, market *policy.Market) (all []int64, most int64) {
	all, most = modelLevels(q), epsilonMost
	if market == nil {
		return all, most
	}
	most = market.Max.Nano()
	var sold []int64
	for _, level := range market.Levels {
		sold = append(sold, level.Nano())
	}
	for e := market.Stride.Nano(); e > 0 && e <= most; e += market.Stride.Nano() {
		sold = append(sold, e)
	}
	switch {
	case sold == nil:
		return all, most
	case all == nil:
		return sold, most
	}
	return slices.DeleteFunc(sold, func(e int64) bool { return !slices.Contains(all, e) }), most
}

const epsilonMost = int64(1) << 60

// orLess adds to a refusal the largest ε on offer that is possible. Budgets allow all ε above the
// current level up to one, or none.
func (c *modelChain) orLess(r *api.Refusal, q api.Question, market *policy.Market, would func(e int64) bool) {
	tries, most := modelOffers(q, market)
	if tries == nil {
		most, current := min(most, r.Asked.Nano()-1), c.current()
		over := sort.Search(int(max(0, most-current)), func(n int) bool { return !would(current + 1 + int64(n)) })
		tries = append(slices.Collect(maps.Keys(c.levels)), min(most, current), current+int64(over))
		tries = slices.DeleteFunc(tries, func(e int64) bool { return e > most })
	}
	orMost(r, slices.DeleteFunc(slices.Clone(tries), func(e int64) bool { return e <= 0 || e >= r.Asked.Nano() || !would(e) }))
}

// orMost adds to a refusal the largest of some ε.
func orMost(r *api.Refusal, all []int64) {
	if top := slices.Max(append(all, 0)); top > 0 {
		if r.Largest = epsilonOf(top); r.Remedy == "nothing" {
			r.Remedy = "less"
		}
	}
}

// bears returns whether a chain can reach a level, or has it, with a true value or without.
func (m *model) bears(p *person, w wish, truth bool) bool {
	c := p.chains[w.question]
	switch {
	case m.full(c, w) != nil:
		return false
	case c.levels[w.e] != nil:
		return true
	case m.lacks(c):
		return false
	case w.e < c.current():
		return true
	case !truth || m.lacksTruthKey():
		return false
	}
	return m.budget(p, c, w, w.e-c.current(), w.e) == nil
}

// orLess returns a refusal with the host's alternative.
func (m *model) orLess(r *api.Refusal, p *person, q api.Question, w wish, truth bool) *api.Refusal {
	p.chains[q.Name].orLess(r, q, nil, func(e int64) bool {
		w.e = e
		return m.bears(p, w, truth)
	})
	return r
}

// orLess returns a refusal with the buyer's alternative.
func (t *modelTrade) orLess(m *model, r *api.Refusal, orders int64, truth bool) *api.Refusal {
	p, c := m.people[r.Object], m.chain(t.Question, r.Object)
	switch market := c.rule.terms; {
	case market == nil, r.Reason == api.BuyerRefused, r.Reason == api.SaleClosed:
	default:
		c.orLess(r, t.question, market, func(e int64) bool {
			other := *t
			other.Epsilon = epsilonOf(e)
			return m.terms(c, &other, r.Object) == nil && m.bears(p, wish{t.Question, r.Object, e, orders, t.Buyer, false, t.reserves}, truth)
		})
	}
	return r
}

// lessOfAnswer returns a refusal with the ε at which the query would include the object. What is
// known of the whole panel is available to all.
func (m *model) lessOfAnswer(refusal *api.Refusal, r api.AnswerRequest, names []string, leaves, truth bool) *api.Refusal {
	var all []int64
	_, known := m.answered(r, names, false)
	for _, a := range known {
		all = append(all, a.e)
	}
	least := int64(0) // above this, no known answer excluded an object
	if _, others := m.answered(r, names, true); r.Partial && len(others) > 0 {
		least = others[len(others)-1].e
	}
	if truth {
		c := m.chain(r.Question, refusal.Object)
		would := func(e int64) bool {
			r.Epsilon = epsilonOf(e)
			w := wish{question: r.Question, object: refusal.Object, e: e, orders: c.buyers()}
			return m.budget(m.people[refusal.Object], c, w, m.priceOfAnswer(r, names, leaves), c.current()) == nil
		}
		if e := int64(sort.Search(int(refusal.Asked.Nano()), func(n int) bool { return !would(int64(n)) })) - 1; e > least {
			all = append(all, e)
		}
	}
	orMost(refusal, all)
	return refusal
}
