package ledger

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/privacy"
)

// applyErased folds an event of which only the public part is left. What it did to its object is in the
// forgotten event that destroyed it; what it did to anything else still counts.
func applyErased(s *state, ev event) error {
	n := &s.counters.erased
	n.events++
	switch c := ev.change.(type) {
	case *held:
		return s.counters.take("", c.price)
	case *sold:
		n.earned += c.price // at most the revenue
		return s.counters.take("", c.price)
	case *objectRefused:
		n.mentions++
		s.counters.refused++
	case *enrolled:
		s.counters.underway.enrolled++
	case *released:
		s.counters.underway.erased++
	case *charged:
		s.counters.charges.objects++
		s.counters.charges.erased++
	case *settled:
		n.mentions++
		if c.final && !c.alone {
			return errs.Corrupt(nil, "request %q is done, and its end is erased", c.key) // it was about nobody
		}
		return applySettled(s, c, ev)
	}
	return nil
}

// applyForgotten destroys everything about an object but what it has spent and earned. It comes to the same
// whether the object's events were folded, or found erased already: in the second case the forgotten event
// alone says what the object had come to.
func applyForgotten(s *state, c *forgotten, number uint64) error {
	o, known, err := s.object(c.object)
	if err != nil {
		return err
	}
	if !known {
		x, found, err := s.stranger(c.object)
		if err != nil {
			return err
		}
		if o.links = x.links; found {
			if err := s.writer.Delete(bucketStrangers, []byte(c.object)); err != nil {
				return err
			}
		}
	}
	s.linked.erase, s.linked.eraseRequests = o.latest, o.settled
	if err := s.account(c, o, known); err != nil {
		return err
	}
	if c.cap.IsZero() {
		return nil // a stranger leaves nothing
	}
	if !known {
		s.counters.objects++
	}
	for _, r := range c.chains {
		if err := s.forgetChain(c.object, r, number); err != nil {
			return err
		}
	}
	return s.putObject(c.object, object{
		cap: c.cap, spent: c.spent, chains: uint64(len(c.chains)), withdrawn: number, forgotten: number, earned: c.earned,
	})
}

// account checks what a forgotten event says against the object, as far as its events were there to be folded,
// and against the erased ones that it accounts for.
func (s *state) account(c *forgotten, o object, known bool) error {
	if err := names.Check("object", c.object); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	if c.events == 0 || c.cap.IsZero() != (len(c.chains) == 0) || c.cap.IsZero() && c.earned > 0 {
		return errs.Corrupt(nil, "object %q leaves behind what it cannot have", c.object)
	}
	if err := s.counters.erased.take(c, o); err != nil {
		return err
	}
	missing := c.events - o.total()
	sum, last := privacy.Epsilon{}, uint32(0)
	for _, r := range c.chains {
		if r.question <= last || r.question > s.counters.questions || r.policy > s.counters.policies {
			return errs.Corrupt(nil, "object %q leaves a chain of question %d under policy %d", c.object, r.question, r.policy)
		}
		there, err := s.checkRemnant(c.object, r, missing == 0)
		if err != nil {
			return err
		}
		if there {
			o.chains--
		}
		sum, last = plus(sum, r.spent), r.question
	}
	if sum != c.spent || c.cap.Less(c.spent) || o.chains != 0 || known && c.cap != o.cap || missing == 0 && c.spent != o.spent {
		return errs.Corrupt(nil, "object %q leaves behind what it has not spent", c.object)
	}
	return nil
}

// take takes off the erased events that a forgotten event accounts for, given those about the object that were
// whole when they were folded.
func (e *erasure) take(c *forgotten, o object) error {
	missing, unpaid, spent := c.events-o.total(), c.earned-o.earned, uint64(c.spent.Nano()-o.spent.Nano())
	if c.spent.Less(o.spent) || spent > e.spent {
		return errs.Corrupt(nil, "object %q leaves behind what it has not spent: it has spent %s, and erased events have %d nano-nats", c.object, o.spent, e.spent)
	}
	if o.total() > c.events || missing > e.events || o.earned > c.earned || unpaid > e.earned || c.cap.IsZero() && missing > e.mentions {
		return errs.Corrupt(nil, "object %q: %d events are forgotten, of which %d are there and %d erased", c.object, c.events, o.total(), e.events)
	}
	e.events, e.earned, e.spent = e.events-missing, e.earned-unpaid, e.spent-spent
	if c.cap.IsZero() {
		e.mentions -= missing // a stranger was never more than mentioned
	}
	e.mentions = min(e.mentions, e.events) // of an object we cannot know
	return nil
}

// checkRemnant checks what is left of a chain against the chain, and tells whether there is one.
func (s *state) checkRemnant(name string, r remnant, whole bool) (found bool, err error) {
	ch, found, err := s.chain(r.question, name)
	if err != nil {
		return found, err
	}
	if whole && !found || found && (ch.policy != r.policy || whole && ch.total() != r.spent || r.spent.Less(ch.total())) {
		return found, errs.Corrupt(nil, "object %q has not spent %s on question %d", name, r.spent, r.question)
	}
	return found, nil
}

// forgetChain destroys the levels of a chain, of all its epochs.
func (s *state) forgetChain(name string, r remnant, number uint64) error {
	ch, found, err := s.chain(r.question, name)
	if err != nil {
		return err
	}
	q, err := s.question(r.question)
	if err != nil {
		return err
	}
	if err := s.uncountLevels(q, ch.levels); err != nil {
		return err
	}
	if !found {
		s.counters.chains++
	}
	if err := s.putNumber(bucketObjects, memberKey(name, r.question), r.question); err != nil {
		return err
	}
	return s.putChain(r.question, name, chain{policy: r.policy, answered: r.spent, since: number})
}

// applyStated checks that a statement lists every event about its object.
func applyStated(s *state, c *stated, number uint64) error {
	o, known, err := s.object(c.object)
	if err != nil || !known {
		return errs.Corrupt(err, "a statement about object %q, which is not there", c.object)
	}
	events, err := s.eventsAbout(o)
	if err != nil {
		return err
	}
	if !slices.Equal(events, c.events) || c.forgotten != o.forgotten || c.account != o.account() {
		return errs.Corrupt(nil, "the statement about object %q leaves something out", c.object)
	}
	s.link(&o.links, number)
	return s.putObject(c.object, o)
}

func (o object) account() account { return account{o.cap, o.spent, o.earned} }

// eventsAbout returns the numbers of the events about an object that are not destroyed, in order.
func (s *state) eventsAbout(o object) (numbers []uint64, err error) {
	for number := o.latest; number != 0; {
		n, err := s.entry(number)
		if err != nil {
			return nil, err
		}
		if n.previous >= number {
			return nil, errs.Corrupt(nil, "event %d follows on event %d", number, n.previous)
		}
		numbers = append(numbers, number)
		number = n.previous
	}
	slices.Reverse(numbers)
	if uint64(len(numbers)) != o.events {
		return nil, errs.Corrupt(nil, "%d events about an object where there should be %d", len(numbers), o.events)
	}
	return numbers, nil
}
