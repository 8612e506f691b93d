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

// crashedFile returns a ledger file as a process leaves it that is killed with this many releases
// in the journal.
func crashedFile(t testing.TB, releases int) (path string) {
	t.Helper()
	names := crowd(releases)
	path = votersFile(t, "9", names...)
	l := open(t, path, Options{})
	releaseEach(t, l, "1", names...)
	path = crashCopy(t, path)
	closed(t, l)
	return path
}

// copyTree replaces the directory to with a copy of from.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	must(t, os.CopyFS(to, os.DirFS(from)))
}

// lastSegment returns the last segment file of the journal beside a ledger file.
func lastSegment(t testing.TB, path string) string {
	t.Helper()
	all := check.Value(filepath.Glob(filepath.Join(path+".journal", "*.segment")))(t)
	return all[len(all)-1]
}

// Open refuses a ledger file whose journal is missing, damaged, or not the one that its last
// process left. It writes nothing, and says what to do.
func TestOpen_ForeignOrDamagedJournal_IsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, path string)
		want   error
	}{
		"none":              {func(t *testing.T, path string) { must(t, os.RemoveAll(path+".journal")) }, api.ErrJournal},
		"of another ledger": {func(t *testing.T, path string) { copyTree(t, crashedFile(t, 5)+".journal", path+".journal") }, api.ErrJournal},
		"a segment of another ledger": {func(t *testing.T, path string) {
			must(t, os.WriteFile(filepath.Join(path+".journal", "00000002.segment"), content(t, lastSegment(t, crashedFile(t, 5))), 0o600))
		}, api.ErrJournal},
		"a segment of an older journal": {func(t *testing.T, path string) {
			older := content(t, lastSegment(t, path))
			closed(t, open(t, path, Options{})) // folds it
			l := open(t, path, Options{})
			release(t, l, releaseOf(t, "more", crowd(2)[1], "2"))
			kill(t, l)
			must(t, os.WriteFile(filepath.Join(path+".journal", "00000002.segment"), older, 0o600))
		}, api.ErrJournal},
		"a segment under another number": {func(t *testing.T, path string) {
			must(t, os.Rename(lastSegment(t, path), filepath.Join(path+".journal", "00000009.segment")))
		}, api.ErrJournal},
		"with half a header": {func(t *testing.T, path string) { must(t, os.Truncate(lastSegment(t, path), 50)) }, api.ErrJournal},
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
		"without its segments": {func(t *testing.T, path string) { must(t, os.Remove(lastSegment(t, path))) }, api.ErrJournal},
		"damaged inside": {func(t *testing.T, path string) {
			text := content(t, lastSegment(t, path))
			at := bytes.Index(text, []byte(crowd(2)[1]))
			if text[at] ^= 1; at < 0 {
				t.Fatal("the segment does not have the object's name")
			}
			must(t, os.WriteFile(lastSegment(t, path), text, 0o600))
		}, api.ErrJournal},
		"a file": {func(t *testing.T, path string) {
			must(t, os.RemoveAll(path+".journal"))
			must(t, os.WriteFile(path+".journal", []byte("journal"), 0o600))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := crashedFile(t, 20)
			test.change(t, path)
			before := tree(t, path)
			for _, only := range []bool{true, false} {
				l, err := Open(t.Context(), path, Options{ReadOnly: only})
				if err == nil {
					t.Fatalf("got a ledger of %d events, want an error", stats(t, l).Events)
				}
				check.That(t, test.want == nil || errors.Is(err, test.want) && saysWhatToDo(err),
					"got the error %v, want %v that says what to do", err, test.want)
			}
			if after := tree(t, path); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the files changed: got %v, want %v", after, before)
			}
			check.That(t, os.Rename(path+".journal", path+".journal.gone") != nil ||
				!errors.Is(journalfile.Sweep(path+".journal"), journal.ErrInUse), "the journal is still open")
		})
	}
}

// saysWhatToDo reports whether an error about a journal that does not belong to the file says what
// to do.
func saysWhatToDo(err error) bool {
	return strings.Contains(err.Error(), "put back the file and the journal that were used together, or restore a backup") ||
		strings.Contains(err.Error(), "remove the journal only if")
}

// kill ends a ledger as if its process were killed: file and journal stay as they are.
func kill(t testing.TB, l *Ledger) {
	t.Helper()
	l.engine.Queue.Stop(errors.New("the process has died"))
	closed(t, l)
}

// After an Open that fails, the ledger opens with valid options, and nothing is lost.
func TestOpen_Fails_LeavesFileUsable(t *testing.T) {
	for name, wrong := range map[string]Options{
		"a new truth key, and no signer":   {TruthKey: truthKey(), Publish: Publishing{To: func(context.Context, []byte) error { return nil }, Events: 1}},
		"a checkpoint without a signature": {Checkpoint: []byte("checkpoint")},
		"a truth key that is too short":    {TruthKey: []byte("short")},
	} {
		for _, path := range []string{votersFile(t, "9", crowd(3)...), crashedFile(t, 3)} {
			check.Need(t, check.Err(Open(t.Context(), path, wrong)) != nil, "%s: got no error from Open", name)
			l := open(t, path, Options{TruthKey: truthKey()})
			release(t, l, releaseOf(t, "more", crowd(3)[2], "2"))
			wantClean(t, l, api.VerifyRequest{})
			closed(t, l)
			files := tree(t, path)
			check.That(t, len(files) == 1, "%s: the files are %v, want the ledger file only", name, files)
		}
	}
}

// An older copy of file and journal, though whole, is refused if the caller has a newer checkpoint.
// A file that is older than the checkpoint opens if its journal reaches it.
func TestOpen_OlderFileAndJournal_IsRollback(t *testing.T) {
	path, options := fileWithLogKey(t, "ann", "bob")
	l := open(t, path, options)
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	older := crashCopy(t, path)
	release(t, l, releaseOf(t, "2", "bob", "0.5"))
	options.Checkpoint = checkpointOf(t, l)
	newer := crashCopy(t, path)
	kill(t, l)
	for _, only := range []bool{true, false} {
		options.ReadOnly = only
		before := content(t, older)
		_, err := Open(t.Context(), older, options)
		check.That(t, errors.As(err, new(*api.RollbackError)), "read only %v: got the error %v, want a RollbackError", only, err)
		check.That(t, bytes.Equal(content(t, older), before), "the file has changed")
		for _, path := range []string{path, newer} {
			closed(t, open(t, path, options))
		}
	}
	options.Checkpoint = nil
	l = open(t, older, options)
	check.Equal(t, objectOf(t, l, "ann").Spent, eps(t, "0.5"), "opened without the checkpoint, ann has spent")
	wantClean(t, l, api.VerifyRequest{})
}

// No ledger and no copy is created where the journal of another ledger is: that may hold commits
// which its file does not have yet.
func TestCreate_ForeignJournalAtPath_IsRefused(t *testing.T) {
	path := crashedFile(t, 3)
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

// A journal that ends early, because the last append was cut off, opens as the ledger of an earlier
// instant: with whole requests only. A caller who knows more has a checkpoint that shows it.
func TestOpen_TruncatedJournal_KeepsWholeRequests(t *testing.T) {
	path := crashedFile(t, 20)
	text := content(t, lastSegment(t, path))
	all := len(bytes.TrimRight(text, "\x00"))
	for cut := 112; cut < all; cut += 1 + (all-112)/tests.Tries(20, 100, 2000) {
		short := crashCopy(t, path)
		must(t, os.WriteFile(lastSegment(t, short), text[:cut], 0o600))
		l := open(t, short, Options{})
		n := stats(t, l).Events
		check.That(t, (n-stats(t, l).Objects-4)%2 == 0, "cut at byte %d: %d events, the last request is incomplete", cut, n)
		wantClean(t, l, api.VerifyRequest{})
		closed(t, l)
	}
}

// When Forget returns, no file beside the ledger has the object's responses. After a crash before
// that, the same holds once the ledger has been opened for writing.
func TestForget_Returns_JournalHasNoSecrets(t *testing.T) {
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

// secretsBeside counts the secrets that are found in files beside the ledger file.
func secretsBeside(t testing.TB, path string, secrets [][]byte) (found int) {
	t.Helper()
	must(t, filepath.WalkDir(filepath.Dir(path), func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || at == path {
			return err
		}
		text, err := os.ReadFile(at)
		if errors.Is(err, fs.ErrNotExist) { // it was trimmed since
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

// journalLog keeps what is logged. Several goroutines may write to it.
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

// A checkpoint that fails is logged and tried again. Commits go on until the memory limit is
// reached, and then return the error of the disk. Nothing is lost.
func TestEngineCheckpoint_DiskFails_LosesNothing(t *testing.T) {
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
		"after %d releases: got the error %v, want that of the disk and no stop", done, refused)
	done-- // the last one was refused
	wantErr(t, l.engine.Checkpoint(), errDisk)
	log.await(t, "checkpoint failed")
	o := objectOf(t, l, names[done-1])
	check.That(t, o.Spent == eps(t, "1"), "while checkpoints fail, %s has spent %s", o.Object, o.Spent)
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

// A checkpoint whose outcome is unknown stops the ledger. Opened again, the ledger has everything,
// as it has after a Close whose checkpoint failed.
func TestEngineCheckpoint_OutcomeUncertain_StopsLedger(t *testing.T) {
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

// alteredJournals opens the journal beside a file, and changes the groups that are read from it.
type alteredJournals struct {
	besideFile
	change func(*journal.Group)
}

type alteredJournal struct {
	journal.Journal
	change func(*journal.Group)
}

func (a alteredJournals) Find(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
	j, err := a.besideFile.Find(ctx, w)
	return alteredJournal{j, a.change}, err
}

func (a alteredJournal) Read(ctx context.Context, after journal.Position) iter.Seq2[journal.Group, error] {
	return func(yield func(journal.Group, error) bool) {
		for g, err := range a.Journal.Read(ctx, after) {
			a.change(&g)
			if !yield(g, err) {
				return
			}
		}
	}
}

// A group that ends inside a request is corrupt, even if its root fits its records.
func TestOpen_JournalGroupWithPartOfRequest_IsCorrupt(t *testing.T) {
	path := crashedFile(t, 1)
	file := check.Value(bolt.Open(path, false))(t)
	defer file.Close()
	var edge *merkle.Frontier
	must(t, file.View(func(r kv.Reader) error {
		s, err := state.Snapshot(r)
		if err == nil {
			edge, err = merkle.LoadFrontier(s.Counters.Events, s)
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
			t.Error(err) // not Fatal: this is another goroutine
		}
		g.Records, g.After = g.Records[:1], journal.Position{Events: g.Before.Events + 1, Root: first.Root()}
	}
	l := check.Value(readStore(t.Context(), file, alteredJournals{besideFile(path), half}, Options{}))(t)
	if err := l.begin(t.Context(), Options{}); !errors.Is(err, api.ErrCorrupt) || !strings.Contains(err.Error(), "1 events of a request") {
		t.Errorf("a group with half a request: got the error %v, want ErrCorrupt", err)
	}
}

// A journal may be the host's own code, and its bytes are not authenticated. What shows that events
// are the ledger's is that they give the root of their group.
func TestOpen_JournalGroupNotMatchingRoot_IsCorrupt(t *testing.T) {
	for name, change := range map[string]func(*journal.Group){
		"another root":     func(g *journal.Group) { g.After.Root[3] ^= 1 },
		"another response": func(g *journal.Group) { g.Records[0][len(g.Records[0])-2] ^= 1 },
		"a record less":    func(g *journal.Group) { g.Records = g.Records[1:] },
		"half a record":    func(g *journal.Group) { g.Records[0] = g.Records[0][:len(g.Records[0])/2] },
		"the order":        func(g *journal.Group) { g.Records[0], g.Records[1] = g.Records[1], g.Records[0] },
		"a gap":            func(g *journal.Group) { g.Before.Events++; g.After.Events++ },
		"another place":    func(g *journal.Group) { g.Before.Events-- },
	} {
		path := crashedFile(t, 3)
		file := check.Value(bolt.Open(path, false))(t)
		l := check.Value(readStore(t.Context(), file, alteredJournals{besideFile(path), change}, Options{}))(t)
		err := l.begin(t.Context(), Options{})
		check.That(t, errors.Is(err, api.ErrCorrupt), "%s: %v", name, err)
		must(t, file.Close())
		l = open(t, path, Options{ReadOnly: true})
		check.That(t, len(responses(t, l, "vote", eps(t, "1"))) == 3, "%s: afterwards responses are missing", name)
	}
}
