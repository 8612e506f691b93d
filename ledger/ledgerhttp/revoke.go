package ledgerhttp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluicedp/sluice/ledger/problem"
)

// recheckEvery is how often the gate is asked again about answers that take long. They also ask it
// themselves as they go on, so that nothing is sent after a token was removed: this is for those
// that wait for events, or for their readers.
const recheckEvery = time.Second

// recheckItems is after how many items of a list, or events, the gate is asked again.
const recheckItems = 64

// permitted returns an error if the caller may not read on: its token was removed, or is another's.
func (c *call) permitted() error {
	holder, known := c.handler.options.Gate.Admit(c.admitted)
	if !known || holder != c.holder {
		return errRevoked()
	}
	return nil
}

// isRevoked tells whether an error is that of a caller that may not read on.
func isRevoked(err error) bool {
	p, is := errors.AsType[*problem.Problem](err)
	return is && p.Kind == problem.Unauthorized
}

func errRevoked() error { return problem.New(problem.Unauthorized, "the token is not valid any more") }

// unended are the answers in progress that take long.
type unended struct {
	every func(time.Duration) (ticks <-chan time.Time, stop func()) // a ticker, but for tests

	mu   sync.Mutex
	open map[*call]func(error) // what ends each
	stop func()                // ends the checks; nil as long as there are none
}

func newUnended() *unended {
	return &unended{open: map[*call]func(error){}, every: func(d time.Duration) (<-chan time.Time, func()) {
		ticker := time.NewTicker(d)
		return ticker.C, ticker.Stop
	}}
}

// add has an answer ended, at most once, when its caller may not read on. The caller must call
// remove.
func (u *unended) add(c *call, end func(error)) (remove func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open[c] = end
	if u.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		u.stop = cancel
		go u.run(ctx)
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.open, c)
		if len(u.open) == 0 && u.stop != nil {
			u.stop()
			u.stop = nil
		}
	}
}

func (u *unended) run(ctx context.Context) {
	ticks, stop := u.every(recheckEvery)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			u.recheck()
		}
	}
}

// recheck asks the gate about each answer.
func (u *unended) recheck() {
	for _, c := range u.list() {
		err := c.permitted()
		if err == nil {
			continue
		}
		u.mu.Lock()
		if end := u.open[c]; end != nil { // else it has ended since, and its connection is another's
			end(err)
		}
		u.mu.Unlock()
	}
}

func (u *unended) list() (all []*call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.open {
		all = append(all, c)
	}
	return all
}

// watch has a call ended when its caller may not read on, also while it waits. Its context may be
// cancelled with the reason.
func (c *call) watch(cancel context.CancelCauseFunc) (done func()) {
	control := c.out.control
	return c.handler.unended.add(c, func(reason error) {
		cancel(reason)
		_ = control.SetWriteDeadline(time.Now().Add(lingering)) // it may wait for a reader
	})
}
