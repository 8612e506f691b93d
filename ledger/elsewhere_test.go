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

// host keeps the journals of its ledgers in memory that outlives them.
type host struct {
	journals map[[16]byte]*journaltest.Memory
	asked    []journal.Wanted
	opened   int // handles that were not closed
}

func newHost() *host { return &host{journals: map[[16]byte]*journaltest.Memory{}} }

// noting notes that it was closed.
type noting struct {
	journal.Journal
	host *host
}

func (n noting) Close() error { n.host.opened--; return n.Journal.Close() }

// options are those of a ledger of this host.
func (h *host) options() Options {
	return Options{Journal: func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		h.asked = append(h.asked, w)
		if h.journals[w.Ledger] == nil {
			h.journals[w.Ledger] = journaltest.NewMemory(w.At)
		}
		h.opened++
		return noting{h.journals[w.Ledger].Open(), h}, nil
	}}
}

// one is the journal of the only ledger.
func (h *host) one() (found *journaltest.Memory) {
	for _, found = range h.journals {
	}
	return found
}

// asItIs returns a copy of a file as it is now.
func asItIs(t *testing.T, path string) (copied string) {
	t.Helper()
	copied = filepath.Join(testenv.TempDir(t), "copied.db")
	must(t, os.WriteFile(copied, content(t, path), 0o600))
	return copied
}

// A file is lost, or its process has died: with an older copy and the journal, which is elsewhere,
// everything is there that was told.
func TestAJournalElsewhereOutlivesTheFile(t *testing.T) {
	names := crowd(30)
	path, h := votersFile(t, "9", names...), newHost()
	l := open(t, path, h.options())
	older := asItIs(t, path)
	releaseEach(t, l, "1", names...)
	forget(t, l, names[3]) // makes a checkpoint, and trims
	_, groups := h.one().Groups()
	check.That(t, len(groups) == 0, "%d groups are left after a checkpoint", len(groups))
	between := asItIs(t, path)
	for i, name := range names[10:] {
		release(t, l, releaseOf(t, fmt.Sprint("more", i), name, "2"))
	}
	want := pairs(t, l.engine.Store)
	reader := open(t, asItIs(t, between), Options{ReadOnly: true, Journal: h.options().Journal})
	wantSameRecords(t, "read only", pairs(t, reader.engine.Store), want)
	wantClean(t, reader, api.VerifyRequest{})
	closed(t, reader)
	must(t, l.engine.Claim.Release()) // as if it were on another machine
	l.engine.Claim = nil
	if _, err := Open(t.Context(), older, h.options()); !errors.Is(err, api.ErrJournal) {
		t.Errorf("a copy from before what was trimmed: %v", err)
	}

	next := open(t, between, h.options())
	wantSameRecords(t, "taken over", pairs(t, next.engine.Store), want)
	_, err := l.Release(t.Context(), releaseOf(t, "late", names[0], "3"))
	check.That(t, errors.Is(err, api.ErrStopped) && errors.Is(err, journal.ErrFenced), "who was fenced gets %v", err)
	release(t, next, releaseOf(t, "after", names[0], "3"))
	wantClean(t, next, api.VerifyRequest{})
	closed(t, next)
	must(t, l.Close())
	check.That(t, h.opened == 0, "%d handles are left open", h.opened)
	_, err = os.Stat(path + ".journal")
	check.That(t, os.IsNotExist(err), "beside the file: %v", err)
}

// settling is a journal that is to be settled before it is shown.
type settling struct {
	journal.Journal
	did *[]string
	err error
}

func (s settling) Settle(context.Context) error {
	*s.did = append(*s.did, "settle")
	return s.err
}

func (s settling) Read(ctx context.Context, after journal.Position) iter.Seq2[journal.Group, error] {
	*s.did = append(*s.did, "read")
	return s.Journal.Read(ctx, after)
}

// Who only reads is shown nothing that a power cut could take back: the journal is settled first,
// or not shown.
func TestAReaderSettlesTheJournal(t *testing.T) {
	path, h := votersFile(t, "9", "ann"), newHost()
	l := open(t, path, h.options())
	release(t, l, releaseOf(t, "1", "ann", "1"))
	copied := asItIs(t, path)
	broken := errors.New("the disk is broken")
	for _, err := range []error{nil, broken} {
		var did []string
		o := Options{ReadOnly: true, Journal: func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
			return settling{h.journals[w.Ledger].Open(), &did, err}, nil
		}}
		reader, opening := Open(t.Context(), copied, o)
		check.That(t, errors.Is(opening, err) && len(did) != 0 && did[0] == "settle" && (err == nil || len(did) <= 1),
			"with the error %v of settling: %v; in order: %v", err, opening, did)
		if opening == nil {
			closed(t, reader)
		}
	}
	closed(t, l)
}

// A file whose journal is elsewhere is opened with that journal only, also after it was closed.
func TestAFileIsOpenedWithItsJournalOnly(t *testing.T) {
	path, h := votersFile(t, "9", "ann"), newHost()
	l := open(t, path, h.options())
	release(t, l, releaseOf(t, "1", "ann", "1"))
	closed(t, l)
	if w := h.asked[0]; w.Name != "" || w.Ledger != l.documents.About.ID || w.At.Events == 0 {
		t.Errorf("a file that names no journal wants %v", w)
	}
	older := asItIs(t, path)
	for _, only := range []bool{true, false} {
		for name, o := range map[string]Options{"none": {}, "another": newHost().options()} {
			o.ReadOnly = only
			if _, err := Open(t.Context(), path, o); !errors.Is(err, api.ErrJournal) || !strings.Contains(err.Error(), h.one().Open().Name()) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	l = open(t, path, h.options())
	w := h.asked[len(h.asked)-1]
	check.That(t, w.Name == h.one().Open().Name(), "a file that names a journal wants %v", w)
	release(t, l, releaseOf(t, "2", "ann", "2"))
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
	_, err := Open(t.Context(), older, h.options())
	check.That(t, errors.Is(err, api.ErrJournal), "an older copy, whose part of the journal is gone: %v", err)
	unkeyed := h.options()
	unkeyed.TruthKey = []byte("too short")
	_, err = Open(t.Context(), path, unkeyed)
	check.That(t, errors.Is(err, api.ErrInvalid), "with a key that cannot be: %v", err)
	backup := path + ".backup"
	l = open(t, path, h.options())
	must(t, check.Err(l.Backup(t.Context(), backup, nil)))
	closed(t, l)
	wantClean(t, open(t, backup, Options{}), api.VerifyRequest{}) // a ledger of its own
	check.That(t, h.opened == 0, "%d handles are left open", h.opened)
}

// What a journal elsewhere is given with is refused if it cannot be right: nothing is written, and
// no handle stays open.
func TestAJournalElsewhereThatCannotBe(t *testing.T) {
	broken := errors.New("no network")
	at := journal.Position{Events: 3}
	for name, c := range map[string]struct {
		beside bool
		open   func(context.Context, journal.Wanted) (journal.Journal, error)
		want   error
	}{
		"does not open": {false, func(context.Context, journal.Wanted) (journal.Journal, error) { return nil, broken }, broken},
		"there is none": {false, func(context.Context, journal.Wanted) (journal.Journal, error) { return nil, nil }, api.ErrInvalid},
		"begins elsewhere": {false, func(context.Context, journal.Wanted) (journal.Journal, error) {
			return journaltest.NewMemory(at).Open(), nil
		}, api.ErrJournal},
		"one is beside": {true, newHost().options().Journal, api.ErrJournal},
		"holds back events": {false, func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
			return boasting{journaltest.NewMemory(w.At).Open()}, nil
		}, api.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			path := votersFile(t, "9", "ann")
			if c.beside {
				path = crashed(t, 3)
			}
			before := tree(t, path)
			_, err := Open(t.Context(), path, Options{Journal: c.open})
			check.That(t, errors.Is(err, c.want), "got %v", err)
			if after := tree(t, path); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("something was written: %v, before %v", after, before)
			}
			closed(t, open(t, path, Options{}))
		})
	}
	wantErr(t, check.Err(openStore(t.Context(), new(kv.Memory), newHost().options())), api.ErrInvalid)
}

// boasting is a journal that says that it has more than it shows.
type boasting struct{ journal.Journal }

func (h boasting) Claim(ctx context.Context) (term uint64, end journal.Position, err error) {
	term, end, err = h.Journal.Claim(ctx)
	end.Events++
	return term, end, err
}

// What a journal rejects has not happened, and the next request may be taken. One that takes
// nothing more from this process stops the ledger.
func TestAJournalThatTakesNothingMoreStopsTheLedger(t *testing.T) {
	for _, end := range []error{journal.ErrRejected, journal.ErrFenced, journal.ErrOrder, journal.ErrStopped} {
		path, h := votersFile(t, "9", "ann"), newHost()
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

// A journal that holds back what is to be destroyed stops nothing but those who want it destroyed:
// they wait, and are told what for.
func TestForgetWaitsForAJournalThatHoldsBack(t *testing.T) {
	path, h := votersFile(t, "9", "ann", "bea"), newHost()
	var log journalLog
	o := h.options()
	o.Logger = zerolog.New(&log)
	l := open(t, path, o)
	release(t, l, releaseOf(t, "1", "ann", "1"))
	nobody := errors.New("nobody else has it")
	_, groups := h.one().Groups()
	part := groups[0].After // up to here all is destroyed, and the rest is held back
	var asked atomic.Int32
	h.one().Inject(func(_ context.Context, c journaltest.Call) error {
		if c.Method != "Trim" {
			return nil
		}
		asked.Add(1)
		return &journal.HeldError{Through: part, Wanted: c.Through, Reason: nobody}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := l.Forget(ctx, api.ObjectRequest{Key: "forget ann", Object: "ann"})
	held, is := errors.AsType[*journal.HeldError](err)
	check.That(t, is && errors.Is(err, context.DeadlineExceeded) && errors.Is(err, nobody) && held.Through == part &&
		held.Wanted.Events > part.Events, "Forget: %v", err)
	if text := log.String(); asked.Load() < 2 || strings.Count(text, `"waiting to erase"`) != 1 || strings.Contains(text, `"level":"error"`) {
		t.Errorf("asked %d times; the log says %s", asked.Load(), text)
	}
	_, groups = h.one().Groups()
	check.That(t, len(groups) != 0, "the journal has destroyed what it holds back")
	if o, err := l.Object(t.Context(), "ann"); err != nil || o.Forgotten == 0 {
		t.Errorf("the person is not forgotten: %+v %v", o, err)
	}
	must(t, l.engine.Checkpoint()) // is not held up
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

// hostOf returns the part that a host has in a ledger that has not stopped.
func hostOf(t testing.TB, l *Ledger) observe.Host {
	t.Helper()
	h := check.Value(l.Health(t.Context()))(t)
	return h.Host
}

func wantHost(t testing.TB, what string, got, want observe.Host) {
	t.Helper()
	check.That(t, got == want, "%s: %+v, want %+v", what, got, want)
}

// held is a handle of a journal from which nothing is read before it is let go.
type held struct {
	journal.Follower
	free chan struct{}
}

func (h held) Await(ctx context.Context, after journal.Position) error {
	select {
	case <-h.free:
		return h.Follower.Await(ctx, after)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Each of two hosts says what it does, which host has the ledger, by which term, and how many
// events it lacks; also after a takeover.
func TestHealth_TwoHosts_SayLeaderTermAndLag(t *testing.T) {
	c := newHostPair(t, "ann", "bea")
	free := make(chan struct{})
	o := c.options("b")
	o.Journal = func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		return held{c.journal.OpenOn("b"), free}, nil
	}
	b := open(t, c.file, o)
	wantHost(t, "the leader", hostOf(t, c.a), observe.Host{Role: "leader", Answered: true, Leader: "a", Term: 1})
	wantHost(t, "a standby with all", hostOf(t, b), observe.Host{Role: "standby", Answered: true, Leader: "a", Term: 1})
	before := stats(t, c.a).Events
	release(t, c.a, releaseOf(t, "more", "bea", "1"))
	lacks := stats(t, c.a).Events - before
	wantHost(t, "a standby that lags", hostOf(t, b), observe.Host{Role: "standby", Answered: true, Leader: "a", Term: 1, Lag: lacks})
	wantHost(t, "the leader of a standby that lags", hostOf(t, c.a), observe.Host{Role: "leader", Answered: true, Leader: "a", Term: 1})
	close(free)
	c.catchUp(b)
	wantHost(t, "a standby that has caught up", hostOf(t, b), observe.Host{Role: "standby", Answered: true, Leader: "a", Term: 1})
	next := check.Value(b.TakeOver(t.Context()))(t)
	t.Cleanup(func() { _ = next.Close() })
	wantHost(t, "who has taken over", hostOf(t, next), observe.Host{Role: "leader", Answered: true, Leader: "b", Term: 2})
	if h, err := b.Health(t.Context()); !errors.Is(err, api.ErrClosed) || h != (observe.Health{}) {
		t.Errorf("the standby that was closed: %+v, %v", h, err)
	}
}

// A leader that was taken over from, and commits nothing, learns of it when its health is asked
// for: it stops, and serves no old state.
func TestHealth_TakenOverFrom_LedgerStopsWithoutACommit(t *testing.T) {
	c := newHostPair(t, "ann")
	next := check.Value(c.follows().TakeOver(t.Context()))(t)
	t.Cleanup(func() { _ = next.Close() })
	stats(t, c.a) // it does not know yet
	want := observe.Health{Host: observe.Host{Role: "leader", Fenced: true, Answered: true, Leader: "b", Term: 2}}
	for range 2 {
		h, err := c.a.Health(t.Context())
		check.That(t, errors.Is(err, api.ErrStopped) && errors.Is(err, journal.ErrFenced) && h == want,
			"%+v, %v; want %+v", h, err, want)
	}
	_, err := c.a.Object(t.Context(), "ann")
	check.That(t, errors.Is(err, api.ErrStopped), "it answers from an old state: %v", err)
	release(t, next, releaseOf(t, "goes on", "ann", "2"))
}

// A journal that does not answer holds up Health for a second or so, and nothing else; what it says
// is not known then, and the ledger goes on.
func TestHealth_JournalHangs_IsNotKnownAndNothingStops(t *testing.T) {
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
	release(t, c.a, releaseOf(t, "meanwhile", "ann", "2"))
	select {
	case h := <-asked:
		wantHost(t, "a journal that hangs", h, observe.Host{Role: "leader"})
	case <-time.After(time.Minute):
		t.Fatal("Health waits for the journal")
	}
	c.journal.Inject(func(_ context.Context, call journaltest.Call) error {
		if call.Method == "Head" {
			panic("a journal of somebody's own")
		}
		return nil
	})
	wantHost(t, "a journal that panics", hostOf(t, c.a), observe.Host{Role: "leader"})
	c.journal.Inject(nil)
	wantHost(t, "a journal that answers again", hostOf(t, c.a), observe.Host{Role: "leader", Answered: true, Leader: "a", Term: 1})
}

// Without other hosts there is a leader, no term and no lag, before the first commit and after it;
// a ledger that is open for reading is a reader.
func TestHealth_JournalBesideTheFile_HasNoOtherHosts(t *testing.T) {
	path := votersFile(t, "900", "ann")
	l := open(t, path, Options{})
	alone := observe.Host{Role: "leader", Answered: true}
	wantHost(t, "before the first commit", hostOf(t, l), alone)
	release(t, l, releaseOf(t, "first", "ann", "1"))
	wantHost(t, "after it", hostOf(t, l), alone)
	must(t, l.Close())
	wantHost(t, "for reading", hostOf(t, open(t, path, Options{ReadOnly: true})), observe.Host{Role: "reader", Answered: true})
}
