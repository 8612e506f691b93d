package fold

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold/check"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// applyReleased adds a response to a chain, and its cost to the spent budget of the object.
func applyReleased(s *state.State, c *event.Released, ev event.Event, d check.Draw) error {
	if err := addLevel(s, &d, state.NewLevel(c.Epsilon, c.Value, ev.Number)); err != nil {
		return err
	}
	return putBoth(s, c.Question, c.Object, d.Chain, d.Object, ev.Number)
}

// addLevel adds a level to the chain in d at its index, and its cost to the spent budget of the
// object. It also counts the level. The caller writes the chain and the object.
func addLevel(s *state.State, d *check.Draw, l state.Level) error {
	d.Chain.Levels = slices.Insert(d.Chain.Levels, d.Index, l)
	d.Object.Spent = state.Plus(d.Object.Spent, d.Cost)
	return s.CountLevel(d.Question, d.Chain.Levels, d.Index)
}

// applyBound binds a chain to its true value.
func applyBound(s *state.State, c *event.TruthBound, ev event.Event, d check.Draw) error {
	d.Chain.Bound = &c.Tag
	return putBoth(s, c.Question, c.Object, d.Chain, d.Object, ev.Number)
}

// applyCharged adds the cost of an answer about a panel to the spent budgets of the chain and the
// object.
func applyCharged(s *state.State, c *event.Charged, ev event.Event, d check.Draw) error {
	d.Chain.Answered = state.Plus(d.Chain.Answered, d.Cost)
	d.Object.Spent = state.Plus(d.Object.Spent, d.Cost)
	return putBoth(s, c.Question, c.Object, d.Chain, d.Object, ev.Number)
}

// applyAnswered adds an answer to the recorded answers to its query about its panel. If the panel
// is erased, nothing is recorded.
func applyAnswered(s *state.State, c *event.Answered, ev event.Event, a check.Answer) error {
	if ev.Erased != nil {
		return nil
	}
	made := state.AnswerLevel{Epsilon: c.Epsilon, Result: c.Result, Event: ev.Number, Began: a.Began,
		Objects: c.Objects}
	at, _ := a.Answers.Find(c.Epsilon)
	answers := slices.Insert(a.Answers, at, made)
	return s.Put(state.BucketAnswers, a.Key, wire.Encode(&answers))
}

// applyRefused makes a refusal the last event about its object, which may be unknown to the ledger.
func applyRefused(s *state.State, c *event.ObjectRefused, ev event.Event) error {
	return s.LinkName(c.Object, ev.Number, false)
}

// applySettled adds an event to those that settle its request. An open request may name objects for
// which it has no event (see [event.Settled.IsOpen]). All open requests are linked, so that their
// names are erased when any object is forgotten. An event that names its only object is linked to
// that object.
func applySettled(s *state.State, c *event.Settled, ev event.Event, r state.Request) error {
	if c.IsOpen() && ev.Erased == nil {
		s.Linked.Previous, s.Counters.Named = s.Counters.Named, ev.Number
	}
	if c.Object != "" {
		if err := s.LinkName(c.Object, ev.Number, true); err != nil {
			return err
		}
	}
	r.Settled = append(slices.Clip(r.Settled), ev.Number)
	return s.PutRequest(c.Key, r)
}
