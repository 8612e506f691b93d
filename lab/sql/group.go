package main

import (
	"runtime"
	"sync"
)

// group lets callers share transactions, as Sluice does. The first caller leads: it commits for all
// callers that are queued at that time, and makes the next caller the leader.
type group struct {
	mu      sync.Mutex
	queue   []*call
	leading bool
}

// call is a queued order of a caller.
type call struct {
	order order
	got   level
	err   error
	done  chan struct{}
	lead  chan struct{}
}

const (
	mostCalls = 1024 // in a transaction
	yields    = 3    // before a leader takes the queue, so that callers woken by the last commit are queued
)

// releaseGrouped returns the response to an order, in a transaction that it shares with other
// callers.
func (b *book) releaseGrouped(o order) (level, error) {
	c := &call{order: o, done: make(chan struct{}), lead: make(chan struct{}, 1)}
	if !b.group.enter(c) {
		select {
		case <-c.done:
			return c.got, c.err
		case <-c.lead:
		}
	}
	for range yields {
		runtime.Gosched()
	}
	batch := b.group.take()
	b.execute(batch)
	for _, one := range batch {
		close(one.done)
	}
	b.group.handOver()
	return c.got, c.err
}

// enter queues a call, and reports whether its caller is the leader.
func (g *group) enter(c *call) (lead bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = append(g.queue, c)
	lead = !g.leading
	g.leading = true
	return lead
}

// take removes a batch from the queue.
func (g *group) take() []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.queue), mostCalls)
	batch := g.queue[:n:n]
	g.queue = append([]*call(nil), g.queue[n:]...)
	return batch
}

// handOver makes the next caller in the queue the leader, if there is one.
func (g *group) handOver() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leading = len(g.queue) > 0; g.leading {
		g.queue[0].lead <- struct{}{}
	}
}
