package pgjournal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

// patience is how long other hosts are waited for where the journal can do without them.
const patience = time.Second

// prepareSegment sees to it that a group can be encrypted under a key that lies with enough hosts.
func (j *Journal) prepareSegment(ctx context.Context, g journal.Group) error {
	s := j.segment
	if s != nil && s.groups > 0 && (g.Cut || s.bytes >= mostBytes || s.groups >= mostGroups) {
		j.segment = nil
	}
	if j.segment != nil {
		return nil
	}
	s, err := j.beginSegment(ctx)
	if err == nil {
		s.begin = g.Before
		j.segment = s
	}
	return err
}

// beginSegment makes a key, and waits until it lies with as many hosts as it should. If that fails,
// the next call tries again with the same one.
func (j *Journal) beginSegment(ctx context.Context) (*segment, error) {
	if j.fresh == nil {
		j.number++
		s := &segment{id: keyholder.Segment{Term: j.claimed, Number: j.number}}
		_, _ = rand.Read(s.key[:])
		var err error
		if s.cipher, err = cipherOf(s.key); err != nil {
			return nil, err
		}
		j.fresh = s
	}
	s := j.fresh
	if err := j.place(ctx, s.id, s.key); err != nil {
		return nil, fmt.Errorf("segment %v has no key: %w", s.id, err)
	}
	j.fresh = nil
	return s, nil
}

// place puts a key with this host and with the others, and returns when it lies with enough. What
// is still under way then goes on.
func (j *Journal) place(ctx context.Context, id keyholder.Segment, k keyholder.Key) error {
	if err := j.Keys.Put(ctx, j.Name(), id, k); err != nil {
		return err
	}
	answers := make(chan error, len(j.Others))
	for _, h := range j.Others {
		j.loose.Go(func() {
			ctx, cancel := j.limited(context.Background())
			defer cancel()
			err := h.Put(ctx, j.Name(), id, k)
			if err != nil {
				err = fmt.Errorf("%s: %w", h.Name(), err)
			}
			answers <- err
		})
	}
	var failed error
	copies := 0
	for range j.Others {
		select {
		case err := <-answers:
			if err == nil {
				copies++
			}
			failed = errors.Join(failed, err)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), failed)
		}
		if copies == j.Copies {
			return nil
		}
	}
	return fmt.Errorf("it lies with %d other hosts, not with %d: %w", copies, j.Copies, failed)
}

// key finds the key of a segment: on this host, or with another, from which this one takes a copy.
// It says of each host why not.
func (j *Journal) key(ctx context.Context, id keyholder.Segment) (keyholder.Key, error) {
	k, err := j.Keys.Get(ctx, j.Name(), id)
	if err == nil || !errors.Is(err, keyholder.ErrNoKey) {
		return k, err
	}
	if errors.Is(err, keyholder.ErrDestroyed) {
		return k, fmt.Errorf("%w: the database holds what was trimmed, and is older than that: %w", journal.ErrLost,
			err)
	}
	missing := fmt.Errorf("this host, %s: %w", j.Host, err)
	for _, other := range ask(ctx, patience, j.Others,
		func(ctx context.Context, h keyholder.Holder) (keyholder.Key, error) { return h.Get(ctx, j.Name(), id) }) {
		if other.err == nil {
			return other.found, j.Keys.Put(ctx, j.Name(), id, other.found)
		}
		missing = errors.Join(missing, fmt.Errorf("%s: %w", other.of.Name(), other.err))
	}
	return k, fmt.Errorf("the key of segment %v of %s is missing: %w", id, j.Name(), missing)
}

// answer is what a host has answered.
type answer[T any] struct {
	of    keyholder.Holder
	found T
	err   error
}

// ask asks all hosts at once, and waits for each, but not longer than a while.
func ask[T any](ctx context.Context, most time.Duration, all []keyholder.Holder,
	what func(context.Context, keyholder.Holder) (T, error)) []answer[T] {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	answers := make([]answer[T], len(all))
	var asked sync.WaitGroup
	for i, h := range all {
		asked.Go(func() {
			found, err := what(ctx, h)
			answers[i] = answer[T]{h, found, err}
		})
	}
	asked.Wait()
	return answers
}

// teller sends marks to the other hosts: the newest one, at most once every tellEvery.
type teller struct {
	newest  chan keyholder.Mark // has an element if a mark was not sent yet
	running sync.WaitGroup
}

// tellEvery is how long the others may not know what was told last.
const tellEvery = time.Second

// startTelling begins to tell the other hosts.
func (j *Journal) startTelling() {
	t := &teller{newest: make(chan keyholder.Mark, 1)}
	j.teller = t
	t.running.Go(func() {
		for m := range t.newest {
			j.tellOthers(m)
			select {
			case <-time.After(tellEvery):
			case <-j.life.Done():
			}
		}
	})
}

// tellOthers tells those that can be reached.
func (j *Journal) tellOthers(m keyholder.Mark) {
	ask(context.Background(), patience, j.Others, func(ctx context.Context, h keyholder.Holder) (struct{}, error) {
		return struct{}{}, h.Mark(ctx, j.Name(), m)
	})
}

// tell has a mark told soon. It does not wait. Only the holder of writing calls it.
func (t *teller) tell(m keyholder.Mark) {
	select {
	case <-t.newest: // it was not sent yet: m is sent in its place
	default:
	}
	t.newest <- m
}

// end waits until what was told last is told to the others, if they can be reached. The handle's
// life has ended before.
func (t *teller) end() {
	if t != nil {
		close(t.newest)
		t.running.Wait()
	}
}
