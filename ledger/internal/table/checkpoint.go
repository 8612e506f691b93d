package table

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

var errReadOnly = errors.New("the base was opened for reading only")

// Checkpoint writes everything that was published before the call to the base, if it is not there yet, in one transaction and in the
// order of buckets and keys. Others read and update meanwhile. First it waits for a checkpoint that runs. It must not be called within an
// update, which it would wait for.
//
// After an error nothing is lost: what could not be written is read from memory, and is written by a later checkpoint. But if the
// error wraps [kv.ErrUncertain] or [kv.ErrReplaced], nothing is read or written any more.
func (t *Table) Checkpoint() error {
	if t.options.ReadOnly {
		return fmt.Errorf("checkpoint: %w", errReadOnly)
	}
	t.checkpointing.Lock()
	defer t.checkpointing.Unlock()
	if t.current.Load().frozen != nil { // it could not be written before
		t.setFailed(nil)
		if err := t.write(); err != nil {
			return err
		}
	}
	t.writing.Lock()
	begun := t.freeze()
	t.writing.Unlock()
	if !begun {
		return t.stopped()
	}
	return t.write()
}

// freeze begins a checkpoint, with both locks held, if there is anything to be written.
func (t *Table) freeze() bool {
	c := t.current.Load()
	if t.stopped() != nil || c.active.size() == 0 {
		return false
	}
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

// setLayers changes the layers that readers begin with.
func (t *Table) setLayers(c *layers) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current.Store(c)
}

// write writes the frozen layer to the base and forgets it. checkpointing is held, so no other is frozen meanwhile.
func (t *Table) write() error {
	t.at(Frozen)
	c := t.current.Load()
	if err := t.store(c); err != nil {
		return t.fail(fmt.Errorf("checkpoint: %w", err))
	}
	t.at(Stored)
	t.setLayers(&layers{active: c.active, mark: c.next})
	t.mu.Lock()
	c.frozen.written = true
	t.mu.Unlock()
	t.reuse(c.frozen)
	t.ended.Broadcast()
	t.at(Dropped)
	if t.options.Written != nil {
		t.options.Written(c.next)
	}
	return nil
}

func (t *Table) at(s Step) {
	if t.options.Step != nil {
		t.options.Step(s)
	}
}

// store writes the frozen layer to the base. After a panic nobody knows what is there.
func (t *Table) store(c *layers) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: panic: %v", kv.ErrUncertain, p)
		}
	}()
	if err := t.stopped(); err != nil {
		return err
	}
	return t.base.Update(func(w kv.Writer) error {
		if _, err := t.recognize(&layers{mark: c.mark}, w); err != nil {
			return err
		}
		t.written.Store(0)
		defer t.written.Store(none)
		return c.frozen.writeTo(w, func(records int) { t.written.Store(int64(records)) })
	})
}

// writeTo writes the newest versions in the order of buckets and keys. Now and then it tells how many it has written, and lets others
// run: it takes long.
func (l *layer) writeTo(w kv.Writer, tell func(records int)) error {
	const stride = 64
	n := 0
	for _, b := range l.buckets {
		for c := seek([]*layer{l}, b.name, nil, math.MaxUint64); c.key != nil; c.next() {
			if n++; n%stride == 0 {
				tell(n)
				runtime.Gosched()
			}
			var err error
			if c.value == nil {
				err = w.Delete(b.name, c.key)
			} else {
				err = w.Put(b.name, c.key, c.value)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// fail notes why a checkpoint could not be made, and returns it.
func (t *Table) fail(err error) error {
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

func (t *Table) setFailed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed, t.failedAt = err, time.Now()
}

// relieve begins a checkpoint in the background when there is much in memory. writing is held.
func (t *Table) relieve() {
	if t.options.ReadOnly || t.current.Load().active.size() <= t.options.Limit {
		return
	}
	t.mu.Lock()
	due := t.due() && t.checkpointing.TryLock()
	t.mu.Unlock()
	if !due {
		return
	}
	if t.current.Load().frozen == nil && !t.freeze() {
		t.checkpointing.Unlock()
		return
	}
	t.setFailed(nil) // who needs room waits from now on
	t.writeBehind()
}

// due tells whether a checkpoint may begin in the background, with mu held.
func (t *Table) due() bool {
	return t.failure == nil && (t.failed == nil || time.Since(t.failedAt) >= t.options.Pause)
}

// writeBehind writes the frozen layer in the background, and lets go of checkpointing then.
func (t *Table) writeBehind() {
	go func() {
		defer t.checkpointing.Unlock()
		_ = t.write() // who needs room is told
	}()
}

const (
	none = -1 // instead of how many records are written, if no checkpoint runs
	// putShare is how much of the time of a checkpoint goes by, about, until all records are put.
	putShare = 0.75
	// mostDelay is how long an update waits for a checkpoint that it should not outrun.
	mostDelay = 8 * time.Millisecond
	delayStep = time.Millisecond
)

// keepPace slows updates down, each by little, while a checkpoint falls behind them: else all would have to wait for its end when there is no
// more room. writing is held.
func (t *Table) keepPace() {
	for waited := time.Duration(0); waited < mostDelay && t.outrun(); waited += delayStep {
		time.Sleep(delayStep)
	}
}

// outrun tells whether the room that is left fills faster than the checkpoint that runs goes on. Where there is none left, all wait anyway.
func (t *Table) outrun() bool {
	c, written := t.current.Load(), t.written.Load()
	if c.frozen == nil || written == none {
		return false
	}
	return outruns(c.active.size(), t.options.Limit, int(written), c.frozen.length())
}

// outruns is [Table.outrun] for a layer of a size, over one of so many records of which some are written.
func outruns(size, limit int64, written, records int) bool {
	filled := float64(size-limit) / float64(limit)
	return filled < 1 && filled > putShare*float64(written)/float64(max(records, 1))
}

// makeRoom waits for a checkpoint when there is too much in memory. writing is held.
func (t *Table) makeRoom() error {
	t.keepPace()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.failure == nil {
		c := t.current.Load()
		if c.frozen == nil || c.active.size() <= 2*t.options.Limit {
			return nil
		}
		if t.failed != nil {
			if !t.due() || !t.checkpointing.TryLock() {
				return t.failed
			}
			t.failed = nil
			t.writeBehind()
		}
		t.ended.Wait()
	}
	return t.failure
}
