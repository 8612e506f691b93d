package fold

import (
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// checkEntries checks that a chain, as an event leaves it, has no more entries than it may have,
// with those that the open reservations of its object will add.
func checkEntries(s *state.State, question uint32, c *state.Chain, o state.Object, at time.Time) error {
	q, err := s.Question(question)
	if err != nil {
		return err
	}
	entries := c.Entries(q)
	if entries+rules.MostPromised(q, o) <= vocabulary.MaxEntries {
		return nil
	}
	promised, err := rules.Promised(s, q, c, o, at)
	if err == nil && entries+promised > vocabulary.MaxEntries {
		err = errs.Corrupt(nil, "a chain of %d entries, with %d more for open reservations; at most %d are possible",
			entries, promised, vocabulary.MaxEntries)
	}
	return err
}

// checkFull returns a refusal for want of entries or of reservations, where it can be so: what
// requests held in memory may have been in the way, which waiting helps against.
func checkFull(s *state.State, w *wanted, r vocabulary.Refusal) (*vocabulary.Refusal, error) {
	q, err := s.Question(w.question)
	if err != nil {
		return nil, err
	}
	var to rules.Recipient
	if w.order != nil {
		to = rules.Recipient{Buys: true, Buyer: w.order.Buyer}
	}
	added := rules.Added(q, &w.Chain, r.Asked, to)
	possible := added > 0
	if w.reserves && !possible {
		open, err := rules.OpenReservations(s, w.Object, w.at)
		if err != nil {
			return nil, err
		}
		possible = open >= vocabulary.MaxReservations
	}
	isPart := w.order != nil && slices.Contains(w.Object.Held, s.Counters.Unsettled)
	if w.answer || w.reserved() || isPart || !possible {
		return nil, errs.Corrupt(nil, "a refusal says %v, which cannot be", r)
	}
	return rules.RefuseFull(r.Object, r.Asked, w.Chain.Entries(q)+added <= vocabulary.MaxEntries), nil
}

// addReservation makes a reservation one of the open ones of its object.
func addReservation(s *state.State, o *state.Object, c *event.Held, at time.Time) (err error) {
	if o.Held, err = stillHeld(s, *o, 0, at); err != nil {
		return err
	}
	if o.Held = append(o.Held, c.Sale); len(o.Held) > vocabulary.MaxReservations {
		err = errs.Corrupt(nil, "object %q, reservation %d: it is one of %d; at most %d are possible",
			c.Object, c.Sale, len(o.Held), vocabulary.MaxReservations)
	}
	return err
}
