package callback

import (
	"context"
	"runtime"
	"sync"
)

// WithProgress runs work in a new goroutine, and calls progress in the caller's goroutine with the
// reports of work, in their order. So progress may be slow, and may call the ledger, without
// delaying work.
//
// If progress panics, the context of work ends, and the panic continues after work has returned. A
// panic of work continues in the caller's goroutine. If progress is nil, work runs in the caller's
// goroutine.
func WithProgress(
	ctx context.Context, progress func(done, total int),
	work func(ctx context.Context, report func(done, total int)) error,
) error {
	if progress == nil {
		return work(ctx, func(int, int) {})
	}
	ctx, cancel := context.WithCancel(ctx)
	r := reports{more: make(chan struct{}, 1), ended: make(chan struct{})}
	go r.run(func() error { return work(ctx, r.add) })
	defer func() { // also if progress panics
		cancel()
		<-r.ended
	}()
	r.deliver(progress)
	if r.panicked && r.panic == nil {
		runtime.Goexit() // work has ended its goroutine, as a failing test does
	}
	if r.panicked {
		panic(r.panic)
	}
	return r.err
}

// reports holds the reports of work that progress was not called with yet.
type reports struct {
	mu    sync.Mutex
	queue [][2]int
	more  chan struct{} // holds one element while the queue may not be empty
	ended chan struct{} // closed when work has returned

	err      error // result of work
	panicked bool  // work has panicked, or ended its goroutine
	panic    any   // value of the panic of work
}

// run calls work, and stores its result or its panic. It closes ended after that.
func (r *reports) run(work func() error) {
	defer close(r.ended)
	// until work returns, because recover returns nil if work ends its goroutine
	r.panicked = true
	defer func() {
		if r.panicked {
			r.panic = recover()
		}
	}()
	r.err = work()
	r.panicked = false
}

// add queues a report of work. It never blocks.
func (r *reports) add(done, total int) {
	r.mu.Lock()
	r.queue = append(r.queue, [2]int{done, total})
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default: // the caller has not received the previous signal yet
	}
}

// take empties the queue and returns its reports.
func (r *reports) take() [][2]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	queue := r.queue
	r.queue = nil
	return queue
}

// deliver calls progress with each report, in their order, until work has returned and the queue is
// empty.
func (r *reports) deliver(progress func(done, total int)) {
	for ended := false; !ended; {
		select {
		case <-r.more:
		case <-r.ended:
			ended = true // take the last reports, and then return
		}
		for _, one := range r.take() {
			progress(one[0], one[1])
		}
	}
}
