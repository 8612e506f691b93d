package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
)

// bindings are forgeries of what ties chains to their truths, on a ground with a truth key: there ann and bob are bound by
// an answer in question 1, and cid by a sale, and ann is not in question 2.
func (g ground) bindings(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	binding := func(name string, question uint32) event.Change {
		return &event.TruthBound{Object: name, Question: question, Tag: event.Tag{1}}
	}
	at := func(epsilon string, how event.Method) event.Response {
		return event.Response{Value: event.Value{Index: 1}, Method: how}
	}
	released := func(name string, question uint32, epsilon string, how event.Method) event.Change {
		return &event.Released{Object: name, Question: question, Epsilon: eps(t, epsilon), Response: at(epsilon, how)}
	}
	charge := &event.Charged{Object: "fay", Question: 1, Epsilon: eps(t, "0.1")}
	answer := &event.Answered{Question: 1, Query: "winner", Panel: event.PanelOf([]string{"fay"}), Objects: 1, Epsilon: eps(t, "0.1"), Result: event.Result{Output: 1}, Method: event.MethodFresh}
	deal := aSale(t, third, acme, "0.5", 50)
	sale := []event.Change{&event.SaleMade{Deal: deal, Tally: event.SaleTally{Draws: 1}}, &event.Sold{Object: "eve", Sale: third, Price: deal.Price, Response: at("0.5", event.MethodRaise)}}
	before := func(first event.Change, then ...event.Change) []event.Change {
		return append([]event.Change{first}, then...)
	}
	bob := g.forgotten["bob"]
	back := []event.Change{&bob, &event.Enrolled{Object: "bob", Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "2")}}
	return map[string]pairOfLogs{
		"bound twice":             {sound: []event.Change{binding("ann", 2)}, forged: []event.Change{binding("ann", 1)}, why: "a second time"},
		"bound twice in a row":    {sound: []event.Change{binding("ann", 2)}, forged: []event.Change{binding("ann", 2), binding("ann", 2)}, why: "a second time"},
		"bound in no question":    {sound: []event.Change{binding("ann", 2)}, forged: []event.Change{binding("bob", 2)}, why: "without being enrolled"},
		"a stranger is bound":     {sound: []event.Change{binding("ann", 2)}, forged: []event.Change{binding("zoe", 1)}, why: "without being enrolled"},
		"bound after it has gone": {sound: []event.Change{binding("ann", 2)}, forged: []event.Change{binding("dan", 1)}, why: "after it has withdrawn"},

		"a second truth key":      {sound: []event.Change{binding("ann", 2)}, forged: []event.Change{&event.TruthKeySet{Check: event.Tag{1}}}, why: "a second truth key"},
		"raised unbound":          {sound: before(binding("ann", 2), released("ann", 2, "0.1", event.MethodRaise)), forged: []event.Change{released("ann", 2, "0.1", event.MethodRaise)}, why: "not bound to"},
		"raised, bound elsewhere": {sound: before(binding("ann", 2), released("ann", 2, "0.1", event.MethodRaise)), forged: []event.Change{binding("fay", 1), released("ann", 2, "0.1", event.MethodRaise)}, why: "not bound to"},
		"derived unbound":         {sound: []event.Change{released("ann", 1, "0.1", event.MethodDegrade)}, forged: []event.Change{released("ann", 1, "0.3", event.MethodDegrade)}, why: "by degrade"},
		"sold unbound":            {sound: before(binding("eve", 1), sale...), forged: sale, why: "not bound to"},
		"charged unbound":         {sound: []event.Change{binding("fay", 1), charge, answer}, forged: []event.Change{charge, answer}, why: "not bound to"},
		"raised unbound, once back": {
			sound:  append(slices.Clone(back), binding("bob", 1), released("bob", 1, "0.1", event.MethodRaise)),
			forged: append(slices.Clone(back), released("bob", 1, "0.1", event.MethodRaise)), why: "not bound to", after: 10 * time.Hour,
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
