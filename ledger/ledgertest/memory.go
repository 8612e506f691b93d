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

// Memory stores a ledger, as a disk does: it can be opened repeatedly. As with a file, it is either
// open once for writing, or any number of times for reading.
type Memory struct {
	// Draws are used by each ledger that is opened after they are set.
	Draws Draws

	store   *kv.Memory
	mu      sync.Mutex
	readers int   // number of ledgers that are open for reading
	writer  bool  // a ledger is open for writing
	fault   error // the error with which commits fail; nil for none
	late    bool  // commits fail only after their changes are stored
}

// Draws are the samplers that a ledger draws with. For a nil field, the ledger makes its own. Only
// the tests of this module can make samplers whose draws repeat. Two ledgers must not use the same
// sampler concurrently.
type Draws struct {
	Values  *rrchain.Sampler   // for questions without a mechanism of their own
	Outputs *finite.Sampler    // for questions in finite encoding
	Queries *mechanism.Sampler // for answers to panel queries
}

// NewMemory returns a memory with a new, empty ledger, or the error of [ledger.Create] for such an
// origin.
func NewMemory(o Origin) (*Memory, error) {
	m := &Memory{store: &kv.Memory{}}
	return m, o.create("", m.store)
}

// NewFile creates a new, empty ledger file, like [ledger.Create]. The log begins at Origin.Created.
func NewFile(path string, o Origin) error {
	return o.create(path, nil)
}

// OpenFile is [ledger.Open] with samplers.
func OpenFile(path string, d Draws, o ledger.Options) (*ledger.Ledger, error) {
	return ledger.Open(withBackend(request.Backend{Draws: request.Draws(d)}), path, o)
}

// OpenApart is [ledger.Open] as on another machine: it does not detect other handles of copies of
// the file in this process, and they do not detect it. Use it to test in one process how hosts take
// over from each other ([ledger.Options], Journal).
func OpenApart(path string, o ledger.Options) (*ledger.Ledger, error) {
	return ledger.Open(withBackend(request.Backend{Apart: true}), path, o)
}

// create creates a ledger in a store or, if s is nil, in a new file at path.
func (o Origin) create(path string, s kv.Store) error {
	o = o.withDefaults()
	ctx := withBackend(request.Backend{Store: s, Created: o.Created})
	return ledger.Create(ctx, path, ledger.CreateOptions{Currency: o.Currency, LogKey: o.LogKey})
}

// withBackend returns a context by which [ledger.Create] and [ledger.Open] use a backend. The
// fields of it that are set replace the file, the time of creation, and the random draws.
func withBackend(b request.Backend) context.Context {
	return request.WithBackend(context.Background(), b)
}

// Open opens the ledger like [ledger.Open] opens a file, with the same errors.
func (m *Memory) Open(o ledger.Options) (*ledger.Ledger, error) {
	s, err := m.acquire(o.ReadOnly)
	if err != nil {
		return nil, err
	}
	l, err := ledger.Open(withBackend(request.Backend{Store: s, Draws: request.Draws(m.Draws)}), "", o)
	if err != nil {
		return nil, fmt.Errorf("open a ledger in memory: %w", errors.Join(err, s.Close()))
	}
	return l, nil
}

// Copy returns another memory with everything that is committed now. The two are independent from
// then on. Its time does not depend on the size. The copy has no fault set by Fail or FailLate.
func (m *Memory) Copy() *Memory { return &Memory{store: m.store.Copy(), Draws: m.Draws} }

// Fail makes all following commits fail with an error, as on a full disk: their changes are not
// stored. nil ends that.
func (m *Memory) Fail(err error) { m.setFault(err, false) }

// FailLate makes all following commits fail with an error after their changes are stored, as when a
// machine loses power at that moment. The caller cannot know whether the commit is durable, and the
// ledger returns [api.ErrStopped] from then on. When it is opened again, it has the changes. nil
// ends that.
func (m *Memory) FailLate(err error) { m.setFault(err, true) }

// setFault sets the error with which commits fail, and whether their changes are stored before that
// (late).
func (m *Memory) setFault(err error, late bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault, m.late = err, late
}

// faults returns the errors of a commit: before for one that fails before its changes are stored,
// after for one that fails when they are stored. At most one of them is not nil.
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

// acquire opens the memory for a reader, or for the only writer if reads is false. It returns
// [api.ErrInUse] if it is open for writing, or if a writer wants it while it is open for reading.
func (m *Memory) acquire(reads bool) (*session, error) {
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

// release closes the memory for a reader, or for the writer if reads is false.
func (m *Memory) release(reads bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writer = false; reads { // while a reader has it open, there is no writer
		m.readers--
	}
}

// session is an open handle of a memory.
type session struct {
	*kv.Memory
	memory *Memory
	reads  bool
	closed sync.Once
}

// Close implements [kv.Store]. The content of the memory remains.
func (s *session) Close() error {
	s.closed.Do(func() { s.memory.release(s.reads) })
	return nil
}

// Update implements [kv.Store]. It fails with the error of Fail or FailLate, if one is set. A
// transaction that wrote nothing is no commit, and does not fail.
func (s *session) Update(fn func(kv.Writer) error) error {
	before, after := s.memory.faults()
	wrote := false
	err := s.Memory.Update(func(w kv.Writer) error {
		recorder := &writeRecorder{Writer: w}
		if err := fn(recorder); err != nil {
			return err
		}
		if wrote = recorder.wrote; wrote {
			return before
		}
		return nil
	})
	if err == nil && wrote {
		err = after
	}
	return err
}

// writeRecorder is a [kv.Writer] that records whether anything was written.
type writeRecorder struct {
	kv.Writer
	wrote bool
}

// Put implements [kv.Writer].
func (w *writeRecorder) Put(bucket string, key, value []byte) error {
	w.wrote = true
	return w.Writer.Put(bucket, key, value)
}

// Delete implements [kv.Writer].
func (w *writeRecorder) Delete(bucket string, key []byte) error {
	w.wrote = true
	return w.Writer.Delete(bucket, key)
}
