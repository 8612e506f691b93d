package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/privacy"
)

// take counts an event that is to be settled. It refuses one that no request records behind those before it.
func (u *underway) take(k event.Kind) error {
	before := u.requests
	if u.events++; before == 0 {
		before = ofRaise | ofEnrolment | ofAnswer | ofSale | ofReservation | ofChange
	}
	u.requests = before & requestsWith(k)
	if !u.loose && (u.requests == 0 || u.requests == ofChange && u.events > 1) {
		return errs.Corrupt(nil, "no request records an event of the kind %s behind the %d before it", k, u.events-1)
	}
	return nil
}

// name notes an object that an event is about.
func (u *underway) name(object string) {
	if u.one == "" {
		u.one = object
	}
	u.more = u.more || u.one != object && object != ""
}

// follow notes an object that is enrolled or has a response: a request goes through them in order.
func (u *underway) follow(object string) error {
	if object < u.last && !u.loose {
		return errs.Corrupt(nil, "object %q comes behind %q in one request", object, u.last)
	}
	u.sweep = u.sweep || object == u.last
	u.last = object
	return nil
}

// respond counts a response.
func (u *underway) respond(c *event.Released, cost privacy.Epsilon) error {
	u.want(c.Question, c.Epsilon)
	if c.Method == event.MethodRaise {
		u.raised++
	} else {
		u.derived++
	}
	u.spend(cost, 1)
	return u.follow(c.Object)
}

// spend adds what some objects are charged each. No transaction is about so many that it could overflow.
func (u *underway) spend(cost privacy.Epsilon, objects uint64) {
	u.spent += uint64(cost.Nano()) * objects
}

// beginsLedger tells whether an event of a kind is settled by none.
func beginsLedger(k event.Kind) bool {
	return k == event.KindCreated || k == event.KindTruthKey || k == event.KindNoiseKey
}

// checkSettled checks that what a settled event tells is what the events before it come to.
func (s *state) checkSettled(c *event.Settled, r request, number uint64) error {
	u := &s.counters.underway
	if u.loose {
		return nil
	}
	if c.First != number-u.events || c.Through >= number || len(r.settled) > 0 && c.Through != r.through {
		return errs.Corrupt(nil, "request %q, of objects up to event %d, begins with event %d, where %d events are to be settled", c.Key, c.Through, c.First, u.events)
	}
	if u.doubt != "" && c.Answer == 0 {
		return errs.Corrupt(nil, "request %q: %s", c.Key, u.doubt)
	}
	if c.Alone && c.Object != "" && (u.more || u.one != "" && u.one != c.Object) {
		return errs.Corrupt(nil, "request %q is about object %q alone, its events about %q", c.Key, c.Object, u.one)
	}
	if err := s.checkCounts(c, number); err != nil {
		return err
	}
	dealt := c.Refused
	for _, n := range c.Counts {
		dealt += n
	}
	if c.Done != 0 && c.Done-r.dealt != dealt || c.Alone && dealt > 1 {
		return errs.Corrupt(nil, "request %q has dealt with %d objects, with %d of them before and %d now", c.Key, c.Done, r.dealt, dealt)
	}
	return s.checkSpent(c)
}

// checkCounts checks what became of the objects. Of those for which nothing had to be recorded it can only be told that there
// are as many.
func (s *state) checkCounts(c *event.Settled, number uint64) error {
	u := &s.counters.underway
	known := s.counters.chains + s.counters.erased.events // of what is erased, some may have been enrolments
	for _, n := range c.Counts {
		if n > max(known, 1) {
			return errs.Corrupt(nil, "request %q counts %v, of %d chains", c.Key, c.Counts, known)
		}
	}
	want, of := c.Counts, ofRaise|ofEnrolment|ofChange
	switch {
	case c.Sale != 0:
		return s.checkSaleCounts(c)
	case c.Answer != 0:
		of = ofAnswer // see checkAnswer
	case len(c.Swept) > 0:
		return s.checkSwept(c, number)
	default:
		erased := c.Counts[event.Drawn] + c.Counts[event.Derived] - u.enrolled - u.raised - u.derived
		want = event.Counts{u.enrolled + u.raised, c.Counts[event.Reused], u.derived}
		if erased == u.erased && c.Counts[event.Drawn] >= want[event.Drawn] && c.Counts[event.Derived] >= want[event.Derived] {
			want, u.draws = c.Counts, c.Counts[event.Drawn]-want[event.Drawn]
		}
	}
	if want != c.Counts || u.sweep && c.Answer == 0 || u.events > 0 && u.requests&of == 0 || u.requests == ofChange && c.Counts != (event.Counts{}) {
		return errs.Corrupt(nil, "request %q counts %v, where %d objects are enrolled, %d raised and %d answered otherwise", c.Key, c.Counts, u.enrolled, u.raised, u.derived)
	}
	return nil
}

// checkSaleCounts checks the counts of a sale by what the sale says of itself, which its objects have confirmed.
func (s *state) checkSaleCounts(c *event.Settled) error {
	r, err := s.sale(c.Sale)
	if err != nil {
		return err
	}
	ev, err := s.event(r.event)
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
func (s *state) checkSwept(c *event.Settled, number uint64) error {
	u := &s.counters.underway
	found, err := s.sweptBy(c.First, number)
	if err != nil {
		return err
	}
	want, last, left, refused := event.Counts{}, uint32(0), u.erased, uint64(0)
	for _, one := range c.Swept {
		is := found[one.Question]
		more := one.Raised - is.Raised
		known := s.counters.objects + s.counters.erased.events
		if one.Question <= last || one.Question > s.counters.questions || one.Raised < is.Raised || more > left || one.Unchanged > known || one.Refused < is.Refused {
			return errs.Corrupt(nil, "request %q raised %d chains of question %d, where %d were raised", c.Key, one.Raised, one.Question, is.Raised)
		}
		delete(found, one.Question)
		last, left = one.Question, left-more
		want[event.SweepRaised] += one.Raised
		want[event.SweepUnchanged] += one.Unchanged
		refused += one.Refused
	}
	if want != c.Counts || refused != c.Refused || len(found) > 0 || u.requests != 0 && u.requests&ofRaise == 0 {
		return errs.Corrupt(nil, "request %q counts %v, its questions %v", c.Key, c.Counts, want)
	}
	u.draws = u.erased
	return nil
}

// sweptBy counts the chains with responses, and those refused, in the events of a sweep.
func (s *state) sweptBy(first, end uint64) (map[uint32]event.SweptCount, error) {
	found, raised := map[uint32]event.SweptCount{}, map[recordID]bool{}
	for at := first; at < end; at++ {
		ev, err := s.event(at)
		if err != nil {
			return nil, err
		}
		if ev.Erased != nil {
			continue
		}
		switch c := ev.Change.(type) {
		case *event.Released:
			if id, one := (recordID{c.Question, c.Object}), found[c.Question]; !raised[id] {
				one.Raised++
				found[c.Question], raised[id] = one, true
			}
		case *event.ObjectRefused:
			one := found[c.Question]
			if c.Reason == NotEnrolled || c.Reason == Withdrawn {
				return nil, errs.Corrupt(nil, "a sweep refuses object %q, which takes no part", c.Object)
			}
			if one.Refused++; raised[recordID{c.Question, c.Object}] {
				one.Raised-- // it fell short of its last level
			}
			found[c.Question] = one
		}
	}
	return found, nil
}

// checkSpent checks what a request cost all objects together. What it cost those whose events are erased is accounted for
// when they are found to be forgotten.
func (s *state) checkSpent(c *event.Settled) error {
	u := &s.counters.underway
	hidden := c.Spent - u.spent
	if c.Spent < u.spent || hidden < u.draws && u.draws > 0 || hidden > 0 && u.draws == 0 || hidden > u.draws*privacy.MaxEpsilonNano {
		return errs.Corrupt(nil, "request %q costs %d nano-nats, its events %d, without %d draws that are erased", c.Key, c.Spent, u.spent, u.draws)
	}
	s.counters.erased.spent += hidden
	return nil
}
