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

// After EraseUnused every unused page is zero, deleted records are gone, and all other records
// remain.
func TestEraseUnused_RecordsDeleted_ErasesOnlyTheirBytes(t *testing.T) {
	path, s := opened(t)
	fill(t, s)
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
	check.Need(t, fileContains(t, path, deleted), "the deleted record is not in the file before EraseUnused")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	check.WantErr(t, EraseUnused(ended, path), context.Canceled, "with a context that has ended")
	check.Must(t, EraseUnused(t.Context(), path))
	check.That(t, !fileContains(t, path, deleted), "the record is still in the file")
	file := check.Value(os.Open(path))(t)
	m, _, err := newestMeta(file)
	check.Must(t, err)
	page, zeros, free := make([]byte, m.pageSize()), make([]byte, m.pageSize()), 0
	walk := pageWalk{pager: pager{file: file, pageSize: int(m.pageSize()), pages: m.pages()}, seen: pageSet{}}
	check.Must(t, walk.freeList(m.free(), func(id uint64) error {
		free++
		_, err := file.ReadAt(page, int64(id)*m.pageSize())
		check.That(t, bytes.Equal(page, zeros), "page %d is unused and not erased", id)
		return err
	}))
	check.Must(t, file.Close())
	check.That(t, free >= 10, "only %d unused pages", free)
	again := mustOpen(t, path)
	wantRecords(t, again, want)
	wantSound(t, again)
}

func TestEraseUnused_NoLedger_IsCorrupt(t *testing.T) {
	path := newFile(t)
	check.Must(t, os.WriteFile(path, make([]byte, 1<<14), 0o600))
	check.WantErr(t, EraseUnused(t.Context(), path), kv.ErrCorrupt, "zeros")
}
