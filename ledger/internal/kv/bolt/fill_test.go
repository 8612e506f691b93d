package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// wantNoFaults reads a file as an audit does.
func wantNoFaults(t testing.TB, s *Store) {
	t.Helper()
	check.Must(t, s.Inspect(func(f kv.Fault) { t.Errorf("%+v", f) }, func(r kv.Reader) error {
		for bucket := range map[string]bool{"first": true, "wide": true, "high": true, "leaf": true} {
			check.Must(t, r.Scan(bucket, nil, func(_, _ []byte) bool { return true }))
		}
		return nil
	}))
}

// worn is a file with trees of every size, opened and written to. Who calls it may close it.
func worn(t *testing.T) (path string, s *Store, content map[string]string) {
	t.Helper()
	path, _ = forest(t)
	s = mustOpen(t, path)
	check.Must(t, putOne(s, "first", "k", "new"))
	return path, s, records(t, s)
}

// A file without a list of free pages is not written to: this package always writes one.
func TestAMissingListOfFreePages(t *testing.T) {
	from, _ := smallForest(t)
	i := readImage(t, from)
	i.setMeta(32, noFreeList, 8)
	path := filepath.Join(testenv.TempDir(t), "unlisted.db")
	check.Must(t, os.WriteFile(path, i.data, 0o600))
	if _, err := Open(path, false); !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), "the list of free pages: there is none") {
		t.Errorf("opened for writing: %v", err)
	}
	s := check.Value(Open(path, true))(t)
	defer s.Close()
	wantNoFaults(t, s)
}

// A file that is gone when it is closed costs the process nothing but an error.
func TestCloseOfACutOffFile(t *testing.T) {
	path, s, _ := worn(t)
	check.Must(t, os.Truncate(path, 0))
	check.WantErr(t, s.Close(), kv.ErrOverwritten, "got the error")
}

// After a commit has failed nothing more is written.
func TestCloseWritesNothingAfterAFailedCommit(t *testing.T) {
	path, s, content := worn(t)
	before := check.Value(os.ReadFile(path))(t)
	s.current.db.MaxSize = len(before)
	check.WantErr(t, putOne(s, "first", "large", strings.Repeat("large", len(before))), kv.ErrUncertain, "got the error")
	s.current.db.MaxSize = 0
	check.Must(t, s.Close())
	after, err := os.ReadFile(path)
	check.That(t, err == nil && bytes.Equal(before, after), "the file is changed: %v", err)
	s = mustOpen(t, path)
	wantRecords(t, s, content)
	wantSound(t, s)
}

// numbers is a file of so many records, in so many transactions, in the order of their keys or not.
func numbers(t testing.TB, records, transactions int, ordered bool) (path string) {
	t.Helper()
	path = filepath.Join(testenv.TempDir(t), "numbers.db")
	check.Must(t, Create(path, func(kv.Writer) error { return nil }))
	s := check.Value(Open(path, false))(t)
	random := rand.New(rand.NewPCG(3, 4))
	number := uint64(0)
	for range transactions {
		check.Must(t, s.Update(func(w kv.Writer) error {
			for range records / transactions {
				number++
				key := number
				if !ordered {
					key = random.Uint64()
				}
				check.Must(t, w.Put("numbers", binary.BigEndian.AppendUint64(nil, key), make([]byte, 200)))
			}
			return nil
		}))
	}
	check.Must(t, s.Close())
	return path
}

// Pages that nothing will be added to are full.
func TestALogFillsItsPages(t *testing.T) {
	for _, transactions := range []int{1, 10, 300} {
		_, fill := treeOf(t, numbers(t, 3000, transactions, true), "numbers")
		check.That(t, fill >= 0.85, "in %d transactions: pages are %.2f full", transactions, fill)
	}
	_, fill := treeOf(t, numbers(t, 3000, 300, false), "numbers")
	check.That(t, fill >= 0.5 && fill <= 0.85, "in no order: pages are %.2f full", fill)
}
