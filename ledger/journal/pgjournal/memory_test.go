package pgjournal_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

// memoryKeys is a holder in memory, with faults.
type memoryKeys struct {
	name string

	mu       sync.Mutex
	journals map[string]*shelf
	fault    func(call string) error
}

type shelf struct {
	keys  map[keyholder.Segment]keyholder.Key
	below keyholder.Segment
	live  []keyholder.Segment
	mark  keyholder.Mark
}

var _ keyholder.Holder = (*memoryKeys)(nil)

// newMemoryKeys makes an empty holder with a name.
func newMemoryKeys(name string) *memoryKeys {
	return &memoryKeys{name: name, journals: map[string]*shelf{}}
}

// Inject has fault asked before each call, by the name of the method; nil ends that. Its error is that of the call, which is not carried out then. It
// may be asked by several goroutines.
func (m *memoryKeys) Inject(fault func(call string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = fault
}

// Fail has all calls fail with an error; nil ends that.
func (m *memoryKeys) Fail(err error) {
	m.Inject(func(string) error { return err })
}

// Keys returns the keys that it has of a journal.
func (m *memoryKeys) Keys(journal string) (all []keyholder.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.journals[journal]; s != nil {
		for _, k := range s.keys {
			all = append(all, k)
		}
	}
	return all
}

// Name is what was given to newMemoryKeys.
func (m *memoryKeys) Name() string { return m.name }

// with does something with what there is of a journal.
func (m *memoryKeys) with(ctx context.Context, call, journal string, do func(*shelf) error) error {
	m.mu.Lock()
	fault := m.fault
	m.mu.Unlock()
	if fault != nil {
		if err := fault(call); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := keyholder.CheckName(journal); err != nil {
		return err
	}
	if m.journals[journal] == nil {
		m.journals[journal] = &shelf{keys: map[keyholder.Segment]keyholder.Key{}}
	}
	return do(m.journals[journal])
}

func (s *shelf) dead(of keyholder.Segment) bool {
	return of.Compare(s.below) < 0 && !slices.Contains(s.live, of)
}

// Put is [keyholder.Holder.Put].
func (m *memoryKeys) Put(ctx context.Context, journal string, of keyholder.Segment, k keyholder.Key) error {
	return m.with(ctx, "Put", journal, func(s *shelf) error {
		had, there := s.keys[of]
		switch {
		case of.Number == 0:
			return keyholder.ErrInvalid
		case s.dead(of):
			return keyholder.ErrDestroyed
		case there && had != k:
			return keyholder.ErrConflict
		}
		s.keys[of] = k
		return nil
	})
}

// Get is [keyholder.Holder.Get].
func (m *memoryKeys) Get(ctx context.Context, journal string, of keyholder.Segment) (k keyholder.Key, err error) {
	err = m.with(ctx, "Get", journal, func(s *shelf) error {
		found, there := s.keys[of]
		switch {
		case s.dead(of):
			return keyholder.ErrDestroyed
		case !there:
			return keyholder.ErrNoKey
		}
		k = found
		return nil
	})
	return k, err
}

// Keep is [keyholder.Holder.Keep].
func (m *memoryKeys) Keep(ctx context.Context, journal string, below keyholder.Segment, live []keyholder.Segment) error {
	return m.with(ctx, "Keep", journal, func(s *shelf) error {
		if below.Compare(s.below) < 0 {
			return nil
		}
		s.below, s.live = below, slices.Clone(live)
		for of := range s.keys {
			if s.dead(of) {
				delete(s.keys, of)
			}
		}
		return nil
	})
}

// Mark is [keyholder.Holder.Mark].
func (m *memoryKeys) Mark(ctx context.Context, journal string, mark keyholder.Mark) error {
	return m.with(ctx, "Mark", journal, func(s *shelf) error {
		if mark.Compare(s.mark) > 0 {
			s.mark = mark
		}
		return nil
	})
}

// Seen is [keyholder.Holder.Seen].
func (m *memoryKeys) Seen(ctx context.Context, journal string) (seen keyholder.Seen, err error) {
	err = m.with(ctx, "Seen", journal, func(s *shelf) error {
		seen = keyholder.Seen{Mark: s.mark, Term: max(s.mark.Term, s.below.Term)}
		for of := range s.keys {
			seen.Term = max(seen.Term, of.Term)
		}
		return nil
	})
	return seen, err
}
