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

// patience limits the wait for other hosts where the journal can continue without them.
const patience = time.Second

// prepareSegment makes sure that the current segment can take a group. It begins a new one if the
// group asks for it, or the current one is full.
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

// beginSegment makes a key, and returns when enough hosts have stored it. If that fails, the next
// call tries again with the same key.
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
	if err := j.storeKey(ctx, s.id, s.key); err != nil {
		return nil, fmt.Errorf("store the key of segment %v: %w", s.id, err)
	}
	j.fresh = nil
	return s, nil
}

// storeKey stores a key on this host and sends it to the others. It returns when [Options.Copies]
// of the others have stored it. Requests that are still in progress then continue.
func (j *Journal) storeKey(ctx context.Context, id keyholder.Segment, k keyholder.Key) error {
	if err := j.Keys.Put(ctx, j.Name(), id, k); err != nil {
		return err
	}
	answers := make(chan error, len(j.Others))
	for _, h := range j.Others {
		j.goroutines.Go(func() {
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
	return fmt.Errorf("stored on %d other hosts, needs %d: %w", copies, j.Copies, failed)
}

// key returns the key of a segment: from this host, or from another, of which this host then stores
// a copy. If no host has the key, the error has the reason of each host.
func (j *Journal) key(ctx context.Context, id keyholder.Segment) (keyholder.Key, error) {
	k, err := j.Keys.Get(ctx, j.Name(), id)
	if err == nil || !errors.Is(err, keyholder.ErrNoKey) {
		return k, err
	}
	if errors.Is(err, keyholder.ErrDestroyed) {
		return k, fmt.Errorf("%w: the database still has what was trimmed, so it is older: %w", journal.ErrLost, err)
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

// answer is the result of a request to one host.
type answer[T any] struct {
	of    keyholder.Holder
	found T
	err   error
}

// ask sends a request to all hosts concurrently, and waits for their answers, at most for a
// duration. The answers have the order of the hosts.
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

// markSender sends marks to the other hosts: only the newest one, and at most once every
// markInterval.
type markSender struct {
	newest  chan keyholder.Mark // has an element while a mark waits to be sent
	running sync.WaitGroup
}

// markInterval is how far the marks of the other hosts may lag.
const markInterval = time.Second

// startMarkSender starts the goroutine that sends marks to the other hosts.
func (j *Journal) startMarkSender() {
	s := &markSender{newest: make(chan keyholder.Mark, 1)}
	j.sender = s
	s.running.Go(func() {
		for m := range s.newest {
			j.sendToOthers(m)
			select {
			case <-time.After(markInterval):
			case <-j.ctx.Done():
			}
		}
	})
}

// sendToOthers sends a mark to the other hosts. It ignores those that it cannot reach.
func (j *Journal) sendToOthers(m keyholder.Mark) {
	ask(context.Background(), patience, j.Others, func(ctx context.Context, h keyholder.Holder) (struct{}, error) {
		return struct{}{}, h.Mark(ctx, j.Name(), m)
	})
}

// send schedules a mark for sending, and returns at once. The caller must hold the writing lock.
func (s *markSender) send(m keyholder.Mark) {
	select {
	case <-s.newest: // m replaces a mark that was not sent yet
	default:
	}
	s.newest <- m
}

// end sends the last mark to the other hosts that can be reached, and waits for that. The handle's
// life must have ended before.
func (s *markSender) end() {
	if s != nil {
		close(s.newest)
		s.running.Wait()
	}
}
