package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

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
	Kind         string           `json:"kind"`
	ID           string           `json:"id,omitempty"`
	Currency     string           `json:"currency,omitempty"`
	LogKey       string           `json:"log_key,omitempty"`
	Number       uint32           `json:"number,omitempty"`
	Sale         uint64           `json:"sale,omitempty"`
	Buyer        string           `json:"buyer,omitempty"`
	Object       string           `json:"object,omitempty"`
	Question     string           `json:"question,omitempty"`
	Values       []string         `json:"values,omitempty"`
	Encoding     Encoding         `json:"encoding,omitempty"`
	Mechanism    *Mechanism       `json:"mechanism,omitempty"`
	NoiseKey     uint32           `json:"noise_key,omitempty"` // its number; 0 for chance
	Policy       *policy.Policy   `json:"policy,omitempty"`
	Cap          *privacy.Epsilon `json:"cap,omitempty"`
	Epsilon      *privacy.Epsilon `json:"epsilon,omitempty"`
	Spent        *privacy.Epsilon `json:"spent,omitempty"`
	Earned       *int64           `json:"earned,omitempty"` // in minor units of the currency
	Response     string           `json:"response,omitempty"`
	Method       string           `json:"method,omitempty"`
	Truth        Hex              `json:"truth,omitempty"`
	Objects      uint64           `json:"objects,omitempty"`
	Price        *int64           `json:"price,omitempty"` // in minor units of the currency
	Draws        uint64           `json:"draws,omitempty"`
	Resales      uint64           `json:"resales,omitempty"`
	Degradations uint64           `json:"degradations,omitempty"`
	Insertions   uint64           `json:"insertions,omitempty"`
	Upgrades     uint64           `json:"upgrades,omitempty"`
	Expires      *time.Time       `json:"expires,omitempty"`
	Refusal      *Refusal         `json:"refusal,omitempty"`
	Refused      uint64           `json:"refused,omitempty"`
	Forgotten    uint64           `json:"forgotten,omitempty"` // the event that destroyed what came before
	Erased       uint64           `json:"erased,omitempty"`
	Chains       []FactChain      `json:"chains,omitempty"`
	Events       []uint64         `json:"events,omitempty"` // all about Object, since then
	Salt         Hex              `json:"salt"`
	Leaf         tlog.Hash        `json:"leaf"`
}

// FactChain is what stayed of an object's chain when the object was forgotten.
type FactChain struct {
	Question string          `json:"question"`
	Policy   *policy.Policy  `json:"policy,omitempty"`
	Spent    privacy.Epsilon `json:"spent"`
}

// glossary is what facts refer to: what the events before them defined and began.
type glossary struct {
	questions    map[uint32]*question
	policies     map[uint32]*policy.Policy
	buyers       map[uint32]string
	reservations map[uint64]begun
	sales        map[uint64]begun
	// The numbers of the same, by what they stand for; a policy's by its canonical JSON.
	named, planned, known map[string]uint32
}

// begun is a reservation or sale as its event tells it.
type begun struct {
	event
	deal
}

// holds tells whether an event may be one of the objects of the sale.
func (b begun) holds(ev event) bool {
	return b.event.number < ev.number && ev.number-b.event.number <= b.objects && ev.time.Equal(b.event.time)
}

func newGlossary() glossary {
	return glossary{
		map[uint32]*question{}, map[uint32]*policy.Policy{}, map[uint32]string{}, map[uint64]begun{}, map[uint64]begun{},
		map[string]uint32{}, map[string]uint32{}, map[string]uint32{},
	}
}

// learn takes in what an event defines or begins. In a log nothing is defined twice.
func (g *glossary) learn(ev event) error {
	twice := false
	switch c := ev.change.(type) {
	case *questionDefined:
		twice = g.named[c.Name] != 0 || g.questions[c.number] != nil
		g.named[c.Name], g.questions[c.number] = c.number, newQuestion(c)
	case *policyDefined:
		p, err := policy.Parse([]byte(c.json))
		if err != nil {
			return err
		}
		twice = g.planned[c.json] != 0 || g.policies[c.number] != nil
		g.planned[c.json], g.policies[c.number] = c.number, &p
	case *buyerNamed:
		twice = g.known[c.name] != 0 || g.buyers[c.number] != ""
		g.known[c.name], g.buyers[c.number] = c.number, c.name
	case *reserved:
		_, twice = g.reservations[c.sale]
		g.reservations[c.sale] = begun{ev, c.deal}
	case *saleMade:
		_, twice = g.sales[c.sale]
		g.sales[c.sale] = begun{ev, c.deal}
	}
	if twice {
		return errors.New("its number, or what it defines, is that of another")
	}
	return nil
}

// fact puts an event in words.
func (g *glossary) fact(ev event, leaf tlog.Hash) (Fact, error) {
	w := &wording{glossary: g, Fact: Fact{Event: ev.number, Time: ev.time, Kind: ev.change.kind().String(), Salt: ev.salt[:], Leaf: leaf}}
	w.put(ev.change)
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
	return q.name
}

func (w *wording) policy(number uint32) *policy.Policy {
	p := w.policies[number]
	if p == nil && number != 0 {
		w.missing("policy %d is not defined before", number)
	}
	return p
}

func (w *wording) respond(number uint32, epsilon privacy.Epsilon, r response) {
	q := w.questions[number]
	if q == nil || !q.has(epsilon, r.value) {
		w.missing("question %d is not defined before, with a response of %v", number, r.value)
		return
	}
	w.Response, w.Method = q.text(epsilon, r.value), r.method.String()
}

func (w *wording) deal(d deal) {
	if w.Buyer = w.buyers[d.buyer]; w.Buyer == "" {
		w.missing("buyer %d is not named before", d.buyer)
	}
	w.Sale, w.Question, w.Epsilon, w.Objects, w.Price, w.Refused = d.sale, w.question(d.question), &d.epsilon, d.objects, amount(d.price), d.refused
}

func (w *wording) account(a account) {
	w.Cap, w.Spent, w.Earned = &a.cap, &a.spent, amount(a.earned)
}

func amount(n uint64) *int64 { v := int64(n); return &v }

func (w *wording) put(c change) {
	switch c := c.(type) {
	case *created:
		w.ID, w.Currency, w.LogKey = uuid.UUID(c.id).String(), c.currency, c.logKey
	case *questionDefined:
		w.Number, w.Question, w.Values, w.Encoding, w.Mechanism = c.number, c.Name, c.Values, c.Encoding, c.Mechanism
	case *policyDefined:
		w.Number, w.Policy = c.number, w.policy(c.number)
	case *buyerNamed:
		w.Number, w.Buyer = c.number, c.name
	case *enrolled:
		w.Object, w.Question, w.Policy, w.NoiseKey, w.Cap = c.object, w.question(c.question), w.policy(c.policy), c.noise, &c.cap
	case *truthBound:
		w.Object, w.Question, w.Truth = c.object, w.question(c.question), c.tag[:]
	case *released:
		w.Object, w.Question, w.Epsilon = c.object, w.question(c.question), &c.epsilon
		w.respond(c.question, c.epsilon, c.response)
	case *charged:
		w.Object, w.Question, w.Epsilon = c.object, w.question(c.question), &c.epsilon
	case *reserved:
		w.deal(c.deal)
		w.Expires = &c.expires
	case *held:
		w.Sale, w.Object, w.Price = c.sale, c.object, amount(c.price)
	case *saleMade:
		w.deal(c.deal)
		w.Draws, w.Resales, w.Degradations, w.Insertions, w.Upgrades = c.tally.draws, c.tally.resales, c.tally.degradations, c.tally.insertions, c.tally.upgrades
	case *sold:
		w.Sale, w.Object, w.Price = c.sale, c.object, amount(c.price)
		w.respond(w.sales[c.sale].question, w.sales[c.sale].epsilon, c.response)
	case *withdrawn:
		w.Object = c.object
	case *epochBegun:
		w.Object, w.Question = c.object, w.question(c.question)
	default:
		w.putLong(c)
	}
}

func (w *wording) putLong(c change) {
	switch c := c.(type) {
	case *objectRefused:
		w.Refusal, w.Question = &c.Refusal, w.question(c.question)
	case *forgotten:
		w.Object, w.Erased = c.object, c.events
		w.account(c.account)
		for _, r := range c.chains {
			w.Chains = append(w.Chains, FactChain{w.question(r.question), w.policy(r.policy), r.spent})
		}
	case *stated:
		w.Object, w.Forgotten, w.Events = c.object, c.forgotten, c.events
		w.account(c.account)
	default:
		w.missing("a statement has no event of the kind %s", c.kind())
	}
}

// change returns what the event says that a fact puts in words, or why there is none.
func (g *glossary) change(f Fact) (change, error) {
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

func (r *reading) respond(number uint32, epsilon privacy.Epsilon) response {
	q := r.questions[number]
	if q == nil {
		r.fail("the sale or question it belongs to is not there before")
		return response{}
	}
	value, known := q.read(epsilon, r.Response)
	how, possible := methodOf(r.Method)
	if !known || !possible {
		r.fail("the response %q by the method %q is none", r.Response, r.Method)
	}
	return response{value: value, method: how}
}

func (r *reading) deal() deal {
	buyer := r.known[r.Buyer]
	if buyer == 0 {
		r.fail("buyer %q is not named before", r.Buyer)
	}
	return deal{r.Sale, buyer, r.question(r.Question), zeroIfNil(r.Epsilon), r.Objects, r.amount(r.Price), r.Refused}
}

func (r *reading) account() account {
	return account{zeroIfNil(r.Cap), zeroIfNil(r.Spent), r.amount(r.Earned)}
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

func (r *reading) take() change {
	switch r.Kind {
	case "created":
		id, err := uuid.Parse(r.ID)
		if err != nil {
			r.fail("the id: %w", err)
		}
		return &created{id, r.Currency, r.LogKey}
	case "question":
		q := Question{Name: r.Question, Values: r.Values, Encoding: r.Encoding, Mechanism: r.Mechanism}
		if err := vocabulary.CheckQuestion(q); err != nil {
			r.fail("%w", err)
		}
		return &questionDefined{r.Number, q}
	case "policy":
		if r.Policy == nil || r.Policy.IsZero() {
			r.fail("there is no policy")
			return nil
		}
		return &policyDefined{r.Number, r.Policy.String()}
	case "buyer":
		return &buyerNamed{r.Number, r.Buyer}
	case "enrolled":
		return &enrolled{r.Object, r.question(r.Question), r.policy(r.Policy), r.NoiseKey, zeroIfNil(r.Cap)}
	case "bound":
		c := &truthBound{object: r.Object, question: r.question(r.Question)}
		r.fill(c.tag[:], r.Truth)
		return c
	case "released":
		number := r.question(r.Question)
		return &released{r.Object, number, zeroIfNil(r.Epsilon), r.respond(number, zeroIfNil(r.Epsilon))}
	case "charged":
		return &charged{r.Object, r.question(r.Question), zeroIfNil(r.Epsilon)}
	case "reserved":
		return &reserved{r.deal(), r.expiry()}
	case "held":
		return &held{r.Object, r.Sale, r.amount(r.Price)}
	case "sale":
		return &saleMade{r.deal(), saleTally{r.Draws, r.Resales, r.Degradations, r.Insertions, r.Upgrades}}
	case "sold":
		return &sold{r.Object, r.Sale, r.amount(r.Price), r.respond(r.sales[r.Sale].question, r.sales[r.Sale].epsilon)}
	case "withdrawn":
		return &withdrawn{r.Object}
	case "epoch":
		return &epochBegun{r.Object, r.question(r.Question)}
	}
	return r.takeLong()
}

func (r *reading) expiry() time.Time {
	at := zeroIfNil(r.Expires)
	if !inLog(at) {
		r.fail("the time %v is none of a log", at)
	}
	return at
}

func (r *reading) takeLong() change {
	switch r.Kind {
	case "refused":
		c := &objectRefused{r.question(r.Question), zeroIfNil(r.Refusal)}
		if !slices.Contains(reasonCodes(), c.Reason) || !slices.Contains(helpCodes(), c.Helps) {
			r.fail("the reason %q, helped by %q, is none", c.Reason, c.Helps)
		}
		return c
	case "forgotten":
		c := &forgotten{object: r.Object, events: r.Erased, account: r.account()}
		for _, one := range r.Chains {
			c.chains = append(c.chains, remnant{r.question(one.Question), r.policy(one.Policy), one.Spent})
		}
		return c
	case "stated":
		return &stated{r.Object, r.Forgotten, r.Events, r.account()}
	}
	r.fail("a statement has no event of the kind %q", r.Kind)
	return nil
}
