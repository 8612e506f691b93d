package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// watchUntil watches until it has seen the event numbered last, and returns what it saw.
func watchUntil(ctx context.Context, l *Ledger, from, last uint64) (seen []says.Event, err error) {
	for ev, err := range l.Watch(ctx, from) {
		if err != nil {
			return seen, err
		}
		if seen = append(seen, ev); ev.Number >= last {
			break
		}
	}
	return seen, nil
}

// write makes n events, and returns the number of the last.
func write(ctx context.Context, l *Ledger, n int) (last uint64, err error) {
	for range n {
		_, last, err = l.engine.Submit(ctx, func(s *state.State) ([]event.Change, error) {
			return []event.Change{&event.Settled{Key: fmt.Sprint("event ", s.Counters.Events+1), Digest: [32]byte{1}, First: s.Counters.Events + 1, Final: true}}, nil
		})
		if err != nil {
			return last, err
		}
	}
	return last, nil
}

func mustWrite(t testing.TB, l *Ledger, n int) (last uint64) {
	t.Helper()
	last = check.Value(write(t.Context(), l, n))(t)
	return last
}

// watching watches until an event, in another goroutine.
func watching(ctx context.Context, l *Ledger, from, last uint64) chan answer[[]says.Event] {
	return async(func() ([]says.Event, error) { return watchUntil(ctx, l, from, last) })
}

// wantSeen waits for a watch, which must have seen all events from a number on, each once.
func wantSeen(t testing.TB, watch chan answer[[]says.Event], from, last uint64) []says.Event {
	t.Helper()
	a := await(t, watch)
	must(t, a.err)
	wantGapless(t, a.value, from, last)
	return a.value
}

// waitWaiting waits until a watch waits for a change of the ledger.
func waitWaiting(t testing.TB, l *Ledger) {
	t.Helper()
	for deadline := time.Now().Add(patience); !l.engine.Load().Watched; time.Sleep(time.Millisecond) {
		check.Need(t, !time.Now().After(deadline), "no watch waits")
	}
}

// wantGapless checks that events are all those from a number on, each once.
func wantGapless(t testing.TB, seen []says.Event, from, last uint64) {
	t.Helper()
	for i, ev := range seen {
		check.Need(t, ev.Number == from+uint64(i), "event %d comes where event %d should", ev.Number, from+uint64(i))
	}
	got := from + uint64(len(seen)) - 1
	check.Need(t, got == last, "the last event seen is %d, want %d", got, last)
}

// A history of several snapshots has no seam, from any event on, and each range over a watch starts
// again.
func TestWatch_History_IsTheLog(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", crowd(3*watchSize)...)
	release(t, l, releaseOf(t, "k", crowd(1)[0], "0.5"))
	all := events(t, l)
	last := uint64(len(all))
	for _, from := range []uint64{0, 1, 2, 3, watchSize, watchSize + 1, last - watchSize, last - 1, last} {
		watch := l.Watch(t.Context(), from)
		for range 3 {
			n := max(from, 1)
			for ev, err := range watch {
				must(t, err)
				check.Need(t, reflect.DeepEqual(ev, all[n-1]), "from %d: saw\n%+v\nwant\n%+v", from, ev, all[n-1])
				if n++; n > last {
					break
				}
			}
			check.That(t, n == last+1, "from %d: the last event seen is %d, want %d", from, n-1, last)
		}
	}
}

// Many watchers see what many writers write: the same events, all of them, once, in order.
func TestWatch_ManyWatchers_SeeTheSame(t *testing.T) {
	const watchers, writers, each = 50, 8, 40
	path := create(t)
	l := open(t, path, Options{})
	const last = 1 + writers*each
	var all []chan answer[[]says.Event]
	for range watchers {
		all = append(all, watching(t.Context(), l, 1, last))
	}
	for _, err := range race(t, writers, func(int) error { return check.Err(write(t.Context(), l, each)) }) {
		must(t, err)
	}
	want := events(t, l)
	for _, one := range all {
		check.Need(t, reflect.DeepEqual(wantSeen(t, one, 1, last), want), "a watcher has seen other events than are in the log")
	}
}

// A consumer that does not continue delays no writer, and misses no event.
func TestWatch_SlowConsumer_DelaysNoWriter(t *testing.T) {
	l := open(t, create(t), Options{})
	blocked := newGate(t)
	const more = 3*watchSize + 7
	watch := async(func() (seen []says.Event, err error) {
		for ev, err := range l.Watch(t.Context(), 1) {
			_ = blocked.pass()
			if seen = append(seen, ev); err != nil || ev.Number == 1+more {
				return seen, err
			}
		}
		return seen, nil
	})
	blocked.wait(t)
	last := mustWrite(t, l, more) // while the consumer is blocked
	blocked.open()
	wantSeen(t, watch, 1, last)
}

// snapshots counts the snapshots that are open.
type snapshots struct {
	kv.Store
	held atomic.Int64
}

func (s *snapshots) View(fn func(kv.Reader) error) error {
	s.held.Add(1)
	defer s.held.Add(-1)
	return s.Store.View(fn)
}

func TestWatch_ConsumerBusyOrIdle_HoldsNoSnapshot(t *testing.T) {
	s := &snapshots{Store: &kv.Memory{}}
	begin(t, s)
	l := openMemory(t, s, Options{})
	last := mustWrite(t, l, watchSize+1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := async(func() (worst int64, err error) {
		for _, err := range l.Watch(ctx, 1) {
			if err != nil {
				return worst, err
			}
			worst = max(worst, s.held.Load())
		}
		return worst, nil
	})
	waitWaiting(t, l)
	n := s.held.Load()
	check.That(t, n == 0, "a watcher holds %d snapshots while it waits for event %d", n, last+1)
	cancel()
	a := await(t, done)
	wantErr(t, a.err, context.Canceled)
	check.That(t, a.value == 0, "a watcher holds %d snapshots while its consumer works", a.value)
}

// A watch continues with new events. A consumer may call the ledger that it watches.
func TestWatch_ConsumerWrites_DoesNotBlock(t *testing.T) {
	l := newLedger(t)
	n := uint64(1)
	for ev, err := range l.Watch(t.Context(), 1) {
		must(t, err)
		check.Need(t, ev.Number == n && stats(t, l).Events == n, "got event %d of %d, want %d", ev.Number, stats(t, l).Events, n)
		if n++; n == 50 {
			break
		}
		mustWrite(t, l, 1)
	}
}

func TestWatch_ConsumerCloses_EndsTheWatch(t *testing.T) {
	l := newLedger(t)
	done := async(func() (n int, err error) {
		for _, err := range l.Watch(t.Context(), 1) {
			if err != nil {
				return n, err
			}
			n++
			if err := l.Close(); err != nil {
				return n, err
			}
		}
		return n, nil
	})
	a := await(t, done)
	wantErr(t, a.err, api.ErrClosed)
	check.That(t, a.value == 1, "%d events, want 1", a.value)
}

// A subscriber that remembers the last number it handled misses no event and sees none twice,
// however often it is started again, and the ledger with it.
func TestWatch_Resumed_SeesEachEventOnce(t *testing.T) {
	path := create(t)
	handled := uint64(0)
	for life := range uint64(6) {
		l := open(t, path, Options{})
		writer := async(func() (uint64, error) { return write(t.Context(), l, 40) })
		for ev, err := range l.Watch(t.Context(), handled+1) {
			must(t, err)
			check.Need(t, ev.Number == handled+1, "life %d: event %d follows on event %d", life, ev.Number, handled)
			if handled = ev.Number; handled == 31*(life+1) { // of at least 40 a life
				break
			}
		}
		must(t, await(t, writer).err)
		closed(t, l)
	}
	l := open(t, path, Options{})
	last := stats(t, l).Events
	wantSeen(t, watching(t.Context(), l, handled+1, last), handled+1, last)
}

// A watch waits for an event in the future, and does not show the ones before it.
func TestWatch_FromFutureEvent_WaitsForIt(t *testing.T) {
	l := inMemory(t, Options{})
	const ahead = 100
	watch := watching(t.Context(), l, ahead, ahead)
	waitWaiting(t, l)
	mustWrite(t, l, 2*ahead)
	wantSeen(t, watch, ahead, ahead)
}

// wantEnd checks that watches from various events on end with an error, once, after something
// happens.
func wantEnd(ctx context.Context, t *testing.T, l *Ledger, want error, happen func()) {
	t.Helper()
	last := stats(t, l).Events
	var waiting []chan answer[[]says.Event]
	var reached sync.WaitGroup
	for _, from := range []uint64{1, last, last + 1, last + 1000, math.MaxUint64} {
		reached.Add(1)
		waiting = append(waiting, async(func() (seen []says.Event, err error) {
			if from > last {
				reached.Done()
			}
			for ev, fault := range l.Watch(ctx, from) {
				if err != nil {
					return seen, fmt.Errorf("after the error %w there is event %d, %w", err, ev.Number, fault)
				}
				if err = fault; err == nil {
					if seen = append(seen, ev); ev.Number == last {
						reached.Done()
					}
				} else if !reflect.DeepEqual(ev, says.Event{}) {
					return seen, fmt.Errorf("event %d comes with the error %w", ev.Number, err)
				}
			}
			return seen, err
		}))
	}
	reached.Wait()
	waitWaiting(t, l)
	happen()
	for _, one := range waiting {
		err := await(t, one).err
		check.That(t, errors.Is(err, want), "a watch ended with %v, want %v", err, want)
	}
}

// A watch ends with its context, with a commit that may not be durable, and when the ledger is
// closed. No watch begins after that, but the ledger continues after a canceled context.
func TestWatch_ContextCloseOrFailedCommit_EndsIt(t *testing.T) {
	for name, end := range map[string]struct {
		readOnly bool
		happen   func(l *Ledger, s *shim, cancel func())
		want     error
	}{
		"context":                        {false, func(_ *Ledger, _ *shim, cancel func()) { cancel() }, context.Canceled},
		"context, of a read-only ledger": {true, func(_ *Ledger, _ *shim, cancel func()) { cancel() }, context.Canceled},
		"close":                          {false, func(l *Ledger, _ *shim, _ func()) { closed(t, l) }, api.ErrClosed},
		"close, of a read-only ledger":   {true, func(l *Ledger, _ *shim, _ func()) { closed(t, l) }, api.ErrClosed},
		"failed commit": {false, func(l *Ledger, s *shim, _ func()) {
			s.set(nil, uncertain)
			wantErr(t, check.Err(write(t.Context(), l, 1)), api.ErrStopped)
		}, api.ErrStopped},
	} {
		t.Run(name, func(t *testing.T) {
			l, s := openShim(t, votersFile(t, "9", "ann"), Options{ReadOnly: end.readOnly})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wantEnd(ctx, t, l, end.want, func() { end.happen(l, s, cancel) })
			for _, from := range []uint64{1, math.MaxUint64} {
				seen, err := watchUntil(ctx, l, from, from)
				check.That(t, errors.Is(err, end.want) && len(seen) == 0, "from %d there are %d events, %v", from, len(seen), err)
			}
			if end.want == context.Canceled && !end.readOnly {
				mustWrite(t, l, 1)
			}
			if end.want == context.Canceled {
				all := events(t, l)
				seen := wantSeen(t, watching(t.Context(), l, 1, uint64(len(all))), 1, uint64(len(all)))
				check.That(t, reflect.DeepEqual(seen, all), "saw %+v, want %+v", seen, all)
			}
		})
	}
}

// Events that were read before are not shown after the consumer has canceled the context.
func TestWatch_ContextEnded_ShowsNoMoreEvents(t *testing.T) {
	l := inMemory(t, Options{})
	mustWrite(t, l, 20)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range l.Watch(ctx, 1) {
		if err != nil {
			wantErr(t, err, context.Canceled)
			break
		}
		if n++; n == 3 {
			cancel()
		}
	}
	check.That(t, n == 3, "%d events, want the 3 before the end", n)
}

// A commit that failed and changed nothing does not end a watch.
func TestWatch_CommitFailsCleanly_Continues(t *testing.T) {
	l, s := openShim(t, votersFile(t, "9", "ann"), Options{})
	last := stats(t, l).Events
	watch := watching(t.Context(), l, last+1, last+1)
	waitWaiting(t, l)
	s.set(failing, nil)
	wantErr(t, check.Err(write(t.Context(), l, 1)), errDisk)
	s.set(nil, nil)
	mustWrite(t, l, 1)
	wantSeen(t, watch, last+1, last+1)
}

// Invariant 1 for watchers: what the shim's hook has not let pass is not on disk yet.

func TestWatch_CommitNotDurable_IsNotShown(t *testing.T) {
	for name, outcome := range map[string]func() error{"durable": func() error { return nil }, "lost": uncertain} {
		t.Run(name, func(t *testing.T) { watchCommit(t, outcome) })
	}
}

func watchCommit(t *testing.T, outcome func() error) {
	l, s := openShim(t, votersFile(t, "9", "ann"), Options{})
	last := stats(t, l).Events
	flush := newGate(t)
	s.set(nil, func() error {
		_ = flush.pass()
		return outcome()
	})
	watch := watching(t.Context(), l, last, last+1)
	waitWaiting(t, l)
	writer := async(func() (uint64, error) { return write(t.Context(), l, 1) })
	flush.wait(t) // the event is visible below, and not yet known to be durable
	late := watching(t.Context(), l, last, last+1)
	pending(t, watch)
	pending(t, late)
	flush.open()
	wrote := await(t, writer)
	check.That(t, errors.Is(wrote.err, api.ErrStopped) == (outcome() != nil), "the commit returned %v", wrote.err)
	for _, one := range []chan answer[[]says.Event]{watch, late} {
		if wrote.err == nil {
			wantSeen(t, one, last, last+1)
			continue
		}
		a := await(t, one)
		wantErr(t, a.err, api.ErrStopped)
		a.value = append(a.value, says.Event{Number: last}) // a late watcher may have seen nothing at all
		check.That(t, a.value[0].Number == last && a.value[len(a.value)-1].Number == last,
			"a watcher was shown %+v, whose commit failed", a.value)
	}
}

// Under load, too, an event is durable before a watcher gets it.
func TestWatch_UnderLoad_ShowsOnlyDurableEvents(t *testing.T) {
	l, s := openShim(t, create(t), Options{})
	durable := atomic.Uint64{} // the last event whose commit has returned
	durable.Store(1)
	s.set(nil, func() error {
		durable.Store(s.events.Load())
		return nil
	})
	const writers, each, watchers = 4, 50, 8
	const last = 1 + writers*each
	failed := race(t, writers+watchers, func(i int) error {
		if i < writers {
			return check.Err(write(t.Context(), l, each))
		}
		n := uint64(0)
		for ev, err := range l.Watch(t.Context(), 1) {
			if err != nil {
				return err
			}
			if n++; ev.Number != n || n > durable.Load() {
				return fmt.Errorf("event %d is shown as number %d, and only %d are durable", ev.Number, n, durable.Load())
			}
			if n == last {
				break
			}
		}
		return nil
	})
	must(t, errors.Join(failed...))
}

// Damage ends a watch, after the sound events before it.
func TestWatch_EventDamaged_EndsThere(t *testing.T) {
	l := inMemory(t, Options{})
	last := mustWrite(t, l, 9)
	for name, records := range map[string][]pair{
		"missing": slices.DeleteFunc(pairs(t, l.engine.Store), func(p pair) bool {
			return p.bucket == state.BucketEvents && string(p.key) == string(state.EventKey(6))
		}),
		"broken": append(pairs(t, l.engine.Store), sealed(state.BucketEvents, state.EventKey(6), []byte{event.Version})),
	} {
		t.Run(name, func(t *testing.T) {
			broken := openMemory(t, fill(t, records), Options{})
			seen, err := watchUntil(t.Context(), broken, 1, last)
			wantErr(t, err, api.ErrCorrupt)
			wantGapless(t, seen, 1, 5)
			wantSeen(t, watching(t.Context(), broken, 7, last), 7, last)
		})
	}
}

// Close waits for a batch that is being committed, also while watchers wait.
func TestClose_WatchersWaiting_WaitsForTheCommit(t *testing.T) {
	l, s := openShim(t, votersFile(t, "9", "ann"), Options{})
	watch := watching(t.Context(), l, math.MaxUint64, math.MaxUint64)
	waitWaiting(t, l)
	commit := s.holdCommit(t)
	writer := async(func() (uint64, error) { return write(t.Context(), l, 1) })
	commit.wait(t)
	closing := async(func() (bool, error) { return true, l.Close() })
	waitClosing(t, l)
	wantErr(t, await(t, watch).err, api.ErrClosed)
	pending(t, closing)
	commit.open()
	must(t, await(t, writer).err)
	must(t, await(t, closing).err)
}
