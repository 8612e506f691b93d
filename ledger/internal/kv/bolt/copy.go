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

// What a test can hold up or make fail: a step on the way, the last one that can be undone, and the
// one after it.
const (
	stepPart = "sync a part of the copy"
	stepName = "give the new file its name"
	stepSync = "sync the directory"
)

func (s *Store) at(step string) error {
	if s.hook == nil {
		return nil
	}
	return s.hook(step)
}

// CopyTo implements [kv.Copier]. It returns [errors.ErrUnsupported] where nothing gives a file its
// name without overwriting another. While the copy is made others read and write, unless the file
// outgrows the address space reserved for it, which is four times its size when it was opened, and
// 4 GiB at least (on Windows, on 32-bit systems, and where a process may not have so much: unless
// it grows by more than bbolt has mapped). Then the writer waits until all is read, and so does who
// comes to read.
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
		return fmt.Errorf("copy to %s: no way to copy has the number %d", path, how)
	}
	names := s.naming
	names.syncDir = func(dir string) error { return errors.Join(s.at(stepSync), s.naming.syncDir(dir)) }
	err := names.place(path, kindCopy, func(temp string) error {
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

// copyPages writes a copy over an empty file. The snapshot is held as long as that takes: pages
// that are freed meanwhile are not used again. The copy lists its free pages if the last commit
// did; if not, who first writes to it will.
func (s *Store) copyPages(path string, m *meter) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = s.snapshot(func(tx *transaction) error {
		if err := m.begin(tx.tx.Size()); err != nil {
			return err
		}
		part := func() error { return errors.Join(s.at(stepPart), file.Sync()) }
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

func (s *Store) copyRecords(path string, m *meter) error {
	d, err := s.filled(path, m, func(*os.File) error { return nil })
	if err != nil {
		return err
	}
	return d.close()
}

// filled makes a file of all records over an empty one, and syncs it once more when dress has
// returned nil.
func (s *Store) filled(path string, m *meter, dress func(*os.File) error) (d *database, err error) {
	size, _ := s.Size() // if it is not known, the least is reserved
	if d, err = open(path, false, size); err != nil {
		return nil, err
	}
	if err = s.snapshot(func(tx *transaction) error { return d.fill(tx, m) }); err == nil {
		err = dress(d.file)
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
// its access lists and other attributes. A symbolic link stays one; another hard link goes on
// leading to the old file, and so to what was deleted.
//
// It returns [kv.ErrReplaced] when the path no longer leads to the open file, and [kv.ErrCorrupt]
// when the file holds what this package does not write, which is not lost that way. It is refused
// when the store was opened for reading only. Windows does not let an open file be replaced: there
// it always fails, and changes nothing.
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

// replace puts a new file in the place of the old one, and the caller has to close what it returns.
func (s *Store) replace(m *meter) (old *database, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	switch {
	case s.halted != nil:
		return nil, s.halted
	case s.current.broken.Load():
		return nil, errBroken()
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
	// Where this does not work, find out while nothing has to be undone.
	if err := ledgerfile.SyncDir(dir.Name()); err != nil {
		return nil, err
	}
	old = s.current
	if err := s.rewrite(m); err != nil {
		return nil, err
	}
	// From here on the path leads to the new file, and what was written to the old one would be
	// lost.
	if err := errors.Join(s.at(stepSync), dir.Sync()); err != nil {
		s.halted = fmt.Errorf("%w: the new file is in its place, but perhaps not durably: %w", kv.ErrUncertain, err)
	}
	return old, s.halted
}

// rewrite makes a new file of the records in the current one, and replaces that by it. The new file
// is locked before, so that no other process can come first.
func (s *Store) rewrite(m *meter) error {
	return unnamed(s.path, kindCompact, func(temp string) error {
		next, err := s.filled(temp, m, func(f *os.File) error { return dress(f, s.current.file) })
		if err != nil {
			return err
		}
		err = errors.Join(s.at(stepName), m.ctx.Err())
		if err == nil && s.current.broken.Load() {
			err = errBroken()
		}
		if err == nil {
			err = s.check(s.current)
		}
		if err == nil {
			err = s.put(next, temp)
		}
		if err != nil {
			err = errors.Join(err, next.close()) // before it is removed, as Windows demands
		}
		return err
	})
}

// put replaces the current file.
func (s *Store) put(next *database, temp string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(temp, s.path); err != nil {
		return err
	}
	next.temp, next.path = temp, s.path
	s.current = next
	return nil
}

// dress gives a new file the owner and the mode of another.
func dress(f, as *os.File) error {
	info, err := as.Stat()
	if err != nil {
		return err
	}
	return ledgerfile.Keep(f, info)
}

const (
	// batch is how many bytes of records are written in one transaction: a compromise between
	// memory, with how long commits to another file wait behind its flush, and writing the ends of
	// the buckets again and again.
	batch = 4 << 20
	// overhead is what a record costs in memory besides its bytes.
	overhead = 64
)

// fill copies all records into a new file. Each transaction is flushed: else all of a large file
// would be written at once, and commits would wait for that.
func (d *database) fill(from *transaction, m *meter) (err error) {
	d.db.NoGrowSync = true // else bbolt makes the file longer than it need be
	defer func() { d.db.NoGrowSync = false }()
	b := batches{into: d}
	defer b.end(&err)
	if err := m.begin(from.used()); err != nil {
		return err
	}
	err = from.old.each(func(bucket string, key, value []byte) error {
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

// batches writes records to a file that is of no use before it has all of them, in transactions of
// about [batch] bytes. It is a [kv.Writer] once a transaction has begun.
type batches struct {
	into *database
	tx   *transaction // nil if none is open
	size int          // of the records in it
}

// begin begins a transaction, unless one is open.
func (b *batches) begin() (err error) {
	if b.tx == nil {
		b.tx, err = b.into.begin(true)
	}
	return err
}

// commit commits the open transaction.
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

// next makes room for a record of so many bytes.
func (b *batches) next(size int) error {
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
	if err := b.next(len(key) + len(value)); err != nil {
		return err
	}
	return b.tx.Put(bucket, key, value)
}

// Delete implements [kv.Writer].
func (b *batches) Delete(bucket string, key []byte) error {
	if err := b.next(len(key)); err != nil {
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

// meter follows what is read of a file to be copied: it tells how far that has come, and stops it
// with its context.
type meter struct {
	ctx         context.Context
	progress    kv.Progress
	done, total int64
	told        int64 // what was done when it was told, or stopped, last
}

// begin says that the snapshot is taken.
func (m *meter) begin(total int64) error {
	m.total = total
	return m.tell(0)
}

// add counts bytes read. It returns the error of a context that has ended.
func (m *meter) add(n int) error {
	const stride = 1 << 20
	if m.done += int64(n); m.done-m.told < stride {
		return nil
	}
	return m.tell(min(m.done, m.total))
}

// end counts all as read.
func (m *meter) end() error { return m.tell(m.total) }

func (m *meter) tell(done int64) error {
	if m.told = m.done; m.progress != nil {
		m.progress(done, m.total)
	}
	return m.ctx.Err()
}

// copier writes to a copy, and counts what it writes. It syncs now and then: else all of a large
// copy would go to the disk at once, and commits would wait for that.
type copier struct {
	io.Writer
	*meter
	sync  func() error
	since int // bytes that are not synced
}

// syncStep is after how many bytes: 1 MiB, for which a commit waits some milliseconds.
const syncStep = 1 << 20

func (w *copier) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.since += n; err == nil && w.since >= syncStep {
		w.since, err = 0, w.sync()
	}
	return n, errors.Join(err, w.add(n))
}

// each visits all records. What Put never writes, and keys out of order, which are damage that a
// copy would hide, are errors.
func (s *snapshot) each(visit func(bucket string, key, value []byte) error) (err error) {
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
