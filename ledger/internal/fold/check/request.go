package check

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// checkRequest checks that a request with these properties can exist. This matters because a host
// that repeats the request gets what its settled events say. before is the event that settled its
// previous part, or nil.
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

// checkCursor checks the object at which a part of a request for all objects ends. No object of the
// part may come after it, because the next part begins after it.
func checkCursor(s *state.State, c, before *event.Settled, ev event.Event) error {
	if c.Final || c.Done != 0 || ev.Erased != nil {
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

// checkAgain checks that the responses that a request handed out again exist. The object is known
// only if the request names a single one, because no event has the names of several.
func checkAgain(s *state.State, c *event.Settled) error {
	u, again := &s.Counters.InProgress, c.Again
	reused := c.Counts[event.Reused]
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
	isOther := u.Events > 0 && u.Requests&state.OfRaise == 0 || u.Question != 0 && again != asked
	if again.Question > s.Counters.Questions || reused == 0 || isOther {
		return fault("request %q hands out %d recorded responses of question %d at ε=%s, which is not possible",
			c.Key, reused, again.Question, again.Epsilon)
	}
	recorded, err := recordedOf(s, c)
	if err != nil {
		return err
	}
	dealt := c.Counts[event.Drawn] + reused + c.Counts[event.Derived]
	if dealt > recorded {
		return fault("request %q hands out %d responses of question %d at ε=%s, but only %d are recorded",
			c.Key, dealt, again.Question, again.Epsilon, recorded)
	}
	return nil
}

// recordedOf returns how many recorded responses the request can have handed out. An audit does not
// see erased responses, so all erased events are added.
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

// mayIdentify reports whether the settled event can have the identity of the request that its
// events belong to. It returns false only if the events have the whole content of the request.
// Without this check, a key could be settled with the result of another request.
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

// mayIdentifyAnswer is [mayIdentify] for an answer. It does not check that the panel of a request
// for all has all objects of the question, because no event lists the enrolled objects. The panel
// that a request names is checked only when the request is repeated, because only the answer has
// it.
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
		for _, r.All = range []bool{false, !c.Alone} {
			if r.Identity().Is(c) {
				return true, nil
			}
		}
	}
	return false, nil
}

// mayIdentifySweep is [mayIdentify] for a sweep.
func mayIdentifySweep(s *state.State, c *event.Settled) (bool, error) {
	if ofAll := event.SweepRequest("").Is(c); ofAll || len(c.Swept) > 1 {
		return ofAll, nil
	}
	q, err := s.Question(c.Swept[0].Question)
	return err == nil && event.SweepRequest(q.Name).Is(c), err
}

// mayIdentifyRaise is [mayIdentify] for a release, or a raise of one object.
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
		if event.RaiseRequest(q.Name, w.Epsilon, partial, object[:], false).Is(c) {
			return true, nil
		}
	}
	return false, nil
}

// mayIdentifyChange is [mayIdentify] for a request that made the single change recorded by an
// event.
func mayIdentifyChange(s *state.State, c *event.Settled, number uint64) (bool, error) {
	ev, err := s.Event(number)
	if err != nil || ev.Erased != nil {
		return true, err
	}
	all, err := event.RequestsFor(ev.Change, s)
	if err != nil || all == nil {
		return err == nil, err
	}
	_, isAlone := ev.Change.(event.Personal)
	return isAlone == c.Alone && c.IsAmong(all...), nil
}
