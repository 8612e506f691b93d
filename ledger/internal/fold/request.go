package fold

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// checkRequest checks that a request with these properties can exist, where before is the part of it
// that was settled last, if there is one: a host that repeats the request gets what its settled events say.
func checkRequest(s *state.State, c, before *event.Settled, ev event.Event) error {
	if err := names.Check("idempotency key", c.Key); err != nil {
		return errs.Corrupt(nil, "event %d settles a request: %v", ev.Number, err)
	}
	u := &s.Counters.Underway
	kinds := 0
	for _, is := range []bool{c.Sale != 0, c.Answer != 0, len(c.Swept) > 0, c.Again.Question != 0} {
		if is {
			kinds++
		}
	}
	if kinds > 1 || len(c.Swept) > 0 && c.Alone {
		return errs.Corrupt(nil, "request %q is settled as one of several kinds", c.Key)
	}
	one := c.Sale != 0 || c.Answer != 0 || u.Requests == state.OfChange
	if one && (!c.Final || before != nil) {
		return errs.Corrupt(nil, "request %q is settled in parts, and its kind has no parts", c.Key)
	}
	if u.Loose {
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
	return checkIdentity(s, c, ev.Number)
}

// checkCursor checks the object at which a part of a request for all objects ends. The next part begins
// after it, so no object that the part dealt with may come after it.
func checkCursor(s *state.State, c, before *event.Settled, ev event.Event) error {
	if c.Final || c.Done != 0 || ev.Erased != nil {
		return nil
	}
	u := &s.Counters.Underway
	_, known, err := s.Object(c.Object)
	if err != nil {
		return err
	}
	ahead := before != nil && c.Object <= before.Object
	if !known || ahead || c.Object < u.Last || len(c.Swept) == 0 && c.Object < u.Refused.Name {
		return errs.Corrupt(nil, "a part of request %q ends with object %q, which it cannot end with", c.Key, c.Object)
	}
	return nil
}

// checkAgain checks that the responses that a request handed out again exist. It can tell for which
// object only if the request names one alone: the names of several are in no event.
func checkAgain(s *state.State, c *event.Settled) error {
	u, again := &s.Counters.Underway, c.Again
	reused := c.Counts[event.Reused]
	if again.Question == 0 {
		raise := u.Requests == state.OfRaise && len(c.Swept) == 0 && c.Answer == 0
		if reused > 0 && raise {
			return errs.Corrupt(nil, "request %q hands out %d responses again, and does not say which", c.Key, reused)
		}
		if reused > 0 && c.Alone && c.Object != "" && c.Sale == 0 && c.Answer == 0 {
			return checkKnown(s, c)
		}
		return nil
	}
	if again.Question > s.Counters.Questions || reused == 0 || u.Events > 0 && u.Requests&state.OfRaise == 0 ||
		u.Question != 0 && again != (event.Wanted{Question: u.Question, Epsilon: u.Asked}) {
		return errs.Corrupt(nil, "request %q hands out %d responses of question %d at ε=%s again, which cannot be", c.Key, reused, again.Question, again.Epsilon)
	}
	recorded, err := recordedOf(s, c)
	if err != nil {
		return err
	}
	dealt := c.Counts[event.Drawn] + reused + c.Counts[event.Derived]
	if dealt > recorded {
		return errs.Corrupt(nil, "request %q hands out %d responses of question %d at ε=%s, of %d that are recorded", c.Key, dealt, again.Question, again.Epsilon, recorded)
	}
	return nil
}

// recordedOf returns how many responses are recorded that the request can have handed out. An audit
// has not seen those that are erased.
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

// checkKnown checks that the one object of a request for which there was nothing to do is in the ledger.
func checkKnown(s *state.State, c *event.Settled) error {
	_, known, err := s.Object(c.Object)
	if err == nil && !known {
		err = errs.Corrupt(nil, "request %q is about object %q alone, which is not enrolled", c.Key, c.Object)
	}
	return err
}

// checkIdentity checks that the settled event bears the identity of the request that its events are of,
// as far as they have all that the request contains. Without that, a key could be settled with what
// another request got.
func checkIdentity(s *state.State, c *event.Settled, number uint64) error {
	all, err := identities(s, c, number)
	if err == nil && all != nil && !c.IsAmong(all...) {
		err = errs.Corrupt(nil, "request %q does not have the identity of a request that its events are of", c.Key)
	}
	return err
}

// identities returns those that the request of a settled event can have, or nil if that is not known.
func identities(s *state.State, c *event.Settled, number uint64) ([]event.Identity, error) {
	u := &s.Counters.Underway
	switch {
	case c.Answer != 0:
		return identitiesOfAnswer(s, c)
	case c.Sale != 0:
		r, err := s.Sale(c.Sale)
		if err != nil || r.Status != state.SaleSold || r.Granted == 0 {
			return nil, err
		}
		return []event.Identity{event.CaptureRequest(c.Sale, false), event.CaptureRequest(c.Sale, true)}, nil
	case len(c.Swept) > 0:
		return identitiesOfSweep(s, c)
	case c.Again.Question != 0:
		return identitiesOfRaise(s, c, c.Again)
	case u.Raised+u.Derived > 0:
		return identitiesOfRaise(s, c, event.Wanted{Question: u.Question, Epsilon: u.Asked})
	case u.Events == 1 && u.Requests&state.OfChange != 0 && c.Counts == event.Counts{}:
		return identitiesOfChange(s, c, number-1)
	}
	return nil, nil
}

// identitiesOfAnswer returns those of a request for an answer. Whether all objects of a question are the
// panel of an answer is not checked: no event says who is enrolled at a time. That the panel is the one
// which the request names is checked when the request is repeated: only the answer has it.
func identitiesOfAnswer(s *state.State, c *event.Settled) (all []event.Identity, err error) {
	ev, err := s.Event(c.Answer)
	made, is := ev.Change.(*event.Answered)
	if err != nil || !is {
		return nil, errs.Corrupt(err, "request %q settles the answer of event %d, which is none", c.Key, c.Answer)
	}
	q, err := s.Question(made.Question)
	if err != nil {
		return nil, err
	}
	r := event.PanelRequest{Question: q.Name, Query: made.Query, Epsilon: made.Epsilon, Objects: made.Objects + c.Refused}
	if c.Alone {
		if r.Panel = event.PanelOf([]string{c.Object}); r.Panel != made.Panel || r.Objects != 1 {
			return []event.Identity{}, nil
		}
	}
	for _, r.Partial = range []bool{false, true} {
		for _, r.All = range []bool{false, !c.Alone} {
			all = append(all, r.Identity())
		}
	}
	return all, nil
}

// identitiesOfSweep returns those of a sweep.
func identitiesOfSweep(s *state.State, c *event.Settled) (all []event.Identity, err error) {
	all = []event.Identity{event.SweepRequest("")}
	if len(c.Swept) > 1 {
		return all, nil
	}
	q, err := s.Question(c.Swept[0].Question)
	if err != nil {
		return nil, err
	}
	return append(all, event.SweepRequest(q.Name)), nil
}

// identitiesOfRaise returns those of a release, or of a raise of one object.
func identitiesOfRaise(s *state.State, c *event.Settled, w event.Wanted) ([]event.Identity, error) {
	if !c.Alone {
		return nil, nil
	}
	q, err := s.Question(w.Question)
	if err != nil {
		return nil, err
	}
	object := []string{c.Object}
	if one := event.RaiseRequest(q.Name, w.Epsilon, false, object, false); one.Is(c) {
		return []event.Identity{one}, nil
	}
	return []event.Identity{event.RaiseRequest(q.Name, w.Epsilon, true, object, false)}, nil
}

// identitiesOfChange returns those of a request that made the one change that an event records.
func identitiesOfChange(s *state.State, c *event.Settled, number uint64) ([]event.Identity, error) {
	ev, err := s.Event(number)
	if err != nil || ev.Erased != nil {
		return nil, err
	}
	all, err := event.RequestsFor(ev.Change, s)
	if _, isAlone := ev.Change.(event.Personal); all != nil && isAlone != c.Alone {
		return []event.Identity{}, err
	}
	return all, err
}
