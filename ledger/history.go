package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Events yields the log in order, beginning with the event of the given number, up to the last
// event that exists when it is reached. It reads in short snapshots; other calls may run
// concurrently.
func (l *Ledger) Events(ctx context.Context, from uint64) iter.Seq2[says.Event, error] {
	return func(yield func(says.Event, error) bool) {
		// The first batches are small, because a caller may want only a few events.
		for limit := scanSize / 64; ; limit = min(4*limit, scanSize) {
			events, err := l.someEvents(ctx, from, limit)
			for _, ev := range events {
				if !yield(ev, nil) {
					return
				}
			}
			if err != nil {
				yield(says.Event{}, err)
				return
			}
			if len(events) == 0 {
				return
			}
			from = events[len(events)-1].Number + 1
		}
	}
}

// Refusals yields the events of kind "refused" of the request with an idempotency key, in order,
// beginning with the event of the given number. They are all objects that the parts of the request
// have left out so far, without objects that were forgotten since. The result of a request lists
// only the first of them. Refusals reads in short snapshots; other calls may run concurrently.
//
// The errors are [api.ErrUnknown] for the key, the error of ctx, and [api.ErrCorrupt].
func (l *Ledger) Refusals(ctx context.Context, key string, from uint64) iter.Seq2[says.Event, error] {
	return func(yield func(says.Event, error) bool) {
		settled, err := l.settledBy(ctx, key)
		if err != nil {
			yield(says.Event{}, err)
			return
		}
		for _, number := range settled {
			// The refusals of a part have lower numbers than its settled event.
			if number > from && !l.eachRefusal(ctx, from, number, yield) {
				return
			}
		}
	}
}

// eachRefusal yields the refusals of one part of a request, beginning with the event from. settled
// is the event that settles the part. It omits erased events. It returns true if the next part may
// follow. It returns false after an error, which it has yielded, and when the consumer breaks.
func (l *Ledger) eachRefusal(ctx context.Context, from, settled uint64, yield func(says.Event, error) bool) bool {
	first, err := l.firstRefusal(ctx, settled)
	if err != nil {
		yield(says.Event{}, err)
		return false
	}
	for ev, err := range l.Events(ctx, max(first, from)) {
		if err == nil && ev.Number >= settled {
			return true
		}
		if _, is := ev.Says.(says.ObjectRefused); err == nil && !is {
			err = errs.Corrupt(nil, "event %d is not a refusal", ev.Number)
		}
		if err != nil {
			yield(says.Event{}, err)
			return false
		}
		if !ev.Erased && !yield(ev, nil) {
			return false
		}
	}
	yield(says.Event{}, errs.Corrupt(nil, "event %d is missing", settled))
	return false
}

// settledBy returns the numbers of the events that settled the parts of the request with a key. It
// returns [api.ErrUnknown] if there is no such request.
func (l *Ledger) settledBy(ctx context.Context, key string) ([]uint64, error) {
	if err := event.CheckName("idempotency key", key); err != nil {
		return nil, err
	}
	return engine.Read(ctx, &l.engine, func(s *state.State) ([]uint64, error) {
		r, known, err := s.Request(key)
		if err == nil && !known {
			err = fmt.Errorf("key %q: %w", key, api.ErrUnknown)
		}
		return r.Settled, err
	})
}

// firstRefusal returns the number of the first refusal of the request, or part of one, that the
// event settled settles. The refusals are directly before that event. If there are none, it returns
// settled.
func (l *Ledger) firstRefusal(ctx context.Context, settled uint64) (uint64, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (uint64, error) {
		part, err := s.Settlement(settled)
		if err != nil {
			return 0, err
		}
		return settled - part.Refused, state.CheckRefused(settled, part.Refused)
	})
}

// someEvents reads the events from the number from on in one snapshot: at most limit events, and
// about maxBatchBytes. A missing or damaged event is an error, which is returned with the events
// before it. There are no events if from is after the last one.
func (l *Ledger) someEvents(ctx context.Context, from uint64, limit int) (events []says.Event, err error) {
	if err := errs.Context(ctx); err != nil {
		return nil, err
	}
	from = max(from, 1)
	var fault error
	full, size := false, 0
	err = l.engine.View(ctx, func(s *state.State) error {
		err := s.Scan(state.BucketEvents, state.EventKey(from), func(key, value []byte) bool {
			var ev says.Event
			if ev, fault = openEvent(s, key, value); fault != nil {
				return false
			}
			if ev.Number != from+uint64(len(events)) {
				fault = errs.Corrupt(nil, "event %d is missing", from+uint64(len(events)))
				return false
			}
			events = append(events, ev)
			size += len(value)
			full = len(events) == limit || size >= maxBatchBytes
			return !full
		})
		// The scan has ended at the last stored event, which must be the last one of the log.
		if next := from + uint64(len(events)); err == nil && fault == nil && !full && next <= s.Counters.Events {
			fault = errs.Corrupt(nil, "event %d is missing", next)
		}
		return err
	})
	if err != nil {
		return nil, err // the events that were read may not be durable
	}
	return events, fault
}

// maxBatchBytes is the approximate number of bytes of events that are read in one snapshot.
const maxBatchBytes = 4 << 20

// openEvent decodes a stored event and verifies its checksum.
func openEvent(s *state.State, key, value []byte) (says.Event, error) {
	if len(key) != 8 { // the number of the event
		return says.Event{}, errs.Corrupt(nil, "an event has the invalid key %x", key)
	}
	payload, err := wire.Unseal(state.BucketEvents, key, value)
	if err != nil {
		return says.Event{}, err
	}
	n, err := event.DecodeEntry(binary.BigEndian.Uint64(key), payload)
	if err != nil {
		return says.Event{}, err
	}
	return event.Describe(n.Event, s)
}
