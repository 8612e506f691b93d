package ledgerhttp

import (
	"bufio"
	"context"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// writer is where an answer goes. Its reader must take it as fast as limits say.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
	time    allowance    // of the reader
	check   func() error // is asked before each part but the first whether there may be more; nil allows all
	status  int          // 0 as long as nothing was sent
	sent    bool         // a part of the body was
	broken  bool         // it ends before its end
}

func newWriter(w http.ResponseWriter, l Limits) *writer {
	return &writer{
		ResponseWriter: w, control: http.NewResponseController(w),
		now: time.Now, time: newAllowance(l.Write, l.Slowest),
	}
}

// expect gives the body of the request some time to come; 0 is any.
func (w *writer) expect(d time.Duration) {
	var at time.Time
	if d > 0 {
		at = w.now().Add(d)
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

// partSize is how much is sent at a time.
const partSize = 16 << 10

// Write implements [http.ResponseWriter]. It sends part by part, so that deadlines measure
// progress.
func (w *writer) Write(p []byte) (n int, err error) {
	w.WriteHeader(http.StatusOK)
	for n < len(p) && err == nil {
		if err := w.allowed(); err != nil {
			return n, err
		}
		part := p[n:min(n+partSize, len(p))]
		var written int
		written, err = w.timed(func() (int, error) { return w.ResponseWriter.Write(part) })
		n += written
	}
	return n, err
}

// allowed returns an error if no more of an answer may be sent.
func (w *writer) allowed() error {
	if w.sent && w.check != nil {
		return w.check()
	}
	w.sent = true
	return nil
}

// wait sets the time by which the next bytes must be taken, and returns the time now.
func (w *writer) wait() (begun time.Time) {
	begun = w.now()
	_ = w.control.SetWriteDeadline(begun.Add(w.time.left))
	return begun
}

// timed sends some bytes, for as long as the reader may still take.
func (w *writer) timed(send func() (int, error)) (n int, err error) {
	begun := w.wait()
	n, err = send()
	w.time.spend(w.now().Sub(begun), n)
	return n, err
}

// flush sends what was written.
func (w *writer) flush() error {
	_, err := w.timed(func() (int, error) { return 0, w.control.Flush() })
	return err
}

// hurry has the rest of an answer sent soon or not at all.
func (w *writer) hurry() { w.time.left = min(w.time.left, lingering) }

// body sends an answer, the header included.
type body func(ctx context.Context, w *writer) error

// send sends the result of a call. What fails before anything was sent is an error; later, the
// answer is broken off.
func (c *call) send(ctx context.Context, result any) error {
	err := c.sendAs(ctx, result)
	if err != nil && c.out.status != 0 {
		c.out.broken = true
		return nil
	}
	return err
}

func (c *call) sendAs(ctx context.Context, result any) error {
	switch r := result.(type) {
	case document:
		return c.spool(r)
	case body:
		return r(ctx, c.out)
	}
	text, err := encoded(result)
	if err != nil {
		return err
	}
	return c.spool(document{"application/json", text})
}

// leastSpooled is what the smallest answer counts for: so many of them may be sent at a time.
const leastSpooled = 64 << 10

// spool sends an answer that is ready. The request leaves its place if the memory for answers has
// as much left, so that a slow reader does not hold one.
func (c *call) spool(d document) error {
	c.forgetBody()
	waiting := &hold{room: c.handler.gates.memory, by: c.holder}
	if waiting.grow(max(leastSpooled, len(d.text))) == nil {
		defer waiting.release()
		c.leave()
	}
	if len(d.text) > partSize {
		c.out.check = c.permitted
		defer c.watch(func(error) {})()
	}
	c.out.Header().Set("Content-Type", d.media)
	c.out.Header().Set("Content-Length", strconv.Itoa(len(d.text)))
	_, err := c.out.Write(d.text)
	return err
}

// encode writes a value as [encoded] returns it, in one piece.
func encode(out io.Writer, value any) error {
	text, err := encoded(value)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// encoded returns a value on one line, as package encoding/json writes it, but for lists: none is null.
func encoded(value any) ([]byte, error) {
	text, err := json.Marshal(value,
		jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), json.FormatNilSliceAsNull(false), listsOut())
	return append(text, '\n'), err
}

// sendLines sends the items of a list, one a line. The last line says that they are all, or is the
// problem that came between.
func (c *call) sendLines(ctx context.Context, w *writer, items iter.Seq2[any, error]) error {
	w.Header().Set("Content-Type", httpapi.Lines)
	out, n := bufio.NewWriterSize(w, partSize), 0
	for item, err := range items {
		if n++; n%recheckItems == 0 && err == nil {
			err = c.permitted()
		}
		if revoked := context.Cause(ctx); err != nil && isRevoked(revoked) {
			err = revoked
		}
		if err != nil && w.status == 0 && out.Buffered() == 0 {
			return err // nothing was sent yet
		}
		if err != nil {
			w.hurry()
			if err := encode(out, httpapi.End{Problem: c.told(err)}); err != nil {
				return err
			}
			return out.Flush()
		}
		if err := encode(out, item); err != nil {
			return err
		}
	}
	if err := encode(out, httpapi.End{End: true}); err != nil {
		return err
	}
	return out.Flush()
}

// problem sends a problem, if nothing was sent before.
func (w *writer) problem(p *api.Problem) {
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
