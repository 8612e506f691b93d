package evidence

import (
	"fmt"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// InWords returns the facts of the events of a log, by their numbers, as a statement tells them. What cannot be put in words, because the
// log is no ledger's, has fields missing. With it one makes the statements that [Statement.Verify] must refuse.
func InWords(log []Entry) map[uint64]Fact {
	facts, g := make(map[uint64]Fact, len(log)), newGlossary()
	for _, ev := range log {
		_ = g.learn(ev.Event)
		facts[ev.Number], _ = g.fact(ev.Event, ev.Leaf)
	}
	return facts
}

// fact puts an event in words.
func (g *glossary) fact(ev event.Event, leaf tlog.Hash) (Fact, error) {
	w := &wording{glossary: g, Fact: Fact{Event: ev.Number, Time: ev.Time, Kind: ev.Change.Kind().String(), Salt: ev.Salt[:], Leaf: leaf}}
	w.put(ev.Change)
	return w.Fact, w.err
}

// wording is a fact being written, and what it refers to in vain.
type wording struct {
	Fact
	*glossary
	err error
}

func (w *wording) missing(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *wording) question(number uint32) string {
	q := w.questions[number]
	if q == nil {
		w.missing("question %d is not defined before", number)
		return ""
	}
	return q.Name
}

func (w *wording) policy(number uint32) *policy.Policy {
	p := w.policies[number]
	if p == nil && number != 0 {
		w.missing("policy %d is not defined before", number)
	}
	return p
}

func (w *wording) respond(number uint32, epsilon privacy.Epsilon, r event.Response) {
	q := w.questions[number]
	if q == nil || !q.Has(epsilon, r.Value) {
		w.missing("question %d is not defined before, with a response of %v", number, r.Value)
		return
	}
	w.Response, w.Method = q.Text(epsilon, r.Value), r.Method.String()
}

func (w *wording) deal(d event.Deal) {
	if w.Buyer = w.buyers[d.Buyer]; w.Buyer == "" {
		w.missing("buyer %d is not named before", d.Buyer)
	}
	w.Sale, w.Question, w.Epsilon, w.Objects, w.Price, w.Refused = d.Sale, w.question(d.Question), &d.Epsilon, d.Objects, amount(d.Price), d.Refused
}

func (w *wording) account(a event.Account) {
	w.Cap, w.Spent, w.Earned = &a.Cap, &a.Spent, amount(a.Earned)
}

func (w *wording) put(c event.Change) {
	switch c := c.(type) {
	case *event.Created:
		w.ID, w.Currency, w.LogKey = uuid.UUID(c.ID).String(), c.Currency, c.LogKey
	case *event.QuestionDefined:
		w.Number, w.Question, w.Values, w.Encoding, w.Mechanism = c.Number, c.Name, c.Values, c.Encoding, c.Mechanism
	case *event.PolicyDefined:
		w.Number, w.Policy = c.Number, w.policy(c.Number)
	case *event.BuyerNamed:
		w.Number, w.Buyer = c.Number, c.Name
	case *event.Enrolled:
		w.Object, w.Question, w.Policy, w.NoiseKey, w.Cap = c.Object, w.question(c.Question), w.policy(c.Policy), c.Noise, &c.Cap
	case *event.TruthBound:
		w.Object, w.Question, w.Truth = c.Object, w.question(c.Question), c.Tag[:]
	case *event.Released:
		w.Object, w.Question, w.Epsilon = c.Object, w.question(c.Question), &c.Epsilon
		w.respond(c.Question, c.Epsilon, c.Response)
	case *event.Charged:
		w.Object, w.Question, w.Epsilon = c.Object, w.question(c.Question), &c.Epsilon
	case *event.Reserved:
		w.deal(c.Deal)
		w.Expires = &c.Expires
	case *event.Held:
		w.Sale, w.Object, w.Price = c.Sale, c.Object, amount(c.Price)
	case *event.SaleMade:
		w.deal(c.Deal)
		w.Draws, w.Resales, w.Degradations, w.Insertions, w.Upgrades = c.Tally.Draws, c.Tally.Resales, c.Tally.Degradations, c.Tally.Insertions, c.Tally.Upgrades
	case *event.Sold:
		w.Sale, w.Object, w.Price = c.Sale, c.Object, amount(c.Price)
		w.respond(w.sales[c.Sale].Question, w.sales[c.Sale].Epsilon, c.Response)
	case *event.Withdrawn:
		w.Object = c.Object
	case *event.EpochBegun:
		w.Object, w.Question = c.Object, w.question(c.Question)
	default:
		w.putLong(c)
	}
}

func (w *wording) putLong(c event.Change) {
	switch c := c.(type) {
	case *event.ObjectRefused:
		w.Refusal, w.Question = &c.Refusal, w.question(c.Question)
	case *event.Forgotten:
		w.Object, w.Erased = c.Object, c.Events
		w.account(c.Account)
		for _, r := range c.Chains {
			w.Chains = append(w.Chains, FactChain{w.question(r.Question), w.policy(r.Policy), r.Spent})
		}
	case *event.Stated:
		w.Object, w.Forgotten, w.Events = c.Object, c.Forgotten, c.Events
		w.account(c.Account)
	default:
		w.missing("a statement has no event of the kind %s", c.Kind())
	}
}

func amount(n uint64) *int64 { v := int64(n); return &v }
