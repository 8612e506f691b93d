package ledgerhttp

import (
	"context"
	"errors"
	"time"

	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// Long answers ask the gate ([Options.Gate]) again as they go on, so that nothing is sent after a
// token was removed. Answers that wait for events, or for their reader, are also checked each
// second (see watch).

// recheckItems is the number of list items after which the gate is asked again.
const recheckItems = 64

// permitted returns an error if the gate no longer admits the caller, or now returns another
// holder.
func (c *call) permitted() error {
	holder, known := c.handler.options.Gate(c.admitted)
	if !known || holder != c.holder {
		return errRevoked()
	}
	return nil
}

// isRevoked reports whether err means that the gate no longer admits the caller, so that no more of
// the answer may be sent.
func isRevoked(err error) bool {
	p, is := errors.AsType[*api.Problem](err)
	return is && p.Kind == problem.Unauthorized
}

func errRevoked() error { return problem.New(problem.Unauthorized, "the token is no longer valid") }

// everySecond returns the ticks of a one-second [time.Ticker]. Tests replace it.
func everySecond() (ticks <-chan time.Time, stop func()) {
	ticker := time.NewTicker(time.Second)
	return ticker.C, ticker.Stop
}

// watch starts to check each second that the caller may still read, even while the call waits. If
// not, it calls cancel with the reason, lets a blocked write fail after lingerTime, and ends. The
// caller of watch must call done, once. done waits until the checks have ended, because after that
// the connection may serve another request.
func (c *call) watch(cancel context.CancelCauseFunc) (done func()) {
	control := c.out.control
	over, ended := make(chan struct{}), make(chan struct{}) // closed by done; closed when the checks have ended
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
				_ = control.SetWriteDeadline(time.Now().Add(lingerTime)) // the call may be blocked in a write
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}
