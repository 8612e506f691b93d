package fold

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// applyErased folds an event of which only the public part is left. What it did to its object is in the
// forgotten event that destroyed it; what it did to anything else still counts.
func applyErased(s *state.State, ev event.Event) error {
	n := &s.Counters.Erased
	switch c := ev.Change.(type) {
	case *event.Answered:
		return applyAnswered(s, c, ev)
	case *event.Settled:
		if c.Named {
			return applySettled(s, c, ev)
		}
	default:
		s.Counters.Underway.Gone++
	}
	n.Events++
	switch c := ev.Change.(type) {
	case *event.Held:
		return takeObject(&s.Counters, "", c.Price)
	case *event.Sold:
		n.Earned += c.Price // at most the revenue
		return takeObject(&s.Counters, "", c.Price)
	case *event.ObjectRefused:
		n.Mentions++
		s.Counters.Refused++
	case *event.Enrolled, *event.Withdrawn:
		s.Counters.Underway.Enrolled++
	case *event.TermsChanged:
		n.Terms++
		s.Counters.Underway.Enrolled++
	case *event.Released:
		s.Counters.Underway.Erased++
	case *event.TruthBound:
		if b := &s.Counters.Underway.Bound; b.Last+1 == ev.Number {
			b.Last = ev.Number // the row goes on
		}
	case *event.Charged:
		s.Counters.Underway.Erased++
		s.Counters.Charges.Objects++
		s.Counters.Charges.Erased++
	case *event.Settled:
		n.Mentions++
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
func applyForgotten(s *state.State, c *event.Forgotten, number uint64) error {
	o, known, err := s.Object(c.Object)
	if err != nil {
		return err
	}
	if !known {
		x, found, err := s.Stranger(c.Object)
		if err != nil {
			return err
		}
		if o.Links = x.Links; found {
			if err := s.Writer.Delete(state.BucketStrangers, []byte(c.Object)); err != nil {
				return err
			}
		}
	}
	if err := checkAccount(s, c, o, known); err != nil {
		return err
	}
	s.Linked.Erase, s.Linked.EraseRequests, s.Linked.EraseNamed = o.Latest, o.Settled, s.Counters.Named
	s.Counters.Named, s.Counters.Erased.Named = 0, 0
	if c.Cap.IsZero() {
		return nil // a stranger leaves nothing
	}
	if !known {
		s.Counters.Objects++
	}
	for _, r := range c.Chains {
		if err := forgetChain(s, c.Object, r, number); err != nil {
			return err
		}
	}
	return s.PutObject(c.Object, state.Object{
		Cap: c.Cap, Spent: c.Spent, Chains: uint64(len(c.Chains)), Withdrawn: number, Forgotten: number, Earned: c.Earned,
	})
}

// checkAccount checks what a forgotten event says against the object, as far as its events were there to be folded,
// and against the erased ones that it accounts for.
func checkAccount(s *state.State, c *event.Forgotten, o state.Object, known bool) error {
	if err := names.Check("object", c.Object); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	hasOpen := s.Counters.Named != 0 || s.Counters.Erased.Named != 0 // requests that may name it
	if c.Events == 0 && !(known && hasOpen) || c.Cap.IsZero() != (len(c.Chains) == 0) || c.Cap.IsZero() && c.Earned > 0 {
		return errs.Corrupt(nil, "object %q leaves behind what it cannot have", c.Object)
	}
	if err := takeErased(&s.Counters.Erased, c, o); err != nil {
		return err
	}
	missing, changed := c.Events-o.Total(), uint64(0) // changes of terms that must be among those erased
	if known && c.Cap != o.Cap {
		changed = 1
	}
	sum, last, policies := privacy.Epsilon{}, uint32(0), uint64(0)
	for _, r := range c.Chains {
		if r.Question <= last || r.Question > s.Counters.Questions || r.Policy > s.Counters.Policies {
			return errs.Corrupt(nil, "object %q leaves a chain of question %d under policy %d", c.Object, r.Question, r.Policy)
		}
		there, moved, err := checkRemnant(s, c.Object, r, missing == 0)
		if err != nil {
			return err
		}
		if there {
			o.Chains--
		}
		if moved {
			policies++
		}
		sum, last = state.Plus(sum, r.Spent), r.Question
	}
	if changed = max(changed, policies); missing == 0 && changed > 0 {
		return errs.Corrupt(nil, "object %q leaves other terms behind than it had", c.Object)
	}
	over := c.Cap.Less(c.Spent) && !o.Cap.Less(o.Spent) // it can only be so by terms that have changed
	if sum != c.Spent || over && missing == 0 || o.Chains != 0 || missing == 0 && c.Spent != o.Spent {
		return errs.Corrupt(nil, "object %q leaves behind what it has not spent", c.Object)
	}
	if over {
		changed = max(changed, 1)
	}
	return takeTerms(&s.Counters.Erased, changed)
}

// takeTerms takes off the erased changes of terms that something proves.
func takeTerms(e *state.Erasure, changed uint64) error {
	if changed > e.Terms {
		return errs.Corrupt(nil, "terms have changed that no event changed: %d changes are erased, %d are needed", e.Terms, changed)
	}
	e.Terms = min(e.Terms-changed, e.Events) // of an object we cannot know
	return nil
}

// takeErased takes off the erased events that a forgotten event accounts for, given those about the object that were
// whole when they were folded.
func takeErased(e *state.Erasure, c *event.Forgotten, o state.Object) error {
	missing, unpaid, spent := c.Events-o.Total(), c.Earned-o.Earned, uint64(c.Spent.Nano()-o.Spent.Nano())
	if c.Spent.Less(o.Spent) || spent > e.Spent {
		return errs.Corrupt(nil, "object %q leaves behind what it has not spent: it has spent %s, and erased events have %d nano-nats", c.Object, o.Spent, e.Spent)
	}
	if o.Total() > c.Events || missing > e.Events || o.Earned > c.Earned || unpaid > e.Earned || c.Cap.IsZero() && missing > e.Mentions {
		return errs.Corrupt(nil, "object %q: %d events are forgotten, of which %d are there and %d erased", c.Object, c.Events, o.Total(), e.Events)
	}
	e.Events, e.Earned, e.Spent = e.Events-missing, e.Earned-unpaid, e.Spent-spent
	if c.Cap.IsZero() {
		e.Mentions -= missing // a stranger was never more than mentioned
	}
	e.Mentions = min(e.Mentions, e.Events) // of an object we cannot know
	return nil
}

// checkRemnant checks what is left of a chain against the chain. It tells whether there is one, and whether it was under another policy.
func checkRemnant(s *state.State, name string, r event.Remnant, whole bool) (found, moved bool, err error) {
	ch, found, err := s.Chain(r.Question, name)
	if err != nil {
		return found, false, err
	}
	if whole && !found || found && (whole && ch.Total() != r.Spent || r.Spent.Less(ch.Total())) {
		return found, false, errs.Corrupt(nil, "object %q has not spent %s on question %d", name, r.Spent, r.Question)
	}
	return found, found && ch.Policy != r.Policy, nil
}

// forgetChain destroys the levels of a chain, of all its epochs.
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
	if err := s.PutNumber(state.BucketObjects, state.MemberKey(name, r.Question), r.Question); err != nil {
		return err
	}
	return s.PutChain(r.Question, name, state.Chain{Policy: r.Policy, Answered: r.Spent, Since: number})
}
