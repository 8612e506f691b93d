package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

func TestUnlock_EachBuyer_UnlocksItsShare(t *testing.T) {
	p := must(t)(Unlock(eps("1"), 3))
	for orders, want := range map[uint64]string{0: "0", 1: "0.333333333", 2: "0.666666666", 3: "1", 4: "1", all: "1"} {
		for _, when := range []time.Time{{}, at(0), lastInstant.time()} {
			got := p.Ceiling(when, orders)
			check.That(t, got == eps(want), "after %d orders: %v, want %v", orders, got, want)
		}
	}
	check.That(t, p.Limit() == eps("1") && p.Releases(lastInstant.time(), all) == nil && p.Terms() == nil,
		"wrong limit, releases or terms")
	huge := must(t)(Unlock(privacy.MaxEpsilon(), maxCount))
	check.Equal(t, huge.Ceiling(at(0), maxCount-1).Nano(), privacy.MaxEpsilon().Nano()-1000, "one order from the end")
	wantInvalid(t, "total is 0")(Unlock(eps("0"), 3))
	wantInvalid(t, "orders")(Unlock(eps("1"), 0))
	wantInvalid(t, "orders")(Unlock(eps("1"), -3))
	wantInvalid(t, "orders")(Unlock(eps("1"), maxCount+1))
}

func TestMinAndSum_JoinCeilingsOfParts(t *testing.T) {
	do := must(t)
	rising := do(Steps(Step{at(0), eps("0.5")}, Step{at(2), eps("2")}, Step{at(4), eps("3")}))
	opening := do(Unlock(eps("2"), 2))
	least, total := do(Min(rising, opening)), do(Sum(rising, opening, Fixed(eps("0.1"))))
	for _, c := range []struct {
		when       time.Time
		orders     uint64
		least, sum string
	}{
		{time.Time{}, all, "0", "2.1"}, {at(0), 0, "0", "0.6"}, {at(0), 1, "0.5", "1.6"}, {at(2), 1, "1", "3.1"}, {at(4), 1, "1", "4.1"}, {at(4), 2, "2", "5.1"},
	} {
		got := least.Ceiling(c.when, c.orders)
		check.That(t, got == eps(c.least), "min at %v after %d: %v, want %v", c.when, c.orders, got, c.least)
		if got := total.Ceiling(c.when, c.orders); got != eps(c.sum) {
			t.Errorf("sum at %v after %d: %v, want %v", c.when, c.orders, got, c.sum)
		}
	}
	check.That(t, least.Limit() == eps("2") && total.Limit() == eps("5.1"),
		"limits %v, %v", least.Limit(), total.Limit())
	// The third step lifts the sum, not the minimum; what the sum has from the start counts.
	got := levelsOf(least.Releases(at(4), all))
	check.That(t, slices.Equal(got, []privacy.Epsilon{eps("0.5"), eps("2")}), "min releases %v", got)
	if got := levelsOf(total.Releases(at(2), all)); !slices.Equal(got, []privacy.Epsilon{eps("2.1"), eps("2.6"), eps("4.1")}) {
		t.Errorf("sum releases %v", got)
	}
	got = levelsOf(do(Min(opening, Fixed(eps("1")))).Releases(at(4), all))
	check.That(t, got == nil, "without time it releases %v", got)
}

func TestCompose_InvalidParts_AreRefused(t *testing.T) {
	one := Fixed(eps("1"))
	wantInvalid(t, "1 to 16")(Min())
	wantInvalid(t, "1 to 16")(Sum(slices.Repeat([]Policy{one}, 17)...))
	wantInvalid(t, "part 2 is the zero value")(Min(one, Policy{}))
	wantInvalid(t, "more than 1000")(Sum(Fixed(privacy.MaxEpsilon()), Fixed(nanos(1))))
	p := must(t)(Sum(Fixed(nanos(privacy.MaxEpsilon().Nano()-1)), Fixed(nanos(1))))
	check.That(t, p.Limit() == privacy.MaxEpsilon(), "limit %v", p.Limit())
	deep := one
	for range maxDepth - 1 {
		deep = must(t)(Min(deep))
	}
	wantInvalid(t, "nest deeper")(Min(deep))
	wantInvalid(t, "nest deeper")(Min(one, deep, one))
	wide := must(t)(Min(slices.Repeat([]Policy{one}, 15)...))
	must(t)(Min(slices.Repeat([]Policy{wide}, 15)...))
	wantInvalid(t, "256 policies")(Min(slices.Repeat([]Policy{wide}, 16)...))
	// The limits that count are those reached, not the numbers in the parameters.
	slow := must(t)(NoisySampling(eps("900"), eps("1"), at(0), 1, 1))
	must(t)(Sum(slow, Fixed(eps("999"))))
}

func TestMin_WithMarket_HasItsTerms(t *testing.T) {
	do := must(t)
	sale := do(Market{Max: eps("2"), Prices: []Price{{eps("2"), 10}}}.Policy())
	p := do(Min(do(Steps(Step{at(0), eps("1")})), do(Min(sale))))
	check.That(t, p.Terms() != nil && p.Terms().Max() == eps("2") && p.Terms().Price(eps("1")) == 5 &&
		p.Limit() == eps("1"), "%v: terms %v", p, p.Terms())
	wantInvalid(t, "part 2: it is a second market")(Min(sale, p))
	wantInvalid(t, "cannot be part of a sum")(Sum(p))
}
