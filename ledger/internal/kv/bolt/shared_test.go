package bolt

import (
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// putShared puts one record.
func putShared(t *testing.T, s *Store, value string) {
	t.Helper()
	check.Must(t, s.Update(func(w kv.Writer) error { return w.Put("b", []byte("key"), []byte(value)) }))
}

// wantShared reads the record in a snapshot, after it has called then.
func wantShared(t *testing.T, s *Store, want string, then func()) {
	t.Helper()
	check.Must(t, s.View(func(r kv.Reader) error {
		if then != nil {
			then()
		}
		got, err := r.Get("b", []byte("key"))
		check.That(t, err != nil || string(got) == want, "a snapshot has %q, want %q", got, want)
		return err
	}))
}

// Readers share a transaction of bbolt until an update. Each sees its snapshot. A transaction of an
// old snapshot ends with its last reader.
func TestView_NoUpdates_SharesATransaction(t *testing.T) {
	s := mustOpen(t, newFile(t))
	open := func() int { return s.current.db.Stats().OpenTxN }
	putShared(t, s, "old")
	wantShared(t, s, "old", func() {
		wantShared(t, s, "old", func() {
			n := open()
			check.That(t, n == 1, "two readers have %d transactions", n)
		})
		check.Must(t, s.Update(func(w kv.Writer) error {
			wantShared(t, s, "old", nil) // uncommitted writes are not visible
			return w.Put("b", []byte("key"), []byte("new"))
		}))
		wantShared(t, s, "new", func() {
			n := open()
			check.That(t, n == 2, "readers of before and after an update have %d transactions", n)
		})
	})
	check.Equal(t, open(), 1, "transactions that are open without readers; one is kept for the next reader")
	putShared(t, s, "newest")
	check.Equal(t, open(), 0, "transactions from before the update that are open")
}

// A shared transaction without readers does not delay the reuse of pages, Compact or Close.
func TestView_IdleSharedTransaction_KeepsNoPages(t *testing.T) {
	s := mustOpen(t, newFile(t))
	putShared(t, s, "0")
	size := check.Value(s.Size())(t)
	for n := range 300 {
		wantShared(t, s, fmt.Sprint(n), nil)
		putShared(t, s, fmt.Sprint(n+1))
	}
	if now, err := s.Size(); err != nil || now > size+Growth {
		t.Errorf("a record was written 300 times, and the file has %d bytes in place of %d: %v", now, size, err)
	}
	wantShared(t, s, "300", nil)
	check.Must(t, s.Compact(t.Context(), nil))
	wantShared(t, s, "300", nil)
}

// While bbolt maps the file again, new readers wait for bbolt, and bbolt waits for current readers.
// These must be able to end.
func TestView_FileIsMappedAgain_ReadersCanEnd(t *testing.T) {
	s := mustOpen(t, newFile(t))
	d := s.current
	check.Must(t, d.endSharing(true)) // as in a commit
	first := check.Value(d.acquireShared())(t)
	meta, mapped := bboltLocks(t, d.db)
	held, begun := make(chan struct{}), make(chan error)
	go func() {
		mapped.Lock()
		close(held)
	}()
	for mapped.TryRLock() { // until it waits
		mapped.RUnlock()
	}
	go func() {
		second, err := d.acquireShared()
		if err == nil {
			d.releaseShared(second, &err)
		}
		begun <- err
	}()
	for meta.TryLock() { // until the second one is about to begin
		meta.Unlock()
	}
	ended := make(chan error)
	go func() {
		var err error
		d.releaseShared(first, &err)
		ended <- err
	}()
	<-held // bbolt continues when the first reader has ended
	mapped.Unlock()
	check.Must(t, <-ended)
	check.Must(t, <-begun)
	check.Must(t, d.endSharing(false))
}
