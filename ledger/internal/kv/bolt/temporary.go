package bolt

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Temporary is a [kv.Store] for data that are needed once: the data that a memtable spills to disk.
// It is empty at first. The first Update creates its file; the file has no name on systems that can
// remove an open file. Nothing is durable, and Close removes everything. An Update that fails may
// leave some of its writes.
//
// Records have checksums. Damage of the file is reported as an error that is neither
// [kv.ErrCorrupt] nor [kv.ErrReplaced], because no ledger is damaged.
type Temporary struct {
	dir      string
	writing  sync.Mutex // held by each Update until its commit is recorded
	mu       sync.Mutex
	current  *database // nil before the first Update
	leftover string    // of the file, if it could not be removed
	closed   bool
}

var (
	errTemporaryClosed  = errors.New("the spill file is closed")
	errTemporaryDamaged = errors.New("read a spill file: its content is not what was written")
)

// NewTemporary returns an empty store. Its file is created in dir, or in the default directory for
// temporary files if dir is "".
func NewTemporary(dir string) *Temporary {
	if dir == "" {
		dir = os.TempDir()
	}
	return &Temporary{dir: dir}
}

// open returns the open file of the store. If there is none yet, it creates one if create is true,
// and otherwise returns nil and no error. It returns errTemporaryClosed after Close.
func (t *Temporary) open(create bool) (*database, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, errTemporaryClosed
	case t.current != nil || !create:
		return t.current, nil
	}
	displayName := "a spill file in " + t.dir // for errors, because the file has no name
	file, err := os.CreateTemp(t.dir, "sluice-spill-*")
	if err != nil {
		return nil, classify(ledgerfile.Renamed(err, displayName))
	}
	d, err := open(file.Name(), false, 0) // for writing; the size is not known
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(file.Name()))
		return nil, classify(ledgerfile.Renamed(err, displayName, file.Name()))
	}
	d.db.NoSync, d.db.NoFreelistSync, d.db.NoGrowSync = true, true, true // nothing has to be durable
	d.temp, d.path = file.Name(), displayName                            // errors show displayName
	if os.Remove(file.Name()) != nil {
		t.leftover = file.Name() // this system does not remove an open file
	}
	t.current = d
	return d, nil
}

// View implements [kv.Store]. Before the first Update, the reader is empty.
func (t *Temporary) View(fn func(kv.Reader) error) error {
	d, err := t.open(false)
	if err != nil {
		return err
	}
	if d == nil {
		return fn(emptyReader{})
	}
	var fromCaller error
	err = d.view(func(r kv.Reader) error {
		fromCaller = fn(unsealing{r})
		return fromCaller
	})
	return spillError(err, fromCaller)
}

// Update implements [kv.Store], except that it may commit the writes of fn in several transactions,
// so that large updates need little memory.
func (t *Temporary) Update(fn func(kv.Writer) error) (err error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	d, err := t.open(true)
	if err != nil {
		return err
	}
	defer d.renameInError(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	b := batches{into: d}
	defer func() { err = spillError(err, nil) }()
	defer b.end(&err)
	defer rescueFault(&err)
	if err := b.begin(); err != nil {
		return err
	}
	if err := fn(sealing{unsealing{&b}, &b}); err != nil {
		return err
	}
	return b.commit()
}

// spillError converts [kv.ErrCorrupt] and [kv.ErrReplaced] to errTemporaryDamaged. It returns any
// other error unchanged. callers is the error that the function of the caller has returned, or nil.
// If callers is one of the two errors itself, err may be about another store, and is returned
// unchanged.
func spillError(err, callers error) error {
	if errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrReplaced) {
		if !errors.Is(callers, kv.ErrCorrupt) && !errors.Is(callers, kv.ErrReplaced) {
			return fmt.Errorf("%w: %v", errTemporaryDamaged, err)
		}
	}
	return err
}

// Size implements [kv.Store]. It returns 0 before the first Update.
func (t *Temporary) Size() (int64, error) {
	d, err := t.open(false)
	if d == nil {
		return 0, err
	}
	info, err := d.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Close implements [kv.Store]. A second call does nothing.
func (t *Temporary) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.current == nil {
		t.closed = true
		return nil
	}
	t.closed = true
	err := t.current.close()
	if t.leftover != "" {
		err = errors.Join(err, ledgerfile.Renamed(os.Remove(t.leftover), t.current.path, t.leftover))
	}
	return err
}

// emptyReader is the [kv.Reader] of an empty store.
type emptyReader struct{}

// Get implements [kv.Reader].
func (emptyReader) Get(string, []byte) ([]byte, error) { return nil, nil }

// Scan implements [kv.Reader].
func (emptyReader) Scan(string, []byte, func(key, value []byte) bool) error { return nil }

// unsealing checks and removes the checksums of the records that it reads.
type unsealing struct{ from kv.Reader }

// Get implements [kv.Reader].
func (u unsealing) Get(bucket string, key []byte) ([]byte, error) {
	value, err := u.from.Get(bucket, key)
	if value == nil || err != nil {
		return nil, spillError(err, nil)
	}
	return unseal(bucket, key, value)
}

// unseal checks and removes the checksum of a value. It returns errTemporaryDamaged if the checksum
// is wrong.
func unseal(bucket string, key, value []byte) ([]byte, error) {
	payload, err := wire.Unseal(bucket, key, value)
	return payload, spillError(err, nil)
}

// Scan implements [kv.Reader].
func (u unsealing) Scan(bucket string, from []byte, visit func(key, value []byte) bool) (err error) {
	scanned := u.from.Scan(bucket, from, func(key, value []byte) bool {
		value, err = unseal(bucket, key, value)
		return err == nil && visit(key, value)
	})
	return errors.Join(err, spillError(scanned, nil))
}

// sealing adds checksums to the records that it writes.
type sealing struct {
	unsealing
	to *batches
}

// Put implements [kv.Writer].
func (s sealing) Put(bucket string, key, value []byte) error {
	if len(value) == 0 {
		return errEmpty
	}
	// A copy, because Seal appends the checksum to it.
	sealed := append(make([]byte, 0, len(value)+wire.SumLength), value...)
	return s.to.Put(bucket, key, wire.Seal(bucket, key, sealed))
}

// Delete implements [kv.Writer].
func (s sealing) Delete(bucket string, key []byte) error { return s.to.Delete(bucket, key) }
