package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// EraseUnused overwrites the unused pages of a file with zeros, and syncs it. Then the file holds its records, and nothing that was
// deleted or replaced. No process may have the file open: it is for a copy that has no name yet.
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
		return fmt.Errorf("erase the unused pages of %s: %w: it has no list of free pages", path, kv.ErrCorrupt)
	}
	e := eraser{ctx: ctx, file: file, pageSize: uint64(m.pageSize()), zeros: make([]byte, syncStep)}
	walk := pageWalk{pager: pager{file: file, pageSize: int(m.pageSize()), pages: m.pages()}, met: pageSet{}}
	if err := walk.freeList(m.free(), e.add); err != nil {
		return fmt.Errorf("erase the unused pages of %s: %w", path, err)
	}
	return errors.Join(e.erase(), file.Sync())
}

// eraser overwrites pages, in runs of at most 1 MiB.
type eraser struct {
	ctx      context.Context
	file     *os.File
	pageSize uint64
	first, n uint64 // the run that is not overwritten yet
	zeros    []byte // syncStep of them, not on the stack
	since    uint64 // bytes that are not synced
}

// add adds a page. The list of free pages is in order, so most runs are long.
func (e *eraser) add(page uint64) error {
	if e.n > 0 && page == e.first+e.n && (e.n+1)*e.pageSize <= syncStep {
		e.n++
		return nil
	}
	err := e.erase()
	e.first, e.n = page, 1
	return err
}

// erase overwrites the run. It syncs now and then, as a copy does: see [synced].
func (e *eraser) erase() error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	size := e.n * e.pageSize
	if _, err := e.file.WriteAt(e.zeros[:size], int64(e.first*e.pageSize)); err != nil {
		return err
	}
	if e.since += size; e.since < syncStep {
		return nil
	}
	e.since = 0
	return e.file.Sync()
}
