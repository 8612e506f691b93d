package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
	"github.com/sluicedp/sluice/ledger/observe"
)

// memoryHost has the journals of ledgers in memory. They remain when a ledger is closed.
type memoryHost struct {
	journals map[[16]byte]*journaltest.Memory
	asked    []journal.Wanted
	opened   int // handles that were not closed
}

func newMemoryHost() *memoryHost { return &memoryHost{journals: map[[16]byte]*journaltest.Memory{}} }

// countedHandle is a handle of a journal that counts when it is closed.
type countedHandle struct {
	journal.Journal
	host *memoryHost
}

func (n countedHandle) Close() error { n.host.opened--; return n.Journal.Close() }

// options returns options for a ledger whose journal is on this host.
func (h *memoryHost) options() Options {
	return Options{Journal: func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		h.asked = append(h.asked, w)
		if h.journals[w.Ledger] == nil {
			h.journals[w.Ledger] = journaltest.NewMemory(w.At)
		}
		h.opened++
		return countedHandle{h.journals[w.Ledger].Open(), h}, nil
	}}
}

// one returns the journal of the only ledger.
func (h *memoryHost) one() (found *journaltest.Memory) {
	for _, found = range h.journals {
	}
	return found
}

// copyOfFile copies a file as it is now, and returns the path of the copy.
func copyOfFile(t *testing.T, path string) (copied string) {
	t.Helper()
	copied = filepath.Join(testenv.TempDir(t), "copied.db")
	must(t, os.WriteFile(copied, content(t, path), 0o600))
	return copied
}

// If the file is lost or its process has died, an older copy and the external journal have
// everything that was acknowledged.
func TestExternalJournal_FileLost_RecoversFromOlderCopy(t *testing.T) {
	names := crowd(30)
	path, h := votersFile(t, "9", names...), newMemoryHost()
	l := open(t, path, h.options())
	older := copyOfFile(t, path)
	releaseEach(t, l, "1", names...)
	forget(t, l, names[3]) // makes a checkpoint, and trims
	_, groups := h.one().Groups()
	check.That(t, len(groups) == 0, "%d groups are left after a checkpoint", len(groups))
	between := copyOfFile(t, path)
	for i, name := range names[10:] {
		release(t, l, releaseOf(t, fmt.Sprint("more", i), name, "2"))
	}
	want := pairs(t, l.engine.Store)
	reader := open(t, copyOfFile(t, between), Options{ReadOnly: true, Journal: h.options().Journal})
	wantSameRecords(t, "read only", pairs(t, reader.engine.Store), want)
	wantClean(t, reader, api.VerifyRequest{})
	closed(t, reader)
	must(t, l.engine.Claim.Release()) // as if it were on another machine
	l.engine.Claim = nil
	if _, err := Open(t.Context(), older, h.options()); !errors.Is(err, api.ErrJournal) {
		t.Errorf("a copy from before the trimmed groups: got the error %v, want ErrJournal", err)
	}

	next := open(t, between, h.options())
	wantSameRecords(t, "taken over", pairs(t, next.engine.Store), want)
	_, err := l.Release(t.Context(), releaseOf(t, "late", names[0], "3"))
	check.That(t, errors.Is(err, api.ErrStopped) && errors.Is(err, journal.ErrFenced), "the fenced ledger returns %v, want ErrStopped and ErrFenced", err)
	release(t, next, releaseOf(t, "after", names[0], "3"))
	wantClean(t, next, api.VerifyRequest{})
	closed(t, next)
	must(t, l.Close())
	check.That(t, h.opened == 0, "%d handles are left open", h.opened)
	_, err = os.Stat(path + ".journal")
	check.That(t, os.IsNotExist(err), "a journal beside the file: got %v, want none", err)
}

// settledJournal is a journal that notes calls of Settle and Read, and whose Settle may fail.
type settledJournal struct {
	journal.Journal
	did *[]string
	err error
}

func (s settledJournal) Settle(context.Context) error {
	*s.did = append(*s.did, "settle")
	return s.err
}

func (s settledJournal) Read(ctx context.Context, after journal.Position) iter.Seq2[journal.Group, error] {
	*s.did = append(*s.did, "read")
	return s.Journal.Read(ctx, after)
}

// A read-only Open settles the journal before it reads it, and fails if that fails: so it shows
// nothing that a power cut could undo.
func TestOpenReadOnly_ExternalJournal_SettlesFirst(t *testing.T) {
	path, h := votersFile(t, "9", "ann"), newMemoryHost()
	l := open(t, path, h.options())
	release(t, l, releaseOf(t, "1", "ann", "1"))
	copied := copyOfFile(t, path)
	broken := errors.New("the disk is broken")
	for _, err := range []error{nil, broken} {
		var did []string
		o := Options{ReadOnly: true, Journal: func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
			return settledJournal{h.journals[w.Ledger].Open(), &did, err}, nil
		}}
		reader, opening := Open(t.Context(), copied, o)
		check.That(t, errors.Is(opening, err) && len(did) != 0 && did[0] == "settle" && (err == nil || len(did) <= 1),
			"Settle returns %v: Open returns %v, after the calls %v", err, opening, did)
		if opening == nil {
			closed(t, reader)
		}
	}
	closed(t, l)
}

// A file with an external journal opens with that journal only, even after the ledger was closed.
func TestOpen_NotItsExternalJournal_IsErrJournal(t *testing.T) {
	path, h := votersFile(t, "9", "ann"), newMemoryHost()
	l := open(t, path, h.options())
	release(t, l, releaseOf(t, "1", "ann", "1"))
	closed(t, l)
	if w := h.asked[0]; w.Name != "" || w.Ledger != l.documents.About.ID || w.At.Events == 0 {
		t.Errorf("a file that names no journal asks for %v", w)
	}
	older := copyOfFile(t, path)
	for _, only := range []bool{true, false} {
		for name, o := range map[string]Options{"none": {}, "another": newMemoryHost().options()} {
			o.ReadOnly = only
			if _, err := Open(t.Context(), path, o); !errors.Is(err, api.ErrJournal) || !strings.Contains(err.Error(), h.one().Open().Name()) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	l = open(t, path, h.options())
	w := h.asked[len(h.asked)-1]
	check.That(t, w.Name == h.one().Open().Name(), "a file that names a journal asks for %v", w)
	release(t, l, releaseOf(t, "2", "ann", "2"))
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
	_, err := Open(t.Context(), older, h.options())
	check.That(t, errors.Is(err, api.ErrJournal), "an older copy whose groups were trimmed: got the error %v, want ErrJournal", err)
	unkeyed := h.options()
	unkeyed.TruthKey = []byte("too short")
	_, err = Open(t.Context(), path, unkeyed)
	check.That(t, errors.Is(err, api.ErrInvalid), "with a truth key that is too short: got the error %v, want ErrInvalid", err)
	backup := path + ".backup"
	l = open(t, path, h.options())
	must(t, check.Err(l.Backup(t.Context(), backup, nil)))
	closed(t, l)
	wantClean(t, open(t, backup, Options{}), api.VerifyRequest{}) // a ledger of its own
	check.That(t, h.opened == 0, "%d handles are left open", h.opened)
}

// An external journal that cannot be the ledger's is refused. Nothing is written, and the file
// opens without it.
func TestOpen_InvalidExternalJournal_WritesNothing(t *testing.T) {
	broken := errors.New("no network")
	at := journal.Position{Events: 3}
	for name, c := range map[string]struct {
		beside bool
		open   func(context.Context, journal.Wanted) (journal.Journal, error)
		want   error
	}{
		"does not open": {false, func(context.Context, journal.Wanted) (journal.Journal, error) { return nil, broken }, broken},
		"is nil":        {false, func(context.Context, journal.Wanted) (journal.Journal, error) { return nil, nil }, api.ErrInvalid},
		"begins elsewhere": {false, func(context.Context, journal.Wanted) (journal.Journal, error) {
			return journaltest.NewMemory(at).Open(), nil
		}, api.ErrJournal},
		"has another beside the file": {true, newMemoryHost().options().Journal, api.ErrJournal},
		"holds back events": {false, func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
			return overclaimingJournal{journaltest.NewMemory(w.At).Open()}, nil
		}, api.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			path := votersFile(t, "9", "ann")
			if c.beside {
				path = crashedFile(t, 3)
			}
			before := tree(t, path)
			_, err := Open(t.Context(), path, Options{Journal: c.open})
			check.That(t, errors.Is(err, c.want), "got the error %v, want %v", err, c.want)
			if after := tree(t, path); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the files changed: got %v, want %v", after, before)
			}
			closed(t, open(t, path, Options{}))
		})
	}
	wantErr(t, check.Err(openStore(t.Context(), new(kv.Memory), newMemoryHost().options())), api.ErrInvalid)
}

// overclaimingJournal is a journal that claims to have one event more than it returns.
type overclaimingJournal struct{ journal.Journal }

func (h overclaimingJournal) Claim(ctx context.Context) (term uint64, end journal.Position, err error) {
	term, end, err = h.Journal.Claim(ctx)
	end.Events++
	return term, end, err
}

// A group that the journal rejects was not committed, and the next request may succeed. A journal
// that accepts nothing more from this process stops the ledger.
func TestExternalJournal_FencedOrStopped_StopsLedger(t *testing.T) {
	for _, end := range []error{journal.ErrRejected, journal.ErrFenced, journal.ErrOrder, journal.ErrStopped} {
		path, h := votersFile(t, "9", "ann"), newMemoryHost()
		l := open(t, path, h.options())
		release(t, l, releaseOf(t, "1", "ann", "1"))
		h.one().Inject(func(_ context.Context, c journaltest.Call) error {
			if c.Method != "Append" {
				return nil
			}
			return end
		})
		_, err := l.Release(t.Context(), releaseOf(t, "2", "ann", "2"))
		wanted := end != journal.ErrRejected
		check.That(t, errors.Is(err, end) && errors.Is(err, api.ErrStopped) == wanted, "%v: %v", end, err)
		h.one().Inject(nil)
		_, err = l.Release(t.Context(), releaseOf(t, "2", "ann", "2"))
		check.That(t, errors.Is(err, api.ErrStopped) == (end != journal.ErrRejected), "%v: then %v", end, err)
		_ = l.Close()
	}
}

// If the journal cannot destroy groups yet, Forget waits, and its error says for what. Other
// requests go on.
func TestForget_JournalHoldsBack_Waits(t *testing.T) {
	path, h := votersFile(t, "9", "ann", "bea"), newMemoryHost()
	var log journalLog
	o := h.options()
	o.Logger = zerolog.New(&log)
	l := open(t, path, o)
	release(t, l, releaseOf(t, "1", "ann", "1"))
	reason := errors.New("no other host has it")
	_, groups := h.one().Groups()
	part := groups[0].After // all groups up to here are destroyed, and the rest is held back
	var asked atomic.Int32
	h.one().Inject(func(_ context.Context, c journaltest.Call) error {
		if c.Method != "Trim" {
			return nil
		}
		asked.Add(1)
		return &journal.HeldError{Through: part, Wanted: c.Through, Reason: reason}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := l.Forget(ctx, api.ObjectRequest{Key: "forget ann", Object: "ann"})
	held, is := errors.AsType[*journal.HeldError](err)
	check.That(t, is && errors.Is(err, context.DeadlineExceeded) && errors.Is(err, reason) && held.Through == part &&
		held.Wanted.Events > part.Events, "Forget: %v", err)
	if text := log.String(); asked.Load() < 2 || strings.Count(text, `"waiting to erase"`) != 1 || strings.Contains(text, `"level":"error"`) {
		t.Errorf("Trim was called %d times; the log has %s", asked.Load(), text)
	}
	_, groups = h.one().Groups()
	check.That(t, len(groups) != 0, "the journal has no groups, although it holds them back")
	if o, err := l.Object(t.Context(), "ann"); err != nil || o.Forgotten == 0 {
		t.Errorf("the object is not forgotten: %+v, error %v", o, err)
	}
	must(t, l.engine.Checkpoint()) // does not wait
	release(t, l, releaseOf(t, "2", "bea", "1"))

	done := make(chan error)
	go func() { done <- l.Forget(t.Context(), api.ObjectRequest{Key: "forget ann", Object: "ann"}) }()
	for before := asked.Load(); asked.Load() < before+2; {
		select {
		case err := <-done:
			t.Fatalf("Forget does not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	h.one().Inject(nil)
	must(t, <-done)
	_, groups = h.one().Groups()
	check.That(t, len(groups) == 0, "%d groups are left", len(groups))
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
}

// hostHealth returns what Health reports about the hosts of a ledger that has not stopped.
func hostHealth(t testing.TB, l *Ledger) observe.Host {
	t.Helper()
	h := check.Value(l.Health(t.Context()))(t)
	return h.Host
}

func wantHost(t testing.TB, what string, got, want observe.Host) {
	t.Helper()
	check.That(t, got == want, "%s: %+v, want %+v", what, got, want)
}

// heldFollower is a handle of a journal that delivers no new events until free is closed.
type heldFollower struct {
	journal.Follower
	free chan struct{}
}

func (h heldFollower) Await(ctx context.Context, after journal.Position) error {
	select {
	case <-h.free:
		return h.Follower.Await(ctx, after)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Health of each of two hosts reports its role, the leader and its term, and how many events it
// lacks. This holds after a takeover, too.
func TestHealth_TwoHosts_ReportsLeaderTermAndLag(t *testing.T) {
	c := newHostPair(t, "ann", "bea")
	free := make(chan struct{})
	o := c.options("b")
	o.Journal = func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		return heldFollower{c.journal.OpenOn("b"), free}, nil
	}
	b := open(t, c.file, o)
	wantHost(t, "the leader", hostHealth(t, c.a), observe.Host{Role: "leader", Answered: true, Leader: "a", Term: 1})
	wantHost(t, "a standby with all", hostHealth(t, b), observe.Host{Role: "standby", Answered: true, Leader: "a", Term: 1})
	before := stats(t, c.a).Events
	release(t, c.a, releaseOf(t, "more", "bea", "1"))
	lacks := stats(t, c.a).Events - before
	wantHost(t, "a standby that lags", hostHealth(t, b), observe.Host{Role: "standby", Answered: true, Leader: "a", Term: 1, Lag: lacks})
	wantHost(t, "the leader of a standby that lags", hostHealth(t, c.a), observe.Host{Role: "leader", Answered: true, Leader: "a", Term: 1})
	close(free)
	c.catchUp(b)
	wantHost(t, "a standby that has caught up", hostHealth(t, b), observe.Host{Role: "standby", Answered: true, Leader: "a", Term: 1})
	next := check.Value(b.TakeOver(t.Context()))(t)
	t.Cleanup(func() { _ = next.Close() })
	wantHost(t, "the new leader", hostHealth(t, next), observe.Host{Role: "leader", Answered: true, Leader: "b", Term: 2})
	if h, err := b.Health(t.Context()); !errors.Is(err, api.ErrClosed) || h != (observe.Health{}) {
		t.Errorf("the closed standby: got %+v, error %v; want ErrClosed", h, err)
	}
}

// A leader that was replaced by a takeover stops when its health is requested, without a commit,
// and serves no old state.
func TestHealth_TakenOver_StopsLedgerWithoutCommit(t *testing.T) {
	c := newHostPair(t, "ann")
	next := check.Value(c.follows().TakeOver(t.Context()))(t)
	t.Cleanup(func() { _ = next.Close() })
	stats(t, c.a) // it does not know yet
	want := observe.Health{Host: observe.Host{Role: "leader", Fenced: true, Answered: true, Leader: "b", Term: 2}}
	for range 2 {
		h, err := c.a.Health(t.Context())
		check.That(t, errors.Is(err, api.ErrStopped) && errors.Is(err, journal.ErrFenced) && h == want,
			"got %+v, error %v; want %+v and ErrStopped", h, err, want)
	}
	_, err := c.a.Object(t.Context(), "ann")
	check.That(t, errors.Is(err, api.ErrStopped), "the replaced leader: got the error %v, want ErrStopped", err)
	release(t, next, releaseOf(t, "goes on", "ann", "2"))
}

// If the journal does not answer, Health waits for about a second and reports the host as unknown.
// The ledger goes on.
func TestHealth_JournalHangs_ReportsUnknownHost(t *testing.T) {
	c := newHostPair(t, "ann")
	c.journal.Inject(func(ctx context.Context, call journaltest.Call) error {
		if call.Method != "Head" {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	asked := make(chan observe.Host, 1)
	go func() {
		h, err := c.a.Health(context.Background())
		if err != nil {
			h.Host.Role = ""
		}
		asked <- h.Host
	}()
	release(t, c.a, releaseOf(t, "during Health", "ann", "2"))
	select {
	case h := <-asked:
		wantHost(t, "a journal that hangs", h, observe.Host{Role: "leader"})
	case <-time.After(time.Minute):
		t.Fatal("Health waits for the journal")
	}
	c.journal.Inject(func(_ context.Context, call journaltest.Call) error {
		if call.Method == "Head" {
			panic("a bug in the host's journal")
		}
		return nil
	})
	wantHost(t, "a journal that panics", hostHealth(t, c.a), observe.Host{Role: "leader"})
	c.journal.Inject(nil)
	wantHost(t, "a journal that answers again", hostHealth(t, c.a), observe.Host{Role: "leader", Answered: true, Leader: "a", Term: 1})
}

// A ledger without other hosts is a leader without term or lag, before its first commit and after
// it. A read-only ledger is a reader.
func TestHealth_LocalJournal_HasNoOtherHosts(t *testing.T) {
	path := votersFile(t, "900", "ann")
	l := open(t, path, Options{})
	alone := observe.Host{Role: "leader", Answered: true}
	wantHost(t, "before the first commit", hostHealth(t, l), alone)
	release(t, l, releaseOf(t, "first", "ann", "1"))
	wantHost(t, "after it", hostHealth(t, l), alone)
	must(t, l.Close())
	wantHost(t, "for reading", hostHealth(t, open(t, path, Options{ReadOnly: true})), observe.Host{Role: "reader", Answered: true})
}
