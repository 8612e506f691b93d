package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// EraseUnused overwrites the unused pages of the file at path with zeros, and syncs it. After that
// the file contains its records, and nothing that was deleted or replaced. No process may have the
// file open. EraseUnused is for a copy that does not have its final name yet.
//
// It returns [kv.ErrCorrupt] if the file has no valid meta page or no list of free pages, and an
// error if the list is damaged. If ctx ends, it returns its error soon.
func EraseUnused(ctx context.Context, path string) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	m, known, err := newestMeta(file)
	if err != nil {
		return err
	}
	if !known || m.free() == noFreeList {
		return fmt.Errorf("erase the unused pages of %s: %w: the list of free pages is missing", path, kv.ErrCorrupt)
	}
	size := m.pageSize()
	zeros, since := make([]byte, size), int64(0) // since: bytes written after the last sync
	walk := m.walk(file)
	err = walk.freeList(m.free(), func(page uint64) error {
		if since += size; since >= syncStep { // sync at intervals, for the reason given at [copier]
			since = 0
			if err := errors.Join(ctx.Err(), file.Sync()); err != nil {
				return err
			}
		}
		_, err := file.WriteAt(zeros, int64(page)*size)
		return err
	})
	if err != nil {
		return fmt.Errorf("erase the unused pages of %s: %w", path, err)
	}
	return file.Sync()
}
