package model

import (
	"errors"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// Budgets on paper: each ε is tried.

// budgets compares what an order's people can answer, to its buyer and to the host, at its ε and at some others.
func (g *game) budgets(o api.Order) {
	g.Helper()
	q, err := g.paper.question(o.Question)
	if err != nil {
		return
	}
	levels := []privacy.Epsilon{o.Epsilon}
	for _, e := range []int64{100, 300, 500, 1000, 2000} {
		if e := milli(e); hasLevel(q, e) && epsilonOf(e) != o.Epsilon {
			levels = append(levels, epsilonOf(e))
		}
	}
	for _, buyer := range []string{o.Buyer, ""} {
		got, err := g.ledger.Budget(g.Context(), api.BudgetRequest{Question: o.Question, Objects: o.Objects, All: o.All, Buyer: buyer, Epsilons: levels})
		if err != nil {
			g.Fatalf("a budget: %v", err)
		}
		for _, at := range got.Levels {
			can, price := g.paper.able(o, buyer, at.Epsilon)
			if at.Can != can || at.Price != price || got.Largest == at.Epsilon && can < got.Objects {
				g.Fatalf("a budget of %q at ε=%s is\n\t\t%+v, and the largest ε is %s\n\twant %d, for %d", buyer, at.Epsilon, at, got.Largest, can, price)
			}
		}
	}
}

// able counts whom an order, or a raise of the host's, could be about at an ε, and what they would cost.
func (m *paper) able(o api.Order, buyer string, epsilon privacy.Epsilon) (can uint64, price int64) {
	o.Epsilon = epsilon
	if buyer != "" {
		if t, err := m.trade(o, nil); err == nil {
			return uint64(len(t.lines)), t.price()
		}
		return 0, 0
	}
	for _, name := range m.members(o.Question, o.Objects) {
		if m.look(o.Question, name, epsilon.Nano()) != nil {
			continue
		}
		w := wish{question: o.Question, object: name, e: epsilon.Nano(), orders: m.orders(o.Question, name)}
		if _, refusal := m.assess(w); refusal == nil {
			can++
		}
	}
	return can, 0
}

// withoutInstead is a refusal without what would be possible instead, which is no record: [game.budgets] looks at that.
func withoutInstead(err error) error {
	var refused *api.RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	bare := *refused
	bare.Instead = nil
	return &bare
}
