package fold

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// applyReleased adds a response to a chain, and its cost to what the object has spent.
func applyReleased(s *state.State, c *event.Released, ev event.Event) error {
	ch, o, err := enrolledIn(s, c.Question, c.Object)
	if err != nil {
		return err
	}
	cost, err := addResponse(s, c.Question, &ch, c.Epsilon, c.Response, ev.Number)
	if err == nil && !cost.IsZero() {
		err = chargeObject(s, &o, ch, cost, ev)
	}
	if err == nil {
		err = checkEntries(s, c.Question, &ch, o, ev.Time)
	}
	if err == nil {
		err = noteResponse(&s.Counters.Underway, c, cost)
	}
	if c.Method == event.MethodRaise {
		noteDrawn(&s.Counters.Underway, c.Question, o.Latest)
	}
	if err != nil {
		return fmt.Errorf("object %q, question %d: %w", c.Object, c.Question, err)
	}
	return putBoth(s, c.Question, c.Object, ch, o, ev.Number)
}

// putBoth writes a chain and its object, of which an event is the last one.
func putBoth(s *state.State, question uint32, name string, c state.Chain, o state.Object, number uint64) error {
	if err := s.PutChain(question, name, c); err != nil {
		return err
	}
	return putObject(s, name, o, number)
}

// putObject writes an object of which an event is the last one.
func putObject(s *state.State, name string, o state.Object, number uint64) error {
	s.Link(&o.Links, number)
	return s.PutObject(name, o)
}

// addResponse adds a response to a chain and returns what it costs: what it raises the highest ε by.
func addResponse(s *state.State, question uint32, c *state.Chain, epsilon privacy.Epsilon, r event.Response, number uint64) (cost privacy.Epsilon, err error) {
	q, err := s.Question(question)
	if err != nil {
		return cost, err
	}
	before := c.Current()
	at, recorded := state.FindLevel(c.Levels, epsilon)
	if recorded || epsilon.IsZero() || !q.Has(epsilon, r.Value) || r.Method != event.MethodAt(at, len(c.Levels)) {
		return cost, errs.Corrupt(nil, "a response of %v at ε=%s by %s", r.Value, epsilon, r.Method)
	}
	if r.Method == event.MethodRaise {
		if err := checkBound(s, c); err != nil {
			return cost, err
		}
	}
	c.Levels = slices.Insert(c.Levels, at, state.NewLevel(epsilon, r.Value, number))
	if err := checkNeighbours(q, c.Levels, at); err != nil {
		return cost, err
	}
	return state.Minus(c.Current(), before), s.CountLevel(q, c.Levels, at)
}

// checkNeighbours checks that a response has a probability above 0 beside those that are recorded next to it. The others
// of the chain make no difference: given a response, those below and above it are independent of each other.
func checkNeighbours(q *event.Question, levels []state.Level, at int) error {
	for i := max(at-1, 0); i < min(at+1, len(levels)-1); i++ {
		if a, b := levels[i], levels[i+1]; !q.CanOccur(a.Epsilon, a.Response, b.Epsilon, b.Response) {
			return errs.Corrupt(nil, "responses at ε=%s and ε=%s that have probability 0 together", a.Epsilon, b.Epsilon)
		}
	}
	return nil
}

// applyBound ties a chain to its truth, once.
func applyBound(s *state.State, c *event.TruthBound, number uint64) error {
	ch, o, err := enrolledIn(s, c.Question, c.Object)
	if err != nil {
		return err
	}
	keyed, err := s.HasTruthKey()
	if err != nil || !keyed || ch.Bound != nil {
		return errs.Corrupt(err, "object %q is bound to a truth in question %d a second time, or without a key", c.Object, c.Question)
	}
	noteBound(&s.Counters.Underway, c.Question, number)
	ch.Bound = &c.Tag
	return putBoth(s, c.Question, c.Object, ch, o, number)
}

// checkBound refuses a draw from a truth that a chain is not bound to, once there is a key by which it should be.
func checkBound(s *state.State, c *state.Chain) error {
	if c.Bound != nil {
		return nil
	}
	keyed, err := s.HasTruthKey()
	if err != nil || keyed {
		return errs.Corrupt(err, "a draw from a truth that the chain is not bound to")
	}
	return nil
}

// chargeObject adds a cost to what an object has spent, and checks it against the object's cap and its chain's
// ceiling, as the chain is after it. A request is bound by the ceiling of the clock; that of the log's time is
// the same, or is higher if the clock had gone back.
func chargeObject(s *state.State, o *state.Object, after state.Chain, cost privacy.Epsilon, ev event.Event) error {
	spent, err := o.Spent.Add(cost)
	if err != nil || o.Cap.Less(spent) {
		return errs.Corrupt(nil, "it spends more than its cap of %s", o.Cap)
	}
	p, err := s.Policy(after.Policy)
	if err != nil {
		return err
	}
	if ceiling := p.Ceiling(ev.Time, after.Buyers); ceiling.Less(after.Spent()) {
		return errs.Corrupt(nil, "it spends %s, above the ceiling of %s", after.Spent(), ceiling)
	}
	o.Spent = spent
	return nil
}
