package ledger

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/documents"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Publishing says when the ledger signs checkpoints by itself, and who gets them. The newest
// checkpoint is worth what the place is worth where it is kept: a witness, another disk, a message
// bus.
type Publishing struct {
	// To is called with each checkpoint, by one goroutine. When it fails it is called again after a
	// while, with the newest checkpoint then; the ledger goes on meanwhile. It must return soon
	// after its context ends, which it does when the ledger is closed, and must not close the
	// ledger itself. nil publishes nothing.
	To func(ctx context.Context, checkpoint []byte) error
	// Events is after how many new events there is a checkpoint, Interval after how long, if there
	// are new events at all. 0 is never. There is also one when the ledger is opened and one when
	// it is closed, which has 5 seconds.
	Events   uint64
	Interval time.Duration // since the last checkpoint
}

// Checkpoint signs the log as it is now: a note by [Options.Signer] in the form of
// https://c2sp.org/tlog-checkpoint. Whoever keeps it can show later that nothing in the log before
// it was changed or dropped (see [Options.Checkpoint], [Ledger.Consistency]). It reads only.
// Without a Signer it returns [api.ErrNoSigner].
func (l *Ledger) Checkpoint(ctx context.Context) ([]byte, error) {
	head, err := l.Head(ctx, 0)
	if err != nil {
		return nil, err
	}
	signed, err := l.documents.Sign(head)
	if err == nil {
		l.documents.Gave(head.Events)
	}
	return signed, err
}

// Head returns the log's tree at a size, at most its number of events; 0 stands for that number.
func (l *Ledger) Head(ctx context.Context, events uint64) (api.Head, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (api.Head, error) {
		return l.documents.Head(s, cmp.Or(events, s.Counters.Events))
	})
}

// Consistency proves that the tree of the first from events is the beginning of that of the first
// to events: [tlog.CheckTree] verifies it. 0 < from ≤ to, and to is at most the number of events.
func (l *Ledger) Consistency(ctx context.Context, from, to uint64) (tlog.TreeProof, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (tlog.TreeProof, error) {
		if all := s.Counters.Events; from == 0 || from > to || to > all {
			return nil, errs.Invalid("a proof that %d events are the first of %d, in a log of %d", from, to, all)
		}
		return tlog.ProveTree(int64(to), int64(from), s)
	})
}

// ConsistencyOf is [Ledger.Consistency] for a buyer: between two sizes at which it has receipts,
// and [api.ErrUnknown] for others.
func (l *Ledger) ConsistencyOf(ctx context.Context, buyer string, from, to uint64) (tlog.TreeProof, error) {
	err := l.engine.View(ctx, func(s *state.State) error { return request.CheckReceiptSizes(s, buyer, from, to) })
	if err == nil && from > to {
		err = errs.Invalid("a proof that %d events are the first of %d", from, to) // without the size of the log
	}
	if err != nil {
		return nil, err
	}
	return l.Consistency(ctx, from, to)
}

// startPublishing begins to hand out checkpoints, if that is wanted.
func (l *Ledger) startPublishing(wanted Publishing) (err error) {
	if wanted.To == nil || l.engine.ReadOnly {
		return nil
	}
	l.publisher, err = documents.StartPublisher(&l.documents, wanted.To, wanted.Events, wanted.Interval)
	return err
}
