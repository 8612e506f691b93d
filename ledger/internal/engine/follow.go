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

// How a standby follows.
const (
	// baseEvery is how often the file is brought up to date, and the others hear of it: as long may
	// [Engine.Erase] wait for it.
	baseEvery = time.Second
	// saidEvery is after how many of these the others hear of it although there is nothing new.
	saidEvery = 10
	// How long to wait, at first and at most, before a journal is read again that could not be.
	readFirst = 50 * time.Millisecond
	readMost  = time.Second
)

// following is how a standby folds what another host appends.
type following struct {
	journal journal.Follower // nil if this is no standby, or not any more
	end     context.CancelFunc
	loose   sync.WaitGroup
	based   atomic.Pointer[journal.Position] // what the file has, durably
	unsaid  atomic.Bool                      // the others may not know that any more
}

// base returns what the file has, durably, as far as that was seen.
func (f *following) base() (at journal.Position) {
	if seen := f.based.Load(); seen != nil {
		at = *seen
	}
	return at
}

// untouched tells whether nothing is ever written to the file.
func (l *Engine) untouched() bool { return l.ReadOnly && !l.Standby }

// follower returns a journal as one that can be followed.
func follower(j journal.Journal) (journal.Follower, error) {
	f, can := j.(journal.Follower)
	if !can {
		return nil, errs.Invalid("the journal %s cannot be followed by a standby", j.Name())
	}
	return f, nil
}

// beginFollowing has the file name a journal, and begins to fold what comes.
func (l *Engine) beginFollowing(f journal.Follower) error {
	if err := l.nameJournal(f.Name()); err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	l.following.journal, l.following.end = f, end
	l.journal.sharedBy(f)
	l.following.loose.Go(func() { l.follow(ctx, f) })
	l.following.loose.Go(func() { l.keepBase(ctx, f) })
	return nil
}

// endFollowing folds nothing more.
func (l *Engine) endFollowing() error {
	f := l.following.journal
	if f == nil {
		return nil
	}
	l.following.end()
	l.following.loose.Wait()
	l.following.journal = nil
	return closing(f, nil)
}

// follow folds what is appended. When the journal cannot be read for a while, it tries again; when
// it is not what it was, the standby stops.
func (l *Engine) follow(ctx context.Context, f journal.Follower) {
	for wait := readFirst; ; {
		err := l.foldMore(ctx, f)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			wait = readFirst
			continue
		case !passes(err):
			l.Log.Say(zerolog.ErrorLevel, err, "standby stopped")
			l.Queue.Stop(fmt.Errorf("%w: it cannot follow the journal any more: %w", errs.ErrStopped, err))
			return
		case wait == readFirst:
			l.Log.Say(zerolog.WarnLevel, err, "the journal cannot be followed; trying again")
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, readMost)
	}
}

// passes tells whether what went wrong may be over when it is tried again.
func passes(err error) bool {
	return !isAny(err, errs.ErrCorrupt, errs.ErrVersion, journal.ErrStopped, kv.ErrUncertain,
		kv.ErrReplaced, kv.ErrOverwritten)
}

// foldMore waits until the journal goes on, and folds what has come.
func (l *Engine) foldMore(ctx context.Context, f journal.Follower) error {
	x, at, err := l.reader()
	if err == nil {
		err = callback.Call("Journal.Await", func() error { return f.Await(ctx, at) })
	}
	if err != nil {
		return err
	}
	for p, err := range x.parts(callback.Seq("Journal.Read", f.Read(ctx, at))) {
		if err == nil { // what a power cut could still undo is not shown
			err = callback.Call("Journal.Settle", func() error { return f.Settle(ctx) })
		}
		if err == nil {
			err = l.fold(p)
		}
		if err != nil {
			return err
		}
		l.Queue.settled(p.at.Events)
	}
	return nil
}

// keepBase brings the file up to date now and then, and tells the others what it has.
func (l *Engine) keepBase(ctx context.Context, f journal.Follower) {
	tick := time.NewTicker(baseEvery)
	defer tick.Stop()
	var told journal.Position
	failed := false // the last time
	for n := 0; ; n++ {
		at, err := l.position()
		if err == nil && at != l.following.base() {
			err = l.Checkpoint()
		}
		base := l.following.base()
		if err == nil && (l.following.unsaid.Swap(false) || base != told || n%saidEvery == 0) {
			err = callback.Call("Journal.Folded", func() error { return f.Folded(ctx, base) })
			if err == nil {
				told = base
			}
		}
		if err != nil && !failed && ctx.Err() == nil {
			l.Log.Say(zerolog.WarnLevel, err, "the others do not hear what this standby has")
		}
		failed = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// TakeOver claims the journal, folds what is left of it, and ends following: this engine does
// nothing any more then. It returns the file, which stays open, and where the one that goes on
// finds the journal. If it fails before it has claimed the journal, nothing has happened.
func (l *Engine) TakeOver(ctx context.Context) (file kv.Store, journals Journals, err error) {
	name, err := l.noted(state.KeyJournal)
	if err != nil {
		return nil, nil, err
	}
	at, err := l.position()
	if err != nil {
		return nil, nil, err
	}
	j, err := l.journal.from.Find(ctx, journal.Wanted{Ledger: l.journal.ledger, Name: name, At: at})
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if file == nil { // also when a function of the host has panicked
			l.following.unsaid.Store(true) // a host that claims follows no more, as far as the others know
			err = errors.Join(err, closing(j, nil))
		}
	}()
	if j.Name() != name {
		return nil, nil, mismatch("the journal is %s, the file's is %s", j.Name(), name)
	}
	if _, _, err := l.ahead(ctx, j); err != nil {
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

// foldUpTo waits until all is folded up to the end of a journal, and ends following.
func (l *Engine) foldUpTo(ctx context.Context, end journal.Position) error {
	if err := l.Queue.AwaitEvent(ctx, end.Events); err != nil {
		return fmt.Errorf("the journal is claimed, and not folded up to event %d yet: %w", end.Events, err)
	}
	if !l.Queue.Close() {
		return errs.ErrClosed
	}
	if err := errors.Join(l.endFollowing(), l.Checkpoint()); err != nil {
		return errors.Join(err, l.base.Close())
	}
	at := l.following.base()
	if at.Events > end.Events {
		return errors.Join(fmt.Errorf("%w: another host has taken over meanwhile", journal.ErrFenced), l.base.Close())
	}
	if at != end {
		return errors.Join(mismatch("the journal ends with %v, the file with %v", end, at), l.base.Close())
	}
	l.table.Retire(errs.ErrClosed) // who reads now would meet what the one writes that goes on
	return nil
}

// claimed is where a journal is that was claimed already.
type claimed struct {
	Journals
	journal claimedJournal
}

// Find implements [Journals].
func (c claimed) Find(context.Context, journal.Wanted) (journal.Journal, error) {
	return c.journal, nil
}

// claimedJournal is a journal that was claimed already.
type claimedJournal struct {
	journal.Journal
	term uint64
	end  journal.Position
}

// Claim implements [journal.Journal].
func (c claimedJournal) Claim(context.Context) (term uint64, end journal.Position, err error) {
	return c.term, c.end, nil
}
