package policy

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
)

// levelsOf returns the levels of steps, or nil for nil.
func levelsOf(steps []Step) []privacy.Epsilon {
	if steps == nil {
		return nil
	}
	levels := make([]privacy.Epsilon, len(steps))
	for i, s := range steps {
		levels[i] = s.Ceiling
	}
	return levels
}

// checkPolicy checks the properties that every policy has, at and around each of its steps.
func checkPolicy(t *testing.T, p Policy) {
	t.Helper()
	for _, orders := range []uint64{0, 1, 4, all} {
		checkReleases(t, p, orders)
	}
	for _, x := range leafInstants(p.node) {
		for _, when := range []time.Time{x.time().Add(-1), x.time(), x.time().Add(1)} {
			checkOrders(t, p, when)
		}
	}
	if end := p.Ceiling(lastInstant.time(), all); end != p.Limit() || p.Ceiling(time.Unix(1<<40, 0), all) != end {
		t.Fatalf("%v: limit %v, but the ceiling at last is %v", p, p.Limit(), end)
	}
}

// checkReleases checks that the released levels after some orders are the values that the ceiling
// takes, each from its instant on.
func checkReleases(t *testing.T, p Policy, orders uint64) {
	t.Helper()
	before, now := privacy.Epsilon{}, p.Ceiling(time.Time{}, orders)
	var levels []privacy.Epsilon
	if !now.IsZero() {
		levels = append(levels, now)
	}
	for _, x := range leafInstants(p.node) {
		for _, when := range []time.Time{x.time().Add(-1), x.time(), x.time().Add(1)} {
			before, now = now, p.Ceiling(when, orders)
			check.Need(t, !now.Less(before), "%v: falls from %v to %v at %v", p, before, now, when)
			if before.Less(now) {
				levels = append(levels, now)
			}
			released := p.Releases(when, orders)
			if timed := p.node.isTimed; timed && !slices.Equal(levelsOf(released), levels) || !timed && released != nil {
				t.Fatalf("%v: at %v, after %d orders, it releases %v; its ceiling went through %v", p, when, orders, released, levels)
			}
		}
	}
	for _, s := range p.Releases(lastInstant.time(), orders) {
		if p.Ceiling(s.At, orders) != s.Ceiling || !s.At.IsZero() && !p.Ceiling(s.At.Add(-1), orders).Less(s.Ceiling) {
			t.Fatalf("%v: after %d orders, ε=%v is not released at %v", p, orders, s.Ceiling, s.At)
		}
	}
	check.Need(t, len(levels) <= maxSteps, "%v: %d levels", p, len(levels))
	checkReaches(t, p, orders, levels)
}

// checkReaches checks Reaches for each level that the ceiling takes and for the levels a nano-nat
// beside it. It also checks that Rises returns the instants of these levels.
func checkReaches(t *testing.T, p Policy, orders uint64, levels []privacy.Epsilon) {
	t.Helper()
	for _, level := range levels {
		for _, nano := range []int64{level.Nano() - 1, level.Nano(), level.Nano() + 1} {
			if nano > privacy.MaxEpsilon().Nano() {
				continue
			}
			since, ever := p.Reaches(nanos(nano), orders)
			if !ever {
				if end := p.Ceiling(lastInstant.time(), orders); nano <= end.Nano() {
					t.Fatalf("%v: after %d orders it never reaches %d nano-nats, and its ceiling becomes %v", p, orders, nano, end)
				}
				continue
			}
			if p.Ceiling(since, orders).Nano() < nano || !since.IsZero() && p.Ceiling(since.Add(-1), orders).Nano() >= nano {
				t.Fatalf("%v: after %d orders it reaches %d nano-nats at %v, where its ceiling is %v", p, orders, nano, since, p.Ceiling(since, orders))
			}
		}
	}
	var seen []privacy.Epsilon
	if first := p.Ceiling(time.Time{}, orders); !first.IsZero() {
		seen = append(seen, first)
	}
	for at, more := p.Rises(time.Time{}, orders); more; at, more = p.Rises(at, orders) {
		check.Need(t, p.Ceiling(at.Add(-1), orders).Less(p.Ceiling(at, orders)), "%v: it does not rise at %v", p, at)
		seen = append(seen, p.Ceiling(at, orders))
	}
	check.Need(t, slices.Equal(seen, levels),
		"%v: after %d orders it rises through %v, and its ceiling goes through %v", p, orders, seen, levels)
}

// checkOrders checks that the ceiling never falls as orders are added, up to its value after all
// orders.
func checkOrders(t *testing.T, p Policy, when time.Time) {
	t.Helper()
	before := privacy.Epsilon{}
	for _, orders := range []uint64{0, 1, 2, 3, 5, 8, 100, 999_999_999, 1_000_000_000, 1 << 32, all} {
		now := p.Ceiling(when, orders)
		check.Need(t, !now.Less(before), "%v at %v: falls from %v to %v at %d orders", p, when, before, now, orders)
		check.Need(t, orders < maxCount || now == p.Ceiling(when, all),
			"%v at %v: not all unlocked by %d orders", p, when, orders)
		before = now
	}
}

// leafInstants returns the instants at which a leaf of a policy rises, in ascending order.
func leafInstants(n *node) []instant {
	var found []instant
	if whole, ok := n.rule.(combined); ok {
		for _, part := range whole.of {
			found = append(found, leafInstants(part)...)
		}
	} else {
		for _, s := range n.line() {
			found = append(found, max(s.at, 0))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// generator generates random policies from few distinct numbers, so that ties are likely.
type generator struct {
	*testing.T
	*rand.Rand
}

func newGenerator(t *testing.T) generator { return generator{t, rand.New(rand.NewPCG(20, 27))} }

func (g generator) eps(most int) privacy.Epsilon {
	return nanos(int64(1+g.IntN(most)) * []int64{1, 1_000_003, 250_000_000}[g.IntN(3)])
}

func (g generator) time() time.Time { return at(time.Duration(g.IntN(20)) * time.Hour / 7) }

func (g generator) length() time.Duration { return time.Duration(1 + g.Int64N(int64(100*time.Hour))) }

func (g generator) leaf() Policy {
	do := must(g.T)
	switch g.IntN(6) {
	case 0:
		return Fixed(g.eps(12))
	case 1:
		from := g.eps(6)
		start := g.time()
		return do(Linear(from, nanos(from.Nano()*2+1), start, start.Add(g.length()), nanos(1+from.Nano()/int64(1+g.IntN(9)))))
	case 2:
		first, start := g.eps(5), g.time()
		return do(Steps(Step{start, first}, Step{start.Add(g.length()), nanos(first.Nano() + 7)}))
	case 3:
		from := g.eps(6)
		return do(Halving(from, nanos(from.Nano()*3), g.time(), g.length(), nanos(1+from.Nano()/int64(1+g.IntN(9)))))
	case 4:
		return do(NoisySampling(g.eps(5), g.eps(3), g.time(), g.length(), 1+g.IntN(10)))
	}
	return do(Unlock(g.eps(12), 1+g.IntN(6)))
}

func (g generator) policy(depth int) Policy {
	if depth == 0 || g.IntN(4) == 0 {
		return g.leaf()
	}
	var parts []Policy
	for range 1 + g.IntN(4) {
		parts = append(parts, g.policy(depth-1))
	}
	if g.IntN(2) == 0 {
		return must(g.T)(Sum(parts...))
	}
	if g.IntN(3) == 0 && !slices.ContainsFunc(parts, func(p Policy) bool { return p.Terms() != nil }) && depth == 3 {
		parts = append(parts, must(g.T)(Market{Max: g.eps(9), Prices: []Price{{privacy.MaxEpsilon(), 5}}}.Policy()))
	}
	return must(g.T)(Min(parts...))
}

func TestPolicy_Random_KeepsAllProperties(t *testing.T) {
	g := newGenerator(t)
	var timed, ordered, forSale int
	for range testenv.Tries(260, 400, 400) {
		p := g.policy(3)
		checkPolicy(t, p)
		again := parsed(t, p.String())
		if again.String() != p.String() || !slices.Equal(levelsOf(again.Releases(at(1e6*time.Hour), all)), levelsOf(p.Releases(at(1e6*time.Hour), all))) {
			t.Fatalf("%v reads back as %v", p, again)
		}
		for range 10 {
			when, orders := g.time(), uint64(g.IntN(8))
			if want := definedCeiling(p.node, instantOf(when), orders); p.Ceiling(when, orders).Nano() != want || again.Ceiling(when, orders).Nano() != want {
				t.Fatalf("%v at %v after %d: ceiling %v, want %d by its parts", p, when, orders, p.Ceiling(when, orders), want)
			}
		}
		timed, ordered, forSale = timed+count(p.node.isTimed), ordered+count(p.node.hasOrders), forSale+count(p.Terms() != nil)
	}
	check.That(t, min(timed, ordered, forSale) >= 30,
		"too few of some sort: %d timed, %d ordered, %d for sale", timed, ordered, forSale)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// definedCeiling returns a policy's ceiling by the definition, from the ceilings of its leaves.
func definedCeiling(n *node, x instant, orders uint64) int64 {
	switch r := n.rule.(type) {
	case combined:
		var sum int64
		least := int64(privacy.MaxEpsilon().Nano())
		for _, part := range r.of {
			one := definedCeiling(part, x, orders)
			sum, least = sum+one, min(least, one)
		}
		if r.name == "sum" {
			return sum
		}
		return least
	case unlock:
		return r.total.Nano() * min(int64(orders), r.orders) / r.orders
	}
	var ceiling int64
	for _, s := range n.line() {
		if s.at <= x {
			ceiling = s.ceiling.Nano()
		}
	}
	return ceiling
}

func TestPolicy_Reads_DoNotAllocate(t *testing.T) {
	p := parsed(t, `{"kind":"min","of":[{"kind":"market","max":"1","price":[["0.5",100],["1",180]],"buyers":["a","b"],"from":"2027-01-01T00:00:00Z"},`+
		`{"kind":"sum","of":[`+canonicalForms[3]+`,`+anUnlock+`]},`+canonicalForms[4]+`]}`)
	when, level, half := at(time.Hour), eps("0.7"), eps("0.5")
	var sink int64
	allocs := testing.AllocsPerRun(100, func() {
		terms := p.Terms()
		sink += p.Ceiling(when, 3).Nano() + p.Limit().Nano() + terms.Price(level) + terms.Upgrade(half, level, 7) + terms.Max().Nano()
		sink += int64(count(terms.Offers(level)) + count(terms.Allows("b")) + count(terms.Open(when)) + terms.Holders())
		sink += terms.Opens().Unix() + terms.Closes().Unix()
	})
	check.That(t, allocs == 0, "%v allocations", allocs)
	_ = sink
}
