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
	if err := s.put(bucketQuestions, questionNumberKey(c.number), e.buf); err != nil {
		return err
	}
	return s.putNumber(bucketQuestions, questionNameKey(c.name), c.number)
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
	if _, twice, err := s.chain(c.question, c.object); err != nil || twice {
		return orCorrupt(err, "object %q is enrolled twice in question %d", c.object, c.question)
	}
	o, known, err := s.object(c.object)
	if err != nil {
		return err
	}
	if !known {
		s.counters.objects++
	}
	s.counters.chains++
	o.cap = c.cap
	o.chains++
	if err := s.put(bucketObjects, objectKey(c.object), o.encode()); err != nil {
		return err
	}
	if err := s.putNumber(bucketObjects, memberKey(c.object, c.question), c.question); err != nil {
		return err
	}
	return s.put(bucketChains, chainKey(c.question, c.object), chain{enrolled: number, policy: c.policy}.encode())
}

func applyReleased(s *state, c *released, number uint64) error {
	ch, found, err := s.chain(c.question, c.object)
	if err != nil || !found {
		return orCorrupt(err, "object %q answers question %d without being enrolled", c.object, c.question)
	}
	before := ch.current()
	if ch.levels, err = insertLevel(ch.levels, c.epsilon, c.response, number); err != nil {
		return fmt.Errorf("object %q, question %d: %w", c.object, c.question, err)
	}
	if c.bound != nil {
		ch.bound = c.bound
	}
	if err := s.put(bucketChains, chainKey(c.question, c.object), ch.encode()); err != nil {
		return err
	}
	if !before.Less(ch.current()) {
		return nil // a level below the current one costs nothing
	}
	return s.charge(c.object, less(ch.current(), before))
}

// insertLevel puts a level in its place by rising ε.
func insertLevel(levels []level, epsilon privacy.Epsilon, response int, number uint64) ([]level, error) {
	at, recorded := slices.BinarySearchFunc(levels, epsilon, func(l level, e privacy.Epsilon) int { return l.Epsilon.Compare(e) })
	if recorded || epsilon.IsZero() {
		return nil, orCorrupt(nil, "a second level at ε=%s", epsilon)
	}
	return slices.Insert(levels, at, level{rrchain.Level{Epsilon: epsilon, Response: response}, number}), nil
}

// applyCharged adds up what answers cost: unlike the levels of a chain, they are independent.
func applyCharged(s *state, c *charged) error {
	ch, found, err := s.chain(c.question, c.object)
	if err != nil || !found {
		return orCorrupt(err, "object %q is charged for question %d without being enrolled", c.object, c.question)
	}
	if ch.answered, err = ch.answered.Add(c.epsilon); err != nil {
		return orCorrupt(nil, "object %q is charged too much for question %d", c.object, c.question)
	}
	if c.bound != nil {
		ch.bound = c.bound
	}
	if err := s.put(bucketChains, chainKey(c.question, c.object), ch.encode()); err != nil {
		return err
	}
	return s.charge(c.object, c.epsilon)
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
	made := answerLevel{level{rrchain.Level{Epsilon: c.epsilon, Response: c.output}, number}, c.objects}
	return s.put(bucketAnswers, key, slices.Insert(a, at, made).encode())
}

// charge adds a cost to what an object has spent.
func (s *state) charge(name string, cost privacy.Epsilon) error {
	o, found, err := s.object(name)
	if err != nil || !found {
		return orCorrupt(err, "object %q has a chain but no budget", name)
	}
	if o.spent, err = o.spent.Add(cost); err != nil || o.cap.Less(o.spent) {
		return orCorrupt(nil, "object %q spends more than its cap of %s", name, o.cap)
	}
	return s.put(bucketObjects, objectKey(name), o.encode())
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
