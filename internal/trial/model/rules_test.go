package model

import (
	"context"
	"math"
	rational "math/big"
	"slices"
	"sync"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// What the paper knows of policies: their documentation, computed anew in rationals. On paper ε is a
// number of nano-nats.

// rule is a policy with the paper's own idea of it.
type rule struct {
	policy  policy.Policy
	ceiling func(at time.Time, orders int64) int64
	turns   []time.Time // the instants at which the ceiling may rise by itself, in order
	timed   bool        // whether there are any but the beginning of time
	terms   *policy.Market
}

// everyOrder is more than any policy here asks for, and doomsday after all that happens.
const everyOrder = math.MaxInt32

func timeZero() time.Time { return time.Unix(0, 0).UTC() }
func doomsday() time.Time { return time.Date(2261, 12, 31, 23, 59, 59, 999_999_999, time.UTC) }

func (r rule) limit() int64 { return r.ceiling(doomsday(), everyOrder) }

// releases returns the levels that fall due by themselves, and when: those that the ceiling takes in the
// course of time, with these orders in.
func (r rule) releases(until time.Time, orders int64) (due []paperStep) {
	top := int64(0)
	for _, at := range r.turns {
		if e := r.ceiling(at, orders); r.timed && !at.After(until) && e > top {
			due, top = append(due, paperStep{e: e, at: at}), e
		}
	}
	return due
}

// turnsOf returns the instants after one and up to another at which a rising ceiling rises.
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

// constantly is the ceiling that depends neither on time nor on orders.
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

// curveRule is a policy whose transcendental ceiling is left to package policy, and its tests.
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

// priceOf is what holding a level costs: on straight lines between the points, from (0, 0) unless there
// is a point at 0, rounded up; at least the floor.
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

// On the scale of the games a milli-nat is the unit and an hour a long time.
func milli(n int64) int64              { return n * 1_000_000 }
func milliNat(n int64) privacy.Epsilon { return epsilonOf(milli(n)) }
func atHour(n int) time.Time           { return ledgertest.Begin().Add(time.Duration(n) * time.Hour) }
func pricePoint(e, amount int64) policy.Price {
	return policy.Price{Epsilon: milliNat(e), Amount: amount}
}
func plainPrices() []policy.Price { return []policy.Price{pricePoint(500, 100), pricePoint(1000, 180)} }

// allRules are all policies that the games know, by number. Reading their turns takes a while.
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

// mechanisms are those of the games' questions, by their number of values: pairs of values at ε=0.1, and single ones at
// 0.3, 0.5 and 1. To find their channels takes a while.
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
