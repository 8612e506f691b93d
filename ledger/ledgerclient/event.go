package ledgerclient

import (
	"context"
	"net/http"
	"strconv"

	"github.com/sluicedp/sluice/internal/httpapi"
)

type eventKey struct{}

// WithEvent returns a context by whose calls a caller learns as of which event a standby answers.
// The answer has that event, and all before it. note is called with the number of the event when an
// answer begins to arrive, from the goroutine of the call, and not for answers of the host that has
// the ledger.
func WithEvent(ctx context.Context, note func(event uint64)) context.Context {
	return context.WithValue(ctx, eventKey{}, note)
}

// noteEvent reports as of which event an answer is, if it is a standby's.
func noteEvent(ctx context.Context, header http.Header) {
	note, _ := ctx.Value(eventKey{}).(func(uint64))
	event, err := strconv.ParseUint(header.Get(httpapi.EventHeader), 10, 64)
	if note != nil && err == nil {
		note(event)
	}
}
