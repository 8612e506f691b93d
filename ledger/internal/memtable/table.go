// Package memtable keeps in memory what was committed since a store was last written, so that the
// store can be written seldom, and much at a time.
//
// Above the base lie layers: an active one, which updates write to, and during a checkpoint a
// frozen one, which is being written to the base. Each update has a number, and each version of a
// record that of the update that wrote it. Who reads has the number of the last update published,
// the layers of that moment, and a snapshot of the base that goes with them: it looks into the
// active layer first, then into the frozen one, then into the base. Since the base comes to hold
// just what the frozen layer does, the snapshot may be of any moment of the checkpoint, as long as
// the layers have not changed.
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

// Mark is the record by which snapshots of the base are told apart: whoever changes anything
// changes it, too, to what it never was before.
type Mark struct {
	Bucket string // by name
	Key    []byte // in it
}

// Options are those of a table. Hooks may be nil.
type Options struct {
	// Mark is what the base is recognized by. Without a bucket nobody looks whether somebody else
	// has written to it.
	Mark Mark
	// Limit is how many bytes may be in memory, about, until a checkpoint begins in the background;
	// 0 is 64 MiB. Before there are twice as many, updates wait for it.
	Limit int64
	// Portion is how many bytes of records, about, a checkpoint puts into their places in one
	// transaction; 0 is a sixteenth of Limit, but 4 KiB at least and 1 MiB at most.
	Portion int
	// Pause is how long after a checkpoint that failed the next one may begin in the background; 0
	// is a second.
	Pause time.Duration
	// ReadOnly says that the base cannot be written to. Updates stay in memory, however many.
	ReadOnly bool
	// Newest says that of each record only the newest version is kept. Then no reader may be active
	// during an update, a value that was read is valid until the record is written again, and an
	// update that fails may leave some writes.
	Newest bool
	// Begun is called when a checkpoint begins, with the value of the mark that the base will have
	// after it: that of the last update published, and none is under way. It must soon return, and
	// must not use the table.
	Begun func(mark []byte)
	// Written is called when that is durable in the base, and before Checkpoint returns. It may
	// take long: other checkpoints are made meanwhile, and then it is called once, for the last of
	// them. It may read and update, but neither make a checkpoint nor close the table.
	Written func(mark []byte)
	// Failed is told the error of each checkpoint that failed, before another begins. It may do
	// what Written may.
	Failed func(error)
	// Step is called by a checkpoint where tests may hold it. It must not panic.
	Step func(Step)
}

// Step is a moment of a checkpoint.
type Step int

// The steps of a checkpoint.
const (
	Frozen   Step = iota + 1 // nothing is written yet
	SetAside                 // the base has all of the frozen layer, but aside
	Placed                   // some of that is in its place
	Stored                   // the base has all of the frozen layer in its place; the layer is there still
	Dropped                  // the frozen layer is gone
)

// Table is a [kv.Store] over another one, the base, which nobody else may write to. An update is
// durable when a checkpoint has written it to the base; until then it is for whoever makes it to
// keep it elsewhere.
//
// What is put is copied. Values are returned by reference: nobody may modify them.
type Table struct {
	base    kv.Store
	look    func(func(kv.Reader) error) error // the base's View, as a value that is made once
	options Options
	seed    maphash.Seed // of the hashes of keys

	compacting    lock.Lock              // held by Compact, which may wait long; locked before checkpointing
	checkpointing lock.Lock              // held while a checkpoint runs, and by Close
	telling       sync.Mutex             // held while Written runs, and by Close; locked after checkpointing
	untold        atomic.Pointer[[]byte] // the mark of what was written to the base last; nil if Written was told
	writing       sync.Mutex             // held by each update, and when the active layer is frozen; locked after both
	writer        *writer                // of the update that runs; guarded by writing
	current       atomic.Pointer[layers] // changed only with mu held
	stage         atomic.Pointer[stage]  // of the checkpoint that runs; nil if none has begun to write
	efforts       efforts                // of the checkpoints before; guarded by checkpointing
	hurry         atomic.Int64           // how many wait for a checkpoint

	mu       sync.Mutex
	number   uint64 // of the last update published
	failure  error  // why nothing is read or written any more
	failed   error  // of the last checkpoint, if it can be made again
	failedAt time.Time
	ended    sync.Cond // a checkpoint has, or the table is stopped
	spare    *layer    // an empty one, with memory; nil if there is none

	readers sync.Pool // of *reader, for the next
}

// layers are what lies over the base. They stand until a checkpoint begins or ends.
type layers struct {
	active *layer
	frozen *layer // nil if there is none
	mark   []byte // of the base
	next   []byte // of the base once it has what is frozen, aside or in its place
	// portions is in how many parts the frozen layer is aside; 0 if it is not.
	portions int
}

var errClosed = errors.New("the table is closed")

// Over returns a table over a store. It reads the store's mark, and what a checkpoint has written
// aside that did not end.
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
		look:          base.View,
		options:       o,
		seed:          maphash.MakeSeed(),
		compacting:    lock.New(),
		checkpointing: lock.New(),
	}
	c := &layers{active: &layer{newest: o.Newest}}
	t.ended.L = &t.mu
	t.writer = &writer{reader: newReader(t)}
	t.efforts = efforts{Aside: unknownEffort / 4} // it is in the order in which it is written
	err := base.View(func(r kv.Reader) error {
		mark, err := t.markOf(r)
		if err != nil {
			return err
		}
		c.mark = bytes.Clone(mark)
		c.frozen, c.portions, err = t.readAside(r, mark)
		return err
	})
	if err != nil {
		return nil, err
	}
	if c.frozen != nil {
		c.next, t.number = c.mark, 1
	}
	t.current.Store(c)
	return t, nil
}

// Backlog returns the mark of the base, about how many bytes are in memory only, and how many there
// may be: from three fifths on, updates may wait.
func (t *Table) Backlog() (mark []byte, memory, room int64) {
	c := t.current.Load()
	if memory = c.active.size(); c.frozen != nil {
		memory += c.frozen.size()
	}
	return c.mark, memory, 2 * t.options.Limit
}

func (t *Table) markOf(r kv.Reader) ([]byte, error) {
	if t.options.Mark.Bucket == "" {
		return nil, nil
	}
	return r.Get(t.options.Mark.Bucket, t.options.Mark.Key)
}

// View implements [kv.Store]. It shows no update that is not published. If the base is not what
// this table knows, the error wraps [kv.ErrOverwritten], whatever fn has met, and nothing is read
// or written any more.
func (t *Table) View(fn func(kv.Reader) error) error {
	r, _ := t.readers.Get().(*reader)
	if r == nil {
		r = newReader(t)
	}
	r.fn = fn
	err := t.view(t.look, r)
	r.forget()
	t.readers.Put(r)
	return err
}

// view has a reader read the newest layers and a snapshot of the base that goes with them.
func (t *Table) view(base func(func(kv.Reader) error) error, r *reader) error {
	for {
		err := t.try(base, r)
		if !r.again {
			return err
		}
	}
}

// try has a reader read, or try again if a checkpoint began or ended before there was a snapshot of
// the base.
func (t *Table) try(base func(func(kv.Reader) error) error, r *reader) (err error) {
	r.again = false
	if r.layers, r.at, err = t.enter(); err != nil {
		return err
	}
	c, at := r.layers, r.at
	defer func() {
		if stopped := t.leave(c, at); stopped != nil && !r.again {
			err = stopped // what was read from the base may not be durable
		}
	}()
	if err = base(r.run); err != nil {
		r.again = false
	}
	return err
}

// enter returns the newest layers, and the number of the last update published, for a reader who
// leaves the active layer when done.
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
	c.active.enter(t.number)
	return c, t.number, nil
}

// leave lets a reader go. It returns why nothing is read any more, if that is so.
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

// reuse empties a layer that was written, once nobody looks at it any more.
func (t *Table) reuse(l *layer) {
	t.mu.Lock()
	idle := l.written && l.users == 0
	if idle {
		l.written = false // nobody else does it
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

// emptyLayer returns a layer to write to.
func (t *Table) emptyLayer() *layer {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.spare
	if t.spare = nil; l == nil {
		l = &layer{newest: t.options.Newest}
	}
	return l
}

// Update implements [kv.Store], but for durability. Others see what fn wrote when fn has returned
// nil, all at once; it may keep it elsewhere as the last thing it does. The [kv.Writer] that it
// gets is also a [Checker].
//
// fn must not begin another transaction of the table. Update returns the error of the last
// checkpoint without running fn when there is no room in memory because of that. If it returns an
// error although fn has returned nil, nothing is read or written any more.
func (t *Table) Update(fn func(kv.Writer) error) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.makeRoom(); err != nil {
		return err
	}
	w := t.writer
	published := false
	defer func() {
		if !published {
			w.undo()
		}
		w.forget()
		t.relieve() // also of what that leaves: the memory of pieces is not given back before all of a layer is
	}()
	kept := false
	w.fn = func(kv.Reader) error {
		w.at++ // it sees its own writes
		err := fn(w)
		kept = err == nil
		return err
	}
	if err := t.view(t.look, w.reader); err != nil {
		if kept {
			err = t.stop(err) // it may be kept elsewhere, and is not here
		}
		return err
	}
	t.publish(w)
	published = true
	return nil
}

func (t *Table) publish(w *writer) {
	if len(w.touched) > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.number = w.at
	}
}

func (t *Table) stopped() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// stop has nothing read or written any more, and returns why.
func (t *Table) stop(why error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = why
	}
	t.ended.Broadcast()
	return why
}

// recognize returns the mark of a snapshot of the base, if it is one that these layers lie over.
func (t *Table) recognize(c *layers, r kv.Reader) (mark []byte, err error) {
	found, err := t.markOf(r)
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(found, c.mark):
		return c.mark, nil
	case c.frozen != nil && bytes.Equal(found, c.next):
		return c.next, nil
	}
	return nil, t.stop(fmt.Errorf("%w: it is not where this process left it", kv.ErrOverwritten))
}

// Size implements [kv.Store] with the bytes of the base, and those in memory that it does not have
// yet. What a checkpoint writes meanwhile may count twice.
func (t *Table) Size() (int64, error) {
	memory := t.Bytes() // first, so that it does not count nowhere
	size, err := t.base.Size()
	return size + memory, err
}

func (t *Table) hash(key []byte) uint64 { return maphash.Bytes(t.seed, key) }

// Bytes returns how many bytes the table takes in memory, about.
func (t *Table) Bytes() int64 {
	c := t.current.Load()
	size := c.active.size()
	if c.frozen != nil {
		size += c.frozen.size()
	}
	return size
}

// Retire has nothing read or written any more: every call returns why. The base stays as it is, and
// open, for whoever goes on with it.
func (t *Table) Retire(why error) { _ = t.stop(why) }

// Close waits for the update and the checkpoint that run, and for Written, and closes the base. It
// makes no checkpoint: what is only in memory is forgotten.
func (t *Table) Close() error {
	_ = t.lockCheckpoint(context.Background()) // which does not end
	defer t.checkpointing.Leave()
	t.telling.Lock()
	defer t.telling.Unlock()
	t.untold.Store(nil) // it is too late to tell
	t.writing.Lock()
	defer t.writing.Unlock()
	err := t.base.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = errClosed
	}
	t.spare = nil // whoever still holds the table need not hold so much
	t.current.Store(&layers{active: &layer{}, mark: t.current.Load().mark})
	return err
}
