package fold

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold/check"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Apply changes the state as an event says. It is the only code that changes the state. It is pure:
// the new state follows from the old state and the event, without a clock or randomness. Recording,
// recovery and audit all fold events with it. It returns [errs.ErrCorrupt] for an event that no
// ledger can have written after the events before it.
func Apply(s *state.State, ev event.Event) error {
	if err := check.Order(s, ev); err != nil {
		return err
	}
	s.Counters.Events, s.Counters.Last, s.Now = ev.Number, ev.Time, ev.Time
	// Set by the functions that link the event to others.
	s.Linked = state.Linked{}
	if ev.Erased != nil {
		// Of most erased events, only their counts are left, and nothing else is applied.
		if hasMore, err := check.Erased(s, ev); err != nil || !hasMore {
			return err
		}
	}
	return applyKind(s, ev)
}

// applyKind checks an event and applies it. Each kind has two functions. The first is of package
// check, and checks the event against the state before it. The second changes the state.
func applyKind(s *state.State, ev event.Event) error {
	switch c := ev.Change.(type) {
	case *event.Created:
		return alone(s, c, ev, check.Created, applyCreated)
	case *event.TruthKeySet:
		return alone(s, c, ev, check.TruthKey, applyTruthKey)
	case *event.NoiseKeySet:
		return alone(s, c, ev, check.NoiseKey, applyNoiseKey)
	case *event.QuestionDefined:
		return alone(s, c, ev, check.Question, applyQuestion)
	case *event.PolicyDefined:
		return alone(s, c, ev, check.Policy, applyPolicy)
	case *event.BuyerNamed:
		return alone(s, c, ev, check.Buyer, applyBuyer)
	case *event.Enrolled:
		return with(s, c, ev, check.Enrolled, applyEnrolled)
	case *event.TermsChanged:
		return with(s, c, ev, check.Terms, applyTerms)
	case *event.Withdrawn:
		return with(s, c, ev, check.Withdrawn, applyWithdrawn)
	case *event.EpochBegun:
		return with(s, c, ev, check.Epoch, applyEpoch)
	case *event.TruthBound:
		return with(s, c, ev, check.Bound, applyBound)
	case *event.Released:
		return with(s, c, ev, check.Released, applyReleased)
	case *event.Charged:
		return with(s, c, ev, check.Charged, applyCharged)
	case *event.Answered:
		return with(s, c, ev, check.Answered, applyAnswered)
	case *event.Reserved:
		return alone(s, c, ev, check.Reserved, applyReserved)
	case *event.Held:
		return with(s, c, ev, check.Held, applyHeld)
	case *event.Cancelled:
		return with(s, c, ev, check.Cancelled, applyCancelled)
	case *event.SaleMade:
		return with(s, c, ev, check.Sale, applySale)
	case *event.Sold:
		return with(s, c, ev, check.Sold, applySold)
	case *event.Stated:
		return with(s, c, ev, check.Stated, applyMention)
	case *event.Forgotten:
		return with(s, c, ev, check.Forgotten, applyForgotten)
	case *event.ObjectRefused:
		return alone(s, c, ev, check.Refused, applyRefused)
	case *event.Settled:
		return with(s, c, ev, check.Settled, applySettled)
	}
	return errs.Corrupt(nil, "event %d has an unknown kind", ev.Number)
}

// checking is a function that checks an event against the state before it. It returns
// [errs.ErrCorrupt] for an event that is not possible. Otherwise it returns what it found, for the
// function that applies the event.
type checking[C event.Change, F any] func(*state.State, C, event.Event) (F, error)

// with checks an event and applies it with what the check found.
func with[C event.Change, F any](
	s *state.State, c C, ev event.Event, check checking[C, F], apply func(*state.State, C, event.Event, F) error,
) error {
	found, err := check(s, c, ev)
	if err != nil {
		return err
	}
	return apply(s, c, ev, found)
}

// alone is [with] for a kind whose check finds nothing that its apply function needs.
func alone[C event.Change](
	s *state.State, c C, ev event.Event, check, apply func(*state.State, C, event.Event) error,
) error {
	if err := check(s, c, ev); err != nil {
		return err
	}
	return apply(s, c, ev)
}
