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

// writer writes an answer. The reader must read as fast as [Limits] require.
type writer struct {
	http.ResponseWriter
	control  *http.ResponseController
	now      func() time.Time
	time     allowance    // time that the reader has left
	check    func() error // called before each part except the first; an error ends the answer. nil allows all parts
	status   int          // 0 until the header is sent
	hasSent  bool         // a part of the body was sent
	isBroken bool         // the answer is incomplete
}

// newWriter returns a writer of an answer. Its reader has the time Limits.Write at first. The
// writer has sent nothing, and set no deadline.
func newWriter(w http.ResponseWriter, l Limits) *writer {
	return &writer{
		ResponseWriter: w, control: http.NewResponseController(w),
		now: time.Now, time: newAllowance(l.Write, l.Slowest),
	}
}

// setBodyDeadline sets the deadline for the rest of the request body to d from now. 0 removes the
// deadline.
func (w *writer) setBodyDeadline(d time.Duration) {
	var at time.Time
	if d > 0 {
		at = w.now().Add(d)
	}
	_ = w.control.SetReadDeadline(at) // an error means that the writer supports no deadlines: it is no connection
}

// WriteHeader implements [http.ResponseWriter]. Only the first call sends a header.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.ResponseWriter.WriteHeader(status)
	}
}

// partSize is the number of bytes that one write sends.
const partSize = 16 << 10

// Write implements [http.ResponseWriter]. It writes in parts, so that the deadline of each part
// measures progress. It stops with an error if w.check does not allow the next part.
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

// allowed returns the error of w.check if the next part of the answer may not be sent. It always
// allows the first part: the gate has just admitted the caller.
func (w *writer) allowed() error {
	if w.hasSent && w.check != nil {
		return w.check()
	}
	w.hasSent = true
	return nil
}

// setDeadline sets the deadline for the next write from the time that the reader has left, and
// returns the current time.
func (w *writer) setDeadline() (begun time.Time) {
	begun = w.now()
	_ = w.control.SetWriteDeadline(begun.Add(w.time.left)) // an error: see setBodyDeadline
	return begun
}

// timed runs send within the time that the reader has left, and updates that time. It returns the
// results of send: the number of bytes sent, and an error.
func (w *writer) timed(send func() (int, error)) (n int, err error) {
	begun := w.setDeadline()
	n, err = send()
	w.time.spend(w.now().Sub(begun), n)
	return n, err
}

// flush sends the bytes that are still buffered.
func (w *writer) flush() error {
	_, err := w.timed(func() (int, error) { return 0, w.control.Flush() })
	return err
}

// shortenDeadline limits the time for the rest of the answer to lingerTime.
func (w *writer) shortenDeadline() { w.time.left = min(w.time.left, lingerTime) }

// body sends a complete answer, including the header. A route returns it instead of a result that
// is complete in memory.
type body func(ctx context.Context, w *writer) error

// send sends the result of a call. It returns an error only if nothing was sent, so that the error
// can be the answer. A later failure marks the answer as broken, and send returns nil.
func (c *call) send(ctx context.Context, result any) error {
	err := c.sendAs(ctx, result)
	if err != nil && c.out.status != 0 {
		c.out.isBroken = true
		return nil
	}
	return err
}

// sendAs sends a result: a document or a body as it is, and any other value as JSON. It returns an
// error if the answer was not sent, or not all of it.
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

// minSpooled is the minimum number of bytes that an answer counts for. It bounds how many
// answers are sent at a time.
const minSpooled = 64 << 10

// spool sends an answer that is complete in memory. If Limits.Memory allows it, the request first
// releases its place among running requests, so that a slow reader does not occupy one. Otherwise
// it keeps the place while it sends.
func (c *call) spool(d document) error {
	c.forgetBody() // no longer needed, and its memory counts against the same limit
	waiting := &quotaShare{quota: c.handler.gates.memory, by: c.holder}
	if waiting.grow(max(minSpooled, len(d.text))) == nil {
		defer waiting.release()
		c.leaveRunning()
	}
	if len(d.text) > partSize {
		c.out.check = c.permitted
		// The checks begin now and end with spool. They need to cancel nothing: the next part fails
		// by check, and a blocked write by the deadline that watch sets.
		defer c.watch(func(error) {})()
	}
	c.out.Header().Set("Content-Type", d.media)
	c.out.Header().Set("Content-Length", strconv.Itoa(len(d.text)))
	_, err := c.out.Write(d.text)
	return err
}

// encode writes a value as one line of JSON, with one call of Write. The form is that of encoded.
func encode(out io.Writer, value any) error {
	text, err := encoded(value)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// encoded returns a value as one line of JSON, as package encoding/json writes it, except that an
// empty list is never null.
func encoded(value any) ([]byte, error) {
	text, err := json.Marshal(value,
		jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), json.FormatNilSliceAsNull(false), listsOut())
	return append(text, '\n'), err
}

// sendLines sends the items of a list, one per line. The last line says that the list is complete,
// or has the problem that ended it. Such a problem is an error of items, or that the gate no longer
// admits the caller. If nothing was sent yet, sendLines returns the error instead. It also returns
// errors of sending.
func (c *call) sendLines(ctx context.Context, w *writer, items iter.Seq2[any, error]) error {
	w.Header().Set("Content-Type", httpapi.Lines)
	out, n := bufio.NewWriterSize(w, partSize), 0
	for item, err := range items {
		if n++; n%recheckItems == 0 && err == nil {
			err = c.permitted()
		}
		if revoked := context.Cause(ctx); err != nil && isRevoked(revoked) {
			err = revoked // the reason for which watch cancelled ctx
		}
		if err != nil && w.status == 0 && out.Buffered() == 0 {
			return err // nothing was sent yet, so the error can be the answer
		}
		if err != nil {
			w.shortenDeadline() // for the last line
			if err := encode(out, httpapi.End{Problem: c.problemFor(err)}); err != nil {
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

// problem sends a problem as the answer. If another answer has already begun, or the problem cannot
// be sent, it marks the answer as broken.
func (w *writer) problem(p *api.Problem) {
	if w.status != 0 {
		w.isBroken = true
		return
	}
	w.Header().Set("Content-Type", problem.ContentType)
	w.WriteHeader(p.Status)
	if encode(w, p) != nil {
		w.isBroken = true
	}
}

// document is an answer of fixed bytes.
type document struct {
	media string // the media type
	text  []byte
}
