package fold

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// applyEnrolled begins a chain, or takes an object back that had withdrawn: into the chain that it had, under the same ceilings.
func applyEnrolled(s *state.State, c *event.Enrolled, number uint64) error {
	if err := checkEnrolled(s, c); err != nil {
		return err
	}
	o, known, err := s.Object(c.Object)
	if err != nil {
		return err
	}
	if !known {
		if o, err = introduce(s, c); err != nil {
			return err
		}
	}
	ch, again, err := s.Chain(c.Question, c.Object)
	if err != nil {
		return err
	}
	switch {
	case !again:
		ch = state.Chain{Policy: c.Policy, Noise: c.Noise}
		s.Counters.Chains++
		o.Chains++
	case !o.Withdrew(ch):
		return errs.Corrupt(nil, "object %q is enrolled twice in question %d", c.Object, c.Question)
	}
	if ch.Policy != c.Policy || o.Cap != c.Cap {
		return errs.Corrupt(nil, "object %q comes to question %d under other ceilings than it had", c.Object, c.Question)
	}
	if again && o.Forgotten > ch.Enrolled {
		ch.Noise = 0 // buyers may still have responses that were drawn from the key, about another truth perhaps
	}
	if ch.Noise != c.Noise {
		return errs.Corrupt(nil, "object %q comes to question %d with another noise key than its chain began with", c.Object, c.Question)
	}
	if err := noteMember(&s.Counters.Underway, c.Question, c.Object); err != nil {
		return err
	}
	ch.Enrolled = number
	if err := s.WriteMember(c.Object, c.Question); err != nil {
		return err
	}
	return putBoth(s, c.Question, c.Object, ch, o, number)
}

// checkEnrolled checks that what an enrolment refers to is there.
func checkEnrolled(s *state.State, c *event.Enrolled) error {
	if err := names.Check("object", c.Object); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	if c.Question == 0 || c.Question > s.Counters.Questions || c.Policy > s.Counters.Policies || c.Noise > s.Counters.Noises || c.Cap.IsZero() {
		return errs.Corrupt(nil, "object %q is enrolled in question %d under policy %d with the cap %s", c.Object, c.Question, c.Policy, c.Cap)
	}
	q, err := s.Question(c.Question)
	if err == nil && q.Encoding == vocabulary.Finite && c.Noise != 0 {
		err = errs.Corrupt(nil, "object %q has a noise key in question %d, which has a mechanism of its own", c.Object, c.Question)
	}
	return err
}

// introduce makes the record of a new object. It takes over what the log has about the stranger.
func introduce(s *state.State, c *event.Enrolled) (state.Object, error) {
	x, found, err := s.Stranger(c.Object)
	if err == nil && found {
		err = s.Writer.Delete(state.BucketStrangers, []byte(c.Object))
	}
	s.Counters.Objects++
	return state.Object{Cap: c.Cap, Links: x.Links}, err
}

// enrolledIn returns a chain and its object for a draw or a charge.
func enrolledIn(s *state.State, question uint32, name string) (c state.Chain, o state.Object, err error) {
	found, err := s.ReadChain(question, name, &c)
	if err != nil || !found {
		return c, state.Object{}, errs.Corrupt(err, "object %q takes part in question %d without being enrolled", name, question)
	}
	found, err = s.ReadObject(name, &o)
	if err != nil || !found {
		return c, o, errs.Corrupt(err, "object %q has a chain but no budget", name)
	}
	if o.Withdrew(c) {
		return c, o, errs.Corrupt(nil, "object %q takes part in question %d after it has withdrawn", name, question)
	}
	return c, o, nil
}

// applyWithdrawn ends the object's part in everything it was enrolled in so far.
func applyWithdrawn(s *state.State, c *event.Withdrawn, number uint64) error {
	o, found, err := s.Object(c.Object)
	if err != nil || !found {
		return errs.Corrupt(err, "object %q withdraws without being there", c.Object)
	}
	if out, err := s.IsOut(c.Object, o); err != nil || out {
		return errs.Corrupt(err, "object %q withdraws twice", c.Object)
	}
	s.Counters.Underway.Enrolled++
	if err := followObject(&s.Counters.Underway, c.Object); err != nil {
		return err
	}
	o.Withdrawn = number
	return putObject(s, c.Object, o, number)
}

// applyEpoch closes the chain of an object, with what it has cost, and begins a new one under the same policy. Nothing
// reserved of the old one can be sold of the new one.
func applyEpoch(s *state.State, c *event.EpochBegun, number uint64) error {
	ch, o, err := enrolledIn(s, c.Question, c.Object)
	if err != nil {
		return err
	}
	if ch.Unused() {
		return errs.Corrupt(nil, "object %q begins a new epoch of question %d, and nothing happened in the last one", c.Object, c.Question)
	}
	q, err := s.Question(c.Question)
	if err != nil {
		return err
	}
	if err := s.UncountLevels(q, ch.Levels); err != nil {
		return err
	}
	ended := state.ClosedEpoch{End: number, Answered: ch.Answered, Levels: slices.Clone(ch.Levels)}
	begun := state.Chain{Enrolled: ch.Enrolled, Policy: ch.Policy, Since: number, Closed: append(slices.Clip(ch.Closed), ended)}
	if o.Held, err = heldInOthers(s, o.Held, c.Question); err != nil {
		return err
	}
	if err := checkEntries(s, c.Question, &begun, o, s.Now); err != nil {
		return fmt.Errorf("object %q begins a new epoch of question %d: %w", c.Object, c.Question, err)
	}
	return putBoth(s, c.Question, c.Object, begun, o, number)
}

// heldInOthers drops the reservations in a question.
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
