package evidence

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Fact is an event of the log in a statement: all that it says, in words, with its salt and its leaf. Questions,
// policies and buyers are given as they were defined; the events that defined them are facts before.
type Fact struct {
	Event uint64    `json:"event"`
	Time  time.Time `json:"time"`
	// Kind tells which fields there are:
	//   created    ID, Currency, LogKey of the ledger
	//   question   Number, Question, Values, Encoding, Mechanism
	//   policy     Number, Policy
	//   buyer      Number, Buyer
	//   enrolled   Object, Question, Policy (if any), NoiseKey (if any), Cap
	//   bound      Object, Question, Truth: a keyed hash of the true value, which says nothing without the key
	//   released   Object, Question, Epsilon, Response, Method
	//   charged    Object, Question, Epsilon
	//   reserved   Sale, Buyer, Question, Epsilon, Objects, Price, Refused, Expires; Price is that of all objects
	//   held       Sale, Object, Price
	//   sale       Sale, Buyer, Question, Epsilon, Objects, Price, Refused, and how the responses came about
	//   sold       Sale, Object, Price, Response, Method; the sale tells Question and Epsilon
	//   withdrawn  Object
	//   epoch      Object, Question: the chain is closed, and a new one begins
	//   refused    Refusal, Question
	//   forgotten  Object, Erased, Cap, Spent, Earned, Chains: what stayed when Erased events were destroyed
	//   stated     Object, Forgotten, Events, Cap, Spent, Earned
	Kind         string                `json:"kind"`
	ID           string                `json:"id,omitempty"`
	Currency     string                `json:"currency,omitempty"`
	LogKey       string                `json:"log_key,omitempty"`
	Number       uint32                `json:"number,omitempty"`
	Sale         uint64                `json:"sale,omitempty"`
	Buyer        string                `json:"buyer,omitempty"`
	Object       string                `json:"object,omitempty"`
	Question     string                `json:"question,omitempty"`
	Values       []string              `json:"values,omitempty"`
	Encoding     vocabulary.Encoding   `json:"encoding,omitempty"`
	Mechanism    *vocabulary.Mechanism `json:"mechanism,omitempty"`
	NoiseKey     uint32                `json:"noise_key,omitempty"` // its number; 0 for chance
	Policy       *policy.Policy        `json:"policy,omitempty"`
	Cap          *privacy.Epsilon      `json:"cap,omitempty"`
	Epsilon      *privacy.Epsilon      `json:"epsilon,omitempty"`
	Spent        *privacy.Epsilon      `json:"spent,omitempty"`
	Earned       *int64                `json:"earned,omitempty"` // in minor units of the currency
	Response     string                `json:"response,omitempty"`
	Method       string                `json:"method,omitempty"`
	Truth        Hex                   `json:"truth,omitempty"`
	Objects      uint64                `json:"objects,omitempty"`
	Price        *int64                `json:"price,omitempty"` // in minor units of the currency
	Draws        uint64                `json:"draws,omitempty"`
	Resales      uint64                `json:"resales,omitempty"`
	Degradations uint64                `json:"degradations,omitempty"`
	Insertions   uint64                `json:"insertions,omitempty"`
	Upgrades     uint64                `json:"upgrades,omitempty"`
	Expires      *time.Time            `json:"expires,omitempty"`
	Refusal      *vocabulary.Refusal   `json:"refusal,omitempty"`
	Refused      uint64                `json:"refused,omitempty"`
	Forgotten    uint64                `json:"forgotten,omitempty"` // the event that destroyed what came before
	Erased       uint64                `json:"erased,omitempty"`
	Chains       []FactChain           `json:"chains,omitempty"`
	Events       []uint64              `json:"events,omitempty"` // all about Object, since then
	Salt         Hex                   `json:"salt"`
	Leaf         tlog.Hash             `json:"leaf"`
}

// FactChain is what stayed of an object's chain when the object was forgotten.
type FactChain struct {
	Question string          `json:"question"`
	Policy   *policy.Policy  `json:"policy,omitempty"`
	Spent    privacy.Epsilon `json:"spent"`
}

// glossary is what facts refer to: what the events before them defined and began.
type glossary struct {
	questions    map[uint32]*event.Question
	policies     map[uint32]*policy.Policy
	buyers       map[uint32]string
	reservations map[uint64]begun
	sales        map[uint64]begun
	// The numbers of the same, by what they stand for; a policy's by its canonical JSON.
	named, planned, known map[string]uint32
}

// begun is a reservation or sale as its event tells it.
type begun struct {
	event.Event
	event.Deal
}

// holds tells whether an event may be one of the objects of the sale.
func (b begun) holds(ev event.Event) bool {
	return b.Event.Number < ev.Number && ev.Number-b.Event.Number <= b.Objects && ev.Time.Equal(b.Event.Time)
}

func NewGlossary() glossary {
	return glossary{
		map[uint32]*event.Question{}, map[uint32]*policy.Policy{}, map[uint32]string{}, map[uint64]begun{}, map[uint64]begun{},
		map[string]uint32{}, map[string]uint32{}, map[string]uint32{},
	}
}

// Learn takes in what an event defines or begins. In a log nothing is defined twice.
func (g *glossary) Learn(ev event.Event) error {
	twice := false
	switch c := ev.Change.(type) {
	case *event.QuestionDefined:
		twice = g.named[c.Name] != 0 || g.questions[c.Number] != nil
		g.named[c.Name], g.questions[c.Number] = c.Number, event.NewQuestion(c)
	case *event.PolicyDefined:
		p, err := policy.Parse([]byte(c.JSON))
		if err != nil {
			return err
		}
		twice = g.planned[c.JSON] != 0 || g.policies[c.Number] != nil
		g.planned[c.JSON], g.policies[c.Number] = c.Number, &p
	case *event.BuyerNamed:
		twice = g.known[c.Name] != 0 || g.buyers[c.Number] != ""
		g.known[c.Name], g.buyers[c.Number] = c.Number, c.Name
	case *event.Reserved:
		_, twice = g.reservations[c.Sale]
		g.reservations[c.Sale] = begun{ev, c.Deal}
	case *event.SaleMade:
		_, twice = g.sales[c.Sale]
		g.sales[c.Sale] = begun{ev, c.Deal}
	}
	if twice {
		return errors.New("its number, or what it defines, is that of another")
	}
	return nil
}

// Fact puts an event in words.
func (g *glossary) Fact(ev event.Event, leaf tlog.Hash) (Fact, error) {
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

func amount(n uint64) *int64 { v := int64(n); return &v }

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

// zeroIfNil returns a value that may be missing. A fact with a missing one is found to be another than it should.
func zeroIfNil[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
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
		if !slices.Contains(event.ReasonCodes(), c.Reason) || !slices.Contains(event.HelpCodes(), c.Helps) {
			r.fail("the reason %q, helped by %q, is none", c.Reason, c.Helps)
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
