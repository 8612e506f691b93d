package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/journal"
)

// How often a follower asks whether there is more: at first, and when there was nothing for a
// while.
const (
	askFirst = 2 * time.Millisecond
	askMost  = 50 * time.Millisecond
)

// Await is [journal.Follower.Await]. It asks the database again and again, at most twenty times a
// second when nothing comes.
func (j *Journal) Await(ctx context.Context, after journal.Position) error {
	for pause := askFirst; ; pause = min(2*pause, askMost) {
		v, err := j.now(ctx, after)
		switch {
		case err != nil:
			return err
		case v.end.Events > after.Events:
			return nil
		case v.end != after:
			return v.where(after)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		case <-j.life.Done():
		}
	}
}

// now is look as a call of its own.
func (j *Journal) now(ctx context.Context, at journal.Position) (v view, err error) {
	err = j.call(ctx, func(ctx context.Context) (err error) {
		v, err = j.look(ctx, at)
		return err
	})
	return v, err
}

// Leader returns the name of the host that has claimed the journal last: the one that has the
// ledger, unless it is gone.
func (j *Journal) Leader(ctx context.Context) (host string, err error) {
	v, err := j.now(ctx, journal.Position{})
	return v.host, err
}

// Head is [journal.Follower.Head].
func (j *Journal) Head(ctx context.Context) (journal.Head, error) {
	v, err := j.now(ctx, journal.Position{})
	if err == nil {
		err = j.overtaken(v)
	}
	return journal.Head{Host: v.host, Term: v.term, End: v.end}, err
}

// overtaken returns [journal.ErrFenced] if the journal was claimed after the claim of this handle.
// Whoever holds writing may be raising the term of its own claim: then the append returns it.
func (j *Journal) overtaken(v view) error {
	if !j.writing.TryTake() {
		return nil
	}
	defer j.writing.Leave()
	if j.term == 0 || v.term <= j.term {
		return nil
	}
	return j.fencedBy(v, false)
}

// Folded is [journal.Follower.Folded], under the name of this host. Behind an ErrLost or ErrForked
// this host counts as one that has nothing.
func (j *Journal) Folded(ctx context.Context, through journal.Position) error {
	return j.call(ctx, func(ctx context.Context) error { return j.folded(ctx, through) })
}

func (j *Journal) folded(ctx context.Context, through journal.Position) error {
	if fits(through) {
		n, err := j.change(ctx, foldedSQL, j.ledger, through.Events, through.Root[:], j.id, j.Host)
		if err != nil || n == 1 {
			return err
		}
	}
	v, err := j.look(ctx, through)
	if err != nil {
		return err
	}
	if err := v.where(through); err != nil {
		return errors.Join(err, j.dismiss(ctx, j.Host)) // its base is none to go on with
	}
	return fmt.Errorf("%w: it has not taken what this host has folded", errServer)
}

// Dismiss forgets the base of a host, which that has said by [Journal.Folded] or left when it had
// the journal: Trim does not wait for it any more. Do so when a host is gone for good: once Trim
// has gone on, its base is of no use.
func (j *Journal) Dismiss(ctx context.Context, host string) error {
	return j.call(ctx, func(ctx context.Context) error { return j.dismiss(ctx, host) })
}

func (j *Journal) dismiss(ctx context.Context, host string) error {
	_, err := j.change(ctx, dismissSQL, j.ledger, host)
	return err
}
