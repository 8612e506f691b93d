package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/journal"
)

// diskState is what a ledger has on the disk at one instant: the file and the segments of its
// journal.
type diskState struct {
	what    string
	file    []byte
	journal map[string][]byte // nil if there is none
}

// diskHistory has the states of a ledger on the disk, one after each write to its file or its
// journal.
type diskHistory struct {
	kv.Store
	besideFile
	t      testing.TB
	states []diskState
}

// record adds a state, unless nothing has changed since the last one.
func (h *diskHistory) record(what string) {
	h.t.Helper()
	now := diskState{what: what, file: content(h.t, string(h.besideFile))}
	entries, err := os.ReadDir(h.dir())
	if err == nil {
		now.journal = map[string][]byte{}
	} else if !errors.Is(err, fs.ErrNotExist) {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		now.journal[e.Name()] = bytes.TrimRight(content(h.t, filepath.Join(h.dir(), e.Name())), "\x00") // which is padding
	}
	if n := len(h.states); n > 0 && bytes.Equal(h.states[n-1].file, now.file) && maps.EqualFunc(h.states[n-1].journal, now.journal, bytes.Equal) {
		return
	}
	h.states = append(h.states, now)
}

func (h *diskHistory) Update(fn func(kv.Writer) error) error {
	h.record("before a checkpoint")
	defer h.record("checkpoint written")
	return h.Store.Update(fn)
}

func (h *diskHistory) Make(w journal.Wanted) (journal.Journal, error) {
	j, err := h.besideFile.Make(w)
	h.record("journal made")
	return recordedJournal{j, h}, err
}

func (h *diskHistory) Remove(j journal.Journal) error {
	h.record("journal to be removed")
	defer h.record("journal removed")
	return h.besideFile.Remove(j.(recordedJournal).Journal)
}

// recordedJournal is a journal that records a state for each write.
type recordedJournal struct {
	journal.Journal
	history *diskHistory
}

func (j recordedJournal) Append(ctx context.Context, g journal.Group) error {
	defer j.history.record("appended")
	return j.Journal.Append(ctx, g)
}

func (j recordedJournal) Trim(ctx context.Context, at journal.Position) error {
	j.history.record("to be trimmed")
	defer j.history.record("trimmed")
	return j.Journal.Trim(ctx, at)
}

// recordHistory records a ledger that is opened and closed three times. It returns the roots of its
// log by the number of events.
func recordHistory(t testing.TB) (h *diskHistory, roots []tlog.Hash) {
	t.Helper()
	names := crowd(120)
	path := create(t)
	closed(t, sellers(t, open(t, path, Options{}), "9", "9", names...))
	h = &diskHistory{besideFile: besideFile(path), t: t}
	for run := range 3 {
		file := check.Value(bolt.Open(path, false))(t)
		h.Store = file
		h.record("at rest")
		l := openOver(t, h, h, Options{})
		for i := range 16 {
			name := names[(i*37+run*11)%len(names)]
			release(t, l, releaseOf(t, fmt.Sprint("r", run, i), name, fmt.Sprint(1+run)))
			switch i % 4 {
			case 1:
				must(t, l.engine.Checkpoint())
			case 3:
				sell(t, l, purchase(t, fmt.Sprint("s", run, i), "acme", fmt.Sprint(1+run), name))
			}
			if i == 7 {
				forget(t, l, names[100+run])
			}
		}
		closed(t, l)
		h.record("closed")
	}
	l := open(t, path, Options{ReadOnly: true})
	roots = make([]tlog.Hash, 1, 1000)
	for n := range stats(t, l).Events {
		head := check.Value(l.Head(t.Context(), n+1))(t)
		roots = append(roots, head.Root)
	}
	closed(t, l)
	return h, roots
}

// mixedCopy is a copy of a file from one or two instants, with the journal of a third.
type mixedCopy struct {
	of   string
	file []byte
	with map[string][]byte
}

// splice returns a copy of a file made while it is written: the first pages are from one instant,
// the others from another.
func splice(first, rest []byte, page int) []byte {
	cut := min(page*os.Getpagesize(), len(first), len(rest))
	return slices.Concat(first[:cut], rest[cut:])
}

// splicePages returns the pages at which two copies can be spliced so that each contributes a page
// in which they differ.
func splicePages(a, b []byte) (pages []int) {
	size := os.Getpagesize()
	var differ []int
	for page := range min(len(a), len(b)) / size {
		if !bytes.Equal(a[page*size:(page+1)*size], b[page*size:(page+1)*size]) {
			differ = append(differ, page)
		}
	}
	if len(differ) > 0 {
		pages = differ[1:]
	}
	return pages
}

// randomCopy returns a random copy, as if file and journal were copied one after the other while
// the ledger is written.
func (h *diskHistory) randomCopy(rng *rand.Rand) (c mixedCopy) {
	at := func() int { return rng.IntN(len(h.states)) }
	one, other, beside := at(), at(), at()
	if rng.IntN(2) == 0 { // soon after one another
		other = min(one+rng.IntN(8), len(h.states)-1)
		beside = min(other+rng.IntN(4), len(h.states)-1)
	}
	a, b, with := h.states[one], h.states[other], h.states[beside]
	c = mixedCopy{fmt.Sprintf("file of instant %d (%s)", one, a.what), a.file, with.journal}
	if pages := splicePages(a.file, b.file); len(pages) > 0 && rng.IntN(4) > 0 {
		page := pages[rng.IntN(len(pages))]
		c.file = splice(a.file, b.file, page)
		c.of += fmt.Sprintf(", from page %d on of instant %d (%s)", page, other, b.what)
	}
	if rng.IntN(4) == 0 {
		c.with = nil
	}
	c.of += fmt.Sprintf("; journal of instant %d (%s), %d segments", beside, with.what, len(c.with))
	return c
}

// put writes a copy to a path that has no journal.
func (c mixedCopy) put(t testing.TB, path string) {
	t.Helper()
	must(t, os.WriteFile(path, c.file, 0o600))
	if c.with != nil {
		must(t, os.Mkdir(path+".journal", 0o700))
	}
	for name, text := range c.with {
		must(t, os.WriteFile(filepath.Join(path+".journal", name), text, 0o600))
	}
}

// Copies of file and journal are taken with cp at any instants, also during checkpoints. A copy
// that mixes two instants does not open. A copy that opens can be written to.
func TestOpen_CopyWhileWriting_IsOneInstantOrRefused(t *testing.T) {
	history, roots := recordHistory(t)
	rng := rand.New(rand.NewPCG(22, 1))
	met := map[string]int{}
	for tried, tries := 0, testenv.Tries(40, 3000, 60_000)/testenv.Step(8); tried < tries || met["put back"] < 2 && tried < 50*tries; tried++ {
		c, path := history.randomCopy(rng), filepath.Join(testenv.TempDir(t), "copied.db")
		c.put(t, path)
		for _, only := range []bool{true, false} {
			if only && (c.with == nil || rng.IntN(4) > 0) {
				continue // a read-only Open of a file without a journal is not audited
			}
			l, err := Open(t.Context(), path, Options{ReadOnly: only})
			how := openOutcome(err)
			met[how]++
			switch {
			case err == nil:
				wantInstant(t, l, c.of, roots)
			case !errors.Is(err, api.ErrCorrupt):
				t.Errorf("%s: %v", c.of, err)
			case how == "audited" && c.with != nil:
				met["put back"]++
				history.putBack(c)
			}
		}
		must(t, os.RemoveAll(filepath.Dir(path)))
	}
	t.Logf("%d instants; %v", len(history.states), met)
	for _, what := range []string{"opened", "audited", "file and journal", "damaged", "put back"} {
		check.That(t, met[what] != 0, "no copy was %s", what)
	}
}

// putBack writes a copy that an audit refused over the original file, and checks that this is
// refused, too. The directory of the journal is a new one.
func (h *diskHistory) putBack(c mixedCopy) {
	h.t.Helper()
	path := string(h.besideFile)
	must(h.t, os.RemoveAll(h.dir()))
	c.put(h.t, path)
	_, err := Open(context.Background(), path, Options{})
	check.That(h.t, errors.Is(err, api.ErrCorrupt), "%s, put back: got the error %v, want ErrCorrupt", c.of, err)
}

// wantInstant checks that a copy is the original ledger at one instant, whose root is in roots. It
// writes to the copy, and closes it.
func wantInstant(t *testing.T, l *Ledger, of string, roots []tlog.Hash) {
	t.Helper()
	defer func() { must(t, l.Close()) }()
	if head, err := l.Head(t.Context(), 0); err != nil || head.Root != roots[head.Events] {
		t.Errorf("%s: the log of %d events was never that of the ledger, error %v", of, head.Events, err)
	}
	verify := func(when string) {
		done, err := l.Verify(t.Context(), api.VerifyRequest{})
		check.That(t, err == nil && done.Problems == 0, "%s: %s, with %d problems, %v", of, when, done.Problems, err)
	}
	if verify("opened"); l.engine.ReadOnly {
		return
	}
	for i := range 3 {
		enroll(t, l, "vote", "1", fmt.Sprint("late ", i))
		must(t, l.engine.Checkpoint())
	}
	verify("written to")
}

// Open audits a copied file until something is committed to it. It does not audit the ledger's own
// file, even after a crash, compacted or moved.
func TestOpen_CopiedFile_IsAudited(t *testing.T) {
	path := votersFile(t, "9", crowd(5)...)
	key := 0
	opened := func(what, path string, audited bool, then func(*Ledger)) {
		t.Helper()
		var log journalLog
		l := open(t, path, Options{Logger: zerolog.New(&log)})
		check.That(t, log.has("audited") == audited, "%s: want audited: %v", what, audited)
		if key++; then != nil {
			release(t, l, releaseOf(t, fmt.Sprint(key), crowd(5)[key%5], fmt.Sprint("0.", 100+key)))
			then(l)
		}
		if l.engine.Queue.Check() == nil {
			closed(t, l)
		}
	}
	opened("closed", path, false, func(l *Ledger) { kill(t, l) })
	opened("after a crash", path, false, func(l *Ledger) {
		must(t, l.Compact(t.Context(), nil))
		must(t, l.engine.Checkpoint())
		kill(t, l)
	})
	opened("compacted, after a crash", path, false, func(l *Ledger) { must(t, l.Compact(t.Context(), nil)) })
	opened("compacted", path, false, func(*Ledger) { copyTree(t, path+".journal", path+".kept") })
	must(t, os.Rename(path+".kept", path+".journal")) // a crash inside Close leaves the same
	opened("closed, with its journal put back", path, true, nil)
	opened("closed again", path, false, func(l *Ledger) { kill(t, l) })
	copyTree(t, path+".journal", path+".kept")
	must(t, errors.Join(os.RemoveAll(path+".journal"), os.Rename(path+".kept", path+".journal")))
	opened("after a crash, with a copy of its journal", path, true, func(*Ledger) {})
	moved := path + ".moved"
	must(t, os.Rename(path, moved))
	opened("moved", moved, false, func(*Ledger) {})
	copied := crashCopy(t, moved)
	opened("copied", copied, true, nil)
	opened("copied, and opened before", copied, true, func(*Ledger) {})
	opened("copied, and written to", copied, false, nil)
}

// openOutcome names the result of opening a copy.
func openOutcome(err error) string {
	switch {
	case err == nil:
		return "opened"
	case strings.Contains(err.Error(), "a copy that was made during writes"):
		return "audited"
	case errors.Is(err, api.ErrJournal):
		return "file and journal"
	}
	return "damaged"
}

// Each way to copy reports its progress. If its context ends at any of these reports, no file is
// left, and the ledger goes on.
func TestCopy_ContextEndsAtAnyProgress_LeavesNoFile(t *testing.T) {
	path := votersFile(t, "1", crowd(6_000)...)
	l := open(t, path, Options{})
	dir, made := testenv.TempDir(t), 0
	for name, write := range map[string]func(ctx context.Context, p func(done, total int)) error{
		"backup": func(ctx context.Context, p func(done, total int)) error {
			return check.Err(l.Backup(ctx, filepath.Join(dir, "backup"), p))
		},
		"records": func(ctx context.Context, p func(done, total int)) error {
			return check.Err(l.CompactTo(ctx, filepath.Join(dir, "records"), p))
		},
		"compact": l.Compact,
	} {
		reports, last := 0, 0
		must(t, write(t.Context(), func(done, total int) {
			if reports++; done < last || done > total {
				t.Errorf("%s: progress %d of %d after %d", name, done, total, last)
			}
			last = done
		}))
		check.That(t, reports >= 3, "%s: progress was reported %d times", name, reports)
		if name != "compact" {
			must(t, os.Remove(filepath.Join(dir, name)))
		}
		for end := 1; end <= reports; end++ {
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			err := write(ctx, func(int, int) {
				if calls++; calls == end {
					cancel()
				}
			})
			cancel()
			if err == nil && name != "compact" {
				must(t, os.Remove(filepath.Join(dir, name))) // the copy was complete: it does not wait for the progress function
			} else if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s, stopped at report %d of %d: %v", name, end, reports, err)
			}
			for _, at := range []string{dir, filepath.Dir(path)} {
				entries := check.Value(os.ReadDir(at))(t)
				if at == dir && len(entries) > 0 || len(entries) > 2 { // the file and its journal
					t.Errorf("%s, stopped: the files left are %v", name, entries)
				}
			}
			enroll(t, l, "vote", "1", "late "+name+crowd(end)[end-1])
			made++
		}
	}
	check.Equal(t, stats(t, l).Objects, uint64(6_000+made), "people, of whom %d came late", made)
}

// closingStore is a store that closes its ledger when a copy begins.
type closingStore struct {
	kv.Store
	closes func() error
}

func (c closingStore) CopyTo(ctx context.Context, path string, how kv.Copying, p kv.Progress, check func(string) error) error {
	return errors.Join(c.closes(), c.Store.(kv.Copier).CopyTo(ctx, path, how, p, check))
}

func (c closingStore) Compact(ctx context.Context, p kv.Progress) error {
	return errors.Join(c.closes(), c.Store.(kv.Copier).Compact(ctx, p))
}

// A copy of a ledger that is closed during it returns ErrClosed, not an error of the database
// below.
func TestCopy_LedgerCloses_IsErrClosed(t *testing.T) {
	for name, write := range map[string]func(l *Ledger, path string) error{
		"backup":  func(l *Ledger, path string) error { return check.Err(l.Backup(t.Context(), path, nil)) },
		"records": func(l *Ledger, path string) error { return check.Err(l.CompactTo(t.Context(), path, nil)) },
		"compact": func(l *Ledger, _ string) error { return l.Compact(t.Context(), nil) },
	} {
		l := check.Value(Open(t.Context(), votersFile(t, "1", "ann"), Options{}))(t)
		l.engine.Store = closingStore{l.engine.Store, l.Close}
		err := write(l, filepath.Join(testenv.TempDir(t), "copy"))
		check.That(t, errors.Is(err, api.ErrClosed) && err.Error() == api.ErrClosed.Error(), "%s: %v", name, err)
	}
}
