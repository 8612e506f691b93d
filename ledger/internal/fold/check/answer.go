package check

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Answer has the recorded answers to the query of an answer about its panel.
type Answer struct {
	Key     []byte        // of their record
	Answers state.Answers // in rising order of ε
	Began   uint64        // the event of the first answer of those that the new answer continues
}

// Answered checks an answer to a query about a panel. It compares the answer with the charges in
// the events before it, and with the answers that it is raised or derived from. If the panel is
// erased, it returns no answers.
func Answered(s *state.State, c *event.Answered, ev event.Event) (a Answer, err error) {
	q, err := s.Question(c.Question)
	if err == nil {
		err = q.CheckAnswer(c.Query, c.Objects, c.Result)
	}
	if err != nil {
		return a, err
	}
	if ev.Erased != nil {
		cost, err := costOfErased(s, c, ev.Number)
		if err == nil {
			err = noteAnswer(s, c, ev.Number, cost, state.LeavesUnknown)
		}
		return a, err
	}
	a.Key = state.AnswerKey(c.Question, c.Query, c.Panel)
	if a.Answers, err = answersAt(s, a.Key); err != nil {
		return a, err
	}
	var cost privacy.Epsilon
	if a.Began, cost, err = checkOrigin(a.Answers, c, ev.Number); err != nil {
		return a, fmt.Errorf("query %q, question %d: %w", c.Query, c.Question, err)
	}
	charged := s.Counters.Charges
	if err := noteAnswer(s, c, ev.Number, cost, leavesOut(charged, c)); err != nil {
		return a, err
	}
	if charged.Renewed > a.Began {
		return a, fault("query %q: an answer is raised, and an object of its panel was forgotten or began an epoch",
			c.Query)
	}
	if c.Method == event.MethodRaise {
		if name, other := chargedOther(s, a.Began, ev.Number, c.Objects); other {
			return a, fault("query %q: object %q is charged for an answer that it is not part of", c.Query, name)
		}
	}
	return a, nil
}

// noteAnswer checks that the charges are those of an answer, some of which may be erased, and
// clears them. cost is the charge to each object.
func noteAnswer(s *state.State, c *event.Answered, number uint64, cost privacy.Epsilon, left state.Leaves) error {
	n := &s.Counters
	charged := n.Charges
	all := charged == state.Charges{}
	if !cost.IsZero() {
		same := charged.Epsilon.IsZero() || charged.Question == c.Question && charged.Epsilon == cost
		all = charged.Objects == c.Objects && same
	}
	if c.Objects == 0 || !all {
		return fault("query %q: not every object in the panel of %d was charged for the answer", c.Query, c.Objects)
	}
	noteSpent(&n.InProgress, cost, charged.Objects)
	n.Erased.Spent += uint64(cost.Nano()) * charged.Erased
	n.Charges, n.Answer = state.Charges{}, state.Answering{Event: number, Base: c.Base}
	if !cost.IsZero() {
		n.Answer = state.Answering{Event: number, Left: left, Question: c.Question, Epsilon: c.Epsilon, Cost: cost}
	}
	return nil
}

// answersAt returns the answers recorded under a key. During an audit, they may have been erased
// after they were folded. It then returns none.
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

// costOfErased returns the charge to each object for an answer whose panel is erased. It relies on
// the answer that c.Base refers to.
func costOfErased(s *state.State, c *event.Answered, number uint64) (cost privacy.Epsilon, err error) {
	isFresh := c.Method == event.MethodFresh
	possible := !c.Epsilon.IsZero() && isFresh == (c.Base == 0) && c.Base < number
	if possible && isFresh {
		return c.Epsilon, nil
	}
	base := &event.Answered{}
	if possible {
		var ev event.Event
		ev, err = s.Event(c.Base)
		made, is := ev.Change.(*event.Answered)
		if possible = err == nil && is && ev.Erased != nil; possible {
			base = made
		}
	}
	possible = possible && base.Question == c.Question && base.Query == c.Query && base.Objects == c.Objects
	switch {
	case possible && c.Method == event.MethodRaise && base.Epsilon.Less(c.Epsilon):
		return state.Minus(c.Epsilon, base.Epsilon), nil
	case possible && c.Method != event.MethodRaise && c.Epsilon.Less(base.Epsilon):
		return cost, nil
	}
	return cost, errs.Corrupt(err, "query %q: an answer at ε=%s by method %s from event %d is not possible",
		c.Query, c.Epsilon, c.Method, c.Base)
}

// leavesOut returns what is known of the objects that an answer leaves out, from the charges for
// it.
func leavesOut(n state.Charges, c *event.Answered) state.Leaves {
	switch {
	case n.Erased > 0:
		return state.LeavesUnknown
	case n.Panel == event.PanelSum(c.Panel):
		return state.LeavesNone
	}
	return state.LeavesSome
}

// checkOrigin returns the first of the answers that a new answer continues, and the charge to each
// object. It returns an error if the method or the base of the answer is not possible.
func checkOrigin(a state.Answers, c *event.Answered, number uint64) (began uint64, cost privacy.Epsilon, err error) {
	at, recorded := a.Find(c.Epsilon)
	if recorded || c.Epsilon.IsZero() {
		return 0, cost, fault("an answer at ε=%s is recorded twice", c.Epsilon)
	}
	base, above := a.Best(c.Epsilon)
	switch c.Method {
	case event.MethodFresh:
		if above {
			return 0, cost, fault("a fresh answer at ε=%s is below a recorded answer", c.Epsilon)
		}
		base, cost = state.AnswerLevel{Began: number, Objects: c.Objects}, c.Epsilon
	case event.MethodRaise:
		if at < len(a) || at == 0 {
			return 0, cost, fault("an answer is raised to ε=%s, with %d recorded answers below and %d above",
				c.Epsilon, at, len(a)-at)
		}
		base = a.Top()
		cost = state.Minus(c.Epsilon, base.Epsilon)
	default:
		_, below := a.Below(c.Epsilon, base)
		if !above || c.Scored && (c.Method == event.MethodInsert) != below {
			return 0, cost, fault("an answer at ε=%s by method %s is not possible with %d recorded answers",
				c.Epsilon, c.Method, len(a))
		}
	}
	if base.Objects != c.Objects {
		return 0, cost, fault("an answer about %d objects is derived from an answer about another number of objects",
			c.Objects)
	}
	if c.Base != base.Event {
		return 0, cost, fault("an answer at ε=%s by method %s follows from event %d, but names event %d",
			c.Epsilon, c.Method, base.Event, c.Base)
	}
	return base.Began, cost, nil
}

// chargedOther compares the charges of a raised answer with those of the first answer that it
// continues. It returns an object that is charged only for the raised answer, if there is one.
// Erased and missing events are not compared.
func chargedOther(s *state.State, began, raised, objects uint64) (name string, other bool) {
	for back := uint64(1); back <= objects; back++ {
		before, known := objectOf[*event.Charged](s, began-back)
		now, whole := objectOf[*event.Charged](s, raised-back)
		if known && whole && before != now {
			return now, true
		}
	}
	return "", false
}

// checkAnswer checks the answer that a request settles. It must be the answer of this request or a
// recorded one, and the refusals of the request must fit it.
func checkAnswer(s *state.State, c *event.Settled, number uint64) error {
	a, u := s.Counters.Answer, &s.Counters.InProgress
	if u.IsIncomplete {
		return nil
	}
	if a.Event != 0 && a.Event != c.Answer || c.Answer >= number {
		return fault("request %q settles the answer of event %d, not that of event %d",
			c.Key, c.Answer, a.Event)
	}
	if c.Answer == 0 {
		return nil
	}
	made, isErased, err := answerOf(s, c)
	if err != nil {
		return err
	}
	if !isErased && u.ErasedEvents > 0 {
		return fault("request %q: an object of it is forgotten, but the panel of event %d is not erased",
			c.Key, c.Answer)
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
		err = fault("request %q, with the answer of event %d, counts %v", c.Key, c.Answer, c.Counts)
	}
	return err
}

// answerOf returns the answer that a request settles, and whether its panel is erased.
func answerOf(s *state.State, c *event.Settled) (made *event.Answered, isErased bool, err error) {
	ev, err := s.Event(c.Answer)
	made, is := ev.Change.(*event.Answered)
	if err != nil || !is {
		return nil, false, errs.Corrupt(err, "request %q settles the answer of event %d, which is not an answer", c.Key,
			c.Answer)
	}
	return made, ev.Erased != nil, nil
}

// checkLeftOut checks that the objects charged for an answer and the objects refused are together
// the requested panel. number is the event that settles the answer.
func checkLeftOut(s *state.State, c *event.Answered, a state.Answering, number, refused uint64) error {
	switch {
	case a.Left == state.LeavesUnknown || a.Left == state.LeavesNone && refused == 0:
		return nil
	case a.Left == state.LeavesNone || refused == 0 || a.Event+refused+1 != number || a.Event <= c.Objects:
		return fault("query %q: the charged objects and %d refused ones are not the panel of the answer",
			c.Query, refused)
	}
	left, err := s.RefusedBefore(number, refused)
	if err != nil {
		return err
	}
	sum, known := sumOfPanel(s, a.Event-c.Objects, a.Event, left)
	if known && sum.Partly() != event.PanelSum(c.Panel) {
		return fault("query %q: the charged and the refused objects are not the panel of the answer", c.Query)
	}
	return nil
}

// sumOfPanel returns the digest of the objects that are charged by the events from first to end or
// refused. known is false if one of them is erased or they are not in order.
func sumOfPanel(s *state.State, first, end uint64, refused []*event.ObjectRefused) (sum event.PanelSum, known bool) {
	sum, last := event.EmptyPanel(), ""
	next := func(name string) bool {
		isNext := name > last
		sum, last = sum.With(name), name
		return isNext
	}
	for at := first; at < end; at++ {
		name, known := objectOf[*event.Charged](s, at)
		for ; known && len(refused) > 0 && refused[0].Object < name; refused = refused[1:] {
			known = next(refused[0].Object)
		}
		if !known {
			return sum, false
		}
		next(name)
	}
	for _, one := range refused {
		if one.Object == "" {
			return sum, false
		}
		next(one.Object)
	}
	return sum, true
}

// checkLeftOutAgain checks that a request that got a recorded answer refuses the objects that this
// answer left out, except those forgotten since then.
func checkLeftOutAgain(s *state.State, base, number, refused uint64) error {
	before, err := s.LeftOutAt(base)
	if err != nil {
		return err
	}
	now, err := s.RefusedBefore(number, refused)
	if err != nil {
		return err
	}
	all := uint64(len(before))
	if refused > all || !slices.Equal(wholeOf(now), wholeOf(before)) {
		return fault("a request leaves out %d objects, but the answer of event %d left out %d, or others",
			refused, base, all)
	}
	return nil
}

// wholeOf returns the refusals that are not erased.
func wholeOf(all []*event.ObjectRefused) (whole []event.ObjectRefused) {
	for _, c := range all {
		if c.Object != "" {
			whole = append(whole, *c)
		}
	}
	return whole
}
