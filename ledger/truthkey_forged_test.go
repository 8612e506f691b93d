package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
)

// bindings are forgeries of what ties chains to their truths, on a ground with a truth key: there ann and bob are bound by
// an answer in question 1, and cid by a sale, and ann is not in question 2.
func (g ground) bindings(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	binding := func(name string, question uint32) change { return &truthBound{name, question, tag{1}} }
	at := func(epsilon string, how method) response { return response{value{index: 1}, how} }
	released := func(name string, question uint32, epsilon string, how method) change {
		return &released{name, question, eps(t, epsilon), at(epsilon, how)}
	}
	charge := &charged{"fay", 1, eps(t, "0.1")}
	answer := &answered{question: 1, query: "winner", panel: sumOf([]string{"fay"}), objects: 1, epsilon: eps(t, "0.1"), result: result{output: 1}, method: methodFresh}
	deal := aSale(t, third, acme, "0.5", 50)
	sale := []change{&saleMade{deal, saleTally{draws: 1}}, &sold{"eve", third, deal.price, at("0.5", methodRaise)}}
	before := func(first change, then ...change) []change { return append([]change{first}, then...) }
	bob := g.forgotten["bob"]
	back := []change{&bob, &enrolled{"bob", 1, 1, 0, eps(t, "2")}}
	return map[string]pairOfLogs{
		"bound twice":             {sound: []change{binding("ann", 2)}, forged: []change{binding("ann", 1)}, why: "a second time"},
		"bound twice in a row":    {sound: []change{binding("ann", 2)}, forged: []change{binding("ann", 2), binding("ann", 2)}, why: "a second time"},
		"bound in no question":    {sound: []change{binding("ann", 2)}, forged: []change{binding("bob", 2)}, why: "without being enrolled"},
		"a stranger is bound":     {sound: []change{binding("ann", 2)}, forged: []change{binding("zoe", 1)}, why: "without being enrolled"},
		"bound after it has gone": {sound: []change{binding("ann", 2)}, forged: []change{binding("dan", 1)}, why: "after it has withdrawn"},

		"a second truth key":      {sound: []change{binding("ann", 2)}, forged: []change{&truthKeySet{tag{1}}}, why: "a second truth key"},
		"raised unbound":          {sound: before(binding("ann", 2), released("ann", 2, "0.1", methodRaise)), forged: []change{released("ann", 2, "0.1", methodRaise)}, why: "not bound to"},
		"raised, bound elsewhere": {sound: before(binding("ann", 2), released("ann", 2, "0.1", methodRaise)), forged: []change{binding("fay", 1), released("ann", 2, "0.1", methodRaise)}, why: "not bound to"},
		"derived unbound":         {sound: []change{released("ann", 1, "0.1", methodDegrade)}, forged: []change{released("ann", 1, "0.3", methodDegrade)}, why: "by degrade"},
		"sold unbound":            {sound: before(binding("eve", 1), sale...), forged: sale, why: "not bound to"},
		"charged unbound":         {sound: []change{binding("fay", 1), charge, answer}, forged: []change{charge, answer}, why: "not bound to"},
		"raised unbound, once back": {
			sound:  append(slices.Clone(back), binding("bob", 1), released("bob", 1, "0.1", methodRaise)),
			forged: append(slices.Clone(back), released("bob", 1, "0.1", methodRaise)), why: "not bound to", after: 10 * time.Hour,
		},
	}
}

// Once a ledger has a truth key, nothing is drawn from a truth that the chain is not bound to.
func TestApplyRefusesForgedBindings(t *testing.T) {
	g := newGround(t, truthKey())
	must(t, replayWhole(&kvtest.Memory{}, g.log))
	for name, one := range g.bindings(t) {
		t.Run(name, func(t *testing.T) { g.wantRefused(t, one) })
	}
}
