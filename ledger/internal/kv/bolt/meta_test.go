package bolt

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// Without a valid meta page, bbolt panics with locks held. So an overwritten file is detected
// before bbolt is called, and no call waits for these locks.
func TestTransactions_FileOverwritten_FailWithoutWaiting(t *testing.T) {
	for name, over := range map[string]func(path string) error{
		"zeros":   func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o600) },
		"nothing": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // as in a transaction
			path, s := opened(t)
			inside, done := make(chan struct{}), make(chan struct{})
			var all sync.WaitGroup
			all.Go(func() { // ends a transaction, which needs a lock of bbolt, after another could not begin
				_ = s.View(func(kv.Reader) error {
					close(inside)
					<-done
					return nil
				})
			})
			<-inside
			check.Must(t, over(path))
			tx, err := s.current.begin(false)
			check.That(t, err != nil && tx == nil, "a transaction began")
			check.That(t, !s.current.isBroken.Load(), "bbolt was called for a file without a meta page")
			close(done)
			all.Wait()
			check.WantErr(t, s.Update(putK("lost")), kv.ErrOverwritten, "Update")
			check.WantErr(t, s.View(func(kv.Reader) error { return nil }), kv.ErrOverwritten, "View")
		})
	}
}

// overwriteAt writes to a file in place.
func overwriteAt(t *testing.T, path string, data []byte, at int64) {
	t.Helper()
	file := check.Value(os.OpenFile(path, os.O_WRONLY, 0))(t)
	_, err := file.WriteAt(data, at)
	check.Must(t, errors.Join(err, file.Close()))
}

// bbolt does not return from a page of unknown kind, so an update of an overwritten file must fail
// before bbolt reads the page.
func TestUpdate_FileOverwrittenWithZeros_IsOverwritten(t *testing.T) {
	forested, _ := treesFile(t)
	path := filepath.Join(testenv.TempDir(t), "zeros.db")
	check.Must(t, Create(path, func(w kv.Writer) error { return w.Put("8 octets", []byte("a"), []byte("v")) })) // which bbolt reads in place
	for _, test := range []struct{ path, bucket string }{{path, "8 octets"}, {forested, "leaf"}, {forested, "wide"}, {forested, "new"}} {
		for name, use := range map[string]func(w kv.Writer) error{
			"put":    func(w kv.Writer) error { return w.Put(test.bucket, []byte("z"), []byte("v")) },
			"delete": func(w kv.Writer) error { return w.Delete(test.bucket, []byte("a")) },
			"scan":   func(w kv.Writer) error { return w.Scan(test.bucket, nil, func(_, _ []byte) bool { return true }) },
		} {
			for _, known := range []bool{false, true} { // whether bbolt has read the bucket before
				over := test.path + "-over"
				check.Must(t, copyFile(test.path, over))
				s := mustOpen(t, over)
				check.WantErr(t, s.Update(func(w kv.Writer) error {
					if _, err := w.(*transaction).bucket(test.bucket); known && err != nil {
						return err
					}
					overwriteAt(t, over, make([]byte, 4<<20), 0)
					return use(w)
				}), kv.ErrOverwritten, "%s in %q", name, test.bucket)
				_ = s.Close()
			}
		}
	}
}

// A copy of a file that is overwritten during the copy ends with an error.
func TestCopy_FileOverwrittenWithZeros_IsOverwritten(t *testing.T) {
	path, _ := treesFile(t)
	s := mustOpen(t, path)
	size := check.Value(s.Size())(t)
	check.WantErr(t, s.snapshot(func(tx *transaction) error {
		overwriteAt(t, path, make([]byte, size+2<<20), 0)
		return tx.old.visitAll(func(string, []byte, []byte) error { return nil })
	}), kv.ErrOverwritten, "got the error")
}

// bbolt accepts meta pages that claim that the file has no pages. Such a file must not be read.
func TestView_MetaPagesClaimNoPages_IsOverwritten(t *testing.T) {
	for _, writable := range []bool{false, true} {
		path, s := opened(t)
		i := readImage(t, path)
		i.setMeta(40, 0, 8)
		overwriteAt(t, path, i.data[:metaPages*i.pageSize()], 0)
		tx, err := s.current.begin(writable)
		check.That(t, errors.Is(err, kv.ErrOverwritten) && tx == nil, "a transaction began: %v", err)
		check.WantErr(t, s.View(func(kv.Reader) error { return nil }), kv.ErrOverwritten, "View")
	}
}

// After a panic of bbolt, later calls also report that the file was overwritten, if that is the
// cause.
func TestView_AfterBboltPanic_ReturnsTheCause(t *testing.T) {
	path, s := opened(t)
	s.current.isBroken.Store(true) // as after a panic of unknown cause
	if err := s.View(func(kv.Reader) error { return nil }); !errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrOverwritten) {
		t.Errorf("a file that was not overwritten: %v", err)
	}
	overwriteAt(t, path, make([]byte, 8192), 0)
	check.WantErr(t, s.View(func(kv.Reader) error { return nil }), kv.ErrOverwritten, "an overwritten file")
}
