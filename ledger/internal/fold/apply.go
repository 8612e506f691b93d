package fold

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Apply is the only code that changes the state. It is pure: the new state follows from the old one
// and the event alone, with no clock and no randomness. Recording, recovery and audit are folds of it.
// An event that cannot follow on the state is [ErrCorrupt].
func Apply(s *state.State, ev event.Event) error {
	if err := follow(s, ev); err != nil {
		return err
	}
	if ev.Erased != nil {
		return applyErased(s, ev)
	}
	return applyWhole(s, ev)
}

// follow makes an event the last one, and refuses one that cannot stand behind those before it.
func follow(s *state.State, ev event.Event) error {
	if ev.Number != s.Counters.Events+1 {
		return fmt.Errorf("%w: event %d follows on event %d", errs.ErrCorrupt, ev.Number, s.Counters.Events)
	}
	if ev.Time.Before(s.Counters.Last) {
		return fmt.Errorf("%w: event %d is earlier than the one before it", errs.ErrCorrupt, ev.Number)
	}
	if _, ok := ev.Change.(*event.Created); ok != (ev.Number == 1) {
		return errs.Corrupt(nil, "event %d: the log begins with how the ledger was created", ev.Number)
	}
	s.Counters.Events, s.Counters.Last, s.Now = ev.Number, ev.Time, ev.Time
	s.Linked = state.Linked{}
	if err := checkOpen(s, ev.Change); err != nil {
		return err
	}
	if k := ev.Change.Kind(); k != event.KindSettled && !beginsLedger(k) {
		if err := takeEvent(&s.Counters.Underway, k); err != nil {
			return err
		}
		noteName(&s.Counters.Underway, event.ObjectOf(ev))
	} else if k != event.KindSettled && s.Counters.Underway != (state.Underway{}) {
		return errs.Corrupt(nil, "%d events are settled by no request", s.Counters.Underway.Events)
	}
	return nil
}

// applyWhole does what an event says. There is a function for each kind.
func applyWhole(s *state.State, ev event.Event) error {
	switch c := ev.Change.(type) {
	case *event.Created:
		return applyCreated(s, c, ev)
	case *event.TruthKeySet:
		return applyTruthKey(s, c)
	case *event.NoiseKeySet:
		return applyNoiseKey(s, c)
	case *event.QuestionDefined:
		return applyQuestion(s, c)
	case *event.PolicyDefined:
		return applyPolicy(s, c)
	case *event.Enrolled:
		return applyEnrolled(s, c, ev.Number)
	case *event.Released:
		return applyReleased(s, c, ev)
	case *event.TruthBound:
		return applyBound(s, c, ev.Number)
	case *event.Charged:
		return applyCharged(s, c, ev)
	case *event.Answered:
		return applyAnswered(s, c, ev)
	case *event.ObjectRefused:
		return applyRefused(s, c, ev)
	case *event.Settled:
		return applySettled(s, c, ev)
	case *event.Withdrawn:
		return applyWithdrawn(s, c, ev.Number)
	case *event.EpochBegun:
		return applyEpoch(s, c, ev.Number)
	case *event.TermsChanged:
		return applyTerms(s, c, ev)
	case *event.Stated:
		return applyStated(s, c, ev.Number)
	case *event.Forgotten:
		return applyForgotten(s, c, ev.Number)
	case *event.BuyerNamed:
		return applyBuyer(s, c)
	case *event.Reserved:
		return applyReserved(s, c, ev)
	case *event.Held:
		return applyHeld(s, c, ev)
	case *event.Cancelled:
		return applyCancelled(s, c)
	case *event.SaleMade:
		return applySale(s, c, ev)
	case *event.Sold:
		return applySold(s, c, ev)
	}
	return fmt.Errorf("%w: event %d is of an unknown kind", errs.ErrCorrupt, ev.Number)
}
