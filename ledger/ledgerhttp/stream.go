package ledgerhttp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/sluicedp/sluice/ledger/internal/api"
)

// feed sends events as they happen, as server-sent events: the id of each is its number, so that
// whoever comes back with the header Last-Event-ID goes on behind it.
type feed struct {
	call      *call
	next      uint64
	unchecked int // events since the gate was asked
}

// sendTo is a [body]. It goes on until the reader leaves, does not read, or may not any more,
// or the ledger is closed.
func (f *feed) sendTo(ctx context.Context, w *writer) error {
	w.Header().Set("Content-Type", api.Stream)
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(200)
	if f.call.request.Method == http.MethodHead {
		return nil // nothing of it would be sent, and the connection has to serve its next request
	}
	for {
		err := f.beat(ctx, w)
		if reason := context.Cause(ctx); isRevoked(reason) {
			err = reason
		}
		if isRevoked(err) {
			w.hurry()
			return f.end(w, err)
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
}

// beat sends the events of some seconds and, if there are none, a sign of life. An error of a
// caller that may not read on comes behind a whole event.
func (f *feed) beat(ctx context.Context, w *writer) error {
	if err := f.call.permitted(); err != nil {
		return err
	}
	if _, err := fmt.Fprint(w, ":\n\n"); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, f.call.handler.limits.Beat)
	defer cancel()
	out := bufio.NewWriterSize(w, 4<<10)
	f.unchecked = 0
	for event, err := range f.call.ledger().Watch(within, f.next) {
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if isRevoked(context.Cause(ctx)) {
			return out.Flush()
		}
		if err != nil {
			return errors.Join(out.Flush(), f.end(w, err)) // behind a whole event
		}
		if f.unchecked%recheckItems == 0 {
			if err := f.call.permitted(); err != nil {
				return cmp.Or(out.Flush(), err)
			}
		}
		f.unchecked++
		f.next = event.Number + 1
		if _, err := fmt.Fprintf(out, "id: %d\ndata: ", event.Number); err != nil {
			return err
		}
		if err := encode(out, event); err != nil {
			return err
		}
		if err := out.WriteByte('\n'); err != nil {
			return err
		}
		if err := f.catchUp(ctx, w, out); err != nil {
			return err
		}
	}
	return out.Flush()
}

// catchUp sends what was written once there is nothing more to write.
func (f *feed) catchUp(ctx context.Context, w *writer, out *bufio.Writer) error {
	stats, err := f.call.ledger().Stats(ctx)
	if err != nil || f.next <= stats.Events {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	f.unchecked = 0 // what comes next was not there when the gate was asked
	return w.flush()
}

// end says in the stream why it ends.
func (f *feed) end(w *writer, reason error) error {
	if _, err := fmt.Fprint(w, "event: problem\ndata: "); err != nil {
		return err
	}
	if err := encode(w, f.call.told(reason)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(w, "\n"); err != nil {
		return err
	}
	return errors.Join(w.flush(), reason)
}
