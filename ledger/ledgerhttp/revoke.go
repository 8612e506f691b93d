package ledgerhttp

import (
	"context"
	"errors"
	"time"

	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// Long answers ask the gate again as they go on, so that nothing is sent after a token was
// removed. Answers that wait for events, or for their reader, are also checked each second (see
// watch).

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

// isRevoked reports whether err means that the caller may not read on.
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

// watch checks each second that the caller may still read, even while the call waits. If not, it
// cancels the call with the reason. The caller of watch must call done. After done returns, the
// connection is no longer touched, because it may serve another request.
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
