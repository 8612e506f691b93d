package ledgerhttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/sluicedp/sluice/internal/httpapi"
)

// feed sends events as they happen, as server-sent events. The id of each is the number of the
// event. A client that reconnects with the header Last-Event-ID continues with the next event.
type feed struct {
	call *call
	next uint64 // the number of the next event to send
}

// sendTo is a [body]. It runs until the reader disconnects, is too slow or loses its permission, or
// until ctx ends or the ledger is closed. Then it returns the reason. For a HEAD request it sends
// only the header, and returns nil.
func (f *feed) sendTo(ctx context.Context, w *writer) error {
	w.Header().Set("Content-Type", httpapi.Stream)
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(200)
	if f.call.request.Method == http.MethodHead {
		return nil // a HEAD request gets no body, and the connection must serve its next request
	}
	for {
		err := f.beat(ctx, w)
		// watch cancels ctx with this cause if the gate no longer admits the caller
		if reason := context.Cause(ctx); isRevoked(reason) {
			err = reason
		}
		if isRevoked(err) {
			w.shortenDeadline()
			return f.end(w, err)
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
}

// beat sends a keep-alive comment, and then the events of the next Limits.Beat. It returns nil when
// that time is over, and also if ctx ends because the gate no longer admits the caller. If the
// ledger returns an error, beat sends the events before it and then a problem, and returns the
// error. It also returns any error of sending.
func (f *feed) beat(ctx context.Context, w *writer) error {
	if err := f.send(w, bytes.NewBufferString(":\n\n")); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, f.call.handler.limits.Beat)
	defer cancel()
	var out bytes.Buffer // contains only whole events
	for event, err := range f.call.ledger().Watch(within, f.next) {
		if errors.Is(err, context.DeadlineExceeded) { // Limits.Beat is over
			break
		}
		if isRevoked(context.Cause(ctx)) {
			return nil
		}
		if err != nil {
			if failed := f.send(w, &out); failed != nil {
				return failed
			}
			return f.end(w, err)
		}
		f.next = event.Number + 1
		_, _ = fmt.Fprintf(&out, "id: %d\ndata: ", event.Number)
		if err := encode(&out, event); err != nil {
			return err
		}
		_ = out.WriteByte('\n')
		stats, err := f.call.ledger().Stats(ctx)
		// Events are sent when the stream has caught up with the log, or when they fill a part.
		if err == nil && (f.next > stats.Events || out.Len() >= partSize) {
			err = f.send(w, &out)
		}
		if err != nil {
			return err
		}
	}
	return f.send(w, &out)
}

// send sends the buffered events, and empties the buffer. If the gate no longer admits the caller,
// it sends nothing, and returns an error for which isRevoked is true.
func (f *feed) send(w *writer, events *bytes.Buffer) error {
	if err := f.call.permitted(); err != nil {
		return err
	}
	if _, err := events.WriteTo(w); err != nil {
		return err
	}
	return w.flush()
}

// end sends the reason why the stream ends, as an event of the type problem. It always returns an
// error, at least the reason, so that the answer counts as incomplete.
func (f *feed) end(w *writer, reason error) error {
	var out bytes.Buffer
	_, _ = out.WriteString("event: problem\ndata: ")
	if err := encode(&out, f.call.problemFor(reason)); err != nil {
		return err
	}
	_ = out.WriteByte('\n')
	if _, err := out.WriteTo(w); err != nil {
		return err
	}
	return errors.Join(w.flush(), reason)
}
