package ledger

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/sluicedp/sluice/ledger/internal/documents"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/observe"
)

// readHealth returns the state of a ledger. If the ledger has stopped, it returns the reason as the
// error, and a Health with only Host.
func readHealth(ctx context.Context, p *documents.Maker, r *openReservations) (out observe.Health, err error) {
	l := p.Engine
	host := l.Host(ctx)
	if err := l.Queue.Stopped(); err != nil {
		return observe.Health{Host: host}, err
	}
	if out.Reservations, err = r.count(ctx, l); err != nil {
		return observe.Health{}, err
	}
	if out.Bytes, out.Free, err = l.Sizes(); err != nil {
		return observe.Health{}, err
	}
	out.Events, out.Waiting = l.Queue.DurableEvents(), l.Load().Waiting
	out.Pending, out.Memory, out.Room = l.Backlog()
	out.Checkpoint, out.Host = p.Newest(), host
	return out, nil
}

// salesPerSnapshot is the largest number of sales that are read in one snapshot.
const salesPerSnapshot = 4096

// openReservations counts the reservations that hold budget. It does not read a sale again after
// the sale can no longer become such a reservation. The zero value is ready for use.
type openReservations struct {
	mu   sync.Mutex
	seen uint64 // the sales up to this number have been read
	// open has the reservations that may hold budget now or later. The value is true if the
	// reservation held budget when it was last read.
	open map[uint64]bool
}

// count returns how many reservations hold budget now. It reads the known ones and the sales that
// are new since the last call, in short snapshots.
func (r *openReservations) count(ctx context.Context, l *engine.Engine) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[uint64]bool{}
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(r.open)), salesPerSnapshot) {
		err := l.View(ctx, func(s *state.State) error { return r.update(s, slices.Values(some)) })
		if err != nil {
			return 0, err
		}
	}
	for more := true; more; {
		err := l.View(ctx, func(s *state.State) error {
			end := min(s.Counters.Sales, r.seen+salesPerSnapshot)
			more = end < s.Counters.Sales
			// The iterator yields the numbers of the new sales, up to end.
			err := r.update(s, func(yield func(uint64) bool) {
				for n := r.seen + 1; n <= end && yield(n); n++ {
				}
			})
			if err == nil {
				r.seen = end
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	hold := 0
	for _, holds := range r.open {
		if holds {
			hold++
		}
	}
	return hold, nil
}

// update reads the sales with some numbers, and updates r.open. A reservation stays in r.open until
// it is captured or cancelled, or has expired by the time of the log, which does not go back. If it
// has only expired by the clock, it may hold again, because the clock may go back.
func (r *openReservations) update(s *state.State, numbers func(func(uint64) bool)) error {
	for number := range numbers {
		sale, err := s.Sale(number)
		if err != nil {
			return err
		}
		if sale.Holds(s.Counters.Last) {
			r.open[number] = sale.Holds(s.Now)
		} else {
			delete(r.open, number)
		}
	}
	return nil
}
