package ledger

import (
	"context"
	"iter"

	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// Watch yields the log in order, without a gap or a repetition: first the events from number from
// on (0 and 1 are the same) that are there, then every further one as soon as it is durable. It
// waits for an event that is not there yet, however far ahead from is. No event is yielded that a
// loss of power could still undo.
//
// It ends when the consumer breaks, or else yields one error, with a zero Event, as the last thing:
// that of ctx when ctx ends, [api.ErrClosed] when the ledger is closed, [api.ErrStopped] when a commit has
// failed, and [api.ErrCorrupt] or [api.ErrVersion] for an event that cannot be read. It does not end
// because there are no more events; in a ledger open for reading only, to which nothing is added,
// it waits for ctx.
//
// To go on after whatever happened, watch from the number after the last one handled. A consumer
// that keeps this number in the same transaction as what it makes of the event handles each event
// exactly once.
//
// A consumer may take its time, and may call the ledger: while it handles an event Watch holds no
// lock and no snapshot, delays nobody and loses nothing. Each range over what Watch returns begins
// anew.
func (l *Ledger) Watch(ctx context.Context, from uint64) iter.Seq2[says.Event, error] {
	return func(yield func(says.Event, error) bool) {
		if err := l.watch(ctx, max(from, 1), yield); err != nil {
			yield(says.Event{}, err)
		}
	}
}

// watchSize is how many events a watcher reads in one snapshot. It is small, because there may be
// many watchers, and each keeps that many events while its consumer takes its time.
const watchSize = 256

// watch yields the events from number next on. It returns nil when the consumer breaks.
func (l *Ledger) watch(ctx context.Context, next uint64, yield func(says.Event, error) bool) error {
	for {
		if err := l.engine.Queue.AwaitEvent(ctx, next); err != nil {
			return err
		}
		events, fault := l.someEvents(ctx, next, watchSize)
		if len(events) == 0 && fault == nil {
			fault = errs.Corrupt(nil, "event %d is missing", next)
		}
		for _, ev := range events {
			// What was read before ctx ended is not worth showing to somebody who has ended it.
			if err := errs.Context(ctx); err != nil {
				return err
			}
			if !yield(ev, nil) {
				return nil
			}
		}
		if fault != nil {
			return fault
		}
		next += uint64(len(events))
	}
}
