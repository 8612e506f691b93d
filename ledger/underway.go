package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/privacy"
)

// take counts an event that is to be settled. It refuses one that no request records behind those before it.
func (u *underway) take(k kind) error {
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
func (u *underway) respond(c *released, cost privacy.Epsilon) error {
	u.want(c.question, c.epsilon)
	if c.method == methodRaise {
		u.raised++
	} else {
		u.derived++
	}
	u.spend(cost, 1)
	return u.follow(c.object)
}

// spend adds what some objects are charged each. No transaction is about so many that it could overflow.
func (u *underway) spend(cost privacy.Epsilon, objects uint64) {
	u.spent += uint64(cost.Nano()) * objects
}

// beginsLedger tells whether an event of a kind is settled by none.
func beginsLedger(k kind) bool { return k == kindCreated || k == kindTruthKey || k == kindNoiseKey }

// checkSettled checks that what a settled event tells is what the events before it come to.
func (s *state) checkSettled(c *settled, r request, number uint64) error {
	u := &s.counters.underway
	if u.loose {
		return nil
	}
	if c.first != number-u.events || c.through >= number || len(r.settled) > 0 && c.through != r.through {
		return errs.Corrupt(nil, "request %q, of objects up to event %d, begins with event %d, where %d events are to be settled", c.key, c.through, c.first, u.events)
	}
	if u.doubt != "" && c.answer == 0 {
		return errs.Corrupt(nil, "request %q: %s", c.key, u.doubt)
	}
	if c.alone && c.object != "" && (u.more || u.one != "" && u.one != c.object) {
		return errs.Corrupt(nil, "request %q is about object %q alone, its events about %q", c.key, c.object, u.one)
	}
	if err := s.checkCounts(c, number); err != nil {
		return err
	}
	dealt := c.refused
	for _, n := range c.counts {
		dealt += n
	}
	if c.done != 0 && c.done-r.dealt != dealt || c.alone && dealt > 1 {
		return errs.Corrupt(nil, "request %q has dealt with %d objects, with %d of them before and %d now", c.key, c.done, r.dealt, dealt)
	}
	return s.checkSpent(c)
}

// checkCounts checks what became of the objects. Of those for which nothing had to be recorded it can only be told that there
// are as many.
func (s *state) checkCounts(c *settled, number uint64) error {
	u := &s.counters.underway
	known := s.counters.chains + s.counters.erased.events // of what is erased, some may have been enrolments
	for _, n := range c.counts {
		if n > max(known, 1) {
			return errs.Corrupt(nil, "request %q counts %v, of %d chains", c.key, c.counts, known)
		}
	}
	want, of := c.counts, ofRaise|ofEnrolment|ofChange
	switch {
	case c.sale != 0:
		return s.checkSaleCounts(c)
	case c.answer != 0:
		of = ofAnswer // see checkAnswer
	case len(c.swept) > 0:
		return s.checkSwept(c, number)
	default:
		erased := c.counts[drawn] + c.counts[derived] - u.enrolled - u.raised - u.derived
		want = counts{u.enrolled + u.raised, c.counts[reused], u.derived}
		if erased == u.erased && c.counts[drawn] >= want[drawn] && c.counts[derived] >= want[derived] {
			want, u.draws = c.counts, c.counts[drawn]-want[drawn]
		}
	}
	if want != c.counts || u.sweep && c.answer == 0 || u.events > 0 && u.requests&of == 0 || u.requests == ofChange && c.counts != (counts{}) {
		return errs.Corrupt(nil, "request %q counts %v, where %d objects are enrolled, %d raised and %d answered otherwise", c.key, c.counts, u.enrolled, u.raised, u.derived)
	}
	return nil
}

// checkSaleCounts checks the counts of a sale by what the sale says of itself, which its objects have confirmed.
func (s *state) checkSaleCounts(c *settled) error {
	r, err := s.sale(c.sale)
	if err != nil {
		return err
	}
	ev, err := s.event(r.event)
	if err != nil {
		return err
	}
	want := counts{}
	if made, is := ev.change.(*saleMade); is {
		want = counts{made.tally.draws, made.tally.resales, made.tally.degradations + made.tally.insertions}
	}
	if c.counts != want {
		return errs.Corrupt(nil, "request %q counts %v, its sale %v", c.key, c.counts, want)
	}
	return nil
}

// checkSwept checks the counts of a sweep, question by question. To which of them erased responses belong is not known.
func (s *state) checkSwept(c *settled, number uint64) error {
	u := &s.counters.underway
	found, err := s.sweptBy(c.first, number)
	if err != nil {
		return err
	}
	want, last, left, refused := counts{}, uint32(0), u.erased, uint64(0)
	for _, one := range c.swept {
		is := found[one.question]
		more := one.raised - is.raised
		known := s.counters.objects + s.counters.erased.events
		if one.question <= last || one.question > s.counters.questions || one.raised < is.raised || more > left || one.unchanged > known || one.refused < is.refused {
			return errs.Corrupt(nil, "request %q raised %d chains of question %d, where %d were raised", c.key, one.raised, one.question, is.raised)
		}
		delete(found, one.question)
		last, left = one.question, left-more
		want[sweepRaised] += one.raised
		want[sweepUnchanged] += one.unchanged
		refused += one.refused
	}
	if want != c.counts || refused != c.refused || len(found) > 0 || u.requests != 0 && u.requests&ofRaise == 0 {
		return errs.Corrupt(nil, "request %q counts %v, its questions %v", c.key, c.counts, want)
	}
	u.draws = u.erased
	return nil
}

// sweptBy counts the chains with responses, and those refused, in the events of a sweep.
func (s *state) sweptBy(first, end uint64) (map[uint32]sweptCount, error) {
	found, raised := map[uint32]sweptCount{}, map[recordID]bool{}
	for at := first; at < end; at++ {
		ev, err := s.event(at)
		if err != nil {
			return nil, err
		}
		if ev.erased != nil {
			continue
		}
		switch c := ev.change.(type) {
		case *released:
			if id, one := (recordID{c.question, c.object}), found[c.question]; !raised[id] {
				one.raised++
				found[c.question], raised[id] = one, true
			}
		case *objectRefused:
			one := found[c.question]
			if c.Reason == NotEnrolled || c.Reason == Withdrawn {
				return nil, errs.Corrupt(nil, "a sweep refuses object %q, which takes no part", c.Object)
			}
			if one.refused++; raised[recordID{c.question, c.Object}] {
				one.raised-- // it fell short of its last level
			}
			found[c.question] = one
		}
	}
	return found, nil
}

// checkSpent checks what a request cost all objects together. What it cost those whose events are erased is accounted for
// when they are found to be forgotten.
func (s *state) checkSpent(c *settled) error {
	u := &s.counters.underway
	hidden := c.spent - u.spent
	if c.spent < u.spent || hidden < u.draws && u.draws > 0 || hidden > 0 && u.draws == 0 || hidden > u.draws*privacy.MaxEpsilonNano {
		return errs.Corrupt(nil, "request %q costs %d nano-nats, its events %d, without %d draws that are erased", c.key, c.spent, u.spent, u.draws)
	}
	s.counters.erased.spent += hidden
	return nil
}
