package ledger

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// apply is the only code that changes the state. It is pure: the new state follows from the old one
// and the event alone, with no clock and no randomness. Recording, recovery and audit are folds of it.
// An event that cannot follow on the state is [ErrCorrupt].
func apply(s *state, ev event.Event) error {
	if ev.Number != s.counters.events+1 {
		return fmt.Errorf("%w: event %d follows on event %d", ErrCorrupt, ev.Number, s.counters.events)
	}
	if ev.Time.Before(s.counters.last) {
		return fmt.Errorf("%w: event %d is earlier than the one before it", ErrCorrupt, ev.Number)
	}
	if _, ok := ev.Change.(*event.Created); ok != (ev.Number == 1) {
		return errs.Corrupt(nil, "event %d: the log begins with how the ledger was created", ev.Number)
	}
	s.counters.events, s.counters.last, s.now = ev.Number, ev.Time, ev.Time
	s.linked = linked{}
	if err := s.checkOpen(ev.Change); err != nil {
		return err
	}
	if k := ev.Change.Kind(); k != event.KindSettled && !beginsLedger(k) {
		if err := s.counters.underway.take(k); err != nil {
			return err
		}
		s.counters.underway.name(event.ObjectOfEvent(ev))
	} else if k != event.KindSettled && s.counters.underway != (underway{}) {
		return errs.Corrupt(nil, "%d events are settled by no request", s.counters.underway.events)
	}
	if ev.Erased != nil {
		return applyErased(s, ev)
	}
	switch c := ev.Change.(type) {
	case *event.Created:
		return applyCreated(s, c, ev)
	case *event.TruthKeySet:
		return applyTruthKey(s, c)
	case *event.NoiseKeySet:
		return applyNoiseKey(s, c)
	case *event.QuestionDefined:
		return applyQuestion(s, c)
	case *event.PolicyDefined:
		return applyPolicy(s, c)
	case *event.Enrolled:
		return applyEnrolled(s, c, ev.Number)
	case *event.Released:
		return applyReleased(s, c, ev)
	case *event.TruthBound:
		return applyBound(s, c, ev.Number)
	case *event.Charged:
		return applyCharged(s, c, ev)
	case *event.Answered:
		return applyAnswered(s, c, ev.Number)
	case *event.ObjectRefused:
		return applyRefused(s, c, ev)
	case *event.Settled:
		return applySettled(s, c, ev)
	case *event.Withdrawn:
		return applyWithdrawn(s, c, ev.Number)
	case *event.EpochBegun:
		return applyEpoch(s, c, ev.Number)
	case *event.Stated:
		return applyStated(s, c, ev.Number)
	case *event.Forgotten:
		return applyForgotten(s, c, ev.Number)
	case *event.BuyerNamed:
		return applyBuyer(s, c)
	case *event.Reserved:
		return applyReserved(s, c, ev)
	case *event.Held:
		return applyHeld(s, c, ev)
	case *event.Cancelled:
		return applyCancelled(s, c)
	case *event.SaleMade:
		return applySale(s, c, ev)
	case *event.Sold:
		return applySold(s, c, ev)
	}
	return fmt.Errorf("%w: event %d is of an unknown kind", ErrCorrupt, ev.Number)
}

func applyCreated(s *state, c *event.Created, ev event.Event) error {
	if err := names.Check("currency", c.Currency); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	return s.put(bucketMeta, []byte(keyAbout), about{*c, ev.Time}.Encode())
}

func applyTruthKey(s *state, c *event.TruthKeySet) error {
	if former, err := s.get(bucketMeta, []byte(keyTruthKey)); err != nil || former != nil {
		return errs.Corrupt(err, "a second truth key")
	}
	s.keyed = keyUnknown // it is looked up again: of a forged log this event may be left out
	return s.put(bucketMeta, []byte(keyTruthKey), slices.Clone(c.Check[:]))
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

func applyQuestion(s *state, c *event.QuestionDefined) error {
	if c.Number != s.counters.questions+1 {
		return fmt.Errorf("%w: question %d follows on question %d", ErrCorrupt, c.Number, s.counters.questions)
	}
	if err := vocabulary.CheckQuestion(c.Question); err != nil {
		return errs.Corrupt(nil, "question %d: %v", c.Number, err)
	}
	if _, twice, err := s.questionNumber(c.Name); err != nil || twice {
		return errs.Corrupt(err, "question %q is defined twice", c.Name)
	}
	s.counters.questions = c.Number
	e := &wire.Encoder{}
	c.Encode(e)
	if err := s.put(bucketQuestions, numberKey(c.Number), e.Buf); err != nil {
		return err
	}
	if err := s.putDefinition(bucketQuestions, c.Number); err != nil {
		return err
	}
	return s.putNumber(bucketQuestions, nameKey(c.Name), c.Number)
}

func applyPolicy(s *state, c *event.PolicyDefined) error {
	if c.Number != s.counters.policies+1 {
		return fmt.Errorf("%w: policy %d follows on policy %d", ErrCorrupt, c.Number, s.counters.policies)
	}
	p, err := policy.Parse([]byte(c.Json))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if _, twice, err := s.policyNumber(p); err != nil || twice || p.String() != c.Json {
		return errs.Corrupt(err, "policy %d is there already, or is not canonical", c.Number)
	}
	s.counters.policies = c.Number
	if err := s.put(bucketPolicies, policyNumberKey(c.Number), []byte(c.Json)); err != nil {
		return err
	}
	if err := s.putDefinition(bucketPolicies, c.Number); err != nil {
		return err
	}
	return s.putNumber(bucketPolicies, policyJSONKey(wire.HashText(c.Json)), c.Number)
}

func applyEnrolled(s *state, c *event.Enrolled, number uint64) error {
	if err := s.checkEnrolled(c); err != nil {
		return err
	}
	o, known, err := s.object(c.Object)
	if err != nil {
		return err
	}
	if !known {
		if o, err = s.introduce(c); err != nil {
			return err
		}
	}
	ch, again, err := s.chain(c.Question, c.Object)
	if err != nil {
		return err
	}
	switch {
	case !again:
		ch = chain{policy: c.Policy, noise: c.Noise}
		s.counters.chains++
		o.chains++
	case !o.withdrew(ch):
		return errs.Corrupt(nil, "object %q is enrolled twice in question %d", c.Object, c.Question)
	}
	if ch.policy != c.Policy || o.cap != c.Cap {
		return errs.Corrupt(nil, "object %q comes to question %d under other ceilings than it had", c.Object, c.Question)
	}
	if again && o.forgotten > ch.enrolled {
		ch.noise = 0 // buyers may still have responses that were drawn from the key, about another truth perhaps
	}
	if ch.noise != c.Noise {
		return errs.Corrupt(nil, "object %q comes to question %d with another noise key than its chain began with", c.Object, c.Question)
	}
	s.counters.underway.enrolled++
	if err := s.counters.underway.follow(c.Object); err != nil {
		return err
	}
	ch.enrolled = number
	s.link(&o.links, number)
	if err := s.putObject(c.Object, o); err != nil {
		return err
	}
	if err := s.writeMember(c.Object, c.Question); err != nil {
		return err
	}
	return s.putChain(c.Question, c.Object, ch)
}

func (s *state) checkEnrolled(c *event.Enrolled) error {
	if err := names.Check("object", c.Object); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	if c.Question == 0 || c.Question > s.counters.questions || c.Policy > s.counters.policies || c.Noise > s.counters.noises || c.Cap.IsZero() {
		return errs.Corrupt(nil, "object %q is enrolled in question %d under policy %d with the cap %s", c.Object, c.Question, c.Policy, c.Cap)
	}
	q, err := s.question(c.Question)
	if err == nil && q.Encoding == Finite && c.Noise != 0 {
		err = errs.Corrupt(nil, "object %q has a noise key in question %d, which has a mechanism of its own", c.Object, c.Question)
	}
	return err
}

// introduce makes the record of a new object. It takes over what the log has about the stranger.
func (s *state) introduce(c *event.Enrolled) (object, error) {
	x, found, err := s.stranger(c.Object)
	if err == nil && found {
		err = s.writer.Delete(bucketStrangers, []byte(c.Object))
	}
	s.counters.objects++
	return object{cap: c.Cap, links: x.links}, err
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

func applyReleased(s *state, c *event.Released, ev event.Event) error {
	ch, o, err := s.enrolledIn(c.Question, c.Object)
	if err != nil {
		return err
	}
	cost, err := s.respond(c.Question, &ch, c.Epsilon, c.Response, ev.Number)
	if err == nil && !cost.IsZero() {
		err = s.charge(&o, ch, cost, ev)
	}
	if err == nil {
		err = s.counters.underway.respond(c, cost)
	}
	if err != nil {
		return fmt.Errorf("object %q, question %d: %w", c.Object, c.Question, err)
	}
	s.link(&o.links, ev.Number)
	if err := s.putChain(c.Question, c.Object, ch); err != nil {
		return err
	}
	return s.putObject(c.Object, o)
}

// respond adds a response to a chain and returns what it costs: what it raises the highest ε by.
func (s *state) respond(question uint32, c *chain, epsilon privacy.Epsilon, r event.Response, number uint64) (cost privacy.Epsilon, err error) {
	q, err := s.question(question)
	if err != nil {
		return cost, err
	}
	before := c.current()
	at, recorded := findLevel(c.levels, epsilon)
	if recorded || epsilon.IsZero() || !q.Has(epsilon, r.Value) || r.Method != methodAt(at, len(c.levels)) {
		return cost, errs.Corrupt(nil, "a response of %v at ε=%s by %s", r.Value, epsilon, r.Method)
	}
	if r.Method == event.MethodRaise {
		if err := s.checkBound(c); err != nil {
			return cost, err
		}
	}
	if !s.plain && (at < len(c.levels) || !s.desk.hasPage()) { // else nobody else has them, or the room behind them
		c.levels = slices.Clip(c.levels)
	}
	c.levels = slices.Insert(c.levels, at, newLevel(epsilon, r.Value, number))
	return less(c.current(), before), s.countLevel(q, c.levels, at)
}

// applyBound ties a chain to its truth, once.
func applyBound(s *state, c *event.TruthBound, number uint64) error {
	ch, o, err := s.enrolledIn(c.Question, c.Object)
	if err != nil {
		return err
	}
	keyed, err := s.hasTruthKey()
	if err != nil || !keyed || ch.bound != nil {
		return errs.Corrupt(err, "object %q is bound to a truth in question %d a second time, or without a key", c.Object, c.Question)
	}
	ch.bound = &c.Tag
	s.link(&o.links, number)
	if err := s.putChain(c.Question, c.Object, ch); err != nil {
		return err
	}
	return s.putObject(c.Object, o)
}

// charge adds a cost to what an object has spent, and checks it against the object's cap and its chain's
// ceiling, as the chain is after it. A request is bound by the ceiling of the clock; that of the log's time is
// the same, or is higher if the clock had gone back.
func (s *state) charge(o *object, after chain, cost privacy.Epsilon, ev event.Event) error {
	spent, err := o.spent.Add(cost)
	if err != nil || o.cap.Less(spent) {
		return errs.Corrupt(nil, "it spends more than its cap of %s", o.cap)
	}
	p, err := s.policy(after.policy)
	if err != nil {
		return err
	}
	if ceiling := p.Ceiling(ev.Time, after.buyers); ceiling.Less(after.spent()) {
		return errs.Corrupt(nil, "it spends %s, above the ceiling of %s", after.spent(), ceiling)
	}
	o.spent = spent
	return nil
}

// applyCharged adds up what answers cost: a chain's levels and the answers are independent of each other, and so are
// answers but for those that are raised, which cost the difference.
func applyCharged(s *state, c *event.Charged, ev event.Event) error {
	ch, o, err := s.enrolledIn(c.Question, c.Object)
	if err != nil {
		return err
	}
	if err := s.counters.charges.take(c); err != nil {
		return err
	}
	s.counters.charges.renewed = max(s.counters.charges.renewed, ch.since)
	if err := s.checkBound(&ch); err != nil {
		return errs.Corrupt(nil, "object %q is charged for question %d: %v", c.Object, c.Question, err)
	}
	if ch.answered, err = ch.answered.Add(c.Epsilon); err == nil {
		err = s.charge(&o, ch, c.Epsilon, ev)
	}
	if err != nil {
		return errs.Corrupt(nil, "object %q is charged for question %d: %v", c.Object, c.Question, err)
	}
	s.link(&o.links, ev.Number)
	if err := s.putChain(c.Question, c.Object, ch); err != nil {
		return err
	}
	return s.putObject(c.Object, o)
}

// take counts a charge of the answer to come: all of them are alike.
func (n *charges) take(c *event.Charged) error {
	if n.epsilon.IsZero() {
		n.question, n.epsilon, n.panel = c.Question, c.Epsilon, event.NoPanel()
	}
	if c.Object <= n.last {
		return errs.Corrupt(nil, "object %q is charged after %q", c.Object, n.last)
	}
	if n.question != c.Question || n.epsilon != c.Epsilon || c.Epsilon.IsZero() {
		return errs.Corrupt(nil, "object %q is charged %s for question %d, others otherwise", c.Object, c.Epsilon, c.Question)
	}
	n.objects++
	n.last, n.panel = c.Object, n.panel.With(c.Object)
	return nil
}

// settles tells whether the charges are those of an answer that costs everybody so much. Some of their events
// may be erased.
func (n charges) settles(c *event.Answered, cost privacy.Epsilon) bool {
	if cost.IsZero() {
		return n == charges{}
	}
	return n.objects == c.Objects && (n.epsilon.IsZero() || n.question == c.Question && n.epsilon == cost)
}

func applyAnswered(s *state, c *event.Answered, number uint64) error {
	q, err := s.question(c.Question)
	if err != nil {
		return err
	}
	if _, err := q.AnswerText(c.Query, c.Result); err != nil {
		return err
	}
	key := answerKey(c.Question, c.Query, c.Panel)
	a, _, err := s.answers(key)
	if err != nil {
		return err
	}
	began, cost, err := a.admit(c, number)
	if err != nil {
		return fmt.Errorf("query %q, question %d: %w", c.Query, c.Question, err)
	}
	charged := s.counters.charges
	if c.Objects == 0 || !charged.settles(c, cost) {
		return errs.Corrupt(nil, "query %q: not everybody in the panel of %d was charged for it", c.Query, c.Objects)
	}
	if charged.renewed > began {
		return errs.Corrupt(nil, "query %q: an answer is raised after somebody in its panel was forgotten, or began an epoch", c.Query)
	}
	if c.Method == event.MethodRaise {
		if name, other := s.chargedOther(began, number, c.Objects); other {
			return errs.Corrupt(nil, "query %q: object %q is charged for an answer about others", c.Query, name)
		}
	}
	s.counters.underway.spend(cost, charged.objects)
	s.counters.erased.spent += uint64(cost.Nano()) * charged.erased
	s.counters.charges, s.counters.answer = charges{}, answering{number, 0, charged.leaves(c), c.Question, c.Epsilon, cost}
	if cost.IsZero() {
		base, _ := a.best(c.Epsilon)
		s.counters.answer = answering{event: number, base: base.event}
	}
	at, _ := a.find(c.Epsilon)
	made := answerLevel{c.Epsilon, c.Result, number, began, c.Objects}
	return s.put(bucketAnswers, key, slices.Insert(a, at, made).Encode())
}

// leaves tells what is known of whom an answer leaves out, by whom was charged for it.
func (n charges) leaves(c *event.Answered) leaves {
	switch {
	case n.erased > 0:
		return leavesAnybody
	case n.panel == event.PanelSum(c.Panel):
		return leavesNobody
	}
	return leavesSomebody
}

// checkAnswer checks that the answer that a request settles is its own, or was there before, and that whom the request
// left out fits it.
func (s *state) checkAnswer(c *event.Settled, number uint64) error {
	a := s.counters.answer
	if s.counters.underway.loose {
		return nil
	}
	if a.event != 0 && a.event != c.Answer || c.Answer >= number {
		return errs.Corrupt(nil, "request %q settles the answer of event %d, where that of event %d is to be settled", c.Key, c.Answer, a.event)
	}
	if c.Answer == 0 {
		return nil
	}
	ev, err := s.event(c.Answer)
	made, is := ev.Change.(*event.Answered)
	if err != nil || !is {
		return errs.Corrupt(err, "request %q settles the answer of event %d, which is none", c.Key, c.Answer)
	}
	want := event.Counts{}
	switch {
	case a.event == 0:
		want[event.Reused] = 1
		err = s.checkLeftOutAgain(c.Answer, number, c.Refused)
	case a.base != 0:
		want[event.Derived] = 1
		err = s.checkLeftOutAgain(a.base, number, c.Refused)
	default:
		want[event.Drawn] = 1
		err = s.checkLeftOut(made, a, number, c.Refused)
	}
	if err == nil && c.Counts != want {
		err = errs.Corrupt(nil, "request %q, with the answer of event %d, counts %v", c.Key, c.Answer, c.Counts)
	}
	return err
}

// checkLeftOut checks that those charged for an answer and those refused, whose events stand before the one that settles
// it, are together who was asked for.
func (s *state) checkLeftOut(c *event.Answered, a answering, number, refused uint64) error {
	switch {
	case a.left == leavesAnybody || a.left == leavesNobody && refused == 0:
		return nil
	case a.left == leavesNobody || refused == 0 || a.event+refused+1 != number || a.event <= c.Objects:
		return errs.Corrupt(nil, "query %q: who was charged for the answer are not those it is about, without %d", c.Query, refused)
	}
	left, err := s.refusedBefore(number, refused)
	if err != nil {
		return err
	}
	sum, last := event.NoPanel(), ""
	next := func(name string) {
		sum, last = sum.With(name), name
	}
	for at := a.event - c.Objects; at < a.event; at++ {
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
	if sum.Partly() != event.PanelSum(c.Panel) {
		return errs.Corrupt(nil, "query %q: who was charged for the answer and who was refused are not those it is about", c.Query)
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
	whole := func(all []*event.ObjectRefused) []*event.ObjectRefused {
		return slices.DeleteFunc(all, func(c *event.ObjectRefused) bool { return c.Object == "" })
	}
	same := func(a, b *event.ObjectRefused) bool { return *a == *b }
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
	c, is := ev.Change.(*event.Charged)
	if err != nil || !is || ev.Erased != nil {
		return "", false
	}
	return c.Object, true
}

// admit says by which event the answers began that a new one belongs to, and what it costs each object. It
// refuses one that cannot have come about as it says.
func (a answers) admit(c *event.Answered, number uint64) (began uint64, cost privacy.Epsilon, err error) {
	at, recorded := a.find(c.Epsilon)
	if recorded || c.Epsilon.IsZero() {
		return 0, cost, errs.Corrupt(nil, "a second answer at ε=%s", c.Epsilon)
	}
	base, above := a.best(c.Epsilon)
	switch c.Method {
	case event.MethodFresh:
		if above {
			return 0, cost, errs.Corrupt(nil, "a fresh answer at ε=%s, below one that is there", c.Epsilon)
		}
		return number, c.Epsilon, nil
	case event.MethodRaise:
		if at < len(a) || at == 0 {
			return 0, cost, errs.Corrupt(nil, "a raise to ε=%s, with %d answers below and %d above", c.Epsilon, at, len(a)-at)
		}
		base = a.top()
		cost = less(c.Epsilon, base.epsilon)
	default:
		_, below := a.below(c.Epsilon, base)
		if !above || c.Scored && (c.Method == event.MethodInsert) != below {
			return 0, cost, errs.Corrupt(nil, "an answer at ε=%s by %s among %d", c.Epsilon, c.Method, len(a))
		}
	}
	if base.Scored != c.Scored || base.objects != c.Objects {
		return 0, cost, errs.Corrupt(nil, "an answer about %d objects is derived from none", c.Objects)
	}
	return base.began, cost, nil
}

// applyWithdrawn ends the object's part in everything it was enrolled in so far.
func applyWithdrawn(s *state, c *event.Withdrawn, number uint64) error {
	o, found, err := s.object(c.Object)
	if err != nil || !found {
		return errs.Corrupt(err, "object %q withdraws without being there", c.Object)
	}
	if out, err := s.isOut(c.Object, o); err != nil || out {
		return errs.Corrupt(err, "object %q withdraws twice", c.Object)
	}
	o.withdrawn = number
	s.link(&o.links, number)
	return s.putObject(c.Object, o)
}

// applyEpoch closes the chain of an object, with what it has cost, and begins a new one under the same policy. Nothing
// reserved of the old one can be sold of the new one.
func applyEpoch(s *state, c *event.EpochBegun, number uint64) error {
	ch, o, err := s.enrolledIn(c.Question, c.Object)
	if err != nil {
		return err
	}
	if ch.unused() {
		return errs.Corrupt(nil, "object %q begins a new epoch of question %d, and nothing happened in the last one", c.Object, c.Question)
	}
	q, err := s.question(c.Question)
	if err != nil {
		return err
	}
	if err := s.uncountLevels(q, ch.levels); err != nil {
		return err
	}
	ended := closedEpoch{number, ch.answered, slices.Clone(ch.levels)}
	err = s.putChain(c.Question, c.Object, chain{
		enrolled: ch.enrolled, policy: ch.policy, since: number, closed: append(slices.Clip(ch.closed), ended),
	})
	if err != nil {
		return err
	}
	if o.held, err = s.heldInOthers(o.held, c.Question); err != nil {
		return err
	}
	s.link(&o.links, number)
	return s.putObject(c.Object, o)
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

func applySettled(s *state, c *event.Settled, ev event.Event) error {
	r, known, err := s.request(c.Key)
	if err != nil {
		return err
	}
	none := [sha256.Size]byte{}
	if known && (r.done || c.Alone || r.digest != c.Digest) {
		return errs.Corrupt(nil, "request %q is settled twice", c.Key)
	}
	if c.Refused != s.counters.refused || c.First == 0 || c.First > ev.Number {
		return errs.Corrupt(nil, "request %q, begun by event %d, refuses %d objects where %d were named", c.Key, c.First, c.Refused, s.counters.refused)
	}
	whole := ev.Erased == nil
	if c.Final && (c.Done != 0 || !c.Alone && c.Object != "") || c.Alone && (!c.Final || whole && c.Object == "") || whole && c.Digest == none {
		return errs.Corrupt(nil, "request %q is settled as one that it is not", c.Key)
	}
	if err := s.checkSettledSale(c, ev.Number); err != nil {
		return err
	}
	if err := s.checkAnswer(c, ev.Number); err != nil {
		return err
	}
	if err := s.checkSettled(c, r, ev.Number); err != nil {
		return err
	}
	s.counters.refused, s.counters.unsettled, s.counters.answer, s.counters.underway = 0, 0, answering{}, underway{}
	if c.Object != "" {
		if err := s.linkName(c.Object, ev.Number, s.linkSettled); err != nil {
			return err
		}
	}
	r.digest, r.done, r.through, r.dealt = c.Digest, c.Final, c.Through, c.Done
	r.settled = append(slices.Clip(r.settled), ev.Number)
	return s.putRequest(c.Key, r)
}

// checkSettledSale checks that the sale that a request made stands right before it, with those left out.
func (s *state) checkSettledSale(c *event.Settled, number uint64) error {
	if c.Sale != s.counters.unsettled {
		return errs.Corrupt(nil, "request %q settles sale %d, which is another's; sale %d is to be settled", c.Key, c.Sale, s.counters.unsettled)
	}
	if c.Sale == 0 {
		return nil
	}
	r, err := s.sale(c.Sale)
	if err == nil && (r.refused != c.Refused || r.event+r.objects+r.refused+1 != number) {
		err = errs.Corrupt(nil, "request %q settles sale %d, which is another's", c.Key, c.Sale)
	}
	return err
}
