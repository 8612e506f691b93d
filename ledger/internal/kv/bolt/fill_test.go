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

// usedFile opens a file with trees of every size, and writes a record. The caller may close it.
func usedFile(t *testing.T) (path string, s *Store, content map[string]string) {
	t.Helper()
	path, _ = treesFile(t)
	s = mustOpen(t, path)
	check.Must(t, putOne(s, "first", "k", "new"))
	return path, s, records(t, s)
}

// A file without a list of free pages is opened only for reading, because this package always
// writes the list.
func TestOpen_NoListOfFreePages_OnlyForReading(t *testing.T) {
	from, _ := smallTreesFile(t)
	i := readImage(t, from)
	i.setMeta(32, noFreeList, 8)
	path := filepath.Join(testenv.TempDir(t), "unlisted.db")
	check.Must(t, os.WriteFile(path, i.data, 0o600))
	if _, err := Open(path, false); !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), "the list of free pages: it is missing") {
		t.Errorf("opened for writing: %v", err)
	}
	s := check.Value(Open(path, true))(t)
	defer s.Close()
	wantNoFaults(t, s)
}

// Close of a truncated file returns an error, and the process does not end.
func TestClose_FileTruncated_IsOverwritten(t *testing.T) {
	path, s, _ := usedFile(t)
	check.Must(t, os.Truncate(path, 0))
	check.WantErr(t, s.Close(), kv.ErrOverwritten, "got the error")
}

// After a failed commit, Close writes nothing to the file.
func TestClose_AfterFailedCommit_WritesNothing(t *testing.T) {
	path, s, content := usedFile(t)
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

// numbersFile creates a file of records in some transactions, with rising or random keys.
func numbersFile(t testing.TB, records, transactions int, ordered bool) (path string) {
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

// Rising keys fill the pages, and random keys leave free space.
func TestPut_RisingKeys_FillPages(t *testing.T) {
	for _, transactions := range []int{1, 10, 300} {
		_, fill := treeOf(t, numbersFile(t, 3000, transactions, true), "numbers")
		check.That(t, fill >= 0.85, "in %d transactions: pages are %.2f full", transactions, fill)
	}
	_, fill := treeOf(t, numbersFile(t, 3000, 300, false), "numbers")
	check.That(t, fill >= 0.5 && fill <= 0.85, "random keys: pages are %.2f full", fill)
}
