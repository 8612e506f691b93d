package ledgerhttp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/api"
	"github.com/sluicedp/sluice/ledger/problem"
)

// writer is where an answer goes. Each part of it must be taken by its reader within the time that limits set.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	wait    time.Duration
	until   time.Time // by when all of it must be taken; zero is never
	status  int       // 0 as long as nothing was sent
	broken  bool      // it ends before its end
}

func newWriter(w http.ResponseWriter, l Limits) *writer {
	return &writer{ResponseWriter: w, control: http.NewResponseController(w), wait: l.Write}
}

// expect gives the body of the request some time to come; 0 is any.
func (w *writer) expect(d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = w.control.SetReadDeadline(at) // what has no deadlines is no connection
}

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	at := time.Now().Add(w.wait)
	if !w.until.IsZero() && w.until.Before(at) {
		at = w.until
	}
	_ = w.control.SetWriteDeadline(at)
	return w.ResponseWriter.Write(p)
}

// flush sends what was written.
func (w *writer) flush() error {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.wait))
	return w.control.Flush()
}

// parts splits what is written, so that each part has a deadline of its own.
func (w *writer) parts() *bufio.Writer { return bufio.NewWriterSize(w, 16<<10) }

// body is an answer that writes itself.
type body interface {
	// sendTo sends the answer, the header included.
	sendTo(ctx context.Context, w *writer) error
}

// send sends the result of a call. What fails before anything was sent is an error; later, the answer is broken off.
func (w *writer) send(ctx context.Context, result any) error {
	var err error
	switch r := result.(type) {
	case body:
		err = r.sendTo(ctx, w)
	default:
		err = w.object(r)
	}
	if err != nil && w.status != 0 {
		w.broken = true
		return nil
	}
	return err
}

// object sends one JSON object.
func (w *writer) object(result any) error {
	w.Header().Set("Content-Type", "application/json")
	return encode(w, result)
}

// encode writes a value on one line, in one piece.
func encode(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// sendTo sends the items, one a line. The last line says that they are all, or is the problem that came between.
func (l lines) sendTo(_ context.Context, w *writer) error {
	w.Header().Set("Content-Type", api.Lines)
	out := w.parts()
	for item, err := range l.items {
		if err != nil && w.status == 0 && out.Buffered() == 0 {
			return err // nothing was sent yet
		}
		if err != nil {
			if err := encode(out, api.End{Problem: l.call.told(err)}); err != nil {
				return err
			}
			return out.Flush()
		}
		if err := encode(out, item); err != nil {
			return err
		}
	}
	if err := encode(out, api.End{End: true}); err != nil {
		return err
	}
	return out.Flush()
}

// problem sends a problem, if nothing was sent before.
func (w *writer) problem(p *problem.Problem) {
	if w.status != 0 {
		w.broken = true
		return
	}
	w.Header().Set("Content-Type", problem.ContentType)
	w.WriteHeader(p.Status)
	if encode(w, p) != nil {
		w.broken = true
	}
}

// document is an answer whose bytes are fixed.
type document struct {
	media string
	text  []byte
}

func (d document) sendTo(_ context.Context, w *writer) error {
	w.Header().Set("Content-Type", d.media)
	w.Header().Set("Content-Length", strconv.Itoa(len(d.text)))
	out := w.parts()
	if _, err := out.Write(d.text); err != nil {
		return err
	}
	return out.Flush()
}
