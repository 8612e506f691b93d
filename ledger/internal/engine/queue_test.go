package engine

import (
	"testing"
	"time"
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
