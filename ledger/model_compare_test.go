package ledger

import (
	"slices"

	"github.com/sluicedp/sluice/rrchain"
)

// The state of the ledger against that of the paper.

func (g *game) compareStats() {
	g.Helper()
	got := stats(g, g.ledger)
	want := Stats{Objects: uint64(len(g.paper.people)), Questions: uint64(len(g.paper.questions)), Events: uint64(len(g.paper.log)), Buyers: uint64(len(g.paper.buyers)), Currency: "EUR", Bytes: got.Bytes}
	for _, p := range g.paper.people {
		want.Chains += uint64(len(p.chains))
	}
	for _, b := range g.paper.buyers {
		want.Sales += b.Sales
		want.Revenue += b.Paid
	}
	g.same("the sum of all", got, want)
}

func (g *game) compareState() {
	g.compareObjects()
	buyers, err := g.ledger.Buyers(g.Context())
	must(g, err)
	g.same("the list of buyers", buyers, g.paper.buyers)
	for _, buyer := range []string{"", "acme", "bolt", "cryo", "zoe"} {
		g.compareDeals(buyer)
	}
}

func (g *game) compareObjects() {
	g.Helper()
	for name := range g.paper.people {
		got := objectOf(g, g.ledger, name)
		for _, c := range got.Chains {
			for _, at := range c.Levels {
				g.see(c.Question, name, at.Epsilon.Nano(), at.Response)
			}
		}
		g.same("the object", got, g.paper.object(name))
	}
}

// object is what the paper knows of one.
func (m *paper) object(name string) ObjectState {
	p := m.people[name]
	held := m.held(p, name, "", 0).all
	out := ObjectState{
		Object: name, Cap: epsilonOf(p.cap), Spent: epsilonOf(p.spent), Held: epsilonOf(held), Remaining: epsilonOf(max(0, p.cap-p.spent-held)),
		Earned: p.earned, Forgotten: uint64(p.forgotten), Currency: "EUR",
	}
	for _, q := range m.questions {
		c := p.chains[q.Name]
		if c == nil {
			continue
		}
		state := ChainState{Question: q.Name, Withdrawn: c.withdrawn, Orders: uint64(c.orders), Epsilon: epsilonOf(c.current()), Answered: epsilonOf(c.answered), Ceiling: out.Cap}
		if !c.rule.policy.IsZero() {
			state.Policy, state.Ceiling = &c.rule.policy, epsilonOf(c.rule.ceiling(m.clock, c.orders))
		}
		for _, e := range sortedKeys(c.levels) {
			l := c.levels[e]
			state.Response = l.response
			state.Levels = append(state.Levels, LevelState{epsilonOf(e), l.response, uint64(l.event), l.holders})
		}
		out.Chains = append(out.Chains, state)
	}
	return out
}

func (g *game) compareResponses(question string, e int64) {
	g.Helper()
	var got, want []Response
	for r, err := range g.ledger.Responses(g.Context(), question, epsilonOf(e)) {
		must(g, err)
		g.see(question, r.Object, e, r.Value)
		got = append(got, r)
	}
	for _, name := range sortedKeys(g.paper.people) {
		if c := g.paper.chain(question, name); c != nil && c.levels[e] != nil {
			want = append(want, Response{name, question, epsilonOf(e), c.levels[e].response, uint64(c.levels[e].event)})
		}
	}
	g.same("the list of responses", got, want)
}

func (g *game) compareDeals(buyer string) {
	var sales, wantSales []Sale
	var held, wantHeld []Reservation
	for s, err := range g.ledger.Sales(g.Context(), buyer) {
		must(g, err)
		sales = append(sales, s)
	}
	for r, err := range g.ledger.Reservations(g.Context(), buyer) {
		must(g, err)
		held = append(held, r)
	}
	for _, d := range g.paper.deals {
		switch {
		case buyer != "" && d.Buyer != buyer:
		case d.status == saleSold:
			wantSales = append(wantSales, d.sale)
			g.compareDeliveries(d)
		case d.holds(g.paper.now()):
			wantHeld = append(wantHeld, d.granted)
		}
	}
	g.same("the list of sales", sales, wantSales)
	g.same("the list of reservations", held, wantHeld)
}

func (g *game) compareDeliveries(d *paperDeal) {
	var got, want []Delivery
	for one, err := range g.ledger.Deliveries(g.Context(), d.sale.Number) {
		must(g, err)
		if !one.Erased {
			g.see(one.Question, one.Object, one.Epsilon.Nano(), one.Value)
		}
		got = append(got, one)
	}
	for _, one := range d.deliveries {
		if !one.Erased {
			one.Value = g.paper.chain(one.Question, one.Object).levels[one.Epsilon.Nano()].response
		}
		want = append(want, one)
	}
	g.same("the list of deliveries", got, want)
}

// compareLog holds the log against the paper, and the stored state against the log.
func (g *game) compareLog() {
	log := events(g, g.ledger)
	if len(log) != len(g.paper.log) {
		g.Fatalf("%d events, want %d", len(log), len(g.paper.log))
	}
	for i, ev := range log {
		if got, want := (entry{ev.Kind, ev.Object, ev.Time, ev.Erased}), g.paper.log[i]; got != want || ev.Number != uint64(i)+1 {
			g.Fatalf("event %d is %v as number %d, want %v", i+1, got, ev.Number, want)
		}
	}
	audit(g, g.store)
	auditMarket(g, g.ledger)
}

// counts are the responses to be counted by an estimate, by rising ε.
func (m *paper) counts(q Question, e int64, but string) (all []rrchain.Counts) {
	byLevel := map[int64][]int64{}
	for name := range m.people {
		c := m.chain(q.Name, name)
		if c == nil || name == but {
			continue
		}
		at := e
		if at == 0 {
			at = c.current()
		}
		l := c.levels[at]
		if l == nil {
			continue
		}
		if byLevel[at] == nil {
			byLevel[at] = make([]int64, len(q.Values))
		}
		byLevel[at][slices.Index(q.Values, l.response)]++
	}
	for _, at := range sortedKeys(byLevel) {
		all = append(all, rrchain.Counts{Epsilon: epsilonOf(at), ByValue: byLevel[at]})
	}
	return all
}
