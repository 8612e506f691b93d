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

// summary is the summary of a statement, computed from its events alone. It applies the rules of
// package fold, as far as the events of one object allow.
type summary struct {
	*event.Glossary
	out     Statement                // the lists of the summary so far; statement sets the rest
	last    event.Event              // the event added last
	listed  []uint64                 // numbers of the events about the object
	account event.Account            // what the object has spent and earned so far
	chains  map[uint32]*chainSummary // by the number of the question
	nanos   int64                    // total cost of the chains, in nano-nats
	// withdrawn is the event of the object's last withdrawal, or 0.
	withdrawn uint64
	// proven has, for the numbers of two policies, a time from which the first is known to allow no
	// more than the second.
	proven   map[[2]uint32]time.Time
	compared int // number of comparisons of policies
	// fault is called with what is wrong with the current event.
	fault func(format string, args ...any)
}

// add adds the next event to the summary, and records a fault if no ledger could have it here.
func (s *summary) add(ev event.Event) {
	if ev.Number <= s.last.Number || ev.Time.Before(s.last.Time) {
		s.fault("it follows event %d, of %v, but must precede it", s.last.Number, s.last.Time)
	}
	s.last = ev
	s.Use(ev.Change)
	if err := s.Learn(ev); err != nil {
		s.fault("%v", err)
	}
	if c, ok := ev.Change.(event.Personal); ok {
		if c.About() != s.out.Object {
			s.fault("it is about %q", c.About())
		}
		s.addPersonal(ev)
		s.listed = append(s.listed, ev.Number)
		return
	}
	switch c := ev.Change.(type) {
	case *event.Created:
		if ev.Number != 1 {
			s.fault("a log begins with the creation of the ledger")
		}
		s.out.Ledger, s.out.Created = uuid.UUID(c.ID).String(), ev.Time
		s.out.Currency, s.out.LogKey = c.Currency, c.LogKey
	case *event.Forgotten:
		s.begin(c, ev)
	}
}

// begin restores what was kept of the object when its earlier events were erased: its account and
// the cost of each chain. It is the first event about the object in a statement.
func (s *summary) begin(c *event.Forgotten, ev event.Event) {
	if c.Object != s.out.Object || len(s.listed) > 0 || s.out.Forgotten != 0 {
		s.fault("it forgets another object, or the statement still has what it erased")
	}
	// a forgotten object counts as withdrawn until it is enrolled again
	s.out.Forgotten, s.withdrawn, s.account = ev.Number, ev.Number, c.Account
	for _, r := range c.Chains {
		if old := s.chains[r.Question]; old != nil {
			s.nanos -= old.counted // only a forged statement has the chain already
		}
		s.chains[r.Question] = &chainSummary{policy: r.Policy, before: r.Spent}
		s.count(s.chains[r.Question])
	}
	if spent := s.spent(); spent != c.Spent {
		s.fault("the object had spent ε=%s, its chains ε=%s", c.Spent, spent)
	}
}

// count updates the total cost of the chains after chain c changed. It replaces the part of c that
// was counted before. Adding up all chains at each event would take quadratic time.
func (s *summary) count(c *chainSummary) {
	now := plus(c.past, plus(c.before, c.spent())).Nano()
	s.nanos -= c.counted
	if s.nanos > math.MaxInt64-now {
		s.fault("the total cost of the chains is out of range")
		now = 0
	}
	s.nanos += now
	c.counted = now
}

// spent returns the total cost of the chains, or the largest ε if the total is larger.
func (s *summary) spent() privacy.Epsilon {
	sum, err := privacy.EpsilonFromNano(s.nanos)
	if err != nil {
		return privacy.MaxEpsilon()
	}
	return sum
}

// addPersonal adds an event about the object. Afterwards, it records a fault if the event has
// raised the spent ε above the cap.
func (s *summary) addPersonal(ev event.Event) {
	before := s.account.Spent
	switch c := ev.Change.(type) {
	case *event.Enrolled:
		s.enroll(c, ev.Number)
	case *event.TruthBound:
		ch := s.chain(c.Question)
		if ch.bound {
			s.fault("the chain is bound to its true value twice")
		}
		ch.bound = true
	case *event.Released:
		s.respond(c.Question, c.Epsilon, c.Response, ev)
	case *event.Charged:
		ch := s.chain(c.Question)
		ch.answered = plus(ch.answered, c.Epsilon)
		s.count(ch)
		s.out.Charges = append(s.out.Charges, StatedResponse{
			Question: s.name(c.Question), Epsilon: c.Epsilon, Event: ev.Number, Time: ev.Time,
		})
	case *event.Held:
		s.hold(c, ev)
	case *event.Sold:
		s.sell(c, ev)
	case *event.Withdrawn:
		s.withdrawn = ev.Number
	case *event.EpochBegun:
		s.beginEpoch(c, ev.Number)
	case *event.TermsChanged:
		s.changeTerms(c, ev)
	case *event.Stated:
		s.account.Spent = s.spent()
		s.compareListed(c)
		if c.Account != s.account {
			s.fault("it says that the object has spent ε=%s of %s and earned %d; the events give ε=%s of %s and %d",
				c.Spent, c.Cap, c.Earned, s.account.Spent, s.account.Cap, s.account.Earned)
		}
	}
	s.account.Spent = s.spent()
	// a cap may be lowered below the spent ε, so only increases are checked
	if before.Less(s.account.Spent) && s.account.Cap.Less(s.account.Spent) {
		s.fault("the object has spent ε=%s of %s", s.account.Spent, s.account.Cap)
	}
}

// hold checks an event that adds the object to a reservation. The reservation must be under the
// policy that the chain has at that time.
func (s *summary) hold(c *event.Held, ev event.Event) {
	r, known := s.Reservations[c.Sale]
	if !known || !r.Holds(ev) {
		s.fault("it is not part of reservation %d", c.Sale)
		return
	}
	if under := s.chain(r.Question).policy; under != c.Policy {
		s.fault("the reservation is under another policy than the chain")
	}
}

// changeTerms applies new terms. Without consent they must not allow more than the old terms.
func (s *summary) changeTerms(c *event.TermsChanged, ev event.Event) {
	ch, known := s.chains[c.Question]
	if !known {
		s.fault("the terms change in question %q, in which the object was never enrolled", s.name(c.Question))
		return
	}
	if c.Consent == "" {
		s.checkLess(c, ch.policy, ev)
	}
	ch.policy, s.account.Cap = c.Policy, c.Cap
	s.out.Terms = append(s.out.Terms, StatedTerms{
		s.name(c.Question), s.Policies[c.Policy], c.Cap, c.Consent, ev.Number, ev.Time,
	})
}

// checkLess records a fault if new terms may allow more than the old ones. under is the number of
// the old policy, and c has the new one. The comparison of the same two policies is valid for all
// later times, so it is done once.
func (s *summary) checkLess(c *event.TermsChanged, under uint32, ev event.Event) {
	if s.account.Cap.Less(c.Cap) {
		s.fault("without consent the cap rises from ε=%s to %s", s.account.Cap, c.Cap)
	}
	pair := [2]uint32{c.Policy, under}
	if from, known := s.proven[pair]; known && !ev.Time.Before(from) {
		return
	}
	if s.compared++; s.compared > mostCompared {
		s.fault("the terms change without consent more than %d times, which is not verified", mostCompared)
		return
	}
	if err := s.terms(c.Policy).AtMost(s.terms(under), ev.Time); err != nil {
		s.fault("without consent: %v", err)
		return
	}
	s.proven[pair] = ev.Time
}

// mostCompared is the maximum number of comparisons of policies for a statement. Each may take a
// millisecond, and the statement may be hostile.
const mostCompared = 10_000

// terms returns a policy by its number. For the number 0, which means no policy, it returns one
// with the largest ε as its ceiling.
func (s *summary) terms(number uint32) policy.Policy {
	if p := s.Policies[number]; p != nil {
		return *p
	}
	return policy.Fixed(privacy.MaxEpsilon())
}

// beginEpoch ends the current epoch of a chain and starts the next one. The cost of the old epoch
// stays. An epoch in which nothing happened cannot end.
func (s *summary) beginEpoch(c *event.EpochBegun, number uint64) {
	ch := s.chain(c.Question)
	if ch.unused() && ch.before.IsZero() {
		s.fault("it ends an epoch in which nothing happened")
	}
	old := s.state(c.Question, ch)
	old.Ended = number
	// old.Spent includes before, so before is now part of past
	ch.ended, ch.past, ch.before = append(ch.ended, old), plus(ch.past, old.Spent), privacy.Epsilon{}
	ch.bound, ch.levels, ch.holders, ch.answered = false, nil, nil, privacy.Epsilon{}
	s.addEntries(ch, 1) // for the epoch that has ended
	ch.lowest, ch.highest = privacy.Epsilon{}, privacy.Epsilon{}
}

// state returns the description of the current epoch of a chain, for a question with a number.
func (s *summary) state(question uint32, c *chainSummary) StatedChain {
	return StatedChain{
		Question: s.name(question), Epoch: len(c.ended) + 1, Policy: s.Policies[c.policy],
		Withdrawn: s.withdrawn > c.enrolled,
		Epsilon:   c.highest, Charged: c.answered, Forgotten: c.before, Spent: plus(c.before, c.spent()),
	}
}

// compareListed compares the list of events in a stated event with the events about the object that
// the statement has. It records a fault for the first difference. Both lists are in rising order.
func (s *summary) compareListed(c *event.Stated) {
	if c.Forgotten != s.out.Forgotten {
		s.fault("it lists the events after event %d, which forgot the object; in the statement that is event %d",
			c.Forgotten, s.out.Forgotten)
	}
	for i := range max(len(c.Events), len(s.listed)) {
		switch {
		case i >= len(s.listed) || i < len(c.Events) && c.Events[i] < s.listed[i]:
			s.fault("it lists event %d, which the statement does not have", c.Events[i])
			return
		case i >= len(c.Events) || s.listed[i] < c.Events[i]:
			s.fault("it does not list event %d, which the statement has", s.listed[i])
			return
		}
	}
}

// name returns the name of a question, or "" if it is not defined.
func (s *summary) name(question uint32) string {
	if q := s.Questions[question]; q != nil {
		return q.Name
	}
	return "" // a fault for the unreadable fact was already recorded
}

// enroll starts a chain, or resumes it after the object withdrew. number is that of the event. A
// chain that is resumed keeps its policy, and the cap changes only by a change of terms.
func (s *summary) enroll(c *event.Enrolled, number uint64) {
	ch, known := s.chains[c.Question]
	if !known {
		ch = &chainSummary{policy: c.Policy}
		s.chains[c.Question] = ch
	} else if s.withdrawn <= ch.enrolled || ch.policy != c.Policy { // not withdrawn since, or another policy
		s.fault("the object is already enrolled in question %q, or was under another policy", s.name(c.Question))
	}
	// the cap is 0 until the first event that sets it
	if !s.account.Cap.IsZero() && s.account.Cap != c.Cap {
		s.fault("the object's cap was ε=%s, and is ε=%s without a change of terms", s.account.Cap, c.Cap)
	}
	ch.enrolled, s.account.Cap = number, c.Cap
}

// chain returns the chain of a question. If the object does not take part in the question, it
// records a fault. It then also returns a chain, so that the caller can continue: a new one if
// there was none.
func (s *summary) chain(question uint32) *chainSummary {
	ch, known := s.chains[question]
	if !known {
		ch = &chainSummary{}
		s.chains[question] = ch
	}
	if !known || s.withdrawn > ch.enrolled {
		s.fault("the object is not enrolled in question %q", s.name(question))
	}
	return ch
}

// respond adds a response at an ε to a chain, and to the list of responses. ev is the event that
// records it. It records a fault if ε is 0 or already a level of the chain. It also does so if the
// method does not fit the place of ε among the levels.
func (s *summary) respond(question uint32, epsilon privacy.Epsilon, r event.Response, ev event.Event) {
	ch := s.chain(question)
	if _, recorded := ch.levels[epsilon]; recorded || epsilon.IsZero() || r.Method != ch.method(epsilon) {
		s.fault("a response at ε=%s by %s does not fit the chain of %d other levels", epsilon, r.Method, len(ch.levels))
	}
	ch.add(epsilon, r.Value)
	s.addEntries(ch, s.levelEntries(question))
	s.count(ch)
	s.out.Released = append(s.out.Released, StatedResponse{
		s.name(question), epsilon, s.value(question, epsilon, r.Value), r.Method.String(), ev.Number, ev.Time,
	})
}

// value returns the text form of a response, or "" if the question is not defined or cannot have
// it.
func (s *summary) value(question uint32, epsilon privacy.Epsilon, v event.Value) string {
	if q := s.Questions[question]; q != nil && q.Has(epsilon, v) {
		return q.Text(epsilon, v)
	}
	return ""
}

// sell adds the sale of a response. A response that was recorded before (a resale) must be the
// same; any other is also added to the chain.
func (s *summary) sell(c *event.Sold, ev event.Event) {
	r, known := s.Sales[c.Sale]
	if !known || !r.Holds(ev) {
		s.fault("it is not part of sale %d", c.Sale)
		return
	}
	if c.Method != event.MethodResale {
		s.respond(r.Question, r.Epsilon, c.Response, ev)
	} else {
		ch := s.chain(r.Question)
		if recorded, known := ch.levels[r.Epsilon]; !known || recorded != c.Value {
			s.fault("it sells another response than was recorded")
		}
	}
	s.addHolder(s.chains[r.Question], r.Epsilon, r.Buyer)
	if s.account.Earned += c.Price; int64(s.account.Earned) < 0 {
		s.fault("the earnings are out of range")
	}
	s.out.Sales = append(s.out.Sales, StatedSale{
		c.Sale, s.Buyers[r.Buyer], s.name(r.Question), r.Epsilon, s.value(r.Question, r.Epsilon, c.Value),
		int64(c.Price), ev.Number, ev.Time,
	})
}

// addHolder records that a buyer holds a level, which counts as an entry of the chain. It does
// nothing if the buyer holds the level already.
func (s *summary) addHolder(ch *chainSummary, epsilon privacy.Epsilon, buyer uint32) {
	if ch.holders == nil {
		ch.holders = map[holding]bool{}
	}
	if one := (holding{epsilon, buyer}); !ch.holders[one] {
		ch.holders[one] = true
		s.addEntries(ch, 1)
	}
}

// levelEntries returns how many entries of a chain one level of a question counts for: see
// [event.MaxEntries].
func (s *summary) levelEntries(question uint32) int {
	if q := s.Questions[question]; q != nil {
		return q.LevelEntries()
	}
	return 1 // a fault for the unreadable fact was already recorded
}

// addEntries adds n to the number of entries of a chain, and records a fault above the maximum.
//
// A ledger also keeps entries free for reservations. These are not counted here, because no event
// about an object says that a reservation was cancelled.
func (s *summary) addEntries(ch *chainSummary, n int) {
	if ch.entries += n; ch.entries > event.MaxEntries {
		s.fault("the chain has %d entries; at most %d are possible", ch.entries, event.MaxEntries)
	}
}

// statement returns the summary. It must be called once, after all events were added. It records a
// fault if the last event is not the one that lists the events about the object. It also does so
// for each definition that no event refers to.
func (s *summary) statement() Statement {
	if c, ok := s.last.Change.(*event.Stated); !ok || c.Object != s.out.Object {
		s.fault("no event ends the list of the events about %q", s.out.Object)
	}
	for _, number := range slices.Sorted(maps.Values(s.Spare)) {
		s.fault("event %d is neither about the object nor needed by another event", number)
	}
	s.out.Event, s.out.Time = s.last.Number, s.last.Time
	s.out.Cap, s.out.Spent, s.out.Earned = s.account.Cap, s.account.Spent, int64(s.account.Earned)
	for _, number := range slices.Sorted(maps.Keys(s.chains)) {
		c := s.chains[number]
		s.out.Chains = append(append(s.out.Chains, c.ended...), s.state(number, c))
	}
	return s.out
}

// chainSummary is the state of a chain, computed from the events of a statement.
type chainSummary struct {
	enrolled uint64 // the event of the last enrolment in the question
	policy   uint32 // by number; 0 for none
	bound    bool   // whether it is bound to a true value
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

// method returns by which method a response at a new level of the epoch must have been made: raised
// above the highest level, degraded below the lowest, and otherwise inserted.
func (c *chainSummary) method(epsilon privacy.Epsilon) event.Method {
	switch {
	case c.highest.Less(epsilon):
		return event.MethodAt(len(c.levels), len(c.levels)) // above all levels, or the first one
	case epsilon.Less(c.lowest):
		return event.MethodAt(0, len(c.levels)) // below all levels
	}
	return event.MethodInsert
}

// add adds a level of the epoch with its response.
func (c *chainSummary) add(epsilon privacy.Epsilon, v event.Value) {
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

// spent returns the cost of the epoch: its highest level and its charges. It does not include what
// was spent before the object was forgotten.
func (c *chainSummary) spent() privacy.Epsilon { return plus(c.highest, c.answered) }

// unused reports whether nothing has happened in the epoch.
func (c *chainSummary) unused() bool { return len(c.levels) == 0 && !c.bound && c.answered.IsZero() }

// newSummary returns the summary of no events, for a statement about an object. Its lists are not
// nil, because a statement has [] and not null for an empty list.
func newSummary(object string) *summary {
	out := Statement{
		Format: event.StatementFormat, Object: object, Chains: []StatedChain{}, Released: []StatedResponse{},
		Terms: []StatedTerms{}, Charges: []StatedResponse{}, Sales: []StatedSale{},
	}
	return &summary{
		Glossary: event.NewGlossary(), chains: map[uint32]*chainSummary{}, proven: map[[2]uint32]time.Time{}, out: out,
	}
}

// plus returns a + b, or the largest ε if the sum is larger. So a forged statement cannot make the
// sum overflow to a small value.
func plus(a, b privacy.Epsilon) privacy.Epsilon {
	sum, err := a.Add(b)
	if err != nil {
		return privacy.MaxEpsilon()
	}
	return sum
}
