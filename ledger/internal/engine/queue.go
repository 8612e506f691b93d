package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Callers that change the ledger share commits: whoever comes first leads, commits for everyone who
// queued up meanwhile, and hands the lead to the next. A lone caller commits at once; there is no
// timer. All of a batch is decided and applied in one transaction, in the order of the queue, so
// each decision sees the ones before it.
//
// A request in parts would take the commits for itself: crowds would get in by one batch between
// two of them. So parts let those go first who wait, until these have had as much time as the last
// batch with a part took.

// Decision reads the state and returns the changes to make, or the error by which to refuse. It may
// record some by itself before (package fold). What it returns besides may leave the ledger only
// once Submit has returned nil; it may be called again, on another state, before that.
type Decision func(*state.State) ([]event.Change, error)

// Proposal is one caller's decision on its way through the queue.
type Proposal struct {
	Decide      Decision                 // runs in the transaction
	Record      func(*state.State) error // records what decide has found to be done; nil if decide returns it
	Part        bool                     // one of several of a large request: it lets others go first
	first, last uint64                   // its events, once committed
	ctx         context.Context          // of the request: a decision that is not made when it ends is refused
	reads       state.Reading            // what the decision reads
	now         time.Time                // by the host's clock, when it was handed in
	reading     uint64                   // of the clock: a number that rises with the time at which it began
	err         error
	refused     bool // it is not decided again, as long as those before it come to the same
	// gets true when it is to lead, and false when it is settled; nil if it leads at once, and is
	// in the batch
	turn chan bool
}

// Queue is the queue of proposals.
type Queue struct {
	mu      sync.Mutex
	queue   []*Proposal
	leading bool          // somebody leads, or was told to
	last    int           // how many proposals the last batch had; used by the one goroutine that leads
	owed    time.Duration // how long others may commit before the next part
	closed  bool          // no more work is accepted, but what is queued is done
	failure error         // no more work is done
	Durable uint64        // the last event known to be on disk
	changed chan struct{} // closed when what somebody may wait for changes; nil if nobody waits
	turns   sync.Pool     // of chan bool, for the next who waits
	// readings counts the readings of the clock for proposals.
	readings atomic.Uint64
}

// update changes the committer and wakes whoever waits for a change.
func (c *Queue) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.wake()
}

// wake wakes everybody in await, under the lock. Where nobody waits it does nothing.
func (c *Queue) wake() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Await blocks until a condition holds, or ctx ends. The condition is evaluated under the lock.
func (c *Queue) Await(ctx context.Context, condition func() bool) error {
	for {
		c.mu.Lock()
		if condition() {
			c.mu.Unlock()
			return nil
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const (
	// MostTogether is how many proposals may share a commit; it bounds the memory of one.
	MostTogether = 1024
	// Yields is how often a leader lets other goroutines run before it takes the queue: callers
	// that the last commit woke get a chance to queue up. If the last commit was for one caller
	// alone, and no part leads, nobody is waited for: after waiting for a disk, a processor takes
	// some 15 microseconds to yield.
	Yields = 3
)

// Check returns why no more work is accepted, if that is so.
func (c *Queue) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusal()
}

// refusal is check under the lock.
func (c *Queue) refusal() error {
	if c.failure == nil && c.closed {
		return errs.ErrClosed
	}
	return c.failure
}

// Stopped returns the failure of an earlier commit. Unlike check it lets through what was queued
// before the ledger was closed.
func (c *Queue) Stopped() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// settled tells that all events up to this one are on disk.
func (c *Queue) settled(event uint64) {
	c.update(func() { c.Durable = max(c.Durable, event) })
}

// enter queues a proposal and tells whether it is to lead at once. A part waits for its turn in any
// case: others may go first.
func (c *Queue) enter(p *Proposal) (lead bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refusal(); err != nil {
		return false, err
	}
	free := !c.leading
	c.queue, c.leading = append(c.queue, p), true
	if free && !p.Part {
		return true, nil
	}
	if p.turn, _ = c.turns.Get().(chan bool); p.turn == nil {
		p.turn = make(chan bool, 1)
	}
	if free {
		p.turn <- true
	}
	return false, nil
}

// take removes a batch from the queue: parts only if their turn has come, or if nobody else is
// there.
func (c *Queue) take() []*Proposal {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.owed > 0 && slices.ContainsFunc(c.queue, func(p *Proposal) bool { return !p.Part }) // others go first
	batch, stay := make([]*Proposal, 0, min(len(c.queue), MostTogether)), c.queue[:0]
	for _, p := range c.queue {
		if len(batch) == MostTogether || first && p.Part {
			stay = append(stay, p)
		} else {
			batch = append(batch, p)
		}
	}
	clear(c.queue[len(stay):])
	c.queue = stay
	return batch
}

// spent notes how long a batch took: that is owed to others if a part was in it, and else was given
// to them.
func (c *Queue) spent(batch []*Proposal, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(batch, func(p *Proposal) bool { return p.Part }) {
		c.owed = took
	} else {
		c.owed = max(0, c.owed-took)
	}
}

// handOver ends a leader's turn: the next in the queue leads, or nobody.
func (c *Queue) handOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leading = len(c.queue) > 0; c.leading {
		c.queue[0].turn <- true
	} else if c.closed {
		c.wake() // close waits for this, and nobody else: readers need not be disturbed
	}
}

// withdraw takes a proposal out of the queue, unless it is in a batch already.
func (c *Queue) withdraw(p *Proposal) bool {
	c.mu.Lock()
	i := slices.Index(c.queue, p)
	if i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
	}
	c.mu.Unlock()
	if i < 0 {
		return false
	}
	select {
	case <-p.turn: // it had been told to lead and will not
		c.handOver()
	default:
	}
	return true
}

// Stop refuses all further work, for the first reason given. It tells whether this is the first.
func (c *Queue) Stop(reason error) (first bool) {
	c.update(func() {
		if first = c.failure == nil; first {
			c.failure = reason
		}
	})
	return first
}

// Close refuses further work and waits for what is queued. It returns false if that was done
// before.
func (c *Queue) Close() bool {
	first := false
	c.update(func() { first, c.closed = !c.closed, true })
	// It cannot fail: the context does not end.
	_ = c.Await(context.Background(), func() bool { return !c.leading })
	return first
}

// Submit has a decision carried out and waits until it is durable. It returns the numbers of its
// first and last event, both 0 if there were none. If ctx ends while the proposal still waits, it
// is withdrawn and nothing has happened; once its commit has begun, submit waits for the outcome.
func (l *Engine) Submit(ctx context.Context, decide Decision) (first, last uint64, err error) {
	return l.Propose(ctx, &Proposal{Decide: decide})
}

// Propose is [Engine.Submit] of a decision that may record what it has found by itself.
func (l *Engine) Propose(ctx context.Context, p *Proposal) (first, last uint64, err error) {
	if l.ReadOnly {
		return 0, 0, errs.ErrReadOnly
	}
	if err := errs.Context(ctx); err != nil {
		return 0, 0, err
	}
	p.ctx = ctx
	p.reading = l.Queue.readings.Add(1)
	p.now = l.Clock() // before it leads: the host's clock may take its time, panic, or call the ledger
	lead, err := l.Queue.enter(p)
	if err != nil {
		return 0, 0, err
	}
	if lead {
		l.lead(p)
	} else {
		settled := l.await(ctx, p)
		l.Queue.turns.Put(p.turn)
		if !settled {
			return 0, 0, ctx.Err()
		}
	}
	return p.first, p.last, p.err
}

// await waits until a proposal is settled, leading whenever told to. It returns false if the
// proposal was withdrawn because ctx ended.
func (l *Engine) await(ctx context.Context, p *Proposal) bool {
	for {
		select {
		case lead := <-p.turn:
			switch {
			case !lead:
				return true
			case ctx.Err() != nil && l.Queue.withdraw(p):
				l.Queue.handOver() // it had been told to lead and will not
				return false
			}
			l.lead(p)
		case <-ctx.Done():
			if l.Queue.withdraw(p) {
				return false
			}
			<-p.turn
			return true
		}
	}
}

// lead commits one batch and hands over. A part that leads may be left to a later batch.
func (l *Engine) lead(own *Proposal) {
	if l.Queue.last > 1 || own.Part {
		for range Yields {
			runtime.Gosched()
		}
	}
	batch, began := l.Queue.take(), time.Now()
	l.Queue.last = len(batch)
	err, panics := errs.ErrStopped, true // what the others learn then
	var tell func()
	defer func() {
		if errors.Is(err, errs.ErrStopped) {
			l.Queue.Stop(err)
		}
		if panics {
			l.Queue.withdraw(own) // if it is not in the batch: nobody waits for it any more
		}
		l.Queue.spent(batch, time.Since(began))
		settle(batch, err)
		l.Queue.handOver()
		if tell != nil {
			tell() // the host is called when others lead already
		}
	}()
	tell, err = l.commit(batch)
	panics = false
}

// settle tells everyone in a batch what came of it.
func settle(batch []*Proposal, err error) {
	for _, p := range batch {
		if err != nil {
			// Also of those refused: they may have been refused because of changes that are not
			// there.
			p.first, p.last, p.err = 0, 0, err
		}
		if p.turn != nil {
			p.turn <- false // there is room: whoever was told to lead has taken that out
		}
	}
}

// DurableEvents returns the last event known to be on disk.
func (c *Queue) DurableEvents() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Durable
}

// AwaitEvent waits until an event is on disk. It does not rely on the event to come: it ends with
// the reason when nothing comes any more.
func (c *Queue) AwaitEvent(ctx context.Context, event uint64) error {
	err := c.Await(ctx, func() bool { return c.Durable >= event || c.refusal() != nil })
	if err != nil {
		return err
	}
	return c.Check()
}
