// Package bolt keeps a [kv.Store] in a bbolt file. It is the only package that knows bbolt.
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

// lockWait is how long Open waits for another process to let go of the file. Without a limit bbolt
// would wait for ever.
const lockWait = 500 * time.Millisecond

// Store is a bbolt file, locked against other processes for as long as it is open. It implements
// [kv.Store] and [kv.Copier].
//
// [Create], [Store.CopyTo] and [Store.Compact] make a file under another name first: for a file
// NAME it is .NAME.new-*.sluice-unfinished, or copy or compact instead of new. After a crash it may
// remain, and hold records. Nothing reads it again, and the next of these calls in the same
// directory removes it, unless somebody has it open, or the system has no flock: then delete it.
type Store struct {
	path       string     // absolute and without symbolic links, so that a change of the working directory does no harm
	named      string     // the absolute path by which the file was opened; a link there must go on leading to it
	compacting sync.Mutex // held by Compact to its end, and by Close
	writing    sync.Mutex // held by each Update, and by Compact until the new file has its place
	halted     error      // why nothing may be written any more; guarded by writing
	mu         sync.Mutex
	current    *database // changed only with both writing and mu held, when the path leads to it
	hook       func(step string) error
	naming     naming // of copies
}

// database is an open bbolt file.
type database struct {
	db       *bbolt.DB
	file     *os.File // bbolt's; it holds the lock
	identity fs.FileInfo
	readOnly bool
	damage   findings       // of a file that is open for reading only; others are refused
	users    sync.WaitGroup // views and copies; none is added once it is no longer the current one
	broken   atomic.Bool    // bbolt panicked while it held a lock, so nothing may wait for it any more
	temp     string         // the name under which Compact made the file; it had another one since
	path     string         // of the file, if temp is not empty

	pageSize    int
	known       atomic.Pointer[known]
	overwritten atomic.Bool // somebody has written to the file, so nothing more is done with it
	sharing     sharing
}

// Create makes a new file at path with what fill writes, or none: the file is filled and synced
// under another name in the same directory before it gets its own. It returns [fs.ErrExist] when
// there is a file already, and [errors.ErrUnsupported] where nothing gives a file its name without
// overwriting another.
func Create(path string, fill func(kv.Writer) error) error {
	err := system().place(path, kindNew, func(temp string) error { return fillNew(temp, fill) })
	if err != nil {
		return fmt.Errorf("create %s: %w", path, classify(err))
	}
	return nil
}

func fillNew(path string, fill func(kv.Writer) error) error {
	d, err := open(path, false, 0)
	if err != nil {
		return err
	}
	err = d.update(fill)
	return errors.Join(err, d.close())
}

// Open opens an existing file, for reading only or for both. It returns [fs.ErrNotExist] when there
// is none, [kv.ErrInUse] when another process has it open in a way that excludes this one, and
// [kv.ErrCorrupt] when it is not a bbolt file, or one whose pages are not held together as they
// should be. Some of that can still be opened for reading: then what cannot be read without danger
// gives [kv.ErrCorrupt] each time, and [Store.Inspect] reads around it.
//
// For writing it looks at a part of the file, which takes less than a second for one of 5 GiB; a
// damaged page of records may be met later, and gives [kv.ErrCorrupt] before anything is done with
// it.
func Open(path string, readOnly bool) (*Store, error) {
	for range 4 {
		d, err := openExisting(path, readOnly)
		if err != nil {
			return nil, classify(err)
		}
		s := &Store{current: d, naming: system()}
		err = s.locate(path)
		// Who had the file open may have compacted it while this process waited for the lock, and
		// so may have left the lock of a file that nobody finds any more.
		if err == nil {
			err = s.check(d)
		}
		if err == nil && !readOnly {
			// A process may have died between giving the file its name and that.
			if err = ledgerfile.TrySyncDir(filepath.Dir(s.path)); errors.Is(err, fs.ErrPermission) {
				err = nil // the process may not list the directory
			}
		}
		if err == nil {
			return s, nil
		}
		if err = errors.Join(err, d.close()); !errors.Is(err, kv.ErrReplaced) {
			return nil, fmt.Errorf("open %s: %w", path, classify(err))
		}
	}
	return nil, fmt.Errorf("open %s: %w: it is replaced again and again", path, kv.ErrInUse)
}

// locate notes where the file is that path leads to now.
func (s *Store) locate(path string) (err error) {
	if s.path, err = ledgerfile.Resolve(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", kv.ErrReplaced, err)
	}
	if err == nil {
		s.named, err = ledgerfile.Absolute(path)
	}
	return err
}

// Path returns the absolute path of the file, without symbolic links.
func (s *Store) Path() string { return s.path }

func openExisting(path string, readOnly bool) (*database, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: %w: not a regular file", path, kv.ErrCorrupt)
	}
	// bbolt would make a database of an empty file.
	if info.Size() < smallest {
		return nil, fmt.Errorf("open %s: %w: %d bytes are no ledger", path, kv.ErrCorrupt, info.Size())
	}
	return open(path, readOnly, info.Size())
}

// smallest is the size of an empty database: four pages, which are nowhere below 4 KiB.
const smallest = 4 * 4096

// open opens a file that has a size, or will soon.
func open(path string, readOnly bool, size int64) (opened *database, err error) {
	d := &database{readOnly: readOnly}
	defer func() {
		if d.broken.Load() && d.file != nil {
			err = errors.Join(err, ledgerfile.Unlock(d.file))
		}
	}()
	defer d.rescueLocked(&err) // bbolt panics on some damaged files
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	settings := Settings()
	settings.Timeout, settings.InitialMmapSize = lockWait, mapSize(size)
	settings.ReadOnly, settings.OpenFile = readOnly, d.openFile
	d.db, err = bbolt.Open(path, 0, settings)
	if errors.Is(err, syscall.ENOMEM) { // there is not so much address space, or this process may not have it
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
	if !ledgerfile.CanLock {
		if err := d.look(d.file); err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), d.db.Close())
		}
	}
	// If a process died in its last commit, what it wrote shows, but may not be on disk.
	if err := errors.Join(d.file.Sync(), d.learn()); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), d.db.Close())
	}
	return d, nil
}

// Settings are those of bbolt that decide what is written, and how fast. A [Store] also sets
// Bucket.FillPercent where it can tell that keys rise.
func Settings() *bbolt.Options {
	return &bbolt.Options{FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapSize(0)}
}

// Growth is by how much the file grows at a time. bbolt's own choice, with this much address space
// reserved, would be 16 MiB from the first byte on.
const Growth = 1 << 20

// mapSize is the address space reserved at once for a file of a size: it may grow to four times
// that, and to 4 GiB in any case, before it is mapped anew. That waits until nobody reads, and has
// who comes to read wait. It costs no memory. Windows would make the file as large.
func mapSize(size int64) int {
	if runtime.GOOS == "windows" || strconv.IntSize < 64 {
		return 0
	}
	const least, most = 4 << 30, 64 << 40 // processors have 128 TiB, most of them
	return int(max(least, 4*min(size, most/4)))
}

// openFile opens an existing file, remembers which one it was, and looks at it once nobody else can
// write to it.
func (d *database) openFile(path string, flag int, mode os.FileMode) (*os.File, error) {
	file, err := os.OpenFile(path, flag&^os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	defer func() {
		if d.file == nil {
			_ = file.Close() // also after a panic
		}
	}()
	if err := d.admit(file); err != nil {
		return nil, err
	}
	d.file = file
	return file, nil
}

// admit locks a file, as bbolt will do again, and looks at what is in it. Where only bbolt can lock
// files, that has to wait until it has.
func (d *database) admit(file *os.File) (err error) {
	if err := ledgerfile.Lock(file, !d.readOnly, lockWait, kv.ErrInUse); err != nil {
		return err
	}
	d.identity, err = file.Stat()
	if err != nil || !ledgerfile.CanLock || d.identity.Size() == 0 {
		return err // bbolt makes a new database of an empty file
	}
	return d.look(file)
}

func (d *database) look(file *os.File) (err error) {
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

// view runs fn on a snapshot. If the file is not what it was, that is the error, whatever fn has
// met.
func (d *database) view(fn func(kv.Reader) error) (err error) {
	defer d.rename(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	x, err := d.borrow()
	if err != nil {
		return err
	}
	defer d.giveBack(x, &err)
	defer d.blame(&err)
	defer rescueFault(&err)
	if err := x.check(); err != nil {
		return err
	}
	r := x.old
	r.known = r.first[:0]
	defer r.end()
	err = fn(&r)
	if changed := x.check(); changed != nil {
		return changed
	}
	return err
}

func (s *Store) snapshot(fn func(*transaction) error) error {
	d := s.use()
	defer d.users.Done()
	return d.run(false, fn)
}

// use returns the current file. It stays open until the caller has told its users that it is done.
func (s *Store) use() *database {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.users.Add(1)
	return s.current
}

// run runs fn in a transaction. If the file is not what it was, that is the error, whatever fn has
// met.
func (d *database) run(writable bool, fn func(*transaction) error) (err error) {
	defer d.rename(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := d.begin(writable)
	if err != nil {
		return err
	}
	defer tx.end(&err)
	defer d.blame(&err)
	defer rescueFault(&err)
	if err := tx.check(); err != nil {
		return err
	}
	err = fn(tx)
	if changed := tx.check(); changed != nil {
		return changed
	}
	if err != nil || !tx.wrote {
		return err
	}
	if err := tx.commit(); err != nil {
		return fmt.Errorf("%w: %w", kv.ErrUncertain, err)
	}
	return nil
}

// Update implements [kv.Store]. It refuses with [kv.ErrReplaced] when the path no longer leads to
// the open file, or when that was overwritten.
func (s *Store) Update(fn func(kv.Writer) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.halted != nil {
		return s.halted
	}
	if err := s.check(s.current); err != nil {
		return err
	}
	return s.current.update(fn)
}

func (d *database) update(fn func(kv.Writer) error) error {
	return d.run(true, func(tx *transaction) error { return fn(tx) })
}

// Check implements [kv.Guard].
func (s *Store) Check() error {
	d := s.use()
	defer d.users.Done()
	if s.check(d) == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.check(s.current) // Compact may just have replaced the file
}

// check returns [kv.ErrReplaced] unless both paths lead to a file.
func (s *Store) check(d *database) error {
	err := d.checkIdentity(s.path)
	if err == nil && s.named != s.path {
		err = d.checkIdentity(s.named)
	}
	return err
}

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

// Free implements [kv.Spacious]. Of a file that is open for reading, or cannot be read, nothing is
// known to be free.
func (s *Store) Free() (free int64) {
	d := s.use()
	defer d.users.Done()
	_ = d.run(false, func(t *transaction) error {
		free = t.tx.Size() - t.used()
		return nil
	})
	return free
}

// Close implements [kv.Store]. After a panic of bbolt it lets go of the file and leaves the rest to
// the end of the process.
func (s *Store) Close() error {
	d := s.use()
	d.users.Done()
	if d.broken.Load() {
		return d.close() // whoever works on the file may never be done
	}
	s.compacting.Lock()
	defer s.compacting.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	return errors.Join(s.current.checkFile(), s.current.close())
}

// rename has an error name the file by its path: the operating system's errors have the name that
// it was opened by.
func (d *database) rename(err *error) {
	if *err != nil && d.temp != "" {
		*err = ledgerfile.Renamed(*err, d.path, d.temp)
	}
}

func (d *database) close() (err error) {
	defer d.rename(&err)
	if d.broken.Load() {
		return errors.Join(errBroken(), ledgerfile.Unlock(d.file))
	}
	return errors.Join(d.unshare(true), d.db.Close())
}

func errBroken() error { return fmt.Errorf("%w: bbolt gave up before", kv.ErrCorrupt) }

// transaction implements [kv.Writer]. It remembers the buckets it has looked up.
type transaction struct {
	in      *database
	tx      *bbolt.Tx
	mapped  []byte   // what it sees of the file
	old     snapshot // the file as it was before
	buckets *bucket  // the one looked up last, which leads to those before: they are few
	wrote   bool
}

// bucket is one in a transaction.
type bucket struct {
	*bbolt.Bucket
	name string
	old  tree // before the transaction
	at   span // the leaf looked at last
	next *bucket
	put  bool   // something was
	last []byte // the last key before the transaction
}

func (d *database) begin(writable bool) (t *transaction, err error) {
	defer d.blame(&err)
	if d.overwritten.Load() {
		return nil, errOverwritten()
	}
	if d.broken.Load() {
		return nil, errBroken()
	}
	// Where no meta page is valid bbolt panics with locks held, for which others would wait for
	// ever. So the file is checked first. What is overwritten within the microsecond between the
	// two is not noticed in time.
	if err := d.checkFile(); err != nil {
		return nil, err
	}
	defer d.rescueLocked(&err)
	if writable {
		d.unshare(true)
		defer d.unshare(false)
	}
	tx, err := d.db.Begin(writable)
	if err != nil {
		return nil, err
	}
	root := uint64(tx.Cursor().Bucket().Root())
	t = &transaction{in: d, tx: tx, old: snapshot{in: d, pageSize: uint64(d.pageSize), root: root}}
	if size := tx.Size(); size >= metaPages*int64(d.pageSize) && int64(int(size)) == size {
		t.mapped = unsafe.Slice(*(**byte)(unsafe.Pointer(&tx.DB().Info().Data)), size)
		t.old.data, t.old.known = t.mapped, t.old.first[:0]
		return t, nil
	}
	t.end(&err)
	return nil, errors.Join(err, d.overwrite())
}

// end undoes what was not committed.
func (t *transaction) end(err *error) {
	if t.in.broken.Load() {
		return
	}
	defer t.in.rescueLocked(err)
	if undo := t.tx.Rollback(); undo != nil && !errors.Is(undo, bolterrors.ErrTxClosed) && *err == nil {
		*err = undo
	}
}

// commit makes a transaction durable. After one that failed nothing more is written when the file
// is closed: what did not reach the disk might be taken for durable then.
func (t *transaction) commit() (err error) {
	defer t.in.rescueLocked(&err)
	number := uint64(t.tx.ID())
	t.in.writes(number)
	t.in.unshare(true)
	defer t.in.unshare(false)
	if err = t.tx.Commit(); err == nil {
		err = t.in.wrote(number)
	}
	return err
}

// bucket returns nil when there is no such bucket, and an error when its pages must not be
// followed.
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
		return nil, corrupt(fmt.Errorf("bucket %q cannot be found", name))
	}
	return t.remember(&bucket{Bucket: found, name: name, old: before.tree}), nil
}

func (t *transaction) remember(b *bucket) *bucket {
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
	if err := t.look(b, key); err != nil {
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

// step moves a cursor from a key on, at most to the next leaf that has any records.
func (t *transaction) step(b *bucket, from []byte, move func() (key, value []byte)) (key, value []byte, err error) {
	defer rescue(&err)
	if err := t.lookAround(b, from); err != nil {
		return nil, nil, err
	}
	key, value = move()
	return key, value, nil
}

var errEmpty = errors.New("empty key or value")

// Put implements [kv.Writer].
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
		b = t.remember(&bucket{Bucket: made, name: name, at: span{known: true}})
	}
	if err := t.look(b, key); err != nil {
		return err
	}
	t.wrote = true
	b.fill(key)
	return b.Put(key, value)
}

// fillRising is how full pages are made when they are split, of keys that rise and are after all
// others: records may still grow, and not each that does should split a page. Others are half full.
const fillRising = 0.95

// fill decides how full pages are made.
func (b *bucket) fill(key []byte) {
	if !b.put {
		b.put, b.FillPercent = true, bbolt.DefaultFillPercent
		if b.at.high == nil { // it is in the last leaf
			b.last, b.FillPercent = b.at.last, fillRising
		}
	}
	if bytes.Compare(key, b.last) <= 0 {
		b.FillPercent = bbolt.DefaultFillPercent
	}
}

// Delete implements [kv.Writer].
func (t *transaction) Delete(bucket string, key []byte) (err error) {
	defer rescue(&err)
	if len(key) == 0 {
		return errEmpty
	}
	b, err := t.bucket(bucket)
	if b == nil {
		return err
	}
	if err := t.look(b, key); err != nil || b.Get(key) == nil {
		return err
	}
	if err := t.lookAround(b, key); err != nil {
		return err
	}
	t.wrote = true
	return b.Delete(key)
}

// used returns how many bytes of the file are in use, or all of them where the free pages are not
// known.
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
		err = fmt.Errorf("%w: the file was cut off", kv.ErrCorrupt)
	}
	return err
}

// rescue turns a panic of bbolt, which damaged pages can cause, into an error. It stands around
// calls of bbolt only, so that it hides no fault of ours.
func rescue(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: bbolt: %v", kv.ErrCorrupt, p)
	}
}

// rescueLocked is rescue where bbolt holds a lock that its panic leaves locked.
func (d *database) rescueLocked(err *error) {
	if p := recover(); p != nil {
		d.broken.Store(true)
		*err = fmt.Errorf("%w: bbolt: %v", kv.ErrCorrupt, p)
	}
}

// rescueFault turns a fault on the mapped file, whose pages a damaged or shortened file may lack,
// into an error. Any other panic is the caller's own and goes on.
func rescueFault(err *error) {
	switch p := recover().(type) {
	case nil:
	case interface{ Addr() uintptr }:
		*err = fmt.Errorf("%w: %v", kv.ErrCorrupt, p)
	default:
		panic(p)
	}
}

// classify returns an error of a full table of descriptors as an [errs.ErrTooManyFiles], too.
func classify(err error) error { return ledgerfile.ClassifyOpen(err, errs.ErrTooManyFiles) }
