package bolt

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// Afterwards every page that is not in use is zeros, what was deleted is gone, and all records are
// there.
func TestEraseUnused(t *testing.T) {
	path, s := opened(t)
	grow(t, s)
	deleted := secret()
	check.Must(t, putOne(s, "second", "deleted", deleted))
	check.Must(t, s.Update(func(w kv.Writer) error { // many pages, in many runs
		err := w.Delete("second", []byte("deleted"))
		for key := range records(t, s) {
			if bucket, key, _ := bytes.Cut([]byte(key), []byte("/")); string(bucket) == "third" {
				err = errors.Join(err, w.Delete("third", key))
			}
		}
		return err
	}))
	want := records(t, s)
	check.Must(t, s.Close())
	check.Need(t, holds(t, path, deleted), "the record is not in the file to begin with")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	check.WantErr(t, EraseUnused(ended, path), context.Canceled, "with a context that has ended")
	check.Must(t, EraseUnused(t.Context(), path))
	check.That(t, !holds(t, path, deleted), "the record is still in the file")
	file := check.Value(os.Open(path))(t)
	m, _, err := newestMeta(file)
	check.Must(t, err)
	page, zeros, free := make([]byte, m.pageSize()), make([]byte, m.pageSize()), 0
	walk := pageWalk{pager: pager{file: file, pageSize: int(m.pageSize()), pages: m.pages()}, met: pageSet{}}
	check.Must(t, walk.freeList(m.free(), func(id uint64) error {
		free++
		_, err := file.ReadAt(page, int64(id)*m.pageSize())
		check.That(t, bytes.Equal(page, zeros), "page %d is unused, and not erased", id)
		return err
	}))
	check.Must(t, file.Close())
	check.That(t, free >= 10, "only %d unused pages", free)
	again := mustOpen(t, path)
	wantRecords(t, again, want)
	wantSound(t, again)
}

func TestEraseUnused_NoLedger_IsAnError(t *testing.T) {
	path := newFile(t)
	check.Must(t, os.WriteFile(path, make([]byte, 1<<14), 0o600))
	check.WantErr(t, EraseUnused(t.Context(), path), kv.ErrCorrupt, "zeros")
}
