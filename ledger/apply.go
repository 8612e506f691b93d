package ledger

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// record appends changes to the log under the next numbers and applies them. It returns the number
// of the first and of the last event.
func (s *state) record(changes []change) (first, last uint64, err error) {
	first = s.counters.events + 1
	for _, c := range changes {
		ev := event{s.counters.events + 1, s.now, c}
		if err := s.put(bucketEvents, eventKey(ev.number), encodeEvent(ev)); err != nil {
			return 0, 0, err
		}
		if err := apply(s, ev); err != nil {
			return 0, 0, fmt.Errorf("event %d (%s): %w", ev.number, c.kind(), err)
		}
	}
	return first, s.counters.events, nil
}

// flush writes what is kept in memory during a transaction.
func (s *state) flush() error {
	if err := s.flushTallies(); err != nil {
		return err
	}
	return s.put(bucketMeta, []byte(keyCounters), s.counters.encode())
}

// apply is the only code that changes the state. It is pure: the new state follows from the old one
// and the event alone, with no clock and no randomness. Recording, recovery and audit are folds of it.
// An event that cannot follow on the state is [ErrCorrupt].
func apply(s *state, ev event) error {
	if ev.number != s.counters.events+1 {
		return fmt.Errorf("%w: event %d follows on event %d", ErrCorrupt, ev.number, s.counters.events)
	}
	if ev.time.Before(s.counters.last) {
		return fmt.Errorf("%w: event %d is earlier than the one before it", ErrCorrupt, ev.number)
	}
	s.counters.events, s.counters.last = ev.number, ev.time
	if err := s.checkOpen(ev.change); err != nil {
		return err
	}
	switch c := ev.change.(type) {
	case *created:
		return s.put(bucketMeta, []byte(keyAbout), about{*c, ev.time}.encode())
	case *truthKeySet:
		return s.put(bucketMeta, []byte(keyTruthKey), slices.Clone(c.check[:]))
	case *questionDefined:
		return applyQuestion(s, c)
	case *policyDefined:
		return applyPolicy(s, c)
	case *enrolled:
		return applyEnrolled(s, c, ev.number)
	case *released:
		return applyReleased(s, c, ev.number)
	case *charged:
		return applyCharged(s, c)
	case *answered:
		return applyAnswered(s, c, ev.number)
	case *settled:
		return applySettled(s, c, ev.number)
	case *withdrawn:
		return applyWithdrawn(s, c, ev.number)
	case *buyerNamed:
		return applyBuyer(s, c)
	case *reserved:
		return applyReserved(s, c, ev)
	case *held:
		return applyHeld(s, c)
	case *cancelled:
		return applyCancelled(s, c)
	case *saleMade:
		return applySale(s, c, ev)
	case *sold:
		return applySold(s, c, ev)
	}
	return fmt.Errorf("%w: event %d is of an unknown kind", ErrCorrupt, ev.number)
}

func applyQuestion(s *state, c *questionDefined) error {
	if c.number != s.counters.questions+1 {
		return fmt.Errorf("%w: question %d follows on question %d", ErrCorrupt, c.number, s.counters.questions)
	}
	s.counters.questions = c.number
	e := &encoder{}
	c.encode(e)
	if err := s.put(bucketQuestions, numberKey(c.number), e.buf); err != nil {
		return err
	}
	return s.putNumber(bucketQuestions, nameKey(c.name), c.number)
}

func (s *state) putNumber(bucket string, key []byte, number uint32) error {
	e := &encoder{}
	e.u32(number)
	return s.put(bucket, key, e.buf)
}

func applyPolicy(s *state, c *policyDefined) error {
	if c.number != s.counters.policies+1 {
		return fmt.Errorf("%w: policy %d follows on policy %d", ErrCorrupt, c.number, s.counters.policies)
	}
	if _, err := policy.Parse([]byte(c.json)); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	s.counters.policies = c.number
	if err := s.put(bucketPolicies, policyNumberKey(c.number), []byte(c.json)); err != nil {
		return err
	}
	return s.putNumber(bucketPolicies, policyJSONKey(hashText(c.json)), c.number)
}

func applyEnrolled(s *state, c *enrolled, number uint64) error {
	o, known, err := s.object(c.object)
	if err != nil {
		return err
	}
	ch, again, err := s.chain(c.question, c.object)
	if err != nil {
		return err
	}
	switch {
	case !again:
		ch = chain{policy: c.policy}
		s.counters.chains++
		o.chains++
	case !o.withdrew(ch):
		return orCorrupt(nil, "object %q is enrolled twice in question %d", c.object, c.question)
	case ch.policy != c.policy || o.cap != c.cap:
		return orCorrupt(nil, "object %q comes back to question %d under other ceilings", c.object, c.question)
	}
	if !known {
		s.counters.objects++
	}
	o.cap, ch.enrolled = c.cap, number
	if err := s.put(bucketObjects, objectKey(c.object), o.encode()); err != nil {
		return err
	}
	if err := s.putNumber(bucketObjects, memberKey(c.object, c.question), c.question); err != nil {
		return err
	}
	return s.putChain(c.question, c.object, ch)
}

func (s *state) putChain(question uint32, name string, c chain) error {
	return s.put(bucketChains, chainKey(question, name), c.encode())
}

// enrolledIn returns a chain and its object for a draw or a charge.
func (s *state) enrolledIn(question uint32, name string) (chain, object, error) {
	c, found, err := s.chain(question, name)
	if err != nil || !found {
		return c, object{}, orCorrupt(err, "object %q takes part in question %d without being enrolled", name, question)
	}
	o, found, err := s.object(name)
	if err != nil || !found {
		return c, o, orCorrupt(err, "object %q has a chain but no budget", name)
	}
	if o.withdrew(c) {
		return c, o, orCorrupt(nil, "object %q takes part in question %d after it has withdrawn", name, question)
	}
	return c, o, nil
}

func applyReleased(s *state, c *released, number uint64) error {
	ch, o, err := s.enrolledIn(c.question, c.object)
	if err != nil {
		return err
	}
	cost, err := s.respond(c.question, &ch, c.epsilon, c.response, number)
	if err != nil {
		return fmt.Errorf("object %q, question %d: %w", c.object, c.question, err)
	}
	if err := s.putChain(c.question, c.object, ch); err != nil {
		return err
	}
	if cost.IsZero() {
		return nil // a level below the current one
	}
	if err := o.charge(cost); err != nil {
		return fmt.Errorf("object %q: %w", c.object, err)
	}
	return s.put(bucketObjects, objectKey(c.object), o.encode())
}

// respond adds a response to a chain and returns what it costs: what it raises the highest ε by.
func (s *state) respond(question uint32, c *chain, epsilon privacy.Epsilon, r response, number uint64) (cost privacy.Epsilon, err error) {
	q, err := s.question(question)
	if err != nil {
		return cost, err
	}
	before := c.current()
	at, recorded := findLevel(c.levels, epsilon)
	if recorded || epsilon.IsZero() || r.value >= len(q.values) || r.method != methodAt(at, len(c.levels)) || r.bound != nil && c.bound != nil || !r.truthful() {
		return cost, orCorrupt(nil, "response %d at ε=%s by %s", r.value, epsilon, r.method)
	}
	c.levels = slices.Insert(c.levels, at, level{Level: rrchain.Level{Epsilon: epsilon, Response: r.value}, event: number})
	if r.bound != nil {
		c.bound = r.bound
	}
	return less(c.current(), before), s.countLevel(question, c.levels, at)
}

// methodAt returns how a response comes about that gets this place among the levels of a chain.
func methodAt(place, levels int) method {
	switch place {
	case levels:
		return methodRaise
	case 0:
		return methodDegrade
	default:
		return methodInsert
	}
}

// charge adds a cost to what an object has spent.
func (o *object) charge(cost privacy.Epsilon) error {
	spent, err := o.spent.Add(cost)
	if err != nil || o.cap.Less(spent) {
		return orCorrupt(nil, "it spends more than its cap of %s", o.cap)
	}
	o.spent = spent
	return nil
}

// applyCharged adds up what answers cost: unlike the levels of a chain, they are independent.
func applyCharged(s *state, c *charged) error {
	ch, o, err := s.enrolledIn(c.question, c.object)
	if err != nil {
		return err
	}
	if ch.answered, err = ch.answered.Add(c.epsilon); err == nil {
		err = o.charge(c.epsilon)
	}
	if err != nil {
		return orCorrupt(nil, "object %q is charged too much for question %d: %v", c.object, c.question, err)
	}
	if c.bound != nil && ch.bound != nil {
		return orCorrupt(nil, "object %q is bound twice to a truth in question %d", c.object, c.question)
	}
	if c.bound != nil {
		ch.bound = c.bound
	}
	if err := s.putChain(c.question, c.object, ch); err != nil {
		return err
	}
	return s.put(bucketObjects, objectKey(c.object), o.encode())
}

func applyAnswered(s *state, c *answered, number uint64) error {
	key := answerKey(c.question, c.query, c.panel)
	a, _, err := s.answers(key)
	if err != nil {
		return err
	}
	at, recorded := slices.BinarySearchFunc(a, c.epsilon, func(l answerLevel, e privacy.Epsilon) int { return l.Epsilon.Compare(e) })
	if recorded || c.epsilon.IsZero() {
		return orCorrupt(nil, "query %q, question %d: a second answer at ε=%s", c.query, c.question, c.epsilon)
	}
	if base, found := a.best(c.epsilon); c.method == methodDegrade && (!found || base.objects != c.objects) {
		return orCorrupt(nil, "query %q, question %d: an answer about %d objects is derived from none", c.query, c.question, c.objects)
	}
	made := answerLevel{level{Level: rrchain.Level{Epsilon: c.epsilon, Response: c.output}, event: number}, c.objects}
	return s.put(bucketAnswers, key, slices.Insert(a, at, made).encode())
}

// applyWithdrawn ends the object's part in everything it was enrolled in so far.
func applyWithdrawn(s *state, c *withdrawn, number uint64) error {
	o, found, err := s.object(c.object)
	if err != nil || !found {
		return orCorrupt(err, "object %q withdraws without being there", c.object)
	}
	o.withdrawn = number
	return s.put(bucketObjects, objectKey(c.object), o.encode())
}

func applySettled(s *state, c *settled, number uint64) error {
	r, known, err := s.request(c.key)
	if err != nil {
		return err
	}
	if known && (r.done || r.digest != c.digest) {
		return orCorrupt(nil, "request %q is settled twice", c.key)
	}
	r.digest, r.done = c.digest, c.final
	r.settled = append(r.settled, number)
	return s.put(bucketRequests, []byte(c.key), r.encode())
}

// orCorrupt returns err, or an ErrCorrupt with the given text if there is none.
func orCorrupt(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}
