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
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/table"
	"github.com/sluicedp/sluice/ledger/journal"
)

// overTable puts a table over the store: what is committed stays there until a checkpoint.
func (l *Engine) overTable(base kv.Store) (err error) {
	l.table, err = table.Over(base, table.Options{
		Mark:     table.Mark{Bucket: state.BucketMeta, Key: []byte(state.KeyCounters)},
		Limit:    l.Room,
		ReadOnly: l.untouched(),
		Begun:    l.checkpointBegun,
		Written:  l.checkpointWritten,
		Failed:   l.checkpointFailed,
	})
	if err == nil {
		l.Store = l.table
	}
	return err
}

// markedPosition returns the position in the record by which a table tells its bases apart.
func markedPosition(mark []byte) (journal.Position, error) {
	c, found, err := state.DecodeRecord(state.BucketMeta, []byte(state.KeyCounters), mark, state.DecodeCounters)
	if err == nil && !found {
		err = errs.Corrupt(nil, "there are no counters")
	}
	return c.Position, err
}

// checkpointBegun notes what a checkpoint will have, so that the journal can begin a new segment
// behind it.
func (l *Engine) checkpointBegun(mark []byte) {
	if at, err := markedPosition(mark); err == nil { // else the file is damaged, and the checkpoint will meet that
		l.journal.frozen.Store(at.Events)
	}
}

// checkpointWritten trims the journal by what is in the file now.
func (l *Engine) checkpointWritten(mark []byte) {
	at, err := markedPosition(mark)
	if err == nil {
		l.following.based.Store(&at)
		if l.journal.from.Lasting() {
			l.trimLater(at)
			return
		}
		err = l.trim(at)
	}
	l.logTrim(err)
}

// trimLater trims a journal that other hosts have, too, in the background: a host that hangs holds
// up neither a checkpoint nor a takeover. While a trim runs, the newest position that comes waits
// for it.
func (l *Engine) trimLater(at journal.Position) {
	if l.journal.wanted.Swap(&at) != nil {
		return // it is taken by the goroutine that runs
	}
	l.journal.trims.Go(func() {
		for over := false; !over; {
			next := l.journal.wanted.Load()
			l.logTrim(l.trim(*next))
			over = l.journal.wanted.CompareAndSwap(next, nil)
		}
	})
}

// logTrim logs why the journal was not trimmed after a checkpoint.
func (l *Engine) logTrim(err error) {
	if errors.Is(err, journal.ErrHeld) {
		l.Log.Say(zerolog.InfoLevel, err, "journal not trimmed yet") // the next checkpoint tries again
	} else if err != nil {
		l.Log.Say(zerolog.ErrorLevel, err, "journal not trimmed")
	}
}

// checkpointFailed says that a checkpoint could not be made. Nothing is lost: it is in the journal,
// and another one comes.
func (l *Engine) checkpointFailed(err error) {
	l.Log.Say(zerolog.ErrorLevel, err, "checkpoint failed")
	_ = l.stopIfUnsure(err)
}

// trim destroys what the journal holds up to a position, all of which is in the file.
// [journal.ErrHeld]: not all of it can be destroyed yet.
func (l *Engine) trim(at journal.Position) error {
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	if l.journal.open == nil || at.Events <= l.journal.gone().Events {
		return nil
	}
	err := callback.Call("Journal.Trim", func() error { return l.journal.open.Trim(context.Background(), at) })
	if held, is := errors.AsType[*journal.HeldError](err); is {
		if held.Through.Events > l.journal.gone().Events {
			l.journal.trimmed.Store(&held.Through)
		}
		return fmt.Errorf("trim the journal: %w", err)
	}
	if errors.Is(err, journal.ErrRejected) && !isOver(err) {
		// nothing has changed; the next checkpoint, or repeated request, tries again
		return fmt.Errorf("trim the journal: %w", err)
	}
	if err != nil {
		// Nothing is lost, but the journal may take nothing more, and what should be gone may be
		// there.
		if l.noteReplaced(err); l.journal.replaced.Load() {
			defer func() { go l.saveIfReplaced() }() // the checkpoint that trims must end before another one begins
		}
		return l.stopIfUnsure(fmt.Errorf("%w: trim the journal: %w", kv.ErrUncertain, err))
	}
	l.journal.trimmed.Store(&at)
	return nil
}

// AwaitRoom waits while what is in memory only is for others than who makes many large commits
// ([table.Table.AwaitRoom]).
func (l *Engine) AwaitRoom(ctx context.Context) error {
	if l.table == nil {
		return nil
	}
	return l.table.AwaitRoom(ctx)
}

// Copier returns what copies the file, with everything committed before. Of a ledger open for
// reading only the copy must be completed.
func (l *Engine) Copier() (from kv.Copier, ok bool) {
	if l.untouched() {
		from, ok = l.base.(kv.Copier)
	} else {
		from, ok = l.Store.(kv.Copier)
	}
	return from, ok
}

// Complete makes a copy of the file whole, without a journal. One that names none stays as it is: a
// commit of its own could look, to whoever has the file open, like the next one of the file.
// Without its journal the ledger is not whole, and neither is the copy, which names it still.
func (l *Engine) Complete(copied kv.Writer) error {
	if l.Missing != "" {
		return nil
	}
	if l.untouched() && l.table != nil { // what was folded is in memory
		if err := l.table.WriteTo(copied); err != nil {
			return err
		}
	}
	return note(copied, state.KeyJournal, "")
}

// Checkpoint brings the file up to date with everything committed before.
func (l *Engine) Checkpoint() error { return l.checkpoint(context.Background()) }

// checkpoint is Checkpoint, waited for as long as a context lasts.
func (l *Engine) checkpoint(ctx context.Context) error {
	err := l.table.CheckpointWithin(ctx)
	if err != nil {
		return l.stopIfUnsure(err)
	}
	return nil
}

var errNoBase = errors.New("it is not in the file yet")

// Erase sees to it that nothing is left in the journal of what was committed before. Those who ask
// for it at a time share checkpoints. If the file is being compacted, or the journal holds
// something back, it waits; when ctx ends before, the error wraps that of ctx and a
// [*journal.HeldError].
func (l *Engine) Erase(ctx context.Context) error {
	if l.table == nil {
		return nil
	}
	at, err := l.position()
	if err == nil {
		err = l.checkpoint(ctx)
	}
	if err != nil && errors.Is(err, ctx.Err()) {
		gone := l.journal.gone()
		if gone.Events < at.Events {
			return fmt.Errorf("%w: %w", err, &journal.HeldError{Through: gone, Wanted: at, Reason: errNoBase})
		}
		err = nil // the checkpoint has come to its end all the same
	}
	if err != nil {
		return cmp.Or(l.Queue.Check(), err) // the error of a table that is closed tells less
	}
	if err = l.trimmed(ctx, at); err == nil && !l.hasJournal() {
		err = l.Queue.Check() // who closes the ledger has taken the journal, and may not have destroyed it yet
	}
	return err
}

// hasJournal tells whether there is a journal that is appended to.
func (l *Engine) hasJournal() bool {
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	return l.journal.open != nil
}

// How long to wait, at first and at most, before a journal is asked again what it has held back.
const (
	heldFirst = 20 * time.Millisecond
	heldMost  = 2 * time.Second
)

// trimmed waits until the journal is trimmed up to a position: again, if that failed behind the
// checkpoint.
func (l *Engine) trimmed(ctx context.Context, at journal.Position) error {
	for wait := heldFirst; ; wait = min(2*wait, heldMost) {
		err := l.trim(at)
		if !errors.Is(err, journal.ErrHeld) {
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
		if err := l.Queue.Check(); err != nil {
			return err
		}
	}
}
