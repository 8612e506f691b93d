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
// log is no ledger's, has fields missing; events of which a statement tells nothing say nothing. With it one makes the statements that
// [Statement.Verify] must refuse.
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
	w := &wording{glossary: g}
	return Fact{ev.Number, ev.Time, w.detail(ev.Change), ev.Salt[:], leaf}, w.err
}

// wording puts an event in words, and holds what it refers to in vain.
type wording struct {
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

func (w *wording) buyer(number uint32) string {
	name := w.buyers[number]
	if name == "" {
		w.missing("buyer %d is not named before", number)
	}
	return name
}

func (w *wording) response(number uint32, epsilon privacy.Epsilon, r event.Response) (text, method string) {
	q := w.questions[number]
	if q == nil || !q.Has(epsilon, r.Value) {
		w.missing("question %d is not defined before, with a response of %v", number, r.Value)
		return "", ""
	}
	return q.Text(epsilon, r.Value), r.Method.String()
}

// detail returns what an event says, or nil if a statement does not tell it.
func (w *wording) detail(c event.Change) Detail {
	switch c := c.(type) {
	case *event.Created:
		return &Created{ID: uuid.UUID(c.ID).String(), Currency: c.Currency, LogKey: c.LogKey}
	case *event.QuestionDefined:
		return &QuestionDefined{Number: c.Number, Name: c.Name, Values: c.Values, Encoding: c.Encoding, Mechanism: c.Mechanism}
	case *event.PolicyDefined:
		return &PolicyDefined{Number: c.Number, Policy: zeroIfNil(w.policy(c.Number))}
	case *event.BuyerNamed:
		return &BuyerNamed{Number: c.Number, Name: c.Name}
	case *event.Enrolled:
		return &Enrolled{Object: c.Object, Question: w.question(c.Question), NoiseKey: c.Noise, Policy: w.policy(c.Policy), Cap: c.Cap}
	case *event.TruthBound:
		return &TruthBound{Object: c.Object, Question: w.question(c.Question), Truth: c.Tag[:]}
	case *event.Released:
		return w.released(c)
	case *event.Charged:
		return &Charged{Object: c.Object, Question: w.question(c.Question), Epsilon: c.Epsilon}
	case *event.Reserved:
		return &Reserved{
			Sale: c.Sale, Buyer: w.buyer(c.Buyer), Question: w.question(c.Question), Epsilon: c.Epsilon, Objects: c.Objects, Price: int64(c.Price),
			Expires: c.Expires, Refused: c.Refused,
		}
	case *event.Held:
		return &Held{Sale: c.Sale, Object: c.Object, Price: int64(c.Price), Policy: w.policy(c.Policy)}
	case *event.SaleMade:
		return w.sale(c)
	case *event.Sold:
		return w.sold(c)
	case *event.Withdrawn:
		return &Withdrawn{Object: c.Object}
	case *event.EpochBegun:
		return &EpochBegun{Object: c.Object, Question: w.question(c.Question)}
	case *event.TermsChanged:
		return &TermsChanged{Object: c.Object, Question: w.question(c.Question), Policy: w.policy(c.Policy), Cap: c.Cap, Consent: c.Consent}
	case *event.ObjectRefused:
		return &ObjectRefused{Question: w.question(c.Question), Refusal: c.Refusal}
	case *event.Forgotten:
		return w.forgotten(c)
	case *event.Stated:
		return &Stated{Object: c.Object, Cap: c.Cap, Spent: c.Spent, Earned: int64(c.Earned), Forgotten: c.Forgotten, Events: c.Events}
	}
	w.err = noSuchKind(c.Kind().String())
	return nil
}

func (w *wording) released(c *event.Released) *Released {
	d := &Released{Object: c.Object, Question: w.question(c.Question), Epsilon: c.Epsilon}
	d.Response, d.Method = w.response(c.Question, c.Epsilon, c.Response)
	return d
}

func (w *wording) sale(c *event.SaleMade) *SaleMade {
	return &SaleMade{
		Sale: c.Sale, Buyer: w.buyer(c.Buyer), Question: w.question(c.Question), Epsilon: c.Epsilon, Objects: c.Objects, Price: int64(c.Price),
		Draws: c.Tally.Draws, Resales: c.Tally.Resales, Degradations: c.Tally.Degradations, Insertions: c.Tally.Insertions, Upgrades: c.Tally.Upgrades,
		Refused: c.Refused,
	}
}

func (w *wording) sold(c *event.Sold) *Sold {
	d := &Sold{Sale: c.Sale, Object: c.Object, Price: int64(c.Price)}
	of := w.sales[c.Sale]
	d.Response, d.Method = w.response(of.Question, of.Epsilon, c.Response)
	return d
}

func (w *wording) forgotten(c *event.Forgotten) *Forgotten {
	d := &Forgotten{Object: c.Object, Cap: c.Cap, Spent: c.Spent, Earned: int64(c.Earned), Erased: c.Events}
	for _, r := range c.Chains {
		d.Chains = append(d.Chains, ForgottenChain{w.question(r.Question), w.policy(r.Policy), r.Spent})
	}
	return d
}
