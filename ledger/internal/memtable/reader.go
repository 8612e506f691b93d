package memtable

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// reader is a [kv.Reader] over layers and a snapshot of the base.
type reader struct {
	table    *Table
	careless bool // of damage: the base may have no mark that can be read
	layers   *layers
	at       uint64 // the last update that it sees
	base     kv.Reader
	mark     []byte                // of the base when it began
	fn       func(kv.Reader) error // what to do
	run      func(kv.Reader) error // runOn, as a value that is made once
	again    bool                  // there was no snapshot of the base that goes with the layers
}

func newReader(t *Table) *reader {
	r := &reader{table: t}
	r.run = r.runOn
	return r
}

// forget lets go of what was read.
func (r *reader) forget() { *r = reader{table: r.table, run: r.run} }

// runOn does on a snapshot of the base what is to be done.
func (r *reader) runOn(below kv.Reader) error {
	if r.again = r.table.current.Load() != r.layers; r.again {
		return nil
	}
	r.base = below
	if err := r.begin(); err != nil {
		return err
	}
	err := r.fn(r)
	if changed := r.end(); changed != nil {
		return changed // whatever fn has met
	}
	return err
}

func (r *reader) begin() (err error) {
	if r.careless {
		if found, err := r.table.markOf(r.base); found == nil || err != nil {
			return nil
		}
	}
	r.mark, err = r.table.recognize(r.layers, r.base)
	return err
}

// end holds the snapshot against what it began with: pages of an open file can be overwritten.
func (r *reader) end() error {
	if r.careless {
		return nil
	}
	now, err := r.table.markOf(r.base)
	if err != nil || !bytes.Equal(now, r.mark) {
		return r.table.stop(fmt.Errorf("%w: it has changed while it was read", kv.ErrOverwritten))
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

// getBelow looks into what lies below the active layer, where no update writes.
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
	if c := r.seek(bucket, from); c.key != nil {
		return r.merge(c, bucket, from, visit)
	}
	return r.base.Scan(bucket, from, visit)
}

// merge scans the base with what lies over it.
func (r *reader) merge(c cursor, bucket string, from []byte, visit func(key, value []byte) bool) error {
	more := true
	err := r.base.Scan(bucket, from, func(key, value []byte) bool {
		if more = c.below(key, visit); !more {
			return false
		}
		if bytes.Equal(c.key, key) { // below goes on with it
			return true
		}
		more = visit(key, value)
		return more
	})
	if err == nil && more {
		c.below(nil, visit)
	}
	return err
}

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

// Checker is a [kv.Writer] that can look at what it lies over.
type Checker interface {
	kv.Writer
	// Check returns an error wrapping [kv.ErrReplaced] if the base is not where it was
	// ([kv.Guard]), and one wrapping [kv.ErrOverwritten] if it is not what the update began with.
	// What it has read may then be of anything, and should be kept nowhere. The update looks at the
	// latter again when fn is done.
	Check() error
}

// writer is a [kv.Writer] that writes into the active layer, where nobody else sees it until it is
// published.
type writer struct {
	*reader
	touched []id
}

// forget lets go of what an update read, and of the list of what it wrote, unless that is small
// enough for the next.
func (w *writer) forget() {
	w.reader.forget()
	if w.touched = w.touched[:0]; cap(w.touched) > mostTouched {
		w.touched = nil
	}
}

// mostTouched is the length of a list of records that an update may leave to the next.
const mostTouched = 4096

var errEmpty = errors.New("empty key or value")

// Get implements [kv.Reader]. Nobody but this update writes to the active layer, so that it needs
// no lock.
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

// Delete implements [kv.Writer].
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

func (w *writer) put(bucket string, key, value []byte) {
	if i, first := w.layers.active.put(bucket, key, value, w.table.hash(key), w.at); first {
		w.touched = append(w.touched, i)
	}
}

// undo takes back all writes, of which nobody else has seen any.
func (w *writer) undo() {
	if len(w.touched) > 0 {
		w.layers.active.undo(w.touched)
	}
}

// Check implements [Checker]. It begins no view of the base: bbolt might wait with that for a
// checkpoint, and the checkpoint for the view that the update holds.
func (w *writer) Check() error {
	if base, can := w.table.base.(kv.Guard); can {
		if err := base.Check(); err != nil {
			return err
		}
	}
	return w.end()
}
