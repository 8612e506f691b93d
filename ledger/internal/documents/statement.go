package documents

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Statement returns the statement that a request recorded. key is the idempotency key of the
// request. If the object has been forgotten since, the error is [errs.ErrForgotten].
func (m *Maker) Statement(ctx context.Context, key string) (evidence.Statement, error) {
	t := statement{events: map[uint64]Entry{}}
	if err := m.Engine.View(ctx, func(s *state.State) error { return t.begin(s, key) }); err != nil {
		return evidence.Statement{}, err
	}
	// Events change only by erasure, so they can be read in several short snapshots.
	for some := range slices.Chunk(t.listed, perSnapshot) {
		if err := m.Engine.View(ctx, func(s *state.State) error { return t.addAll(s, some) }); err != nil {
			return evidence.Statement{}, err
		}
	}
	numbers := slices.Sorted(maps.Keys(t.events))
	proof, signed, err := m.proveSigned(ctx, t.last, numbers)
	if err != nil {
		return evidence.Statement{}, err
	}
	all := make([]Entry, len(numbers))
	for i, number := range numbers {
		all[i] = t.events[number]
	}
	return NewStatement(t.object, all, proof, signed)
}

// statement reads the events of a statement from several snapshots.
type statement struct {
	object string
	last   uint64           // the event that records the statement
	listed []uint64         // the events that the statement lists
	events map[uint64]Entry // the events read so far and those that they refer to, by number
}

// begin reads the event of the statement, which the request with a key recorded. It sets the
// object, and the events to read: the first of the log, those that the statement lists, and the
// last one that forgot the object, if any.
func (t *statement) begin(s *state.State, key string) error {
	r, end, err := s.LastPart(key)
	if err != nil || len(r.Settled) != 1 {
		return errs.Corrupt(err, "the request for a statement was not settled")
	}
	t.last = end.First
	if err := t.add(s, t.last); err != nil {
		return err
	}
	c, ok := t.events[t.last].Change.(*event.Stated)
	if !ok {
		return errs.Corrupt(nil, "event %d is not that of a statement", t.last)
	}
	// event 1 describes the ledger, which every statement contains
	t.object, t.listed = c.Object, slices.Concat([]uint64{1}, c.Events)
	if c.Forgotten != 0 {
		t.listed = append(t.listed, c.Forgotten)
	}
	return nil
}

// addAll reads some events, and those that they refer to.
func (t *statement) addAll(s *state.State, numbers []uint64) error {
	prefetchEvents(s, numbers)
	for _, number := range numbers {
		if err := t.add(s, number); err != nil {
			return err
		}
	}
	return nil
}

// add reads an event, unless it was read before, and then the events that it refers to,
// recursively. An erased event means that the object was forgotten after the statement was
// recorded.
func (t *statement) add(s *state.State, number uint64) error {
	if _, known := t.events[number]; known {
		return nil
	}
	ev, err := ReadEntry(s, number)
	if err != nil {
		return err
	}
	if ev.Erased != nil {
		return fmt.Errorf("%w: the object of the statement was forgotten", errs.ErrForgotten)
	}
	t.events[number] = ev
	numbers, err := references(s, ev.Event)
	if err != nil {
		return err
	}
	for _, number := range numbers {
		if err := t.add(s, number); err != nil {
			return err
		}
	}
	return nil
}

// references returns the numbers of the events that an event directly refers to. These define its
// question, its policies and its buyer, or begin the reservation or sale that it belongs to. They
// may be in any order, and twice.
func references(s *state.State, ev event.Event) (numbers []uint64, err error) {
	// define appends the number of the event that defines a question, policy or buyer. It does
	// nothing for the number 0, which means none, or after an error.
	define := func(bucket string, number uint32) {
		if err != nil || number == 0 {
			return
		}
		var defined uint64
		if defined, err = s.Definition(bucket, number); err == nil {
			numbers = append(numbers, defined)
		}
	}
	switch c := ev.Change.(type) {
	case *event.Enrolled:
		define(state.BucketPolicies, c.Policy)
	case *event.TermsChanged:
		define(state.BucketPolicies, c.Policy)
	case *event.Reserved:
		define(state.BucketBuyers, c.Buyer)
	case *event.SaleMade:
		define(state.BucketBuyers, c.Buyer)
	case *event.Held:
		define(state.BucketPolicies, c.Policy)
		r, unread := s.Sale(c.Sale)
		return append(numbers, r.Granted), cmp.Or(err, unread) // that event refers to the question
	case *event.Sold:
		r, unread := s.Sale(c.Sale)
		return append(numbers, r.Event), unread // that event refers to the question
	case *event.Forgotten:
		for _, r := range c.Chains {
			define(state.BucketQuestions, r.Question)
			define(state.BucketPolicies, r.Policy)
		}
	}
	define(state.BucketQuestions, event.QuestionOf(ev))
	return numbers, err
}
