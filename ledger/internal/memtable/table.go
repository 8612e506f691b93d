// Package memtable keeps in memory what was committed since the last write to a store, the base. So
// the base can be written rarely, in large checkpoints.
//
// Above the base are layers: an active layer, which updates write to, and during a checkpoint a
// frozen layer, which is being written to the base. Each update has a number, and each version of a
// record has the number of the update that wrote it.
//
// A reader has the number of the last published update, the current layers, and a matching snapshot
// of the base. It reads the active layer first, then the frozen one, then the base. A checkpoint
// adds to the base only what the frozen layer has. Therefore the snapshot may be from any moment of
// the checkpoint, as long as the layers have not changed.
package memtable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/lock"
)

// Mark is the record that distinguishes snapshots of the base. Every change of the base must also
// change this record, to a value that it never had before.
type Mark struct {
	Bucket string // its name
	Key    []byte // in Bucket
}

// Options configures a table. Functions may be nil.
type Options struct {
	// Mark is the record by which the table recognizes the base. If Mark.Bucket is "", the table
	// does not check whether another writer has changed the base.
	Mark Mark
	// Limit is the approximate number of bytes in memory at which a checkpoint begins in the
	// background; 0 means 64 MiB. Updates wait for the checkpoint before memory reaches twice the
	// limit.
	Limit int64
	// Portion is the approximate number of bytes of records that a checkpoint writes to their
	// places in one transaction. 0 means a sixteenth of Limit, at least 4 KiB and at most 1 MiB.
	Portion int
	// Pause is the time between a failed checkpoint and the next one in the background; 0 means one
	// second.
	Pause time.Duration
	// ReadOnly means that the base cannot be written to. All updates stay in memory, without a
	// limit.
	ReadOnly bool
	// Newest keeps only the newest version of each record. Then no reader may be active during an
	// update, and an update that fails may leave some of its writes. A value that was read is valid
	// until its record is written again.
	Newest bool
	// Begun is called when a checkpoint begins, with the value that the mark of the base will have
	// after it. That is the mark of the last published update; no update runs during the call.
	// Begun must return quickly, and must not use the table.
	Begun func(mark []byte)
	// Written is called when a checkpoint is durable in the base, before Checkpoint returns. It may
	// take long: other checkpoints may run concurrently, and then it is called once, for the last
	// of them. It may read and update the table, but must not make a checkpoint or close the table.
	Written func(mark []byte)
	// Failed is called with the error of each failed checkpoint, before another one begins. It may
	// do what Written may do.
	Failed func(error)
	// Step is called at certain steps of a checkpoint, so that tests can pause it. It must not
	// panic.
	Step func(Step)
}

// Step is a step of a checkpoint.
type Step int

// The steps of a checkpoint.
const (
	Frozen  Step = iota + 1 // nothing is written yet
	Staged                  // the whole frozen layer is in the staging area of the base
	Applied                 // a part of it is in its place
	Stored                  // the whole frozen layer is in its place in the base; the layer still exists
	Dropped                 // the frozen layer is removed
)

// Table is a [kv.Store] over another store, the base. No other writer may change the base. An
// update becomes durable when a checkpoint writes it to the base; until then the caller must keep
// it elsewhere.
//
// The table copies keys and values that are put. It returns values by reference: the caller must
// not modify them.
type Table struct {
	base     kv.Store
	viewBase func(func(kv.Reader) error) error // base.View as a function value, created once
	options  Options
	seed     maphash.Seed // for hashes of keys

	compacting     lock.Lock              // held by Compact, which may wait long; locked before checkpointing
	checkpointing  lock.Lock              // held during a checkpoint, and by Close
	callingWritten sync.Mutex             // held while Written runs, and by Close; locked after checkpointing
	pendingMark    atomic.Pointer[[]byte] // mark of the last write to the base; nil after Written was called
	writing        sync.Mutex             // held by each update and while freezing the active layer; locked after both
	writer         *writer                // of the current update; guarded by writing
	current        atomic.Pointer[layers] // changed only with mu held
	stage          atomic.Pointer[stage]  // progress of the current checkpoint; nil if it has not begun to write
	efforts        efforts                // measured in earlier checkpoints; guarded by checkpointing
	waiters        atomic.Int64           // number of callers that wait for a checkpoint

	mu       sync.Mutex
	number   uint64 // of the last published update
	failure  error  // why nothing is read or written any more
	failed   error  // error of the last checkpoint, if it can be retried
	failedAt time.Time
	ended    sync.Cond // signaled when a checkpoint ends, or the table stops
	spare    *layer    // an empty layer with memory, or nil

	readers sync.Pool // of *reader, reused by later readers
}

// layers are the layers over the base. They are replaced, not changed, when a checkpoint begins or
// ends.
type layers struct {
	active *layer
	frozen *layer // nil if there is none
	mark   []byte // mark of the base
	next   []byte // mark of the base once it has the frozen layer, staged or in its place
	// portions is the number of portions of the frozen layer in the staging area; 0 if it is not
	// staged.
	portions int
}

var errClosed = errors.New("the table is closed")

// Over returns a table over a store, the base. It reads the mark of the base, and the staged
// portions of a checkpoint that was interrupted. These become a frozen layer, which the next
// checkpoint writes to its place. It returns an error if the base cannot be read or its staging
// area is damaged.
func Over(base kv.Store, o Options) (*Table, error) {
	if o.Limit == 0 {
		o.Limit = 64 << 20
	}
	if o.Portion == 0 {
		o.Portion = int(min(max(o.Limit/portionShare, smallestPortion), largestPortion))
	}
	if o.Pause == 0 {
		o.Pause = time.Second
	}
	t := &Table{
		base:          base,
		viewBase:      base.View,
		options:       o,
		seed:          maphash.MakeSeed(),
		compacting:    lock.New(),
		checkpointing: lock.New(),
	}
	c := &layers{active: &layer{keepsOnlyNewest: o.Newest}}
	t.ended.L = &t.mu
	t.writer = &writer{reader: newReader(t)}
	// Records are staged in order, which is faster than to write them to their places.
	t.efforts = efforts{Staging: unknownEffort / 4}
	err := base.View(func(r kv.Reader) error {
		mark, err := t.markOf(r)
		if err != nil {
			return err
		}
		c.mark = bytes.Clone(mark)
		c.frozen, c.portions, err = t.readStaging(r, mark)
		return err
	})
	if err != nil {
		return nil, err
	}
	if c.frozen != nil {
		c.next, t.number = c.mark, 1 // the base has the mark already; readStaging used the number 1
	}
	t.current.Store(c)
	return t, nil
}

// Backlog returns the mark of the base, the approximate number of bytes that are in memory only,
// and the capacity in bytes. Updates may wait from three fifths of the capacity on.
func (t *Table) Backlog() (mark []byte, memory, capacity int64) {
	c := t.current.Load()
	if memory = c.active.size(); c.frozen != nil {
		memory += c.frozen.size()
	}
	return c.mark, memory, 2 * t.options.Limit
}

// markOf returns the mark of a snapshot of the base. It returns nil if the base has none, or
// without Options.Mark.
func (t *Table) markOf(r kv.Reader) ([]byte, error) {
	if t.options.Mark.Bucket == "" {
		return nil, nil
	}
	return r.Get(t.options.Mark.Bucket, t.options.Mark.Key)
}

// View implements [kv.Store]. It shows published updates only. If the base is not the one that this
// table knows, the error wraps [kv.ErrOverwritten], whether or not fn returns an error. After that
// nothing is read or written any more.
func (t *Table) View(fn func(kv.Reader) error) error {
	r, _ := t.readers.Get().(*reader)
	if r == nil {
		r = newReader(t)
	}
	r.fn = fn
	err := t.view(t.viewBase, r)
	r.reset()
	t.readers.Put(r)
	return err
}

// view runs a reader on the newest layers and a matching snapshot of the base. base is View or
// Inspect of the base. It repeats that until no checkpoint has begun or ended in between.
func (t *Table) view(base func(func(kv.Reader) error) error, r *reader) error {
	for {
		err := t.viewOnce(base, r)
		if !r.mustRetry {
			return err
		}
	}
}

// viewOnce runs a reader once, and returns the error of its function or of the base. If a
// checkpoint began or ended before the snapshot of the base was taken, it sets r.mustRetry instead,
// and the function is not called. If the table has stopped, it returns why.
func (t *Table) viewOnce(base func(func(kv.Reader) error) error, r *reader) (err error) {
	r.mustRetry = false
	if r.layers, r.at, err = t.enter(); err != nil {
		return err
	}
	c, at := r.layers, r.at // for leave, because an update changes r.at
	defer func() {
		if stopped := t.leave(c, at); stopped != nil && !r.mustRetry {
			err = stopped // data from the base may not be durable
		}
	}()
	if err = base(r.run); err != nil {
		r.mustRetry = false // view returns the error instead
	}
	return err
}

// enter returns the current layers and the number of the last published update, and registers a
// reader of them. The reader must call leave with both. If the table has stopped, enter returns
// why, and registers nothing.
func (t *Table) enter() (c *layers, at uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure != nil {
		return nil, 0, t.failure
	}
	c = t.current.Load()
	c.active.users++
	if c.frozen != nil {
		c.frozen.users++
	}
	c.active.enter(t.number) // not in the frozen layer, where no update can replace a version
	return c, t.number, nil
}

// leave removes a reader that enter has registered. It returns why nothing is read any more, or nil
// if the table has not stopped.
func (t *Table) leave(c *layers, at uint64) error {
	c.active.leave(at)
	t.mu.Lock()
	c.active.users--
	if c.frozen != nil {
		c.frozen.users--
	}
	stopped := t.failure
	t.mu.Unlock()
	t.reuse(c.active)
	if c.frozen != nil {
		t.reuse(c.frozen)
	}
	return stopped
}

// reuse empties a layer, and keeps it for emptyLayer, if the layer is written to the base and has
// no readers. Otherwise it does nothing.
func (t *Table) reuse(l *layer) {
	t.mu.Lock()
	idle := l.isWritten && l.users == 0
	if idle {
		l.isWritten = false // so that no other goroutine empties it, too
	}
	t.mu.Unlock()
	if !idle {
		return
	}
	l.reset()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spare = l
}

// emptyLayer returns an empty layer for updates: one that reuse has emptied, or a new one.
func (t *Table) emptyLayer() *layer {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.spare
	if t.spare = nil; l == nil {
		l = &layer{keepsOnlyNewest: t.options.Newest}
	}
	return l
}

// Update implements [kv.Store], except that the update is not durable. All writes of fn are
// published together after fn has returned nil. As its last step, fn may store the update
// elsewhere. The [kv.Writer] that fn gets is also a [Checker].
//
// fn must not begin another transaction of the table. If the memory is full because the last
// checkpoint failed, Update returns the error of that checkpoint without calling fn. If Update
// returns an error although fn has returned nil, nothing is read or written any more.
func (t *Table) Update(fn func(kv.Writer) error) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.awaitCapacity(); err != nil {
		return err
	}
	w := t.writer
	published := false
	defer func() {
		if !published {
			w.undo()
		}
		w.reset()
		t.checkpointIfFull() // after undo, too: it does not free pieces, which are freed only with their whole layer
	}()
	kept := false // fn has returned nil
	w.fn = func(kv.Reader) error {
		w.at++ // so that the update sees its own writes
		err := fn(w)
		kept = err == nil
		return err
	}
	if err := t.view(t.viewBase, w.reader); err != nil {
		if kept {
			err = t.stop(err) // the update may be stored elsewhere, but is not published here
		}
		return err
	}
	t.publish(w)
	published = true
	return nil
}

// publish makes the writes of an update visible to later readers. An update without writes gets no
// number.
func (t *Table) publish(w *writer) {
	if len(w.touched) > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.number = w.at
	}
}

// stopped returns why nothing is read or written any more, or nil.
func (t *Table) stopped() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// stop makes all further reads and writes fail with why, and returns why. If the table has stopped
// before, they still fail with the first reason.
func (t *Table) stop(why error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = why
	}
	t.ended.Broadcast()
	return why
}

// checkMark returns the mark of a snapshot of the base if it belongs to these layers. That is
// c.mark, or c.next if the frozen layer is in the base. For any other mark it stops the table, and
// returns [kv.ErrOverwritten].
func (t *Table) checkMark(c *layers, r kv.Reader) (mark []byte, err error) {
	found, err := t.markOf(r)
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(found, c.mark):
		return c.mark, nil
	case c.frozen != nil && bytes.Equal(found, c.next):
		return c.next, nil
	}
	return nil, t.stop(fmt.Errorf("%w: its mark is not the one that this process wrote", kv.ErrOverwritten))
}

// Size implements [kv.Store]: it returns the bytes of the base plus the bytes in memory that the
// base does not have yet. What a checkpoint writes concurrently may be counted twice.
func (t *Table) Size() (int64, error) {
	memory := t.Bytes() // before the base, so that no byte is missed in both
	size, err := t.base.Size()
	return size + memory, err
}

// hash returns the hash of a key by which the layers of this table find it.
func (t *Table) hash(key []byte) uint64 { return maphash.Bytes(t.seed, key) }

// Bytes returns approximately how many bytes of memory the table uses.
func (t *Table) Bytes() int64 {
	c := t.current.Load()
	size := c.active.size()
	if c.frozen != nil {
		size += c.frozen.size()
	}
	return size
}

// Retire makes all further reads and writes fail with why. The base stays open and unchanged, for
// another owner.
func (t *Table) Retire(why error) { _ = t.stop(why) }

// Close waits until the current update, the current checkpoint and Written have returned, and
// closes the base. It makes no checkpoint: what is only in memory is lost.
func (t *Table) Close() error {
	_ = t.lockCheckpoint(context.Background()) // returns no error, because the context never ends
	defer t.checkpointing.Unlock()
	t.callingWritten.Lock()
	defer t.callingWritten.Unlock()
	t.pendingMark.Store(nil) // Written is not called any more
	t.writing.Lock()
	defer t.writing.Unlock()
	err := t.base.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = errClosed
	}
	t.spare = nil // a closed table that is still referenced should not keep this memory
	t.current.Store(&layers{active: &layer{}, mark: t.current.Load().mark})
	return err
}
