package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
)

// higher returns whether the ceiling of p is above that of q at any instant from `from` on, after 0
// to `buyers` buyers. It tries every instant at which a ceiling may rise.
func higher(p, q Policy, from time.Time, buyers uint64) bool {
	instants := append(leafInstants(p.node), leafInstants(q.node)...)
	for n := range buyers + 1 {
		for _, x := range append(instants, instantOf(from)) {
			if when := x.time(); !when.Before(from) && q.Ceiling(when, n).Less(p.Ceiling(when, n)) {
				return true
			}
		}
	}
	return false
}

// For policies that few buyers unlock, the comparison must find a higher ceiling if and only if
// there is one.
func TestComparison_FewBuyers_FindsEveryHigherCeiling(t *testing.T) {
	g := newGenerator(t)
	not, proven := 0, 0
	tries := testenv.Tries(600, 2000, 20000) / testenv.Step(10)
	for range tries {
		p, q := g.policy(2), g.policy(2)
		switch g.IntN(4) {
		case 0:
			p = must(t)(Min(q, p))
		case 1:
			p, q = must(t)(Min(p, must(t)(Unlock(eps("2"), 3)))), must(t)(Min(p, must(t)(Unlock(eps("2.000000001"), 2))))
		case 2:
			if sum, err := Sum(p, q); err == nil {
				q = sum
			}
		}
		from := g.time()
		c := comparison{from: instantOf(from), left: 16 * maxWork}
		err, want := c.ceilings(p.node, q.node), higher(p, q, from, 7)
		check.Need(t, (err != nil) == want,
			"from %v on, is\n%v higher than\n%v? %v, but the comparison returns %v", from, p, q, want, err)
		not, proven = not+count(want), proven+count(!want)
	}
	check.That(t, min(not, proven) >= tries/20, "%d were higher, %d not", not, proven)
}

func TestAtMost_PolicyAllowsMore_IsReported(t *testing.T) {
	do := must(t)
	unlock := func(total string, orders int) Policy { return do(Unlock(eps(total), orders)) }
	rising := do(Steps(Step{at(0), eps("0.5")}, Step{at(time.Hour), eps("1")}))
	for name, test := range map[string]struct {
		p, q Policy
		from time.Time
		more string // part of the error, or ""
	}{
		"the same": {rising, rising, at(0), ""},
		"a sum whose second part is higher": {
			do(Sum(unlock("1", 2), unlock("2", 3))), do(Sum(unlock("1", 2), unlock("1", 3))), at(0), "its ceiling after",
		},
		"the zero policy allows nothing":        {Policy{}, rising, at(0), ""},
		"where nothing was allowed":             {Fixed(eps("1")), Policy{}, at(0), "ceiling after 0 buyers at 2027-01-01T00:00:00Z is ε=1, above ε=0 before"},
		"nothing where nothing was":             {Fixed(eps("0")), Policy{}, at(0), ""},
		"later":                                 {Fixed(eps("0.5")), rising, at(0), ""},
		"too early":                             {Fixed(eps("0.5")), rising, at(-1), "is ε=0.5, above"},
		"half of the way":                       {Fixed(eps("1")), rising, at(time.Hour - 1), "above ε=0.5 before"},
		"all of the way":                        {Fixed(eps("1")), rising, at(time.Hour), ""},
		"more one day":                          {rising, Fixed(eps("0.9")), at(0), "2027-01-01T01:00:00Z"},
		"before 1970":                           {rising, Fixed(eps("1")), time.Time{}, ""},
		"after 2262":                            {rising, Fixed(eps("0.9")), time.Unix(1<<40, 0), "is ε=1, above"},
		"a billion buyers":                      {unlock("1", 1e9), unlock("1", 1e9-1), at(0), ""},
		"a billion buyers, and one more":        {unlock("1", 1e9-1), unlock("1", 1e9), at(0), "buyers"},
		"a larger whole":                        {unlock("2", 1e9), unlock("1", 10), at(0), "its ceiling after"},
		"less at first, more in the end":        {unlock("2", 1e9), unlock("1", 1e8), at(0), "buyers"},
		"a part of a minimum":                   {do(Min(unlock("1", 1e9), rising)), unlock("1", 1e9), at(0), ""},
		"no part, but the whole":                {do(Min(unlock("1", 2), Fixed(eps("0.75")))), do(Sum(unlock("0.5", 2), unlock("0.5", 1))), at(0), ""},
		"a lower bound on what buyers unlock":   {do(Min(unlock("1", 1e9), Fixed(eps("0.2")))), do(Min(unlock("1", 1e9), Fixed(eps("0.3")))), at(0), ""},
		"all buyers are not enough":             {unlock("1", 1e9), Fixed(eps("1")), at(0), ""},
		"no buyer is needed":                    {Fixed(eps("0.1")), do(Sum(unlock("1", 1e9), Fixed(eps("0.1")))), at(0), ""},
		"the proof is too long":                 {do(Sum(unlock("1", 1e9), unlock("1", 1e9-1))), do(Sum(unlock("1", 1e9-1), unlock("1", 1e9-2), Fixed(eps("0")))), at(0), "too long"},
		"a market where there was none":         {do(marketWith(func(*Market) {})), Fixed(eps("1")), at(0), "was not for sale"},
		"a market that is closed before":        {do(marketWith(func(m *Market) { m.Until = at(0) })), Fixed(eps("1")), at(0), ""},
		"no market any more":                    {Fixed(eps("1")), do(marketWith(func(*Market) {})), at(0), ""},
		"the calendar takes the market's place": {rising, do(Min(rising, do(marketWith(func(*Market) {})))), at(0), "calendar"},
	} {
		err := test.p.AtMost(test.q, test.from)
		if (err == nil) != (test.more == "") || err != nil && (!strings.HasPrefix(err.Error(), "the policy may allow more: ") || !strings.Contains(err.Error(), test.more)) {
			t.Errorf("%s: %v, want %q", name, err, test.more)
		}
	}
}

// Each of a market's terms may become worse for buyers without the person's consent, but not
// better.
func TestAtMost_BetterTermsForBuyers_AreReported(t *testing.T) {
	for name, test := range map[string]struct {
		worse, better func(*Market)
		more          string
	}{
		"max":            {func(m *Market) { m.Max = eps("0.9") }, func(*Market) {}, "is ε=1, above"},
		"price":          {func(m *Market) { m.Prices = []Price{{eps("1"), 101}} }, func(*Market) {}, "costs"},
		"price of some":  {func(m *Market) { m.Prices = []Price{{eps("0.5"), 50}, {eps("1"), 200}} }, func(*Market) {}, "costs"},
		"rounded prices": {func(m *Market) { m.Prices = []Price{{eps("1"), 1}}; m.Stride = eps("0.1") }, func(m *Market) { m.Prices = []Price{{eps("0.95"), 0}, {eps("1"), 1}}; m.Stride = eps("0.1") }, "costs"},
		"floor":          {func(m *Market) { m.Floor = 10 }, func(*Market) {}, "costs"},
		"floor for a curve": {func(m *Market) { m.Floor = 100 }, func(m *Market) {
			m.Prices = []Price{{eps("0.25"), 50}, {eps("1"), 100}}
		}, "costs"},
		"stride":        {func(m *Market) { m.Stride = eps("0.3") }, func(m *Market) { m.Stride = eps("0.1") }, "was not for sale"},
		"fine stride":   {func(m *Market) { m.Stride = eps("0.0003") }, func(m *Market) { m.Stride = eps("0.0001") }, "some of its levels"},
		"any stride":    {func(m *Market) { m.Stride = eps("0.3") }, func(*Market) {}, "some of its levels"},
		"levels":        {func(m *Market) { m.Levels = []privacy.Epsilon{eps("0.3")} }, func(m *Market) { m.Stride = eps("0.1") }, "was not for sale"},
		"some levels":   {func(m *Market) { m.Stride = eps("0.5") }, func(m *Market) { m.Levels = []privacy.Epsilon{eps("0.3"), eps("0.5"), eps("1")} }, "was not for sale"},
		"many levels":   {func(m *Market) { m.Levels = []privacy.Epsilon{eps("0.3")} }, func(*Market) {}, "some of its levels"},
		"buyers":        {func(m *Market) { m.Buyers = []string{"a"} }, func(m *Market) { m.Buyers = []string{"a", "b"} }, `"b"`},
		"all buyers":    {func(m *Market) { m.Buyers = []string{"a"} }, func(*Market) {}, "open to all"},
		"barred":        {func(m *Market) { m.Barred = []string{"a", "b"} }, func(m *Market) { m.Barred = []string{"b"} }, `"a" was barred`},
		"still barred":  {func(m *Market) { m.Buyers = []string{"b"} }, func(m *Market) { m.Barred = []string{"a"} }, "open to all"},
		"opens":         {func(m *Market) { m.From = at(time.Hour) }, func(*Market) {}, "opens before 2027-01-01T01:00:00Z"},
		"closes":        {func(m *Market) { m.Until = at(time.Hour) }, func(*Market) {}, "open after 2027-01-01T01:00:00Z"},
		"closes sooner": {func(m *Market) { m.Until = at(time.Hour) }, func(m *Market) { m.Until = at(time.Hour + 1) }, "open after"},
		"holders": {func(m *Market) { m.Holders, m.Stride = 2, eps("0.5") }, func(m *Market) {
			m.Holders, m.Stride = 3, eps("0.5")
		}, "more than 2 buyers"},
		"any number of holders": {func(m *Market) { m.Holders, m.Stride = 2, eps("0.5") }, func(m *Market) { m.Stride = eps("0.5") }, "more than 2 buyers"},
	} {
		worse, better := must(t)(marketWith(test.worse)), must(t)(marketWith(test.better))
		err := worse.AtMost(better, at(0))
		check.That(t, err == nil, "%s: %v", name, err)
		if err := fmt.Sprint(better.AtMost(worse, at(0))); !strings.HasPrefix(err, "the policy may allow more: ") || !strings.Contains(err, test.more) {
			t.Errorf("%s, the other way round: %v", name, err)
		}
	}
	past := must(t)(marketWith(func(m *Market) { m.From = at(-time.Hour) }))
	check.Equal(t, must(t)(marketWith(func(*Market) {})).AtMost(past, at(0)), nil, "a sale that has opened already")
}

// If AtMost returns nil for two random markets, the first sells nothing that the second does not,
// and nothing for less. If few levels are for sale, the reverse is true too.
func TestAtMost_RandomMarkets_AgreesWithEnumeration(t *testing.T) {
	g := generator{t, rand.New(rand.NewPCG(27, 20))}
	names := []string{"a", "b", "c"}
	some := func() (list []string) {
		for _, name := range names {
			if g.IntN(4) == 0 {
				list = append(list, name)
			}
		}
		return list
	}
	sale := func(stride privacy.Epsilon) Policy {
		m := Market{Max: nanos(int64(6+g.IntN(3)) * 10_000), Floor: int64(g.IntN(2) * g.IntN(30)), Stride: stride}
		price := Price{}
		for price.Epsilon.Less(m.Max) {
			price = Price{nanos(price.Epsilon.Nano() + int64(1+g.IntN(9))*10_007), price.Amount + int64(g.IntN(3)*g.IntN(20))}
			m.Prices = append(m.Prices, price)
		}
		if g.IntN(8) == 0 {
			m.Buyers = some()
		} else if g.IntN(8) == 0 {
			m.Barred = some()
		}
		if g.IntN(4) == 0 {
			m.From = g.time()
		}
		if g.IntN(4) == 0 {
			m.Until = m.From.Add(time.Hour)
			if m.From.IsZero() {
				m.Until = g.time()
			}
		}
		if !stride.IsZero() {
			m.Holders = g.IntN(3)
		}
		return must(t)(m.Policy())
	}
	// better returns whether p sells something that q does not, or for less.
	better := func(p, q *Terms, from time.Time) bool {
		instants := []time.Time{from, at(-1), at(1e6 * time.Hour)}
		for _, x := range []instant{p.opens, q.opens, p.closes, q.closes} {
			if x != unbounded {
				instants = append(instants, x.time())
			}
		}
		open, closed := false, false
		for _, when := range instants {
			if !when.Before(from) && p.Open(when) {
				open, closed = true, closed || !q.Open(when)
			}
		}
		if !open {
			return false
		}
		for level := p.step(); level <= p.max.Nano(); level += p.step() {
			e := nanos(level)
			if p.Offers(e) && (!q.Offers(e) || p.Price(e) < q.Price(e)) {
				return true
			}
		}
		for _, name := range append(names, "unlisted") {
			if p.Allows(name) && !q.Allows(name) {
				return true
			}
		}
		return closed || q.holders != 0 && (p.holders == 0 || p.holders > q.holders)
	}
	proven, more, unknown := 0, 0, 0
	tries := testenv.Tries(700, 3000, 30000) / testenv.Step(10)
	for range tries {
		stride := nanos([]int64{0, 1, 10_000, 20_000}[g.IntN(4)])
		p, q := sale(stride), sale(nanos([]int64{stride.Nano(), 10_000}[g.IntN(2)]))
		if g.IntN(2) == 0 { // every price of p is at least that of q
			dearer := q.node.rule.(market)
			p = must(t)(Market{Max: dearer.max, Prices: raised(g, dearer.curve), Floor: dearer.floor, Stride: dearer.stride, Holders: int(dearer.holders)}.Policy())
		}
		from := g.time()
		err := p.AtMost(q, from)
		is := better(p.Terms(), q.Terms(), from) || higher(p, q, from, 0)
		listed := p.Terms().max.Nano()/p.Terms().step() <= maxListed
		switch {
		case err == nil && is:
			t.Fatalf("from %v on\n%v\nis better than\n%v", from, p, q)
		case err != nil && !is && listed:
			t.Fatalf("from %v on\n%v\nis not better than\n%v, but %v", from, p, q, err)
		case err == nil:
			proven++
		case is:
			more++
		default:
			unknown++
		}
	}
	check.That(t, min(proven, more) >= tries/20 && unknown <= proven,
		"%d proven, %d were more, %d unknown", proven, more, unknown)
}

// raised returns a curve that is at or above the given one at every level, with other slopes.
func raised(g generator, c curve) []Price {
	var points []Price
	more := int64(0)
	for _, p := range c {
		more += int64(g.IntN(2) * g.IntN(5))
		points = append(points, Price{p.Epsilon, p.Amount + more})
	}
	return slices.Clip(points)
}

// Terms with the same prices at the lowest and the highest level, and a lower price between them,
// sell for less.
func TestAtMost_PriceLowerBetweenTheEnds_IsReported(t *testing.T) {
	market := func(prices ...Price) Policy {
		return must(t)(Market{Max: nanos(2_000_000_000), Stride: nanos(1000), Prices: prices}.Policy())
	}
	straight := market(Price{nanos(200_000_000), 100_000}, Price{nanos(2_000_000_000), 1_000_000})
	bent := market(Price{nanos(200_000_000), 100_000}, Price{nanos(1_000_000_000), 900_000}, Price{nanos(2_000_000_000), 1_000_000})
	err := straight.AtMost(bent, time.Time{})
	check.That(t, err != nil, "a lower price between the ends was not reported")
	check.Equal(t, bent.AtMost(straight, time.Time{}), nil, "a price that is nowhere lower")
}
