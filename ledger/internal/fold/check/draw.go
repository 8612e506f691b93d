package check

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Draw is an object and its chain before an event that draws, sells or charges something, with what
// the event adds.
type Draw struct {
	rules.Subject                 // Policy is set if something is charged
	Question      *event.Question // nil if no check needs it
	Index         int             // index of a new level in the chain
	Cost          privacy.Epsilon // added to the spent budget of the object
	Sale          state.Sale      // the sale that the object is part of
	Held          []uint64        // the object's reservations after the event
}

// enrolledIn returns an object and its chain in a question. It returns [errs.ErrCorrupt] if the
// object is not enrolled in the question or has withdrawn. In the result, Held is set to the
// reservations of the object. Question, Index, Cost and Sale are not set.
func enrolledIn(s *state.State, question uint32, name string) (d Draw, err error) {
	d.Name = name
	found, err := s.ReadChain(question, name, &d.Chain)
	if err != nil || !found {
		return d, errs.Corrupt(err, "object %q is not enrolled in question %d", name, question)
	}
	found, err = s.ReadObject(name, &d.Object)
	if err != nil || !found {
		return d, errs.Corrupt(err, "object %q has a chain but no budget", name)
	}
	if d.Object.Withdrew(d.Chain) {
		return d, fault("object %q has withdrawn, and an event in question %d is about it", name, question)
	}
	d.Held = d.Object.Held
	return d, nil
}

// Released checks a response against its chain, and its cost against the budgets of its object. It
// notes both for the settled event. Its result has the index and the cost of the new level.
func Released(s *state.State, c *event.Released, ev event.Event) (d Draw, err error) {
	if d, err = enrolledIn(s, c.Question, c.Object); err != nil {
		return d, err
	}
	d.Question, err = s.Question(c.Question)
	if err == nil {
		err = d.checkResponse(s, c.Epsilon, c.Response)
	}
	if err == nil && !d.Cost.IsZero() {
		err = d.checkCharge(s, d.Chain.Buyers, ev.Time)
	}
	if err == nil {
		// The zero Recipient is the host, which adds no entry of a buyer.
		err = d.checkEntries(s, c.Epsilon, rules.Recipient{}, ev.Time)
	}
	if err == nil {
		err = noteResponse(&s.Counters.InProgress, c, d.Cost)
	}
	if err != nil {
		return d, fmt.Errorf("object %q, question %d: %w", c.Object, c.Question, err)
	}
	if c.Method == event.MethodRaise {
		noteDrawn(&s.Counters.InProgress, c.Question, d.Object.Latest)
	}
	return d, nil
}

// checkResponse checks that a response at an ε can be added to the chain in d. It sets the index
// and the cost of the new level. The cost is the increase of the highest ε. A raise needs a chain
// that is bound to a true value, if the ledger has a truth key.
func (d *Draw) checkResponse(s *state.State, epsilon privacy.Epsilon, r event.Response) error {
	q, levels := d.Question, d.Chain.Levels
	at, recorded := state.FindLevel(levels, epsilon)
	if recorded || epsilon.IsZero() || !q.Has(epsilon, r.Value) || r.Method != event.MethodAt(at, len(levels)) {
		return fault("the response %v at ε=%s by method %s is not possible in this chain", r.Value, epsilon, r.Method)
	}
	if r.Method == event.MethodRaise {
		if err := checkBound(s, &d.Chain); err != nil {
			return err
		}
	}
	d.Index, d.Cost = at, state.Minus(epsilon, d.Chain.Current())
	// Given a response, the responses below and above it are independent of each other, so it is
	// enough to check the neighbours.
	made := state.NewLevel(epsilon, r.Value, 0)
	if at > 0 && !canFollow(q, &levels[at-1], &made) {
		return fault("the responses at ε=%s and ε=%s have probability 0 together", levels[at-1].Epsilon, epsilon)
	}
	if at < len(levels) && !canFollow(q, &made, &levels[at]) {
		return fault("the responses at ε=%s and ε=%s have probability 0 together", epsilon, levels[at].Epsilon)
	}
	return nil
}

// canFollow reports whether above can be recorded directly after below.
func canFollow(q *event.Question, below, above *state.Level) bool {
	return q.CanOccur(below.Epsilon, below.Response, above.Epsilon, above.Response)
}

// checkBound returns [errs.ErrCorrupt] if a chain is not bound to a true value although the ledger
// has a truth key.
func checkBound(s *state.State, c *state.Chain) error {
	if c.Bound != nil {
		return nil
	}
	keyed, err := s.HasTruthKey()
	if err != nil || keyed {
		return errs.Corrupt(err, "a draw from a true value that the chain is not bound to")
	}
	return nil
}

// checkCharge checks d.Cost against the cap of the object and the ceiling of its chain, and sets
// d.Policy. The ceiling is the one at a time, with a number of buyers. The request itself was
// limited by the ceiling at the time of the clock. That ceiling is the same as here, or lower if
// the clock had gone back.
func (d *Draw) checkCharge(s *state.State, buyers uint64, at time.Time) (err error) {
	if d.Policy, err = s.Policy(d.Chain.Policy); err != nil {
		return err
	}
	// What other requests held in memory is not in the log.
	h := rules.HeadroomOf(&d.Subject, at, buyers, rules.Held{})
	if h.CapFree.Less(d.Cost) {
		return fault("its spent budget would exceed its cap of %s", d.Object.Cap)
	}
	if h.Free.Less(d.Cost) {
		return fault("the chain's spent budget would be %s, above its ceiling of %s",
			state.Plus(h.Spent, d.Cost), h.Ceiling)
	}
	return nil
}

// checkEntries checks that the chain does not have too many entries after a recipient gets its
// response at an ε. Entries that the open reservations of the object will add are counted. If the ε
// is 0, only the entries that exist and those of the reservations are counted.
func (d *Draw) checkEntries(s *state.State, epsilon privacy.Epsilon, to rules.Recipient, at time.Time) error {
	n := d.Chain.Entries(d.Question)
	if !epsilon.IsZero() {
		n += rules.Added(d.Question, &d.Chain, epsilon, to)
	}
	// This bound is usually enough, and does not read the reservations.
	if n+rules.MaxPromised(d.Question, len(d.Held)) <= event.MaxEntries {
		return nil
	}
	// The entries of reservations depend on the chain with the new level and its holder.
	after, o := d.Chain.With(epsilon, to.Buyer), d.Object
	o.Held = d.Held
	promised, err := rules.Promised(s, d.Question, &after, o, at)
	if err == nil && n+promised > event.MaxEntries {
		err = fault("the chain would have %d entries, and %d more for open reservations: at most %d are possible",
			n, promised, event.MaxEntries)
	}
	return err
}

// Bound checks an event that binds a chain to its true value. The ledger must have a truth key, and
// the chain must not be bound yet.
func Bound(s *state.State, c *event.TruthBound, ev event.Event) (d Draw, err error) {
	if d, err = enrolledIn(s, c.Question, c.Object); err != nil {
		return d, err
	}
	keyed, err := s.HasTruthKey()
	if err != nil || !keyed || d.Chain.Bound != nil {
		return d, errs.Corrupt(err, "object %q is bound to a true value in question %d twice, or without a truth key",
			c.Object, c.Question)
	}
	noteBound(&s.Counters.InProgress, c.Question, ev.Number)
	return d, nil
}

// Charged checks a charge for an answer about a panel, and adds it to s.Counters.Charges. The cost
// of an answer adds to the ε of the chain's levels and of other answers, because their noise is
// independent. The charge for a raised answer is the difference to the answer that it was raised
// from.
func Charged(s *state.State, c *event.Charged, ev event.Event) (d Draw, err error) {
	if d, err = enrolledIn(s, c.Question, c.Object); err != nil {
		return d, err
	}
	n := &s.Counters.Charges
	if err := noteCharge(n, c); err != nil {
		return d, err
	}
	// [Answered] compares this with the answer that is raised: its noise must be about the same
	// true values.
	n.Renewed = max(n.Renewed, d.Chain.Since)
	if err = checkBound(s, &d.Chain); err == nil {
		d.Cost = c.Epsilon
		err = d.checkCharge(s, d.Chain.Buyers, ev.Time)
	}
	if err != nil {
		return d, fault("object %q, charge for question %d: %v", c.Object, c.Question, err)
	}
	noteDrawn(&s.Counters.InProgress, c.Question, d.Object.Latest)
	return d, nil
}

// noteCharge counts a charge for the next answer. It returns [errs.ErrCorrupt] if the names are not
// in order, or if the charge differs from the first one. All charges of an answer are equal.
func noteCharge(n *state.Charges, c *event.Charged) error {
	if n.Epsilon.IsZero() {
		n.Question, n.Epsilon, n.Panel = c.Question, c.Epsilon, event.EmptyPanel()
	}
	if c.Object <= n.Last {
		return fault("object %q is charged after %q: the names must be in order", c.Object, n.Last)
	}
	if n.Question != c.Question || n.Epsilon != c.Epsilon || c.Epsilon.IsZero() {
		return fault("object %q is charged %s for question %d, unlike the other objects of the panel",
			c.Object, c.Epsilon, c.Question)
	}
	n.Objects++
	n.Last, n.Panel = c.Object, n.Panel.With(c.Object)
	return nil
}
