package model

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/sluicedp/sluice/ledger/api"
)

// Levels that a charge takes off the market, on paper: each level on offer is tried before the charge and after it.

// displaced returns the levels on offer that objects lose if each is charged for an answer.
func (m *paper) displaced(question string, names []string, cost int64) (rows []api.Displaced) {
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

// lost returns the levels that an object could be sold at in a question, at once or ever, before it is charged, and not after.
func (m *paper) lost(p *person, name string, q api.Question, charged string, cost int64) []int64 {
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
	tries, most := offersOnPaper(q, market)
	if tries == nil { // every level is for sale: the highest that can be sold, and the points of the prices
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

// sellableNow reports whether a buyer who holds nothing of an object could have a level at once.
func (m *paper) sellableNow(p *person, name, question string, e int64) bool {
	c := p.chains[question]
	market := c.rule.terms
	if !market.From.IsZero() && m.now().Before(market.From) || !market.Until.IsZero() && !m.now().Before(market.Until) {
		return false
	}
	w := wish{question: question, object: name, e: e, orders: c.buyers() + 1}
	return e <= c.current() || m.budget(p, c, w, e-c.current(), e) == nil
}

// sellableEver reports whether it could before the sale closes, after any number of buyers, if nothing is reserved.
func (m *paper) sellableEver(p *person, question string, e int64) bool {
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
func (m *paper) loss(r api.AnswerRequest, names []string, cost int64) error {
	lost := m.displaced(r.Question, names, cost)
	if r.AcceptLoss || len(lost) == 0 {
		return nil
	}
	return &api.DisplacedError{Question: r.Question, Displaced: lost}
}
