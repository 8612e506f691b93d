package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/journal"
)

// shim is a store with journals. A test can count its commits, block them, and make them fail just
// before or after they become durable.
type shim struct {
	kv.Store
	engine.Journals
	commits atomic.Int64  // groups that were appended
	events  atomic.Uint64 // the last event of those
	mu      sync.Mutex
	before  func() error // runs once a transaction is decided; an error undoes it
	after   func() error // runs once it is durable, before it is visible; an error is its outcome
	reading func()       // runs before each View
}

// set changes the hooks; nil does nothing.
func (s *shim) set(before, after func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *shim) hooks() (before, after func() error, reading func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before, s.after, s.reading
}

func (s *shim) onRead(reading func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = reading
}

func (s *shim) View(fn func(kv.Reader) error) error {
	if _, _, reading := s.hooks(); reading != nil {
		reading()
	}
	return s.Store.View(fn)
}

// Update is a commit if there is no journal, and otherwise only a part of a checkpoint.
func (s *shim) Update(fn func(kv.Writer) error) error {
	if s.Journals != nil {
		return s.Store.Update(fn)
	}
	before, after, _ := s.hooks()
	wrote := false
	err := s.Store.Update(func(w kv.Writer) error {
		noting := &notingWriter{Writer: w}
		if err := fn(noting); err != nil {
			return err
		}
		if wrote = noting.wrote; wrote && before != nil {
			if err := before(); err != nil && errors.Is(err, errUncertain) {
				return fmt.Errorf("%w: %w", kv.ErrUncertain, err)
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !wrote {
		return err
	}
	s.commits.Add(1)
	if after != nil {
		if err := after(); err != nil {
			return fmt.Errorf("%w: %w", kv.ErrUncertain, err)
		}
	}
	return nil
}

// notingWriter notes whether anything was written.
type notingWriter struct {
	kv.Writer
	wrote bool
}

func (w *notingWriter) Put(bucket string, key, value []byte) error {
	w.wrote = true
	return w.Writer.Put(bucket, key, value)
}

func (w *notingWriter) Delete(bucket string, key []byte) error {
	w.wrote = true
	return w.Writer.Delete(bucket, key)
}

func (s *shim) Make(w journal.Wanted) (journal.Journal, error) {
	j, err := s.Journals.Make(w)
	return shimmed{j, s}, err
}

func (s *shim) Remove(j journal.Journal) error {
	if own, is := j.(shimmed); is {
		j = own.Journal
	}
	return s.Journals.Remove(j)
}

// shimmed is the journal of a shim.
type shimmed struct {
	journal.Journal
	shim *shim
}

func (j shimmed) Append(ctx context.Context, g journal.Group) error {
	before, after, _ := j.shim.hooks()
	if before != nil {
		if err := before(); err != nil && !errors.Is(err, errUncertain) {
			return fmt.Errorf("%w: %w", journal.ErrRejected, err)
		} else if err != nil {
			return err
		}
	}
	if err := j.Journal.Append(ctx, g); err != nil {
		return err
	}
	j.shim.commits.Add(1)
	j.shim.events.Store(g.After.Events)
	if after != nil {
		return after()
	}
	return nil
}

// gate blocks callers of pass until it is opened, at the latest when the test ends.
type gate struct {
	came, went sync.Once
	reached    chan struct{} // closed when the first caller arrives
	opened     chan struct{}
}

func newGate(t testing.TB) *gate {
	g := &gate{reached: make(chan struct{}), opened: make(chan struct{})}
	t.Cleanup(g.open)
	return g
}

func (g *gate) pass() error {
	g.came.Do(func() { close(g.reached) })
	<-g.opened
	return nil
}

func (g *gate) open() { g.went.Do(func() { close(g.opened) }) }

func (g *gate) wait(t testing.TB) {
	t.Helper()
	select {
	case <-g.reached:
	case <-time.After(patience):
		t.Fatal("no caller reached the gate")
	}
}

// patience is how long a test waits for what should happen at once.
const patience = 30 * time.Second

// soon is how long a test watches for what must not happen.
const soon = 30 * time.Millisecond

// holdCommit blocks the next commits just before they become durable.
func (s *shim) holdCommit(t testing.TB) *gate {
	g := newGate(t)
	s.set(g.pass, nil)
	return g
}

// holdRelease starts a release whose commit is blocked.
func (s *shim) holdRelease(t testing.TB, l *Ledger, r api.ReleaseRequest) (*gate, chan answer[api.Response]) {
	t.Helper()
	g := s.holdCommit(t)
	leads := async(func() (api.Response, error) { return l.Release(t.Context(), r) })
	g.wait(t)
	return g, leads
}

var (
	errDisk      = errors.New("the disk is on fire")
	errUncertain = errors.New("the commit may be durable") // what a hook returns for a commit that may be durable
)

func failing() error { return errDisk }
func uncertain() error {
	return fmt.Errorf("%w: %w", errUncertain, errDisk)
}

// eventually waits until a condition holds, and ends the test if that takes too long.
func eventually(t testing.TB, isSo func() bool, what string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(time.Millisecond) {
		check.Need(t, !time.Now().After(deadline), what, args...)
	}
}

// waitQueued waits until n proposals are in the queue.
func waitQueued(t testing.TB, l *Ledger, n int) {
	t.Helper()
	eventually(t, func() bool { return l.engine.Load().Waiting == n }, "the queue does not reach %d calls", n)
}

// answer is what a call in another goroutine returned.
type answer[T any] struct {
	value T
	err   error
}

// async runs a call in another goroutine.
func async[T any](call func() (T, error)) chan answer[T] {
	done := make(chan answer[T], 1)
	go func() {
		value, err := call()
		done <- answer[T]{value, err}
	}()
	return done
}

func await[T any](t testing.TB, done chan answer[T]) answer[T] {
	t.Helper()
	select {
	case a := <-done:
		return a
	case <-time.After(patience):
		t.Fatal("a call hangs")
		panic("unreachable")
	}
}

// pending reports an answer that came too soon.
func pending[T any](t testing.TB, done chan answer[T]) {
	t.Helper()
	select {
	case a := <-done:
		t.Fatalf("a call returned (%v, %v) too soon", a.value, a.err)
	case <-time.After(soon):
	}
}

// waitClosing waits until Close refuses further calls.
func waitClosing(t testing.TB, l *Ledger) {
	t.Helper()
	eventually(t, func() bool { return errors.Is(l.engine.Queue.Check(), api.ErrClosed) }, "the ledger is not closing")
}
