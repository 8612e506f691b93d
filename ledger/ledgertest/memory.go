package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Memory holds a ledger as a disk does: it can be opened again and again. As with a file, nobody
// else has it open while it is open for writing.
type Memory struct {
	// Draws are given to each ledger that is opened from here on.
	Draws Draws

	store   *kv.Memory
	mu      sync.Mutex
	readers int
	writer  bool
	fault   error // that commits fail with
	late    bool  // although what they wrote is kept
}

// Draws are the samplers that a ledger draws with; nil stands for one of its own. They serve the
// tests of this module: nobody else can make samplers whose draws repeat. One that is shared must
// not be used by two ledgers at a time.
type Draws struct {
	Values  *rrchain.Sampler   // of questions without a mechanism of their own
	Outputs *finite.Sampler    // of questions in finite encoding
	Queries *mechanism.Sampler // answers about panels
}

// NewMemory returns a memory with a new, empty ledger in it, or what [ledger.Create] returns for
// such an origin.
func NewMemory(o Origin) (*Memory, error) {
	m := &Memory{store: &kv.Memory{}}
	return m, o.create("", m.store)
}

// NewFile makes a new, empty ledger file, as [ledger.Create] does, whose log begins at the time
// given.
func NewFile(path string, o Origin) error {
	return o.create(path, nil)
}

// OpenFile is [ledger.Open] with samplers.
func OpenFile(path string, d Draws, o ledger.Options) (*ledger.Ledger, error) {
	return ledger.Open(on(request.Backend{Draws: request.Draws(d)}), path, o)
}

// OpenApart is [ledger.Open] as on another machine: it does not notice that a copy of the file is
// open here, nor is it noticed. Use it to try in one process what becomes of hosts that take over
// from each other ([ledger.Options], Journal).
func OpenApart(path string, o ledger.Options) (*ledger.Ledger, error) {
	return ledger.Open(on(request.Backend{Apart: true}), path, o)
}

// create makes a ledger in a store or, if that is nil, in a file.
func (o Origin) create(path string, s kv.Store) error {
	o = o.orUsual()
	ctx := on(request.Backend{Store: s, Created: o.Created})
	return ledger.Create(ctx, path, ledger.CreateOptions{Currency: o.Currency, LogKey: o.LogKey})
}

func on(b request.Backend) context.Context { return request.WithBackend(context.Background(), b) }

// Open opens the ledger as [ledger.Open] opens a file, and with the same errors.
func (m *Memory) Open(o ledger.Options) (*ledger.Ledger, error) {
	s, err := m.sit(o.ReadOnly)
	if err != nil {
		return nil, err
	}
	l, err := ledger.Open(on(request.Backend{Store: s, Draws: request.Draws(m.Draws)}), "", o)
	if err != nil {
		return nil, fmt.Errorf("open a ledger in memory: %w", errors.Join(err, s.Close()))
	}
	return l, nil
}

// Copy returns another memory that holds what is committed now. Both go their own ways from there
// on. It takes no time to speak of. Commits do not fail in it.
func (m *Memory) Copy() *Memory { return &Memory{store: m.store.Copy(), Draws: m.Draws} }

// Fail makes all commits from now on fail with an error, as on a disk that is full: nothing of them
// is kept. nil ends it.
func (m *Memory) Fail(err error) { m.setFault(err, false) }

// FailLate makes all commits from now on fail with an error after what they wrote is kept, as when
// a machine loses its power just then: who asked cannot know, the ledger returns
// [api.ErrStopped] from there on, and opened again it shows what was done. nil ends it.
func (m *Memory) FailLate(err error) { m.setFault(err, true) }

func (m *Memory) setFault(err error, late bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault, m.late = err, late
}

// faults returns what a commit fails with before it is kept, and after.
func (m *Memory) faults() (before, after error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.fault == nil:
		return nil, nil
	case m.late:
		return nil, fmt.Errorf("%w: %w", kv.ErrUncertain, m.fault)
	}
	return m.fault, nil
}

// sit takes the memory, for a reader or for the only one that writes.
func (m *Memory) sit(reads bool) (*session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writer || !reads && m.readers > 0 {
		return nil, api.ErrInUse
	}
	if m.writer = !reads; reads {
		m.readers++
	}
	return &session{Memory: m.store, memory: m, reads: reads}, nil
}

func (m *Memory) leave(reads bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writer = false; reads {
		m.readers--
	}
}

// session is a memory while it is open.
type session struct {
	*kv.Memory
	memory *Memory
	reads  bool
	left   sync.Once
}

// Close implements [kv.Store]. The memory stays.
func (s *session) Close() error {
	s.left.Do(func() { s.memory.leave(s.reads) })
	return nil
}

// Update implements [kv.Store]. A transaction that wrote nothing is no commit, and does not fail.
func (s *session) Update(fn func(kv.Writer) error) error {
	before, after := s.memory.faults()
	wrote := false
	err := s.Memory.Update(func(w kv.Writer) error {
		noting := &noting{Writer: w}
		if err := fn(noting); err != nil {
			return err
		}
		if wrote = noting.wrote; wrote {
			return before
		}
		return nil
	})
	if err == nil && wrote {
		err = after
	}
	return err
}

// noting notes whether anything was written.
type noting struct {
	kv.Writer
	wrote bool
}

// Put implements [kv.Writer].
func (w *noting) Put(bucket string, key, value []byte) error {
	w.wrote = true
	return w.Writer.Put(bucket, key, value)
}

// Delete implements [kv.Writer].
func (w *noting) Delete(bucket string, key []byte) error {
	w.wrote = true
	return w.Writer.Delete(bucket, key)
}
