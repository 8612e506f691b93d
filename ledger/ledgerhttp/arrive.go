package ledgerhttp

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/sluicedp/sluice/internal/problem"
)

// firstBody is the size in bytes of the first buffer for a body. The buffer doubles each time it
// is full.
const firstBody = 4 << 10

// receive reads the body of a request into c.raw. While the body arrives, the request counts as
// arriving and not as running. The client must send as fast as [Limits] require. The size of the
// buffer counts against Limits.Memory until [call.forgetBody] releases it.
//
// The result is a problem if a limit is reached, or if the body is too large. It is also a problem
// if the body ends, or is late, before all of it has arrived.
func (c *call) receive() error {
	leaveArriving, err := c.handler.gates.arriving.enter(c.holder)
	if err != nil {
		return err
	}
	defer leaveArriving()
	c.bodyMemory = &quotaShare{quota: c.handler.gates.memory, by: c.holder}
	limits := c.handler.limits
	in := http.MaxBytesReader(c.out.ResponseWriter, c.request.Body, limits.Body)
	time := newAllowance(limits.Read, limits.Slowest)
	for err == nil {
		if len(c.raw) == cap(c.raw) {
			if err := c.growBuffer(); err != nil {
				return err
			}
		}
		var n int
		n, err = c.out.receive(in, c.raw[len(c.raw):cap(c.raw)], &time)
		c.raw = c.raw[:len(c.raw)+n]
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problem.New(problem.TooLarge, "the body has more than %d bytes", large.Limit)
	case !errors.Is(err, io.EOF):
		return problem.New(problem.Invalid, "the request ended before its whole body arrived")
	}
	c.arrived = true
	c.out.setBodyDeadline(0) // no deadline: from here on the server reads only to notice a disconnect
	return nil
}

// growBuffer doubles the buffer of the body, up to one byte more than Limits.Body. The read that
// finds the end of a body of exactly Limits.Body bytes needs this byte. growBuffer returns an
// error, and changes nothing, if Limits.Memory does not allow the larger buffer.
func (c *call) growBuffer() error {
	size := int(min(max(firstBody, 2*int64(cap(c.raw))), c.handler.limits.Body+1))
	if err := c.bodyMemory.grow(size - cap(c.raw)); err != nil {
		return err
	}
	text := append(make([]byte, 0, size), c.raw...)
	clear(c.raw) // the old buffer may hold true values
	c.raw = text
	return nil
}

// forgetBody overwrites and releases the body, which may hold true values.
func (c *call) forgetBody() {
	clear(c.raw[:cap(c.raw)])
	c.raw, c.body = nil, nil
	if c.bodyMemory != nil {
		c.bodyMemory.release()
	}
}

// receive reads a part of the body into the buffer, within the time that the client has left. It
// updates that time. It returns an error if the time ends during the read, or is used up by it.
func (w *writer) receive(in io.Reader, into []byte, left *allowance) (n int, err error) {
	begun := w.now()
	// An error means that the writer is no network connection, and supports no deadlines.
	_ = w.control.SetReadDeadline(begun.Add(left.left))
	n, err = in.Read(into)
	left.spend(w.now().Sub(begun), n)
	if err == nil && left.left <= 0 {
		err = http.ErrHandlerTimeout
	}
	return n, err
}

// lingerTime is how long the server waits for the rest of a body that it does not read. Closing at
// once could reset the connection before the client has read the answer.
const lingerTime = time.Second

// closeUnread makes the server close the connection after the answer to a request, unless the whole
// body of the request has arrived. The next request could begin only after the unread rest.
func (c *call) closeUnread() {
	if c.request.ContentLength == 0 || c.arrived {
		return
	}
	c.out.Header().Set("Connection", "close")
	c.out.setBodyDeadline(lingerTime)
}
