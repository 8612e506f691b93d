package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// plainMarket sells up to ε = 1 for a price of 100, with no other terms.
func plainMarket() Market { return Market{Max: eps("1"), Prices: []Price{{eps("1"), 100}}} }

func marketWith(change func(*Market)) (Policy, error) {
	m := plainMarket()
	change(&m)
	return m.Policy()
}

func TestMarket_Window_DoesNotChangeTheCeiling(t *testing.T) {
	p := must(t)(marketWith(func(m *Market) { m.From, m.Until = at(0), at(time.Hour) }))
	for _, when := range []time.Time{{}, at(-1), at(0), at(time.Hour)} {
		check.That(t, p.Ceiling(when, 0) == eps("1"),
			"the ceiling is %v at %v; it must not depend on the window", p.Ceiling(when, 0), when)
	}
	check.That(t, p.Limit() == eps("1") && p.Releases(at(time.Hour), all) == nil && p.Terms().Max() == eps("1"),
		"wrong limit, maximum or releases")
}

func TestHighestOffer_ReturnsHighestLevelUpToGiven(t *testing.T) {
	terms := func(change func(*Market)) *Terms { return must(t)(marketWith(change)).Terms() }
	kinds := []*Terms{
		terms(func(*Market) {}),
		terms(func(m *Market) { m.Stride = eps("0.3") }),
		terms(func(m *Market) { m.Levels = []privacy.Epsilon{eps("0.3"), eps("0.35"), eps("0.9")} }),
	}
	// The key is a level, and the values are the highest levels on offer up to it.
	for level, want := range map[string][]string{
		"0": {"0", "0", "0"}, "1e-9": {"1e-9", "0", "0"}, "0.3": {"0.3", "0.3", "0.3"}, "0.349999999": {"0.349999999", "0.3", "0.3"},
		"0.35": {"0.35", "0.3", "0.35"}, "0.9": {"0.9", "0.9", "0.9"}, "0.900000001": {"0.900000001", "0.9", "0.9"},
		"1": {"1", "0.9", "0.9"}, "1.000000001": {"1", "0.9", "0.9"}, "1.2": {"1", "0.9", "0.9"}, "1000": {"1", "0.9", "0.9"},
	} {
		for i, offer := range kinds {
			if got := offer.HighestOffer(eps(level)); got != eps(want[i]) || offer.Offers(eps(level)) != (want[i] == level && level != "0") {
				t.Errorf("%d: up to %s, %v is the highest on offer; on offer itself: %v", i, level, got, offer.Offers(eps(level)))
			}
		}
	}
}

// Without a stride or levels, one more buyer could buy a level a nano-nat away, with the same
// information.
func TestMarket_HoldersWithoutLevels_IsRefused(t *testing.T) {
	wantInvalid(t, "holders needs a stride or levels")(marketWith(func(m *Market) { m.Holders = 1 }))
	wantInvalid(t, "holders needs a stride or levels")(Parse([]byte(`{"kind":"market","max":"1","price":[["1",1]],"holders":1}`)))
	for _, offer := range []func(*Market){
		func(m *Market) { m.Stride = eps("0.5") }, func(m *Market) { m.Levels = []privacy.Epsilon{eps("0.5")} },
	} {
		p := must(t)(marketWith(func(m *Market) { m.Holders = 1; offer(m) }))
		again := must(t)(Parse([]byte(p.String())))
		check.That(t, again.Equal(p) && again.Terms().Holders() == 1, "%v came back as %v", p, again)
	}
}

func TestAllows_ListedAndBarredBuyers(t *testing.T) {
	open := must(t)(plainMarket().Policy()).Terms()
	some := must(t)(marketWith(func(m *Market) { m.Buyers = []string{"zeta", "acme"} })).Terms()
	others := must(t)(marketWith(func(m *Market) { m.Barred = []string{"zeta", "acme"} })).Terms()
	both := must(t)(marketWith(func(m *Market) { m.Buyers, m.Barred = []string{"acme"}, []string{"zeta"} })).Terms()
	for buyer, want := range map[string][4]bool{
		"acme": {true, true, false, true}, "zeta": {true, true, false, false}, "beta": {true, false, true, false}, "": {true, false, true, false},
	} {
		got := [4]bool{open.Allows(buyer), some.Allows(buyer), others.Allows(buyer), both.Allows(buyer)}
		check.That(t, got == want, "allows %q: %v, want %v", buyer, got, want)
	}
	if some.Holders() != 0 || must(t)(marketWith(func(m *Market) { m.Holders, m.Stride = maxCount, eps("1") })).Terms().Holders() != maxCount {
		t.Error("wrong number of holders")
	}
}

func TestOpen_OnlyInsideTheWindow(t *testing.T) {
	window := func(from, until time.Time) *Terms {
		return must(t)(marketWith(func(m *Market) { m.From, m.Until = from, until })).Terms()
	}
	var never time.Time
	for _, c := range []struct {
		terms                      *Terms
		before, first, last, after bool // just before at(0), then, just before at(1h), then
	}{
		{window(never, never), true, true, true, true},
		{window(at(0), never), false, true, true, true},
		{window(never, at(time.Hour)), true, true, true, false},
		{window(at(0), at(time.Hour)), false, true, true, false},
	} {
		got := []bool{c.terms.Open(at(-1)), c.terms.Open(at(0)), c.terms.Open(at(time.Hour - 1)), c.terms.Open(at(time.Hour))}
		for i, want := range []bool{c.before, c.first, c.last, c.after} {
			check.That(t, got[i] == want, "%v to %v: %v", c.terms.Opens(), c.terms.Closes(), got)
		}
		check.That(t, c.terms.Open(never) == c.before && c.terms.Open(time.Unix(1<<40, 0)) == c.after,
			"%v to %v: wrong at the ends of time", c.terms.Opens(), c.terms.Closes())
	}
	bounded := window(at(0).In(time.FixedZone("", 3600)), at(time.Hour))
	if bounded.Opens() != at(0) || bounded.Closes() != at(time.Hour) || !window(never, never).Opens().IsZero() || !window(never, never).Closes().IsZero() {
		t.Errorf("from %v until %v", bounded.Opens(), bounded.Closes())
	}
	epoch := window(time.Unix(0, 0), never) // 1970 is a bound; the zero time is none
	check.That(t, !epoch.Opens().IsZero() && !epoch.Open(time.Unix(0, -1)) && epoch.Open(time.Unix(0, 0)),
		"opens %v", epoch.Opens())
}

func TestMarket_InvalidTerms_AreRefused(t *testing.T) {
	for why, change := range map[string]func(*Market){
		"max is 0":             func(m *Market) { m.Max = privacy.Epsilon{} },
		"ends at ε = 1, below": func(m *Market) { m.Max = eps("1.1") },
		"stride is above max":  func(m *Market) { m.Stride = eps("1.1") },
		"a stride and levels":  func(m *Market) { m.Stride, m.Levels = eps("1"), []privacy.Epsilon{eps("1")} },
		"level 2: ε does not":  func(m *Market) { m.Levels = []privacy.Epsilon{eps("0.5"), eps("0.5")} },
		"level 1: ε does not":  func(m *Market) { m.Levels = []privacy.Epsilon{{}} },
		"level 2: ε is 1.1":    func(m *Market) { m.Levels = []privacy.Epsilon{eps("1"), eps("1.1")} },
		"floor is -1":          func(m *Market) { m.Floor = -1 },
		"floor is 1000000":     func(m *Market) { m.Floor = maxAmount + 1 },
		"-1 holders":           func(m *Market) { m.Holders = -1 },
		"1000000001 holders":   func(m *Market) { m.Holders = maxCount + 1 },
		"price curve is empty": func(m *Market) { m.Prices = nil },
		"amount is -1":         func(m *Market) { m.Prices[0].Amount = -1 },
		"price falls":          func(m *Market) { m.Prices = append(m.Prices, Price{eps("2"), 99}) },
		"is empty":             func(m *Market) { m.Buyers = []string{""} },
		"not UTF-8":            func(m *Market) { m.Barred = []string{"\xff"} },
		"control":              func(m *Market) { m.Barred = []string{"a\nb"} },
		"U+FFFD":               func(m *Market) { m.Barred = []string{"\uFFFD"} },
		"256 bytes":            func(m *Market) { m.Buyers = []string{strings.Repeat("x", 257)} },
		"given twice":          func(m *Market) { m.Buyers = []string{"b", "a", "b"} },
		"both":                 func(m *Market) { m.Buyers, m.Barred = []string{"a", "b"}, []string{"b"} },
		"from is not":          func(m *Market) { m.From = time.Unix(0, -1) },
		"until is not":         func(m *Market) { m.Until = lastInstant.time().Add(1) },
		"not before until":     func(m *Market) { m.From, m.Until = at(1), at(1) },
		"canonical form": func(m *Market) {
			for i := range 1000 {
				m.Buyers = append(m.Buyers, strings.Repeat("x", 200)+instant(i).String())
			}
		},
	} {
		wantInvalid(t, why)(marketWith(change))
	}
	must(t)(marketWith(func(m *Market) {
		m.Buyers, m.Barred = []string{strings.Repeat("é", 128)}, []string{"日本"}
		m.Floor, m.Stride, m.From, m.Until = maxAmount, eps("1"), time.Unix(0, 0), lastInstant.time()
	}))
}

// The policy must not share the lists of the Market with the caller.
func TestMarket_ListsChangedAfterwards_PolicyUnchanged(t *testing.T) {
	m := plainMarket()
	m.Buyers, m.Levels = []string{"b", "a"}, []privacy.Epsilon{eps("0.5")}
	p := must(t)(m.Policy())
	text := p.String()
	m.Prices[0].Amount, m.Buyers[0], m.Levels[0] = 1, "x", eps("1")
	check.That(t, p.Terms().Price(eps("1")) == 100 && p.Terms().Allows("b") && !p.Terms().Offers(eps("1")) &&
		!p.Terms().Allows("x") && p.String() == text, "the caller of Policy could change the policy")
}

// Repeated calls return all levels in descending order: the listed levels, the multiples of the
// stride, or the points of the price curve.
func TestNextOffer_ListsLevelsDownwards(t *testing.T) {
	prices := []Price{{eps("0"), 5}, {eps("0.5"), 10}, {eps("1"), 20}, {eps("3"), 30}}
	for name, c := range map[string]struct {
		m    Market
		want string
	}{
		"levels":         {Market{Max: eps("2"), Levels: []privacy.Epsilon{eps("0.3"), eps("0.7"), eps("2")}}, "2 0.7 0.3 0"},
		"stride":         {Market{Max: eps("2"), Stride: eps("0.8")}, "1.6 0.8 0"},
		"price curve":    {Market{Max: eps("2")}, "2 1 0.5 0"},
		"below a point":  {Market{Max: eps("0.4")}, "0.4 0"},
		"at a point":     {Market{Max: eps("3")}, "3 1 0.5 0"},
		"a single price": {Market{Max: eps("0.5"), Floor: 7}, "0.5 0"},
	} {
		c.m.Prices = prices
		sale := must(t)(c.m.Policy()).Terms()
		var got []string
		for level := sale.NextOffer(eps("1000")); ; level = sale.NextOffer(level) {
			if got = append(got, level.String()); level.IsZero() {
				break
			}
		}
		check.Equal(t, strings.Join(got, " "), c.want, "%s", name)
		for _, level := range got { // they are the levels that the terms list, without 0
			e := eps(level)
			if above := nanos(e.Nano() + 1); sale.Lists(e) == e.IsZero() || sale.Lists(above) {
				t.Errorf("%s: listed are others than %s", name, level)
			}
			check.That(t, e.IsZero() || !sale.Lists(nanos(e.Nano()-1)), "%s: a level below %s is listed", name, level)
		}
	}
}
