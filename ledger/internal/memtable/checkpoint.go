package memtable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

var errReadOnly = errors.New("the file was opened for reading only")

// Checkpoint writes everything that was published before the call to the base, if it is not there
// yet. Records are written in the order of buckets and keys: in one transaction, or in many small
// ones if there are many records. Other callers can read and update concurrently.
//
// Checkpoint first waits for a checkpoint that is in progress. It must not be called in an update,
// because it would wait for that update.
//
// After an error nothing is lost: what could not be written is read from memory, and written by a
// later checkpoint. But if the error wraps [kv.ErrUncertain] or [kv.ErrReplaced], nothing is read
// or written any more.
func (t *Table) Checkpoint() error { return t.CheckpointWithin(context.Background()) }

// CheckpointWithin is [Table.Checkpoint], but waits only until ctx ends. A checkpoint that has
// begun continues after that.
func (t *Table) CheckpointWithin(ctx context.Context) error {
	if err := t.lockCheckpoint(ctx); err != nil {
		return err
	}
	held, err := t.checkpointWithin(ctx)
	if held {
		t.endCheckpoint()
	}
	return err
}

// checkpointWithin makes a checkpoint. checkpointing must be held. held reports whether it is still
// held when checkpointWithin returns. If ctx ends first, it is not: err is ctx.Err(), and the
// checkpoint continues in another goroutine, which then releases the lock.
func (t *Table) checkpointWithin(ctx context.Context) (held bool, err error) {
	if ctx.Done() == nil {
		return true, t.checkpoint()
	}
	done := make(chan error)
	go func() {
		err := t.checkpoint()
		select {
		case done <- err:
		case <-ctx.Done():
			t.endCheckpoint() // the caller has returned, so this goroutine releases the lock
		}
	}()
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// endCheckpoint releases checkpointing, and then calls Written.
func (t *Table) endCheckpoint() {
	t.checkpointing.Unlock()
	t.callWritten()
}

// callWritten calls Options.Written for the last write to the base, unless this or another
// goroutine has done so. checkpointing is not held, so the next checkpoint need not wait for
// Written: checkpoints limit how much is in memory.
func (t *Table) callWritten() {
	t.callingWritten.Lock()
	defer t.callingWritten.Unlock()
	if mark := t.pendingMark.Swap(nil); mark != nil && t.options.Written != nil {
		t.options.Written(*mark)
	}
}

// lockCheckpoint locks checkpointing, or returns ctx.Err() if ctx ends first. While it waits, the
// current checkpoint does not pause.
func (t *Table) lockCheckpoint(ctx context.Context) error {
	t.waiters.Add(1)
	defer t.waiters.Add(-1)
	return t.checkpointing.Lock(ctx)
}

// checkpoint is Checkpoint with checkpointing held. If an earlier checkpoint failed, it first
// writes the layer of that one, which is still frozen.
func (t *Table) checkpoint() error {
	if t.options.ReadOnly {
		return fmt.Errorf("checkpoint: %w", errReadOnly)
	}
	t.waiters.Add(1) // so that the checkpoint does not pause
	defer t.waiters.Add(-1)
	if t.current.Load().frozen != nil { // an earlier checkpoint failed, or was interrupted before Over
		t.setFailed(nil)
		if err := t.writeFrozen(); err != nil {
			return err
		}
	}
	t.writing.Lock()
	begun := t.freeze()
	t.writing.Unlock()
	if !begun { // the table has stopped, or there is nothing to write
		return t.stopped()
	}
	return t.writeFrozen()
}

// freeze begins a checkpoint: the active layer becomes the frozen one, and an empty layer the
// active one. It returns false, and does nothing, if there is nothing to write or the table has
// stopped. checkpointing and writing must be held, and no layer may be frozen.
func (t *Table) freeze() bool {
	c := t.current.Load()
	if t.stopped() != nil || c.active.size() == 0 {
		return false
	}
	// next is the mark that the base will have: the newest one in the active layer. If no update
	// has written the mark, it stays as it is.
	mark := t.options.Mark
	next, known := c.active.get(mark.Bucket, mark.Key, t.hash(mark.Key), math.MaxUint64)
	if !known {
		next = c.mark
	}
	t.setLayers(&layers{active: t.emptyLayer(), frozen: c.active, mark: c.mark, next: bytes.Clone(next)})
	if t.options.Begun != nil {
		t.options.Begun(next)
	}
	return true
}

// setLayers replaces the layers for new readers.
func (t *Table) setLayers(c *layers) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current.Store(c)
}

// writeFrozen writes the frozen layer to the base and removes the layer. After an error the layer
// stays frozen, and a later checkpoint writes it. checkpointing must be held, so that no other
// layer is frozen concurrently. The caller calls endCheckpoint, which calls Options.Written.
func (t *Table) writeFrozen() error {
	t.callStep(Frozen)
	if err := t.storeFrozen(); err != nil {
		return t.recordFailure(fmt.Errorf("checkpoint: %w", err))
	}
	t.callStep(Stored)
	c := t.current.Load() // storeFrozen may have replaced the layers, but neither of the two
	t.setLayers(&layers{active: c.active, mark: c.next})
	t.mu.Lock()
	c.frozen.isWritten = true
	t.mu.Unlock()
	t.reuse(c.frozen)
	t.ended.Broadcast()
	t.pendingMark.Store(&c.next)
	t.callStep(Dropped)
	return nil
}

// callStep calls Options.Step, if it is set.
func (t *Table) callStep(s Step) {
	if t.options.Step != nil {
		t.options.Step(s)
	}
}

// storeFrozen writes the frozen layer to the base: in one transaction if the layer is small, and
// otherwise through the staging area ([Staging]). A panic becomes [kv.ErrUncertain], because it is
// unknown what the base contains then.
func (t *Table) storeFrozen() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: panic: %v", kv.ErrUncertain, p)
		}
	}()
	defer t.stage.Store(nil)
	c := t.current.Load()
	e := effortFor(c.frozen, t.efforts)
	switch {
	case c.portions > 0: // it is already staged, by a checkpoint that was interrupted or failed
		e.count(Staging, c.frozen.length())
	// A small layer is written in one transaction. So is a layer that does not change the mark,
	// because the mark is what distinguishes the portions of different checkpoints.
	case max(int(c.frozen.size()), c.frozen.length()*minRecord) <= t.options.Portion, bytes.Equal(c.mark, c.next):
		return t.update(c.mark, func(w kv.Writer) error { return errors.Join(clearStaging(w), c.frozen.writeTo(w)) })
	default:
		count, err := t.stageFrozen(c, e)
		if err != nil {
			return err
		}
		// The last transaction has written the mark, too.
		c = &layers{active: c.active, frozen: c.frozen, mark: c.next, next: c.next, portions: count}
		t.setLayers(c)
		t.callStep(Staged)
	}
	if err = t.applyStaged(c, e); err == nil {
		t.efforts = e.nextEfforts()
	}
	return err
}

// update runs fn in a transaction of the base. If the mark of the base is not the given one, it
// stops the table, and returns [kv.ErrOverwritten].
func (t *Table) update(mark []byte, fn func(kv.Writer) error) error {
	if err := t.stopped(); err != nil {
		return err
	}
	return t.base.Update(func(w kv.Writer) error {
		if _, err := t.checkMark(&layers{mark: mark}, w); err != nil {
			return err
		}
		// The stage is set inside the transaction only. While the base is being compacted, the
		// checkpoint waits, and updates must not be delayed as if it were too slow.
		t.stage.CompareAndSwap(nil, &stage{})
		return fn(w)
	})
}

// writeTo writes the newest version of each record to w, in the order of buckets and keys. It
// yields to other goroutines at intervals.
func (l *layer) writeTo(w kv.Writer) error {
	n := 0
	for _, b := range l.buckets {
		for c := seek([]*layer{l}, b.name, nil, math.MaxUint64); c.key != nil; c.next() {
			if n++; n%yieldInterval == 0 {
				runtime.Gosched()
			}
			if err := apply(w, b.name, c.key, c.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// yieldInterval is the number of records that are written before other goroutines may run.
const yieldInterval = 64

// apply puts a record, or deletes it if the value is empty.
func apply(w kv.Writer, bucket string, key, value []byte) error {
	if len(value) == 0 {
		return w.Delete(bucket, key)
	}
	return w.Put(bucket, key, value)
}

// recordFailure records why a checkpoint failed, calls Failed, and returns err. It stops the table
// if the state of the base is unknown or the base was replaced.
func (t *Table) recordFailure(err error) error {
	if errors.Is(err, kv.ErrUncertain) || errors.Is(err, kv.ErrReplaced) {
		_ = t.stop(err)
	}
	t.setFailed(err)
	t.ended.Broadcast()
	if t.options.Failed != nil {
		t.options.Failed(err)
	}
	return err
}

// setFailed stores the error of the last checkpoint; nil means that a checkpoint is in progress or
// has succeeded.
func (t *Table) setFailed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed, t.failedAt = err, time.Now()
}

// checkpointIfFull begins a checkpoint in the background if the active layer exceeds the limit. It
// does nothing if a checkpoint is in progress, or if the last one failed less than Options.Pause
// ago. writing must be held.
func (t *Table) checkpointIfFull() {
	if t.options.ReadOnly || t.current.Load().active.size() <= t.options.Limit {
		return
	}
	t.mu.Lock()
	due := t.canRetry() && t.checkpointing.TryLock()
	t.mu.Unlock()
	if !due {
		return
	}
	if t.current.Load().frozen == nil && !t.freeze() { // a frozen layer is from a checkpoint that failed
		t.checkpointing.Unlock()
		return
	}
	t.setFailed(nil) // updates that need memory wait from now on
	t.writeInBackground()
}

// canRetry reports whether a checkpoint may begin in the background. The table must not have
// stopped. If the last checkpoint failed, Options.Pause must have passed since. mu must be held.
func (t *Table) canRetry() bool {
	return t.failure == nil && (t.failed == nil || time.Since(t.failedAt) >= t.options.Pause)
}

// writeInBackground writes the frozen layer in another goroutine, which then releases
// checkpointing.
func (t *Table) writeInBackground() {
	go func() {
		defer t.endCheckpoint()
		_ = t.writeFrozen() // awaitCapacity returns the error to updates that need memory
	}()
}

// awaitCapacity throttles the update, and then waits for the current checkpoint while the active
// layer is larger than its capacity. It returns nil when that is not so. If the last checkpoint
// failed, it begins another one, or returns that error if none may begin now. If the table has
// stopped, it returns why. writing must be held.
func (t *Table) awaitCapacity() error {
	t.throttle()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.failure == nil {
		c := t.current.Load()
		if c.frozen == nil || t.options.ReadOnly || c.active.size() <= t.capacity(c.frozen) {
			return nil
		}
		if t.failed != nil {
			if !t.canRetry() || !t.checkpointing.TryLock() {
				return t.failed
			}
			t.failed = nil
			t.writeInBackground()
		}
		t.ended.Wait() // mu is not held during Wait
	}
	return t.failure
}
