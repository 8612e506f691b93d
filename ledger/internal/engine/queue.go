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

// Callers that change the ledger share commits. The first caller leads: it commits for all callers
// that have queued up since then, and hands the lead to the next caller in the queue. A lone caller
// commits at once; there is no timer. All proposals of a batch are decided and applied in one
// transaction, in the order of the queue, so each decision sees the earlier ones.
//
// A large request in parts could take most of the commits: many small requests would share only one
// batch between two of its parts. Therefore a part lets waiting requests go first, until these have
// used as much time as the last batch that contained a part.

// Decision reads the state and returns the changes to make, or the error with which the request is
// refused. It may record some changes itself before it returns (package fold).
//
// The queue may call it again on another state. So any other result of the decision may leave the
// ledger only after Submit has returned nil.
type Decision func(*state.State) ([]event.Change, error)

// Proposal is the decision of one caller while it passes through the queue.
type Proposal struct {
	Decide      Decision                 // runs in the transaction
	Record      func(*state.State) error // records the result of Decide; nil to record the changes that Decide returns
	Part        bool                     // one of several parts of a large request; it lets others go first
	first, last uint64                   // its events, after the commit
	ctx         context.Context          // of the request; if it has ended, the decision is refused without running
	reads       state.Reading            // what the decision reads
	now         time.Time                // reading of the host's clock when the proposal was submitted
	reading     uint64                   // number of that clock reading, in the order in which the readings began
	err         error
	refused     bool // not decided again, unless an earlier proposal of the batch has another result
	// turn receives true if the proposal is to lead, and false when it is settled. It is nil if the
	// proposal leads at once; then it is in the batch that it leads.
	turn chan bool
}

// Queue holds the proposals that wait for a commit. Its methods may be called concurrently.
type Queue struct {
	mu      sync.Mutex
	queue   []*Proposal
	leading bool          // a caller leads, or has been chosen to lead
	last    int           // number of proposals in the last batch; used only by the one goroutine that leads
	owed    time.Duration // time for which other proposals may commit before the next part
	closed  bool          // no new proposals are accepted; queued ones are still committed
	failure error         // why nothing is committed any more
	Durable uint64        // the last event known to be on disk
	changed chan struct{} // closed when a condition of Await may have changed; nil if no caller waits
	turns   sync.Pool     // of chan bool, reused by later proposals
	// readings is the number of clock readings for proposals so far.
	readings atomic.Uint64
}

// update changes the queue under the lock, and wakes all callers of Await.
func (c *Queue) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.wake()
}

// wake wakes all callers of Await. The lock is held.
func (c *Queue) wake() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Await blocks until condition returns true, or until ctx ends; then it returns ctx.Err().
// condition is called under the lock.
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
	// MostTogether is the number of proposals that may share a commit. It limits the memory of a
	// commit.
	MostTogether = 1024
	// Yields is how often a leader lets other goroutines run before it takes a batch, so that
	// callers that the last commit woke can queue up.
	//
	// A leader does not yield if the last batch had only one proposal and its own is not a part.
	// After a wait for the disk, a yield costs about 15 microseconds.
	Yields = 3
)

// Check returns why no new proposal is accepted, or nil.
func (c *Queue) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusal()
}

// refusal is Check for a caller that holds the lock. The failure that stopped the ledger comes
// before [errs.ErrClosed].
func (c *Queue) refusal() error {
	if c.failure == nil && c.closed {
		return errs.ErrClosed
	}
	return c.failure
}

// Stopped returns the failure that stopped the ledger, or nil. Unlike Check, it does not refuse
// proposals that were queued before the ledger was closed.
func (c *Queue) Stopped() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// setDurable records that all events up to this one are on disk.
func (c *Queue) setDurable(event uint64) {
	c.update(func() { c.Durable = max(c.Durable, event) })
}

// enter queues a proposal, and reports whether its caller must lead at once. If not, the caller
// waits for messages on p.turn. The error says why the queue accepts no proposal.
//
// A part never leads at once, even if no caller leads. The batch that it leads may leave it out,
// and then its caller must wait further. So it receives on p.turn that it is to lead.
func (c *Queue) enter(p *Proposal) (lead bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refusal(); err != nil {
		return false, err
	}
	free := !c.leading // no caller leads
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

// take removes a batch of at most [MostTogether] proposals from the queue, and returns it. The
// others stay in the queue, in their order. Parts stay, too, while time is owed to other proposals
// and any of these wait.
func (c *Queue) take() []*Proposal {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.owed > 0 && slices.ContainsFunc(c.queue, func(p *Proposal) bool { return !p.Part }) // others go first
	// stay reuses the memory of the queue: it is never longer than what the loop has read.
	batch, stay := make([]*Proposal, 0, min(len(c.queue), MostTogether)), c.queue[:0]
	for _, p := range c.queue {
		if len(batch) == MostTogether || first && p.Part {
			stay = append(stay, p)
		} else {
			batch = append(batch, p)
		}
	}
	clear(c.queue[len(stay):]) // so that the memory keeps no proposal that has left the queue
	c.queue = stay
	return batch
}

// recordTime records how long a batch took. If the batch contained a part of a large request, this
// time is owed to other proposals: they may commit for as long before the next part does. Otherwise
// the time is subtracted from what is owed.
func (c *Queue) recordTime(batch []*Proposal, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(batch, func(p *Proposal) bool { return p.Part }) {
		c.owed = took
	} else {
		c.owed = max(0, c.owed-took)
	}
}

// handOver ends the turn of a leader. The first proposal in the queue leads next, if there is one:
// its caller receives true on its turn. That proposal has a turn, because only one that leads at
// once has none.
func (c *Queue) handOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leading = len(c.queue) > 0; c.leading {
		c.queue[0].turn <- true
	} else if c.closed {
		c.wake() // only Close waits for this condition, so readers need not be woken otherwise
	}
}

// withdraw removes a proposal from the queue. It returns false if the proposal is no longer in the
// queue, because it is in a batch. If the proposal was chosen to lead and has not received that
// message yet, withdraw hands the lead to the next one.
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
	case <-p.turn: // it was chosen to lead, so another proposal must lead
		c.handOver()
	default: // also if p.turn is nil
	}
	return true
}

// Stop refuses all further work with the given reason. If the queue has stopped before, the first
// reason remains. Stop reports whether this call is the first.
func (c *Queue) Stop(reason error) (first bool) {
	c.update(func() {
		if first = c.failure == nil; first {
			c.failure = reason
		}
	})
	return first
}

// Close refuses new proposals and waits until the queued ones are settled. It returns false if an
// earlier call has closed the queue. It waits in that case, too.
func (c *Queue) Close() bool {
	first := false
	c.update(func() { first, c.closed = !c.closed, true })
	// While the queue has proposals, a caller leads. Await returns no error, because the context
	// never ends.
	_ = c.Await(context.Background(), func() bool { return !c.leading })
	return first
}

// Submit runs a decision in a commit, and waits until the commit is durable. It returns the numbers
// of its first and last event, both 0 if there are none.
//
// If ctx ends while the proposal is in the queue, the proposal is withdrawn and nothing has
// changed. After its commit has begun, Submit waits for the outcome.
func (l *Engine) Submit(ctx context.Context, decide Decision) (first, last uint64, err error) {
	return l.Propose(ctx, &Proposal{Decide: decide})
}

// Propose is [Engine.Submit] with all options of a [Proposal]: its own function that records the
// changes, and whether it is a part of a large request.
func (l *Engine) Propose(ctx context.Context, p *Proposal) (first, last uint64, err error) {
	if l.ReadOnly {
		return 0, 0, errs.ErrReadOnly
	}
	if err := errs.Context(ctx); err != nil {
		return 0, 0, err
	}
	p.ctx = ctx
	p.reading = l.Queue.readings.Add(1)
	// The clock is read before this caller leads, because the host's clock may block, panic, or
	// call the ledger.
	p.now = l.Clock()
	lead, err := l.Queue.enter(p)
	if err != nil {
		return 0, 0, err
	}
	if lead {
		l.lead(p)
	} else {
		settled := l.await(ctx, p)
		l.Queue.turns.Put(p.turn) // it is empty, and no other goroutine has it
		if !settled {
			return 0, 0, ctx.Err()
		}
	}
	return p.first, p.last, p.err
}

// await waits until a proposal is settled, and leads when it is chosen to. It returns false if the
// proposal was withdrawn because ctx ended.
func (l *Engine) await(ctx context.Context, p *Proposal) bool {
	for {
		select {
		case lead := <-p.turn:
			switch {
			case !lead:
				return true
			case ctx.Err() != nil && l.Queue.withdraw(p):
				l.Queue.handOver() // it was chosen to lead, so another proposal must lead
				return false
			}
			l.lead(p) // this sends to p.turn if p was in the batch; otherwise the loop waits further
		case <-ctx.Done():
			if l.Queue.withdraw(p) {
				return false
			}
			<-p.turn // it is in a batch, whose leader sends false
			return true
		}
	}
}

// lead commits one batch, sends the outcome to the callers of its proposals, and hands over the
// lead. The own proposal stays in the queue if it is a part whose turn has not come. If the batch
// leaves it unknown what is durable, or a function of the host panics, lead stops the queue.
func (l *Engine) lead(own *Proposal) {
	if l.Queue.last > 1 || own.Part {
		for range Yields {
			runtime.Gosched()
		}
	}
	batch, began := l.Queue.take(), time.Now()
	l.Queue.last = len(batch)
	err, panics := errs.ErrStopped, true // both remain if commit panics; otherwise its result replaces them
	var report func()
	defer func() {
		if errors.Is(err, errs.ErrStopped) {
			l.Queue.Stop(err)
		}
		if panics {
			// The panic ends the caller of own. If own is not in the batch, it would stay in the
			// queue although no caller waits for it any more.
			l.Queue.withdraw(own)
		}
		l.Queue.recordTime(batch, time.Since(began))
		settle(batch, err)
		l.Queue.handOver()
		if report != nil {
			report() // after handOver, so that a slow function of the host delays no other commit
		}
	}()
	report, err = l.commit(batch)
	panics = false
}

// settle sends the outcome to all callers of a batch. err is the error of the whole batch. If it is
// nil, each proposal already has its own result or refusal.
func settle(batch []*Proposal, err error) {
	for _, p := range batch {
		if err != nil {
			// Refused proposals get err, too: they may have been refused because of changes that
			// did not happen.
			p.first, p.last, p.err = 0, 0, err
		}
		if p.turn != nil {
			// This never blocks. The channel holds one message, and is empty: a proposal that was
			// chosen to lead has received that message.
			p.turn <- false
		}
	}
}

// DurableEvents returns the number of the last event that is known to be on disk.
func (c *Queue) DurableEvents() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Durable
}

// AwaitEvent waits until the event with this number is on disk. It returns ctx.Err() if ctx ends
// first. If the queue is closed or stopped when the wait ends, it returns the reason, even if the
// event is on disk.
func (c *Queue) AwaitEvent(ctx context.Context, event uint64) error {
	err := c.Await(ctx, func() bool { return c.Durable >= event || c.refusal() != nil })
	if err != nil {
		return err
	}
	return c.Check()
}
