package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/journal"
)

// The pause between two queries of a follower: at first, and at most, when no groups arrive.
const (
	askFirst = 2 * time.Millisecond
	askMost  = 50 * time.Millisecond
)

// Await implements [journal.Follower.Await]. It polls the database, at most about twenty times a
// second when no groups arrive.
func (j *Journal) Await(ctx context.Context, after journal.Position) error {
	for pause := askFirst; ; pause = min(2*pause, askMost) {
		v, err := j.currentView(ctx, after)
		switch {
		case err != nil:
			return err
		case v.end.Events > after.Events:
			return nil
		case v.end != after: // it ends before that, or with another root
			return v.checkPosition(after)
		}
		select { // if a context has ended, the next currentView returns the error
		case <-time.After(pause):
		case <-ctx.Done():
		case <-j.ctx.Done():
		}
	}
}

// currentView is readView as a call of its own, with the checks and the time limit of a call.
func (j *Journal) currentView(ctx context.Context, at journal.Position) (v view, err error) {
	err = j.call(ctx, func(ctx context.Context) (err error) {
		v, err = j.readView(ctx, at)
		return err
	})
	return v, err
}

// Leader returns the name of the host that has claimed the journal last. That host has the ledger,
// unless it has failed.
func (j *Journal) Leader(ctx context.Context) (host string, err error) {
	v, err := j.currentView(ctx, journal.Position{})
	return v.host, err
}

// Head implements [journal.Follower.Head]. It asks the database, and compares the term with that of
// this handle's claim ([Journal.overtaken]).
func (j *Journal) Head(ctx context.Context) (journal.Head, error) {
	v, err := j.currentView(ctx, journal.Position{})
	if err == nil {
		err = j.overtaken(v)
	}
	return journal.Head{Host: v.host, Term: v.term, End: v.end}, err
}

// overtaken returns [journal.ErrFenced] if the journal was claimed after the claim of this handle.
// It returns nil while another goroutine holds the writing lock, because an append may be raising
// the term of its own claim. That append returns ErrFenced itself.
func (j *Journal) overtaken(v view) error {
	if !j.writing.TryLock() {
		return nil
	}
	defer j.writing.Unlock()
	if j.term == 0 || v.term <= j.term {
		return nil
	}
	return j.fencedBy(v, false)
}

// Folded implements [journal.Follower.Folded], under the name of this host. After ErrLost or
// ErrForked, this host counts as one without a base.
func (j *Journal) Folded(ctx context.Context, through journal.Position) error {
	return j.call(ctx, func(ctx context.Context) error { return j.folded(ctx, through) })
}

// folded is [Journal.Folded] inside a call. The statement changes no row if no group ends at the
// position; then folded finds out why, and removes what this host reported earlier.
func (j *Journal) folded(ctx context.Context, through journal.Position) error {
	if fits(through) { // otherwise it is after the end of every journal, as checkPosition reports
		n, err := j.change(ctx, foldedSQL, j.ledger, through.Events, through.Root[:], j.id, j.Host)
		if err != nil || n == 1 {
			return err
		}
	}
	v, err := j.readView(ctx, through)
	if err != nil {
		return err
	}
	if err := v.checkPosition(through); err != nil {
		return errors.Join(err, j.dismiss(ctx, j.Host)) // its base cannot be used to continue the ledger
	}
	return fmt.Errorf("%w: it has not recorded the position that this host has folded", errServer)
}

// Dismiss removes the record of a host's base, which the host made by [Journal.Folded] or when it
// had the journal. Trim then no longer waits for that host. Call it when a host is gone for good:
// after the next Trim, its base is of no use.
func (j *Journal) Dismiss(ctx context.Context, host string) error {
	return j.call(ctx, func(ctx context.Context) error { return j.dismiss(ctx, host) })
}

// dismiss is [Journal.Dismiss] inside a call.
func (j *Journal) dismiss(ctx context.Context, host string) error {
	_, err := j.change(ctx, dismissSQL, j.ledger, host)
	return err
}
