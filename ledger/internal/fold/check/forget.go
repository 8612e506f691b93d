package check

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Erased counts an event of which only the public part is left. What it did to its object is in the
// forgotten event of that object. What it did to other records still counts. hasMore reports
// whether the event is checked and applied further, as far as its public part allows. This is so
// for an answer and for a settled event.
func Erased(s *state.State, ev event.Event) (hasMore bool, err error) {
	n, u, settled := &s.Counters.Erased, &s.Counters.InProgress, false
	switch c := ev.Change.(type) {
	case *event.Answered:
		return true, nil
	case *event.Settled:
		if c.Named {
			return true, nil
		}
		// A settled event without Named was erased because it names its only object, or the last
		// object of a part.
		if settled = true; c.Final && !c.Alone {
			return true, fault("request %q is complete, but its last event is erased", c.Key) // it has no object
		}
		n.OnlyNamed++
	case *event.Held:
		err = noteShare(&s.Counters, "", c.Price)
	case *event.Sold:
		n.Earned += c.Price // the sum is at most the revenue
		err = noteShare(&s.Counters, "", c.Price)
	case *event.ObjectRefused:
		n.OnlyNamed++
		s.Counters.Refused++
	case *event.Enrolled, *event.Withdrawn:
		u.Enrolled++
	case *event.TermsChanged:
		n.Terms++
		u.Enrolled++
	case *event.Released:
		u.ErasedResponses++
	case *event.TruthBound:
		if b := &u.Bindings; b.Last+1 == ev.Number {
			b.Last = ev.Number // the consecutive bindings continue
		}
	case *event.Charged:
		u.ErasedResponses++
		s.Counters.Charges.Objects++
		s.Counters.Charges.Erased++
	}
	if n.Events++; !settled {
		u.ErasedEvents++
	}
	return settled, err
}

// Stated checks that a statement lists every event about its object that is not erased, and has the
// amounts of its object. It returns the object.
func Stated(s *state.State, c *event.Stated, _ event.Event) (o state.Object, err error) {
	o, known, err := s.Object(c.Object)
	if err != nil || !known {
		return o, errs.Corrupt(err, "a statement about object %q, which does not exist", c.Object)
	}
	events, err := s.EventsAbout(o)
	if err != nil {
		return o, err
	}
	if !slices.Equal(events, c.Events) || c.Forgotten != o.Forgotten || c.Account != o.Account() {
		return o, fault("the statement about object %q does not list all its events, or has other amounts", c.Object)
	}
	return o, nil
}

// Forgotten checks a forgotten event. It compares the event with the state of the object, and with
// the erased events that it accounts for. The state has only the events that were not erased when
// they were folded. It returns the object and whether it is known. For an object that was never
// enrolled, only the links are set.
func Forgotten(s *state.State, c *event.Forgotten, _ event.Event) (m Member, err error) {
	if m.Object, m.IsKnown, err = s.Object(c.Object); err != nil {
		return m, err
	}
	if !m.IsKnown {
		stranger, _, err := s.Stranger(c.Object)
		if err != nil {
			return m, err
		}
		m.Object.Links = stranger.Links
	}
	if err := checkName("object", c.Object); err != nil {
		return m, err
	}
	n := &s.Counters
	hasOpen := n.Named != 0 || n.Erased.Named != 0 // open requests may name the object
	// A cap of 0 means that the object was only named, and never enrolled.
	isStranger, isNone := c.Cap.IsZero(), c.Events == 0 && !(m.IsKnown && hasOpen)
	if isNone || isStranger != (len(c.Chains) == 0) || isStranger && c.Earned > 0 {
		return m, fault("forgotten object %q: its totals are not possible", c.Object)
	}
	if err := noteForgotten(&n.Erased, c, m.Object); err != nil {
		return m, err
	}
	n.Erased.Named = 0 // every open request before this event may have named the object
	return m, checkRemnants(s, c, m.Object, m.IsKnown)
}

// noteForgotten subtracts from e the erased events, earnings and ε that a forgotten event accounts
// for. o is the object, as its events that were not erased have left it. It returns
// [errs.ErrCorrupt] if the totals of c are below those of o, or if e has too little for the
// difference.
func noteForgotten(e *state.Erasure, c *event.Forgotten, o state.Object) error {
	// The differences between the totals of c and of o: erased events, their earnings, and their ε.
	// They may wrap around, and are used only after the comparisons below.
	missing, unpaid, spent := c.Events-o.Total(), c.Earned-o.Earned, uint64(c.Spent.Nano()-o.Spent.Nano())
	if c.Spent.Less(o.Spent) || spent > e.Spent {
		return fault("forgotten object %q: its totals are not what it has spent: %s by its events, "+
			"and %d nano-nats by erased ones",
			c.Object, o.Spent, e.Spent)
	}
	isStranger := c.Cap.IsZero() // the object was never enrolled, only named
	excess := o.Total() > c.Events || missing > e.Events || o.Earned > c.Earned || unpaid > e.Earned
	if excess || isStranger && missing > e.OnlyNamed {
		return fault("forgotten object %q: it counts %d events, but the log has %d of them and %d erased ones",
			c.Object, c.Events, o.Total(), e.Events)
	}
	e.Events, e.Earned, e.Spent = e.Events-missing, e.Earned-unpaid, e.Spent-spent
	if isStranger {
		e.OnlyNamed -= missing
	}
	e.OnlyNamed = min(e.OnlyNamed, e.Events) // the rest may be of other objects
	return nil
}

// checkRemnants checks what remains of the chains of an object, as its forgotten event c lists
// them. o is the object in the state, and known reports whether it exists there. If no event of the
// object is erased, everything must be equal. Otherwise the chains may have cost more than in the
// state. The terms may differ only if enough erased events can have changed them.
func checkRemnants(s *state.State, c *event.Forgotten, o state.Object, known bool) error {
	isWhole, changed := c.Events == o.Total(), uint64(0) // changes of terms that must be among the erased events
	// sum is the ε of the chains so far, last the question before, and policies the number of
	// policies that differ from the state.
	sum, last, policies := privacy.Epsilon{}, uint32(0), uint64(0)
	for _, r := range c.Chains {
		if r.Question <= last || r.Question > s.Counters.Questions || r.Policy > s.Counters.Policies {
			return fault("forgotten object %q: its chain of question %d under policy %d is not possible",
				c.Object, r.Question, r.Policy)
		}
		ch, found, err := s.Chain(r.Question, c.Object)
		if err != nil {
			return err
		}
		if isWhole && (!found || ch.Total() != r.Spent) || found && r.Spent.Less(ch.Total()) {
			return fault("forgotten object %q: it has not spent %s on question %d", c.Object, r.Spent, r.Question)
		}
		if found {
			o.Chains-- // counts down to the chains that the event does not list
		}
		if found && ch.Policy != r.Policy {
			policies++
		}
		sum, last = state.Plus(sum, r.Spent), r.Question
	}
	if known && c.Cap != o.Cap {
		changed = 1
	}
	if changed = max(changed, policies); isWhole && changed > 0 {
		return fault("forgotten object %q: its terms are not those that it had", c.Object)
	}
	over := c.Cap.Less(c.Spent) && !o.Cap.Less(o.Spent) // only possible if the terms have changed
	if sum != c.Spent || o.Chains != 0 || isWhole && (over || c.Spent != o.Spent) {
		return fault("forgotten object %q: its totals are not what it has spent", c.Object)
	}
	if over {
		changed = max(changed, 1)
	}
	return noteTerms(&s.Counters.Erased, changed)
}

// noteTerms subtracts erased changes of terms that must belong to the forgotten object. changed is
// their least number. It returns [errs.ErrCorrupt] if there are fewer.
func noteTerms(e *state.Erasure, changed uint64) error {
	if changed > e.Terms {
		return fault("forgotten object: its terms need %d erased changes, and there are %d", changed, e.Terms)
	}
	e.Terms = min(e.Terms-changed, e.Events) // the rest may be of other objects
	return nil
}
