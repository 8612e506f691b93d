package bolt

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// Afterwards every page that is not in use is zeros, what was deleted is gone, and all records are there.
func TestEraseUnused(t *testing.T) {
	path := newFile(t)
	s := mustOpen(t, path)
	grow(t, s)
	deleted := secret()
	must(t, putOne(s, "second", "deleted", deleted))
	must(t, s.Update(func(w kv.Writer) error { // many pages, in many runs
		err := w.Delete("second", []byte("deleted"))
		for key := range records(t, s) {
			if bucket, key, _ := bytes.Cut([]byte(key), []byte("/")); string(bucket) == "third" {
				err = errors.Join(err, w.Delete("third", key))
			}
		}
		return err
	}))
	want := records(t, s)
	must(t, s.Close())
	if !holds(t, path, deleted) {
		t.Fatal("the record is not in the file to begin with")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, EraseUnused(ended, path), context.Canceled, "with a context that has ended")
	must(t, EraseUnused(t.Context(), path))
	if holds(t, path, deleted) {
		t.Error("the record is still in the file")
	}
	file, err := os.Open(path)
	must(t, err)
	m, _, err := newestMeta(file)
	must(t, err)
	page, zeros, free := make([]byte, m.pageSize()), make([]byte, m.pageSize()), 0
	walk := pageWalk{pager: pager{file: file, pageSize: int(m.pageSize()), pages: m.pages()}, met: pageSet{}}
	must(t, walk.freeList(m.free(), func(id uint64) error {
		free++
		_, err := file.ReadAt(page, int64(id)*m.pageSize())
		if !bytes.Equal(page, zeros) {
			t.Errorf("page %d is unused, and not erased", id)
		}
		return err
	}))
	if must(t, file.Close()); free < 10 {
		t.Errorf("only %d unused pages", free)
	}
	again := mustOpen(t, path)
	wantRecords(t, again, want)
	wantSound(t, again)
}

func TestEraseUnused_NoLedger_IsAnError(t *testing.T) {
	path := newFile(t)
	must(t, os.WriteFile(path, make([]byte, 1<<14), 0o600))
	wantErr(t, EraseUnused(t.Context(), path), kv.ErrCorrupt, "zeros")
}
