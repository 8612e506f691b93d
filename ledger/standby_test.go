package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
	"github.com/sluicedp/sluice/privacy"
)

// hostPair is two hosts of a ledger: a is the primary, and b has a copy of its file.
type hostPair struct {
	testing.TB
	journal *journaltest.Memory
	a       *Ledger
	file    string // of b
}

// newHostPair copies the file to b when there is a response already.
func newHostPair(t testing.TB, names ...string) *hostPair {
	t.Helper()
	c := &hostPair{TB: t}
	path := votersFile(t, "900", names...)
	c.a = open(t, path, c.options("a"))
	release(t, c.a, releaseOf(t, "before", names[0], "1"))
	c.file = c.copied("b.db")
	return c
}

// options returns the options of a host.
func (c *hostPair) options(host string) Options {
	return Options{Standby: host == "b", Journal: func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		if w.Name == "" && w.Standby != (host != "a") {
			c.Errorf("host %s asks for %+v", host, w)
		}
		if c.journal == nil {
			c.journal = journaltest.NewMemory(w.At)
		}
		return c.journal.OpenOn(host), nil
	}}
}

// through returns the options of b with a wrapper of the journal.
func (c *hostPair) through(wrap func(journal.Follower) journal.Journal) Options {
	o := c.options("b")
	find := o.Journal
	o.Journal = func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		j, err := find(ctx, w)
		return wrap(j.(journal.Follower)), err
	}
	return o
}

// follows opens the file of b as a standby, and waits until it has all events.
func (c *hostPair) follows() *Ledger {
	c.Helper()
	return c.followsWith(c.options("b"))
}

func (c *hostPair) followsWith(o Options) *Ledger {
	c.Helper()
	b := open(c, c.file, o)
	c.catchUp(b)
	return b
}

// wantCopy compares the records of a standby with those of a.
func (c *hostPair) wantCopy(what string, b *Ledger) {
	c.Helper()
	wantSameRecords(c, what, recordsBut(pairs(c, b.engine.Store)), recordsBut(pairs(c, c.a.engine.Store)))
}

// copied makes another copy of a's file for b.
func (c *hostPair) copied(name string) string {
	c.Helper()
	path := filepath.Join(testenv.TempDir(c), name)
	must(c, check.Err(c.a.Backup(c.Context(), path, nil)))
	return path
}

func (c *hostPair) catchUp(b *Ledger) {
	c.Helper()
	must(c, b.engine.Queue.AwaitEvent(c.Context(), stats(c, c.a).Events))
	for began := time.Now(); c.journal.Bases()["b"] == 0; time.Sleep(time.Millisecond) { // the journal knows that b follows
		if time.Since(began) > 20*time.Second {
			c.Fatal("the journal does not know that b follows")
		}
	}
}

// A standby shows what the primary commits to readers, watchers and audits, and changes nothing. It
// stores that in its own file. The journal is trimmed only up to there, and Forget waits for it.
func TestStandby_PrimaryCommits_ShowsAndErasesTheSame(t *testing.T) {
	c := newHostPair(t, "ann", "bea", "cid")
	release(t, c.a, releaseOf(t, "after the copy", "bea", "1"))
	b := c.follows()
	var seen atomic.Uint64
	watched := make(chan error)
	go func() {
		for ev, err := range b.Watch(t.Context(), 1) {
			if err != nil {
				watched <- err
				return
			}
			if ev.Number != seen.Add(1) {
				t.Errorf("event %d is seen as the one with number %d", ev.Number, seen.Load())
			}
		}
	}()
	release(t, c.a, releaseOf(t, "while it follows", "cid", "2"))
	must(t, c.a.Withdraw(t.Context(), api.ObjectRequest{Key: "withdraw", Object: "ann"}))
	c.catchUp(b)
	c.wantCopy("the standby", b)
	for _, name := range []string{"ann", "bea", "cid"} {
		here, there := objectOf(t, b, name), objectOf(t, c.a, name)
		check.That(t, fmt.Sprint(here) == fmt.Sprint(there) && here.Event == stats(t, c.a).Events,
			"the standby says %+v, the other host %+v", here, there)
	}
	wantClean(t, b, api.VerifyRequest{})
	for what, err := range map[string]error{
		"Withdraw": b.Withdraw(t.Context(), api.ObjectRequest{Key: "no", Object: "bea"}), "Forget": b.Forget(t.Context(), api.ObjectRequest{Key: "no", Object: "bea"}),
		"Release": check.Err(b.Release(t.Context(), releaseOf(t, "no", "bea", "3"))), "DefineQuestion": b.DefineQuestion(t.Context(), "no", vote()),
		"Raise": check.Err(b.Raise(t.Context(), raiseOf(t, "no", "3", "bea"))), "Cancel": b.Cancel(t.Context(), "no", 1),
	} {
		check.That(t, errors.Is(err, api.ErrReadOnly), "%s: %v", what, err)
	}
	original := logOf(t, pairs(t, b.engine.Store))
	forget(t, c.a, "bea")
	if begin, groups := c.journal.Groups(); len(groups) != 0 || c.journal.Bases()["b"] != begin.Events {
		t.Errorf("%d groups are left, and the standby has %v", len(groups), c.journal.Bases())
	}
	c.catchUp(b)
	o := objectOf(t, b, "bea")
	check.That(t, o.Forgotten != 0, "the standby has not forgotten: %+v", o)
	c.wantCopy("what has forgotten", b)
	must(t, b.Compact(t.Context(), nil))
	file, erased := content(t, c.file), 0
	for i, ev := range logOf(t, pairs(t, b.engine.Store))[:len(original)] {
		if ev.Salt != original[i].Salt {
			if erased++; bytes.Contains(file, original[i].Salt[:]) || bytes.Contains(file, hiddenBytes(original[i])) {
				t.Errorf("what event %d said is in the file of the standby", i+1)
			}
		}
	}
	check.That(t, erased >= 3, "%d events are erased", erased)
	release(t, c.a, releaseOf(t, "after that", "cid", "3"))
	c.catchUp(b)
	for seen.Load() < stats(t, c.a).Events {
		time.Sleep(time.Millisecond)
	}
	closed(t, b)
	err := <-watched
	check.That(t, errors.Is(err, api.ErrClosed), "the watch ends with %v", err)
	// A standby that is opened again continues where its file ends.
	release(t, c.a, releaseOf(t, "while it is off", "cid", "4"))
	b = c.follows()
	c.wantCopy("again", b)
	closed(t, b)
	closed(t, c.a)
}

// recordsBut leaves out the record in which files differ: their location.
func recordsBut(all []pair) (left []pair) {
	for _, p := range all {
		if !bytes.Equal(p.key, []byte("place")) {
			left = append(left, p)
		}
	}
	return left
}

// A standby takes over under load: no returned response is lost or drawn twice, and the calls of
// the earlier primary end with ErrFenced.
func TestTakeOver_UnderLoad_LosesNoResponse(t *testing.T) {
	names := crowd(40)
	for range testenv.Tries(2, 10, 100) {
		c := newHostPair(t, names...)
		b := c.follows()
		var returned sync.Map
		var stopped atomic.Int32
		var clients sync.WaitGroup
		for client := range 8 {
			clients.Go(func() {
				for n := client; ; n += 8 {
					r := releaseOf(t, fmt.Sprint("load ", n), names[n%len(names)], fmt.Sprint(2+n/len(names)))
					out, err := c.a.Release(t.Context(), r)
					if err != nil {
						if !errors.Is(err, api.ErrStopped) || !errors.Is(err, journal.ErrFenced) {
							t.Error(err)
						}
						stopped.Add(1)
						return
					}
					returned.Store(r.Key, out)
				}
			})
		}
		for stats(t, b).Events < 150 {
			time.Sleep(time.Millisecond)
		}
		next := check.Value(b.TakeOver(t.Context()))(t)
		clients.Wait()
		check.That(t, stopped.Load() == 8, "%d clients were stopped", stopped.Load())
		returned.Range(func(key, was any) bool {
			n := 0
			must(t, check.Err(fmt.Sscanf(key.(string), "load %d", &n)))
			again := release(t, next, releaseOf(t, key.(string), names[n%len(names)], fmt.Sprint(2+n/len(names))))
			check.That(t, again == was, "%s: %v was returned, and now %v", key, was, again)
			return true
		})
		wantErr(t, check.Err(b.Stats(t.Context())), api.ErrClosed)
		wantErr(t, check.Err(b.TakeOver(t.Context())), api.ErrClosed)
		wantClean(t, next, api.VerifyRequest{})
		closed(t, next)
		must(t, c.a.Close())
	}
}

// gated is a journal whose Settle waits for the channel.
type gated struct {
	journal.Follower
	settle chan struct{}
}

func (g gated) Settle(ctx context.Context) error {
	select {
	case <-g.settle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A standby shows nothing that a loss of power could still undo.
func TestStandby_UnsettledGroup_IsNotShown(t *testing.T) {
	c := newHostPair(t, "ann", "bea")
	settle := make(chan struct{}, 1)
	settle <- struct{}{} // for what is there when it is opened
	b := open(t, c.file, c.through(func(j journal.Follower) journal.Journal { return gated{j, settle} }))
	before := stats(t, c.a).Events
	release(t, c.a, releaseOf(t, "not settled", "bea", "2"))
	time.Sleep(20 * time.Millisecond)
	n := stats(t, b).Events
	check.That(t, n == before, "%d events are shown, of %d that are settled", n, before)
	close(settle)
	c.catchUp(b)
	closed(t, b)
	closed(t, c.a)
}

// A takeover that fails before it claims the journal leaves the primary running. One that runs out
// of time after its claim can be repeated.
func TestTakeOver_Failing_LeavesThePrimaryRunning(t *testing.T) {
	c := newHostPair(t, "ann", "bea")
	b := c.follows()
	noKey := errors.New("there is no key")
	c.journal.Inject(func(_ context.Context, k journaltest.Call) error {
		if k.Method == "Claim" {
			return noKey
		}
		return nil
	})
	wantErr(t, check.Err(b.TakeOver(t.Context())), noKey)
	c.journal.Inject(nil)
	release(t, c.a, releaseOf(t, "goes on", "ann", "2"))
	c.catchUp(b)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, check.Err(b.TakeOver(gone)), context.Canceled)
	release(t, c.a, releaseOf(t, "goes on", "ann", "2"))
	wantErr(t, check.Err(c.a.TakeOver(t.Context())), api.ErrInvalid) // which is no standby
	closed(t, b)
	var why atomic.Pointer[error]
	off := errors.New("the network is off")
	b = c.followsWith(c.through(func(j journal.Follower) journal.Journal { return broken{j, &why} }))
	why.Store(&off)
	for range 2 { // it may be inside a fold
		release(t, c.a, releaseOf(t, "unseen", "ann", "3"))
		time.Sleep(20 * time.Millisecond)
	}
	release(t, c.a, releaseOf(t, "unseen, too", "bea", "3"))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantErr(t, check.Err(b.TakeOver(short)), context.DeadlineExceeded) // when not all can be read
	wantErr(t, check.Err(c.a.Release(t.Context(), releaseOf(t, "too late", "ann", "4"))), journal.ErrFenced)
	objectOf(t, b, "ann") // the standby continues
	why.Store(nil)
	next := check.Value(b.TakeOver(t.Context()))(t)
	check.That(t, objectOf(t, next, "bea").Spent == eps(t, "3"), "what came last is lost")
	release(t, next, releaseOf(t, "after", "ann", "5"))
	closed(t, next)
	must(t, c.a.Close())
}

// A host whose file is too old to continue with the journal does not claim it.
func TestOpen_FileOlderThanJournal_DoesNotFenceThePrimary(t *testing.T) {
	c := newHostPair(t, "ann", "bea", "cid")
	closed(t, c.follows()) // the file names the journal now
	old := filepath.Join(testenv.TempDir(t), "old.db")
	text := check.Value(os.ReadFile(c.file))(t)
	must(t, os.WriteFile(old, text, 0o600))
	release(t, c.a, releaseOf(t, "after the copy", "bea", "1"))
	b := c.follows()
	forget(t, c.a, "cid") // which trims the journal
	c.catchUp(b)
	must(t, c.a.engine.Claim.Release()) // as if it were on another machine
	c.a.engine.Claim = nil
	o := c.options("c")
	o.Journal = func(context.Context, journal.Wanted) (journal.Journal, error) { return c.journal.OpenOn("c"), nil }
	if _, err := Open(t.Context(), old, o); !errors.Is(err, api.ErrJournal) || !errors.Is(err, journal.ErrLost) {
		t.Fatal(err)
	}
	release(t, c.a, releaseOf(t, "goes on", "ann", "2"))
	closed(t, b)
	closed(t, c.a)
}

// strayed is a journal whose Read fails with ErrForked while on is set.
type strayed struct {
	journal.Follower
	on *atomic.Bool
}

func (s strayed) Read(ctx context.Context, from journal.Position) iter.Seq2[journal.Group, error] {
	if s.on.Load() {
		return func(yield func(journal.Group, error) bool) { yield(journal.Group{}, journal.ErrForked) }
	}
	return s.Follower.Read(ctx, from)
}

// A standby that cannot continue with the journal does not claim it.
func TestTakeOver_ForkedJournal_DoesNotFenceThePrimary(t *testing.T) {
	c := newHostPair(t, "ann", "bea")
	var on atomic.Bool
	b := c.followsWith(c.through(func(j journal.Follower) journal.Journal { return strayed{j, &on} }))
	on.Store(true)
	wantErr(t, check.Err(b.TakeOver(t.Context())), journal.ErrForked)
	on.Store(false)
	release(t, c.a, releaseOf(t, "goes on", "ann", "2"))
	closed(t, b)
	closed(t, c.a)
}

// Two standbys take over concurrently: the one that claims later has the ledger, and the other gets
// ErrFenced.
func TestTakeOver_TwoStandbys_LaterClaimWins(t *testing.T) {
	c := newHostPair(t, "ann", "bea")
	third := c.copied("c.db")
	var why atomic.Pointer[error]
	b := c.followsWith(c.through(func(j journal.Follower) journal.Journal { return broken{j, &why} }))
	off := errors.New("the network is off")
	why.Store(&off)
	time.Sleep(20 * time.Millisecond) // until b has the error
	release(t, c.a, releaseOf(t, "unseen", "ann", "2"))
	claimed, outcome := make(chan struct{}), make(chan error)
	var once sync.Once
	c.journal.Inject(func(_ context.Context, k journaltest.Call) error {
		if k.Method == "Claim" {
			once.Do(func() { close(claimed) })
		}
		if k.Method == "Trim" { // b does not have all events yet
			return &journal.HeldError{Wanted: k.Through, Reason: off}
		}
		return nil
	})
	go func() { outcome <- check.Err(b.TakeOver(t.Context())) }()
	<-claimed
	for n := 0; check.Err(c.a.Release(t.Context(), releaseOf(t, fmt.Sprint("until it is fenced ", n), "ann", fmt.Sprint(3+n)))) == nil; n++ {
	}
	o := c.options("c")
	o.Standby = true
	standby := open(t, third, o)
	last := check.Value(standby.TakeOver(t.Context()))(t)
	release(t, last, releaseOf(t, "by the last", "bea", "3"))
	why.Store(nil)
	err := <-outcome
	check.That(t, errors.Is(err, journal.ErrFenced), "the earlier claim ends with %v", err)
	wantClean(t, last, api.VerifyRequest{})
	closed(t, last)
	must(t, c.a.Close())
}

// A standby does not open with a wrong truth key. With the right one it can draw after a takeover.
func TestTakeOver_RightTruthKey_CanDraw(t *testing.T) {
	c := newHostPair(t, "ann", "bea")
	closed(t, c.a)
	with := c.options("a")
	with.TruthKey = bytes.Repeat([]byte{7}, 32)
	c.a = open(t, c.file, with) // the file of b, so that no event is missing
	c.file = c.copied("b.db")
	other := c.options("b")
	other.TruthKey = bytes.Repeat([]byte{8}, 32)
	wantErr(t, check.Err(Open(t.Context(), c.file, other)), api.ErrTruthKey)
	right := c.options("b")
	right.TruthKey = with.TruthKey
	b := open(t, c.file, right)
	next := check.Value(b.TakeOver(t.Context()))(t)
	release(t, next, releaseOf(t, "with the key", "bea", "2"))
	closed(t, next)
	must(t, c.a.Close())
}

// A standby computes budgets as a host that has all keys. When it takes over without a noise key,
// it computes them again, and does not use the cached ones.
func TestTakeOver_NoiseKeyMissing_RecomputesForecasts(t *testing.T) {
	c := newHostPair(t, "ann")
	closed(t, c.a)
	with := c.options("a")
	with.NoiseKey = noiseKeys("2026")
	c.a = open(t, c.file, with)
	enroll(t, c.a, "vote", "900", "bea")
	c.file = c.copied("b.db")
	b := c.follows()
	can := func(l *Ledger) uint64 {
		got, err := l.Budget(t.Context(), api.BudgetRequest{Question: "vote", Objects: []string{"bea"}, Epsilons: []privacy.Epsilon{eps(t, "1")}})
		must(t, err)
		return got.Levels[0].Can
	}
	if can(b) != 1 || len(b.requests.Forecasts.All) != 1 {
		t.Errorf("the standby says that %d can answer, and keeps %d budgets", can(b), len(b.requests.Forecasts.All))
	}
	next := check.Value(b.TakeOver(t.Context()))(t)
	check.That(t, can(next) == 0, "after the takeover an object can answer whose noise key is missing")
	closed(t, next)
	must(t, c.a.Close())
}

// broken is a journal that cannot be read while why is set.
type broken struct {
	journal.Follower
	why *atomic.Pointer[error]
}

func (b broken) Await(ctx context.Context, after journal.Position) error {
	for {
		if why := b.why.Load(); why != nil {
			return *why
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		err := b.Follower.Await(ctx, after)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// A standby retries a journal that cannot be read for a while, and shows what it has. A journal
// with another history stops the standby, which then shows nothing.
func TestStandby_JournalFails_RetriesOrStops(t *testing.T) {
	c := newHostPair(t, "ann", "bea")
	var why atomic.Pointer[error]
	var log journalLog
	o := c.through(func(j journal.Follower) journal.Journal { return broken{j, &why} })
	o.Logger = zerolog.New(&log)
	b := c.followsWith(o)
	off := errors.New("the network is off")
	why.Store(&off)
	before := stats(t, b).Events
	release(t, c.a, releaseOf(t, "unseen", "bea", "2"))
	time.Sleep(20 * time.Millisecond)
	n := stats(t, b).Events
	check.That(t, n <= before+4, "%d events, of %d", n, before)
	why.Store(nil)
	c.catchUp(b)
	if o := objectOf(t, b, "bea"); o.Spent != eps(t, "2") {
		t.Errorf("the standby says %+v", o)
	}
	forked := fmt.Errorf("%w: of another ledger", journal.ErrForked)
	why.Store(&forked)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range b.Watch(ctx, stats(t, c.a).Events+1) { // until it stops
	}
	if _, err := b.Stats(t.Context()); !errors.Is(err, api.ErrStopped) || !errors.Is(err, journal.ErrForked) {
		t.Errorf("after another history: %v", err)
	}
	wantErr(t, check.Err(b.TakeOver(t.Context())), api.ErrStopped)
	must(t, b.Close())
	log.await(t, "trying again")
	log.await(t, "standby stopped")
	closed(t, c.a)
}

// A standby needs a journal that can be followed, and a file that is not older than what the
// journal has.
func TestOpenStandby_UnusableJournalOrFile_IsRefused(t *testing.T) {
	c := newHostPair(t, "ann", "bea")
	wantErr(t, check.Err(Open(t.Context(), c.file, Options{Standby: true})), api.ErrInvalid)             // without a journal
	alone := c.through(func(j journal.Follower) journal.Journal { return struct{ journal.Journal }{j} }) // one that cannot be followed
	wantErr(t, check.Err(Open(t.Context(), c.file, alone)), api.ErrInvalid)
	older := copyOfFile(t, c.file)
	forget(t, c.a, "bea")
	if _, err := Open(t.Context(), older, c.options("b")); !errors.Is(err, api.ErrJournal) || !errors.Is(err, journal.ErrLost) {
		t.Errorf("a file from before what the journal has: %v", err)
	}
	_, err := os.Stat(older + ".journal")
	check.That(t, os.IsNotExist(err), "beside the file: %v", err)
	closed(t, c.a)
}
