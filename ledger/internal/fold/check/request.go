package check

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// checkRequest checks that a request with the properties of its settled event c can exist. This
// matters because a host that repeats the request gets what its settled events say. before is the
// event that settled its previous part, or nil. Of a request of which events are missing, only the
// kind is checked.
func checkRequest(s *state.State, c, before *event.Settled, ev event.Event) error {
	u := &s.Counters.InProgress
	kinds := 0
	for _, is := range []bool{c.Sale != 0, c.Answer != 0, len(c.Swept) > 0, c.Again.Question != 0} {
		if is {
			kinds++
		}
	}
	if kinds > 1 || len(c.Swept) > 0 && c.Alone {
		return fault("request %q is settled as a request of several kinds", c.Key)
	}
	one := c.Sale != 0 || c.Answer != 0 || u.Requests == state.OfChange
	if one && (!c.Final || before != nil) {
		return fault("request %q is settled in parts, but its kind has no parts", c.Key)
	}
	if u.IsIncomplete {
		return nil
	}
	if err := checkCursor(s, c, before, ev); err != nil {
		return err
	}
	if err := checkAgain(s, c); err != nil {
		return err
	}
	if c.Alone && ev.Erased != nil {
		return nil // the identity is erased as well
	}
	possible, err := mayIdentify(s, c, ev.Number)
	if err == nil && !possible {
		err = fault("request %q: its digest is not that of a request with these events", c.Key)
	}
	return err
}

// checkCursor checks the object at which a part of a request for all objects ends. The next part
// begins after it. So the object must be known, be after the end of the previous part, and not be
// before any object of this part.
func checkCursor(s *state.State, c, before *event.Settled, ev event.Event) error {
	if c.Final || c.Done != 0 || ev.Erased != nil { // not a part that ends at an object
		return nil
	}
	u := &s.Counters.InProgress
	_, known, err := s.Object(c.Object)
	if err != nil {
		return err
	}
	ahead := before != nil && c.Object <= before.Object
	if !known || ahead || c.Object < u.LastObject || len(c.Swept) == 0 && c.Object < u.Refused.Name {
		return fault("a part of request %q ends with object %q, which is unknown or not its last object",
			c.Key, c.Object)
	}
	return nil
}

// checkAgain checks that the responses that a request handed out again (c.Again) exist. Their
// number is compared with the number of recorded responses. The chain itself is read only for a
// request that names a single object, because no event has the names of several.
func checkAgain(s *state.State, c *event.Settled) error {
	u, again := &s.Counters.InProgress, c.Again
	reused := c.Counts[event.Reused]
	// Only a raise says which responses were handed out again.
	if again.Question == 0 {
		if reused == 0 || c.Answer != 0 {
			return nil
		}
		if u.Requests == state.OfRaise && len(c.Swept) == 0 {
			return fault("request %q hands out %d recorded responses, but does not name their question and ε",
				c.Key, reused)
		}
		if c.Alone && c.Object != "" && c.Sale == 0 {
			_, known, err := s.Object(c.Object)
			if err != nil || !known {
				return errs.Corrupt(err, "request %q is about object %q only, which is not enrolled", c.Key, c.Object)
			}
		}
		return nil
	}
	asked := event.Wanted{Question: u.Question, Epsilon: u.Epsilon}
	// Its events are not those of a raise, or are for another question or ε.
	isOther := u.Events > 0 && u.Requests&state.OfRaise == 0 || u.Question != 0 && again != asked
	if again.Question > s.Counters.Questions || reused == 0 || isOther {
		return fault("request %q hands out %d recorded responses of question %d at ε=%s, which is not possible",
			c.Key, reused, again.Question, again.Epsilon)
	}
	recorded, err := recordedOf(s, c)
	if err != nil {
		return err
	}
	// All of these were handed out at the same ε, and are recorded now.
	dealt := c.Counts[event.Drawn] + reused + c.Counts[event.Derived]
	if dealt > recorded {
		return fault("request %q hands out %d responses of question %d at ε=%s, but only %d are recorded",
			c.Key, dealt, again.Question, again.Epsilon, recorded)
	}
	return nil
}

// recordedOf returns the largest number of recorded responses that the request can have handed out.
// For a request for a single object, that is 1 or 0. Otherwise it is the number of chains with the
// response. An audit does not see erased responses, so all erased events are added.
func recordedOf(s *state.State, c *event.Settled) (uint64, error) {
	if c.Alone && c.Object != "" {
		ch, _, err := s.Chain(c.Again.Question, c.Object)
		if _, found := ch.At(c.Again.Epsilon); !found || err != nil {
			return 0, err
		}
		return 1, nil
	}
	q, err := s.Question(c.Again.Question)
	if err != nil {
		return 0, err
	}
	recorded, err := s.Responses(q, c.Again.Epsilon)
	return recorded + s.Counters.Erased.Events, err
}

// mayIdentify reports whether the settled event c, with this number, can have the identity of the
// request that its events belong to. It returns false only if the events have the whole content of
// the request, and the digest of c is another one. Without this check, a key could be settled with
// the result of another request.
func mayIdentify(s *state.State, c *event.Settled, number uint64) (bool, error) {
	u := &s.Counters.InProgress
	switch {
	case c.Answer != 0:
		return mayIdentifyAnswer(s, c)
	case c.Sale != 0:
		r, err := s.Sale(c.Sale)
		if err != nil || r.Status != state.SaleSold || r.Granted == 0 {
			return true, err
		}
		// The second argument is Partial, which no event has.
		return c.IsAmong(event.CaptureRequest(c.Sale, false), event.CaptureRequest(c.Sale, true)), nil
	case len(c.Swept) > 0:
		return mayIdentifySweep(s, c)
	case c.Again.Question != 0:
		return mayIdentifyRaise(s, c, c.Again)
	case u.Raised+u.Derived > 0:
		return mayIdentifyRaise(s, c, event.Wanted{Question: u.Question, Epsilon: u.Epsilon})
	case u.Events == 1 && u.Requests&state.OfChange != 0 && c.Counts == event.Counts{}:
		return mayIdentifyChange(s, c, number-1)
	}
	return true, nil
}

// mayIdentifyAnswer is [mayIdentify] for an answer. It tries all flags that no event has. It does
// not check that the panel of a request for all objects has all objects of the question, because no
// event lists them. A panel that is named is checked only when the request is repeated, because
// only the answer has its digest.
func mayIdentifyAnswer(s *state.State, c *event.Settled) (bool, error) {
	made, _, err := answerOf(s, c)
	if err != nil {
		return false, err
	}
	q, err := s.Question(made.Question)
	if err != nil {
		return false, err
	}
	r := event.PanelRequest{Question: q.Name, Query: made.Query, Epsilon: made.Epsilon,
		Objects: made.Objects + c.Refused}
	if c.Alone {
		if r.Panel = event.PanelOf([]string{c.Object}); r.Panel != made.Panel || r.Objects != 1 {
			return false, nil
		}
	}
	for _, r.Partial = range []bool{false, true} {
		// A request that names a single object is not one for all objects.
		for _, r.All = range []bool{false, !c.Alone} {
			if r.Identity().Is(c) {
				return true, nil
			}
		}
	}
	return false, nil
}

// mayIdentifySweep is [mayIdentify] for a sweep of all questions, or of one.
func mayIdentifySweep(s *state.State, c *event.Settled) (bool, error) {
	if ofAll := event.SweepRequest("").Is(c); ofAll || len(c.Swept) > 1 {
		return ofAll, nil
	}
	q, err := s.Question(c.Swept[0].Question)
	return err == nil && event.SweepRequest(q.Name).Is(c), err
}

// mayIdentifyRaise is [mayIdentify] for a release or a raise. It always returns true for a request
// that is not about a single object, because no event has the names of all its objects.
func mayIdentifyRaise(s *state.State, c *event.Settled, w event.Wanted) (bool, error) {
	if !c.Alone {
		return true, nil
	}
	q, err := s.Question(w.Question)
	if err != nil {
		return false, err
	}
	object := [1]string{c.Object}
	for _, partial := range [...]bool{false, true} {
		// false: the request is not for all objects
		if event.RaiseRequest(q.Name, w.Epsilon, partial, object[:], false).Is(c) {
			return true, nil
		}
	}
	return false, nil
}

// mayIdentifyChange is [mayIdentify] for a request that made the single change recorded by the
// event with a number. It returns true if that event is erased.
func mayIdentifyChange(s *state.State, c *event.Settled, number uint64) (bool, error) {
	ev, err := s.Event(number)
	if err != nil || ev.Erased != nil {
		return true, err
	}
	all, err := event.RequestsFor(ev.Change, s)
	if err != nil || all == nil {
		return err == nil, err
	}
	// A change about an object makes its request one that names a single object.
	_, isAlone := ev.Change.(event.Personal)
	return isAlone == c.Alone && c.IsAmong(all...), nil
}
