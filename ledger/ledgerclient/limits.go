package ledgerclient

import (
	"bufio"
	"errors"
	"io"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// A server may be faulty or hostile. So a client reads no more bytes of an answer than its request
// justifies.
const (
	// smallAnswer is more than any answer that lists no objects.
	smallAnswer = 1 << 20
	// perObject is more than an answer contains about one object: its name, its refusals, and its
	// entries in lists, in JSON with each byte escaped.
	perObject = 16 << 10
	// largeAnswer is more than any answer that lists the maximum number of objects, questions or
	// buyers.
	largeAnswer = 512 << 20
)

// limitOf returns the maximum number of bytes of the answer or problem for a request. in is the
// body of the request, or nil. out is a pointer for the decoded answer. An answer may list each
// object that the request names. If the request is also about other objects, the answer may list
// any number of objects.
func limitOf(in, out any) int64 {
	switch out.(type) {
	case *api.Budget:
		return smallAnswer
	case *httpapi.Questions, *httpapi.Buyers, *httpapi.Levels, *api.ObjectState, *api.Estimate:
		return largeAnswer
	case *api.Sale, *api.Reservation:
		if in == nil { // it is read by its number, so the request names none of its objects
			return largeAnswer
		}
	}
	named, others := httpapi.Panel(in)
	if others {
		return largeAnswer
	}
	return min(smallAnswer+int64(named)*perObject, largeAnswer)
}

// bounded is a body with a maximum length. Reading more returns a problem of the kind
// "unreachable".
type bounded struct {
	io.ReadCloser
	most, left int64 // the maximum, and how much of it is not read yet
}

func bound(body io.ReadCloser, most int64) *bounded { return &bounded{body, most, most} }

// Read implements [io.Reader]. It reads up to one byte more than the maximum, to notice that the
// body is longer.
func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, tooLong(b.most)
	}
	return n, err
}

// tooLong returns the problem of an answer of more than most bytes.
func tooLong(most int64) error {
	const what = "the answer has more than %d bytes, the most that an answer to this request can have"
	return problem.New(problem.Unreachable, what, most)
}

// readLine reads a line including its end, of at most so many bytes. It returns a problem if the
// line is longer, and [io.ErrUnexpectedEOF] if the input ends before the line does or at its start.
func readLine(in *bufio.Reader, most int64) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if int64(len(line)+len(part)) > most {
			return nil, tooLong(most)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
