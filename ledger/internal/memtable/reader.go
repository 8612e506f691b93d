package memtable

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// reader is a [kv.Reader] over layers and a snapshot of the base.
type reader struct {
	table           *Table
	toleratesDamage bool // the mark of the base may be missing or unreadable
	layers          *layers
	at              uint64 // number of the last update that it sees
	base            kv.Reader
	mark            []byte                // of the base at the beginning
	fn              func(kv.Reader) error // function of the caller
	run             func(kv.Reader) error // runOn as a function value, created once
	mustRetry       bool                  // the snapshot of the base did not match the layers
}

// newReader returns a reader of a table. The caller sets fn.
func newReader(t *Table) *reader {
	r := &reader{table: t}
	r.run = r.runOn
	return r
}

// reset clears the reader for reuse.
func (r *reader) reset() { *r = reader{table: r.table, run: r.run} }

// runOn runs the caller's function on a snapshot of the base. If the layers were replaced since the
// reader got them, it only sets r.mustRetry, and returns nil. If the base was overwritten, it
// returns that error, whether or not the function returns one.
func (r *reader) runOn(below kv.Reader) error {
	if r.mustRetry = r.table.current.Load() != r.layers; r.mustRetry {
		return nil
	}
	r.base = below
	if err := r.begin(); err != nil {
		return err
	}
	err := r.fn(r)
	if changed := r.end(); changed != nil {
		return changed // more important than an error of fn
	}
	return err
}

// begin checks the mark of the snapshot, and stores it for end. If damage is tolerated, a missing
// or unreadable mark is no error.
func (r *reader) begin() (err error) {
	if r.toleratesDamage {
		if found, err := r.table.markOf(r.base); found == nil || err != nil {
			return nil
		}
	}
	r.mark, err = r.table.checkMark(r.layers, r.base)
	return err
}

// end checks that the mark of the snapshot has not changed: pages of an open file can be
// overwritten by another process. If the mark has changed or cannot be read, end stops the table
// and returns [kv.ErrOverwritten]. It checks nothing if damage is tolerated.
func (r *reader) end() error {
	if r.toleratesDamage {
		return nil
	}
	now, err := r.table.markOf(r.base)
	if err != nil || !bytes.Equal(now, r.mark) {
		return r.table.stop(fmt.Errorf("%w: its mark changed during a read", kv.ErrOverwritten))
	}
	return nil
}

// Get implements [kv.Reader].
func (r *reader) Get(bucket string, key []byte) ([]byte, error) {
	hash := r.table.hash(key)
	if value, known := r.layers.active.getLocked(bucket, key, hash, r.at); known {
		return value, nil
	}
	return r.getBelow(bucket, key, hash)
}

// getBelow returns the value of a key in the frozen layer, or else in the base. No update writes to
// these.
func (r *reader) getBelow(bucket string, key []byte, hash uint64) ([]byte, error) {
	if frozen := r.layers.frozen; frozen != nil {
		if value, known := frozen.get(bucket, key, hash, r.at); known {
			return value, nil
		}
	}
	return r.base.Get(bucket, key)
}

// Scan implements [kv.Reader].
func (r *reader) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	if c := r.seek(bucket, from); c.key != nil { // the layers have records to merge
		return r.merge(c, bucket, from, visit)
	}
	return r.base.Scan(bucket, from, visit)
}

// merge scans the base together with the layers over it. c must be a cursor over the layers that
// begins at the same key. It visits records in the order of keys, and each key once.
func (r *reader) merge(c cursor, bucket string, from []byte, visit func(key, value []byte) bool) error {
	more := true
	err := r.base.Scan(bucket, from, func(key, value []byte) bool {
		if more = c.visitBelow(key, visit); !more {
			return false
		}
		if bytes.Equal(c.key, key) { // the layers have a newer version, which visitBelow visits later
			return true
		}
		more = visit(key, value)
		return more
	})
	if err == nil && more {
		c.visitBelow(nil, visit) // the records after the last one of the base
	}
	return err
}

// seek returns a cursor over the layers, the active one first, from a key on.
func (r *reader) seek(bucket string, from []byte) cursor {
	over := [2]*layer{r.layers.active, r.layers.frozen}
	if over[1] == nil {
		return seek(over[:1], bucket, from, r.at)
	}
	return seek(over[:], bucket, from, r.at)
}

// Prefetch implements [kv.Prefetcher], where the base does.
func (r *reader) Prefetch(bucket string, keys [][]byte) {
	if base, can := r.base.(kv.Prefetcher); can {
		base.Prefetch(bucket, keys)
	}
}

// Checker is a [kv.Writer] that can check its base.
type Checker interface {
	kv.Writer
	// Check returns an error that wraps [kv.ErrReplaced] if the path of the base no longer leads to
	// the open file ([kv.Guard]). It returns one that wraps [kv.ErrOverwritten] if the base is not
	// the one with which the update began. Then what the update has read may be wrong, and must not
	// be stored anywhere. The update checks the latter again after fn has returned.
	Check() error
}

// writer is a [kv.Writer] that writes to the active layer. No reader sees its writes until they are
// published.
type writer struct {
	*reader
	touched []id // records that the update has written, each once
}

// reset clears the writer for reuse. It keeps the list of written records if that is not too
// large.
func (w *writer) reset() {
	w.reader.reset()
	if w.touched = w.touched[:0]; cap(w.touched) > maxTouched {
		w.touched = nil
	}
}

// maxTouched is the largest capacity of the list that is kept.
const maxTouched = 4096

var errEmpty = errors.New("empty key or value")

// Get implements [kv.Reader]. It needs no lock, because no other goroutine writes to the active
// layer.
func (w *writer) Get(bucket string, key []byte) ([]byte, error) {
	hash := w.table.hash(key)
	if value, known := w.layers.active.get(bucket, key, hash, w.at); known {
		return value, nil
	}
	return w.getBelow(bucket, key, hash)
}

// Put implements [kv.Writer].
func (w *writer) Put(bucket string, key, value []byte) error {
	if len(key) == 0 || len(value) == 0 {
		return errEmpty
	}
	w.put(bucket, key, value)
	return nil
}

// Delete implements [kv.Writer]. It writes a version without a value, unless there is no such
// record.
func (w *writer) Delete(bucket string, key []byte) error {
	if len(key) == 0 {
		return errEmpty
	}
	value, err := w.Get(bucket, key)
	if value != nil {
		w.put(bucket, key, nil)
	}
	return err
}

// put writes a record, or deletes it if value is nil. It adds the record to touched at its first
// write by this update.
func (w *writer) put(bucket string, key, value []byte) {
	if i, first := w.layers.active.put(bucket, key, value, w.table.hash(key), w.at); first {
		w.touched = append(w.touched, i)
	}
}

// undo removes all writes of the update. No reader has seen them.
func (w *writer) undo() {
	if len(w.touched) > 0 {
		w.layers.active.undo(w.touched)
	}
}

// Check implements [Checker]. It begins no view of the base, because of a possible deadlock: bbolt
// might delay the view until a checkpoint ends, and the checkpoint might wait for the view that
// this update holds.
func (w *writer) Check() error {
	if base, can := w.table.base.(kv.Guard); can {
		if err := base.Check(); err != nil {
			return err
		}
	}
	return w.end()
}
