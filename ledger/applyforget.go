package ledger

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/privacy"
)

// applyErased folds an event of which only the public part is left. What it did to its object is in the
// forgotten event that destroyed it; what it did to anything else still counts.
func applyErased(s *state, ev event.Event) error {
	n := &s.counters.erased
	n.events++
	switch c := ev.Change.(type) {
	case *event.Held:
		return s.counters.take("", c.Price)
	case *event.Sold:
		n.earned += c.Price // at most the revenue
		return s.counters.take("", c.Price)
	case *event.ObjectRefused:
		n.mentions++
		s.counters.refused++
	case *event.Enrolled:
		s.counters.underway.enrolled++
	case *event.Released:
		s.counters.underway.erased++
	case *event.Charged:
		s.counters.charges.objects++
		s.counters.charges.erased++
	case *event.Settled:
		n.mentions++
		if c.Final && !c.Alone {
			return errs.Corrupt(nil, "request %q is done, and its end is erased", c.Key) // it was about nobody
		}
		return applySettled(s, c, ev)
	}
	return nil
}

// applyForgotten destroys everything about an object but what it has spent and earned. It comes to the same
// whether the object's events were folded, or found erased already: in the second case the forgotten event
// alone says what the object had come to.
func applyForgotten(s *state, c *event.Forgotten, number uint64) error {
	o, known, err := s.object(c.Object)
	if err != nil {
		return err
	}
	if !known {
		x, found, err := s.stranger(c.Object)
		if err != nil {
			return err
		}
		if o.links = x.links; found {
			if err := s.writer.Delete(bucketStrangers, []byte(c.Object)); err != nil {
				return err
			}
		}
	}
	s.linked.erase, s.linked.eraseRequests = o.latest, o.settled
	if err := s.account(c, o, known); err != nil {
		return err
	}
	if c.Cap.IsZero() {
		return nil // a stranger leaves nothing
	}
	if !known {
		s.counters.objects++
	}
	for _, r := range c.Chains {
		if err := s.forgetChain(c.Object, r, number); err != nil {
			return err
		}
	}
	return s.putObject(c.Object, object{
		cap: c.Cap, spent: c.Spent, chains: uint64(len(c.Chains)), withdrawn: number, forgotten: number, earned: c.Earned,
	})
}

// account checks what a forgotten event says against the object, as far as its events were there to be folded,
// and against the erased ones that it accounts for.
func (s *state) account(c *event.Forgotten, o object, known bool) error {
	if err := names.Check("object", c.Object); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	if c.Events == 0 || c.Cap.IsZero() != (len(c.Chains) == 0) || c.Cap.IsZero() && c.Earned > 0 {
		return errs.Corrupt(nil, "object %q leaves behind what it cannot have", c.Object)
	}
	if err := s.counters.erased.take(c, o); err != nil {
		return err
	}
	missing := c.Events - o.total()
	sum, last := privacy.Epsilon{}, uint32(0)
	for _, r := range c.Chains {
		if r.Question <= last || r.Question > s.counters.questions || r.Policy > s.counters.policies {
			return errs.Corrupt(nil, "object %q leaves a chain of question %d under policy %d", c.Object, r.Question, r.Policy)
		}
		there, err := s.checkRemnant(c.Object, r, missing == 0)
		if err != nil {
			return err
		}
		if there {
			o.chains--
		}
		sum, last = plus(sum, r.Spent), r.Question
	}
	if sum != c.Spent || c.Cap.Less(c.Spent) || o.chains != 0 || known && c.Cap != o.cap || missing == 0 && c.Spent != o.spent {
		return errs.Corrupt(nil, "object %q leaves behind what it has not spent", c.Object)
	}
	return nil
}

// take takes off the erased events that a forgotten event accounts for, given those about the object that were
// whole when they were folded.
func (e *erasure) take(c *event.Forgotten, o object) error {
	missing, unpaid, spent := c.Events-o.total(), c.Earned-o.earned, uint64(c.Spent.Nano()-o.spent.Nano())
	if c.Spent.Less(o.spent) || spent > e.spent {
		return errs.Corrupt(nil, "object %q leaves behind what it has not spent: it has spent %s, and erased events have %d nano-nats", c.Object, o.spent, e.spent)
	}
	if o.total() > c.Events || missing > e.events || o.earned > c.Earned || unpaid > e.earned || c.Cap.IsZero() && missing > e.mentions {
		return errs.Corrupt(nil, "object %q: %d events are forgotten, of which %d are there and %d erased", c.Object, c.Events, o.total(), e.events)
	}
	e.events, e.earned, e.spent = e.events-missing, e.earned-unpaid, e.spent-spent
	if c.Cap.IsZero() {
		e.mentions -= missing // a stranger was never more than mentioned
	}
	e.mentions = min(e.mentions, e.events) // of an object we cannot know
	return nil
}

// checkRemnant checks what is left of a chain against the chain, and tells whether there is one.
func (s *state) checkRemnant(name string, r event.Remnant, whole bool) (found bool, err error) {
	ch, found, err := s.chain(r.Question, name)
	if err != nil {
		return found, err
	}
	if whole && !found || found && (ch.policy != r.Policy || whole && ch.total() != r.Spent || r.Spent.Less(ch.total())) {
		return found, errs.Corrupt(nil, "object %q has not spent %s on question %d", name, r.Spent, r.Question)
	}
	return found, nil
}

// forgetChain destroys the levels of a chain, of all its epochs.
func (s *state) forgetChain(name string, r event.Remnant, number uint64) error {
	ch, found, err := s.chain(r.Question, name)
	if err != nil {
		return err
	}
	q, err := s.question(r.Question)
	if err != nil {
		return err
	}
	if err := s.uncountLevels(q, ch.levels); err != nil {
		return err
	}
	if !found {
		s.counters.chains++
	}
	if err := s.putNumber(bucketObjects, memberKey(name, r.Question), r.Question); err != nil {
		return err
	}
	return s.putChain(r.Question, name, chain{policy: r.Policy, answered: r.Spent, since: number})
}

// applyStated checks that a statement lists every event about its object.
func applyStated(s *state, c *event.Stated, number uint64) error {
	o, known, err := s.object(c.Object)
	if err != nil || !known {
		return errs.Corrupt(err, "a statement about object %q, which is not there", c.Object)
	}
	events, err := s.eventsAbout(o)
	if err != nil {
		return err
	}
	if !slices.Equal(events, c.Events) || c.Forgotten != o.forgotten || c.Account != o.account() {
		return errs.Corrupt(nil, "the statement about object %q leaves something out", c.Object)
	}
	s.link(&o.links, number)
	return s.putObject(c.Object, o)
}

func (o object) account() event.Account {
	return event.Account{Cap: o.cap, Spent: o.spent, Earned: o.earned}
}

// eventsAbout returns the numbers of the events about an object that are not destroyed, in order.
func (s *state) eventsAbout(o object) (numbers []uint64, err error) {
	for number := o.latest; number != 0; {
		n, err := s.entry(number)
		if err != nil {
			return nil, err
		}
		if n.Previous >= number {
			return nil, errs.Corrupt(nil, "event %d follows on event %d", number, n.Previous)
		}
		numbers = append(numbers, number)
		number = n.Previous
	}
	slices.Reverse(numbers)
	if uint64(len(numbers)) != o.events {
		return nil, errs.Corrupt(nil, "%d events about an object where there should be %d", len(numbers), o.events)
	}
	return numbers, nil
}
