package ledgerhttp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// Functions that serve the routes for proofs and copies (see evidenceRoutes).

// proof encodes a receipt or a statement in its canonical form, the only one that its reader
// accepts. If err is not nil, it returns err.
func proof(d any, err error) (document, error) {
	if err != nil {
		return document{}, err
	}
	text, err := json.Marshal(d)
	return document{"application/json", text}, err
}

// describing sets the result type of a route in the API document. The route itself returns encoded
// JSON of this form.
func describing[T any](r route) route {
	r.out = reflect.TypeFor[T]()
	return r
}

// receipt returns the receipt of the sale in the path.
func receipt(c *call) (document, error) {
	s, err := c.saleOf()
	if err != nil {
		return document{}, err
	}
	r, err := c.ledger().Receipt(c.ctx(), s.Number)
	return proof(r, err)
}

// statement returns the statement of an object. A person may request only the statement about the
// object of its token.
func statement(c *call, in api.ObjectRequest) (document, error) {
	in.Key = c.key
	if c.holder.Role == rolePerson && in.Object != c.holder.Whom {
		return document{}, problem.At("object", problem.Forbidden, "this token is for another object")
	}
	s, err := c.ledger().Statement(c.ctx(), in)
	return proof(s, err)
}

// checkpoint returns a signed checkpoint of the log.
func checkpoint(c *call) (document, error) {
	text, err := c.ledger().Checkpoint(c.ctx())
	return document{"text/plain; charset=utf-8", text}, err
}

// head returns the head of the log's tree at the requested size. It returns an error if this host
// is a standby that does not have so many events yet.
func head(c *call) (api.Head, error) {
	if err := c.checkHasEvents(c.number("events")); err != nil {
		return api.Head{}, err
	}
	return c.ledger().Head(c.ctx(), c.number("events"))
}

// consistency returns the proof that the log at the smaller size is the beginning of the log at the
// larger one. It returns an error if this host is a standby that does not have so many events yet.
func consistency(c *call) (httpapi.Consistency, error) {
	if err := c.checkHasEvents(c.number("to")); err != nil { // the larger size
		return httpapi.Consistency{}, err
	}
	hashes, err := c.consistency(c.number("from"), c.number("to"))
	out := httpapi.Consistency{}
	for _, h := range hashes {
		out.Proof = append(out.Proof, base64.StdEncoding.EncodeToString(h[:]))
	}
	return out, err
}

// maxProblems is how many problems the answer to a verification lists.
const maxProblems = 1000

// verify verifies the ledger, and that it contains the checkpoints of the request, signed by the
// keys of the request. The answer has the number of all problems, and the first maxProblems of
// them.
func verify(c *call, in httpapi.Verify) (httpapi.Verified, error) {
	request := api.VerifyRequest{}
	var keys []note.Verifier
	for _, text := range in.Keys {
		key, err := note.NewVerifier(text)
		if err != nil {
			return httpapi.Verified{}, problem.At("keys", problem.Invalid, "%.100q is not a verifier key", text)
		}
		keys = append(keys, key)
	}
	request.Verifiers = note.VerifierList(keys...)
	for _, signed := range in.Checkpoints {
		request.Checkpoints = append(request.Checkpoints, []byte(signed))
	}
	out := httpapi.Verified{}
	request.Report = func(p api.Finding) {
		if len(out.Problems) < maxProblems {
			out.Problems = append(out.Problems, p)
		}
	}
	found, err := c.ledger().Verify(c.ctx(), request)
	out.Head, out.Objects, out.Count, out.OK = found.Head, found.Objects, found.Problems, found.Problems == 0
	return out, err
}

// backup writes a copy of the ledger to a temporary directory, opens it, removes the directory, and
// returns the body that sends the open file. Errors name the copy by the text in what, because its
// temporary path no longer exists when they are read.
func backup(c *call) (sent body, err error) {
	what := "the copy to send, in " + cmp.Or(c.handler.options.Scratch, os.TempDir())
	dir, err := os.MkdirTemp(c.handler.options.Scratch, "sluice-backup-")
	if err != nil {
		return nil, ledgerfile.ClassifyOpen(ledgerfile.Renamed(err, what), errs.ErrTooManyFiles)
	}
	defer func() { _ = os.RemoveAll(dir) }() // the open file can still be sent after it is removed
	at, write := filepath.Join(dir, "copy.db"), c.ledger().Backup
	defer func() { err = ledgerfile.ClassifyOpen(ledgerfile.Renamed(err, what, at), errs.ErrTooManyFiles) }()
	if c.flag("compact") {
		write = c.ledger().CompactTo
	}
	if _, err := write(c.ctx(), at, nil); err != nil { // nil: without reports of progress
		return nil, err
	}
	file, err := os.Open(at)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, w *writer) error { return c.sendFile(w, file) }, nil
}

// slowestCopy is the minimum rate at which a client must read a copy, in bytes per second. It is
// higher than Limits.Slowest because few copies may be sent at a time.
const slowestCopy = 64 << 10

// sendFile sends a file and closes it. The reader must read at slowestCopy at least. The answer
// ends if the gate no longer admits the caller.
func (c *call) sendFile(w *writer, file *os.File) error {
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	w.time.rate = max(w.time.rate, slowestCopy)
	w.check = c.permitted
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	_, err = io.Copy(w, file)
	return err
}

// takeOver makes a standby take over, and returns the number of events of the resulting ledger. It
// goes on for Limits.Time if the caller disconnects, because a takeover that stops halfway would
// leave no host with the ledger.
func takeOver(c *call, _ httpapi.Done) (httpapi.TakenOver, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx()), c.handler.limits.Time)
	defer cancel()
	if err := c.handler.TakeOver(ctx); err != nil {
		return httpapi.TakenOver{}, err
	}
	stats, err := c.ledger().Stats(ctx)
	return httpapi.TakenOver{Events: stats.Events}, err
}
