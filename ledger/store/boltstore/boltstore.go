// Package boltstore keeps a [store.Store] in a bbolt file. It is the only package that knows bbolt.
package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/sluicedp/sluice/ledger/store"
)

// lockWait is how long Open waits for another process to let go of the file. Without a limit bbolt
// would wait for ever.
const lockWait = 500 * time.Millisecond

// Store is a bbolt file, locked against other processes for as long as it is open.
type Store struct {
	db       *bolt.DB
	path     string
	file     *os.File // bbolt's; it holds the lock
	identity fs.FileInfo
	broken   atomic.Bool // bbolt panicked while it held a lock, so nothing may wait for it any more
}

// Create makes a new file at path with what fill writes, or none: the file is filled and synced
// under another name in the same directory before it gets its own. It returns [fs.ErrExist] when
// there is a file already.
func Create(path string, fill func(store.Writer) error) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("create %s: %w", path, fs.ErrExist)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if err := temp.Close(); err != nil {
		return err
	}
	if err := fillNew(temp.Name(), fill); err != nil {
		return err
	}
	// A link, unlike a rename, cannot overwrite a file that somebody made meanwhile.
	if err := os.Link(temp.Name(), path); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func fillNew(path string, fill func(store.Writer) error) error {
	s, err := open(path, false)
	if err != nil {
		return err
	}
	err = s.Update(fill)
	return errors.Join(err, s.Close())
}

func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // a directory cannot be opened for syncing there
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Open opens an existing file, for reading only or for both. It returns [fs.ErrNotExist] when there
// is none, [store.ErrInUse] when another process has it open in a way that excludes this one, and
// [store.ErrCorrupt] when it is not a bbolt file.
func Open(path string, readOnly bool) (*Store, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: %w: not a regular file", path, store.ErrCorrupt)
	}
	// bbolt would make a database of an empty file.
	if info.Size() < smallest {
		return nil, fmt.Errorf("open %s: %w: %d bytes are no ledger", path, store.ErrCorrupt, info.Size())
	}
	s, err := open(path, readOnly)
	if err != nil {
		return nil, err
	}
	if err := s.checkSize(info.Size()); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), s.Close())
	}
	return s, nil
}

// smallest is the size of an empty database: four pages, which are nowhere below 4 KiB.
const smallest = 4 * 4096

// checkSize refuses a file that was cut off. Its missing pages would be found one by one, and each
// as a memory fault.
func (s *Store) checkSize(size int64) error {
	tx, err := s.begin(false)
	if err != nil {
		return err
	}
	want := tx.tx.Size()
	tx.end(&err)
	if err == nil && size < want {
		err = fmt.Errorf("%w: the file has %d bytes of %d", store.ErrCorrupt, size, want)
	}
	return err
}

func open(path string, readOnly bool) (opened *Store, err error) {
	s := &Store{path: path}
	defer func() {
		if s.broken.Load() && s.file != nil {
			err = errors.Join(err, unlock(s.file))
		}
	}()
	defer s.rescueLocked(&err) // bbolt panics on some damaged files
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	s.db, err = bolt.Open(path, 0, &bolt.Options{
		Timeout:         lockWait,
		ReadOnly:        readOnly,
		FreelistType:    bolt.FreelistMapType,
		InitialMmapSize: mapSize(),
		OpenFile:        s.openFile,
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("open %s: %w", path, store.ErrInUse)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrChecksum):
		return nil, fmt.Errorf("open %s: %w: %w", path, store.ErrCorrupt, err)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	s.db.AllocSize = growth
	// If a process died in its last commit, what it wrote shows, but may not be on disk.
	if err := s.file.Sync(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), s.db.Close())
	}
	return s, nil
}

// growth is by how much the file grows at a time. bbolt's own choice, with this much address space
// reserved, would be 16 MiB from the first byte on.
const growth = 1 << 20

// mapSize is the address space reserved at once. As long as the file fits, growing it never waits
// for readers to finish. Windows would make the file as large.
func mapSize() int {
	if runtime.GOOS == "windows" || strconv.IntSize < 64 {
		return 0
	}
	return 4 << 30
}

// openFile opens an existing file and remembers which one it was.
func (s *Store) openFile(path string, flag int, mode os.FileMode) (*os.File, error) {
	file, err := os.OpenFile(path, flag&^os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	if s.identity, err = file.Stat(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s.file = file
	return file, nil
}

// View implements [store.Store].
func (s *Store) View(fn func(store.Reader) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := s.begin(false)
	if err != nil {
		return err
	}
	defer tx.end(&err)
	defer rescueFault(&err)
	return fn(tx)
}

// Update implements [store.Store]. It refuses with [store.ErrReplaced] when the path no longer
// leads to the open file.
func (s *Store) Update(fn func(store.Writer) error) (err error) {
	if err := s.checkIdentity(); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := s.begin(true)
	if err != nil {
		return err
	}
	defer tx.end(&err)
	defer rescueFault(&err)
	if err := fn(tx); err != nil || !tx.wrote {
		return err
	}
	return tx.commit()
}

func (s *Store) checkIdentity() error {
	now, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrReplaced, err)
	}
	if !os.SameFile(now, s.identity) {
		return fmt.Errorf("%w: %s", store.ErrReplaced, s.path)
	}
	return nil
}

// Size implements [store.Store].
func (s *Store) Size() (int64, error) {
	info, err := os.Stat(s.path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Close implements [store.Store]. After a panic of bbolt it lets go of the file and leaves the rest to
// the end of the process.
func (s *Store) Close() error {
	if s.broken.Load() {
		return errors.Join(errBroken(), unlock(s.file))
	}
	return s.db.Close()
}

func errBroken() error { return fmt.Errorf("%w: bbolt gave up before", store.ErrCorrupt) }

// transaction implements [store.Writer]. It remembers the buckets it has looked up.
type transaction struct {
	store   *Store
	tx      *bolt.Tx
	buckets map[string]*bolt.Bucket
	wrote   bool
}

func (s *Store) begin(writable bool) (t *transaction, err error) {
	if s.broken.Load() {
		return nil, errBroken()
	}
	defer s.rescueLocked(&err)
	tx, err := s.db.Begin(writable)
	if err != nil {
		return nil, err
	}
	return &transaction{store: s, tx: tx, buckets: make(map[string]*bolt.Bucket, 8)}, nil
}

// end undoes what was not committed.
func (t *transaction) end(err *error) {
	if t.store.broken.Load() {
		return
	}
	defer t.store.rescueLocked(err)
	if undo := t.tx.Rollback(); undo != nil && !errors.Is(undo, bolterrors.ErrTxClosed) && *err == nil {
		*err = undo
	}
}

func (t *transaction) commit() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", store.ErrUncertain, err)
		}
	}()
	defer t.store.rescueLocked(&err)
	return t.tx.Commit()
}

// bucket returns nil when there is no such bucket.
func (t *transaction) bucket(name string) *bolt.Bucket {
	b, known := t.buckets[name]
	if !known {
		if b = t.tx.Bucket([]byte(name)); b != nil {
			t.buckets[name] = b
		}
	}
	return b
}

// Get implements [store.Reader].
func (t *transaction) Get(bucket string, key []byte) (value []byte, err error) {
	defer rescue(&err)
	if b := t.bucket(bucket); b != nil {
		value = b.Get(key)
	}
	return value, nil
}

// Scan implements [store.Reader].
func (t *transaction) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	cursor, key, value, err := t.seek(bucket, from)
	for err == nil && key != nil && visit(key, value) {
		key, value, err = next(cursor)
	}
	return err
}

func (t *transaction) seek(bucket string, from []byte) (c *bolt.Cursor, key, value []byte, err error) {
	defer rescue(&err)
	b := t.bucket(bucket)
	if b == nil {
		return nil, nil, nil, nil
	}
	c = b.Cursor()
	key, value = c.Seek(from)
	return c, key, value, nil
}

func next(c *bolt.Cursor) (key, value []byte, err error) {
	defer rescue(&err)
	key, value = c.Next()
	return key, value, nil
}

// Put implements [store.Writer].
func (t *transaction) Put(bucket string, key, value []byte) (err error) {
	defer rescue(&err)
	if len(key) == 0 || len(value) == 0 {
		return errors.New("empty key or value")
	}
	b := t.bucket(bucket)
	if b == nil {
		if b, err = t.tx.CreateBucket([]byte(bucket)); err != nil {
			return err
		}
		t.buckets[bucket] = b
	}
	t.wrote = true
	return b.Put(key, value)
}

// rescue turns a panic of bbolt, which damaged pages can cause, into an error. It stands around
// calls of bbolt only, so that it hides no fault of ours.
func rescue(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: bbolt: %v", store.ErrCorrupt, p)
	}
}

// rescueLocked is rescue where bbolt holds a lock that its panic leaves locked.
func (s *Store) rescueLocked(err *error) {
	if p := recover(); p != nil {
		s.broken.Store(true)
		*err = fmt.Errorf("%w: bbolt: %v", store.ErrCorrupt, p)
	}
}

// rescueFault turns a fault on the mapped file, whose pages a damaged or shortened file may lack,
// into an error. Any other panic is the caller's own and goes on.
func rescueFault(err *error) {
	switch p := recover().(type) {
	case nil:
	case interface{ Addr() uintptr }:
		*err = fmt.Errorf("%w: %v", store.ErrCorrupt, p)
	default:
		panic(p)
	}
}
