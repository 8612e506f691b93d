package fold

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold/check"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// putBoth writes a chain and its object, and makes the event with a number the last one about the
// object.
func putBoth(s *state.State, question uint32, name string, c state.Chain, o state.Object, number uint64) error {
	if err := s.PutChain(question, name, c); err != nil {
		return err
	}
	return putObject(s, name, o, number)
}

// putObject writes an object, and makes the event with a number the last one about it.
func putObject(s *state.State, name string, o state.Object, number uint64) error {
	s.Link(&o.Links, number)
	return s.PutObject(name, o)
}

// applyEnrolled begins a chain. An object that had withdrawn continues its former chain, under the
// same ceilings. A new object gets the links of the events that named it before.
func applyEnrolled(s *state.State, c *event.Enrolled, ev event.Event, m check.Member) (err error) {
	if !m.IsKnown {
		s.Counters.Objects++
		if m.Object.Links, err = s.RemoveStranger(c.Object); err != nil {
			return err
		}
	}
	if !m.HasChain {
		s.Counters.Chains++
		m.Object.Chains++
	}
	m.Chain.Enrolled = ev.Number
	if err := s.WriteMember(c.Object, c.Question); err != nil {
		return err
	}
	return putBoth(s, c.Question, c.Object, m.Chain, m.Object, ev.Number)
}

// applyTerms puts a chain and its object under other terms. This also applies to an object that has
// withdrawn. Otherwise it could enrol again under terms that were given up.
func applyTerms(s *state.State, c *event.TermsChanged, ev event.Event, m check.Member) error {
	m.Chain.Policy, m.Object.Cap = c.Policy, c.Cap
	return putBoth(s, c.Question, c.Object, m.Chain, m.Object, ev.Number)
}

// applyWithdrawn ends the enrolment of an object in all questions.
func applyWithdrawn(s *state.State, c *event.Withdrawn, ev event.Event, o state.Object) error {
	o.Withdrawn = ev.Number
	return putObject(s, c.Object, o, ev.Number)
}

// applyEpoch closes the epoch of a chain, with what it has cost, and begins a new one under the
// same policy. It drops the reservations in the question, because nothing of the new epoch can be
// sold for them.
func applyEpoch(s *state.State, c *event.EpochBegun, ev event.Event, d check.Draw) (err error) {
	ch := d.Chain
	if err := s.UncountLevels(d.Question, ch.Levels); err != nil {
		return err
	}
	ended := state.ClosedEpoch{End: ev.Number, Answered: ch.Answered, Levels: slices.Clone(ch.Levels)}
	closed := append(slices.Clip(ch.Closed), ended)
	begun := state.Chain{Enrolled: ch.Enrolled, Policy: ch.Policy, Since: ev.Number, Closed: closed}
	if d.Object.Held, err = heldInOthers(s, d.Object.Held, c.Question); err != nil {
		return err
	}
	return putBoth(s, c.Question, c.Object, begun, d.Object, ev.Number)
}

// heldInOthers returns those of the reservations with these numbers that are not in the question.
func heldInOthers(s *state.State, numbers []uint64, question uint32) (kept []uint64, err error) {
	for _, number := range numbers {
		r, err := s.Sale(number)
		if err != nil {
			return nil, err
		}
		if r.Question != question {
			kept = append(kept, number)
		}
	}
	return kept, nil
}

// applyMention makes an event the last one about its object. It has no other effect.
func applyMention[C event.Personal](s *state.State, c C, ev event.Event, o state.Object) error {
	return putObject(s, c.About(), o, ev.Number)
}

// applyForgotten destroys everything about an object except what it has spent and earned. The
// object's earlier events may have been folded, or may be erased already. The result is the same,
// because all totals come from the forgotten event.
func applyForgotten(s *state.State, c *event.Forgotten, ev event.Event, m check.Member) error {
	s.Linked.Erase, s.Linked.EraseRequests, s.Linked.EraseNamed = m.Object.Latest, m.Object.Settled, s.Counters.Named
	s.Counters.Named = 0
	if !m.IsKnown {
		if _, err := s.RemoveStranger(c.Object); err != nil || c.Cap.IsZero() {
			return err // a name that was never enrolled leaves no record
		}
		s.Counters.Objects++
	}
	for _, r := range c.Chains {
		// The record of a remnant says what the chain has cost.
		if err := forgetChain(s, c.Object, r, ev.Number); err != nil {
			return err
		}
	}
	return s.PutObject(c.Object, state.Object{
		Cap: c.Cap, Spent: c.Spent, Chains: uint64(len(c.Chains)), Withdrawn: ev.Number, Forgotten: ev.Number,
		Earned: c.Earned,
	})
}

// forgetChain replaces a chain by what remains of it: its policy, and what all its epochs have
// cost. number is the forgotten event. The chain is created if the events about it were erased
// before they were folded.
func forgetChain(s *state.State, name string, r event.Remnant, number uint64) error {
	ch, found, err := s.Chain(r.Question, name)
	if err != nil {
		return err
	}
	q, err := s.Question(r.Question)
	if err != nil {
		return err
	}
	if err := s.UncountLevels(q, ch.Levels); err != nil {
		return err
	}
	if !found {
		s.Counters.Chains++
	}
	if err := s.WriteMember(name, r.Question); err != nil {
		return err
	}
	return s.PutChain(r.Question, name, state.Chain{Policy: r.Policy, Answered: r.Spent, Since: number})
}
