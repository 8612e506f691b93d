package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// plain is a market with no terms beyond a price of 100 for ε = 1.
func plain() Market { return Market{Max: eps("1"), Prices: []Price{{eps("1"), 100}}} }

func with(change func(*Market)) (Policy, error) {
	m := plain()
	change(&m)
	return Sell(m)
}

func TestSell(t *testing.T) {
	p := made(t)(with(func(m *Market) { m.From, m.Until = at(0), at(time.Hour) }))
	for _, when := range []time.Time{{}, at(-1), at(0), at(time.Hour)} {
		if p.Ceiling(when, 0) != eps("1") {
			t.Errorf("the ceiling is %v at %v; it must not depend on the window", p.Ceiling(when, 0), when)
		}
	}
	if p.Limit() != eps("1") || p.Releases(at(time.Hour), all) != nil || p.Terms().Max() != eps("1") {
		t.Error("wrong limit, maximum or releases")
	}
}

func TestOffers(t *testing.T) {
	free, strided := made(t)(Sell(plain())).Terms(), made(t)(with(func(m *Market) { m.Stride = eps("0.3") })).Terms()
	for level, want := range map[string][2]bool{
		"0": {false, false}, "1e-9": {true, false}, "0.3": {true, true}, "0.9": {true, true}, "0.900000001": {true, false},
		"1": {true, false}, "1.000000001": {false, false}, "1.2": {false, false}, "1000": {false, false},
	} {
		if got := [2]bool{free.Offers(eps(level)), strided.Offers(eps(level))}; got != want {
			t.Errorf("offers %s: %v, want %v", level, got, want)
		}
	}
}

func TestAllows(t *testing.T) {
	everybody := made(t)(Sell(plain())).Terms()
	some := made(t)(with(func(m *Market) { m.Buyers = []string{"zeta", "acme"} })).Terms()
	others := made(t)(with(func(m *Market) { m.Barred = []string{"zeta", "acme"} })).Terms()
	both := made(t)(with(func(m *Market) { m.Buyers, m.Barred = []string{"acme"}, []string{"zeta"} })).Terms()
	for buyer, want := range map[string][4]bool{
		"acme": {true, true, false, true}, "zeta": {true, true, false, false}, "beta": {true, false, true, false}, "": {true, false, true, false},
	} {
		if got := [4]bool{everybody.Allows(buyer), some.Allows(buyer), others.Allows(buyer), both.Allows(buyer)}; got != want {
			t.Errorf("allows %q: %v, want %v", buyer, got, want)
		}
	}
	if some.Holders() != 0 || made(t)(with(func(m *Market) { m.Holders = maxCount })).Terms().Holders() != maxCount {
		t.Error("wrong number of holders")
	}
}

func TestWindow(t *testing.T) {
	window := func(from, until time.Time) *Terms {
		return made(t)(with(func(m *Market) { m.From, m.Until = from, until })).Terms()
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
			if got[i] != want {
				t.Errorf("%v to %v: %v", c.terms.Opens(), c.terms.Closes(), got)
			}
		}
		if c.terms.Open(never) != c.before || c.terms.Open(time.Unix(1<<40, 0)) != c.after {
			t.Errorf("%v to %v: wrong at the ends of time", c.terms.Opens(), c.terms.Closes())
		}
	}
	bounded := window(at(0).In(time.FixedZone("", 3600)), at(time.Hour))
	if bounded.Opens() != at(0) || bounded.Closes() != at(time.Hour) || !window(never, never).Opens().IsZero() || !window(never, never).Closes().IsZero() {
		t.Errorf("from %v until %v", bounded.Opens(), bounded.Closes())
	}
	epoch := window(time.Unix(0, 0), never) // 1970 is a bound; the zero time is none
	if epoch.Opens().IsZero() || epoch.Open(time.Unix(0, -1)) || !epoch.Open(time.Unix(0, 0)) {
		t.Errorf("opens %v", epoch.Opens())
	}
}

func TestSellRefuses(t *testing.T) {
	for why, change := range map[string]func(*Market){
		"max is 0":             func(m *Market) { m.Max = privacy.Epsilon{} },
		"ends at ε = 1, below": func(m *Market) { m.Max = eps("1.1") },
		"stride is above max":  func(m *Market) { m.Stride = eps("1.1") },
		"floor is -1":          func(m *Market) { m.Floor = -1 },
		"floor is 1000000":     func(m *Market) { m.Floor = maxAmount + 1 },
		"-1 holders":           func(m *Market) { m.Holders = -1 },
		"1000000001 holders":   func(m *Market) { m.Holders = maxCount + 1 },
		"no price":             func(m *Market) { m.Prices = nil },
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
		wantInvalid(t, why)(with(change))
	}
	made(t)(with(func(m *Market) {
		m.Buyers, m.Barred = []string{strings.Repeat("é", 128)}, []string{"日本"}
		m.Floor, m.Stride, m.From, m.Until = maxAmount, eps("1"), time.Unix(0, 0), lastInstant.time()
	}))
}

// What the caller does with the lists afterwards must not matter.
func TestSellCopies(t *testing.T) {
	m := plain()
	m.Buyers = []string{"b", "a"}
	p := made(t)(Sell(m))
	text := p.String()
	m.Prices[0].Amount, m.Buyers[0] = 1, "x"
	if p.Terms().Price(eps("1")) != 100 || !p.Terms().Allows("b") || p.Terms().Allows("x") || p.String() != text {
		t.Errorf("the caller of Sell could change the policy")
	}
}
