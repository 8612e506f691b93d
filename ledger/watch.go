package ledger

import (
	"context"
	"iter"

	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// Watch yields the log in order, without gaps or repetitions, beginning with the event from (0 and
// 1 are the same). It first yields the events that exist, and then every further event as soon as
// it is durable. It waits for an event that does not exist yet, however far ahead from is. It
// yields no event that a power cut could still undo.
//
// Watch ends when the consumer breaks. Otherwise it yields one error, with a zero Event, at the
// end. That is the error of ctx when ctx ends, [api.ErrClosed] when the ledger is closed, or
// [api.ErrStopped] when a commit has failed. For an event that cannot be read it is
// [api.ErrCorrupt] or [api.ErrVersion]. Watch does not end because there are no more events. In a
// ledger that is open for reading only, to which nothing is added, it waits for ctx.
//
// To continue after any end, watch from the number after the last event handled. A consumer that
// stores this number in the same transaction as its own results handles each event exactly once.
//
// A consumer may be slow, and may call the ledger. While it handles an event, Watch holds no lock
// and no snapshot, delays no other caller and loses nothing. Each range over the returned sequence
// begins again at from.
func (l *Ledger) Watch(ctx context.Context, from uint64) iter.Seq2[says.Event, error] {
	return func(yield func(says.Event, error) bool) {
		if err := l.watch(ctx, max(from, 1), yield); err != nil {
			yield(says.Event{}, err)
		}
	}
}

// watchSize is the number of events that a watcher reads in one snapshot. It is small, because
// there may be many watchers, and each keeps this many events in memory while its consumer handles
// them.
const watchSize = 256

// watch yields the events from number next on. It returns nil when the consumer breaks, and
// otherwise the error that [Ledger.Watch] yields.
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
			// Events that were read before ctx ended are not yielded after it.
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
