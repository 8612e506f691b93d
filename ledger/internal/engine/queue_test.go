package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// Who was told to lead and quits instead passes the lead on.
func TestAQuitterPassesTheLeadOn(t *testing.T) {
	waiting := func() *Proposal { return &Proposal{turn: make(chan bool, 1)} }
	first, second := waiting(), waiting()
	c := &Queue{leading: true, queue: []*Proposal{first, second}}
	first.turn <- true
	if !c.withdraw(first) || len(second.turn) != 1 {
		t.Error("nobody leads")
	}
	if !c.withdraw(second) || c.leading {
		t.Error("the last one gone still leads")
	}
	if c.withdraw(first) {
		t.Error("a call quits twice")
	}
}

// A part waits for others as long as the part before took, and no longer; and not where nobody else
// is there.
func TestPartsLetOthersGoFirst(t *testing.T) {
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
			t.Errorf("step %d: %d are in the batch and %d stay, want a batch of %d", i, len(batch), len(c.queue), step.want)
		}
		for _, p := range c.queue {
			if !p.Part {
				t.Errorf("step %d: somebody else stays", i)
			}
		}
		c.spent(batch, step.took)
	}
}

// A part leads those who go first, and is settled when its turn has come.
func TestAPartLeadsOthers(t *testing.T) {
	c := &Queue{}
	part := &Proposal{Part: true}
	lead, err := c.enter(part)
	must(t, err)
	if lead || len(part.turn) != 1 {
		t.Fatal("a part does not wait for its turn, or is not told to lead")
	}
	<-part.turn
	other := &Proposal{}
	if lead, err = c.enter(other); err != nil || lead {
		t.Fatalf("two lead: %v, %v", lead, err)
	}
	c.owed = time.Hour
	settle(c.take(), nil)
	if len(part.turn) != 0 || <-other.turn {
		t.Fatal("the part is settled, or the other one is not")
	}
	c.handOver()
	if !<-part.turn {
		t.Fatal("nobody leads")
	}
	settle(c.take(), nil)
	if <-part.turn || len(c.queue) > 0 {
		t.Error("the part is not settled")
	}
}

// partAndOther queues a part, which is told to lead, and somebody else, who goes first.
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

// A part that leads others, who panic, is not told to lead again: nobody would.
func TestAPanicLeavesNoLeader(t *testing.T) {
	l := &Engine{}
	part, other := partAndOther(t, &l.Queue)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an engine that has nothing commits")
			}
		}()
		l.await(t.Context(), part)
	}()
	if <-other.turn || !errors.Is(other.err, errs.ErrStopped) || l.Queue.leading || len(l.Queue.queue) > 0 {
		t.Errorf("the other is told %v; leading: %v, %d in the queue", other.err, l.Queue.leading, len(l.Queue.queue))
	}
}

// A part that leads others when the ledger has ended hears of it as they do.
func TestAPartHearsThatTheLedgerHasEnded(t *testing.T) {
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
		t.Errorf("the part is told %v, the other %v; leading: %v", part.err, other.err, l.Queue.leading)
	}
}

// A part whose context has ended does not lead others.
func TestAPartThatIsLateDoesNotLead(t *testing.T) {
	l := &Engine{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // whichever is noticed first
		part, other := partAndOther(t, &l.Queue)
		if l.await(ctx, part) || !<-other.turn || len(part.turn) > 0 {
			t.Fatal("the part is settled, or the other one does not lead")
		}
		l.Queue.withdraw(other)
		l.Queue.handOver()
	}
}

// Where nobody waits a commit does not even make a channel.
func TestNobodyWaitingCostsNothing(t *testing.T) {
	var c Queue
	if n := testing.AllocsPerRun(100, func() { c.settled(c.Durable + 1) }); n > 0 {
		t.Errorf("%v allocations to tell nobody", n)
	}
}

// However waiting and waking meet, no wake-up is lost: each side waits for the other's next step.
func TestNoWakeUpIsLost(t *testing.T) {
	const rounds = 2000
	var ping, pong Queue
	follow := func(mine, other *Queue) error {
		for n := uint64(1); n <= rounds; n++ {
			mine.settled(n)
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

// Close hears of the end of the last batch, even if it looked just before.
func TestCloseIsWokenByTheLastBatch(t *testing.T) {
	c := Queue{leading: true}
	closing := make(chan bool)
	go func() { closing <- c.Close() }()
	waitFollowed(t, &c)
	c.settled(1)
	waitFollowed(t, &c) // again: somebody leads still
	c.handOver()
	<-closing
}

// waitFollowed waits until somebody waits for a change.
func waitFollowed(t *testing.T, c *Queue) {
	t.Helper()
	followed := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.changed != nil
	}
	for !followed() {
		if t.Context().Err() != nil {
			t.Fatal("nobody waits")
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
