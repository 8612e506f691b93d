package fold

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/budget"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Apply is the only code that changes the state. It is pure: the new state follows from the old one
// and the event alone, with no clock and no randomness. Recording, recovery and audit are folds of it.
// An event that cannot follow on the state is [ErrCorrupt].
func Apply(s *state.State, ev event.Event) error {
	if ev.Number != s.Counters.Events+1 {
		return fmt.Errorf("%w: event %d follows on event %d", errs.ErrCorrupt, ev.Number, s.Counters.Events)
	}
	if ev.Time.Before(s.Counters.Last) {
		return fmt.Errorf("%w: event %d is earlier than the one before it", errs.ErrCorrupt, ev.Number)
	}
	if _, ok := ev.Change.(*event.Created); ok != (ev.Number == 1) {
		return errs.Corrupt(nil, "event %d: the log begins with how the ledger was created", ev.Number)
	}
	s.Counters.Events, s.Counters.Last, s.Now = ev.Number, ev.Time, ev.Time
	s.Linked = state.Linked{}
	if err := checkOpen(s, ev.Change); err != nil {
		return err
	}
	if k := ev.Change.Kind(); k != event.KindSettled && !beginsLedger(k) {
		if err := takeEvent(&s.Counters.Underway, k); err != nil {
			return err
		}
		noteName(&s.Counters.Underway, event.ObjectOf(ev))
	} else if k != event.KindSettled && s.Counters.Underway != (state.Underway{}) {
		return errs.Corrupt(nil, "%d events are settled by no request", s.Counters.Underway.Events)
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
	return fmt.Errorf("%w: event %d is of an unknown kind", errs.ErrCorrupt, ev.Number)
}

func applyCreated(s *state.State, c *event.Created, ev event.Event) error {
	if err := names.Check("currency", c.Currency); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	return s.Put(state.BucketMeta, []byte(state.KeyAbout), event.About{Created: *c, At: ev.Time}.Encode())
}

func applyTruthKey(s *state.State, c *event.TruthKeySet) error {
	if former, err := s.Payload(state.BucketMeta, []byte(state.KeyTruthKey)); err != nil || former != nil {
		return errs.Corrupt(err, "a second truth key")
	}
	s.Keyed = state.TruthKeyUnknown // it is looked up again: of a forged log this event may be left out
	return s.Put(state.BucketMeta, []byte(state.KeyTruthKey), slices.Clone(c.Check[:]))
}

// checkBound refuses a draw from a truth that a chain is not bound to, once there is a key by which it should be.
func checkBound(s *state.State, c *state.Chain) error {
	if c.Bound != nil {
		return nil
	}
	keyed, err := s.HasTruthKey()
	if err != nil || keyed {
		return errs.Corrupt(err, "a draw from a truth that the chain is not bound to")
	}
	return nil
}

func applyQuestion(s *state.State, c *event.QuestionDefined) error {
	if c.Number != s.Counters.Questions+1 {
		return fmt.Errorf("%w: question %d follows on question %d", errs.ErrCorrupt, c.Number, s.Counters.Questions)
	}
	if err := event.CheckQuestion(c.Question); err != nil {
		return errs.Corrupt(nil, "question %d: %v", c.Number, err)
	}
	if _, twice, err := s.QuestionNumber(c.Name); err != nil || twice {
		return errs.Corrupt(err, "question %q is defined twice", c.Name)
	}
	s.Counters.Questions = c.Number
	e := &wire.Encoder{}
	c.Encode(e)
	if err := s.Put(state.BucketQuestions, state.NumberKey(c.Number), e.Buf); err != nil {
		return err
	}
	if err := s.PutDefinition(state.BucketQuestions, c.Number); err != nil {
		return err
	}
	return s.PutNumber(state.BucketQuestions, state.NameKey(c.Name), c.Number)
}

func applyPolicy(s *state.State, c *event.PolicyDefined) error {
	if c.Number != s.Counters.Policies+1 {
		return fmt.Errorf("%w: policy %d follows on policy %d", errs.ErrCorrupt, c.Number, s.Counters.Policies)
	}
	p, err := policy.Parse([]byte(c.JSON))
	if err != nil {
		return fmt.Errorf("%w: %w", errs.ErrCorrupt, err)
	}
	if _, twice, err := s.PolicyNumber(p); err != nil || twice || p.String() != c.JSON {
		return errs.Corrupt(err, "policy %d is there already, or is not canonical", c.Number)
	}
	s.Counters.Policies = c.Number
	if err := s.Put(state.BucketPolicies, state.PolicyNumberKey(c.Number), []byte(c.JSON)); err != nil {
		return err
	}
	if err := s.PutDefinition(state.BucketPolicies, c.Number); err != nil {
		return err
	}
	return s.PutNumber(state.BucketPolicies, state.PolicyJSONKey(wire.HashText(c.JSON)), c.Number)
}

func applyEnrolled(s *state.State, c *event.Enrolled, number uint64) error {
	if err := checkEnrolled(s, c); err != nil {
		return err
	}
	o, known, err := s.Object(c.Object)
	if err != nil {
		return err
	}
	if !known {
		if o, err = introduce(s, c); err != nil {
			return err
		}
	}
	ch, again, err := s.Chain(c.Question, c.Object)
	if err != nil {
		return err
	}
	switch {
	case !again:
		ch = state.Chain{Policy: c.Policy, Noise: c.Noise}
		s.Counters.Chains++
		o.Chains++
	case !o.Withdrew(ch):
		return errs.Corrupt(nil, "object %q is enrolled twice in question %d", c.Object, c.Question)
	}
	if ch.Policy != c.Policy || o.Cap != c.Cap {
		return errs.Corrupt(nil, "object %q comes to question %d under other ceilings than it had", c.Object, c.Question)
	}
	if again && o.Forgotten > ch.Enrolled {
		ch.Noise = 0 // buyers may still have responses that were drawn from the key, about another truth perhaps
	}
	if ch.Noise != c.Noise {
		return errs.Corrupt(nil, "object %q comes to question %d with another noise key than its chain began with", c.Object, c.Question)
	}
	s.Counters.Underway.Enrolled++
	if err := followObject(&s.Counters.Underway, c.Object); err != nil {
		return err
	}
	ch.Enrolled = number
	s.Link(&o.Links, number)
	if err := s.PutObject(c.Object, o); err != nil {
		return err
	}
	if err := s.WriteMember(c.Object, c.Question); err != nil {
		return err
	}
	return s.PutChain(c.Question, c.Object, ch)
}

func checkEnrolled(s *state.State, c *event.Enrolled) error {
	if err := names.Check("object", c.Object); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	if c.Question == 0 || c.Question > s.Counters.Questions || c.Policy > s.Counters.Policies || c.Noise > s.Counters.Noises || c.Cap.IsZero() {
		return errs.Corrupt(nil, "object %q is enrolled in question %d under policy %d with the cap %s", c.Object, c.Question, c.Policy, c.Cap)
	}
	q, err := s.Question(c.Question)
	if err == nil && q.Encoding == vocabulary.Finite && c.Noise != 0 {
		err = errs.Corrupt(nil, "object %q has a noise key in question %d, which has a mechanism of its own", c.Object, c.Question)
	}
	return err
}

// introduce makes the record of a new object. It takes over what the log has about the stranger.
func introduce(s *state.State, c *event.Enrolled) (state.Object, error) {
	x, found, err := s.Stranger(c.Object)
	if err == nil && found {
		err = s.Writer.Delete(state.BucketStrangers, []byte(c.Object))
	}
	s.Counters.Objects++
	return state.Object{Cap: c.Cap, Links: x.Links}, err
}

// enrolledIn returns a chain and its object for a draw or a charge.
func enrolledIn(s *state.State, question uint32, name string) (c state.Chain, o state.Object, err error) {
	found, err := s.ReadChain(question, name, &c)
	if err != nil || !found {
		return c, state.Object{}, errs.Corrupt(err, "object %q takes part in question %d without being enrolled", name, question)
	}
	found, err = s.ReadObject(name, &o)
	if err != nil || !found {
		return c, o, errs.Corrupt(err, "object %q has a chain but no budget", name)
	}
	if o.Withdrew(c) {
		return c, o, errs.Corrupt(nil, "object %q takes part in question %d after it has withdrawn", name, question)
	}
	return c, o, nil
}

func applyReleased(s *state.State, c *event.Released, ev event.Event) error {
	ch, o, err := enrolledIn(s, c.Question, c.Object)
	if err != nil {
		return err
	}
	cost, err := addResponse(s, c.Question, &ch, c.Epsilon, c.Response, ev.Number)
	if err == nil && !cost.IsZero() {
		err = chargeObject(s, &o, ch, cost, ev)
	}
	if err == nil {
		err = noteResponse(&s.Counters.Underway, c, cost)
	}
	if err != nil {
		return fmt.Errorf("object %q, question %d: %w", c.Object, c.Question, err)
	}
	s.Link(&o.Links, ev.Number)
	if err := s.PutChain(c.Question, c.Object, ch); err != nil {
		return err
	}
	return s.PutObject(c.Object, o)
}

// addResponse adds a response to a chain and returns what it costs: what it raises the highest ε by.
func addResponse(s *state.State, question uint32, c *state.Chain, epsilon privacy.Epsilon, r event.Response, number uint64) (cost privacy.Epsilon, err error) {
	q, err := s.Question(question)
	if err != nil {
		return cost, err
	}
	before := c.Current()
	at, recorded := state.FindLevel(c.Levels, epsilon)
	if recorded || epsilon.IsZero() || !q.Has(epsilon, r.Value) || r.Method != event.MethodAt(at, len(c.Levels)) {
		return cost, errs.Corrupt(nil, "a response of %v at ε=%s by %s", r.Value, epsilon, r.Method)
	}
	if r.Method == event.MethodRaise {
		if err := checkBound(s, c); err != nil {
			return cost, err
		}
	}
	if !s.Plain && (at < len(c.Levels) || !s.Desk.HasPage()) { // else nobody else has them, or the room behind them
		c.Levels = slices.Clip(c.Levels)
	}
	c.Levels = slices.Insert(c.Levels, at, state.NewLevel(epsilon, r.Value, number))
	return budget.Minus(c.Current(), before), s.CountLevel(q, c.Levels, at)
}

// applyBound ties a chain to its truth, once.
func applyBound(s *state.State, c *event.TruthBound, number uint64) error {
	ch, o, err := enrolledIn(s, c.Question, c.Object)
	if err != nil {
		return err
	}
	keyed, err := s.HasTruthKey()
	if err != nil || !keyed || ch.Bound != nil {
		return errs.Corrupt(err, "object %q is bound to a truth in question %d a second time, or without a key", c.Object, c.Question)
	}
	ch.Bound = &c.Tag
	s.Link(&o.Links, number)
	if err := s.PutChain(c.Question, c.Object, ch); err != nil {
		return err
	}
	return s.PutObject(c.Object, o)
}

// chargeObject adds a cost to what an object has spent, and checks it against the object's cap and its chain's
// ceiling, as the chain is after it. A request is bound by the ceiling of the clock; that of the log's time is
// the same, or is higher if the clock had gone back.
func chargeObject(s *state.State, o *state.Object, after state.Chain, cost privacy.Epsilon, ev event.Event) error {
	spent, err := o.Spent.Add(cost)
	if err != nil || o.Cap.Less(spent) {
		return errs.Corrupt(nil, "it spends more than its cap of %s", o.Cap)
	}
	p, err := s.Policy(after.Policy)
	if err != nil {
		return err
	}
	if ceiling := p.Ceiling(ev.Time, after.Buyers); ceiling.Less(after.Spent()) {
		return errs.Corrupt(nil, "it spends %s, above the ceiling of %s", after.Spent(), ceiling)
	}
	o.Spent = spent
	return nil
}

// applyCharged adds up what answers cost: a chain's levels and the answers are independent of each other, and so are
// answers but for those that are raised, which cost the difference.
func applyCharged(s *state.State, c *event.Charged, ev event.Event) error {
	ch, o, err := enrolledIn(s, c.Question, c.Object)
	if err != nil {
		return err
	}
	if err := takeCharge(&s.Counters.Charges, c); err != nil {
		return err
	}
	s.Counters.Charges.Renewed = max(s.Counters.Charges.Renewed, ch.Since)
	if err := checkBound(s, &ch); err != nil {
		return errs.Corrupt(nil, "object %q is charged for question %d: %v", c.Object, c.Question, err)
	}
	if ch.Answered, err = ch.Answered.Add(c.Epsilon); err == nil {
		err = chargeObject(s, &o, ch, c.Epsilon, ev)
	}
	if err != nil {
		return errs.Corrupt(nil, "object %q is charged for question %d: %v", c.Object, c.Question, err)
	}
	s.Link(&o.Links, ev.Number)
	if err := s.PutChain(c.Question, c.Object, ch); err != nil {
		return err
	}
	return s.PutObject(c.Object, o)
}

// takeCharge counts a charge of the answer to come: all of them are alike.
func takeCharge(n *state.Charges, c *event.Charged) error {
	if n.Epsilon.IsZero() {
		n.Question, n.Epsilon, n.Panel = c.Question, c.Epsilon, event.EmptyPanel()
	}
	if c.Object <= n.Last {
		return errs.Corrupt(nil, "object %q is charged after %q", c.Object, n.Last)
	}
	if n.Question != c.Question || n.Epsilon != c.Epsilon || c.Epsilon.IsZero() {
		return errs.Corrupt(nil, "object %q is charged %s for question %d, others otherwise", c.Object, c.Epsilon, c.Question)
	}
	n.Objects++
	n.Last, n.Panel = c.Object, n.Panel.With(c.Object)
	return nil
}

// chargesSettle tells whether the charges are those of an answer that costs everybody so much. Some of their events
// may be erased.
func chargesSettle(n state.Charges, c *event.Answered, cost privacy.Epsilon) bool {
	if cost.IsZero() {
		return n == state.Charges{}
	}
	return n.Objects == c.Objects && (n.Epsilon.IsZero() || n.Question == c.Question && n.Epsilon == cost)
}

func applyAnswered(s *state.State, c *event.Answered, number uint64) error {
	q, err := s.Question(c.Question)
	if err != nil {
		return err
	}
	if _, err := q.AnswerText(c.Query, c.Result); err != nil {
		return err
	}
	key := state.AnswerKey(c.Question, c.Query, c.Panel)
	a, _, err := s.Answers(key)
	if err != nil {
		return err
	}
	began, cost, err := admitAnswer(a, c, number)
	if err != nil {
		return fmt.Errorf("query %q, question %d: %w", c.Query, c.Question, err)
	}
	charged := s.Counters.Charges
	if c.Objects == 0 || !chargesSettle(charged, c, cost) {
		return errs.Corrupt(nil, "query %q: not everybody in the panel of %d was charged for it", c.Query, c.Objects)
	}
	if charged.Renewed > began {
		return errs.Corrupt(nil, "query %q: an answer is raised after somebody in its panel was forgotten, or began an epoch", c.Query)
	}
	if c.Method == event.MethodRaise {
		if name, other := chargedOther(s, began, number, c.Objects); other {
			return errs.Corrupt(nil, "query %q: object %q is charged for an answer about others", c.Query, name)
		}
	}
	noteSpent(&s.Counters.Underway, cost, charged.Objects)
	s.Counters.Erased.Spent += uint64(cost.Nano()) * charged.Erased
	s.Counters.Charges, s.Counters.Answer = state.Charges{}, state.Answering{Event: number, Base: 0, Left: leavesOut(charged, c), Question: c.Question, Epsilon: c.Epsilon, Cost: cost}
	if cost.IsZero() {
		base, _ := a.Best(c.Epsilon)
		s.Counters.Answer = state.Answering{Event: number, Base: base.Event}
	}
	at, _ := a.Find(c.Epsilon)
	made := state.AnswerLevel{Epsilon: c.Epsilon, Result: c.Result, Event: number, Began: began, Objects: c.Objects}
	return s.Put(state.BucketAnswers, key, slices.Insert(a, at, made).Encode())
}

// leavesOut tells what is known of whom an answer leaves out, by whom was charged for it.
func leavesOut(n state.Charges, c *event.Answered) state.Leaves {
	switch {
	case n.Erased > 0:
		return state.LeavesAnybody
	case n.Panel == event.PanelSum(c.Panel):
		return state.LeavesNobody
	}
	return state.LeavesSomebody
}

// checkAnswer checks that the answer that a request settles is its own, or was there before, and that whom the request
// left out fits it.
func checkAnswer(s *state.State, c *event.Settled, number uint64) error {
	a := s.Counters.Answer
	if s.Counters.Underway.Loose {
		return nil
	}
	if a.Event != 0 && a.Event != c.Answer || c.Answer >= number {
		return errs.Corrupt(nil, "request %q settles the answer of event %d, where that of event %d is to be settled", c.Key, c.Answer, a.Event)
	}
	if c.Answer == 0 {
		return nil
	}
	ev, err := s.Event(c.Answer)
	made, is := ev.Change.(*event.Answered)
	if err != nil || !is {
		return errs.Corrupt(err, "request %q settles the answer of event %d, which is none", c.Key, c.Answer)
	}
	want := event.Counts{}
	switch {
	case a.Event == 0:
		want[event.Reused] = 1
		err = checkLeftOutAgain(s, c.Answer, number, c.Refused)
	case a.Base != 0:
		want[event.Derived] = 1
		err = checkLeftOutAgain(s, a.Base, number, c.Refused)
	default:
		want[event.Drawn] = 1
		err = checkLeftOut(s, made, a, number, c.Refused)
	}
	if err == nil && c.Counts != want {
		err = errs.Corrupt(nil, "request %q, with the answer of event %d, counts %v", c.Key, c.Answer, c.Counts)
	}
	return err
}

// checkLeftOut checks that those charged for an answer and those refused, whose events stand before the one that settles
// it, are together who was asked for.
func checkLeftOut(s *state.State, c *event.Answered, a state.Answering, number, refused uint64) error {
	switch {
	case a.Left == state.LeavesAnybody || a.Left == state.LeavesNobody && refused == 0:
		return nil
	case a.Left == state.LeavesNobody || refused == 0 || a.Event+refused+1 != number || a.Event <= c.Objects:
		return errs.Corrupt(nil, "query %q: who was charged for the answer are not those it is about, without %d", c.Query, refused)
	}
	left, err := s.RefusedBefore(number, refused)
	if err != nil {
		return err
	}
	sum, last := event.EmptyPanel(), ""
	next := func(name string) {
		sum, last = sum.With(name), name
	}
	for at := a.Event - c.Objects; at < a.Event; at++ {
		name, known := chargedBy(s, at)
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
func checkLeftOutAgain(s *state.State, base, number, refused uint64) error {
	before, err := s.LeftOutAt(base)
	if err != nil {
		return err
	}
	now, err := s.RefusedBefore(number, refused)
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
func chargedOther(s *state.State, began, raised, objects uint64) (name string, other bool) {
	for back := uint64(1); back <= objects; back++ {
		before, known := chargedBy(s, began-back)
		now, stands := chargedBy(s, raised-back)
		if known && stands && before != now {
			return now, true
		}
	}
	return "", false
}

// chargedBy returns the object that an event charges for an answer, if it does.
func chargedBy(s *state.State, number uint64) (object string, known bool) {
	ev, err := s.Event(number)
	c, is := ev.Change.(*event.Charged)
	if err != nil || !is || ev.Erased != nil {
		return "", false
	}
	return c.Object, true
}

// admitAnswer says by which event the answers began that a new one belongs to, and what it costs each object. It
// refuses one that cannot have come about as it says.
func admitAnswer(a state.Answers, c *event.Answered, number uint64) (began uint64, cost privacy.Epsilon, err error) {
	at, recorded := a.Find(c.Epsilon)
	if recorded || c.Epsilon.IsZero() {
		return 0, cost, errs.Corrupt(nil, "a second answer at ε=%s", c.Epsilon)
	}
	base, above := a.Best(c.Epsilon)
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
		base = a.Top()
		cost = budget.Minus(c.Epsilon, base.Epsilon)
	default:
		_, below := a.Below(c.Epsilon, base)
		if !above || c.Scored && (c.Method == event.MethodInsert) != below {
			return 0, cost, errs.Corrupt(nil, "an answer at ε=%s by %s among %d", c.Epsilon, c.Method, len(a))
		}
	}
	if base.Scored != c.Scored || base.Objects != c.Objects {
		return 0, cost, errs.Corrupt(nil, "an answer about %d objects is derived from none", c.Objects)
	}
	return base.Began, cost, nil
}

// applyWithdrawn ends the object's part in everything it was enrolled in so far.
func applyWithdrawn(s *state.State, c *event.Withdrawn, number uint64) error {
	o, found, err := s.Object(c.Object)
	if err != nil || !found {
		return errs.Corrupt(err, "object %q withdraws without being there", c.Object)
	}
	if out, err := s.IsOut(c.Object, o); err != nil || out {
		return errs.Corrupt(err, "object %q withdraws twice", c.Object)
	}
	o.Withdrawn = number
	s.Link(&o.Links, number)
	return s.PutObject(c.Object, o)
}

// applyEpoch closes the chain of an object, with what it has cost, and begins a new one under the same policy. Nothing
// reserved of the old one can be sold of the new one.
func applyEpoch(s *state.State, c *event.EpochBegun, number uint64) error {
	ch, o, err := enrolledIn(s, c.Question, c.Object)
	if err != nil {
		return err
	}
	if ch.Unused() {
		return errs.Corrupt(nil, "object %q begins a new epoch of question %d, and nothing happened in the last one", c.Object, c.Question)
	}
	q, err := s.Question(c.Question)
	if err != nil {
		return err
	}
	if err := s.UncountLevels(q, ch.Levels); err != nil {
		return err
	}
	ended := state.ClosedEpoch{End: number, Answered: ch.Answered, Levels: slices.Clone(ch.Levels)}
	err = s.PutChain(c.Question, c.Object, state.Chain{
		Enrolled: ch.Enrolled, Policy: ch.Policy, Since: number, Closed: append(slices.Clip(ch.Closed), ended),
	})
	if err != nil {
		return err
	}
	if o.Held, err = heldInOthers(s, o.Held, c.Question); err != nil {
		return err
	}
	s.Link(&o.Links, number)
	return s.PutObject(c.Object, o)
}

// heldInOthers drops the reservations in a question.
func heldInOthers(s *state.State, numbers []uint64, question uint32) (kept []uint64, err error) {
	for _, number := range numbers {
		r, err := s.Sale(number)
		if err != nil {
			return nil, err
		}
		if r.Question != question {
			kept = append(kept, number)
		}
	}
	return kept, nil
}

// LinkName makes an event the last one about an object, or about somebody who is not enrolled.
func LinkName(s *state.State, name string, event uint64, link func(*state.Links, uint64)) error {
	o, known, err := s.Object(name)
	if err != nil {
		return err
	}
	if known {
		link(&o.Links, event)
		return s.PutObject(name, o)
	}
	if err := names.Check("object", name); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	x, _, err := s.Stranger(name)
	if err != nil {
		return err
	}
	link(&x.Links, event)
	return s.Put(state.BucketStrangers, []byte(name), x.Encode())
}

func applySettled(s *state.State, c *event.Settled, ev event.Event) error {
	r, known, err := s.Request(c.Key)
	if err != nil {
		return err
	}
	none := [sha256.Size]byte{}
	if known && (r.Done || c.Alone || r.Digest != c.Digest) {
		return errs.Corrupt(nil, "request %q is settled twice", c.Key)
	}
	if c.Refused != s.Counters.Refused || c.First == 0 || c.First > ev.Number {
		return errs.Corrupt(nil, "request %q, begun by event %d, refuses %d objects where %d were named", c.Key, c.First, c.Refused, s.Counters.Refused)
	}
	whole := ev.Erased == nil
	if c.Final && (c.Done != 0 || !c.Alone && c.Object != "") || c.Alone && (!c.Final || whole && c.Object == "") || whole && c.Digest == none {
		return errs.Corrupt(nil, "request %q is settled as one that it is not", c.Key)
	}
	if err := checkSettledSale(s, c, ev.Number); err != nil {
		return err
	}
	if err := checkAnswer(s, c, ev.Number); err != nil {
		return err
	}
	if err := checkSettled(s, c, r, ev.Number); err != nil {
		return err
	}
	s.Counters.Refused, s.Counters.Unsettled, s.Counters.Answer, s.Counters.Underway = 0, 0, state.Answering{}, state.Underway{}
	if c.Object != "" {
		if err := LinkName(s, c.Object, ev.Number, s.LinkSettled); err != nil {
			return err
		}
	}
	r.Digest, r.Done, r.Through, r.Dealt = c.Digest, c.Final, c.Through, c.Done
	r.Settled = append(slices.Clip(r.Settled), ev.Number)
	return s.PutRequest(c.Key, r)
}

// checkSettledSale checks that the sale that a request made stands right before it, with those left out.
func checkSettledSale(s *state.State, c *event.Settled, number uint64) error {
	if c.Sale != s.Counters.Unsettled {
		return errs.Corrupt(nil, "request %q settles sale %d, which is another's; sale %d is to be settled", c.Key, c.Sale, s.Counters.Unsettled)
	}
	if c.Sale == 0 {
		return nil
	}
	r, err := s.Sale(c.Sale)
	if err == nil && (r.Refused != c.Refused || r.Event+r.Objects+r.Refused+1 != number) {
		err = errs.Corrupt(nil, "request %q settles sale %d, which is another's", c.Key, c.Sale)
	}
	return err
}
