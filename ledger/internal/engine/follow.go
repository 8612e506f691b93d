package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Intervals of a standby.
const (
	// baseEvery is the interval at which a standby brings its file up to date and reports its
	// position to the other hosts. [Engine.Erase] on another host may have to wait this long.
	baseEvery = time.Second
	// reportEvery is the number of these intervals after which the position is reported again
	// although it has not changed.
	reportEvery = 10
	// readFirst and readMost are the first and the longest delay before a journal that could not be
	// read is read again.
	readFirst = 50 * time.Millisecond
	readMost  = time.Second
)

// following is the state of a standby that folds what another host appends.
type following struct {
	journal      journal.Follower   // nil if this engine is not, or no longer, a standby
	end          context.CancelFunc // ends the goroutines
	goroutines   sync.WaitGroup
	checkpointed atomic.Pointer[journal.Position] // position that is durable in the file
	mustReport   atomic.Bool                      // the other hosts may have discarded the reported position
}

// base returns the position that is known to be durable in the file (the base of the memtable). It
// is the zero position before the first checkpoint.
func (f *following) base() (at journal.Position) {
	if seen := f.checkpointed.Load(); seen != nil {
		at = *seen
	}
	return at
}

// isReader reports whether the engine never writes to the file. A standby is ReadOnly, because it
// accepts no requests, but it writes what it folds.
func (l *Engine) isReader() bool { return l.ReadOnly && !l.Standby }

// follower returns the journal as a [journal.Follower], or an error if a standby cannot follow it.
func follower(j journal.Journal) (journal.Follower, error) {
	f, can := j.(journal.Follower)
	if !can {
		return nil, errs.Invalid("the journal %s cannot be followed by a standby", j.Name())
	}
	return f, nil
}

// beginFollowing writes the name of the journal to the file, and begins to fold new events in the
// background.
func (l *Engine) beginFollowing(f journal.Follower) error {
	if err := l.nameJournal(f.Name()); err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	l.following.journal, l.following.end = f, end
	l.journal.sharedBy(f)
	l.following.goroutines.Go(func() { l.follow(ctx, f) })
	l.following.goroutines.Go(func() { l.keepBase(ctx, f) })
	return nil
}

// endFollowing stops folding, waits for its goroutines, and closes the journal. It returns the
// error of closing. It does nothing if the engine does not follow, or does so no longer.
func (l *Engine) endFollowing() error {
	f := l.following.journal
	if f == nil {
		return nil
	}
	l.following.end()
	l.following.goroutines.Wait()
	l.following.journal = nil
	return closeJournal(f, nil)
}

// follow folds what is appended until ctx ends. If the journal cannot be read, it retries with
// growing delays, and logs the first of the failures. It stops the ledger if the error is
// permanent, such as a damaged journal.
func (l *Engine) follow(ctx context.Context, f journal.Follower) {
	for wait := readFirst; ; {
		err := l.foldMore(ctx, f)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			wait = readFirst
			continue
		case !isTemporary(err):
			l.Log.Say(zerolog.ErrorLevel, err, "standby stopped")
			l.Queue.Stop(fmt.Errorf("%w: the standby cannot follow the journal: %w", errs.ErrStopped, err))
			return
		case wait == readFirst: // the first failure after a success
			l.Log.Say(zerolog.WarnLevel, err, "the journal cannot be followed; trying again")
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, readMost)
	}
}

// isTemporary reports whether following may succeed again after err. All errors are temporary but
// those that only a new opening of the ledger, or a repair, can end.
func isTemporary(err error) bool {
	return !isAny(err, errs.ErrCorrupt, errs.ErrVersion, journal.ErrStopped, kv.ErrUncertain,
		kv.ErrReplaced, kv.ErrOverwritten)
}

// foldMore waits until the journal has events after the folded ones, and folds them. Then it makes
// them visible to readers.
func (l *Engine) foldMore(ctx context.Context, f journal.Follower) error {
	r, at, err := l.reader()
	if err == nil {
		err = callback.Call("Journal.Await", func() error { return f.Await(ctx, at) })
	}
	if err != nil {
		return err
	}
	for p, err := range r.parts(callback.Seq("Journal.Read", f.Read(ctx, at))) {
		// Settle first, so that readers see nothing that a power cut could still undo.
		if err == nil {
			err = callback.Call("Journal.Settle", func() error { return f.Settle(ctx) })
		}
		if err == nil {
			err = l.fold(p)
		}
		if err != nil {
			return err
		}
		l.Queue.setDurable(p.at.Events)
	}
	return nil
}

// keepBase checkpoints the file every [baseEvery] if there are new events, until ctx ends. It
// reports the position that is durable in the file to the other hosts: when it has changed, when
// they may have discarded it, and every [reportEvery] rounds. An error is logged in the first of
// several rounds that fail.
func (l *Engine) keepBase(ctx context.Context, f journal.Follower) {
	tick := time.NewTicker(baseEvery)
	defer tick.Stop()
	var reported journal.Position
	failed := false // in the previous round
	for n := 0; ; n++ {
		at, err := l.position()
		if err == nil && at != l.following.base() {
			err = l.Checkpoint()
		}
		base := l.following.base()
		if err == nil && (l.following.mustReport.Swap(false) || base != reported || n%reportEvery == 0) {
			err = callback.Call("Journal.Folded", func() error { return f.Folded(ctx, base) })
			if err == nil {
				reported = base
			}
		}
		if err != nil && !failed && ctx.Err() == nil {
			l.Log.Say(zerolog.WarnLevel, err, "the position of this standby was not reported to the other hosts")
		}
		failed = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// TakeOver claims the journal for a standby, folds the rest of it, and ends following. After
// success this engine does nothing more. TakeOver returns the file, which stays open, and the
// [Journals] with which the next engine opens the claimed journal.
//
// If TakeOver fails before it has claimed the journal, nothing has changed. If it fails later, no
// host may append until one claims the journal again; see [Engine.foldUpTo] for this engine.
func (l *Engine) TakeOver(ctx context.Context) (file kv.Store, journals Journals, err error) {
	name, err := l.storedText(state.KeyJournal)
	if err != nil {
		return nil, nil, err
	}
	at, err := l.position()
	if err != nil {
		return nil, nil, err
	}
	// A second handle claims, so that the first one can continue to read. Standby is false in what
	// is wanted, because a handle for a standby only follows.
	j, err := l.journal.from.Find(ctx, journal.Wanted{Ledger: l.journal.ledger, Name: name, At: at})
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if file == nil { // also if a function of the host panicked
			// The other hosts may regard a host that claims as one that no longer follows.
			l.following.mustReport.Store(true)
			err = errors.Join(err, closeJournal(j, nil))
		}
	}()
	if j.Name() != name {
		return nil, nil, mismatch("the journal is %s, but the file names %s", j.Name(), name)
	}
	if _, _, err := l.hasMore(ctx, j); err != nil {
		return nil, nil, err
	}
	term, end, err := j.Claim(ctx)
	if err == nil {
		err = l.foldUpTo(ctx, end)
	}
	if err != nil {
		return nil, nil, err
	}
	return l.base, claimed{l.journal.from, claimedJournal{j, term, end}}, nil
}

// foldUpTo waits until the journal is folded up to end, where the claim of [Engine.TakeOver] found
// its end. Then it closes the queue, ends following, and writes everything to the file.
//
// If ctx ends during the wait, or the queue is stopped, this engine continues to follow, if it can.
// If the queue was closed concurrently, the error is [errs.ErrClosed]. After any later error the
// file is closed, too.
func (l *Engine) foldUpTo(ctx context.Context, end journal.Position) error {
	if err := l.Queue.AwaitEvent(ctx, end.Events); err != nil {
		return fmt.Errorf("the journal is claimed, but not folded up to event %d yet: %w", end.Events, err)
	}
	if !l.Queue.Close() {
		return errs.ErrClosed
	}
	if err := errors.Join(l.endFollowing(), l.Checkpoint()); err != nil {
		return errors.Join(err, l.base.Close())
	}
	at := l.following.base()
	if at.Events > end.Events { // a later claim has appended these events
		return errors.Join(fmt.Errorf("%w: another host has taken over", journal.ErrFenced), l.base.Close())
	}
	if at != end {
		return errors.Join(mismatch("the journal ends at %v, but the file at %v", end, at), l.base.Close())
	}
	// A read through this engine would otherwise find what the next engine writes.
	l.table.Retire(errs.ErrClosed)
	return nil
}

// claimed is the [Journals] of the engine that continues after [Engine.TakeOver]. It differs from
// the embedded one in Find, which returns the journal that is already claimed.
type claimed struct {
	Journals
	journal claimedJournal
}

// Find implements [Journals]. It returns the claimed journal.
func (c claimed) Find(context.Context, journal.Wanted) (journal.Journal, error) {
	return c.journal, nil
}

// claimedJournal is a journal that is already claimed, with the results of that claim.
type claimedJournal struct {
	journal.Journal
	term uint64
	end  journal.Position
}

// Claim implements [journal.Journal]. It returns the result of the earlier claim.
func (c claimedJournal) Claim(context.Context) (term uint64, end journal.Position, err error) {
	return c.term, c.end, nil
}
