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

// frame is what a ledger has on the disk at one instant.
type frame struct {
	what    string
	file    []byte
	journal map[string][]byte // nil if there is none
}

// film is the story of a ledger, a frame for each write to its file and its journal.
type film struct {
	kv.Store
	besideFile
	t      testing.TB
	frames []frame
}

// shoot adds a frame, unless nothing has changed.
func (f *film) shoot(what string) {
	f.t.Helper()
	now := frame{what: what, file: content(f.t, string(f.besideFile))}
	entries, err := os.ReadDir(f.dir())
	if err == nil {
		now.journal = map[string][]byte{}
	} else if !errors.Is(err, fs.ErrNotExist) {
		f.t.Fatal(err)
	}
	for _, e := range entries {
		now.journal[e.Name()] = bytes.TrimRight(content(f.t, filepath.Join(f.dir(), e.Name())), "\x00") // which is padding
	}
	if n := len(f.frames); n > 0 && bytes.Equal(f.frames[n-1].file, now.file) && maps.EqualFunc(f.frames[n-1].journal, now.journal, bytes.Equal) {
		return
	}
	f.frames = append(f.frames, now)
}

func (f *film) Update(fn func(kv.Writer) error) error {
	f.shoot("before a checkpoint")
	defer f.shoot("checkpoint written")
	return f.Store.Update(fn)
}

func (f *film) Make(w journal.Wanted) (journal.Journal, error) {
	j, err := f.besideFile.Make(w)
	f.shoot("journal made")
	return filmed{j, f}, err
}

func (f *film) Remove(j journal.Journal) error {
	f.shoot("journal to be removed")
	defer f.shoot("journal removed")
	return f.besideFile.Remove(j.(filmed).Journal)
}

// filmed is the journal in a film.
type filmed struct {
	journal.Journal
	film *film
}

func (j filmed) Append(ctx context.Context, g journal.Group) error {
	defer j.film.shoot("appended")
	return j.Journal.Append(ctx, g)
}

func (j filmed) Trim(ctx context.Context, at journal.Position) error {
	j.film.shoot("to be trimmed")
	defer j.film.shoot("trimmed")
	return j.Journal.Trim(ctx, at)
}

// filmLife films a ledger that is opened and closed some times, and returns the roots of its log,
// by the number of events.
func filmLife(t testing.TB) (f *film, roots []tlog.Hash) {
	t.Helper()
	names := crowd(120)
	path := create(t)
	closed(t, sellers(t, open(t, path, Options{}), "9", "9", names...))
	f = &film{besideFile: besideFile(path), t: t}
	for life := range 3 {
		file := check.Value(bolt.Open(path, false))(t)
		f.Store = file
		f.shoot("at rest")
		l := openOver(t, f, f, Options{})
		for i := range 16 {
			name := names[(i*37+life*11)%len(names)]
			release(t, l, releaseOf(t, fmt.Sprint("r", life, i), name, fmt.Sprint(1+life)))
			switch i % 4 {
			case 1:
				must(t, l.engine.Checkpoint())
			case 3:
				sell(t, l, purchase(t, fmt.Sprint("s", life, i), "acme", fmt.Sprint(1+life), name))
			}
			if i == 7 {
				forget(t, l, names[100+life])
			}
		}
		closed(t, l)
		f.shoot("closed")
	}
	l := open(t, path, Options{ReadOnly: true})
	roots = make([]tlog.Hash, 1, 1000)
	for n := range stats(t, l).Events {
		head := check.Value(l.Head(t.Context(), n+1))(t)
		roots = append(roots, head.Root)
	}
	closed(t, l)
	return f, roots
}

// copied is a copy of a file, of some instants, with a journal of another.
type copied struct {
	of   string
	file []byte
	with map[string][]byte
}

// spliced is what comes of copying a file while it is written to: its first pages as they were at
// one instant, and the others as they were at another.
func spliced(first, rest []byte, page int) []byte {
	cut := min(page*os.Getpagesize(), len(first), len(rest))
	return slices.Concat(first[:cut], rest[cut:])
}

// parts returns the pages at which copies of two instants may part, so that each has something of
// its own.
func parts(a, b []byte) (pages []int) {
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

// someCopy copies file and journal, one after the other, while the ledger goes on.
func (f *film) someCopy(rng *rand.Rand) (c copied) {
	at := func() int { return rng.IntN(len(f.frames)) }
	one, other, beside := at(), at(), at()
	if rng.IntN(2) == 0 { // soon behind one another
		other = min(one+rng.IntN(8), len(f.frames)-1)
		beside = min(other+rng.IntN(4), len(f.frames)-1)
	}
	a, b, with := f.frames[one], f.frames[other], f.frames[beside]
	c = copied{fmt.Sprintf("file of instant %d (%s)", one, a.what), a.file, with.journal}
	if pages := parts(a.file, b.file); len(pages) > 0 && rng.IntN(4) > 0 {
		page := pages[rng.IntN(len(pages))]
		c.file = spliced(a.file, b.file, page)
		c.of += fmt.Sprintf(", from page %d on of instant %d (%s)", page, other, b.what)
	}
	if rng.IntN(4) == 0 {
		c.with = nil
	}
	c.of += fmt.Sprintf("; journal of instant %d (%s), %d segments", beside, with.what, len(c.with))
	return c
}

// put writes a copy to a path where there is no journal.
func (c copied) put(t testing.TB, path string) {
	t.Helper()
	must(t, os.WriteFile(path, c.file, 0o600))
	if c.with != nil {
		must(t, os.Mkdir(path+".journal", 0o700))
	}
	for name, text := range c.with {
		must(t, os.WriteFile(filepath.Join(path+".journal", name), text, 0o600))
	}
}

// Copies of file and journal taken with cp at any instants, in the midst of checkpoints too: none
// opens that mixes two of them. What opens can be written to.
func TestACopyIsOfOneInstantOrRefused(t *testing.T) {
	f, roots := filmLife(t)
	rng := rand.New(rand.NewPCG(22, 1))
	met := map[string]int{}
	for tried, tries := 0, testenv.Tries(40, 3000, 60_000)/testenv.Step(8); tried < tries || met["put back"] < 2 && tried < 50*tries; tried++ {
		c, path := f.someCopy(rng), filepath.Join(testenv.TempDir(t), "copied.db")
		c.put(t, path)
		for _, only := range []bool{true, false} {
			if only && (c.with == nil || rng.IntN(4) > 0) {
				continue // who only reads a file without a journal is shown what is there
			}
			l, err := Open(t.Context(), path, Options{ReadOnly: only})
			how := outcome(err)
			met[how]++
			switch {
			case err == nil:
				wantInstant(t, l, c.of, roots)
			case !errors.Is(err, api.ErrCorrupt):
				t.Errorf("%s: %v", c.of, err)
			case how == "audited" && c.with != nil:
				met["put back"]++
				f.putBack(c)
			}
		}
		must(t, os.RemoveAll(filepath.Dir(path)))
	}
	t.Logf("%d instants; %v", len(f.frames), met)
	for _, what := range []string{"opened", "audited", "file and journal", "damaged", "put back"} {
		check.That(t, met[what] != 0, "no copy was %s", what)
	}
}

// putBack writes a copy that was audited, and refused, over the file that it is a copy of. The
// journal is another directory.
func (f *film) putBack(c copied) {
	f.t.Helper()
	path := string(f.besideFile)
	must(f.t, os.RemoveAll(f.dir()))
	c.put(f.t, path)
	_, err := Open(context.Background(), path, Options{})
	check.That(f.t, errors.Is(err, api.ErrCorrupt), "%s, put back: %v", c.of, err)
}

// wantInstant fails unless a ledger is what another one, whose roots these are, was at one instant;
// and writes to it, and closes it.
func wantInstant(t *testing.T, l *Ledger, of string, roots []tlog.Hash) {
	t.Helper()
	defer func() { must(t, l.Close()) }()
	if head, err := l.Head(t.Context(), 0); err != nil || head.Root != roots[head.Events] {
		t.Errorf("%s: a log of %d events that never was, %v", of, head.Events, err)
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

// The ledger's own file is not audited, after a crash or at rest, nor where it was compacted or
// moved. A copy is, until something is committed to it.
func TestWhatIsAudited(t *testing.T) {
	path := votersFile(t, "9", crowd(5)...)
	key := 0
	opened := func(what, path string, audited bool, then func(*Ledger)) {
		t.Helper()
		var log journalLog
		l := open(t, path, Options{Logger: zerolog.New(&log)})
		check.That(t, log.has("audited") == audited, "%s: audited is not %v", what, audited)
		if key++; then != nil {
			release(t, l, releaseOf(t, fmt.Sprint(key), crowd(5)[key%5], fmt.Sprint("0.", 100+key)))
			then(l)
		}
		if l.engine.Queue.Check() == nil {
			closed(t, l)
		}
	}
	opened("closed", path, false, func(l *Ledger) { dies(t, l) })
	opened("after a crash", path, false, func(l *Ledger) {
		must(t, l.Compact(t.Context(), nil))
		must(t, l.engine.Checkpoint())
		dies(t, l)
	})
	opened("compacted, after a crash", path, false, func(l *Ledger) { must(t, l.Compact(t.Context(), nil)) })
	opened("compacted", path, false, func(*Ledger) { copyTree(t, path+".journal", path+".kept") })
	must(t, os.Rename(path+".kept", path+".journal")) // which a crash within Close leaves, too
	opened("closed, with its journal put back", path, true, nil)
	opened("closed again", path, false, func(l *Ledger) { dies(t, l) })
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

// outcome says in a word what came of opening a copy.
func outcome(err error) string {
	switch {
	case err == nil:
		return "opened"
	case strings.Contains(err.Error(), "not what a ledger was at one instant"):
		return "audited"
	case errors.Is(err, api.ErrJournal):
		return "file and journal"
	}
	return "damaged"
}

// TestCopiesTellHowFarTheyAreAndCanBeStopped ends the context of each way to copy at each moment at
// which it tells how far it is: it leaves no file then, and the ledger goes on.
func TestCopiesTellHowFarTheyAreAndCanBeStopped(t *testing.T) {
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
		told, last := 0, 0
		must(t, write(t.Context(), func(done, total int) {
			if told++; done < last || done > total {
				t.Errorf("%s: %d of %d after %d", name, done, total, last)
			}
			last = done
		}))
		check.That(t, told >= 3, "%s: told %d times", name, told)
		if name != "compact" {
			must(t, os.Remove(filepath.Join(dir, name)))
		}
		for end := 1; end <= told; end++ {
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			err := write(ctx, func(int, int) {
				if calls++; calls == end {
					cancel()
				}
			})
			cancel()
			if err == nil && name != "compact" {
				must(t, os.Remove(filepath.Join(dir, name))) // all was done when that was reported: a copy waits for no progress function
			} else if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s, stopped when told for the %dth time of %d: %v", name, end, told, err)
			}
			for _, at := range []string{dir, filepath.Dir(path)} {
				entries := check.Value(os.ReadDir(at))(t)
				if at == dir && len(entries) > 0 || len(entries) > 2 { // the file and its journal
					t.Errorf("%s, stopped: there is left %v", name, entries)
				}
			}
			enroll(t, l, "vote", "1", "late "+name+crowd(end)[end-1])
			made++
		}
	}
	check.Equal(t, stats(t, l).Objects, uint64(6_000+made), "people, of whom %d came late", made)
}

// closing is a store whose ledger is closed when it is about to be copied.
type closing struct {
	kv.Store
	closes func() error
}

func (c closing) CopyTo(ctx context.Context, path string, how kv.Copying, p kv.Progress, check func(string) error) error {
	return errors.Join(c.closes(), c.Store.(kv.Copier).CopyTo(ctx, path, how, p, check))
}

func (c closing) Compact(ctx context.Context, p kv.Progress) error {
	return errors.Join(c.closes(), c.Store.(kv.Copier).Compact(ctx, p))
}

// Whoever copies a ledger while it is closed is told so, and not that some database is not open.
func TestACopyOfALedgerThatIsBeingClosed(t *testing.T) {
	for name, write := range map[string]func(l *Ledger, path string) error{
		"backup":  func(l *Ledger, path string) error { return check.Err(l.Backup(t.Context(), path, nil)) },
		"records": func(l *Ledger, path string) error { return check.Err(l.CompactTo(t.Context(), path, nil)) },
		"compact": func(l *Ledger, _ string) error { return l.Compact(t.Context(), nil) },
	} {
		l := check.Value(Open(t.Context(), votersFile(t, "1", "ann"), Options{}))(t)
		l.engine.Store = closing{l.engine.Store, l.Close}
		err := write(l, filepath.Join(testenv.TempDir(t), "copy"))
		check.That(t, errors.Is(err, api.ErrClosed) && err.Error() == api.ErrClosed.Error(), "%s: %v", name, err)
	}
}
