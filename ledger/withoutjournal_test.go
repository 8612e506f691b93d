package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/observe"
)

// audits notes how many problems each audit found.
type audits struct {
	silentObserver
	problems []uint64
}

func (a *audits) Audited(done observe.Audit) { a.problems = append(a.problems, done.Problems) }

// withoutJournal opens a file whose journal is missing, checks that the file is never presented as
// the whole ledger, and returns its number of events.
func withoutJournal(t *testing.T, path string) uint64 {
	t.Helper()
	before := content(t, path)
	wantErr(t, check.Err(Open(t.Context(), path, Options{ReadOnly: true})), api.ErrJournal)
	seen := &audits{}
	l := open(t, path, Options{ReadOnly: true, WithoutJournal: true, Observer: seen})
	check.That(t, l.About().MissingJournal != "", "About does not say that the journal is missing")
	var found []api.Finding
	done, err := l.Verify(t.Context(), api.VerifyRequest{Report: func(p api.Finding) { found = append(found, p) }})
	check.That(t, err == nil && done.Problems == 1 && len(found) == 1 && found[0].Kind == "journal" &&
		found[0].Event == done.Events, "Verify: %d problems, reported %v: %v", done.Problems, found, err)
	last := seen.problems[len(seen.problems)-1]
	check.That(t, last == 1, "the observer gets %d problems", last)
	wantErr(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: crowd(1)[0]}), api.ErrReadOnly)
	copied := filepath.Join(testenv.TempDir(t), "copy.db")
	for _, write := range []func(context.Context, string, func(done, total int)) (api.Copied, error){l.Backup, l.CompactTo} {
		must(t, check.Err(write(t.Context(), copied, nil)))
		_, err := Open(t.Context(), copied, Options{})
		check.That(t, errors.Is(err, api.ErrJournal), "a copy of the file alone is opened for writing: %v", err)
		again := open(t, copied, Options{ReadOnly: true, WithoutJournal: true})
		if again.About() != l.About() || stats(t, again).Events != done.Events {
			t.Errorf("the copy is %+v with %d events", again.About(), stats(t, again).Events)
		}
		closed(t, again)
		must(t, os.Remove(copied))
	}
	closed(t, l)
	check.That(t, bytes.Equal(before, content(t, path)), "the file was changed")
	return done.Events
}

func TestOpen_JournalIsMissing_ReadsTheFileAlone(t *testing.T) {
	for name, lost := range map[string]func(*testing.T) string{
		"beside the file, removed": func(t *testing.T) string {
			path := crashedFile(t, 20)
			must(t, os.RemoveAll(path+".journal"))
			return path
		},
		"beside the file, which was copied without it": func(t *testing.T) string { return copyOfFile(t, crashedFile(t, 20)) },
		"elsewhere": func(t *testing.T) string {
			path, h := votersFile(t, "9", crowd(20)...), newMemoryHost()
			l := open(t, path, h.options())
			for i, name := range crowd(20) {
				release(t, l, releaseOf(t, fmt.Sprint(i), name, "1"))
			}
			copied := copyOfFile(t, path)
			closed(t, l)
			return copied
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := open(t, votersFile(t, "9", crowd(20)...), Options{ReadOnly: true})
			want := stats(t, first).Events
			closed(t, first)
			events := withoutJournal(t, lost(t))
			check.That(t, events == want, "the file has %d events, not the %d of its last checkpoint", events, want)
		})
	}
}

// A journal that exists is read, whether it may be missing or not.
func TestOpen_JournalMayBeMissing_ReadsTheOneThatIsThere(t *testing.T) {
	path := crashedFile(t, 20)
	for _, without := range []bool{false, true} {
		l := open(t, path, Options{ReadOnly: true, WithoutJournal: without})
		if n := countKind(events(t, l), "released"); n != 20 || l.About().MissingJournal != "" {
			t.Errorf("%d releases, %q is missing", n, l.About().MissingJournal)
		}
		wantClean(t, l, api.VerifyRequest{})
		closed(t, l)
	}
}

// A journal that is not the file's is refused, and not treated as missing: another ledger's, an
// earlier one of the same ledger, and a damaged one.
func TestOpen_JournalWasReplaced_IsNotTakenForMissing(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string){
		"another ledger's": func(t *testing.T, path string) { copyTree(t, crashedFile(t, 3)+".journal", path+".journal") },
		"an earlier one of the same ledger": func(t *testing.T, path string) {
			earlier := filepath.Join(testenv.TempDir(t), "earlier")
			copyTree(t, path+".journal", earlier)
			closed(t, open(t, path, Options{}))
			l := open(t, path, Options{})
			release(t, l, releaseOf(t, "later", crowd(20)[0], "2"))
			later := crashCopy(t, path)
			closed(t, l)
			must(t, os.WriteFile(path, content(t, later), 0o600))
			copyTree(t, earlier, path+".journal")
		},
		"damaged": func(t *testing.T, path string) { must(t, os.Truncate(lastSegment(t, path), 10)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := crashedFile(t, 20)
			replace(t, path)
			l, err := Open(t.Context(), path, Options{ReadOnly: true, WithoutJournal: true})
			wantErr(t, err, api.ErrJournal)
			if err == nil {
				closed(t, l)
			}
		})
	}
}

// A copy that was made while the file was written to is audited, and refused.
func TestOpen_CopyWithoutItsJournalIsDamaged_IsRefused(t *testing.T) {
	path := copyOfFile(t, crashedFile(t, 20))
	s := check.Value(bolt.Open(path, false))(t)
	putRecord(t, s, state.BucketTallies, state.TallyKey{Question: 1, Epsilon: eps(t, "1"), Value: 2}.Bytes(), []byte{1, 0})
	must(t, s.Close())
	l, err := Open(t.Context(), path, Options{ReadOnly: true, WithoutJournal: true})
	wantErr(t, err, api.ErrCorrupt)
	if err == nil {
		closed(t, l)
	}
}

func TestOpen_WithoutJournalAndWriting_IsInvalid(t *testing.T) {
	path := crashedFile(t, 3)
	must(t, os.RemoveAll(path+".journal"))
	signer, _, _ := logKey(t, "sluice-test", 1)
	for name, o := range map[string]Options{
		"for writing":    {},
		"a standby":      {Standby: true, ReadOnly: true, Journal: newMemoryHost().options().Journal},
		"with a journal": {ReadOnly: true, Journal: newMemoryHost().options().Journal},
		"with a signer":  {ReadOnly: true, Signer: signer},
	} {
		o.WithoutJournal = true
		l, err := Open(t.Context(), path, o)
		if err == nil {
			closed(t, l)
		}
		check.That(t, errors.Is(err, api.ErrInvalid) && strings.Contains(err.Error(), "WithoutJournal"),
			"%s: %v", name, err)
	}
}
