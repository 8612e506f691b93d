package evidence

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/budget"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// statementFormat is the first field of every statement, and names the version of its form.
const statementFormat = "sluice statement 3"

// Statement is what the ledger has about one object, proven: everything that was ever released of it, or since it
// was last forgotten, what that cost it, and what it earned; and that nothing is left out as of the
// checkpoint. Like a [Receipt] it is a document of its own ([ReadStatement], [Statement.Verify]).
//
// That it is complete rests on an event of the log. The last of the Events says that it lists all events about the
// object, and the checkpoint is of the log up to it. The ledger records no such event unless that is so; an
// operator who writes the log with another program could. An audit of the log finds that, of any log with the
// root of the checkpoint: a statement is as good as the audit of a log that continues it.
//
// For whom it is about it says more than a receipt does: what it was refused for, what holds budget of it, and to
// whom and for how much in all the sales were that it was part of. Answers to queries about a panel
// are charged to it, and are in no statement, because they are about the panel. Nor are requests, and their
// idempotency keys.
type Statement struct {
	Format   string          `json:"format"`  // "sluice statement 3"
	Ledger   string          `json:"ledger"`  // [About.ID]
	Created  time.Time       `json:"created"` // the ledger
	Currency string          `json:"currency"`
	LogKey   string          `json:"log_key"`
	Object   string          `json:"object"`
	Event    uint64          `json:"event"` // that closes the list, and the log as of the checkpoint
	Time     time.Time       `json:"time"`
	Cap      privacy.Epsilon `json:"cap"`
	Spent    privacy.Epsilon `json:"spent"`  // over all chains; what reservations hold is not in it
	Earned   int64           `json:"earned"` // by sales, in minor units of the currency
	// Forgotten is the event that destroyed what came before, or 0. What it had cost is in Chains.
	Forgotten uint64           `json:"forgotten"`
	Chains    []StatedChain    `json:"chains"`   // in the order in which the questions were defined, and of their epochs
	Released  []StatedResponse `json:"released"` // in the order of the log, like all below
	Charges   []StatedCharge   `json:"charges"`
	Sales     []StatedSale     `json:"sales"`
	// Events are the log's, as far as they are about the object, or are needed to read those.
	Events     []Fact      `json:"events"`
	Proof      []tlog.Hash `json:"proof"` // as in [Evidence]
	Checkpoint string      `json:"checkpoint"`
}

// StatedChain is what an object has spent on a question in one epoch.
type StatedChain struct {
	Question string `json:"question"`
	// Epoch counts from 1, since the object was last forgotten. Each is about a value of its own ([Ledger.BeginEpoch]), and
	// what they cost adds up.
	Epoch     int             `json:"epoch"`
	Ended     uint64          `json:"ended"`            // the event that ended it, 0 for the current one: what was released before belongs to it
	Policy    *policy.Policy  `json:"policy,omitempty"` // nil if only the cap binds
	Withdrawn bool            `json:"withdrawn"`        // nothing more is released unless the object is enrolled again
	Epsilon   privacy.Epsilon `json:"epsilon"`          // of the highest response: all of them together cost that
	Charged   privacy.Epsilon `json:"charged"`          // by answers to queries, besides
	Forgotten privacy.Epsilon `json:"forgotten"`        // spent by what was destroyed, besides
	Spent     privacy.Epsilon `json:"spent"`            // the sum
}

// StatedResponse is a response that was recorded.
type StatedResponse struct {
	Question string          `json:"question"`
	Epsilon  privacy.Epsilon `json:"epsilon"`
	Response string          `json:"response"`
	Method   string          `json:"method"` // "raise", "degrade" or "insert"
	Event    uint64          `json:"event"`
	Time     time.Time       `json:"time"`
}

// StatedCharge is what an answer to a query about a panel cost.
type StatedCharge struct {
	Question string          `json:"question"`
	Epsilon  privacy.Epsilon `json:"epsilon"`
	Event    uint64          `json:"event"`
	Time     time.Time       `json:"time"`
}

// StatedSale is a response that was sold.
type StatedSale struct {
	Sale     uint64          `json:"sale"`
	Buyer    string          `json:"buyer"`
	Question string          `json:"question"`
	Epsilon  privacy.Epsilon `json:"epsilon"`
	Response string          `json:"response"`
	Price    int64           `json:"price"` // to the object, in minor units of the currency
	Event    uint64          `json:"event"`
	Time     time.Time       `json:"time"`
}

// NewStatement makes a statement about an object of its events, in order, with those that they refer to, for package
// ledger. proof is that they are in the log of a signed checkpoint.
func NewStatement(object string, events []Entry, proof []tlog.Hash, checkpoint []byte) (Statement, error) {
	t := newTeller(object)
	var fault error
	t.fault = func(format string, args ...any) {
		if fault == nil {
			fault = errs.Corrupt(nil, format, args...)
		}
	}
	facts := make([]Fact, 0, len(events))
	for _, ev := range events {
		t.tell(ev.Event)
		f, err := t.Fact(ev.Event, ev.Leaf)
		if err != nil {
			return Statement{}, errs.Corrupt(nil, "event %d: %v", ev.Number, err)
		}
		facts = append(facts, f)
	}
	out := t.statement()
	if fault != nil {
		return Statement{}, fmt.Errorf("object %q: %w", object, fault)
	}
	out.Events, out.Proof, out.Checkpoint = facts, proof, string(checkpoint)
	return out, nil
}

// teller tells, from the events of a statement alone, what the object comes to. It follows the rules of
// apply as far as one object shows them.
type teller struct {
	glossary
	out     Statement
	last    event.Event
	listed  []uint64 // the events about the object
	account event.Account
	chains  map[uint32]*toldChain
	nanos   int64 // what they cost together, in nano-nats
	// withdrawn is the event by which the object last withdrew, or 0.
	withdrawn uint64
	// fault is called with what is wrong with the event being told.
	fault func(format string, args ...any)
}

type toldChain struct {
	enrolled uint64 // the event by which the object last came to the question
	policy   uint32
	bound    bool // to a truth
	levels   []rrchain.LevelOf[event.Value]
	answered privacy.Epsilon // what answers about panels cost
	ended    []StatedChain   // the epochs before
	past     privacy.Epsilon // that they cost
	before   privacy.Epsilon // spent by what was destroyed; answered is what answers cost since
	counted  int64           // what it costs as far as the sum of all has it, in nano-nats
}

// current returns the highest level of the epoch, or 0.
func (c *toldChain) current() privacy.Epsilon {
	if len(c.levels) == 0 {
		return privacy.Epsilon{}
	}
	return c.levels[len(c.levels)-1].Epsilon
}

// find returns the place of a level, or where it would stand.
func (c *toldChain) find(epsilon privacy.Epsilon) (place int, recorded bool) {
	return slices.BinarySearchFunc(c.levels, epsilon, func(l rrchain.LevelOf[event.Value], e privacy.Epsilon) int { return l.Epsilon.Compare(e) })
}

// spent returns the ε that the epoch has cost, but for what was destroyed.
func (c *toldChain) spent() privacy.Epsilon { return budget.Plus(c.current(), c.answered) }

// unused tells whether nothing has happened in the epoch.
func (c *toldChain) unused() bool { return len(c.levels) == 0 && !c.bound && c.answered.IsZero() }

func newTeller(object string) *teller {
	return &teller{glossary: NewGlossary(), chains: map[uint32]*toldChain{}, out: Statement{
		Format: statementFormat, Object: object, Chains: []StatedChain{}, Released: []StatedResponse{}, Charges: []StatedCharge{}, Sales: []StatedSale{},
	}}
}

// tell takes in the next event.
func (t *teller) tell(ev event.Event) {
	if ev.Number <= t.last.Number || ev.Time.Before(t.last.Time) {
		t.fault("it comes behind event %d, of %v", t.last.Number, t.last.Time)
	}
	t.last = ev
	if err := t.Learn(ev); err != nil {
		t.fault("%v", err)
	}
	if c, ok := ev.Change.(event.Personal); ok {
		if c.About() != t.out.Object {
			t.fault("it is about %q", c.About())
		}
		t.about(ev)
		t.listed = append(t.listed, ev.Number)
		return
	}
	switch c := ev.Change.(type) {
	case *event.Created:
		if ev.Number != 1 {
			t.fault("a log begins with the creation of the ledger")
		}
		h := headerOf(event.About{Created: *c, At: ev.Time})
		t.out.Ledger, t.out.Created, t.out.Currency, t.out.LogKey = h.ledger, h.created, h.currency, h.logKey
	case *event.Forgotten:
		t.begin(c, ev)
	}
}

// begin takes in what stayed of the object when what came before was destroyed.
func (t *teller) begin(c *event.Forgotten, ev event.Event) {
	if c.Object != t.out.Object || len(t.listed) > 0 || t.out.Forgotten != 0 {
		t.fault("it destroyed what is there")
	}
	t.out.Forgotten, t.withdrawn, t.account = ev.Number, ev.Number, c.Account
	for _, r := range c.Chains {
		if old := t.chains[r.Question]; old != nil {
			t.nanos -= old.counted
		}
		t.chains[r.Question] = &toldChain{policy: r.Policy, before: r.Spent}
		t.count(t.chains[r.Question])
	}
	if spent := t.spent(); spent != c.Spent {
		t.fault("the object had spent %s, its chains %s", c.Spent, spent)
	}
}

// count brings the sum of what the chains cost up to date with one of them. Adding all of them up at each event would
// take as long as the square of their number.
func (t *teller) count(c *toldChain) {
	now := budget.Plus(c.past, budget.Plus(c.before, c.spent())).Nano()
	t.nanos -= c.counted
	if t.nanos > math.MaxInt64-now {
		t.fault("the chains cost more than can be counted")
		now = 0
	}
	t.nanos += now
	c.counted = now
}

// spent is what the chains cost, or the largest ε there is.
func (t *teller) spent() privacy.Epsilon {
	sum, err := privacy.EpsilonFromNano(t.nanos)
	if err != nil {
		return privacy.MaxEpsilon()
	}
	return sum
}

// about takes in an event about the object.
func (t *teller) about(ev event.Event) {
	switch c := ev.Change.(type) {
	case *event.Enrolled:
		t.enroll(c, ev.Number)
	case *event.TruthBound:
		ch := t.chain(c.Question)
		if ch.bound {
			t.fault("the chain is bound to its truth twice")
		}
		ch.bound = true
	case *event.Released:
		t.respond(c.Question, c.Epsilon, c.Response, ev)
	case *event.Charged:
		ch := t.chain(c.Question)
		ch.answered = budget.Plus(ch.answered, c.Epsilon)
		t.count(ch)
		t.out.Charges = append(t.out.Charges, StatedCharge{t.name(c.Question), c.Epsilon, ev.Number, ev.Time})
	case *event.Held:
		if r, known := t.reservations[c.Sale]; !known || !r.holds(ev) {
			t.fault("it is not part of reservation %d", c.Sale)
		}
	case *event.Sold:
		t.sell(c, ev)
	case *event.Withdrawn:
		t.withdrawn = ev.Number
	case *event.EpochBegun:
		t.beginEpoch(c, ev.Number)
	case *event.Stated:
		t.account.Spent = t.spent()
		t.compare(c)
		if c.Account != t.account {
			t.fault("it says that the object has spent ε=%s of %s and earned %d; by the events it is ε=%s of %s and %d",
				c.Spent, c.Cap, c.Earned, t.account.Spent, t.account.Cap, t.account.Earned)
		}
	}
	t.account.Spent = t.spent()
	if t.account.Cap.Less(t.account.Spent) {
		t.fault("the object has spent ε=%s of %s", t.account.Spent, t.account.Cap)
	}
}

// beginEpoch closes a chain.
func (t *teller) beginEpoch(c *event.EpochBegun, number uint64) {
	ch := t.chain(c.Question)
	if ch.unused() && ch.before.IsZero() {
		t.fault("it ends an epoch in which nothing happened")
	}
	old := t.state(c.Question, ch)
	old.Ended = number
	ch.ended, ch.past, ch.before = append(ch.ended, old), budget.Plus(ch.past, old.Spent), privacy.Epsilon{}
	ch.bound, ch.levels, ch.answered = false, nil, privacy.Epsilon{}
}

// state puts the current epoch of a chain in words.
func (t *teller) state(question uint32, c *toldChain) StatedChain {
	return StatedChain{
		Question: t.name(question), Epoch: len(c.ended) + 1, Policy: t.policies[c.policy], Withdrawn: t.withdrawn > c.enrolled, Epsilon: c.current(),
		Charged: c.answered, Forgotten: c.before, Spent: budget.Plus(c.before, c.spent()),
	}
}

// compare holds the list of a stated event against the events that are there.
func (t *teller) compare(c *event.Stated) {
	if c.Forgotten != t.out.Forgotten {
		t.fault("it lists the events behind event %d, by which the object was forgotten; here that is event %d", c.Forgotten, t.out.Forgotten)
	}
	for i := range max(len(c.Events), len(t.listed)) {
		switch {
		case i >= len(t.listed) || i < len(c.Events) && c.Events[i] < t.listed[i]:
			t.fault("it lists event %d, which is not here", c.Events[i])
			return
		case i >= len(c.Events) || t.listed[i] < c.Events[i]:
			t.fault("it does not list event %d, which is here", t.listed[i])
			return
		}
	}
}

func (t *teller) name(question uint32) string {
	if q := t.questions[question]; q != nil {
		return q.Name
	}
	return "" // the fact could not be read either
}

func (t *teller) enroll(c *event.Enrolled, number uint64) {
	ch, known := t.chains[c.Question]
	if !known {
		ch = &toldChain{policy: c.Policy}
		t.chains[c.Question] = ch
	} else if t.withdrawn <= ch.enrolled || ch.policy != c.Policy {
		t.fault("the object takes part in question %q already, or did under another policy", t.name(c.Question))
	}
	if !t.account.Cap.IsZero() && t.account.Cap != c.Cap {
		t.fault("the object's cap was %s", t.account.Cap)
	}
	ch.enrolled, t.account.Cap = number, c.Cap
}

// chain returns the chain in which something happens.
func (t *teller) chain(question uint32) *toldChain {
	ch, known := t.chains[question]
	if !known {
		ch = &toldChain{}
		t.chains[question] = ch
	}
	if !known || t.withdrawn > ch.enrolled {
		t.fault("the object takes no part in question %q", t.name(question))
	}
	return ch
}

// respond adds a response to a chain.
func (t *teller) respond(question uint32, epsilon privacy.Epsilon, r event.Response, ev event.Event) {
	ch := t.chain(question)
	at, recorded := ch.find(epsilon)
	if recorded || epsilon.IsZero() || r.Method != event.MethodAt(at, len(ch.levels)) {
		t.fault("a response at ε=%s by %s, where the chain has %d others", epsilon, r.Method, len(ch.levels))
	}
	ch.levels = slices.Insert(ch.levels, at, rrchain.LevelOf[event.Value]{Epsilon: epsilon, Response: r.Value})
	t.count(ch)
	t.out.Released = append(t.out.Released, StatedResponse{t.name(question), epsilon, t.value(question, epsilon, r.Value), r.Method.String(), ev.Number, ev.Time})
}

func (t *teller) value(question uint32, epsilon privacy.Epsilon, v event.Value) string {
	if q := t.questions[question]; q != nil && q.Has(epsilon, v) {
		return q.Text(epsilon, v)
	}
	return ""
}

// sell takes in a sale of a response, recorded now or before.
func (t *teller) sell(c *event.Sold, ev event.Event) {
	r, known := t.sales[c.Sale]
	if !known || !r.holds(ev) {
		t.fault("it is not part of sale %d", c.Sale)
		return
	}
	if c.Method != event.MethodResale {
		t.respond(r.Question, r.Epsilon, c.Response, ev)
	} else {
		ch := t.chain(r.Question)
		if at, recorded := ch.find(r.Epsilon); !recorded || ch.levels[at].Response != c.Value {
			t.fault("it sells another response than was recorded")
		}
	}
	if t.account.Earned += c.Price; int64(t.account.Earned) < 0 {
		t.fault("the earnings are more than can be counted")
	}
	t.out.Sales = append(t.out.Sales, StatedSale{c.Sale, t.buyers[r.Buyer], t.name(r.Question), r.Epsilon, t.value(r.Question, r.Epsilon, c.Value), int64(c.Price), ev.Number, ev.Time})
}

// statement returns what was told. The last event must close it.
func (t *teller) statement() Statement {
	if c, ok := t.last.Change.(*event.Stated); !ok || c.Object != t.out.Object {
		t.fault("no event closes the list of those about %q", t.out.Object)
	}
	t.out.Event, t.out.Time = t.last.Number, t.last.Time
	t.out.Cap, t.out.Spent, t.out.Earned = t.account.Cap, t.account.Spent, int64(t.account.Earned)
	for _, number := range slices.Sorted(maps.Keys(t.chains)) {
		c := t.chains[number]
		t.out.Chains = append(append(t.out.Chains, c.ended...), t.state(number, c))
	}
	return t.out
}

// ReadStatement reads a statement from JSON, as strictly as [ReadReceipt] reads receipts.
func ReadStatement(data []byte) (Statement, error) {
	type plain Statement
	type document struct { // the lists hide those of plain
		plain
		Chains   items[StatedChain]    `json:"chains"`
		Released items[StatedResponse] `json:"released"`
		Charges  items[StatedCharge]   `json:"charges"`
		Sales    items[StatedSale]     `json:"sales"`
		Events   items[Fact]           `json:"events"`
	}
	var in document
	var st Statement
	err := readDocument("statement", data, &in, func() any {
		st = Statement(in.plain)
		st.Chains, st.Released, st.Charges, st.Sales, st.Events = in.Chains.list, in.Released.list, in.Charges.list, in.Sales.list, in.Events.list
		st.Proof = present(st.Proof)
		st.inUTC()
		return st
	})
	if err != nil {
		return Statement{}, err
	}
	return st, nil
}

// inUTC gives all times the one spelling that statements have. Those with the offset of this machine's zone would
// otherwise be written as they were read.
func (st *Statement) inUTC() {
	st.Created, st.Time = st.Created.UTC(), st.Time.UTC()
	for i := range st.Released {
		st.Released[i].Time = st.Released[i].Time.UTC()
	}
	for i := range st.Charges {
		st.Charges[i].Time = st.Charges[i].Time.UTC()
	}
	for i := range st.Sales {
		st.Sales[i].Time = st.Sales[i].Time.UTC()
	}
	for i := range st.Events {
		f := &st.Events[i]
		if f.Time = f.Time.UTC(); f.Expires != nil {
			*f.Expires = f.Expires.UTC()
		}
	}
}

// Verify returns what is wrong with the statement: nothing, if the log that its checkpoint signs says what the
// statement says, and says that this is all. It encodes each event anew and compares it with its leaf, so that
// what was altered is named, and all leaves with the root of the log; and it tells from the events alone what the
// object has spent and earned, and compares that with the rest of the statement. It needs no ledger.
//
// keys are those that the log is known to be signed by, as for [Receipt.Verify].
func (st Statement) Verify(keys note.Verifiers) Checked {
	v := &checker{}
	v.checkFormat(st.Format, statementFormat)
	about, err := header{st.Ledger, st.Created, st.Currency, st.LogKey}.about()
	if err != nil {
		v.fault("the ledger: %v", err)
	}
	v.checkLog(about, st.Checkpoint, keys)
	if v.read && v.Head.Events != st.Event {
		v.fault("the checkpoint is of %d events, the statement of %d", v.Head.Events, st.Event)
	}
	t := newTeller(st.Object)
	for i, f := range st.Events {
		v.checkFact(t, item{i + 1, f.Event, f.Object}, f)
	}
	t.fault = v.fault
	v.checkTold(t.statement(), st)
	v.checkRoot(st.Proof)
	return v.Checked
}

// checkFact checks a fact against its leaf, and tells it.
func (v *checker) checkFact(t *teller, at item, f Fact) {
	t.fault = func(format string, args ...any) { v.faultOf(at, format, args...) }
	c, err := t.change(f)
	if err != nil {
		t.fault("%v", err)
	}
	ev := event.Event{Number: f.Event, Time: f.Time, Change: c}
	v.check(ev, proven{at, "altered: a field of the event, its salt or leaf", f.Salt, f.Leaf})
	if c == nil {
		return
	}
	t.tell(ev)
	// Fields that events of the kind do not have are in no hash.
	whole, err := t.Fact(ev, f.Leaf)
	whole.Salt = f.Salt
	if err == nil {
		err = sameText(whole, f)
	}
	if err != nil {
		t.fault("the fields are not those of such an event: %v", err)
	}
}

func sameText(want, got any) error {
	wanted, err := json.Marshal(want)
	if err != nil {
		return err
	}
	is, err := json.Marshal(got)
	if err != nil {
		return err
	}
	if at := firstDifference(is, wanted); at >= 0 {
		const before = 20 // bytes to show of what is the same
		return fmt.Errorf("%q where there should be %q", Excerpt(is, max(0, at-before)), Excerpt(wanted, max(0, at-before)))
	}
	return nil
}

// checkTold compares the readable part of a statement with what its events tell, field by field.
func (v *checker) checkTold(told, said Statement) {
	for _, field := range []struct {
		name       string
		told, said any
	}{
		{"ledger", told.Ledger, said.Ledger}, {"created", told.Created, said.Created}, {"currency", told.Currency, said.Currency}, {"log_key", told.LogKey, said.LogKey},
		{"event", told.Event, said.Event}, {"time", told.Time, said.Time}, {"cap", told.Cap, said.Cap}, {"spent", told.Spent, said.Spent},
		{"earned", told.Earned, said.Earned}, {"forgotten", told.Forgotten, said.Forgotten}, {"chains", told.Chains, said.Chains},
		{"released", told.Released, said.Released}, {"charges", told.Charges, said.Charges}, {"sales", told.Sales, said.Sales},
	} {
		if err := sameText(field.told, field.said); err != nil {
			v.fault("%s is not what the events come to: %v", field.name, err)
		}
	}
}
