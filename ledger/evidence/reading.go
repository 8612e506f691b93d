package evidence

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// change returns what the event says that a fact puts in words, or why there is none.
func (g *glossary) change(f Fact) (event.Change, error) {
	r := &reading{Fact: f, glossary: g}
	c := r.take()
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// reading is a fact being read, and what is wrong with it.
type reading struct {
	Fact
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
		r.fail("policy %s is not defined before", p)
	}
	return number
}

func (r *reading) respond(number uint32, epsilon privacy.Epsilon) event.Response {
	q := r.questions[number]
	if q == nil {
		r.fail("the sale or question it belongs to is not there before")
		return event.Response{}
	}
	value, known := q.Read(epsilon, r.Response)
	how, possible := event.ParseMethod(r.Method)
	if !known || !possible {
		r.fail("the response %q by the method %q is none", r.Response, r.Method)
	}
	return event.Response{Value: value, Method: how}
}

func (r *reading) deal() event.Deal {
	buyer := r.known[r.Buyer]
	if buyer == 0 {
		r.fail("buyer %q is not named before", r.Buyer)
	}
	return event.Deal{Sale: r.Sale, Buyer: buyer, Question: r.question(r.Question), Epsilon: zeroIfNil(r.Epsilon), Objects: r.Objects, Price: r.amount(r.Price), Refused: r.Refused}
}

func (r *reading) account() event.Account {
	return event.Account{Cap: zeroIfNil(r.Cap), Spent: zeroIfNil(r.Spent), Earned: r.amount(r.Earned)}
}

func (r *reading) amount(n *int64) uint64 {
	v := zeroIfNil(n)
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

func (r *reading) take() event.Change {
	switch r.Kind {
	case "created":
		id, err := uuid.Parse(r.ID)
		if err != nil {
			r.fail("the id: %w", err)
		}
		return &event.Created{ID: id, Currency: r.Currency, LogKey: r.LogKey}
	case "question":
		q := vocabulary.Question{Name: r.Question, Values: r.Values, Encoding: r.Encoding, Mechanism: r.Mechanism}
		if err := event.CheckQuestion(q); err != nil {
			r.fail("%w", err)
		}
		return &event.QuestionDefined{Number: r.Number, Question: q}
	case "policy":
		if r.Policy == nil || r.Policy.IsZero() {
			r.fail("there is no policy")
			return nil
		}
		return &event.PolicyDefined{Number: r.Number, JSON: r.Policy.String()}
	case "buyer":
		return &event.BuyerNamed{Number: r.Number, Name: r.Buyer}
	case "enrolled":
		return &event.Enrolled{Object: r.Object, Question: r.question(r.Question), Policy: r.policy(r.Policy), Noise: r.NoiseKey, Cap: zeroIfNil(r.Cap)}
	case "bound":
		c := &event.TruthBound{Object: r.Object, Question: r.question(r.Question)}
		r.fill(c.Tag[:], r.Truth)
		return c
	case "released":
		number := r.question(r.Question)
		return &event.Released{Object: r.Object, Question: number, Epsilon: zeroIfNil(r.Epsilon), Response: r.respond(number, zeroIfNil(r.Epsilon))}
	case "charged":
		return &event.Charged{Object: r.Object, Question: r.question(r.Question), Epsilon: zeroIfNil(r.Epsilon)}
	case "reserved":
		return &event.Reserved{Deal: r.deal(), Expires: r.expiry()}
	case "held":
		return &event.Held{Object: r.Object, Sale: r.Sale, Price: r.amount(r.Price)}
	case "sale":
		return &event.SaleMade{Deal: r.deal(), Tally: event.SaleTally{Draws: r.Draws, Resales: r.Resales, Degradations: r.Degradations, Insertions: r.Insertions, Upgrades: r.Upgrades}}
	case "sold":
		return &event.Sold{Object: r.Object, Sale: r.Sale, Price: r.amount(r.Price), Response: r.respond(r.sales[r.Sale].Question, r.sales[r.Sale].Epsilon)}
	case "withdrawn":
		return &event.Withdrawn{Object: r.Object}
	case "epoch":
		return &event.EpochBegun{Object: r.Object, Question: r.question(r.Question)}
	}
	return r.takeLong()
}

func (r *reading) expiry() time.Time {
	at := zeroIfNil(r.Expires)
	if !event.InLog(at) {
		r.fail("the time %v is none of a log", at)
	}
	return at
}

func (r *reading) takeLong() event.Change {
	switch r.Kind {
	case "refused":
		c := &event.ObjectRefused{Question: r.question(r.Question), Refusal: zeroIfNil(r.Refusal)}
		if !slices.Contains(event.ReasonCodes(), c.Reason) || !slices.Contains(event.RemedyCodes(), c.Remedy) {
			r.fail("the reason %q, helped by %q, is none", c.Reason, c.Remedy)
		}
		return c
	case "forgotten":
		c := &event.Forgotten{Object: r.Object, Events: r.Erased, Account: r.account()}
		for _, one := range r.Chains {
			c.Chains = append(c.Chains, event.Remnant{Question: r.question(one.Question), Policy: r.policy(one.Policy), Spent: one.Spent})
		}
		return c
	case "stated":
		return &event.Stated{Object: r.Object, Forgotten: r.Forgotten, Events: r.Events, Account: r.account()}
	}
	r.fail("a statement has no event of the kind %q", r.Kind)
	return nil
}

// zeroIfNil returns a value that may be missing. A fact with a missing one is found to be another than it should.
func zeroIfNil[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}
