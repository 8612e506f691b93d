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
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/journal"
)

// heldFile is a file whose updates can be counted, and held up.
type heldFile struct {
	kv.Store
	updates atomic.Int64
	hold    atomic.Pointer[gate]
	let     atomic.Int64 // how many pass before the gate holds up the others
}

func (f *heldFile) Update(fn func(kv.Writer) error) error {
	f.updates.Add(1)
	if g := f.hold.Load(); g != nil && f.let.Add(-1) < 0 {
		_ = g.pass()
	}
	return f.Store.Update(fn)
}

func openHeld(t testing.TB, path string, o Options) (*Ledger, *heldFile) {
	t.Helper()
	file := check.Value(bolt.Open(path, false))(t)
	f := &heldFile{Store: file}
	l := check.Value(readStore(t.Context(), f, besideFile(path), o))(t)
	must(t, l.begin(t.Context(), o))
	t.Cleanup(func() { _ = l.Close() })
	return l, f
}

// Those who forget at a time share checkpoints: whoever comes while one is made needs one more, whatever their number.
func TestForgettingTogetherSharesCheckpoints(t *testing.T) {
	names := crowd(51)
	path := votersFile(t, "9", names...)
	l, f := openHeld(t, path, Options{})
	for i, name := range names {
		release(t, l, releaseOf(t, fmt.Sprint(i), name, "1"))
	}
	before := stats(t, l).Events
	forget(t, l, names[50])
	each := stats(t, l).Events - before
	secrets := [][]byte{}
	for _, name := range names[:50] {
		secrets = append(secrets, secretsOf(t, l, name)...)
	}
	before, updates := stats(t, l).Events, f.updates.Load()
	held := newGate(t)
	f.hold.Store(held)
	var group sync.WaitGroup
	failed := make(chan error, 50)
	for _, name := range names[:50] {
		group.Go(func() { failed <- l.Forget(t.Context(), api.ObjectRequest{Key: "forget " + name, Object: name}) })
	}
	for deadline := time.Now().Add(patience); l.engine.Queue.DurableEvents() < before+50*each; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d events, and not %d more", l.engine.Queue.DurableEvents(), 50*each)
		}
	}
	f.hold.Store(nil)
	held.open()
	group.Wait()
	for range names[:50] {
		must(t, <-failed)
	}
	n := f.updates.Load() - updates
	check.That(t, n <= 2, "%d checkpoints for 50 people, of whom all but some came while the first was made", n)
	if n := secretsBeside(t, path, secrets); n > 0 {
		t.Errorf("%d of %d secrets are left beside the file", n, len(secrets))
	}
	wantClean(t, l, api.VerifyRequest{})
}

// When Forget returns, the journal has nothing of the person, although others go on writing to it, checkpoints are made all the time, and groups are
// copied from one segment to the next.
func TestForgetBesideWriters(t *testing.T) {
	names := crowd(40)
	path := votersFile(t, "900", names...)
	l := open(t, path, Options{Memory: 4 << 10})
	var group sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r := releaseOf(t, fmt.Sprint("writer ", w, " ", i), names[20+w], fmt.Sprintf("%d.%03d", 1+i/1000, i%1000))
				if _, err := l.Release(t.Context(), r); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i, name := range names[:20] {
		release(t, l, releaseOf(t, fmt.Sprint(i), name, "1"))
		secrets := secretsOf(t, l, name)
		forget(t, l, name)
		n := secretsBeside(t, path, append(secrets, []byte(name)))
		check.That(t, n == 0 && len(secrets) >= 4, "of %d secrets of %s %d are beside the file", len(secrets), name, n)
	}
	close(stop)
	group.Wait()
	wantClean(t, l, api.VerifyRequest{})
}

// Whoever forgets while somebody closes the ledger is not told that the bytes are gone before they are.
func TestForgetBesideAClose(t *testing.T) {
	names := crowd(3)
	path := votersFile(t, "9", names...)
	l, f := openHeld(t, path, Options{})
	for i, name := range names {
		release(t, l, releaseOf(t, fmt.Sprint(i), name, "1"))
	}
	secrets := secretsOf(t, l, names[0])
	ofForget, ofClose := newGate(t), newGate(t) // their checkpoints
	f.hold.Store(ofForget)
	forgot, closing := make(chan error, 1), make(chan error, 1)
	go func() { forgot <- l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: names[0]}) }()
	ofForget.wait(t)
	f.hold.Store(ofClose)
	go func() { closing <- l.Close() }()
	for deadline := time.Now().Add(patience); namesJournal(t, l); time.Sleep(time.Millisecond) {
		check.Need(t, !time.Now().After(deadline), "the ledger is not closed")
	}
	ofForget.open()
	ofClose.wait(t)
	err := <-forgot
	if n := secretsBeside(t, path, secrets); err == nil && n > 0 || err != nil && !errors.Is(err, api.ErrClosed) {
		t.Errorf("Forget returns %v, and %d of %d secrets are in the journal", err, n, len(secrets))
	}
	ofClose.open()
	must(t, <-closing)
	check.Equal(t, secretsBeside(t, path, secrets), 0, "secrets that are left beside a file that was closed")
}

// slowToEnd is a context that says why it ended only after something else has come about.
type slowToEnd struct {
	context.Context
	await func()
}

func (c slowToEnd) Err() error {
	err := c.Context.Err()
	if err != nil {
		c.await()
	}
	return err
}

// Whose context ends while the checkpoint comes to its end is not told that something is left which is not.
func TestForgetGivenUpTooLate(t *testing.T) {
	path := votersFile(t, "9", "p")
	l, f := openHeld(t, path, Options{})
	release(t, l, releaseOf(t, "release", "p", "1"))
	checkpoint := newGate(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	late := slowToEnd{ctx, func() {
		checkpoint.open()
		if err := l.engine.Checkpoint(); err != nil { // it waits until the journal is trimmed by the one before
			t.Error(err)
		}
	}}
	f.hold.Store(checkpoint)
	forgot := make(chan error, 1)
	go func() { forgot <- l.Forget(late, api.ObjectRequest{Key: "forget", Object: "p"}) }()
	checkpoint.wait(t)
	cancel()
	must(t, <-forgot)
}

// Who waits for a compaction to end waits no longer than a context lasts. Who was to be forgotten is, by then, and the error says that the bytes are not destroyed.
func TestContextsCountBehindACompact(t *testing.T) {
	names := crowd(3)
	path := votersFile(t, "9", names...)
	l := open(t, path, Options{})
	for i, name := range names {
		release(t, l, releaseOf(t, fmt.Sprint(i), name, "1"))
	}
	secrets := secretsOf(t, l, names[0])
	held, compacted := newGate(t), make(chan error, 1)
	file, _ := l.engine.Copier()
	go func() { compacted <- file.Compact(t.Context(), func(int64, int64) { _ = held.pass() }) }()
	held.wait(t)
	before := l.engine.Queue.DurableEvents()
	forgot := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { forgot <- l.Forget(ctx, api.ObjectRequest{Key: "forget", Object: names[0]}) }()
	must(t, l.engine.Queue.AwaitEvent(t.Context(), before+1))
	cancel()
	err := ended(t, "Forget", forgot)
	kept, is := errors.AsType[*journal.HeldError](err)
	check.That(t, is && kept.Through.Events <= before && kept.Wanted.Events > before, "Forget returns %v", err)
	for what, call := range map[string]func(context.Context) error{
		"Compact":   func(ctx context.Context) error { return l.Compact(ctx, nil) },
		"CompactTo": func(ctx context.Context) error { return check.Err(l.CompactTo(ctx, path+".copy", nil)) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		_ = ended(t, what, done)
		cancel()
	}
	held.open()
	must(t, <-compacted)
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: names[0]}))
	check.Equal(t, secretsBeside(t, path, secrets), 0, "secrets that are left beside the file")
}

// ended waits for a call whose context has ended, or soon does, and returns its error.
func ended(t testing.TB, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		check.That(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded),
			"%s, whose context has ended, returns %v", what, err)
		return err
	case <-time.After(patience):
		t.Fatalf("%s goes on although its context has ended", what)
	}
	return nil
}

// Close may come between the two halves of Forget: the event is there, and the bytes are not destroyed yet.
func TestErasingBehindACloseIsToldSo(t *testing.T) {
	l := open(t, votersFile(t, "9", crowd(1)...), Options{})
	release(t, l, releaseOf(t, "1", crowd(1)[0], "1"))
	must(t, l.Close())
	err := l.engine.Erase(t.Context())
	check.That(t, errors.Is(err, api.ErrClosed), "a ledger that is closed erases: %v", err)
}

// namesJournal tells whether the file names a journal, or will behind the next checkpoint.
func namesJournal(t testing.TB, l *Ledger) (named bool) {
	t.Helper()
	must(t, l.engine.Store.View(func(r kv.Reader) error {
		name, err := r.Get(state.BucketMeta, []byte(state.KeyJournal))
		named = name != nil
		return err
	}))
	return named
}
