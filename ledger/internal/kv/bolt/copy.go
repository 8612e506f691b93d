package bolt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// Steps at which a test can pause a copy or make it fail: one in the middle, the last one that can
// be undone, and the one after it.
const (
	stepPart = "sync a part of the copy"
	stepName = "give the new file its name"
	stepSync = "sync the directory"
)

// callHook calls the hook of a test, and returns its error. Without a hook it returns nil.
func (s *Store) callHook(step string) error {
	if s.hook == nil {
		return nil
	}
	return s.hook(step)
}

// CopyTo implements [kv.Copier]. It returns [errors.ErrUnsupported] where a file cannot be renamed
// without overwriting another.
//
// Other callers read and write during the copy, unless the file grows beyond the address space
// reserved for it. That is four times its size when it was opened, and at least 4 GiB. On Windows,
// on 32-bit systems, and where a process may not reserve so much, it is only what bbolt has mapped.
// Then the writer waits until the copy has read everything, and new readers wait for the writer.
func (s *Store) CopyTo(
	ctx context.Context, path string, how kv.Copying, progress kv.Progress, check func(path string) error,
) error {
	m := meter{ctx: ctx, progress: progress}
	write := s.copyPages
	switch how {
	case kv.Pages:
	case kv.Records:
		write = s.copyRecords
	default:
		return fmt.Errorf("copy to %s: unknown way of copying: %d", path, how)
	}
	names := s.naming
	names.syncDir = func(dir string) error { return errors.Join(s.callHook(stepSync), s.naming.syncDir(dir)) }
	err := names.create(path, kindCopy, func(temp string) error {
		if err := write(temp, &m); err != nil || check == nil {
			return err
		}
		return check(temp)
	})
	if err != nil {
		return fmt.Errorf("copy to %s: %w", path, classify(err))
	}
	return nil
}

// copyPages writes a copy of all pages over the empty file at path, and syncs it. It holds the
// snapshot during the copy, so pages that are freed by other transactions are not reused until
// then. The copy has a list of free pages if the last commit wrote one. Otherwise the first process
// that writes to the copy writes the list.
func (s *Store) copyPages(path string, m *meter) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = s.snapshot(func(tx *transaction) error {
		if err := m.begin(tx.tx.Size()); err != nil {
			return err
		}
		part := func() error { return errors.Join(s.callHook(stepPart), file.Sync()) }
		return tx.writeTo(&copier{Writer: file, meter: m, sync: part})
	})
	if err == nil {
		err = m.end()
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// copyRecords writes all records to the empty file at path, and syncs it.
func (s *Store) copyRecords(path string, m *meter) error {
	d, err := s.createFilled(path, m, func(*os.File) error { return nil }) // nothing to prepare
	if err != nil {
		return err
	}
	return d.close()
}

// createFilled writes all records to the empty file at path, and returns the open file. When it has
// all records, createFilled calls prepare with it, and then syncs it. After an error the file is
// closed.
func (s *Store) createFilled(path string, m *meter, prepare func(*os.File) error) (d *database, err error) {
	size, _ := s.Size() // if the size is not known, the minimum is reserved
	if d, err = open(path, false, size); err != nil {
		return nil, err
	}
	if err = s.snapshot(func(tx *transaction) error { return d.fill(tx, m) }); err == nil {
		err = prepare(d.file)
	}
	if err == nil {
		err = d.file.Sync() // also the length, the owner and the mode
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// Compact implements [kv.Copier]. The new file has the mode and the owner of the old one, but not
// its access lists and other attributes. A symbolic link to the file remains valid. Another hard
// link still leads to the old file, and so to records that were deleted.
//
// Compact returns [kv.ErrReplaced] if the path no longer leads to the open file. It returns
// [kv.ErrCorrupt] if the file contains anything that this package does not write, so that this is
// not lost. It returns an error if the store is open for reading only. On Windows it always fails
// and changes nothing, because Windows does not let an open file be replaced.
func (s *Store) Compact(ctx context.Context, progress kv.Progress) error {
	s.compacting.Lock()
	defer s.compacting.Unlock()
	old, err := s.replace(&meter{ctx: ctx, progress: progress})
	if old != nil {
		old.users.Wait()
		err = errors.Join(err, old.close())
	}
	if err != nil {
		return fmt.Errorf("compact %s: %w", s.path, classify(err))
	}
	return nil
}

// replace puts a new file in the place of the current one, and returns the old database, which the
// caller must close. old is nil if the file was not replaced. If the directory cannot be synced
// after the file was replaced, replace returns both old and an error, and updates fail from then
// on.
func (s *Store) replace(m *meter) (old *database, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	switch {
	case s.stopped != nil:
		return nil, s.stopped
	case s.current.isBroken.Load():
		return nil, errPanicked
	case s.current.db.IsReadOnly():
		return nil, errors.New("the file was opened for reading only")
	}
	if err := s.check(s.current); err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(s.path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	// Check now, while nothing has to be undone, whether this directory can be synced.
	if err := ledgerfile.SyncDir(dir.Name()); err != nil {
		return nil, err
	}
	old = s.current
	if err := s.replaceFile(m); err != nil {
		return nil, err
	}
	// From here on the path leads to the new file. What would be written to the old one would be
	// lost.
	if err := errors.Join(s.callHook(stepSync), dir.Sync()); err != nil {
		s.stopped = fmt.Errorf("%w: the file was replaced, but the directory is not synced: %w", kv.ErrUncertain, err)
	}
	return old, s.stopped
}

// replaceFile copies the records of the current file to a new file, and replaces the current one by
// it. The new file is locked before it gets its name, so that no other process can lock it first.
func (s *Store) replaceFile(m *meter) error {
	return withTemp(s.path, kindCompact, func(temp string) error {
		next, err := s.createFilled(temp, m, func(f *os.File) error { return copyOwnerAndMode(f, s.current.file) })
		if err != nil {
			return err
		}
		err = errors.Join(s.callHook(stepName), m.ctx.Err())
		if err == nil && s.current.isBroken.Load() {
			err = errPanicked
		}
		if err == nil {
			// The path may have been changed during the copy.
			err = s.check(s.current)
		}
		if err == nil {
			err = s.install(next, temp)
		}
		if err != nil {
			err = errors.Join(err, next.close()) // before the file is removed, as Windows requires
		}
		return err
	})
}

// install renames the file temp, which is open as next, to the path of the store, and makes it the
// current one.
func (s *Store) install(next *database, temp string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(temp, s.path); err != nil {
		return err
	}
	next.temp, next.path = temp, s.path
	s.current = next
	return nil
}

// copyOwnerAndMode gives the file f the owner and the mode of the file as.
func copyOwnerAndMode(f, as *os.File) error {
	info, err := as.Stat()
	if err != nil {
		return err
	}
	return ledgerfile.Keep(f, info)
}

const (
	// batch is the number of bytes of records that one transaction writes. A larger batch needs
	// more memory, and delays commits to another file during its flush. A smaller one writes the
	// ends of the buckets more often.
	batch = 4 << 20
	// overhead is the memory that a record needs besides its bytes.
	overhead = 64
)

// fill copies all records that the transaction from sees to the new file d. Each transaction is
// flushed. Otherwise the system would write all of a large file at once, and commits to other files
// would wait for that.
func (d *database) fill(from *transaction, m *meter) (err error) {
	d.db.NoGrowSync = true // else bbolt makes the file longer than necessary
	defer func() { d.db.NoGrowSync = false }()
	b := batches{into: d}
	defer b.end(&err)
	if err := m.begin(from.used()); err != nil {
		return err
	}
	err = from.old.visitAll(func(bucket string, key, value []byte) error {
		return errors.Join(b.Put(bucket, key, value), m.add(len(key)+len(value)+overhead))
	})
	if err == nil {
		err = b.commit()
	}
	if err == nil {
		err = m.end()
	}
	return err
}

// batches writes records to a file that is useless until it has all of them, in transactions of
// about [batch] bytes. It is a [kv.Writer] after begin.
type batches struct {
	into *database
	tx   *transaction // nil if none is open
	size int          // of the records in the transaction
}

// begin begins a transaction, unless one is open.
func (b *batches) begin() (err error) {
	if b.tx == nil {
		b.tx, err = b.into.begin(true)
	}
	return err
}

// commit commits the open transaction, if there is one.
func (b *batches) commit() error {
	if b.tx == nil {
		return nil
	}
	if err := b.tx.commit(); err != nil {
		return err
	}
	b.tx, b.size = nil, 0
	return nil
}

// prepare prepares for a record of size bytes: it commits the transaction if that is full, and
// begins another one.
func (b *batches) prepare(size int) error {
	if b.size >= batch {
		if err := b.commit(); err != nil {
			return err
		}
	}
	b.size += size + overhead
	return b.begin()
}

// Get implements [kv.Reader].
func (b *batches) Get(bucket string, key []byte) ([]byte, error) { return b.tx.Get(bucket, key) }

// Scan implements [kv.Reader].
func (b *batches) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	return b.tx.Scan(bucket, from, visit)
}

// Put implements [kv.Writer].
func (b *batches) Put(bucket string, key, value []byte) error {
	if err := b.prepare(len(key) + len(value)); err != nil {
		return err
	}
	return b.tx.Put(bucket, key, value)
}

// Delete implements [kv.Writer].
func (b *batches) Delete(bucket string, key []byte) error {
	if err := b.prepare(len(key)); err != nil {
		return err
	}
	return b.tx.Delete(bucket, key)
}

// end undoes what was not committed.
func (b *batches) end(err *error) {
	if b.tx != nil {
		b.tx.end(err)
	}
}

// meter reports the progress of reading a file that is copied, and stops the copy when its context
// ends.
type meter struct {
	ctx         context.Context
	progress    kv.Progress
	done, total int64
	reported    int64 // value of done at the last report
}

// begin reports that the snapshot is taken. total is the number of bytes to be read.
func (m *meter) begin(total int64) error {
	m.total = total
	return m.report(0)
}

// add counts n more bytes that were read. Once for each MiB it reports the progress, and returns
// the error of the context if that has ended. Otherwise it returns nil.
func (m *meter) add(n int) error {
	const stride = 1 << 20
	if m.done += int64(n); m.done-m.reported < stride {
		return nil
	}
	return m.report(min(m.done, m.total))
}

// end reports that everything is read.
func (m *meter) end() error { return m.report(m.total) }

// report calls progress, and returns the error of the context if that has ended.
func (m *meter) report(done int64) error {
	if m.reported = m.done; m.progress != nil {
		m.progress(done, m.total)
	}
	return m.ctx.Err()
}

// copier writes to a copy, and counts what it writes. It syncs at intervals. Otherwise the system
// would write all of a large copy at once, and commits would wait for that.
type copier struct {
	io.Writer
	*meter
	sync  func() error
	since int // bytes that are not synced
}

// syncStep is the number of bytes between two syncs: 1 MiB, for which a commit waits some
// milliseconds.
const syncStep = 1 << 20

// Write implements [io.Writer].
func (w *copier) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.since += n; err == nil && w.since >= syncStep {
		w.since, err = 0, w.sync()
	}
	return n, errors.Join(err, w.add(n))
}

// visitAll passes all records to visit, and ends at its first error, which it returns. It returns
// [kv.ErrCorrupt] for content that Put never writes, and for keys that are out of order. Both are
// damage that a copy would hide.
func (s *snapshot) visitAll(visit func(bucket string, key, value []byte) error) (err error) {
	buckets := s.scan(tree{root: s.root}, bucketFlag, nil, func(name, _ []byte) bool {
		var failed error
		scan := s.Scan(string(name), nil, func(key, value []byte) bool {
			failed = visit(string(name), key, value)
			return failed == nil
		})
		err = errors.Join(failed, scan)
		return err == nil
	})
	return errors.Join(err, buckets)
}
