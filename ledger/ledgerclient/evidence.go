package ledgerclient

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// Proofs and copies.

// Receipt is [ledger.Ledger.Receipt]. It checks the form of the receipt, but verifies no proof.
func (c *Client) Receipt(ctx context.Context, sale uint64) (evidence.Receipt, error) {
	text, err := c.readAll(ctx, message{path: numbered("sales", sale, "/receipt"), most: event.MaxDocument})
	if err != nil {
		return evidence.Receipt{}, err
	}
	return evidence.ReadReceipt(text)
}

// Statement is [ledger.Ledger.Statement].
func (c *Client) Statement(ctx context.Context, r api.ObjectRequest) (evidence.Statement, error) {
	m := message{path: "/v1/statements", keyed: true, key: r.Key, body: &r}
	m.most = event.MaxDocument
	text, err := c.readAll(ctx, m)
	if err != nil {
		return evidence.Statement{}, err
	}
	return evidence.ReadStatement(text)
}

// maxCheckpoint is the maximum number of bytes that are read of a checkpoint. No checkpoint is as
// long.
const maxCheckpoint = 1 << 20

// Checkpoint is [ledger.Ledger.Checkpoint].
func (c *Client) Checkpoint(ctx context.Context) ([]byte, error) {
	return c.readAll(ctx, message{path: "/v1/checkpoint", most: maxCheckpoint})
}

// Head is [ledger.Ledger.Head].
func (c *Client) Head(ctx context.Context, events uint64) (api.Head, error) {
	return get[api.Head](ctx, c, "/v1/head", query("events", events))
}

// Consistency is [ledger.Ledger.Consistency]; with a buyer's token it is
// [ledger.Ledger.ConsistencyOf].
func (c *Client) Consistency(ctx context.Context, from, to uint64) (tlog.TreeProof, error) {
	out, err := get[httpapi.Consistency](ctx, c, "/v1/consistency", query("from", from, "to", to))
	if err != nil {
		return nil, err
	}
	proof := make(tlog.TreeProof, len(out.Proof))
	for i, text := range out.Proof {
		hash, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(hash) != tlog.HashSize {
			return nil, fmt.Errorf("%w: the server's proof has an entry that is not a hash", api.ErrInvalid)
		}
		copy(proof[i][:], hash)
	}
	return proof, nil
}

// Backup is [ledger.Ledger.Backup]. The copy is created and verified on this machine. The file is
// first fetched to the directory of path and copied from there, so there must be space for two
// copies. progress reports the second copy only. A crash may leave a directory .sluice-fetched-*,
// which can be removed.
func (c *Client) Backup(ctx context.Context, path string, progress func(done, total int)) (api.Copied, error) {
	return c.copyTo(ctx, path, nil, progress)
}

// CompactTo is [ledger.Ledger.CompactTo], and works as [Client.Backup] does.
func (c *Client) CompactTo(ctx context.Context, path string, progress func(done, total int)) (api.Copied, error) {
	return c.copyTo(ctx, path, query("compact", true), progress)
}

// copyTo writes a copy of the server's ledger to path. query has the parameters of the route
// "backup": nil for a copy with unused pages. See [Client.Backup].
func (c *Client) copyTo(
	ctx context.Context, path string, query url.Values, progress func(done, total int),
) (done api.Copied, err error) {
	path, err = ledgerfile.NewLedger(path, "") // check the path before the file is fetched
	if errors.As(err, new(*ledgerfile.OccupiedError)) {
		err = fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	if err != nil {
		return done, fmt.Errorf("copy: %w", err)
	}
	err = c.withFetched(ctx, filepath.Dir(path), path, query, func(l *ledger.Ledger) error {
		done, err = l.Backup(ctx, path, progress)
		return err
	})
	return done, err
}

// withFetched fetches a copy of the server's ledger, as it is at one instant, opens it for reading,
// and calls use with it. It returns the error of use, or of any step before or after. The copy is
// in a new directory inside dir, which withFetched removes at the end. So errors call the copy by
// name, and not by its path.
func (c *Client) withFetched(
	ctx context.Context, dir, name string, query url.Values, use func(*ledger.Ledger) error,
) (err error) {
	within := dir // from here on, dir is the new directory inside it
	if dir, err = os.MkdirTemp(within, ".sluice-fetched-"); err != nil {
		return fmt.Errorf("fetch: %w", ledgerfile.Renamed(err, name+" in "+within))
	}
	at := filepath.Join(dir, "copy.db")
	defer func() { err = ledgerfile.Renamed(errors.Join(err, os.RemoveAll(dir)), name, at, dir) }()
	file, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := c.fetchInto(ctx, file, query); err != nil {
		return err
	}
	l, err := ledger.Open(ctx, at, ledger.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(use(l), l.Close())
}

// fetchInto writes the server's file, as it is at one instant, to file, syncs file and closes it.
// It closes file after an error, too.
func (c *Client) fetchInto(ctx context.Context, file *os.File, query url.Values) (err error) {
	defer func() { err = errors.Join(err, file.Close()) }()
	response, err := c.do(ctx, message{path: "/v1/backup", query: query, most: smallAnswer, isStream: true})
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.ContentLength < 0 {
		return problem.New(problem.Unreachable, "the server's answer does not have the size of the copy")
	}
	n, err := io.Copy(file, response.Body)
	if err == nil && n != response.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	switch {
	case errors.As(err, new(*fs.PathError)): // a failure of the local disk, not of the server
		return err
	case err != nil:
		return unreachable(ctx, err)
	}
	return file.Sync()
}

// Verify is [ledger.Ledger.Verify]. It fetches the whole ledger and verifies it on this machine,
// because an answer of the server would prove nothing.
func (c *Client) Verify(ctx context.Context, r api.VerifyRequest) (found api.Verification, err error) {
	err = c.withFetched(ctx, os.TempDir(), "the fetched ledger", nil, func(l *ledger.Ledger) error {
		found, err = l.Verify(ctx, r)
		return err
	})
	return found, err
}
