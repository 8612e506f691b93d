// Package bolt implements [kv.Store] on a bbolt file. No other package uses bbolt.
package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// lockWait is how long Open waits for another process to release the file. Without a limit bbolt
// would wait forever.
const lockWait = 500 * time.Millisecond

// Store is a bbolt file. While it is open, it is locked against other processes. It implements
// [kv.Store] and [kv.Copier].
//
// [Create], [Store.CopyTo] and [Store.Compact] first create a file with a temporary name. For a
// file NAME the temporary name is .NAME.new-*.sluice-unfinished, with copy or compact instead of
// new for the other two.
//
// A crash may leave the temporary file, and it may contain records. No process reads it. The next
// of these calls in the same directory removes it, unless a process has it open or the system has
// no flock; then it must be deleted by hand.
type Store struct {
	// path is absolute and without symbolic links, so that a change of the working directory does
	// no harm.
	path string
	// openedAs is the absolute path by which the file was opened. If it contains symbolic links,
	// they must keep leading to the file.
	openedAs   string
	compacting sync.Mutex // held by Compact to its end, and by Close
	writing    sync.Mutex // held by each Update, and by Compact until the new file is in place
	stopped    error      // why nothing may be written any more, or nil; guarded by writing
	mu         sync.Mutex
	// current is changed only with both writing and mu held, after the path leads to the new file.
	current *database
	hook    func(step string) error // for tests: see callHook
	naming  naming                  // how copies get their names
}

// database is an open bbolt file.
type database struct {
	db       *bbolt.DB
	file     *os.File // opened for bbolt; it holds the lock
	identity fs.FileInfo
	readOnly bool
	damage   findings       // only of a file that is open for reading; for writing, a damaged file is refused
	users    sync.WaitGroup // views and copies; none is added after the database is no longer current
	isBroken atomic.Bool    // bbolt panicked while it held a lock, so no call may wait for bbolt any more
	temp     string         // temporary name that the file had in Compact; it was renamed since then
	path     string         // current name, if temp is not empty

	pageSize      int
	known         atomic.Pointer[known] // expected meta pages and length
	isOverwritten atomic.Bool           // another process has written to the file, so it is not used any more
	sharing       sharing               // of a reading transaction among readers
}

// Create creates a new file at path with what fill writes, or no file. The file is filled and
// synced under a temporary name in the same directory, and then renamed.
//
// Create returns [fs.ErrExist] if path exists, and [errors.ErrUnsupported] where a file cannot be
// renamed without overwriting another.
func Create(path string, fill func(kv.Writer) error) error {
	err := system().create(path, kindNew, func(temp string) error { return fillNew(temp, fill) })
	if err != nil {
		return fmt.Errorf("create %s: %w", path, classify(err))
	}
	return nil
}

// fillNew opens the empty file at path for writing, runs fill in one transaction, and closes the
// file.
func fillNew(path string, fill func(kv.Writer) error) error {
	d, err := open(path, false, 0) // for writing; the size of the file is not known
	if err != nil {
		return err
	}
	err = d.update(fill)
	return errors.Join(err, d.close())
}

// Open opens an existing file, for reading only or for reading and writing. It returns
// [fs.ErrNotExist] if there is no file. It returns [kv.ErrInUse] if another process has a lock that
// excludes this one, or if the file was replaced during each of four attempts. It returns
// [kv.ErrCorrupt] if the file is no bbolt file or has a damaged structure.
//
// Some damaged files can still be opened for reading. Then each read of a part that cannot be read
// safely returns [kv.ErrCorrupt], and [Store.Inspect] skips these parts.
//
// For writing, Open checks a part of the file, which takes less than a second for a file of 5 GiB.
// If other pages of records are damaged, [kv.ErrCorrupt] is returned when they are needed, before
// they are used.
func Open(path string, readOnly bool) (*Store, error) {
	for range 4 {
		d, err := openExisting(path, readOnly)
		if err != nil {
			return nil, classify(err)
		}
		s := &Store{current: d, naming: system()}
		err = s.locate(path)
		// While this process waited for the lock, the previous owner may have compacted the file.
		// Then the lock is on a file that no path leads to.
		if err == nil {
			err = s.check(d)
		}
		if err == nil && !readOnly {
			// A process may have died after it renamed the file, and before it synced the
			// directory.
			if err = ledgerfile.TrySyncDir(filepath.Dir(s.path)); errors.Is(err, fs.ErrPermission) {
				err = nil // this process may not list the directory
			}
		}
		if err == nil {
			return s, nil
		}
		if err = errors.Join(err, d.close()); !errors.Is(err, kv.ErrReplaced) { // else try the new file
			return nil, fmt.Errorf("open %s: %w", path, classify(err))
		}
	}
	return nil, fmt.Errorf("open %s: %w: the file was replaced during each attempt to open it", path, kv.ErrInUse)
}

// locate sets s.path and s.openedAs for the file that path leads to now. It returns
// [kv.ErrReplaced] if path leads to no file, so that Open tries again.
func (s *Store) locate(path string) (err error) {
	if s.path, err = ledgerfile.Resolve(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", kv.ErrReplaced, err)
	}
	if err == nil {
		s.openedAs, err = ledgerfile.Absolute(path)
	}
	return err
}

// Path returns the absolute path of the file, without symbolic links.
func (s *Store) Path() string { return s.path }

// openExisting opens a file that must exist. It returns [kv.ErrCorrupt] if the file is not a
// regular file, is too small for a database, or is damaged.
func openExisting(path string, readOnly bool) (*database, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: %w: not a regular file", path, kv.ErrCorrupt)
	}
	// bbolt would create a database in an empty file.
	if info.Size() < minFileSize {
		return nil, fmt.Errorf("open %s: %w: %d bytes are too few for a ledger", path, kv.ErrCorrupt, info.Size())
	}
	return open(path, readOnly, info.Size())
}

// minFileSize is the size of an empty database: four pages of at least 4 KiB each.
const minFileSize = 4 * 4096

// open opens, locks, checks and syncs the file at path, and stores its meta pages as the expected
// ones. An empty file becomes a new database. size is the current or expected size of the file,
// which determines how much address space is reserved.
//
// It returns [kv.ErrInUse] if another process has a lock that excludes this one, and
// [kv.ErrCorrupt] for damage, including damage on which bbolt panics.
func open(path string, readOnly bool, size int64) (opened *database, err error) {
	d := &database{readOnly: readOnly}
	defer func() {
		// This runs after rescueLocked, which sets isBroken. bbolt may then hold a lock for which
		// closing its database would wait. So open only unlocks and closes the file.
		if d.isBroken.Load() && d.file != nil {
			err = errors.Join(err, ledgerfile.Unlock(d.file))
		}
	}()
	defer d.rescueLocked(&err) // bbolt panics on some damaged files
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	settings := Settings()
	settings.Timeout, settings.InitialMmapSize = lockWait, mapSize(size)
	settings.ReadOnly, settings.OpenFile = readOnly, d.openFile
	d.db, err = bbolt.Open(path, 0, settings)
	if errors.Is(err, syscall.ENOMEM) { // the system or a limit of the process does not allow so much address space
		// bbolt has closed the file of the first attempt. The second one reserves nothing.
		d.file, settings.InitialMmapSize = nil, 0
		d.db, err = bbolt.Open(path, 0, settings)
	}
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("open %s: %w", path, kv.ErrInUse)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch),
		errors.Is(err, bolterrors.ErrChecksum):
		return nil, fmt.Errorf("open %s: %w: %w", path, kv.ErrCorrupt, err)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	d.db.AllocSize = Growth
	// Without flock, openFile has not checked the structure.
	if !ledgerfile.CanLock {
		if err := d.checkStructure(d.file); err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), d.db.Close())
		}
	}
	// If a process died during its last commit, what it wrote is visible, but may not be on disk.
	if err := errors.Join(d.file.Sync(), d.readKnown()); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), d.db.Close())
	}
	return d, nil
}

// Settings returns the options of bbolt that decide what is written, and how fast. A [Store] also
// sets Bucket.FillPercent when it detects that keys rise.
func Settings() *bbolt.Options {
	return &bbolt.Options{FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapSize(0)}
}

// Growth is the number of bytes by which the file grows at a time. With the address space that is
// reserved here, bbolt's own choice would be 16 MiB, even for a small file.
const Growth = 1 << 20

// mapSize returns how many bytes of address space are reserved for a file of a size. A file may
// grow to four times its size, and at least to 4 GiB, before it is mapped again. To map it again,
// bbolt waits until all readers end, and new readers wait for bbolt.
//
// Reserved address space costs no memory. mapSize returns 0 on Windows, where the file itself would
// get this size, and on 32-bit systems.
func mapSize(size int64) int {
	if runtime.GOOS == "windows" || strconv.IntSize < 64 {
		return 0
	}
	const least, most = 4 << 30, 64 << 40 // most: half of the address space of most processors
	return int(max(least, 4*min(size, most/4)))
}

// openFile opens an existing file for bbolt, locks it, stores its identity, and checks its
// structure. It sets d.file only if it returns no error.
func (d *database) openFile(path string, flag int, mode os.FileMode) (*os.File, error) {
	file, err := os.OpenFile(path, flag&^os.O_CREATE, mode) // bbolt asks to create a missing file
	if err != nil {
		return nil, err
	}
	defer func() {
		if d.file == nil {
			_ = file.Close() // also after a panic
		}
	}()
	if err := d.lockAndCheck(file); err != nil {
		return nil, err
	}
	d.file = file
	return file, nil
}

// lockAndCheck locks a file, as bbolt will do again, and checks its structure. The lock is shared
// if the file is opened for reading only, and otherwise exclusive. Where [ledgerfile.CanLock] is
// false, the structure is checked later, after bbolt has locked the file.
func (d *database) lockAndCheck(file *os.File) (err error) {
	if err := ledgerfile.Lock(file, !d.readOnly, lockWait, kv.ErrInUse); err != nil {
		return err
	}
	d.identity, err = file.Stat()
	if err != nil || !ledgerfile.CanLock || d.identity.Size() == 0 {
		return err // bbolt creates a new database in an empty file
	}
	return d.checkStructure(file)
}

// checkStructure checks the structure of the file. Damage is an error, except in a file that is
// open for reading only and can still be read: then it is stored in d.damage.
func (d *database) checkStructure(file *os.File) (err error) {
	if d.damage, err = examine(file, d.readOnly); err != nil || d.readOnly {
		return err
	}
	return d.damage.err()
}

// View implements [kv.Store].
func (s *Store) View(fn func(kv.Reader) error) error {
	d := s.use()
	defer d.users.Done()
	return d.view(fn)
}

// view runs fn on a snapshot that other readers may share. It checks before and after fn that the
// file was not overwritten. If the file was overwritten, view returns that error, whether or not fn
// returns one.
func (d *database) view(fn func(kv.Reader) error) (err error) {
	defer d.renameInError(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	shared, err := d.acquireShared()
	if err != nil {
		return err
	}
	// The deferred calls run from the last to the first. A fault becomes an error, which may then
	// be replaced by ErrOverwritten, and then the transaction ends.
	defer d.releaseShared(shared, &err)
	defer d.preferOverwritten(&err)
	defer rescueFault(&err)
	if err := shared.check(); err != nil {
		return err
	}
	r := shared.old       // a copy, because each reader has its own list of buckets
	r.known = r.first[:0] // the array of the copy
	defer r.end()
	err = fn(&r)
	if changed := shared.check(); changed != nil {
		return changed
	}
	return err
}

// snapshot runs fn in a reading transaction of its own, which is not shared with other readers.
func (s *Store) snapshot(fn func(*transaction) error) error {
	d := s.use()
	defer d.users.Done()
	return d.run(false, fn)
}

// use returns the current file. The file stays open until the caller calls users.Done.
func (s *Store) use() *database {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.users.Add(1)
	return s.current
}

// run runs fn in a transaction of its own. If fn returns nil and has written anything, run commits
// the transaction; if the commit fails, the error wraps [kv.ErrUncertain]. If the file was
// overwritten, run returns that error, whether or not fn returns one.
func (d *database) run(writable bool, fn func(*transaction) error) (err error) {
	defer d.renameInError(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := d.begin(writable)
	if err != nil {
		return err
	}
	// The deferred calls run from the last to the first, as in view.
	defer tx.end(&err)
	defer d.preferOverwritten(&err)
	defer rescueFault(&err)
	if err := tx.check(); err != nil {
		return err
	}
	err = fn(tx)
	if changed := tx.check(); changed != nil {
		return changed
	}
	if err != nil || !tx.hasWrites {
		return err
	}
	if err := tx.commit(); err != nil {
		return fmt.Errorf("%w: %w", kv.ErrUncertain, err)
	}
	return nil
}

// Update implements [kv.Store]. It returns [kv.ErrReplaced] if the path no longer leads to the open
// file, or if the file was overwritten.
func (s *Store) Update(fn func(kv.Writer) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.stopped != nil {
		return s.stopped
	}
	if err := s.check(s.current); err != nil {
		return err
	}
	return s.current.update(fn)
}

func (d *database) update(fn func(kv.Writer) error) error {
	return d.run(true, func(tx *transaction) error { return fn(tx) })
}

// Check implements [kv.Guard]. If the first check fails, it checks again while Compact cannot
// replace the file.
func (s *Store) Check() error {
	d := s.use()
	defer d.users.Done()
	if s.check(d) == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()       // mu keeps Compact from replacing the file during the second check
	return s.check(s.current) // Compact may have replaced the file since the first one
}

// check returns [kv.ErrReplaced] unless both s.path and s.openedAs lead to the file of d.
func (s *Store) check(d *database) error {
	err := d.checkIdentity(s.path)
	if err == nil && s.openedAs != s.path {
		err = d.checkIdentity(s.openedAs)
	}
	return err
}

// checkIdentity returns [kv.ErrReplaced] unless path leads to the file of d.
func (d *database) checkIdentity(path string) error {
	now, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%w: %w", kv.ErrReplaced, err)
	}
	if !os.SameFile(now, d.identity) {
		return fmt.Errorf("%w: %s", kv.ErrReplaced, path)
	}
	return nil
}

// Size implements [kv.Store].
func (s *Store) Size() (int64, error) {
	info, err := os.Stat(s.path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Free implements [kv.Spacious]. It returns 0 if the file is open for reading only, or cannot be
// read.
func (s *Store) Free() (free int64) {
	d := s.use()
	defer d.users.Done()
	_ = d.run(false, func(t *transaction) error {
		free = t.tx.Size() - t.used()
		return nil
	})
	return free
}

// Close implements [kv.Store]. After a panic of bbolt it only releases the file. The system
// releases the rest when the process ends.
func (s *Store) Close() error {
	d := s.use() // only to read s.current
	d.users.Done()
	if d.isBroken.Load() {
		return d.close() // operations on the file may never end, so Close does not wait for them
	}
	s.compacting.Lock()
	defer s.compacting.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	return errors.Join(s.current.checkFile(), s.current.close())
}

// renameInError replaces the temporary name of the file in an error by its path. Errors of the
// operating system have the name by which the file was opened.
func (d *database) renameInError(err *error) {
	if *err != nil && d.temp != "" {
		*err = ledgerfile.Renamed(*err, d.path, d.temp)
	}
}

// close closes the file. After a panic of bbolt it only unlocks the file, because bbolt may hold a
// lock that db.Close would wait for.
func (d *database) close() (err error) {
	defer d.renameInError(&err)
	if d.isBroken.Load() {
		return errors.Join(errPanicked, ledgerfile.Unlock(d.file))
	}
	return errors.Join(d.endSharing(true), d.db.Close())
}

var errPanicked = fmt.Errorf("%w: bbolt has panicked in this file; open it again", kv.ErrCorrupt)

// transaction implements [kv.Writer]. It keeps the buckets that it has looked up.
type transaction struct {
	in        *database
	tx        *bbolt.Tx
	mapped    []byte   // the part of the file that it sees
	old       snapshot // the file before the transaction
	buckets   *bucket  // the bucket looked up last, the head of a short list
	hasWrites bool     // Put or Delete has changed anything
}

// bucket is a bucket in a transaction.
type bucket struct {
	*bbolt.Bucket
	name   string
	old    tree // before the transaction
	at     span // the leaf checked last
	next   *bucket
	hasPut bool   // Put was called
	last   []byte // the last key before the transaction; nil if the first Put was not in the last leaf
}

// begin begins a transaction, which the caller must end with [transaction.end]. It returns an error
// if the file was overwritten, or if bbolt has panicked before.
func (d *database) begin(writable bool) (t *transaction, err error) {
	defer d.preferOverwritten(&err)
	if d.isOverwritten.Load() {
		return nil, errOverwritten()
	}
	if d.isBroken.Load() {
		return nil, errPanicked
	}
	// If no meta page is valid, bbolt panics with locks held, and other calls would wait for these
	// forever. So the file is checked first. A change within the microsecond between the check and
	// the call of bbolt is not detected in time.
	if err := d.checkFile(); err != nil {
		return nil, err
	}
	defer d.rescueLocked(&err)
	if writable { // while bbolt begins it, no shared transaction is open that keeps pages from reuse
		d.endSharing(true)
		defer d.endSharing(false)
	}
	tx, err := d.db.Begin(writable)
	if err != nil {
		return nil, err
	}
	root := uint64(tx.Cursor().Bucket().Root()) // of the tree of buckets
	t = &transaction{in: d, tx: tx, old: snapshot{in: d, pageSize: uint64(d.pageSize), root: root}}
	// The size comes from a meta page. If it is impossible, another process has written that page.
	if size := tx.Size(); size >= metaPages*int64(d.pageSize) && int64(int(size)) == size {
		// Info().Data is the address of the mapped file, as a uintptr. It is read as a pointer,
		// because the rules of package unsafe exclude a conversion.
		t.mapped = unsafe.Slice(*(**byte)(unsafe.Pointer(&tx.DB().Info().Data)), size)
		t.old.data, t.old.known = t.mapped, t.old.first[:0]
		return t, nil
	}
	t.end(&err)
	return nil, errors.Join(err, d.markOverwritten())
}

// end ends the transaction, and undoes what was not committed. If that fails, it sets *err, unless
// *err is set already. After a panic of bbolt it does nothing, because bbolt may hold a lock that
// it would wait for.
func (t *transaction) end(err *error) {
	if t.in.isBroken.Load() {
		return
	}
	defer t.in.rescueLocked(err)
	if undo := t.tx.Rollback(); undo != nil && !errors.Is(undo, bolterrors.ErrTxClosed) && *err == nil {
		*err = undo
	}
}

// commit makes a transaction durable. After a failed commit nothing more is written, not even when
// the file is closed. Otherwise what did not reach the disk could then appear to be durable.
func (t *transaction) commit() (err error) {
	defer t.in.rescueLocked(&err)
	number := uint64(t.tx.ID())
	t.in.beginCommit(number)
	t.in.endSharing(true)
	defer t.in.endSharing(false)
	if err = t.tx.Commit(); err == nil {
		err = t.in.endCommit(number)
	}
	return err
}

// bucket returns a bucket, and keeps it for later calls. It returns nil and no error if there is no
// such bucket. It returns an error if the pages of the bucket are too damaged to be followed. It
// first finds the bucket without bbolt, and so checks the pages that bbolt then reads.
func (t *transaction) bucket(name string) (b *bucket, err error) {
	defer rescue(&err)
	for b := t.buckets; b != nil; b = b.next {
		if b.name == name {
			return b, nil
		}
	}
	before, err := t.old.find(name)
	if before == nil {
		return nil, err
	}
	found := t.tx.Bucket([]byte(name))
	if found == nil {
		return nil, corrupt(fmt.Errorf("bucket %q is not found by bbolt", name))
	}
	return t.addBucket(&bucket{Bucket: found, name: name, old: before.tree}), nil
}

// addBucket adds a bucket to the list of those looked up.
func (t *transaction) addBucket(b *bucket) *bucket {
	b.next, t.buckets = t.buckets, b
	return b
}

// Get implements [kv.Reader].
func (t *transaction) Get(bucket string, key []byte) (value []byte, err error) {
	defer rescue(&err)
	b, err := t.bucket(bucket)
	if b == nil {
		return nil, err
	}
	if err := t.checkLeaf(b, key); err != nil {
		return nil, err
	}
	return b.Get(key), nil
}

// Scan implements [kv.Reader].
func (t *transaction) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	b, err := t.bucket(bucket)
	if b == nil {
		return err
	}
	cursor := b.Cursor()
	key, value, err := t.step(b, from, func() ([]byte, []byte) { return cursor.Seek(from) })
	for err == nil && key != nil && visit(key, value) {
		key, value, err = t.step(b, key, cursor.Next)
	}
	return err
}

// step calls move, which is Seek or Next of a cursor. It returns the record to which the cursor
// moves, or a nil key at the end. from is the key that move seeks, or the key before the move. The
// cursor moves at most to the next leaf that has records, so step first checks the leaves that
// bbolt may read.
func (t *transaction) step(b *bucket, from []byte, move func() (key, value []byte)) (key, value []byte, err error) {
	defer rescue(&err)
	if err := t.checkLeafAndNeighbors(b, from); err != nil {
		return nil, nil, err
	}
	key, value = move()
	return key, value, nil
}

var errEmpty = errors.New("empty key or value")

// Put implements [kv.Writer]. It creates the bucket if there is none.
func (t *transaction) Put(name string, key, value []byte) (err error) {
	defer rescue(&err)
	if len(key) == 0 || len(value) == 0 {
		return errEmpty
	}
	b, err := t.bucket(name)
	if err != nil {
		return err
	}
	if b == nil {
		made, err := t.tx.CreateBucket([]byte(name))
		if err != nil {
			return err
		}
		// Its leaf counts as checked, because the file has none yet.
		b = t.addBucket(&bucket{Bucket: made, name: name, at: span{isKnown: true}})
	}
	if err := t.checkLeaf(b, key); err != nil {
		return err
	}
	t.hasWrites = true
	b.fill(key)
	return b.Put(key, value)
}

// fillRising is the share to which pages are filled when they are split, if keys rise and are after
// all others. The rest is free, so that a record that grows later does not split its page at once.
// Other pages are half full.
const fillRising = 0.95

// fill sets the fill percentage of the bucket for a key that is put next. At the first Put it
// chooses [fillRising] if the key belongs to the last leaf of the bucket, and else the default.
// After the first key that is not above all keys from before the transaction, the default remains
// to the end of the transaction.
func (b *bucket) fill(key []byte) {
	if !b.hasPut {
		b.hasPut, b.FillPercent = true, bbolt.DefaultFillPercent
		if b.at.high == nil { // the key belongs to the last leaf
			b.last, b.FillPercent = b.at.last, fillRising
		}
	}
	if bytes.Compare(key, b.last) <= 0 {
		b.FillPercent = bbolt.DefaultFillPercent
	}
}

// Delete implements [kv.Writer]. It also checks the neighbors of the leaf, because bbolt may merge
// the leaf with one of them.
func (t *transaction) Delete(bucket string, key []byte) (err error) {
	defer rescue(&err)
	if len(key) == 0 {
		return errEmpty
	}
	b, err := t.bucket(bucket)
	if b == nil {
		return err
	}
	if err := t.checkLeaf(b, key); err != nil || b.Get(key) == nil { // nil: there is no such key
		return err
	}
	if err := t.checkLeafAndNeighbors(b, key); err != nil {
		return err
	}
	t.hasWrites = true
	return b.Delete(key)
}

// used returns how many bytes of the file are in use. If the free pages are not known, as in a file
// that is open for reading only, it returns the size of the file.
func (t *transaction) used() int64 {
	db := t.tx.DB()
	s := db.Stats()
	return t.tx.Size() - int64(s.FreePageN+s.PendingPageN)*int64(db.Info().PageSize)
}

// writeTo writes the file as it is in the snapshot.
func (t *transaction) writeTo(file io.Writer) (err error) {
	defer rescue(&err)
	_, err = t.tx.WriteTo(file)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: the file was truncated during the copy", kv.ErrCorrupt)
	}
	return err
}

// rescue converts a panic of bbolt, which damaged pages can cause, to an error. It is used only
// around calls of bbolt, so that it hides no bug of this package.
func rescue(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: bbolt: %v", kv.ErrCorrupt, p)
	}
}

// rescueLocked is rescue for calls in which bbolt holds a lock, which stays locked after a panic.
func (d *database) rescueLocked(err *error) {
	if p := recover(); p != nil {
		d.isBroken.Store(true)
		*err = fmt.Errorf("%w: bbolt: %v", kv.ErrCorrupt, p)
	}
}

// rescueFault converts a memory fault in the mapped file to an error. A damaged or shortened file
// may lack some of the mapped pages. Any other panic continues, because it is one of the caller.
func rescueFault(err *error) {
	switch p := recover().(type) {
	case nil:
	case interface{ Addr() uintptr }:
		*err = fmt.Errorf("%w: %v", kv.ErrCorrupt, p)
	default:
		panic(p)
	}
}

// classify returns err, wrapped in [errs.ErrTooManyFiles] as well if the process or the system has
// no free file descriptor.
func classify(err error) error { return ledgerfile.ClassifyOpen(err, errs.ErrTooManyFiles) }
