package fold

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

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
	noteDrawn(&s.Counters.Underway, c.Question, o.Latest)
	if ch.Answered, err = ch.Answered.Add(c.Epsilon); err == nil {
		err = chargeObject(s, &o, ch, c.Epsilon, ev)
	}
	if err != nil {
		return errs.Corrupt(nil, "object %q is charged for question %d: %v", c.Object, c.Question, err)
	}
	return putBoth(s, c.Question, c.Object, ch, o, ev.Number)
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

// applyAnswered records an answer to a query about a panel. Those charged for it stand before it. Under an
// erased panel nothing is recorded.
func applyAnswered(s *state.State, c *event.Answered, ev event.Event) error {
	q, err := s.Question(c.Question)
	if err != nil {
		return err
	}
	if err := q.CheckAnswer(c.Query, c.Objects, c.Result); err != nil {
		return err
	}
	if ev.Erased != nil {
		return applyErasedAnswer(s, c, ev.Number)
	}
	number := ev.Number
	key := state.AnswerKey(c.Question, c.Query, c.Panel)
	a, err := answersAt(s, key)
	if err != nil {
		return err
	}
	base, began, cost, err := admitAnswer(a, c, number)
	if err == nil && c.Base != base.Event {
		err = errs.Corrupt(nil, "an answer at ε=%s by %s that comes from event %d, and says event %d", c.Epsilon, c.Method, base.Event, c.Base)
	}
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
	takeCharges(s, c, number, cost, leavesOut(charged, c))
	at, _ := a.Find(c.Epsilon)
	made := state.AnswerLevel{Epsilon: c.Epsilon, Result: c.Result, Event: number, Began: began, Objects: c.Objects}
	return s.Put(state.BucketAnswers, key, slices.Insert(a, at, made).Encode())
}

// takeCharges takes the charges of an answer off those that are to be answered.
func takeCharges(s *state.State, c *event.Answered, number uint64, cost privacy.Epsilon, left state.Leaves) {
	charged := s.Counters.Charges
	noteSpent(&s.Counters.Underway, cost, charged.Objects)
	s.Counters.Erased.Spent += uint64(cost.Nano()) * charged.Erased
	s.Counters.Charges, s.Counters.Answer = state.Charges{}, state.Answering{Event: number, Base: 0, Left: left, Question: c.Question, Epsilon: c.Epsilon, Cost: cost}
	if cost.IsZero() {
		s.Counters.Answer = state.Answering{Event: number, Base: c.Base}
	}
}

// answersAt returns the answers that are recorded under a key. An audit may have folded some before they
// were erased, and then there are none.
func answersAt(s *state.State, key []byte) (state.Answers, error) {
	a, _, err := s.Answers(key)
	if err != nil || len(a) == 0 {
		return nil, err
	}
	ev, err := s.Event(a.Top().Event)
	if err != nil || ev.Erased != nil {
		return nil, err
	}
	return a, nil
}

// applyErasedAnswer checks an answer whose panel is erased against the one that it says it comes from.
func applyErasedAnswer(s *state.State, c *event.Answered, number uint64) error {
	cost, err := costOfErased(s, c, number)
	if err != nil {
		return err
	}
	if c.Objects == 0 || !chargesSettle(s.Counters.Charges, c, cost) {
		return errs.Corrupt(nil, "query %q: not everybody in the panel of %d was charged for it", c.Query, c.Objects)
	}
	takeCharges(s, c, number, cost, state.LeavesAnybody)
	return nil
}

// costOfErased returns what an answer whose panel is erased costs each object.
func costOfErased(s *state.State, c *event.Answered, number uint64) (cost privacy.Epsilon, err error) {
	refused := func(cause error) error {
		return errs.Corrupt(cause, "query %q: an answer at ε=%s by %s, from event %d", c.Query, c.Epsilon, c.Method, c.Base)
	}
	if isFresh := c.Method == event.MethodFresh; isFresh || c.Base == 0 || c.Base >= number || c.Epsilon.IsZero() {
		if !isFresh || c.Base != 0 || c.Epsilon.IsZero() {
			err = refused(nil)
		}
		return c.Epsilon, err
	}
	ev, err := s.Event(c.Base)
	base, is := ev.Change.(*event.Answered)
	if err != nil || !is || ev.Erased == nil || base.Question != c.Question || base.Query != c.Query || base.Objects != c.Objects {
		return cost, refused(err)
	}
	if c.Method != event.MethodRaise && c.Epsilon.Less(base.Epsilon) {
		return cost, nil
	}
	if c.Method != event.MethodRaise || !base.Epsilon.Less(c.Epsilon) {
		return cost, refused(nil)
	}
	return state.Minus(c.Epsilon, base.Epsilon), nil
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
	isErased := ev.Erased != nil
	if !isErased && s.Counters.Underway.Gone > 0 {
		return errs.Corrupt(nil, "request %q: an object is forgotten, but the panel of event %d is not erased", c.Key, c.Answer)
	}
	want := event.Counts{}
	switch {
	case a.Event == 0:
		want[event.Reused] = 1
		err = checkLeftOutAgain(s, c.Answer, number, c.Refused)
	case a.Base != 0:
		want[event.Derived] = 1
		err = checkLeftOutAgain(s, a.Base, number, c.Refused)
	case isErased:
		want[event.Drawn] = 1
		err = checkGone(s, number, c.Key)
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

// admitAnswer says which answer a new one comes from, by which event the answers began that it belongs to, and what it
// costs each object. It refuses one that cannot have come about as it says.
func admitAnswer(a state.Answers, c *event.Answered, number uint64) (base state.AnswerLevel, began uint64, cost privacy.Epsilon, err error) {
	at, recorded := a.Find(c.Epsilon)
	if recorded || c.Epsilon.IsZero() {
		return base, 0, cost, errs.Corrupt(nil, "a second answer at ε=%s", c.Epsilon)
	}
	base, above := a.Best(c.Epsilon)
	switch c.Method {
	case event.MethodFresh:
		if above {
			return base, 0, cost, errs.Corrupt(nil, "a fresh answer at ε=%s, below one that is there", c.Epsilon)
		}
		return base, number, c.Epsilon, nil
	case event.MethodRaise:
		if at < len(a) || at == 0 {
			return base, 0, cost, errs.Corrupt(nil, "a raise to ε=%s, with %d answers below and %d above", c.Epsilon, at, len(a)-at)
		}
		base = a.Top()
		cost = state.Minus(c.Epsilon, base.Epsilon)
	default:
		_, below := a.Below(c.Epsilon, base)
		if !above || c.Scored && (c.Method == event.MethodInsert) != below {
			return base, 0, cost, errs.Corrupt(nil, "an answer at ε=%s by %s among %d", c.Epsilon, c.Method, len(a))
		}
	}
	if base.Objects != c.Objects {
		return base, 0, cost, errs.Corrupt(nil, "an answer about %d objects is derived from none", c.Objects)
	}
	return base, base.Began, cost, nil
}
