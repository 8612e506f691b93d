package ledgerhttp

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/sluicedp/sluice/internal/problem"
)

// firstBody is how much of a body is read at first. Each time that it is not all, twice as much is.
const firstBody = 4 << 10

// receive reads the body of a request into memory. The request has no place among those that run as
// long as it arrives, and must make progress. Its bytes count until the request has been answered.
func (c *call) receive() error {
	leave, err := c.handler.gates.arriving.enter(c.holder)
	if err != nil {
		return err
	}
	defer leave()
	c.memory = &hold{room: c.handler.gates.memory, by: c.holder}
	limits := c.handler.limits
	in := http.MaxBytesReader(c.out.ResponseWriter, c.request.Body, limits.Body)
	time := newAllowance(limits.Read, limits.Slowest)
	for err == nil {
		if len(c.raw) == cap(c.raw) {
			if err := c.makeRoom(); err != nil {
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
		return problem.New(problem.Invalid, "the body could not be read to its end")
	}
	c.arrived = true
	c.out.expect(0) // from now on the connection is only watched
	return nil
}

// makeRoom doubles the memory for a body, up to one byte more than the largest has.
func (c *call) makeRoom() error {
	size := int(min(max(firstBody, 2*int64(cap(c.raw))), c.handler.limits.Body+1))
	if err := c.memory.grow(size - cap(c.raw)); err != nil {
		return err
	}
	text := append(make([]byte, 0, size), c.raw...)
	clear(c.raw) // it may hold true values
	c.raw = text
	return nil
}

// forgetBody drops a body, which may hold true values.
func (c *call) forgetBody() {
	clear(c.raw[:cap(c.raw)])
	c.raw, c.body = nil, nil
	if c.memory != nil {
		c.memory.release()
	}
}

// receive reads some of a body, for as long as the caller may still take.
func (w *writer) receive(in io.Reader, into []byte, left *allowance) (n int, err error) {
	begun := w.now()
	_ = w.control.SetReadDeadline(begun.Add(left.left)) // what has no deadlines is no connection
	n, err = in.Read(into)
	left.spend(w.now().Sub(begun), n)
	if err == nil && left.left <= 0 {
		err = http.ErrHandlerTimeout
	}
	return n, err
}

// lingering is how long the rest of a body is awaited that nobody reads, so that the client reads
// why.
const lingering = time.Second

// dismiss has the connection of a request closed whose body is not read.
func (c *call) dismiss() {
	if c.request.ContentLength == 0 || c.arrived {
		return
	}
	c.out.Header().Set("Connection", "close")
	c.out.expect(lingering)
}
