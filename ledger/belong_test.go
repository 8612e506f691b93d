package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/journalfile"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/journal"
)

// crashed returns a ledger as a process left it that died with so many releases in the journal.
func crashed(t testing.TB, releases int) (path string) {
	t.Helper()
	names := crowd(releases)
	path = votersFile(t, "9", names...)
	l := open(t, path, Options{})
	releaseEach(t, l, "1", names...)
	path = crashCopy(t, path)
	closed(t, l)
	return path
}

// copyTree replaces a directory by a copy of another.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	must(t, os.CopyFS(to, os.DirFS(from)))
}

// segment returns the file in a journal that has its groups.
func segment(t testing.TB, path string) string {
	t.Helper()
	all := check.Value(filepath.Glob(filepath.Join(path+".journal", "*.segment")))(t)
	return all[len(all)-1]
}

// What lies beside a file as its journal, and is not what its last process left there, is refused,
// for reading and for writing; and nothing is written.
func TestAJournalThatDoesNotBelong(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, path string)
		want   error
	}{
		"none":              {func(t *testing.T, path string) { must(t, os.RemoveAll(path+".journal")) }, api.ErrJournal},
		"of another ledger": {func(t *testing.T, path string) { copyTree(t, crashed(t, 5)+".journal", path+".journal") }, api.ErrJournal},
		"a segment of another ledger": {func(t *testing.T, path string) {
			must(t, os.WriteFile(filepath.Join(path+".journal", "00000002.segment"), content(t, segment(t, crashed(t, 5))), 0o600))
		}, api.ErrJournal},
		"a segment of an older journal": {func(t *testing.T, path string) {
			older := content(t, segment(t, path))
			closed(t, open(t, path, Options{})) // folds it
			l := open(t, path, Options{})
			release(t, l, releaseOf(t, "more", crowd(2)[1], "2"))
			dies(t, l)
			must(t, os.WriteFile(filepath.Join(path+".journal", "00000002.segment"), older, 0o600))
		}, api.ErrJournal},
		"a segment under another number": {func(t *testing.T, path string) {
			must(t, os.Rename(segment(t, path), filepath.Join(path+".journal", "00000009.segment")))
		}, api.ErrJournal},
		"with half a header": {func(t *testing.T, path string) { must(t, os.Truncate(segment(t, path), 50)) }, api.ErrJournal},
		"of another time": {func(t *testing.T, path string) {
			before := content(t, path)
			l := open(t, path, Options{})
			release(t, l, releaseOf(t, "more", crowd(2)[1], "2"))
			later := crashCopy(t, path)
			closed(t, l)
			must(t, os.WriteFile(path, before, 0o600))
			copyTree(t, later+".journal", path+".journal")
		}, api.ErrJournal},
		"beside an older copy": {func(t *testing.T, path string) {
			l := open(t, path, Options{})
			backup := path + ".backup"
			must(t, check.Err(l.Backup(t.Context(), backup, nil)))
			release(t, l, releaseOf(t, "more", crowd(2)[1], "2"))
			copied := crashCopy(t, path)
			closed(t, l)
			must(t, os.Rename(backup, path))
			copyTree(t, copied+".journal", path+".journal")
		}, api.ErrJournal},
		"without its segments": {func(t *testing.T, path string) { must(t, os.Remove(segment(t, path))) }, api.ErrJournal},
		"damaged in the midst": {func(t *testing.T, path string) {
			text := content(t, segment(t, path))
			at := bytes.Index(text, []byte(crowd(2)[1]))
			if text[at] ^= 1; at < 0 {
				t.Fatal("nobody is there")
			}
			must(t, os.WriteFile(segment(t, path), text, 0o600))
		}, api.ErrJournal},
		"a file": {func(t *testing.T, path string) {
			must(t, os.RemoveAll(path+".journal"))
			must(t, os.WriteFile(path+".journal", []byte("journal"), 0o600))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := crashed(t, 20)
			test.change(t, path)
			before := tree(t, path)
			for _, only := range []bool{true, false} {
				l, err := Open(t.Context(), path, Options{ReadOnly: only})
				if err == nil {
					t.Fatalf("opened, with %d events", stats(t, l).Events)
				}
				check.That(t, test.want == nil || errors.Is(err, test.want) && saysWhatToDo(err),
					"got the error %v", err)
			}
			if after := tree(t, path); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("something was written: %v, before %v", after, before)
			}
			check.That(t, os.Rename(path+".journal", path+".journal.gone") != nil ||
				!errors.Is(journalfile.Sweep(path+".journal"), journal.ErrInUse), "the journal is still open")
		})
	}
}

// saysWhatToDo tells whether an error about a journal that does not belong to a file helps.
func saysWhatToDo(err error) bool {
	return strings.Contains(err.Error(), "put back the file and the journal that were used together, or restore a backup") ||
		strings.Contains(err.Error(), "remove the journal only if")
}

// dies leaves a ledger as a process does that dies: file and journal stay where they are.
func dies(t testing.TB, l *Ledger) {
	t.Helper()
	l.engine.Queue.Stop(errors.New("the process has died"))
	closed(t, l)
}

// What could not be opened is not held: whoever mends what was wrong opens it, and everything is
// there.
func TestAnOpenThatFailsHoldsNothing(t *testing.T) {
	for name, wrong := range map[string]Options{
		"keys that are written, and nobody to sign": {TruthKey: truthKey(), Publish: Publishing{To: func(context.Context, []byte) error { return nil }, Events: 1}},
		"a checkpoint that nobody has signed":       {Checkpoint: []byte("checkpoint")},
		"a truth key that is too short":             {TruthKey: []byte("short")},
	} {
		for _, path := range []string{votersFile(t, "9", crowd(3)...), crashed(t, 3)} {
			check.Need(t, check.Err(Open(t.Context(), path, wrong)) != nil, "%s: opened", name)
			l := open(t, path, Options{TruthKey: truthKey()})
			release(t, l, releaseOf(t, "more", crowd(3)[2], "2"))
			wantClean(t, l, api.VerifyRequest{})
			closed(t, l)
			files := tree(t, path)
			check.That(t, len(files) == 1, "%s: there is %v", name, files)
		}
	}
}

// An older pair of file and journal, whole as it is, is refused by whoever has a newer checkpoint;
// and so is one whose file alone is older than the checkpoint only if its journal is, too.
func TestAnOlderPairIsARollback(t *testing.T) {
	path, options := witnessed(t, "ann", "bob")
	l := open(t, path, options)
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	older := crashCopy(t, path)
	release(t, l, releaseOf(t, "2", "bob", "0.5"))
	options.Checkpoint = checkpointOf(t, l)
	newer := crashCopy(t, path)
	dies(t, l)
	for _, only := range []bool{true, false} {
		options.ReadOnly = only
		before := content(t, older)
		_, err := Open(t.Context(), older, options)
		check.That(t, errors.As(err, new(*api.RollbackError)), "read only %v: %v", only, err)
		check.That(t, bytes.Equal(content(t, older), before), "the file has changed")
		for _, path := range []string{path, newer} {
			closed(t, open(t, path, options))
		}
	}
	options.Checkpoint = nil
	l = open(t, older, options)
	check.Equal(t, objectOf(t, l, "ann").Spent, eps(t, "0.5"), "in the pair that was refused ann has spent")
	wantClean(t, l, api.VerifyRequest{})
}

// Where the journal of another ledger lies no file is made, nor a copy: what was committed last
// might be lost with it.
func TestNothingIsMadeBesideTheJournalOfAnother(t *testing.T) {
	path := crashed(t, 3)
	must(t, os.Rename(path, path+".away"))
	l := open(t, votersFile(t, "9", "ann"), Options{})
	for name, err := range map[string]error{
		"Create":    Create(t.Context(), path, CreateOptions{}),
		"Backup":    check.Err(l.Backup(t.Context(), path, nil)),
		"CompactTo": check.Err(l.CompactTo(t.Context(), path, nil)),
	} {
		check.That(t, errors.Is(err, fs.ErrExist) && strings.Contains(err.Error(), path+".journal"),
			"%s: %v", name, err)
	}
	must(t, os.Rename(path+".away", path))
	wantClean(t, open(t, path, Options{}), api.VerifyRequest{})
}

// A journal that ends early, as it does when the last append was cut off, is a ledger of an earlier
// instant: whole groups, and no part of one. Whoever was told of what is missing has a checkpoint
// that says so.
func TestAJournalThatEndsEarly(t *testing.T) {
	path := crashed(t, 20)
	text := content(t, segment(t, path))
	all := len(bytes.TrimRight(text, "\x00"))
	for cut := 112; cut < all; cut += 1 + (all-112)/tests.Tries(20, 100, 2000) {
		short := crashCopy(t, path)
		must(t, os.WriteFile(segment(t, short), text[:cut], 0o600))
		l := open(t, short, Options{})
		n := stats(t, l).Events
		check.That(t, (n-stats(t, l).Objects-4)%2 == 0, "cut at byte %d there are %d events: half of a request", cut, n)
		wantClean(t, l, api.VerifyRequest{})
		closed(t, l)
	}
}

// What was released of somebody is nowhere beside the file when Forget returns; nor is it after a
// crash before that, once the ledger was opened for writing.
func TestForgetLeavesNothingInTheJournal(t *testing.T) {
	path := votersFile(t, "9", "ann", "bob")
	l := open(t, path, Options{})
	releaseEach(t, l, "1", "ann", "bob")
	secrets := secretsOf(t, l, "ann")
	found := secretsBeside(t, path, secrets)
	check.Need(t, found != 0, "the journal has nothing of ann to begin with")
	copied := crashCopy(t, path)
	forget(t, l, "ann")
	release(t, l, releaseOf(t, "more", "bob", "2"))
	check.Equal(t, secretsBeside(t, path, secrets), 0, "secrets that are left beside the file")
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget ann", Object: "ann"}))
	closed(t, l)
	again := open(t, copied, Options{})
	check.Equal(t, secretsBeside(t, copied, secrets), 0, "secrets that are left beside the file after a crash")
	closed(t, again)
}

// secretsBeside counts the secrets that are in files beside a ledger's own.
func secretsBeside(t testing.TB, path string, secrets [][]byte) (found int) {
	t.Helper()
	must(t, filepath.WalkDir(filepath.Dir(path), func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || at == path {
			return err
		}
		text, err := os.ReadFile(at)
		if errors.Is(err, fs.ErrNotExist) { // it was trimmed meanwhile
			return nil
		}
		must(t, err)
		for _, secret := range secrets {
			if bytes.Contains(text, secret) {
				found++
			}
		}
		return nil
	}))
	return found
}

// journalLog keeps what is logged, by whatever goroutine.
type journalLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *journalLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *journalLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *journalLog) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.text.Bytes(), []byte(text))
}

// A checkpoint that cannot be made is told, and tried again. Until there is room again commits go
// on as long as there is memory; then they say why they do not. Nothing is lost.
func TestACheckpointThatFailsLosesNothing(t *testing.T) {
	names := crowd(500)
	path := votersFile(t, "9", names...)
	var log journalLog
	l, f := openHeld(t, path, Options{Memory: 20 << 10, Logger: zerolog.New(&log)})
	release(t, l, releaseOf(t, "first", names[0], "0.5"))
	f.fail(errDisk)
	done, refused := 0, error(nil)
	for ; done < len(names) && refused == nil; done++ {
		_, refused = l.Release(t.Context(), releaseOf(t, fmt.Sprint(done), names[done], "1"))
	}
	check.Need(t, errors.Is(refused, errDisk) && !errors.Is(refused, api.ErrStopped) && done >= 10,
		"after %d releases: %v", done, refused)
	done-- // the last one was refused
	wantErr(t, l.engine.Checkpoint(), errDisk)
	log.await(t, "checkpoint failed")
	o := objectOf(t, l, names[done-1])
	check.That(t, o.Spent == eps(t, "1"), "meanwhile %s has spent %s", o.Object, o.Spent)
	copied := crashCopy(t, path)
	f.fail(nil)
	must(t, l.engine.Checkpoint())
	release(t, l, releaseOf(t, fmt.Sprint(done), names[done], "1"))
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
	for _, at := range []string{path, copied} {
		l := open(t, at, Options{})
		wantSpent(t, l, "1", names[:done]...)
		wantClean(t, l, api.VerifyRequest{})
		closed(t, l)
	}
}

// A checkpoint of which nobody knows whether it is in the file ends the ledger; opened again, it
// has everything. So does one whose last checkpoint, in Close, fails.
func TestAnUncertainCheckpointStopsTheLedger(t *testing.T) {
	path := votersFile(t, "9", "ann", "bob")
	l, f := openHeld(t, path, Options{})
	release(t, l, releaseOf(t, "1", "ann", "1"))
	f.fail(errDisk)
	wantErr(t, l.Close(), errDisk)
	l, f = openHeld(t, path, Options{})
	check.Equal(t, objectOf(t, l, "ann").Spent, eps(t, "1"), "after a Close that failed ann has spent")
	release(t, l, releaseOf(t, "2", "bob", "1"))
	f.fail(fmt.Errorf("%w: %w", kv.ErrUncertain, errDisk))
	wantErr(t, l.engine.Checkpoint(), api.ErrStopped)
	wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "3", "bob", "2"))), api.ErrStopped)
	must(t, l.Close())
	l = open(t, path, Options{})
	check.Equal(t, objectOf(t, l, "bob").Spent, eps(t, "1"), "opened again, bob has spent")
	wantClean(t, l, api.VerifyRequest{})
}

// otherJournals changes what is read from a journal.
type otherJournals struct {
	besideFile
	change func(*journal.Group)
}

type otherJournal struct {
	journal.Journal
	change func(*journal.Group)
}

func (a otherJournals) Find(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
	j, err := a.besideFile.Find(ctx, w)
	return otherJournal{j, a.change}, err
}

func (a otherJournal) Read(ctx context.Context, after journal.Position) iter.Seq2[journal.Group, error] {
	return func(yield func(journal.Group, error) bool) {
		for g, err := range a.Journal.Read(ctx, after) {
			a.change(&g)
			if !yield(g, err) {
				return
			}
		}
	}
}

// A group holds whole requests only, whatever its root is of.
func TestAGroupIsWhole(t *testing.T) {
	path := crashed(t, 1)
	file := check.Value(bolt.Open(path, false))(t)
	defer file.Close()
	var edge *merkle.Edge
	must(t, file.View(func(r kv.Reader) error {
		s, err := state.Snapshot(r)
		if err == nil {
			edge, err = merkle.LoadEdge(s.Counters.Events, s)
		}
		return err
	}))
	half := func(g *journal.Group) {
		_, written, err := event.ReadBare(g.Before.Events+1, g.Records[0], nil)
		first := edge.Clone() // the group is read more than once
		if err == nil {
			_, err = first.Append(written.Leaf())
		}
		if err != nil {
			t.Error(err) // and no more: this is another goroutine
		}
		g.Records, g.After = g.Records[:1], journal.Position{Events: g.Before.Events + 1, Root: first.Root()}
	}
	l := check.Value(readStore(t.Context(), file, otherJournals{besideFile(path), half}, Options{}))(t)
	if err := l.begin(t.Context(), Options{}); !errors.Is(err, api.ErrCorrupt) || !strings.Contains(err.Error(), "1 events of a request") {
		t.Errorf("half a request: %v", err)
	}
}

// A journal may be somebody else's code, and its bytes have no secret: that the events come to the
// root which the group says is what shows that they are the ledger's.
func TestAGroupMustComeToItsRoot(t *testing.T) {
	for name, change := range map[string]func(*journal.Group){
		"another root":     func(g *journal.Group) { g.After.Root[3] ^= 1 },
		"another response": func(g *journal.Group) { g.Records[0][len(g.Records[0])-2] ^= 1 },
		"a record less":    func(g *journal.Group) { g.Records = g.Records[1:] },
		"half a record":    func(g *journal.Group) { g.Records[0] = g.Records[0][:len(g.Records[0])/2] },
		"the order":        func(g *journal.Group) { g.Records[0], g.Records[1] = g.Records[1], g.Records[0] },
		"a gap":            func(g *journal.Group) { g.Before.Events++; g.After.Events++ },
		"another place":    func(g *journal.Group) { g.Before.Events-- },
	} {
		path := crashed(t, 3)
		file := check.Value(bolt.Open(path, false))(t)
		l := check.Value(readStore(t.Context(), file, otherJournals{besideFile(path), change}, Options{}))(t)
		err := l.begin(t.Context(), Options{})
		check.That(t, errors.Is(err, api.ErrCorrupt), "%s: %v", name, err)
		must(t, file.Close())
		l = open(t, path, Options{ReadOnly: true})
		check.That(t, len(responses(t, l, "vote", eps(t, "1"))) == 3, "%s: not all is there afterwards", name)
	}
}
