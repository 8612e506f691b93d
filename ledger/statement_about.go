package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/batch"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Statement records that a statement about an object is made, and returns it. It takes an idempotency key like
// every request that changes something: the same key returns the same statement, of the same time, again. It
// returns [ErrUnknown] if there is no such object (whoever was only ever refused is none), [ErrNoSigner] if the
// ledger was opened without a key, and [ErrForgotten] if the object was forgotten since the key was used.
func (l *Ledger) Statement(ctx context.Context, key, object string) (evidence.Statement, error) {
	if l.signer == nil {
		return evidence.Statement{}, ErrNoSigner
	}
	if err := names.Check("object", object); err != nil {
		return evidence.Statement{}, err
	}
	f := event.NewForm("state")
	f.Field("Object").Text(object)
	if err := batch.Once(ctx, &l.engine, key, object, f, func(s *state.State) (event.Change, error) { return stateOf(s, object) }); err != nil {
		return evidence.Statement{}, err
	}
	ctx = context.WithoutCancel(ctx) // it is done, whatever has become of ctx
	m := statementMaker{ledger: l}
	if err := l.engine.View(ctx, func(s *state.State) error { return m.begin(s, key) }); err != nil {
		return evidence.Statement{}, err
	}
	if err := m.collect(ctx); err != nil {
		return evidence.Statement{}, err
	}
	return m.finish(ctx)
}

// stateOf returns the change that lists all events about an object.
func stateOf(s *state.State, name string) (event.Change, error) {
	o, known, err := s.Object(name)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("object %q: %w", name, ErrUnknown)
	}
	events, err := fold.EventsAbout(s, o)
	return &event.Stated{Object: name, Forgotten: o.Forgotten, Events: events, Account: fold.AccountOf(o)}, err
}

// statementMaker is a statement being made.
type statementMaker struct {
	ledger *Ledger
	last   uint64                    // the stated event
	events map[uint64]evidence.Entry // those of the statement, by number
}

// begin finds the event that the request with this key recorded.
func (m *statementMaker) begin(s *state.State, key string) error {
	r, known, err := s.Request(key)
	if err != nil || !known || len(r.Settled) != 1 {
		return errs.Corrupt(err, "the request for a statement was not settled")
	}
	end, err := s.Settlement(r.Settled[0])
	if err != nil {
		return err
	}
	m.last, m.events = end.First, map[uint64]evidence.Entry{}
	return m.add(s, m.last)
}

// add reads an event, unless it was read before.
func (m *statementMaker) add(s *state.State, number uint64) error {
	if _, known := m.events[number]; known {
		return nil
	}
	ev, err := evidenceOf(s, number)
	if err != nil {
		return err
	}
	if ev.Erased != nil {
		return fmt.Errorf("%w: the object of the statement", ErrForgotten)
	}
	m.events[number] = ev
	return m.addNeeded(s, ev.Change)
}

// addNeeded reads the events that one refers to.
func (m *statementMaker) addNeeded(s *state.State, c event.Change) error {
	switch c := c.(type) {
	case *event.Enrolled:
		return m.addDefined(s, c.Question, c.Policy, 0)
	case *event.Released:
		return m.addDefined(s, c.Question, 0, 0)
	case *event.TruthBound:
		return m.addDefined(s, c.Question, 0, 0)
	case *event.EpochBegun:
		return m.addDefined(s, c.Question, 0, 0)
	case *event.Charged:
		return m.addDefined(s, c.Question, 0, 0)
	case *event.ObjectRefused:
		return m.addDefined(s, c.Question, 0, 0)
	case *event.Reserved:
		return m.addDefined(s, c.Question, 0, c.Buyer)
	case *event.SaleMade:
		return m.addDefined(s, c.Question, 0, c.Buyer)
	case *event.Held:
		r, err := s.Sale(c.Sale)
		if err != nil {
			return err
		}
		return m.add(s, r.Granted)
	case *event.Sold:
		r, err := s.Sale(c.Sale)
		if err != nil {
			return err
		}
		return m.add(s, r.Event)
	case *event.Forgotten:
		for _, r := range c.Chains {
			if err := m.addDefined(s, r.Question, r.Policy, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// addDefined reads the events that defined a question, a policy and a buyer. 0 is none.
func (m *statementMaker) addDefined(s *state.State, question, policy, buyer uint32) error {
	for _, one := range []struct {
		bucket string
		number uint32
	}{{state.BucketQuestions, question}, {state.BucketPolicies, policy}, {state.BucketBuyers, buyer}} {
		if one.number == 0 {
			continue
		}
		number, err := s.Definition(one.bucket, one.number)
		if err != nil {
			return err
		}
		if err := m.add(s, number); err != nil {
			return err
		}
	}
	return nil
}

// collect reads the events of the list, in short snapshots: events do not change unless they are erased.
func (m *statementMaker) collect(ctx context.Context) error {
	c, ok := m.events[m.last].Change.(*event.Stated)
	if !ok {
		return errs.Corrupt(nil, "event %d states nothing", m.last)
	}
	numbers := slices.Concat([]uint64{1}, c.Events)
	if c.Forgotten != 0 {
		numbers = append(numbers, c.Forgotten)
	}
	for some := range slices.Chunk(numbers, scanSize) {
		err := m.ledger.engine.View(ctx, func(s *state.State) error {
			prefetchEvents(s, some)
			for _, number := range some {
				if err := m.add(s, number); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// finish puts the events in words, and proves them.
func (m *statementMaker) finish(ctx context.Context) (evidence.Statement, error) {
	numbers := slices.Sorted(maps.Keys(m.events))
	object := m.events[m.last].Change.(*event.Stated).Object
	proof, signed, err := m.ledger.proveSigned(ctx, m.last, numbers)
	if err != nil {
		return evidence.Statement{}, err
	}
	all := make([]evidence.Entry, len(numbers))
	for i, number := range numbers {
		all[i] = m.events[number]
	}
	return evidence.NewStatement(object, all, proof, signed)
}
