package ledgerclient

import (
	"context"
	"net/http"
	"strconv"

	"github.com/sluicedp/sluice/internal/httpapi"
)

type eventKey struct{}

// WithEvent returns a context for calls to a standby. Each call with this context passes to note
// the number of the last event that the answer is based on: the answer has that event and all
// before it. note is called from the goroutine of the call, when the answer begins to arrive. It
// is not called for answers of the host that has the ledger.
func WithEvent(ctx context.Context, note func(event uint64)) context.Context {
	return context.WithValue(ctx, eventKey{}, note)
}

// noteEvent passes the event number in the header of a standby's answer to the function of
// [WithEvent].
func noteEvent(ctx context.Context, header http.Header) {
	note, _ := ctx.Value(eventKey{}).(func(uint64))
	event, err := strconv.ParseUint(header.Get(httpapi.EventHeader), 10, 64)
	if note != nil && err == nil {
		note(event)
	}
}
