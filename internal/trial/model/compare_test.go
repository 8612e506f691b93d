package model

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// The state of the ledger against that of the paper.

func (g *game) compareStats() {
	g.Helper()
	got := Stats(g, g.ledger)
	want := api.Stats{Objects: uint64(len(g.paper.people)), Questions: uint64(len(g.paper.questions)), Events: uint64(len(g.paper.log)), Buyers: uint64(len(g.paper.buyers)), Currency: "EUR", Bytes: got.Bytes}
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
	Must(g, err)
	for i := range buyers {
		if buyers[i].Event != uint64(len(g.paper.log)) {
			g.Fatalf("a buyer as of event %d of %d", buyers[i].Event, len(g.paper.log))
		}
		buyers[i].Event = 0
	}
	g.same("the list of buyers", buyers, g.paper.buyers)
	for _, buyer := range []string{"", "acme", "bolt", "cryo", "zoe"} {
		g.compareDeals(buyer)
	}
}

func (g *game) compareObjects() {
	g.Helper()
	for name := range g.paper.people {
		got := ObjectOf(g, g.ledger, name)
		for _, c := range got.Chains {
			for _, at := range c.Levels {
				g.see(c.Question, name, at.Epsilon.Nano(), at.Event, at.Response)
			}
			for _, old := range c.Earlier {
				for _, at := range old.Levels {
					g.see(c.Question, name, at.Epsilon.Nano(), at.Event, at.Response)
				}
			}
		}
		g.same("the object", got, g.paper.object(name))
	}
}

// object is what the paper knows of one.
func (m *paper) object(name string) api.ObjectState {
	p := m.people[name]
	held := m.held(p, wish{object: name}, 0).all
	out := api.ObjectState{
		Object: name, Cap: epsilonOf(p.cap), Spent: epsilonOf(p.spent), Held: epsilonOf(held), Remaining: epsilonOf(max(0, p.cap-p.spent-held)),
		Earned: p.earned, Forgotten: uint64(p.forgotten), Currency: "EUR", Event: uint64(len(m.log)),
	}
	for _, q := range m.questions {
		c := p.chains[q.Name]
		if c == nil {
			continue
		}
		state := api.ChainState{Question: q.Name, Epoch: len(c.earlier) + 1, Withdrawn: c.withdrawn, Buyers: uint64(c.buyers()), Epsilon: epsilonOf(c.current()), Answered: epsilonOf(c.answered), Ceiling: out.Cap}
		if !c.rule.policy.IsZero() {
			state.Policy, state.Ceiling = &c.rule.policy, epsilonOf(c.rule.ceiling(m.clock, c.buyers()))
		}
		if state.Levels = c.levelStates(); len(state.Levels) > 0 {
			state.Response = state.Levels[len(state.Levels)-1].Response
		}
		for i, old := range c.earlier {
			state.Earlier = append(state.Earlier, api.EarlierEpoch{
				Epoch: i + 1, Ended: uint64(c.epochs()[i+1].began), Epsilon: epsilonOf(old.current()), Answered: epsilonOf(old.answered), Levels: old.levelStates(),
			})
		}
		out.Chains = append(out.Chains, state)
	}
	return out
}

func (c *paperChain) levelStates() (all []api.LevelState) {
	for _, e := range SortedKeys(c.levels) {
		l := c.levels[e]
		all = append(all, api.LevelState{Epsilon: epsilonOf(e), Response: l.response, Event: uint64(l.event), Buyers: l.holders, Paid: l.paid})
	}
	return all
}

func (g *game) compareResponses(question string, e int64) {
	g.Helper()
	var got, want []api.Response
	for r, err := range g.ledger.Responses(g.Context(), question, epsilonOf(e)) {
		Must(g, err)
		g.see(question, r.Object, e, r.Event, r.Value)
		got = append(got, r)
	}
	for _, name := range SortedKeys(g.paper.people) {
		if c := g.paper.chain(question, name); c != nil && c.levels[e] != nil {
			want = append(want, api.Response{Object: name, Question: question, Epsilon: epsilonOf(e), Value: c.levels[e].response, Event: uint64(c.levels[e].event)})
		}
	}
	g.same("the list of responses", got, want)
}

func (g *game) compareDeals(buyer string) {
	var sales, wantSales []api.Sale
	var held, wantHeld []api.Reservation
	for s, err := range g.ledger.Sales(g.Context(), buyer) {
		Must(g, err)
		sales = append(sales, s)
	}
	for r, err := range g.ledger.Reservations(g.Context(), buyer) {
		Must(g, err)
		held = append(held, r)
	}
	for _, d := range g.paper.deals {
		switch {
		case buyer != "" && d.Buyer != buyer:
		case d.status == dealSold:
			wantSales = append(wantSales, d.sale)
			g.compareDeliveries(d)
		}
		if d.promised != nil && (buyer == "" || d.Buyer == buyer) {
			wantHeld = append(wantHeld, d.reservation(g.paper.now()))
		}
	}
	g.same("the list of sales", sales, wantSales)
	g.same("the list of reservations", held, wantHeld)
}

func (g *game) compareDeliveries(d *paperDeal) {
	var got, want []api.Delivery
	for one, err := range g.ledger.Deliveries(g.Context(), d.sale.Number) {
		Must(g, err)
		if !one.Erased {
			g.see(one.Question, one.Object, one.Epsilon.Nano(), one.Sold, one.Value)
		}
		got = append(got, one)
	}
	for _, one := range d.deliveries {
		if !one.Erased {
			one.Value = g.paper.chain(one.Question, one.Object).during(one.Sold).levels[one.Epsilon.Nano()].response
		}
		want = append(want, one)
	}
	g.same("the list of deliveries", got, want)
}

// compareLog holds the log against the paper, and what is counted and paid against the log.
func (g *game) compareLog() {
	log := Events(g, g.ledger)
	if len(log) != len(g.paper.log) {
		g.Fatalf("%d events, want %d", len(log), len(g.paper.log))
	}
	for i, ev := range log {
		if got, want := (entry{ev.Kind(), ev.Object(), ev.Time, ev.Erased}), g.paper.log[i]; got != want || ev.Number != uint64(i)+1 {
			g.Fatalf("event %d is %v as number %d, want %v", i+1, got, ev.Number, want)
		}
		g.compareEvent(ev)
	}
	g.compareRecounts()
	AuditMarket(g, g.ledger)
}

// compareRecounts holds what is counted as responses come against a recount of all chains, at each ε and at the current
// levels.
func (g *game) compareRecounts() {
	g.Helper()
	for _, q := range g.paper.questions {
		at := map[int64]bool{0: true}
		for name := range g.paper.people {
			if c := g.paper.chain(q.Name, name); c != nil {
				for e := range c.levels {
					at[e] = true
				}
			}
		}
		for e := range at {
			r := api.EstimateRequest{Question: q.Name, Epsilon: epsilonOf(e)}
			running, err := g.ledger.Estimate(g.Context(), r)
			r.Include = func(string) bool { return true }
			recount, errOfRecount := g.opened.Estimate(g.Context(), r)
			if g.same("what is counted", running, recount); fmt.Sprint(err) != fmt.Sprint(errOfRecount) {
				g.Fatalf("what is counted comes to %v, the recount to %v", err, errOfRecount)
			}
		}
	}
}

// compareNoise compares by which noise key each chain is drawn: in copies of the ledger, one key after the other is lost, and
// everybody is asked for more. Nobody who was forgotten has a key, once enrolled again.
func (g *game) compareNoise() {
	g.Helper()
	keys := slices.Clone(g.paper.noiseKeys)
	if _, onDisk := g.shelf.(fileShelf); onDisk || len(keys) == 0 {
		return
	}
	flaw, restores, repeats := g.table.flaw, g.table.restores, g.table.repeats // which are those of the game itself
	g.table.flaw = nil
	g.play(moveCopy{})
	for _, name := range keys {
		g.play(moveRestore{0, opening{Noise: pastNoise, Lost: name}, false})
		for _, q := range g.paper.questions {
			e := milli(1000)
			if levels := levelsOnPaper(q); levels == nil {
				for name := range g.paper.people {
					if c := g.paper.chain(q.Name, name); c != nil {
						e = max(e, c.current()+1)
					}
				}
			}
			g.play(moveRaise{q.Name, nil, e, true, host{}})
		}
	}
	g.play(moveRestore{})
	g.table.flaw, g.table.restores, g.table.repeats = flaw, restores, repeats
}

// compareEvent holds what an event says of a response or a question against the paper.
func (g *game) compareEvent(ev says.Event) {
	g.Helper()
	switch d := ev.Says.(type) {
	case says.Released:
		if !ev.Erased {
			g.see(d.Question, d.Object, d.Epsilon.Nano(), ev.Number, d.Response)
		}
	case says.Sold:
		if !ev.Erased {
			g.see(d.Question, d.Object, d.Epsilon.Nano(), ev.Number, d.Response)
		}
	case says.QuestionDefined:
		q, _ := g.paper.question(d.Name)
		g.same("the question", api.Question{Name: d.Name, Values: d.Values, Encoding: d.Encoding, Mechanism: d.Mechanism}, q)
	}
}

// compareEvidence has the receipts of all sales and the statements of all people made, and compares what they say.
// Statements are events, which the paper knows nothing of: so this comes last.
func (g *game) compareEvidence() {
	for _, d := range g.paper.deals {
		if d.status == dealSold {
			g.compareReceipt(d)
		}
	}
	for name, p := range g.paper.people {
		g.compareStatement(name, p)
	}
}

// verify has the audit accept whatever the game has written. What it may say is that the clock has gone back.
func (g *game) verify() {
	g.Helper()
	r := api.VerifyRequest{Report: func(p api.Finding) {
		if p.Kind != "clock" || !g.paper.now().After(g.paper.clock) {
			g.Errorf("the audit finds %+v", p)
		}
	}}
	if g.trusted != nil && g.paper.extends(g.trusted) {
		r.Checkpoints, r.Verifiers = [][]byte{g.trusted.note}, g.verifiers
	}
	_, err := g.opened.Verify(g.Context(), r)
	Must(g, err)
}

func (g *game) compareReceipt(d *paperDeal) {
	g.Helper()
	r, err := g.ledger.Receipt(g.Context(), d.sale.Number)
	Must(g, err)
	WantSound(g, "a receipt", r, g.verifiers)
	q, _ := g.paper.question(d.Question)
	g.same("the question of a receipt", api.Question{Name: r.Question, Values: r.Values, Encoding: r.Encoding, Mechanism: r.Mechanism}, q)
	var got, want []evidence.SoldResponse
	for _, one := range r.Responses {
		got = append(got, evidence.SoldResponse{Object: one.Object, Response: one.Response, Price: one.Price, Event: one.Event, Erased: one.Erased})
	}
	for _, one := range d.deliveries {
		sold := evidence.SoldResponse{Object: one.Object, Price: one.Price, Event: one.Sold, Erased: one.Erased}
		if !one.Erased {
			sold.Response = g.paper.chain(d.Question, one.Object).during(one.Sold).levels[d.epsilon()].response
		}
		want = append(want, sold)
	}
	g.same("the receipt", got, want)
}

func (g *game) compareStatement(name string, p *person) {
	g.Helper()
	st, err := g.ledger.Statement(g.Context(), "statement of "+name, name)
	Must(g, err)
	WantSound(g, "a statement", st, g.verifiers)
	g.same("the account", []any{st.Cap.Nano(), st.Spent.Nano(), st.Earned, st.Forgotten}, []any{p.cap, p.spent, p.earned, p.forgotten})
	got, want := map[string]string{}, map[string]string{}
	for _, one := range st.Released {
		got[fmt.Sprintf("%q at %d, event %d", one.Question, one.Epsilon.Nano(), one.Event)] = one.Response
	}
	for question, c := range p.chains {
		for _, epoch := range c.epochs() {
			for e, l := range epoch.levels {
				want[fmt.Sprintf("%q at %d, event %d", question, e, l.event)] = l.response
			}
		}
	}
	g.same("what was released", got, want)
	spent, wantSpent := map[string]int64{}, map[string]int64{}
	for _, one := range st.Chains {
		spent[fmt.Sprintf("%q, epoch %d, ended by %d", one.Question, one.Epoch, one.Ended)] = one.Spent.Nano()
	}
	for question, c := range p.chains {
		for i, epoch := range c.epochs() {
			ended := 0
			if i < len(c.earlier) {
				ended = c.epochs()[i+1].began
			}
			wantSpent[fmt.Sprintf("%q, epoch %d, ended by %d", question, i+1, ended)] = epoch.spent()
		}
	}
	g.same("what was spent", spent, wantSpent)
}

// counts are the responses to be counted by an estimate, by rising ε: how many there are, and how many say each
// value or, in unary encoding, have its bit; of a mechanism, how many are each output.
func (m *paper) counts(q api.Question, e int64, but string) (all []estimate.UnaryCounts) {
	byLevel := map[int64]*estimate.UnaryCounts{}
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
			byLevel[at] = &estimate.UnaryCounts{Epsilon: epsilonOf(at), ByValue: make([]int64, len(responsesOnPaper(q, at)))}
		}
		byLevel[at].Objects++
		for i, value := range responsesOnPaper(q, at) {
			if l.response == value || q.Encoding == api.Unary && l.response[i] == '1' {
				byLevel[at].ByValue[i]++
			}
		}
	}
	for _, at := range SortedKeys(byLevel) {
		all = append(all, *byLevel[at])
	}
	return all
}

// responsesOnPaper are what a question can be answered with at an ε; in unary encoding, the values that have bits.
func responsesOnPaper(q api.Question, e int64) []string {
	if i := slices.Index(levelsOnPaper(q), e); i >= 0 {
		return q.Mechanism.Outputs[i]
	}
	return q.Values
}

// sharesOf estimates the shares of a question's values from counts of responses, and tests whether levels agree.
func sharesOf(t testing.TB, q api.Question, counts []estimate.UnaryCounts) (shares []estimate.Frequency, p float64) {
	t.Helper()
	o := estimate.Options{Confidence: 0.95}
	var err, failed error
	switch {
	case q.Encoding == api.Unary:
		shares, err = estimate.Frequencies(o, counts...)
		p, failed = estimate.Disagreement(counts...)
	case q.Mechanism != nil:
		outputs := make([]estimate.OutputCounts, len(counts))
		for i, c := range counts {
			level, _ := q.Mechanism.Family.Level(c.Epsilon)
			outputs[i] = estimate.OutputCounts{Mechanism: level, ByOutput: c.ByValue}
		}
		shares, err = estimate.Frequencies(o, outputs...)
		p, failed = estimate.Disagreement(outputs...)
	default:
		direct := make([]estimate.Counts, len(counts))
		for i, c := range counts {
			direct[i] = estimate.Counts{Epsilon: c.Epsilon, ByValue: c.ByValue}
		}
		shares, err = estimate.Frequencies(o, direct...)
		p, failed = estimate.Disagreement(direct...)
	}
	Must(t, err)
	Must(t, failed)
	return shares, p
}
