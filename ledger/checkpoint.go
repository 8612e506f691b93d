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

// Publishing sets when the ledger signs checkpoints by itself, and which function receives them. A
// checkpoint is only as trustworthy as the place where it is kept: a witness, another disk, a
// message bus.
type Publishing struct {
	// To is called with each checkpoint, on one goroutine. If it fails, it is called again after
	// some time with the checkpoint that is newest then; the ledger continues in between. It must
	// return soon after its context ends, which happens when the ledger is closed. It must not
	// close the ledger. nil publishes nothing.
	To func(ctx context.Context, checkpoint []byte) error
	// Events is the number of new events after which a checkpoint is signed; 0 means never. A
	// checkpoint is also signed when the ledger is opened, and when it is closed; then To has 5
	// seconds.
	Events uint64
	// Interval is the time since the last checkpoint after which another one is signed, if there
	// are new events; 0 means never.
	Interval time.Duration
}

// Checkpoint signs the log as it is now. It returns a note by [Options.Signer] in the form of
// https://c2sp.org/tlog-checkpoint. A party that keeps the note can show later that nothing in the
// log before it was changed or dropped (see [Options.Checkpoint], [Ledger.Consistency]). Checkpoint
// only reads the ledger. Without a Signer it returns [api.ErrNoSigner].
func (l *Ledger) Checkpoint(ctx context.Context) ([]byte, error) {
	head, err := l.Head(ctx, 0)
	if err != nil {
		return nil, err
	}
	signed, err := l.documents.Sign(head)
	if err == nil {
		l.documents.RecordIssued(head.Events)
	}
	return signed, err
}

// Head returns the head of the log's tree at a size, which is at most the number of events. 0 means
// the number of events.
func (l *Ledger) Head(ctx context.Context, events uint64) (api.Head, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (api.Head, error) {
		return l.documents.Head(s, cmp.Or(events, s.Counters.Events))
	})
}

// Consistency proves that the tree over the first from events is the beginning of the tree over the
// first to events. [tlog.CheckTree] verifies the proof. It requires 0 < from ≤ to ≤ the number of
// events, and returns [api.ErrInvalid] otherwise.
func (l *Ledger) Consistency(ctx context.Context, from, to uint64) (tlog.TreeProof, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (tlog.TreeProof, error) {
		if all := s.Counters.Events; from == 0 || from > to || to > all {
			return nil, errs.Invalid("consistency of sizes %d and %d in a log of %d events: "+
				"the first must be above 0, and none above the next", from, to, all)
		}
		return tlog.ProveTree(int64(to), int64(from), s)
	})
}

// ConsistencyOf is [Ledger.Consistency] for a buyer. Both sizes must be sizes at which the buyer
// has receipts; for others it returns [api.ErrUnknown].
func (l *Ledger) ConsistencyOf(ctx context.Context, buyer string, from, to uint64) (tlog.TreeProof, error) {
	err := l.engine.View(ctx, func(s *state.State) error { return request.CheckReceiptSizes(s, buyer, from, to) })
	if err == nil && from > to {
		// The text omits the size of the log, which a buyer may not learn here.
		err = errs.Invalid("consistency of sizes %d and %d: the first must not be above the second", from, to)
	}
	if err != nil {
		return nil, err
	}
	return l.Consistency(ctx, from, to)
}

// startPublishing starts to publish checkpoints. It does nothing if no function receives them, or
// if the ledger is open for reading.
func (l *Ledger) startPublishing(wanted Publishing) (err error) {
	if wanted.To == nil || l.engine.ReadOnly {
		return nil
	}
	l.publisher, err = documents.StartPublisher(&l.documents, wanted.To, wanted.Events, wanted.Interval)
	return err
}
