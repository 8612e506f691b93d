package ledger

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

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
	if _, ok := ev.change.(*created); ok != (ev.number == 1) {
		return errs.Corrupt(nil, "event %d: the log begins with how the ledger was created", ev.number)
	}
	s.counters.events, s.counters.last, s.now = ev.number, ev.time, ev.time
	s.linked = linked{}
	if err := s.checkOpen(ev.change); err != nil {
		return err
	}
	if k := ev.change.kind(); k != kindSettled && !beginsLedger(k) {
		if err := s.counters.underway.take(k); err != nil {
			return err
		}
		s.counters.underway.name(objectOfEvent(ev))
	} else if k != kindSettled && s.counters.underway != (underway{}) {
		return errs.Corrupt(nil, "%d events are settled by no request", s.counters.underway.events)
	}
	if ev.erased != nil {
		return applyErased(s, ev)
	}
	switch c := ev.change.(type) {
	case *created:
		return applyCreated(s, c, ev)
	case *truthKeySet:
		return applyTruthKey(s, c)
	case *noiseKeySet:
		return applyNoiseKey(s, c)
	case *questionDefined:
		return applyQuestion(s, c)
	case *policyDefined:
		return applyPolicy(s, c)
	case *enrolled:
		return applyEnrolled(s, c, ev.number)
	case *released:
		return applyReleased(s, c, ev)
	case *truthBound:
		return applyBound(s, c, ev.number)
	case *charged:
		return applyCharged(s, c, ev)
	case *answered:
		return applyAnswered(s, c, ev.number)
	case *objectRefused:
		return applyRefused(s, c, ev)
	case *settled:
		return applySettled(s, c, ev)
	case *withdrawn:
		return applyWithdrawn(s, c, ev.number)
	case *epochBegun:
		return applyEpoch(s, c, ev.number)
	case *stated:
		return applyStated(s, c, ev.number)
	case *forgotten:
		return applyForgotten(s, c, ev.number)
	case *buyerNamed:
		return applyBuyer(s, c)
	case *reserved:
		return applyReserved(s, c, ev)
	case *held:
		return applyHeld(s, c, ev)
	case *cancelled:
		return applyCancelled(s, c)
	case *saleMade:
		return applySale(s, c, ev)
	case *sold:
		return applySold(s, c, ev)
	}
	return fmt.Errorf("%w: event %d is of an unknown kind", ErrCorrupt, ev.number)
}

func applyCreated(s *state, c *created, ev event) error {
	if err := names.Check("currency", c.currency); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	return s.put(bucketMeta, []byte(keyAbout), about{*c, ev.time}.Encode())
}

func applyTruthKey(s *state, c *truthKeySet) error {
	if former, err := s.get(bucketMeta, []byte(keyTruthKey)); err != nil || former != nil {
		return errs.Corrupt(err, "a second truth key")
	}
	s.keyed = keyUnknown // it is looked up again: of a forged log this event may be left out
	return s.put(bucketMeta, []byte(keyTruthKey), slices.Clone(c.check[:]))
}

// checkBound refuses a draw from a truth that a chain is not bound to, once there is a key by which it should be.
func (s *state) checkBound(c *chain) error {
	if c.bound != nil {
		return nil
	}
	keyed, err := s.hasTruthKey()
	if err != nil || keyed {
		return errs.Corrupt(err, "a draw from a truth that the chain is not bound to")
	}
	return nil
}

func applyQuestion(s *state, c *questionDefined) error {
	if c.number != s.counters.questions+1 {
		return fmt.Errorf("%w: question %d follows on question %d", ErrCorrupt, c.number, s.counters.questions)
	}
	if err := vocabulary.CheckQuestion(c.Question); err != nil {
		return errs.Corrupt(nil, "question %d: %v", c.number, err)
	}
	if _, twice, err := s.questionNumber(c.Name); err != nil || twice {
		return errs.Corrupt(err, "question %q is defined twice", c.Name)
	}
	s.counters.questions = c.number
	e := &wire.Encoder{}
	c.encode(e)
	if err := s.put(bucketQuestions, numberKey(c.number), e.Buf); err != nil {
		return err
	}
	if err := s.putDefinition(bucketQuestions, c.number); err != nil {
		return err
	}
	return s.putNumber(bucketQuestions, nameKey(c.Name), c.number)
}

func applyPolicy(s *state, c *policyDefined) error {
	if c.number != s.counters.policies+1 {
		return fmt.Errorf("%w: policy %d follows on policy %d", ErrCorrupt, c.number, s.counters.policies)
	}
	p, err := policy.Parse([]byte(c.json))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if _, twice, err := s.policyNumber(p); err != nil || twice || p.String() != c.json {
		return errs.Corrupt(err, "policy %d is there already, or is not canonical", c.number)
	}
	s.counters.policies = c.number
	if err := s.put(bucketPolicies, policyNumberKey(c.number), []byte(c.json)); err != nil {
		return err
	}
	if err := s.putDefinition(bucketPolicies, c.number); err != nil {
		return err
	}
	return s.putNumber(bucketPolicies, policyJSONKey(wire.HashText(c.json)), c.number)
}

func applyEnrolled(s *state, c *enrolled, number uint64) error {
	if err := s.checkEnrolled(c); err != nil {
		return err
	}
	o, known, err := s.object(c.object)
	if err != nil {
		return err
	}
	if !known {
		if o, err = s.introduce(c); err != nil {
			return err
		}
	}
	ch, again, err := s.chain(c.question, c.object)
	if err != nil {
		return err
	}
	switch {
	case !again:
		ch = chain{policy: c.policy, noise: c.noise}
		s.counters.chains++
		o.chains++
	case !o.withdrew(ch):
		return errs.Corrupt(nil, "object %q is enrolled twice in question %d", c.object, c.question)
	}
	if ch.policy != c.policy || o.cap != c.cap {
		return errs.Corrupt(nil, "object %q comes to question %d under other ceilings than it had", c.object, c.question)
	}
	if again && o.forgotten > ch.enrolled {
		ch.noise = 0 // buyers may still have responses that were drawn from the key, about another truth perhaps
	}
	if ch.noise != c.noise {
		return errs.Corrupt(nil, "object %q comes to question %d with another noise key than its chain began with", c.object, c.question)
	}
	s.counters.underway.enrolled++
	if err := s.counters.underway.follow(c.object); err != nil {
		return err
	}
	ch.enrolled = number
	s.link(&o.links, number)
	if err := s.putObject(c.object, o); err != nil {
		return err
	}
	if err := s.writeMember(c.object, c.question); err != nil {
		return err
	}
	return s.putChain(c.question, c.object, ch)
}

func (s *state) checkEnrolled(c *enrolled) error {
	if err := names.Check("object", c.object); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	if c.question == 0 || c.question > s.counters.questions || c.policy > s.counters.policies || c.noise > s.counters.noises || c.cap.IsZero() {
		return errs.Corrupt(nil, "object %q is enrolled in question %d under policy %d with the cap %s", c.object, c.question, c.policy, c.cap)
	}
	q, err := s.question(c.question)
	if err == nil && q.encoding == Finite && c.noise != 0 {
		err = errs.Corrupt(nil, "object %q has a noise key in question %d, which has a mechanism of its own", c.object, c.question)
	}
	return err
}

// introduce makes the record of a new object. It takes over what the log has about the stranger.
func (s *state) introduce(c *enrolled) (object, error) {
	x, found, err := s.stranger(c.object)
	if err == nil && found {
		err = s.writer.Delete(bucketStrangers, []byte(c.object))
	}
	s.counters.objects++
	return object{cap: c.cap, links: x.links}, err
}

// enrolledIn returns a chain and its object for a draw or a charge.
func (s *state) enrolledIn(question uint32, name string) (c chain, o object, err error) {
	found, err := s.readChain(question, name, &c)
	if err != nil || !found {
		return c, object{}, errs.Corrupt(err, "object %q takes part in question %d without being enrolled", name, question)
	}
	found, err = s.readObject(name, &o)
	if err != nil || !found {
		return c, o, errs.Corrupt(err, "object %q has a chain but no budget", name)
	}
	if o.withdrew(c) {
		return c, o, errs.Corrupt(nil, "object %q takes part in question %d after it has withdrawn", name, question)
	}
	return c, o, nil
}

func applyReleased(s *state, c *released, ev event) error {
	ch, o, err := s.enrolledIn(c.question, c.object)
	if err != nil {
		return err
	}
	cost, err := s.respond(c.question, &ch, c.epsilon, c.response, ev.number)
	if err == nil && !cost.IsZero() {
		err = s.charge(&o, ch, cost, ev)
	}
	if err == nil {
		err = s.counters.underway.respond(c, cost)
	}
	if err != nil {
		return fmt.Errorf("object %q, question %d: %w", c.object, c.question, err)
	}
	s.link(&o.links, ev.number)
	if err := s.putChain(c.question, c.object, ch); err != nil {
		return err
	}
	return s.putObject(c.object, o)
}

// respond adds a response to a chain and returns what it costs: what it raises the highest ε by.
func (s *state) respond(question uint32, c *chain, epsilon privacy.Epsilon, r response, number uint64) (cost privacy.Epsilon, err error) {
	q, err := s.question(question)
	if err != nil {
		return cost, err
	}
	before := c.current()
	at, recorded := findLevel(c.levels, epsilon)
	if recorded || epsilon.IsZero() || !q.has(epsilon, r.value) || r.method != methodAt(at, len(c.levels)) {
		return cost, errs.Corrupt(nil, "a response of %v at ε=%s by %s", r.value, epsilon, r.method)
	}
	if r.method == methodRaise {
		if err := s.checkBound(c); err != nil {
			return cost, err
		}
	}
	if !s.plain && (at < len(c.levels) || !s.desk.hasPage()) { // else nobody else has them, or the room behind them
		c.levels = slices.Clip(c.levels)
	}
	c.levels = slices.Insert(c.levels, at, newLevel(epsilon, r.value, number))
	return less(c.current(), before), s.countLevel(q, c.levels, at)
}

// applyBound ties a chain to its truth, once.
func applyBound(s *state, c *truthBound, number uint64) error {
	ch, o, err := s.enrolledIn(c.question, c.object)
	if err != nil {
		return err
	}
	keyed, err := s.hasTruthKey()
	if err != nil || !keyed || ch.bound != nil {
		return errs.Corrupt(err, "object %q is bound to a truth in question %d a second time, or without a key", c.object, c.question)
	}
	ch.bound = &c.tag
	s.link(&o.links, number)
	if err := s.putChain(c.question, c.object, ch); err != nil {
		return err
	}
	return s.putObject(c.object, o)
}

// charge adds a cost to what an object has spent, and checks it against the object's cap and its chain's
// ceiling, as the chain is after it. A request is bound by the ceiling of the clock; that of the log's time is
// the same, or is higher if the clock had gone back.
func (s *state) charge(o *object, after chain, cost privacy.Epsilon, ev event) error {
	spent, err := o.spent.Add(cost)
	if err != nil || o.cap.Less(spent) {
		return errs.Corrupt(nil, "it spends more than its cap of %s", o.cap)
	}
	p, err := s.policy(after.policy)
	if err != nil {
		return err
	}
	if ceiling := p.Ceiling(ev.time, after.buyers); ceiling.Less(after.spent()) {
		return errs.Corrupt(nil, "it spends %s, above the ceiling of %s", after.spent(), ceiling)
	}
	o.spent = spent
	return nil
}

// applyCharged adds up what answers cost: a chain's levels and the answers are independent of each other, and so are
// answers but for those that are raised, which cost the difference.
func applyCharged(s *state, c *charged, ev event) error {
	ch, o, err := s.enrolledIn(c.question, c.object)
	if err != nil {
		return err
	}
	if err := s.counters.charges.take(c); err != nil {
		return err
	}
	s.counters.charges.renewed = max(s.counters.charges.renewed, ch.since)
	if err := s.checkBound(&ch); err != nil {
		return errs.Corrupt(nil, "object %q is charged for question %d: %v", c.object, c.question, err)
	}
	if ch.answered, err = ch.answered.Add(c.epsilon); err == nil {
		err = s.charge(&o, ch, c.epsilon, ev)
	}
	if err != nil {
		return errs.Corrupt(nil, "object %q is charged for question %d: %v", c.object, c.question, err)
	}
	s.link(&o.links, ev.number)
	if err := s.putChain(c.question, c.object, ch); err != nil {
		return err
	}
	return s.putObject(c.object, o)
}

// take counts a charge of the answer to come: all of them are alike.
func (n *charges) take(c *charged) error {
	if n.epsilon.IsZero() {
		n.question, n.epsilon, n.panel = c.question, c.epsilon, noPanel()
	}
	if c.object <= n.last {
		return errs.Corrupt(nil, "object %q is charged after %q", c.object, n.last)
	}
	if n.question != c.question || n.epsilon != c.epsilon || c.epsilon.IsZero() {
		return errs.Corrupt(nil, "object %q is charged %s for question %d, others otherwise", c.object, c.epsilon, c.question)
	}
	n.objects++
	n.last, n.panel = c.object, n.panel.with(c.object)
	return nil
}

// settles tells whether the charges are those of an answer that costs everybody so much. Some of their events
// may be erased.
func (n charges) settles(c *answered, cost privacy.Epsilon) bool {
	if cost.IsZero() {
		return n == charges{}
	}
	return n.objects == c.objects && (n.epsilon.IsZero() || n.question == c.question && n.epsilon == cost)
}

func applyAnswered(s *state, c *answered, number uint64) error {
	q, err := s.question(c.question)
	if err != nil {
		return err
	}
	if _, err := q.answerText(c.query, c.result); err != nil {
		return err
	}
	key := answerKey(c.question, c.query, c.panel)
	a, _, err := s.answers(key)
	if err != nil {
		return err
	}
	began, cost, err := a.admit(c, number)
	if err != nil {
		return fmt.Errorf("query %q, question %d: %w", c.query, c.question, err)
	}
	charged := s.counters.charges
	if c.objects == 0 || !charged.settles(c, cost) {
		return errs.Corrupt(nil, "query %q: not everybody in the panel of %d was charged for it", c.query, c.objects)
	}
	if charged.renewed > began {
		return errs.Corrupt(nil, "query %q: an answer is raised after somebody in its panel was forgotten, or began an epoch", c.query)
	}
	if c.method == methodRaise {
		if name, other := s.chargedOther(began, number, c.objects); other {
			return errs.Corrupt(nil, "query %q: object %q is charged for an answer about others", c.query, name)
		}
	}
	s.counters.underway.spend(cost, charged.objects)
	s.counters.erased.spent += uint64(cost.Nano()) * charged.erased
	s.counters.charges, s.counters.answer = charges{}, answering{number, 0, charged.leaves(c), c.question, c.epsilon, cost}
	if cost.IsZero() {
		base, _ := a.best(c.epsilon)
		s.counters.answer = answering{event: number, base: base.event}
	}
	at, _ := a.find(c.epsilon)
	made := answerLevel{c.epsilon, c.result, number, began, c.objects}
	return s.put(bucketAnswers, key, slices.Insert(a, at, made).Encode())
}

// leaves tells what is known of whom an answer leaves out, by whom was charged for it.
func (n charges) leaves(c *answered) leaves {
	switch {
	case n.erased > 0:
		return leavesAnybody
	case n.panel == panelSum(c.panel):
		return leavesNobody
	}
	return leavesSomebody
}

// checkAnswer checks that the answer that a request settles is its own, or was there before, and that whom the request
// left out fits it.
func (s *state) checkAnswer(c *settled, number uint64) error {
	a := s.counters.answer
	if s.counters.underway.loose {
		return nil
	}
	if a.event != 0 && a.event != c.answer || c.answer >= number {
		return errs.Corrupt(nil, "request %q settles the answer of event %d, where that of event %d is to be settled", c.key, c.answer, a.event)
	}
	if c.answer == 0 {
		return nil
	}
	ev, err := s.event(c.answer)
	made, is := ev.change.(*answered)
	if err != nil || !is {
		return errs.Corrupt(err, "request %q settles the answer of event %d, which is none", c.key, c.answer)
	}
	want := counts{}
	switch {
	case a.event == 0:
		want[reused] = 1
		err = s.checkLeftOutAgain(c.answer, number, c.refused)
	case a.base != 0:
		want[derived] = 1
		err = s.checkLeftOutAgain(a.base, number, c.refused)
	default:
		want[drawn] = 1
		err = s.checkLeftOut(made, a, number, c.refused)
	}
	if err == nil && c.counts != want {
		err = errs.Corrupt(nil, "request %q, with the answer of event %d, counts %v", c.key, c.answer, c.counts)
	}
	return err
}

// checkLeftOut checks that those charged for an answer and those refused, whose events stand before the one that settles
// it, are together who was asked for.
func (s *state) checkLeftOut(c *answered, a answering, number, refused uint64) error {
	switch {
	case a.left == leavesAnybody || a.left == leavesNobody && refused == 0:
		return nil
	case a.left == leavesNobody || refused == 0 || a.event+refused+1 != number || a.event <= c.objects:
		return errs.Corrupt(nil, "query %q: who was charged for the answer are not those it is about, without %d", c.query, refused)
	}
	left, err := s.refusedBefore(number, refused)
	if err != nil {
		return err
	}
	sum, last := noPanel(), ""
	next := func(name string) {
		sum, last = sum.with(name), name
	}
	for at := a.event - c.objects; at < a.event; at++ {
		name, known := s.chargedBy(at)
		if !known {
			return nil // it was erased since
		}
		for len(left) > 0 && left[0].Object < name {
			if left[0].Object <= last {
				return nil // one of them is erased
			}
			next(left[0].Object)
			left = left[1:]
		}
		next(name)
	}
	for _, one := range left {
		if one.Object == "" {
			return nil
		}
		next(one.Object)
	}
	if sum.partly() != panelSum(c.panel) {
		return errs.Corrupt(nil, "query %q: who was charged for the answer and who was refused are not those it is about", c.query)
	}
	return nil
}

// checkLeftOutAgain checks that a request that got an earlier answer names those whom that left out, but for those
// forgotten since.
func (s *state) checkLeftOutAgain(base, number, refused uint64) error {
	before, err := s.leftOutAt(base)
	if err != nil {
		return err
	}
	now, err := s.refusedBefore(number, refused)
	if err != nil {
		return err
	}
	whole := func(all []*objectRefused) []*objectRefused {
		return slices.DeleteFunc(all, func(c *objectRefused) bool { return c.Object == "" })
	}
	same := func(a, b *objectRefused) bool { return *a == *b }
	if all := uint64(len(before)); refused > all || !slices.EqualFunc(whole(now), whole(before), same) {
		return errs.Corrupt(nil, "a request leaves %d objects out, the answer of event %d that it got left out %d, or others", refused, base, all)
	}
	return nil
}

// chargedOther compares whom a raised answer charges with whom the answer that it comes from charged, in the events
// before both. It returns one that is new. What is erased or missing is compared with nothing.
func (s *state) chargedOther(began, raised, objects uint64) (name string, other bool) {
	for back := uint64(1); back <= objects; back++ {
		before, known := s.chargedBy(began - back)
		now, stands := s.chargedBy(raised - back)
		if known && stands && before != now {
			return now, true
		}
	}
	return "", false
}

// chargedBy returns the object that an event charges for an answer, if it does.
func (s *state) chargedBy(number uint64) (object string, known bool) {
	ev, err := s.event(number)
	c, is := ev.change.(*charged)
	if err != nil || !is || ev.erased != nil {
		return "", false
	}
	return c.object, true
}

// admit says by which event the answers began that a new one belongs to, and what it costs each object. It
// refuses one that cannot have come about as it says.
func (a answers) admit(c *answered, number uint64) (began uint64, cost privacy.Epsilon, err error) {
	at, recorded := a.find(c.epsilon)
	if recorded || c.epsilon.IsZero() {
		return 0, cost, errs.Corrupt(nil, "a second answer at ε=%s", c.epsilon)
	}
	base, above := a.best(c.epsilon)
	switch c.method {
	case methodFresh:
		if above {
			return 0, cost, errs.Corrupt(nil, "a fresh answer at ε=%s, below one that is there", c.epsilon)
		}
		return number, c.epsilon, nil
	case methodRaise:
		if at < len(a) || at == 0 {
			return 0, cost, errs.Corrupt(nil, "a raise to ε=%s, with %d answers below and %d above", c.epsilon, at, len(a)-at)
		}
		base = a.top()
		cost = less(c.epsilon, base.epsilon)
	default:
		_, below := a.below(c.epsilon, base)
		if !above || c.scored && (c.method == methodInsert) != below {
			return 0, cost, errs.Corrupt(nil, "an answer at ε=%s by %s among %d", c.epsilon, c.method, len(a))
		}
	}
	if base.scored != c.scored || base.objects != c.objects {
		return 0, cost, errs.Corrupt(nil, "an answer about %d objects is derived from none", c.objects)
	}
	return base.began, cost, nil
}

// applyWithdrawn ends the object's part in everything it was enrolled in so far.
func applyWithdrawn(s *state, c *withdrawn, number uint64) error {
	o, found, err := s.object(c.object)
	if err != nil || !found {
		return errs.Corrupt(err, "object %q withdraws without being there", c.object)
	}
	if out, err := s.isOut(c.object, o); err != nil || out {
		return errs.Corrupt(err, "object %q withdraws twice", c.object)
	}
	o.withdrawn = number
	s.link(&o.links, number)
	return s.putObject(c.object, o)
}

// applyEpoch closes the chain of an object, with what it has cost, and begins a new one under the same policy. Nothing
// reserved of the old one can be sold of the new one.
func applyEpoch(s *state, c *epochBegun, number uint64) error {
	ch, o, err := s.enrolledIn(c.question, c.object)
	if err != nil {
		return err
	}
	if ch.unused() {
		return errs.Corrupt(nil, "object %q begins a new epoch of question %d, and nothing happened in the last one", c.object, c.question)
	}
	q, err := s.question(c.question)
	if err != nil {
		return err
	}
	if err := s.uncountLevels(q, ch.levels); err != nil {
		return err
	}
	ended := closedEpoch{number, ch.answered, slices.Clone(ch.levels)}
	err = s.putChain(c.question, c.object, chain{
		enrolled: ch.enrolled, policy: ch.policy, since: number, closed: append(slices.Clip(ch.closed), ended),
	})
	if err != nil {
		return err
	}
	if o.held, err = s.heldInOthers(o.held, c.question); err != nil {
		return err
	}
	s.link(&o.links, number)
	return s.putObject(c.object, o)
}

// heldInOthers drops the reservations in a question.
func (s *state) heldInOthers(numbers []uint64, question uint32) (kept []uint64, err error) {
	for _, number := range numbers {
		r, err := s.sale(number)
		if err != nil {
			return nil, err
		}
		if r.question != question {
			kept = append(kept, number)
		}
	}
	return kept, nil
}

// linkName makes an event the last one about an object, or about somebody who is not enrolled.
func (s *state) linkName(name string, event uint64, link func(*links, uint64)) error {
	o, known, err := s.object(name)
	if err != nil {
		return err
	}
	if known {
		link(&o.links, event)
		return s.putObject(name, o)
	}
	if err := names.Check("object", name); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	x, _, err := s.stranger(name)
	if err != nil {
		return err
	}
	link(&x.links, event)
	return s.put(bucketStrangers, []byte(name), x.Encode())
}

func applySettled(s *state, c *settled, ev event) error {
	r, known, err := s.request(c.key)
	if err != nil {
		return err
	}
	none := [sha256.Size]byte{}
	if known && (r.done || c.alone || r.digest != c.digest) {
		return errs.Corrupt(nil, "request %q is settled twice", c.key)
	}
	if c.refused != s.counters.refused || c.first == 0 || c.first > ev.number {
		return errs.Corrupt(nil, "request %q, begun by event %d, refuses %d objects where %d were named", c.key, c.first, c.refused, s.counters.refused)
	}
	whole := ev.erased == nil
	if c.final && (c.done != 0 || !c.alone && c.object != "") || c.alone && (!c.final || whole && c.object == "") || whole && c.digest == none {
		return errs.Corrupt(nil, "request %q is settled as one that it is not", c.key)
	}
	if err := s.checkSettledSale(c, ev.number); err != nil {
		return err
	}
	if err := s.checkAnswer(c, ev.number); err != nil {
		return err
	}
	if err := s.checkSettled(c, r, ev.number); err != nil {
		return err
	}
	s.counters.refused, s.counters.unsettled, s.counters.answer, s.counters.underway = 0, 0, answering{}, underway{}
	if c.object != "" {
		if err := s.linkName(c.object, ev.number, s.linkSettled); err != nil {
			return err
		}
	}
	r.digest, r.done, r.through, r.dealt = c.digest, c.final, c.through, c.done
	r.settled = append(slices.Clip(r.settled), ev.number)
	return s.putRequest(c.key, r)
}

// checkSettledSale checks that the sale that a request made stands right before it, with those left out.
func (s *state) checkSettledSale(c *settled, number uint64) error {
	if c.sale != s.counters.unsettled {
		return errs.Corrupt(nil, "request %q settles sale %d, which is another's; sale %d is to be settled", c.key, c.sale, s.counters.unsettled)
	}
	if c.sale == 0 {
		return nil
	}
	r, err := s.sale(c.sale)
	if err == nil && (r.refused != c.refused || r.event+r.objects+r.refused+1 != number) {
		err = errs.Corrupt(nil, "request %q settles sale %d, which is another's", c.key, c.sale)
	}
	return err
}
