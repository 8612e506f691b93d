package check

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Answer is what [Answered] finds for a new answer: the recorded answers to the same query about
// the same panel.
type Answer struct {
	Key     []byte        // the key of their record, see [state.AnswerKey]
	Answers state.Answers // in rising order of ε
	Began   uint64        // the event of the fresh answer that the new answer continues; its own event if it is fresh
}

// Answered checks an answer to a query about a panel. It compares the answer with the charges in
// the events before it, and with the answers that it is raised or derived from. If the panel is
// erased, it returns the zero value, because the other answers are erased as well.
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
	// A copy, because noteAnswer clears the charges.
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

// noteAnswer checks that the charges before an answer are those for it, clears them, and notes the
// answer. cost is the charge to each object of the panel; it is 0 for an answer that is not drawn
// from true values. left is what is known of the objects that the answer leaves out.
func noteAnswer(s *state.State, c *event.Answered, number uint64, cost privacy.Epsilon, left state.Leaves) error {
	n := &s.Counters
	charged := n.Charges
	// An answer without cost needs no charges. Otherwise each object of the panel must be charged
	// the cost. If all charges are erased, their ε and question are 0, and only their number is
	// known.
	all := charged == state.Charges{}
	if !cost.IsZero() {
		same := charged.Epsilon.IsZero() || charged.Question == c.Question && charged.Epsilon == cost
		all = charged.Objects == c.Objects && same
	}
	if c.Objects == 0 || !all {
		return fault("query %q: not every object in the panel of %d was charged for the answer", c.Query, c.Objects)
	}
	noteSpent(&n.InProgress, cost, charged.Objects)
	// Erased charges have no amount in their own events.
	n.Erased.Spent += uint64(cost.Nano()) * charged.Erased
	n.Charges, n.Answer = state.Charges{}, state.Answering{Event: number, Base: c.Base}
	if !cost.IsZero() {
		n.Answer = state.Answering{Event: number, Left: left, Question: c.Question, Epsilon: c.Epsilon, Cost: cost}
	}
	return nil
}

// answersAt returns the answers recorded under a key. It returns none if their panel is erased.
// During an audit, that may have happened after they were folded.
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

// costOfErased returns the charge to each object for an answer whose panel is erased. That is the
// whole ε of a fresh answer, the difference to the base of a raised one, and 0 for a derived one.
// It returns [errs.ErrCorrupt] if the method, the base and the ε of the answer do not fit.
func costOfErased(s *state.State, c *event.Answered, number uint64) (cost privacy.Epsilon, err error) {
	isFresh := c.Method == event.MethodFresh
	possible := !c.Epsilon.IsZero() && isFresh == (c.Base == 0) && c.Base < number
	if possible && isFresh {
		return c.Epsilon, nil
	}
	// If c.Base is not an erased answer, base stays empty, and the comparison below fails.
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

// leavesOut returns what is known of the objects that an answer leaves out. n has the charges for
// the answer, and c.Panel the digest of the requested panel.
func leavesOut(n state.Charges, c *event.Answered) state.Leaves {
	switch {
	case n.Erased > 0:
		return state.LeavesUnknown
	case n.Panel == event.PanelSum(c.Panel):
		return state.LeavesNone
	}
	return state.LeavesSome
}

// checkOrigin checks how a new answer was made, against the recorded answers a to the same query.
// It returns the event of the fresh answer that the new one continues, and the charge to each
// object. A fresh answer must be above all recorded ones. A raised answer must be, too, and
// continues the highest of them. An answer by another method is derived from the next higher one,
// at no cost. It returns [errs.ErrCorrupt] if the method, the base or the size of the panel is not
// possible.
func checkOrigin(a state.Answers, c *event.Answered, number uint64) (began uint64, cost privacy.Epsilon, err error) {
	at, recorded := a.Find(c.Epsilon)
	if recorded || c.Epsilon.IsZero() {
		return 0, cost, fault("an answer at ε=%s is recorded twice", c.Epsilon)
	}
	// base is the answer that the new one is made from. above reports whether a recorded answer is
	// above the new one.
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
		// A score between two answers of the same origin is inserted, and otherwise degraded.
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

// chargedOther compares the charges of a raised answer with those of the fresh answer that it
// continues. The charges of an answer are the events directly before it. raised and began are the
// events of the two answers. It returns an object that is charged for the raised answer in place of
// another one, and true. If there is none, it returns false. Erased and missing events are not
// compared.
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

// checkAnswer checks the answer that a request settles, and the counts of the request. It must be
// the answer that this request recorded, or an earlier one. The refusals of the request must fit
// it. number is the settled event. A request without an answer is not checked.
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
	// Exactly one count is 1: the answer was handed out again, derived, or drawn.
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
// the requested panel. a is the answer, number the event that settles it, and refused the number of
// refusals. Nothing is checked if some charges are erased.
func checkLeftOut(s *state.State, c *event.Answered, a state.Answering, number, refused uint64) error {
	switch {
	case a.Left == state.LeavesUnknown || a.Left == state.LeavesNone && refused == 0:
		return nil
	// There are refusals only if objects were left out. They must be exactly the events between the
	// answer and the settled event.
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

// sumOfPanel returns the digest of the objects that are refused, or charged by the events from
// first to before end. Both lists are in the order of names, and are merged. known is false if an
// event is erased, or if the names are found not to be in order.
func sumOfPanel(s *state.State, first, end uint64, refused []*event.ObjectRefused) (sum event.PanelSum, known bool) {
	sum, last := event.EmptyPanel(), ""
	// next adds a name to the digest. It returns false if the name is not after the last one.
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

// checkLeftOutAgain checks the refusals of a request that got a recorded answer, or one derived
// from it. They must be those of the request that recorded the answer, except for objects forgotten
// since then. base is the event of that answer. number is the settled event of the request, and
// refused the number of its refusals.
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
