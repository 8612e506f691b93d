package evidence

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// teller computes the summary of a statement from its events alone. It applies the rules of
// package fold, as far as the events of one object allow.
type teller struct {
	*event.Glossary
	out     Statement
	last    event.Event
	listed  []uint64 // numbers of the events about the object
	account event.Account
	chains  map[uint32]*toldChain
	nanos   int64 // total cost of the chains, in nano-nats
	// withdrawn is the event of the object's last withdrawal, or 0.
	withdrawn uint64
	// proven has the time from which the first policy is known to allow no more than the second.
	proven   map[[2]uint32]time.Time
	compared int // number of comparisons of policies
	// fault is called with what is wrong with the current event.
	fault func(format string, args ...any)
}

// tell adds the next event to the summary.
func (t *teller) tell(ev event.Event) {
	if ev.Number <= t.last.Number || ev.Time.Before(t.last.Time) {
		t.fault("it comes behind event %d, of %v", t.last.Number, t.last.Time)
	}
	t.last = ev
	t.Use(ev.Change)
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
		t.out.Ledger, t.out.Created = uuid.UUID(c.ID).String(), ev.Time
		t.out.Currency, t.out.LogKey = c.Currency, c.LogKey
	case *event.Forgotten:
		t.begin(c, ev)
	}
}

// begin restores what was kept of the object when its earlier events were erased.
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

// count updates the total cost of the chains after one of them changed. Adding up all chains at
// each event would take quadratic time.
func (t *teller) count(c *toldChain) {
	now := plus(c.past, plus(c.before, c.spent())).Nano()
	t.nanos -= c.counted
	if t.nanos > math.MaxInt64-now {
		t.fault("the chains cost more than can be counted")
		now = 0
	}
	t.nanos += now
	c.counted = now
}

// spent returns the total cost of the chains, or the largest ε if the total is larger.
func (t *teller) spent() privacy.Epsilon {
	sum, err := privacy.EpsilonFromNano(t.nanos)
	if err != nil {
		return privacy.MaxEpsilon()
	}
	return sum
}

// about adds an event about the object.
func (t *teller) about(ev event.Event) {
	before := t.account.Spent
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
		ch.answered = plus(ch.answered, c.Epsilon)
		t.count(ch)
		t.out.Charges = append(t.out.Charges, StatedResponse{
			Question: t.name(c.Question), Epsilon: c.Epsilon, Event: ev.Number, Time: ev.Time,
		})
	case *event.Held:
		t.hold(c, ev)
	case *event.Sold:
		t.sell(c, ev)
	case *event.Withdrawn:
		t.withdrawn = ev.Number
	case *event.EpochBegun:
		t.beginEpoch(c, ev.Number)
	case *event.TermsChanged:
		t.changeTerms(c, ev)
	case *event.Stated:
		t.account.Spent = t.spent()
		t.compare(c)
		if c.Account != t.account {
			t.fault("it says that the object has spent ε=%s of %s and earned %d; by the events it is ε=%s of %s and %d",
				c.Spent, c.Cap, c.Earned, t.account.Spent, t.account.Cap, t.account.Earned)
		}
	}
	t.account.Spent = t.spent()
	// a cap may be lowered below the spent ε, so only increases are checked
	if before.Less(t.account.Spent) && t.account.Cap.Less(t.account.Spent) {
		t.fault("the object has spent ε=%s of %s", t.account.Spent, t.account.Cap)
	}
}

// hold checks an event of a reservation.
func (t *teller) hold(c *event.Held, ev event.Event) {
	r, known := t.Reservations[c.Sale]
	if !known || !r.Holds(ev) {
		t.fault("it is not part of reservation %d", c.Sale)
		return
	}
	if under := t.chain(r.Question).policy; under != c.Policy {
		t.fault("it is reserved under another policy than it was under")
	}
}

// changeTerms applies new terms. Without consent they must not allow more than the old terms.
func (t *teller) changeTerms(c *event.TermsChanged, ev event.Event) {
	ch, known := t.chains[c.Question]
	if !known {
		t.fault("the terms change in question %q, in which the object was never enrolled", t.name(c.Question))
		return
	}
	if c.Consent == "" {
		t.checkLess(c, ch.policy, ev)
	}
	ch.policy, t.account.Cap = c.Policy, c.Cap
	t.out.Terms = append(t.out.Terms, StatedTerms{
		t.name(c.Question), t.Policies[c.Policy], c.Cap, c.Consent, ev.Number, ev.Time,
	})
}

// checkLess records a fault if new terms may allow more than the old ones.
func (t *teller) checkLess(c *event.TermsChanged, under uint32, ev event.Event) {
	if t.account.Cap.Less(c.Cap) {
		t.fault("without consent the cap rises from ε=%s to %s", t.account.Cap, c.Cap)
	}
	pair := [2]uint32{c.Policy, under}
	if from, known := t.proven[pair]; known && !ev.Time.Before(from) {
		return
	}
	if t.compared++; t.compared > mostCompared {
		t.fault("the terms change more often without consent than anybody compares")
		return
	}
	if err := t.terms(c.Policy).AtMost(t.terms(under), ev.Time); err != nil {
		t.fault("without consent: %v", err)
		return
	}
	t.proven[pair] = ev.Time
}

// mostCompared is the maximum number of comparisons of policies for a statement. Each may take a
// millisecond, and the statement may be hostile.
const mostCompared = 10_000

// terms returns a policy by its number. For no policy it returns one with the largest ε as its
// ceiling.
func (t *teller) terms(number uint32) policy.Policy {
	if p := t.Policies[number]; p != nil {
		return *p
	}
	return policy.Fixed(privacy.MaxEpsilon())
}

// beginEpoch ends the current epoch of a chain and starts the next one.
func (t *teller) beginEpoch(c *event.EpochBegun, number uint64) {
	ch := t.chain(c.Question)
	if ch.unused() && ch.before.IsZero() {
		t.fault("it ends an epoch in which nothing happened")
	}
	old := t.state(c.Question, ch)
	old.Ended = number
	ch.ended, ch.past, ch.before = append(ch.ended, old), plus(ch.past, old.Spent), privacy.Epsilon{}
	ch.bound, ch.levels, ch.holders, ch.answered = false, nil, nil, privacy.Epsilon{}
	t.addEntries(ch, 1)
	ch.lowest, ch.highest = privacy.Epsilon{}, privacy.Epsilon{}
}

// state returns the description of the current epoch of a chain.
func (t *teller) state(question uint32, c *toldChain) StatedChain {
	return StatedChain{
		Question: t.name(question), Epoch: len(c.ended) + 1, Policy: t.Policies[c.policy],
		Withdrawn: t.withdrawn > c.enrolled,
		Epsilon:   c.highest, Charged: c.answered, Forgotten: c.before, Spent: plus(c.before, c.spent()),
	}
}

// compare compares the list of events in a stated event with the events that the statement has.
func (t *teller) compare(c *event.Stated) {
	if c.Forgotten != t.out.Forgotten {
		t.fault("it lists the events behind event %d, by which the object was forgotten; here that is event %d",
			c.Forgotten, t.out.Forgotten)
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
	if q := t.Questions[question]; q != nil {
		return q.Name
	}
	return "" // a fault for the unreadable fact was already recorded
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

// chain returns the chain of a question. It records a fault if the object does not take part in
// the question.
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
	if _, recorded := ch.levels[epsilon]; recorded || epsilon.IsZero() || r.Method != ch.method(epsilon) {
		t.fault("a response at ε=%s by %s, where the chain has %d others", epsilon, r.Method, len(ch.levels))
	}
	ch.add(epsilon, r.Value)
	t.addEntries(ch, t.levelEntries(question))
	t.count(ch)
	t.out.Released = append(t.out.Released, StatedResponse{
		t.name(question), epsilon, t.value(question, epsilon, r.Value), r.Method.String(), ev.Number, ev.Time,
	})
}

func (t *teller) value(question uint32, epsilon privacy.Epsilon, v event.Value) string {
	if q := t.Questions[question]; q != nil && q.Has(epsilon, v) {
		return q.Text(epsilon, v)
	}
	return ""
}

// sell adds the sale of a response, which is new or was recorded before.
func (t *teller) sell(c *event.Sold, ev event.Event) {
	r, known := t.Sales[c.Sale]
	if !known || !r.Holds(ev) {
		t.fault("it is not part of sale %d", c.Sale)
		return
	}
	if c.Method != event.MethodResale {
		t.respond(r.Question, r.Epsilon, c.Response, ev)
	} else {
		ch := t.chain(r.Question)
		if recorded, known := ch.levels[r.Epsilon]; !known || recorded != c.Value {
			t.fault("it sells another response than was recorded")
		}
	}
	t.hand(t.chains[r.Question], r.Epsilon, r.Buyer)
	if t.account.Earned += c.Price; int64(t.account.Earned) < 0 {
		t.fault("the earnings are more than can be counted")
	}
	t.out.Sales = append(t.out.Sales, StatedSale{
		c.Sale, t.Buyers[r.Buyer], t.name(r.Question), r.Epsilon, t.value(r.Question, r.Epsilon, c.Value),
		int64(c.Price), ev.Number, ev.Time,
	})
}

// hand records that a buyer holds a level.
func (t *teller) hand(ch *toldChain, epsilon privacy.Epsilon, buyer uint32) {
	if ch.holders == nil {
		ch.holders = map[holding]bool{}
	}
	if one := (holding{epsilon, buyer}); !ch.holders[one] {
		ch.holders[one] = true
		t.addEntries(ch, 1)
	}
}

// levelEntries returns how many entries of a chain one level of a question needs.
func (t *teller) levelEntries(question uint32) int {
	if q := t.Questions[question]; q != nil {
		return q.LevelEntries()
	}
	return 1 // a fault for the unreadable fact was already recorded
}

// addEntries adds to the number of entries of a chain, and records a fault above the maximum.
// Entries that a ledger keeps free for reservations are not counted, because no event about an
// object says that a reservation was cancelled.
func (t *teller) addEntries(ch *toldChain, n int) {
	if ch.entries += n; ch.entries > event.MaxEntries {
		t.fault("the chain has %d entries; at most %d are possible", ch.entries, event.MaxEntries)
	}
}

// statement returns the summary. It records a fault if the last event is not the one that ends the
// list.
func (t *teller) statement() Statement {
	if c, ok := t.last.Change.(*event.Stated); !ok || c.Object != t.out.Object {
		t.fault("no event closes the list of those about %q", t.out.Object)
	}
	for _, number := range slices.Sorted(maps.Values(t.Spare)) {
		t.fault("nothing in it needs event %d", number)
	}
	t.out.Event, t.out.Time = t.last.Number, t.last.Time
	t.out.Cap, t.out.Spent, t.out.Earned = t.account.Cap, t.account.Spent, int64(t.account.Earned)
	for _, number := range slices.Sorted(maps.Keys(t.chains)) {
		c := t.chains[number]
		t.out.Chains = append(append(t.out.Chains, c.ended...), t.state(number, c))
	}
	return t.out
}

// toldChain is the state of a chain, computed from the events of a statement.
type toldChain struct {
	enrolled uint64 // the event of the last enrolment in the question
	policy   uint32
	bound    bool // whether it is bound to a true value
	// levels has the responses of the epoch by level. Their order does not matter for the cost.
	levels   map[privacy.Epsilon]event.Value
	holders  map[holding]bool // buyers that hold levels of the epoch
	entries  int              // in all epochs, see event.MaxEntries
	lowest   privacy.Epsilon  // the lowest level; 0 if there is none
	highest  privacy.Epsilon  // the highest level; 0 if there is none
	answered privacy.Epsilon  // cost of answers to panel queries in the epoch
	ended    []StatedChain    // earlier epochs
	past     privacy.Epsilon  // cost of the earlier epochs
	// before is the ε that was spent before the object was forgotten. It is not part of answered.
	before  privacy.Epsilon
	counted int64 // its part of the total cost, in nano-nats
}

// holding is a level that a buyer holds.
type holding struct {
	epsilon privacy.Epsilon
	buyer   uint32
}

// method returns how a response at a new level of the epoch must have been made.
func (c *toldChain) method(epsilon privacy.Epsilon) event.Method {
	switch {
	case c.highest.Less(epsilon):
		return event.MethodAt(len(c.levels), len(c.levels))
	case epsilon.Less(c.lowest):
		return event.MethodAt(0, len(c.levels))
	}
	return event.MethodInsert
}

// add records a level of the epoch.
func (c *toldChain) add(epsilon privacy.Epsilon, v event.Value) {
	if c.levels == nil {
		c.levels, c.lowest = map[privacy.Epsilon]event.Value{}, epsilon
	}
	c.levels[epsilon] = v
	if epsilon.Less(c.lowest) {
		c.lowest = epsilon
	}
	if c.highest.Less(epsilon) {
		c.highest = epsilon
	}
}

// spent returns the cost of the epoch, without what was spent before the object was forgotten.
func (c *toldChain) spent() privacy.Epsilon { return plus(c.highest, c.answered) }

// unused reports whether nothing has happened in the epoch.
func (c *toldChain) unused() bool { return len(c.levels) == 0 && !c.bound && c.answered.IsZero() }

func newTeller(object string) *teller {
	out := Statement{
		Format: event.StatementFormat, Object: object, Chains: []StatedChain{}, Released: []StatedResponse{},
		Terms: []StatedTerms{}, Charges: []StatedResponse{}, Sales: []StatedSale{},
	}
	return &teller{
		Glossary: event.NewGlossary(), chains: map[uint32]*toldChain{}, proven: map[[2]uint32]time.Time{}, out: out,
	}
}

// plus returns a + b, or the largest ε if the sum is larger. So an impossible statement cannot
// overflow to a possible one.
func plus(a, b privacy.Epsilon) privacy.Epsilon {
	sum, err := a.Add(b)
	if err != nil {
		return privacy.MaxEpsilon()
	}
	return sum
}
