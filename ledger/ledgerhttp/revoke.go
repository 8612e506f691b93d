package ledgerhttp

import (
	"context"
	"errors"
	"time"

	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// Answers that take long ask the gate as they go on, so that nothing is sent after a token was
// removed. Those that wait for events, or for their readers, are also checked each second (see
// watch).

// recheckItems is after how many items of a list the gate is asked again.
const recheckItems = 64

// permitted returns an error if the caller may not read on: its token was removed, or is another's.
func (c *call) permitted() error {
	holder, known := c.handler.options.Gate(c.admitted)
	if !known || holder != c.holder {
		return errRevoked()
	}
	return nil
}

// isRevoked tells whether an error is that of a caller that may not read on.
func isRevoked(err error) bool {
	p, is := errors.AsType[*api.Problem](err)
	return is && p.Kind == problem.Unauthorized
}

func errRevoked() error { return problem.New(problem.Unauthorized, "the token is not valid any more") }

// everySecond is a [time.Ticker] as a function, which tests replace.
func everySecond() (ticks <-chan time.Time, stop func()) {
	ticker := time.NewTicker(time.Second)
	return ticker.C, ticker.Stop
}

// watch ends a call when its caller may not read on, also while the call waits. The context of the
// call may be cancelled with the reason. The caller of watch must call done, after which the
// connection is left alone: it may serve another request.
func (c *call) watch(cancel context.CancelCauseFunc) (done func()) {
	control := c.out.control
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks, stop := c.handler.ticker()
		defer stop()
		for {
			select {
			case <-over:
				return
			case <-ticks:
			}
			if err := c.permitted(); err != nil {
				cancel(err)
				_ = control.SetWriteDeadline(time.Now().Add(lingering)) // it may wait for a reader
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}
