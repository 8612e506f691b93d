package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// If a proposal that was chosen to lead is withdrawn, the next proposal in the queue leads.
func TestQueue_WithdrawLeader_NextProposalLeads(t *testing.T) {
	waiting := func() *Proposal { return &Proposal{turn: make(chan bool, 1)} }
	first, second := waiting(), waiting()
	c := &Queue{leading: true, queue: []*Proposal{first, second}}
	first.turn <- true
	if !c.withdraw(first) || len(second.turn) != 1 {
		t.Error("no proposal leads")
	}
	if !c.withdraw(second) || c.leading {
		t.Error("the last withdrawn proposal still leads")
	}
	if c.withdraw(first) {
		t.Error("a proposal was withdrawn twice")
	}
}

// A part of a large request lets other proposals go first for as long as the previous part took. It
// does not wait if no other proposal is queued.
func TestQueueTake_Part_LetsOthersGoFirst(t *testing.T) {
	part, other := &Proposal{Part: true}, &Proposal{}
	c := &Queue{}
	for i, step := range []struct {
		queue []*Proposal
		want  int // of the batch
		took  time.Duration
	}{
		{[]*Proposal{other, part}, 2, 9}, // nothing is owed
		{[]*Proposal{part, other, other}, 2, 8},
		{[]*Proposal{part, other}, 1, 1},
		{[]*Proposal{part, other}, 2, 7},
		{[]*Proposal{part, part}, 2, 5}, // before the time is over
		{[]*Proposal{part, other}, 1, 50},
		{[]*Proposal{part, other}, 2, 1},
	} {
		c.queue = step.queue
		batch := c.take()
		if len(batch) != step.want || len(batch)+len(c.queue) != len(step.queue) {
			t.Errorf("step %d: %d are in the batch and %d in the queue, want a batch of %d", i, len(batch), len(c.queue), step.want)
		}
		for _, p := range c.queue {
			if !p.Part {
				t.Errorf("step %d: a proposal that is no part stays in the queue", i)
			}
		}
		c.recordTime(batch, step.took)
	}
}

// A part may lead a batch of other proposals that go first. It is settled in a later batch.
func TestQueue_PartLeadsBatchOfOthers_IsSettledLater(t *testing.T) {
	c := &Queue{}
	part := &Proposal{Part: true}
	lead, err := c.enter(part)
	must(t, err)
	if lead || len(part.turn) != 1 {
		t.Fatal("the part does not wait for its turn, or is not chosen to lead")
	}
	<-part.turn
	other := &Proposal{}
	if lead, err = c.enter(other); err != nil || lead {
		t.Fatalf("a second proposal leads: %v, %v", lead, err)
	}
	c.owed = time.Hour
	settle(c.take(), nil)
	if len(part.turn) != 0 || <-other.turn {
		t.Fatal("the part is settled, or the other one is not")
	}
	c.handOver()
	if !<-part.turn {
		t.Fatal("no proposal leads")
	}
	settle(c.take(), nil)
	if <-part.turn || len(c.queue) > 0 {
		t.Error("the part is not settled")
	}
}

// partAndOther queues a part, which is chosen to lead, and another proposal, which goes first.
func partAndOther(t *testing.T, c *Queue) (part, other *Proposal) {
	t.Helper()
	part, other = &Proposal{Part: true}, &Proposal{}
	for _, p := range []*Proposal{part, other} {
		_, err := c.enter(p)
		must(t, err)
	}
	c.owed = time.Hour
	return part, other
}

// If the commit of a batch panics, the part that led it is withdrawn. If it stayed in the queue, it
// would be chosen to lead, but no caller waits for it any more.
func TestLead_CommitPanics_PartIsWithdrawn(t *testing.T) {
	l := &Engine{}
	part, other := partAndOther(t, &l.Queue)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an engine without a store commits")
			}
		}()
		l.await(t.Context(), part)
	}()
	if <-other.turn || !errors.Is(other.err, errs.ErrStopped) || l.Queue.leading || len(l.Queue.queue) > 0 {
		t.Errorf("error of the other proposal %v; leading: %v, %d in the queue", other.err, l.Queue.leading, len(l.Queue.queue))
	}
}

// A part that leads other proposals after the ledger has stopped gets ErrStopped, as they do.
func TestLead_LedgerStopped_PartGetsErrStopped(t *testing.T) {
	l := &Engine{}
	part, other := partAndOther(t, &l.Queue)
	l.Queue.Stop(errs.ErrStopped)
	settled := make(chan bool, 1)
	go func() { settled <- l.await(t.Context(), part) }()
	select {
	case <-settled:
	case <-time.After(10 * time.Second):
		t.Fatal("the part waits for ever")
	}
	if !errors.Is(part.err, errs.ErrStopped) || !errors.Is(other.err, errs.ErrStopped) || l.Queue.leading {
		t.Errorf("error of the part %v, of the other %v; leading: %v", part.err, other.err, l.Queue.leading)
	}
}

// A part whose context has ended is withdrawn, and another proposal leads.
func TestAwait_ContextEnded_AnotherProposalLeads(t *testing.T) {
	l := &Engine{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // the end of the context and the turn are received in random order
		part, other := partAndOther(t, &l.Queue)
		if l.await(ctx, part) || !<-other.turn || len(part.turn) > 0 {
			t.Fatal("the part is settled, or the other one does not lead")
		}
		l.Queue.withdraw(other)
		l.Queue.handOver()
	}
}

// A commit allocates nothing if no caller waits for a change of the queue.
func TestQueueSettled_NoWaiter_AllocatesNothing(t *testing.T) {
	var c Queue
	if n := testing.AllocsPerRun(100, func() { c.setDurable(c.Durable + 1) }); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// No wake-up is lost, in any order of waiting and waking: each side waits for the other's next
// step.
func TestAwaitEvent_ConcurrentSettled_LosesNoWakeUp(t *testing.T) {
	const rounds = 2000
	var ping, pong Queue
	follow := func(mine, other *Queue) error {
		for n := uint64(1); n <= rounds; n++ {
			mine.setDurable(n)
			if err := other.AwaitEvent(t.Context(), n); err != nil {
				return err
			}
		}
		return nil
	}
	other := make(chan error)
	go func() { other <- follow(&pong, &ping) }()
	must(t, follow(&ping, &pong))
	must(t, <-other)
}

// Close returns after the last batch, even if it has checked the queue just before.
func TestQueueClose_LastBatchEnds_Returns(t *testing.T) {
	c := Queue{leading: true}
	closing := make(chan bool)
	go func() { closing <- c.Close() }()
	waitFollowed(t, &c)
	c.setDurable(1)
	waitFollowed(t, &c) // again, because a proposal still leads
	c.handOver()
	<-closing
}

// waitFollowed waits until another goroutine waits for a change of the queue.
func waitFollowed(t *testing.T, c *Queue) {
	t.Helper()
	followed := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.changed != nil
	}
	for !followed() {
		if t.Context().Err() != nil {
			t.Fatal("no goroutine waits")
		}
		time.Sleep(time.Millisecond)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
