package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/memtable"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
)

// storeWithUpdate is a store whose Update a test replaces.
type storeWithUpdate struct {
	kv.Store
	update func(fn func(kv.Writer) error) error
}

func (u *storeWithUpdate) Update(fn func(kv.Writer) error) error { return u.update(fn) }

// The first commit creates a journal and records its name in the file. If that fails, or its
// outcome is uncertain, the file never names a journal that was removed: it opens again, and the
// request can be repeated.
func TestFirstCommit_NamingJournalFails_FileOpensAgain(t *testing.T) {
	for name, c := range map[string]struct {
		fails error // the error of Update
		done  bool  // the update is made nevertheless
		goOn  bool  // the ledger does not stop
	}{
		"full":                {syscall.ENOSPC, false, true},
		"uncertain, not done": {fmt.Errorf("%w: %w", kv.ErrUncertain, syscall.EIO), false, false},
		"uncertain, but done": {fmt.Errorf("%w: %w", kv.ErrUncertain, syscall.EIO), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(testenv.TempDir(t), "ledger.db")
			must(t, Create(t.Context(), path, CreateOptions{}))
			closed(t, sellers(t, open(t, path, Options{}), "9", "9", "ann"))
			s := check.Value(bolt.Open(path, false))(t)
			fails := c.fails
			base := &storeWithUpdate{s, func(fn func(kv.Writer) error) error {
				if fails != nil && !c.done {
					return fails
				}
				return errors.Join(s.Update(fn), fails)
			}}
			l := check.Value(openClaimed(t.Context(), base, besideFile(path), Options{}, "", false))(t)
			for range 2 {
				if _, err := l.Release(t.Context(), releaseOf(t, "r", "ann", "1")); !errors.Is(err, c.fails) && !errors.Is(err, api.ErrStopped) {
					t.Errorf("got the error %v, want that of the update or ErrStopped", err)
				} else if errors.Is(err, api.ErrStopped) == c.goOn {
					t.Errorf("the ledger stopped: %v, after the error %v", !c.goOn, err)
				}
			}
			if fails = nil; c.goOn {
				release(t, l, releaseOf(t, "r", "ann", "1"))
			}
			if err := l.Close(); c.goOn {
				must(t, err)
			}
			l = open(t, path, Options{})
			release(t, l, releaseOf(t, "r", "ann", "1"))
			wantClean(t, l, api.VerifyRequest{})
			o := objectOf(t, l, "ann")
			check.That(t, len(o.Chains[0].Levels) == 1, "there is %+v", o)
			closed(t, l)
			files := tree(t, path)
			check.That(t, len(files) == 1, "the files are %v, want the ledger file only", files)
		})
	}
}

// stagedPortions counts the staged portions in a file.
func stagedPortions(t testing.TB, path string) (n int) {
	t.Helper()
	file := check.Value(bolt.Open(path, true))(t)
	defer file.Close()
	must(t, file.View(func(r kv.Reader) error {
		return r.Scan(memtable.Staging, nil, func(_, _ []byte) bool { n++; return true })
	}))
	return n
}

// A process may die between any two transactions of a checkpoint, also inside Close. The file that
// it leaves has the whole ledger, with its journal or, if the file names none, without. Opened for
// writing, it has no staged portions afterwards.
func TestOpen_CheckpointInterrupted_HasWholeLedger(t *testing.T) {
	names := crowd(40)
	path := votersFile(t, "9", names...)
	file := check.Value(bolt.Open(path, false))(t)
	var copies []string // of the file and of its journal, after each update
	l := openOver(t, &storeWithUpdate{file, func(fn func(kv.Writer) error) error {
		err := file.Update(fn)
		copies = append(copies, crashCopy(t, path))
		return err
	}}, besideFile(path), Options{Memory: 60 << 10}) // portions of eight records
	releaseEach(t, l, "1", names[:40]...)
	closed(t, l)
	wantWhole := func(what, at string, o Options) {
		t.Helper()
		l := open(t, at, o)
		for _, name := range names[:40] {
			check.Equal(t, objectOf(t, l, name).Spent, eps(t, "1"), "%s: %s has spent", what, name)
		}
		wantClean(t, l, api.VerifyRequest{})
		closed(t, l)
	}
	staged, alone := 0, 0
	for i, at := range copies {
		if _, err := os.Stat(at + ".journal"); err != nil || stagedPortions(t, at) == 0 {
			continue
		}
		staged++
		without := crashCopy(t, at)
		must(t, os.RemoveAll(without+".journal"))
		if l, err := Open(t.Context(), without, Options{ReadOnly: true}); err == nil {
			closed(t, l)
			alone++
			wantWhole(fmt.Sprintf("copy %d, without its journal, read", i), without, Options{ReadOnly: true})
			wantWhole(fmt.Sprintf("copy %d, without its journal", i), without, Options{})
			if n := stagedPortions(t, without); n > 0 {
				t.Errorf("copy %d, without its journal, has %d staged portions after it was open for writing", i, n)
			}
		} else {
			wantErr(t, err, api.ErrJournal)
		}
		wantWhole(fmt.Sprintf("copy %d, read", i), at, Options{ReadOnly: true})
		wantWhole(fmt.Sprintf("copy %d", i), at, Options{})
		check.Equal(t, stagedPortions(t, at), 0, "staged portions in copy %d after it was open for writing", i)
	}
	check.That(t, staged >= 3 && alone >= 3,
		"of %d copies %d have staged portions, and %d of these are whole without their journal", len(copies), staged, alone)
}

// With a memory limit of one byte every commit is followed by a checkpoint. Nothing is lost.
func TestMemory_OneByte_LosesNothing(t *testing.T) {
	names := crowd(300)
	path := votersFile(t, "9", names...)
	l := open(t, path, Options{Memory: 1})
	for round := range 3 {
		for i, name := range names {
			release(t, l, releaseOf(t, fmt.Sprint(round, " ", i), name, fmt.Sprint(1+round)))
		}
	}
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
	_, err := os.Stat(path + ".journal")
	check.That(t, os.IsNotExist(err), "the journal is left: %v", err)
	l = open(t, path, Options{})
	wantClean(t, l, api.VerifyRequest{})
	o := objectOf(t, l, names[7])
	check.That(t, o.Spent == eps(t, "3") && len(o.Chains[0].Levels) == 3, "there is %+v", o)
}

// lendingStore is a store that overwrites all bytes that a transaction has read, as soon as it
// ends. A file does that rarely.
func lendingStore(s kv.Store) kv.Store {
	return &tapped{s, func() (tap, func()) {
		var all [][]byte
		lend := func(b []byte) []byte {
			all = append(all, bytes.Clone(b))
			return all[len(all)-1]
		}
		return tap{lend: lend}, func() {
			for _, b := range all {
				copy(b, bytes.Repeat([]byte("?"), len(b)))
			}
		}
	}}
}

// Bytes read in a transaction are not used after its end, because another transaction may overwrite
// them.
func TestLedger_BuffersOverwrittenAfterTransaction_IsUnaffected(t *testing.T) {
	names := crowd(20)
	path := create(t)
	o := Options{TruthKey: truthKey(), NoiseKey: noiseKeys("2026")}
	closed(t, sellers(t, open(t, path, o), "9", "9", names...))
	opened := func() *Ledger {
		t.Helper()
		file := check.Value(bolt.Open(path, false))(t)
		return openOver(t, lendingStore(file), besideFile(path), o)
	}
	l := opened()
	for i, name := range names {
		release(t, l, releaseOf(t, name, name, "1"))
		sell(t, l, purchase(t, "sale "+name, "acme", "2", name))
		if i%7 == 6 {
			must(t, l.engine.Checkpoint())
		}
	}
	kill(t, l)
	l = opened()
	release(t, l, releaseOf(t, "again", names[0], "3"))
	for _, name := range names {
		o := objectOf(t, l, name)
		check.That(t, o.Object == name && len(o.Chains) == 1 && len(o.Chains[0].Levels) >= 2, "%s is %+v", name, o)
	}
	all := responses(t, l, "vote", eps(t, "2"))
	check.That(t, len(all) == len(names), "got %d responses", len(all))
	events := 0
	for ev, err := range l.Events(t.Context(), 1) {
		must(t, err)
		if events++; ev.Number != uint64(events) {
			t.Fatalf("event %d has the number %d", events, ev.Number)
		}
	}
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
}

// journalReplacements returns ways to replace the journal beside a file.
func journalReplacements(t testing.TB, path string) map[string]func() {
	dir := path + ".journal"
	segment := filepath.Join(dir, "00000001.segment")
	copied := func() {
		must(t, os.Mkdir(dir+".copy", 0o700))
		overwrite(t, filepath.Join(dir+".copy", "00000001.segment"), content(t, segment))
	}
	return map[string]func(){
		"directory replaced by a copy": func() {
			copied()
			must(t, errors.Join(os.RemoveAll(dir), os.Rename(dir+".copy", dir)))
		},
		"directory removed": func() { must(t, os.RemoveAll(dir)) },
		"segment replaced by a copy": func() {
			copied()
			must(t, errors.Join(os.Rename(filepath.Join(dir+".copy", "00000001.segment"), segment), os.RemoveAll(dir+".copy")))
		},
		"segment removed": func() { must(t, os.Remove(segment)) },
		"segment cut off": func() { must(t, os.Truncate(segment, 120)) },
		"segment overwritten in place": func() {
			later := time.Now().Add(time.Hour) // the resolution of the clock does not matter
			b := content(t, segment)
			clear(b[112:])
			overwrite(t, segment, b)
			must(t, os.Chtimes(segment, later, later))
		},
	}
}

// After the journal was replaced, no call is acknowledged. All that was acknowledged before is in
// the file.
func TestJournalReplaced_NextCall_StopsTheLedgerAndLosesNothing(t *testing.T) {
	truth := sameTruth("yes")
	file, options := fileWithSales(t)
	for how := range journalReplacements(t, "") {
		for call, do := range map[string]func(ctx context.Context, l *Ledger) error{
			"release": func(ctx context.Context, l *Ledger) error {
				return check.Err(l.Release(ctx, releaseOf(t, "r", crowd(1)[0], "2")))
			},
			"sell": func(ctx context.Context, l *Ledger) error {
				return check.Err(l.Sell(ctx, purchase(t, "s", "acme", "2")))
			},
			"raise": func(ctx context.Context, l *Ledger) error { return check.Err(l.Raise(ctx, raiseOf(t, "o", "2"))) },
			"sweep": func(ctx context.Context, l *Ledger) error {
				return check.Err(l.Advance(ctx, api.AdvanceRequest{Key: "a", Truth: truth}))
			},
			"checkpoint": func(ctx context.Context, l *Ledger) error { return l.engine.Erase(ctx) },
			"close":      func(context.Context, *Ledger) error { return nil },
		} {
			t.Run(how+", "+call, func(t *testing.T) {
				path := filepath.Join(testenv.TempDir(t), "live.db")
				overwrite(t, path, content(t, file))
				l := open(t, path, options)
				acknowledged := release(t, l, releaseOf(t, "acknowledged", crowd(3)[2], "1.5"))
				journalReplacements(t, path)[how]()
				if call != "close" {
					wantErr(t, do(t.Context(), l), api.ErrReplaced)
					wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "next", crowd(2)[1], "2"))), api.ErrReplaced)
				}
				wantErr(t, l.Close(), api.ErrReplaced)
				must(t, os.RemoveAll(path+".journal")) // as the error says
				l = open(t, path, options)
				check.Equal(t, release(t, l, releaseOf(t, "acknowledged", crowd(3)[2], "1.5")).Value, acknowledged.Value, "the response to the key, again")
				wantClean(t, l, api.VerifyRequest{})
				if r, err := l.Object(t.Context(), crowd(2)[1]); err != nil || len(r.Chains[0].Levels) > 1 {
					t.Errorf("a release that was not acknowledged is recorded: %+v, error %v", r.Chains, err)
				}
			})
		}
	}
}

// If an older copy replaces the journal, and the process is killed as soon as it notices, the file
// does not open with that copy. Nothing that was acknowledged is lost.
func TestJournalReplaced_ByAnOlderCopy_IsNotOpenedWithIt(t *testing.T) {
	path := votersFile(t, "5", crowd(20)...)
	l := open(t, path, Options{})
	release(t, l, releaseOf(t, "copied", crowd(1)[0], "1"))
	dir := path + ".journal"
	segment := content(t, filepath.Join(dir, "00000001.segment"))
	acknowledged := release(t, l, releaseOf(t, "acknowledged", crowd(2)[1], "1"))
	must(t, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)))
	overwrite(t, filepath.Join(dir, "00000001.segment"), segment)
	wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "lost", crowd(3)[2], "1"))), api.ErrReplaced)
	killed := content(t, path) // as if the process were killed
	_ = l.Close()
	overwrite(t, path, killed)
	_, err := Open(t.Context(), path, Options{})
	wantErr(t, err, api.ErrJournal)
	check.That(t, err != nil && strings.Contains(err.Error(), "move the journal away"),
		"the error does not say what to do: %v", err)
	must(t, os.RemoveAll(dir))
	check.Equal(t, release(t, open(t, path, Options{}), releaseOf(t, "acknowledged", crowd(2)[1], "1")).Value, acknowledged.Value, "the response to the key, again")
}

// A checkpoint that finds the journal replaced stops the ledger. All that was acknowledged is in
// the file.
func TestJournalReplaced_CheckpointInTheBackground_StopsTheLedger(t *testing.T) {
	path := votersFile(t, "5", crowd(20)...)
	var log journalLog
	l := open(t, path, Options{Logger: zerolog.New(&log)})
	acknowledged := release(t, l, releaseOf(t, "acknowledged", crowd(1)[0], "1"))
	journalReplacements(t, path)["directory removed"]()
	_ = l.engine.Checkpoint() // its end trims the journal
	wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "next", crowd(2)[1], "1"))), api.ErrReplaced)
	wantErr(t, l.Close(), api.ErrReplaced)
	log.await(t, "everything acknowledged is now in the file")
	check.Equal(t, release(t, open(t, path, Options{}), releaseOf(t, "acknowledged", crowd(1)[0], "1")).Value, acknowledged.Value, "the response to the key, again")
}

// The journal may be on another disk if its path beside the file is a symbolic link.
func TestOpen_JournalIsASymbolicLink_IsFollowed(t *testing.T) {
	fast := filepath.Join(testenv.TempDir(t), "panel")
	path := filepath.Join(testenv.TempDir(t), "ledger.db")
	must(t, os.Symlink(fast, path+".journal"))
	must(t, Create(t.Context(), path, CreateOptions{}))
	l := open(t, path, Options{})
	must(t, l.DefineQuestion(t.Context(), "d", api.Question{Name: "q", Values: []string{"a", "b"}}))
	_, err := os.Stat(fast)
	check.Need(t, err == nil, "the journal is not where the link leads: %v", err)
	left := map[string][]byte{path: content(t, path), filepath.Join(fast, "00000001.segment"): content(t, filepath.Join(fast, "00000001.segment"))}
	closed(t, l)
	must(t, os.Mkdir(fast, 0o700)) // as a crash leaves it
	for name, b := range left {
		overwrite(t, name, b)
	}
	l = open(t, path, Options{})
	q, err := api.Collect(l.Questions(t.Context()))
	check.That(t, err == nil && len(q) == 1, "got the questions %v, error %v", q, err)
	closed(t, l)
	_, err = os.Stat(fast)
	check.That(t, os.IsNotExist(err), "the journal is left: %v", err)
}

// renamedJournal is a journal with a chosen name.
type renamedJournal struct {
	journal.Journal
	name string
}

func (n renamedJournal) Name() string { return n.name }

// The file records the name of its journal. A name that is empty or cannot be stored is refused:
// the file would open with any journal, or with none.
func TestOpen_JournalWithoutAUsableName_IsRefused(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("x", 257), "mine:\n1", "mine:\x00", "mine:\xff"} {
		t.Run(fmt.Sprintf("%.10q", name), func(t *testing.T) {
			path := votersFile(t, "5", crowd(1)...)
			var m *journaltest.Memory
			_, err := Open(t.Context(), path, Options{Journal: func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
				m = journaltest.NewMemory(w.At)
				return renamedJournal{m.Open(), name}, nil
			}})
			wantErr(t, err, api.ErrInvalid)
			check.That(t, err != nil && strings.Contains(err.Error(), "name of the journal"), "%v", err)
			closed(t, open(t, path, Options{})) // the file names no journal
		})
	}
}

// stuckJournal is a journal whose Read returns groups without end that do not advance.
type stuckJournal struct{ journal.Journal }

func (s stuckJournal) Read(_ context.Context, after journal.Position) iter.Seq2[journal.Group, error] {
	return func(yield func(journal.Group, error) bool) {
		for yield(journal.Group{Before: after, After: after}, nil) {
		}
	}
}

// A journal whose Read does not advance is corrupt, and is not read forever.
func TestOpen_JournalThatDoesNotAdvance_IsCorrupt(t *testing.T) {
	path := votersFile(t, "5", crowd(1)...)
	h := newMemoryHost()
	closed(t, open(t, path, h.options())) // else the file names no journal, and the journal is not read
	_, err := Open(t.Context(), path, Options{Journal: func(context.Context, journal.Wanted) (journal.Journal, error) {
		return stuckJournal{h.one().Open()}, nil
	}})
	if wantErr(t, err, api.ErrCorrupt); err != nil && !strings.Contains(err.Error(), "a group of 0 records") {
		t.Errorf("got the error %v, want one about the group", err)
	}
}
