package evidence

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// change returns what the event says that a fact puts in words, or why there is none.
func (g *glossary) change(f Fact) (event.Change, error) {
	if f.Says == nil {
		return nil, noSuchKind("")
	}
	r := &reading{glossary: g}
	c := f.Says.change(r)
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// reading takes a fact back to its event, and holds what is wrong with it.
type reading struct {
	*glossary
	err error
}

func (r *reading) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reading) question(name string) uint32 {
	number := r.named[name]
	if number == 0 {
		r.fail("question %q is not defined before", name)
	}
	return number
}

func (r *reading) policy(p *policy.Policy) uint32 {
	if p == nil {
		return 0
	}
	number := r.planned[p.String()]
	if number == 0 {
		r.fail("policy %.100s is not defined before", p)
	}
	return number
}

func (r *reading) buyer(name string) uint32 {
	number := r.known[name]
	if number == 0 {
		r.fail("buyer %q is not named before", name)
	}
	return number
}

func (r *reading) response(number uint32, epsilon privacy.Epsilon, text, method string) event.Response {
	q := r.questions[number]
	if q == nil {
		r.fail("the sale or question it belongs to is not there before")
		return event.Response{}
	}
	value, known := q.Read(epsilon, text)
	how, possible := event.ParseMethod(method)
	if !known || !possible {
		r.fail("the response %q by the method %q is none", text, method)
	}
	return event.Response{Value: value, Method: how}
}

func (r *reading) account(limit, spent privacy.Epsilon, earned int64) event.Account {
	return event.Account{Cap: limit, Spent: spent, Earned: r.amount(earned)}
}

func (r *reading) amount(v int64) uint64 {
	if v < 0 {
		r.fail("an amount of %d", v)
	}
	return uint64(v)
}

// fill takes bytes of a fixed number.
func (r *reading) fill(into []byte, from Hex) {
	if copy(into, from) != len(into) || len(from) != len(into) {
		r.fail("%d bytes where there should be %d", len(from), len(into))
	}
}

func (r *reading) instant(at time.Time) time.Time {
	if !event.InLog(at) {
		r.fail("the time %v is none of a log", at)
	}
	return at
}

func (d *Created) change(r *reading) event.Change {
	id, err := uuid.Parse(d.ID)
	if err != nil {
		r.fail("the id: %w", err)
	}
	return &event.Created{ID: id, Currency: d.Currency, LogKey: d.LogKey}
}

func (d *QuestionDefined) change(r *reading) event.Change {
	q := vocabulary.Question{Name: d.Name, Values: d.Values, Encoding: d.Encoding, Mechanism: d.Mechanism}
	if err := event.CheckQuestion(q); err != nil {
		r.fail("%w", err)
	}
	return &event.QuestionDefined{Number: d.Number, Question: q}
}

func (d *PolicyDefined) change(r *reading) event.Change {
	if d.Policy.IsZero() {
		r.fail("there is no policy")
		return nil
	}
	return &event.PolicyDefined{Number: d.Number, JSON: d.Policy.String()}
}

func (d *BuyerNamed) change(r *reading) event.Change {
	if err := names.Check("buyer", d.Name); err != nil { // all sales to the buyer name it
		r.fail("%w", err)
	}
	return &event.BuyerNamed{Number: d.Number, Name: d.Name}
}

func (d *Enrolled) change(r *reading) event.Change {
	return &event.Enrolled{Object: d.Object, Question: r.question(d.Question), Policy: r.policy(d.Policy), Noise: d.NoiseKey, Cap: d.Cap}
}

func (d *TruthBound) change(r *reading) event.Change {
	c := &event.TruthBound{Object: d.Object, Question: r.question(d.Question)}
	r.fill(c.Tag[:], d.Truth)
	return c
}

func (d *Released) change(r *reading) event.Change {
	number := r.question(d.Question)
	return &event.Released{Object: d.Object, Question: number, Epsilon: d.Epsilon, Response: r.response(number, d.Epsilon, d.Response, d.Method)}
}

func (d *Charged) change(r *reading) event.Change {
	return &event.Charged{Object: d.Object, Question: r.question(d.Question), Epsilon: d.Epsilon}
}

func (d *Reserved) change(r *reading) event.Change {
	return &event.Reserved{
		Deal: event.Deal{
			Sale: d.Sale, Buyer: r.buyer(d.Buyer), Question: r.question(d.Question), Epsilon: d.Epsilon, Objects: d.Objects, Price: r.amount(d.Price),
			Refused: d.Refused,
		},
		Expires: r.instant(d.Expires),
	}
}

func (d *Held) change(r *reading) event.Change {
	return &event.Held{Object: d.Object, Sale: d.Sale, Price: r.amount(d.Price), Policy: r.policy(d.Policy)}
}

func (d *SaleMade) change(r *reading) event.Change {
	return &event.SaleMade{
		Deal: event.Deal{
			Sale: d.Sale, Buyer: r.buyer(d.Buyer), Question: r.question(d.Question), Epsilon: d.Epsilon, Objects: d.Objects, Price: r.amount(d.Price),
			Refused: d.Refused,
		},
		Tally: event.SaleTally{Draws: d.Draws, Resales: d.Resales, Degradations: d.Degradations, Insertions: d.Insertions, Upgrades: d.Upgrades},
	}
}

func (d *Sold) change(r *reading) event.Change {
	of := r.sales[d.Sale]
	return &event.Sold{Object: d.Object, Sale: d.Sale, Price: r.amount(d.Price), Response: r.response(of.Question, of.Epsilon, d.Response, d.Method)}
}

func (d *Withdrawn) change(*reading) event.Change { return &event.Withdrawn{Object: d.Object} }

func (d *EpochBegun) change(r *reading) event.Change {
	return &event.EpochBegun{Object: d.Object, Question: r.question(d.Question)}
}

func (d *TermsChanged) change(r *reading) event.Change {
	return &event.TermsChanged{Object: d.Object, Question: r.question(d.Question), Policy: r.policy(d.Policy), Cap: d.Cap, Consent: d.Consent}
}

func (d *ObjectRefused) change(r *reading) event.Change {
	c := &event.ObjectRefused{Question: r.question(d.Question), Refusal: d.Refusal}
	if !slices.Contains(event.ReasonCodes(), c.Reason) || !slices.Contains(event.RemedyCodes(), c.Remedy) {
		r.fail("the reason %q, helped by %q, is none", c.Reason, c.Remedy)
	}
	if c.Why != "" && c.Reason != vocabulary.NeedsConsent {
		r.fail("it says why, which is said of %s only", vocabulary.NeedsConsent)
	}
	return c
}

func (d *Forgotten) change(r *reading) event.Change {
	c := &event.Forgotten{Object: d.Object, Events: d.Erased, Account: r.account(d.Cap, d.Spent, d.Earned)}
	for _, one := range d.Chains {
		c.Chains = append(c.Chains, event.Remnant{Question: r.question(one.Question), Policy: r.policy(one.Policy), Spent: one.Spent})
	}
	return c
}

func (d *Stated) change(r *reading) event.Change {
	return &event.Stated{Object: d.Object, Forgotten: d.Forgotten, Events: d.Events, Account: r.account(d.Cap, d.Spent, d.Earned)}
}

// zeroIfNil returns a value that may be missing.
func zeroIfNil[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}
