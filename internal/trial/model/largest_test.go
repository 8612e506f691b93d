package model

import (
	"maps"
	"slices"
	"sort"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
)

// What would do instead of what was refused, on paper: each ε on offer is tried.

// offersOnPaper are the ε that a request may be about, rising, or nil if these are all up to a highest one.
func offersOnPaper(q api.Question, market *policy.Market) (all []int64, most int64) {
	all, most = levelsOnPaper(q), epsilonMost
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

// orLess adds to a refusal the largest ε on offer that would do. Of all ε, budgets allow those above the current level up
// to one, or none.
func (c *paperChain) orLess(r *api.Refusal, q api.Question, market *policy.Market, would func(e int64) bool) {
	tries, most := offersOnPaper(q, market)
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
		if r.Largest = epsilonOf(top); r.Remedy == api.RemedyNothing {
			r.Remedy = api.RemedyLess
		}
	}
}

// bears tells whether a chain gets to a level, or has it, with a truth or without.
func (m *paper) bears(p *person, w wish, truth bool) bool {
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

// orLess says what the host could ask for of an object instead.
func (m *paper) orLess(r *api.Refusal, p *person, q api.Question, w wish, truth bool) *api.Refusal {
	p.chains[q.Name].orLess(r, q, nil, func(e int64) bool {
		w.e = e
		return m.bears(p, w, truth)
	})
	return r
}

// orLess says what a buyer could ask for instead.
func (t *paperTrade) orLess(m *paper, r *api.Refusal, orders int64, truth bool) *api.Refusal {
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

// orLess says at which ε a query could be asked so that an object is not left out: what is known of the whole panel is there
// for all.
func (m *paper) lessOfAnswer(refusal *api.Refusal, r api.AnswerRequest, names []string, leaves, truth bool) *api.Refusal {
	var all []int64
	_, known := m.answered(r, names, false)
	for _, a := range known {
		all = append(all, a.e)
	}
	least := int64(0) // above which nothing is known that left somebody out
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
