package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
)

// bindings returns forgeries of truth bindings, on a base log with a truth key: there an answer has
// bound ann and bob in question 1, a sale has bound cid, and ann is not in question 2.
func (bl baseLog) bindings(t *testing.T) map[string]soundAndForged {
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
	drawn := []event.Change{binding("ann", 2), released("ann", 2, "0.1", event.MethodRaise)}
	lower := []event.Change{released("ann", 1, "0.1", event.MethodDegrade)}
	charges := func(names ...string) (all []event.Change) {
		for _, name := range names {
			all = append(all, &event.Charged{Object: name, Question: 1, Epsilon: eps(t, "0.1")})
		}
		about := *answer
		about.Panel, about.Objects = event.PanelOf(names), uint64(len(names))
		return append(all, &about)
	}
	sold := func(names ...string) []event.Change {
		d := aSale(t, third, hooli, "0.5", 50*uint64(len(names)))
		d.Objects = uint64(len(names))
		changes := []event.Change{&event.SaleMade{Deal: d, Tally: event.SaleTally{Draws: d.Objects}}}
		for _, name := range names {
			changes = append(changes, &event.Sold{Object: name, Sale: third, Price: 50, Response: at("0.5", event.MethodRaise)})
		}
		return changes
	}
	two := append([]event.Change{enrolledEvent(t, "gil", 1, "2")}, binding("fay", 1), binding("gil", 1))
	both := append([]event.Change{enrolledEvent(t, "gil", 3, "2")}, binding("eve", 1), binding("gil", 1))
	bob := bl.forgotten["bob"]
	back := []event.Change{&bob, &event.Enrolled{Object: "bob", Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "2")}}
	return map[string]soundAndForged{
		"bound twice":             {sound: drawn, forged: []event.Change{binding("ann", 1)}, why: "twice, or without a truth key"},
		"bound twice in a row":    {sound: drawn, forged: []event.Change{binding("ann", 2), binding("ann", 2)}, why: "twice, or without a truth key"},
		"bound in no question":    {sound: drawn, forged: []event.Change{binding("bob", 2)}, why: "is not enrolled"},
		"a stranger is bound":     {sound: drawn, forged: []event.Change{binding("zoe", 1)}, why: "is not enrolled"},
		"bound after it has gone": {sound: drawn, forged: []event.Change{binding("dan", 1)}, why: "has withdrawn, and an event"},

		"a second truth key":      {sound: drawn, forged: []event.Change{&event.TruthKeySet{Check: event.Tag{1}}}, why: "a truth key is set twice"},
		"raised unbound":          {sound: before(binding("ann", 2), released("ann", 2, "0.1", event.MethodRaise)), forged: []event.Change{released("ann", 2, "0.1", event.MethodRaise)}, why: "not bound to"},
		"raised, bound elsewhere": {sound: before(binding("ann", 2), released("ann", 2, "0.1", event.MethodRaise)), forged: []event.Change{binding("fay", 1), released("ann", 2, "0.1", event.MethodRaise)}, why: "not bound to"},
		"derived unbound":         {sound: []event.Change{released("ann", 1, "0.1", event.MethodDegrade)}, forged: []event.Change{released("ann", 1, "0.3", event.MethodDegrade)}, why: "by method degrade"},
		"sold unbound":            {sound: before(binding("eve", 1), sale...), forged: sale, why: "not bound to"},
		"charged unbound":         {sound: []event.Change{binding("fay", 1), charge, answer}, forged: []event.Change{charge, answer}, why: "not bound to"},

		"bound for nothing":                   {sound: drawn, forged: drawn[:1], why: "binds 1 chains to true values, but draws no response from them"},
		"bound for another's draw":            {sound: drawn, forged: slices.Concat([]event.Change{binding("fay", 1)}, drawn), why: "binds 1 chains to true values, but draws no response from them"},
		"bound for its draw elsewhere":        {sound: drawn, forged: []event.Change{binding("ann", 2), released("ann", 1, "0.3", event.MethodRaise)}, why: "binds 1 chains to true values, but draws no response from them"},
		"bound for what is derived":           {sound: lower, forged: append([]event.Change{binding("ann", 2)}, lower...), why: "binds 1 chains to true values, but draws no response from them"},
		"bound for a sale of another":         {sound: before(binding("eve", 1), sale...), forged: slices.Concat([]event.Change{binding("eve", 1), binding("fay", 1)}, sale), why: "binds 1 chains to true values, but draws no response from them"},
		"bound for a sale of others":          {sound: slices.Concat(both, sold("eve", "gil")), forged: slices.Concat(both, []event.Change{binding("fay", 1)}, sold("eve", "gil")), why: "binds 1 chains to true values, but draws no response from them"},
		"bound for a sale of one of them":     {sound: slices.Concat(both, sold("eve", "gil")), forged: slices.Concat(both, sold("gil")), why: "binds 1 chains to true values, but draws no response from them"},
		"bound for an answer about one":       {sound: slices.Concat(two, charges("fay", "gil")), forged: slices.Concat(two, charges("gil")), why: "binds 1 chains to true values, but draws no response from them"},
		"bound for an answer about the bound": {sound: charges("ann", "bob"), forged: append([]event.Change{binding("fay", 1)}, charges("ann", "bob")...), why: "binds 1 chains to true values, but draws no response from them"},
		"raised unbound, once back": {
			sound:  append(slices.Clone(back), binding("bob", 1), released("bob", 1, "0.1", event.MethodRaise)),
			forged: append(slices.Clone(back), released("bob", 1, "0.1", event.MethodRaise)), why: "not bound to", after: 10 * time.Hour,
		},
		"raised unbound, in a new epoch": {
			sound:  before(&event.EpochBegun{Object: "ann", Question: 1}, binding("ann", 1), released("ann", 1, "0.1", event.MethodRaise)),
			forged: before(&event.EpochBegun{Object: "ann", Question: 1}, released("ann", 1, "0.1", event.MethodRaise)), why: "not bound to",
		},
	}
}

// Once a ledger has a truth key, nothing is drawn from a true value to which the chain is not
// bound.
func TestApply_ForgedTruthBinding_IsCorrupt(t *testing.T) {
	g := newBaseLog(t, truthKey())
	must(t, replayWhole(&kv.Memory{}, g.log))
	for name, one := range g.bindings(t) {
		t.Run(name, func(t *testing.T) { g.wantRefused(t, one) })
	}
}

// An object may be forgotten during an audit, which has read the beginning of a request whole, and
// reads the rest erased. Such a log is sound at any position of the audit. It has a raise, a sale,
// a reservation, an answer and a sweep, each of which binds all objects.
func TestApply_ObjectForgottenDuringAudit_IsAccepted(t *testing.T) {
	for _, name := range []string{"ann", "cid", "dan"} {
		t.Run(name, func(t *testing.T) {
			s := &kv.Memory{}
			begin(t, s)
			l := openMemory(t, s, Options{Now: epoch, TruthKey: truthKey()})
			days, err := policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.5")})
			must(t, err)
			yes := func(_ context.Context, _ string, names []string) ([]string, error) {
				return slices.Repeat([]string{"yes"}, len(names)), nil
			}
			names := []string{"ann", "bob", "cid", "dan"}
			for i, p := range []policy.Policy{market(t, "1"), market(t, "1"), market(t, "1"), market(t, "1"), days} {
				define(t, l, api.Question{Name: fmt.Sprint("question ", i), Values: []string{"yes", "no"}})
				enrollUnder(t, l, fmt.Sprint("question ", i), p, "5", names...)
			}
			_, err = l.Raise(t.Context(), api.RaiseRequest{Key: "raises", Question: "question 0", Epsilon: eps(t, "0.5"), Objects: names, Truth: yes})
			must(t, err)
			o := purchase(t, "", "acme", "0.5", names...).Order
			o.Question = "question 1"
			_, err = l.Sell(t.Context(), api.SellRequest{Key: "sells", Order: o, Truth: yes})
			must(t, err)
			o.Question = "question 2"
			r := reserve(t, l, api.ReserveRequest{Key: "reserves", Order: o, For: time.Hour})
			_, err = l.Capture(t.Context(), api.CaptureRequest{Key: "captures", Reservation: r.Number, Truth: yes})
			must(t, err)
			_, err = l.Answer(t.Context(), api.AnswerRequest{Key: "answers", Question: "question 3", Query: "majority:yes", Epsilon: eps(t, "0.5"), Objects: names, AcceptLoss: true, Truth: yes})
			must(t, err)
			must(t, check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "sweeps", Truth: yes})))
			before := logOf(t, pairs(t, s))
			forget(t, l, name)
			after := logOf(t, pairs(t, s))
			n := countKind(events(t, l), "bound")
			check.That(t, n == 20, "%d chains are bound", n)
			for at := range before {
				err := foldInTwo(before, after, at)
				check.That(t, err == nil, "seen whole up to event %d: %v", at, err)
			}
		})
	}
}

// foldInTwo folds a log like an audit that continues in another snapshot after some events: lookups
// then read the later log.
func foldInTwo(before, after []event.Event, at int) error {
	w := &logWriter{log: before}
	return (&kv.Memory{}).Update(func(to kv.Writer) (err error) {
		w.Writer = to
		s, err := state.Begin(w, time.Time{})
		if err != nil {
			return err
		}
		for i := range after {
			if i == at {
				w.log = after
			}
			if err := fold.Apply(s, w.log[i]); err != nil {
				return err
			}
		}
		return s.Counters.CheckWhole()
	})
}

// logWriter is a transaction whose events are those of a log.
type logWriter struct {
	kv.Writer
	log []event.Event
}

func (w *logWriter) Get(bucket string, key []byte) ([]byte, error) {
	if bucket != state.BucketEvents {
		return w.Writer.Get(bucket, key)
	}
	ev := w.log[binary.BigEndian.Uint64(key)-1]
	payload := event.Entry{Event: ev, Hashes: make([]tlog.Hash, merkle.Completes(ev.Number-1))}.Encode()
	return wire.Seal(bucket, key, payload), nil
}
