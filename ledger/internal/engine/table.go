package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/memtable"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/journal"
)

// overTable creates the memtable over the store, and makes it the Store of the engine. Committed
// data stays in the memtable until a checkpoint.
func (l *Engine) overTable(base kv.Store) (err error) {
	l.table, err = memtable.Over(base, memtable.Options{
		Mark:     memtable.Mark{Bucket: state.BucketMeta, Key: []byte(state.KeyCounters)},
		Limit:    l.Room,
		ReadOnly: l.isReader(),
		Begun:    l.checkpointBegun,
		Written:  l.checkpointWritten,
		Failed:   l.checkpointFailed,
	})
	if err == nil {
		l.Store = l.table
	}
	return err
}

// markedPosition returns the log position in a mark. The mark is the stored record of the counters,
// by which the memtable recognizes its base. The error is an ErrCorrupt.
func markedPosition(mark []byte) (journal.Position, error) {
	c, found, err := state.DecodeRecord(state.BucketMeta, []byte(state.KeyCounters), mark, state.DecodeCounters)
	if err == nil && !found {
		err = errs.Corrupt(nil, "the record of the counters is missing")
	}
	return c.Position, err
}

// checkpointBegun stores how many events a checkpoint that begins will write. The next commit asks
// the journal to begin a new segment after them ([journaling.cut]), so that the old one can be
// trimmed as a whole.
func (l *Engine) checkpointBegun(mark []byte) {
	// An error means that the file is damaged; the checkpoint itself returns it.
	if at, err := markedPosition(mark); err == nil {
		l.journal.frozen.Store(at.Events)
	}
}

// checkpointWritten trims the journal up to the position that is now in the file. A shared journal
// is trimmed in the background. An error is logged.
func (l *Engine) checkpointWritten(mark []byte) {
	at, err := markedPosition(mark)
	if err == nil {
		l.following.checkpointed.Store(&at)
		if l.journal.from.Lasting() {
			l.trimLater(at)
			return
		}
		err = l.trim(at)
	}
	l.logTrim(err)
}

// trimLater trims a shared journal up to a position in the background, so that another host that
// hangs delays neither a checkpoint nor a takeover. At most one goroutine trims. A call during its
// trim replaces the position that it trims to next.
func (l *Engine) trimLater(at journal.Position) {
	if l.journal.wanted.Swap(&at) != nil {
		return // the running goroutine takes the new position
	}
	l.journal.trims.Go(func() {
		for over := false; !over; {
			next := l.journal.wanted.Load()
			l.logTrim(l.trim(*next))
			// This fails if a later call has set another position during the trim.
			over = l.journal.wanted.CompareAndSwap(next, nil)
		}
	})
}

// logTrim logs why the journal was not trimmed after a checkpoint, if err is not nil.
func (l *Engine) logTrim(err error) {
	if _, held := errors.AsType[*journal.HeldError](err); held {
		l.Log.Say(zerolog.InfoLevel, err, "journal not trimmed yet") // the next checkpoint tries again
	} else if err != nil {
		l.Log.Say(zerolog.ErrorLevel, err, "journal not trimmed")
	}
}

// checkpointFailed logs a failed checkpoint. Nothing is lost, because the events are in the
// journal, and a later checkpoint tries again.
func (l *Engine) checkpointFailed(err error) {
	l.Log.Say(zerolog.ErrorLevel, err, "checkpoint failed")
	_ = l.stopIfUncertain(err)
}

// trim destroys what the journal holds up to a position, all of which must be in the file. It does
// nothing if there is no journal, or if the journal is trimmed that far already.
//
// It returns an error that wraps a [*journal.HeldError] if some of it cannot be destroyed yet.
// After a [journal.ErrRejected] that is not final ([isOver]), nothing has changed. Any other error
// stops the ledger.
func (l *Engine) trim(at journal.Position) error {
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	if l.journal.open == nil || at.Events <= l.journal.trimmedTo().Events {
		return nil
	}
	err := callback.Call("Journal.Trim", func() error { return l.journal.open.Trim(context.Background(), at) })
	if held, is := errors.AsType[*journal.HeldError](err); is {
		if held.Through.Events > l.journal.trimmedTo().Events { // a part was destroyed
			l.journal.trimmed.Store(&held.Through)
		}
		return fmt.Errorf("trim the journal: %w", err)
	}
	if errors.Is(err, journal.ErrRejected) && !isOver(err) {
		// Nothing has changed; the next checkpoint or the next request tries again.
		return fmt.Errorf("trim the journal: %w", err)
	}
	if err != nil {
		// No event is lost. But the journal may accept no more appends, and may still hold what
		// should have been destroyed.
		if l.recordReplaced(err); l.journal.replaced.Load() {
			// In another goroutine, because the checkpoint that trims must end before the next one
			// begins.
			defer func() { go l.saveIfReplaced() }()
		}
		return l.stopIfUncertain(fmt.Errorf("%w: trim the journal: %w", kv.ErrUncertain, err))
	}
	l.journal.trimmed.Store(&at)
	return nil
}

// AwaitCapacity delays a caller that makes many large commits, while the free capacity of the
// memtable is reserved for other callers ([memtable.Table.AwaitCapacity]).
func (l *Engine) AwaitCapacity(ctx context.Context) error {
	if l.table == nil {
		return nil
	}
	return l.table.AwaitCapacity(ctx)
}

// Copier returns the store that copies the file, with everything committed before. If the ledger is
// open for reading only, the caller must complete the copy ([Engine.Complete]).
func (l *Engine) Copier() (from kv.Copier, ok bool) {
	if l.isReader() {
		from, ok = l.base.(kv.Copier)
	} else {
		from, ok = l.Store.(kv.Copier)
	}
	return from, ok
}

// Complete makes a copy of the file independent of a journal: it removes the journal's name from
// the copy. For a ledger that is open for reading only it also writes the folded events to the
// copy.
//
// Complete changes nothing in a copy that names no journal. Another commit in the copy could be
// mistaken for the next commit of the original, by a process that has the original open. It also
// changes nothing if the journal is missing: neither the ledger nor the copy is complete then, and
// the copy must name the journal.
func (l *Engine) Complete(copied kv.Writer) error {
	if l.MissingJournal != "" {
		return nil
	}
	if l.isReader() && l.table != nil { // the folded events are in memory only
		if err := l.table.WriteTo(copied); err != nil {
			return err
		}
	}
	return putText(copied, state.KeyJournal, "")
}

// Checkpoint writes everything that was committed before the call to the file.
func (l *Engine) Checkpoint() error { return l.checkpoint(context.Background()) }

// checkpoint writes everything that was committed before the call to the file. If ctx ends first,
// it returns ctx.Err(), and a checkpoint that has begun continues. An error that leaves it unknown
// what is in the file stops the ledger.
func (l *Engine) checkpoint(ctx context.Context) error {
	err := l.table.CheckpointWithin(ctx)
	if err != nil {
		return l.stopIfUncertain(err)
	}
	return nil
}

var errNoBase = errors.New("not checkpointed to the file yet")

// Erase destroys what the journal holds of everything that was committed before the call. To do
// so, it writes everything to the file and trims the journal. Concurrent calls share checkpoints.
//
// Erase waits while the file is being compacted, or while the journal holds something back. If ctx
// ends first, the error wraps ctx.Err() and a [*journal.HeldError].
func (l *Engine) Erase(ctx context.Context) error {
	if l.table == nil {
		return nil
	}
	at, err := l.position()
	if err == nil {
		err = l.checkpoint(ctx)
	}
	if err != nil && errors.Is(err, ctx.Err()) { // false if ctx has not ended, because ctx.Err() is nil then
		gone := l.journal.trimmedTo()
		if gone.Events < at.Events {
			return fmt.Errorf("%w: %w", err, &journal.HeldError{Through: gone, Wanted: at, Reason: errNoBase})
		}
		err = nil // the journal is trimmed up to at, so the checkpoint was completed in spite of ctx
	}
	if err != nil {
		return cmp.Or(l.Queue.Check(), err) // the error of a closed memtable does not say why it was closed
	}
	if err = l.awaitTrimmed(ctx, at); err == nil && !l.hasJournal() {
		err = l.Queue.Check() // a concurrent Close has taken the journal, and may not have destroyed it yet
	}
	return err
}

// hasJournal reports whether commits are appended to a journal.
func (l *Engine) hasJournal() bool {
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	return l.journal.open != nil
}

// heldFirst and heldMost are the first and the longest delay before a trim that was held back is
// tried again.
const (
	heldFirst = 20 * time.Millisecond
	heldMost  = 2 * time.Second
)

// awaitTrimmed trims the journal up to a position, and repeats that with growing delays as long as
// the journal holds something back. It returns nil at once if an earlier trim, such as the one
// after a checkpoint, went that far.
//
// If ctx ends first, the error wraps ctx.Err() and a [*journal.HeldError]. It also returns other
// errors of [Engine.trim], and the reason why the queue was stopped or closed.
func (l *Engine) awaitTrimmed(ctx context.Context, at journal.Position) error {
	for wait := heldFirst; ; wait = min(2*wait, heldMost) {
		err := l.trim(at)
		if _, held := errors.AsType[*journal.HeldError](err); !held {
			return err
		}
		if wait == heldFirst {
			l.Log.Now(func(log *zerolog.Logger) {
				log.Warn().Err(err).Uint64("through", at.Events).Msg("waiting to erase")
			})
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		// A stopped ledger, or one that is being closed, may never get the journal to trim.
		if err := l.Queue.Check(); err != nil {
			return err
		}
	}
}
