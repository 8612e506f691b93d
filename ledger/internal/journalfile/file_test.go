package journalfile

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
)

var shop = [16]byte{'s', 'h', 'o', 'p'}

// A journal in a directory passes the tests of every journal.
func TestJournal_PassesTheJournalTests(t *testing.T) {
	journaltest.Run(t, journaltest.Kind{Large: testenv.Tries(8, 40, 40) << 20, New: func(t *testing.T, at journal.Position) journaltest.Medium {
		dir := testenv.TempDir(t) + "/panel.db.journal"
		made := check.Value(Create(dir, shop, at))(t)
		open := func() (journal.Journal, error) {
			if first := made; first != nil {
				made = nil
				return first, nil
			}
			return Open(dir, shop)
		}
		tamper := replacements(t, dir, name(1, segmentExt))
		delete(tamper, flippedBit) // for the last segment, see TestRead_FlippedInTheLastSegment_IsCorrupt
		return journaltest.Medium{Open: open, Tamper: tamper}
	}})
}

var noLimit = context.Background()

// A journal with small segments on a simulated disk passes the tests of every journal, also with
// failing appends.
func TestJournal_SmallSegments_PassesTheJournalTests(t *testing.T) {
	journaltest.Run(t, journaltest.Kind{Large: 1 << 16, New: func(t *testing.T, at journal.Position) journaltest.Medium {
		s := newSim()
		made := check.Value(create(s, small, journalPath, shop, at))(t)
		open := func() (journal.Journal, error) {
			if first := made; first != nil {
				made = nil
				return first, nil
			}
			return open(s, small, journalPath, shop)
		}
		return journaltest.Medium{Open: open, Break: func(landed bool) {
			at := "write"
			if landed {
				at = "sync"
			}
			s.fail = func(op string) error {
				if !strings.HasPrefix(op, at) {
					return nil
				}
				s.fail = nil
				return syscall.EIO
			}
		}}
	}})
}

// Only the owner may read a journal, and nothing is written to one that is open for reading.
func TestOpen_FilesArePrivateAndNotChangedByReaders(t *testing.T) {
	dir := filepath.Join(testenv.TempDir(t), "panel.db.journal")
	var l journaltest.Log
	j := check.Value(Create(dir, shop, l.End()))(t)
	term, _, err := j.Claim(noLimit)
	if err == nil {
		err = errors.Join(j.Append(noLimit, l.Group(term, []byte("secret"))), j.Close())
	}
	check.Must(t, err)
	segment := filepath.Join(dir, name(1, segmentExt))
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, segment: 0o600} {
		info, err := os.Stat(path)
		check.That(t, err == nil && info.Mode() == want, "%s has mode %v, %v", path, info.Mode(), err)
	}
	before := check.Value(os.ReadFile(segment))(t)
	a, b := reader(t, dir), reader(t, dir) // concurrently
	check.WantErr(t, check.Err2(a.Claim(noLimit)), journal.ErrInUse, "Claim with another reader")
	check.Must(t, b.Close())
	names, err := os.ReadDir(dir)
	after, err2 := os.ReadFile(segment)
	check.That(t, err == nil && err2 == nil && len(names) == 1 && bytes.Equal(before, after),
		"a reader has changed the journal: %v, %v, %v", names, err, err2)
	check.WantErr(t, check.Err2(a.Claim(noLimit)), nil, "Claim")
	check.WantErr(t, a.Remove(), nil, "Remove")
	left, err := os.ReadDir(filepath.Dir(dir))
	check.That(t, err == nil && len(left) == 0, "left: %v, %v", left, err)
}

// reader opens a journal of one group, and reads it.
func reader(t *testing.T, dir string) *Journal {
	t.Helper()
	j := check.Value(Open(dir, shop))(t)
	t.Cleanup(func() { j.Close() })
	var nothing journaltest.Log
	n := 0
	for _, err := range j.Read(noLimit, nothing.End()) {
		n++
		check.Need(t, err == nil, "%v", err)
	}
	check.Equal(t, n, 1, "groups")
	return j
}
