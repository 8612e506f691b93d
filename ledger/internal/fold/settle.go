package fold

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// applySettled ends a request, or a part of one, and checks what it says of itself.
func applySettled(s *state.State, c *event.Settled, ev event.Event) error {
	if err := names.Check("idempotency key", c.Key); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	r, before, err := s.LastPart(c.Key)
	if err != nil {
		return err
	}
	none := [sha256.Size]byte{}
	if before != nil && (before.Final || c.Alone || before.Digest != c.Digest) {
		return errs.Corrupt(nil, "request %q is settled twice", c.Key)
	}
	if c.Refused != s.Counters.Refused || c.First == 0 || c.First > ev.Number {
		return errs.Corrupt(nil, "request %q, begun by event %d, refuses %d objects where %d were named", c.Key, c.First, c.Refused, s.Counters.Refused)
	}
	whole := ev.Erased == nil
	if c.Final && (c.Done != 0 || !c.Alone && c.Object != "") || c.Alone && (!c.Final || whole && c.Object == "") || whole && c.Digest == none {
		return errs.Corrupt(nil, "request %q is settled as one that it is not", c.Key)
	}
	if err := checkNamed(s, c, before, ev); err != nil {
		return err
	}
	if err := checkSettledSale(s, c, ev.Number); err != nil {
		return err
	}
	if err := checkAnswer(s, c, ev.Number); err != nil {
		return err
	}
	if err := checkRequest(s, c, before, ev); err != nil {
		return err
	}
	if err := checkSettled(s, c, before, ev.Number); err != nil {
		return err
	}
	s.Counters.Refused, s.Counters.Unsettled, s.Counters.Answer, s.Counters.Underway = 0, 0, state.Answering{}, state.Underway{}
	linkNamed(s, c, ev)
	if c.Object != "" {
		if err := LinkName(s, c.Object, ev.Number, true); err != nil {
			return err
		}
	}
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
	if err == nil && r.Status == state.SaleSold && r.Granted != 0 && r.Refused > 0 && !s.Counters.Underway.Loose {
		err = checkReserved(s, r, c, number)
	}
	return err
}

// checkSettled checks that what a settled event tells is what the events before it come to, where before is the part before it, if there is one.
func checkSettled(s *state.State, c, before *event.Settled, number uint64) error {
	u := &s.Counters.Underway
	if u.Loose {
		return nil
	}
	if before == nil {
		before = &event.Settled{Through: c.Through}
	}
	if c.First != number-u.Events || c.Through >= number || c.Through != before.Through {
		return errs.Corrupt(nil, "request %q, of objects up to event %d, begins with event %d, where %d events are to be settled", c.Key, c.Through, c.First, u.Events)
	}
	if u.Doubt != "" && c.Answer == 0 {
		return errs.Corrupt(nil, "request %q: %s", c.Key, u.Doubt)
	}
	if c.Alone && c.Object != "" && (u.More || u.One != "" && u.One != c.Object) {
		return errs.Corrupt(nil, "request %q is about object %q alone, its events about %q", c.Key, c.Object, u.One)
	}
	if u.Bound.Undrawn > u.Erased+u.Draws { // what is erased may have been drawn from some of them
		return errs.Corrupt(nil, "request %q binds %d chains to truths that nothing is drawn from", c.Key, u.Bound.Undrawn)
	}
	if err := checkCounts(s, c, number); err != nil {
		return err
	}
	dealt := c.Refused
	for _, n := range c.Counts {
		dealt += n
	}
	if c.Done != 0 && c.Done-before.Done != dealt || c.Alone && dealt > 1 {
		return errs.Corrupt(nil, "request %q has dealt with %d objects, with %d of them before and %d now", c.Key, c.Done, before.Done, dealt)
	}
	return checkSpent(s, c)
}

// checkCounts checks what became of the objects. Of those for which nothing had to be recorded it can only be told that there
// are as many.
func checkCounts(s *state.State, c *event.Settled, number uint64) error {
	u := &s.Counters.Underway
	known := s.Counters.Chains + s.Counters.Erased.Events // of what is erased, some may have been enrolments
	for _, n := range c.Counts {
		if n > max(known, 1) {
			return errs.Corrupt(nil, "request %q counts %v, of %d chains", c.Key, c.Counts, known)
		}
	}
	want, of := c.Counts, state.OfRaise|state.OfEnrolment|state.OfChange|state.OfTerms|state.OfWithdrawal
	switch {
	case c.Sale != 0:
		return checkSaleCounts(s, c)
	case c.Answer != 0:
		of = state.OfAnswer // see checkAnswer
	case len(c.Swept) > 0:
		return checkSwept(s, c, number)
	default:
		erased := c.Counts[event.Drawn] + c.Counts[event.Derived] - u.Enrolled - u.Raised - u.Derived
		want = event.Counts{u.Enrolled + u.Raised, c.Counts[event.Reused], u.Derived}
		if single := u.Requests&state.OfChange != 0 && c.Counts == (event.Counts{}); single {
			want = c.Counts // one that withdraws alone is not counted
		} else if erased == u.Erased && c.Counts[event.Drawn] >= want[event.Drawn] && c.Counts[event.Derived] >= want[event.Derived] {
			want, u.Draws = c.Counts, c.Counts[event.Drawn]-want[event.Drawn]
		}
	}
	if want != c.Counts || u.Sweep && c.Answer == 0 || u.Events > 0 && u.Requests&of == 0 || u.Requests == state.OfChange && c.Counts != (event.Counts{}) {
		return errs.Corrupt(nil, "request %q counts %v, where %d objects are enrolled, withdrawn or under other terms, %d raised and %d answered otherwise", c.Key, c.Counts, u.Enrolled, u.Raised, u.Derived)
	}
	return nil
}

// checkSaleCounts checks the counts of a sale by what the sale says of itself, which its objects have confirmed.
func checkSaleCounts(s *state.State, c *event.Settled) error {
	r, err := s.Sale(c.Sale)
	if err != nil {
		return err
	}
	ev, err := s.Event(r.Event)
	if err != nil {
		return err
	}
	want := event.Counts{}
	if made, is := ev.Change.(*event.SaleMade); is {
		want = event.Counts{made.Tally.Draws, made.Tally.Resales, made.Tally.Degradations + made.Tally.Insertions}
	}
	if c.Counts != want {
		return errs.Corrupt(nil, "request %q counts %v, its sale %v", c.Key, c.Counts, want)
	}
	return nil
}

// checkSwept checks the counts of a sweep, question by question. To which of them erased responses belong is not known.
func checkSwept(s *state.State, c *event.Settled, number uint64) error {
	u := &s.Counters.Underway
	found, erased, err := sweptBy(s, c.First, number)
	if err != nil {
		return err
	}
	want, last, left, refused := event.Counts{}, uint32(0), max(u.Erased, erased), uint64(0)
	for _, one := range c.Swept {
		is := found[one.Question]
		more := one.Raised - is.Raised
		known := s.Counters.Objects + s.Counters.Erased.Events
		if one.Question <= last || one.Question > s.Counters.Questions || one.Raised < is.Raised || more > left || one.Unchanged > known || one.Refused < is.Refused {
			return errs.Corrupt(nil, "request %q raised %d chains of question %d, where %d were raised", c.Key, one.Raised, one.Question, is.Raised)
		}
		delete(found, one.Question)
		last, left = one.Question, left-more
		want[event.SweepRaised] += one.Raised
		want[event.SweepUnchanged] += one.Unchanged
		refused += one.Refused
	}
	if want != c.Counts || refused != c.Refused || len(found) > 0 || u.Requests != 0 && u.Requests&state.OfRaise == 0 {
		return errs.Corrupt(nil, "request %q counts %v, its questions %v", c.Key, c.Counts, want)
	}
	u.Draws = u.Erased
	return nil
}

// sweptBy counts the chains with responses, and those refused, in the events of a sweep, and the responses that are erased: these may be more than when the
// events were folded, since somebody may be forgotten while an audit goes on.
func sweptBy(s *state.State, first, end uint64) (found map[uint32]event.SweptCount, erased uint64, err error) {
	raised := map[state.RecordID]bool{}
	var due calendar
	found = map[uint32]event.SweptCount{}
	for at := first; at < end; at++ {
		ev, err := s.Event(at)
		if err != nil {
			return nil, 0, err
		}
		if ev.Erased != nil {
			if _, is := ev.Change.(*event.Released); is {
				erased++
			}
			continue
		}
		switch c := ev.Change.(type) {
		case *event.Released:
			if err := due.check(s, c, ev.Time); err != nil {
				return nil, 0, err
			}
			if id, one := (state.RecordID{Question: c.Question, Name: c.Object}), found[c.Question]; !raised[id] {
				one.Raised++
				found[c.Question], raised[id] = one, true
			}
		case *event.ObjectRefused:
			one := found[c.Question]
			if c.Reason == vocabulary.NotEnrolled || c.Reason == vocabulary.Withdrawn {
				return nil, 0, errs.Corrupt(nil, "a sweep refuses object %q, which takes no part", c.Object)
			}
			if one.Refused++; raised[state.RecordID{Question: c.Question, Name: c.Object}] {
				one.Raised-- // it fell short of its last level
			}
			found[c.Question] = one
		}
	}
	return found, erased, nil
}

// checkSpent checks what a request cost all objects together. What it cost those whose events are erased is accounted for
// when they are found to be forgotten.
func checkSpent(s *state.State, c *event.Settled) error {
	u := &s.Counters.Underway
	hidden, least := c.Spent-u.Spent, u.Draws
	if len(c.Swept) > 0 {
		least = 0 // who was raised by hand may have got the lower levels of the calendar, for nothing
	}
	if c.Spent < u.Spent || hidden < least || hidden > 0 && u.Draws == 0 || hidden > u.Draws*privacy.MaxEpsilonNano {
		return errs.Corrupt(nil, "request %q costs %d nano-nats, its events %d, without %d draws that are erased", c.Key, c.Spent, u.Spent, u.Draws)
	}
	s.Counters.Erased.Spent += hidden
	return nil
}

// calendar has what time has released of the chains of one object.
type calendar struct {
	object string
	levels map[uint32][]policy.Step // by question
}

// check refuses a response that no sweep draws: of a chain that is for sale, or at an ε that its policy has
// not released.
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
	_, is := slices.BinarySearchFunc(levels, c.Epsilon, func(l policy.Step, e privacy.Epsilon) int { return l.Ceiling.Compare(e) })
	if !is {
		return errs.Corrupt(nil, "a sweep draws a response of object %q to question %d at ε=%s, which time has not released", c.Object, c.Question, c.Epsilon)
	}
	return nil
}

// releasedOf returns the levels of a chain that time has released.
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
