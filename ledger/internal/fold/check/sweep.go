package check

import (
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// checkSwept checks the counts of a sweep for each question against its events. A sweep raises the
// chains of objects to the levels that time has released. number is the settled event. The
// questions of erased responses are not known, so these may account for missing raises of any
// question.
func checkSwept(s *state.State, c *event.Settled, number uint64) error {
	u := &s.Counters.InProgress
	found, erased, err := sweptBy(s, c.First, number)
	if err != nil {
		return err
	}
	// want and refused are the sums over the questions. last is the question before. left is the
	// number of erased responses that no question has used yet.
	want, last, left, refused := event.Counts{}, uint32(0), max(u.ErasedResponses, erased), uint64(0)
	known := s.Counters.Objects + s.Counters.Erased.Events
	for _, one := range c.Swept {
		is := found[one.Question]
		more := one.Raised - is.Raised
		isOrdered := one.Question > last && one.Question <= s.Counters.Questions
		if !isOrdered || one.Raised < is.Raised || more > left || one.Unchanged > known || one.Refused < is.Refused {
			return fault("request %q counts %d raised chains of question %d, but its events raise %d",
				c.Key, one.Raised, one.Question, is.Raised)
		}
		delete(found, one.Question)
		last, left = one.Question, left-more
		want[event.SweepRaised] += one.Raised
		want[event.SweepUnchanged] += one.Unchanged
		refused += one.Refused
	}
	isOther := u.Requests != 0 && u.Requests&state.OfRaise == 0
	if want != c.Counts || refused != c.Refused || len(found) > 0 || isOther {
		return fault("request %q counts %v, but its questions count %v", c.Key, c.Counts, want)
	}
	u.ErasedDraws = u.ErasedResponses
	return nil
}

// sweptBy returns, from the events of a sweep, the number of raised and refused chains for each
// question, and the number of erased responses. The events are those from first to before end.
// There may be more erased responses than when the events were folded, because an object may be
// forgotten during an audit.
func sweptBy(s *state.State, first, end uint64) (found map[uint32]event.SweptCount, erased uint64, err error) {
	raised := map[state.RecordID]bool{}
	var due calendar
	found = map[uint32]event.SweptCount{}
	for at := first; at < end; at++ {
		ev, err := s.Event(at)
		if err != nil {
			return nil, 0, err
		}
		switch c := ev.Change.(type) {
		case *event.Released:
			if ev.Erased != nil {
				erased++
				continue
			}
			if err := due.check(s, c, ev.Time); err != nil {
				return nil, 0, err
			}
			if id, one := (state.RecordID{Question: c.Question, Name: c.Object}), found[c.Question]; !raised[id] {
				one.Raised++
				found[c.Question], raised[id] = one, true
			}
		case *event.ObjectRefused:
			if ev.Erased != nil {
				continue
			}
			if c.Reason == api.NotEnrolled || c.Reason == api.Withdrawn {
				return nil, 0, fault("a sweep refuses object %q, which is not enrolled or has withdrawn", c.Object)
			}
			one := found[c.Question]
			if one.Refused++; raised[state.RecordID{Question: c.Question, Name: c.Object}] {
				one.Raised-- // the chain was raised to lower levels first, and counts as refused
			}
			found[c.Question] = one
		}
	}
	return found, erased, nil
}

// calendar caches the levels that time has released in the chains of one object, because a sweep
// may draw several of them.
type calendar struct {
	object string
	levels map[uint32][]policy.Step // by question
}

// check returns [errs.ErrCorrupt] for a response that no sweep draws. That is a response of a chain
// that is for sale, or at an ε that its policy has not released. at is the time of the event.
func (d *calendar) check(s *state.State, c *event.Released, at time.Time) error {
	if d.levels == nil || d.object != c.Object {
		d.object, d.levels = c.Object, map[uint32][]policy.Step{}
	}
	levels, known := d.levels[c.Question]
	if !known {
		var err error
		if levels, err = releasedOf(s, c, at); err != nil {
			return err
		}
		d.levels[c.Question] = levels
	}
	// The ceiling of a released step is the ε of its level.
	byCeiling := func(l policy.Step, e privacy.Epsilon) int { return l.Ceiling.Compare(e) }
	if _, is := slices.BinarySearchFunc(levels, c.Epsilon, byCeiling); !is {
		return fault("a sweep draws a response of object %q to question %d at ε=%s, which time has not released",
			c.Object, c.Question, c.Epsilon)
	}
	return nil
}

// releasedOf returns the levels that time has released in the chain of a response, in rising order.
// It returns none for a chain that is for sale.
func releasedOf(s *state.State, c *event.Released, at time.Time) ([]policy.Step, error) {
	q, err := s.Question(c.Question)
	if err != nil {
		return nil, err
	}
	ch, _, err := s.Chain(c.Question, c.Object)
	if err != nil {
		return nil, err
	}
	p, err := s.Policy(ch.Policy)
	if err != nil {
		return nil, err
	}
	return rules.Released(q, p, ch.Buyers, at), nil
}
