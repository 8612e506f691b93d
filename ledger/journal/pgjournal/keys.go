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

// prepareSegment sets j.segment to a segment that can take a group. It begins a new one if there is
// none, if the group requests that (Cut), or if the current one is full. A segment without groups
// is kept, even for a Cut.
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

// beginSegment returns a new segment, with a new key, when enough hosts have stored that key
// ([Journal.storeKey]). If that fails, the segment stays in j.fresh, and the next call tries again
// with the same key. The caller must hold the writing lock.
func (j *Journal) beginSegment(ctx context.Context) (*segment, error) {
	if j.fresh == nil {
		j.number++
		s := &segment{id: keyholder.Segment{Term: j.claimed, Number: j.number}}
		_, _ = rand.Read(s.key[:]) // never fails
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

// storeKey stores a key on this host and sends it to the others. It returns nil when this host and
// [Options.Copies] of the others have stored it. Requests that are still in progress then continue
// in the background. It returns an error if this host cannot store the key, if ctx ends first, or
// if too few of the others have stored it when all have answered.
func (j *Journal) storeKey(ctx context.Context, id keyholder.Segment, k keyholder.Key) error {
	if err := j.Keys.Put(ctx, j.Name(), id, k); err != nil {
		return err
	}
	answers := make(chan error, len(j.Others)) // has capacity for all, so that late answers do not block
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

// key returns the key of a segment. If this host does not have it, key gets it from another host,
// and stores a copy on this host. If no host has the key, the error wraps [keyholder.ErrNoKey],
// with the reason of each host. If this host has destroyed the key, the error is a
// [journal.ErrLost]: the database is older than the trim that destroyed the key.
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
			// A copy on this host, so that this host can continue the journal without the other
			// one.
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

// ask runs the request what for all hosts concurrently, and returns when all have returned. Their
// context ends after the duration most. The answers have the order of the hosts; each has a result
// or an error.
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

// startMarkSender starts the goroutine that sends marks to the other hosts, and sets j.sender.
// After each mark the goroutine waits for [markInterval], or until the handle is closed.
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

// sendToOthers sends a mark to the other hosts, within [patience]. It ignores errors: a later mark
// replaces one that a host did not get.
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
	s.newest <- m // never blocks: the channel is empty, and only the holder of the writing lock sends
}

// end sends the last mark to the other hosts that can be reached, and waits for that. The context
// of the handle must have ended before, because the goroutine otherwise waits for [markInterval]. s
// may be nil: then end does nothing.
func (s *markSender) end() {
	if s != nil {
		close(s.newest)
		s.running.Wait()
	}
}
