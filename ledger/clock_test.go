package ledger

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/store"
	"github.com/sluicedp/sluice/ledger/store/storetest"
)

// Invariant 12: event times never decrease. A clock that jumps back releases nothing early and breaks
// nothing.

// fakeClock shows what it was set to.
type fakeClock struct{ now atomic.Pointer[time.Time] }

func newClock(now time.Time) *fakeClock {
	c := &fakeClock{}
	c.set(now)
	return c
}

func (c *fakeClock) set(now time.Time) { c.now.Store(&now) }
func (c *fakeClock) read() time.Time   { return *c.now.Load() }

// wantOrderedTimes checks the log against the clock it was written by, and returns its last time.
func wantOrderedTimes(t *testing.T, l *Ledger) (last time.Time) {
	t.Helper()
	for _, ev := range events(t, l) {
		if ev.Time.Before(last) {
			t.Errorf("event %d at %v comes after one at %v", ev.Number, ev.Time, last)
		}
		if last = ev.Time; last.Location() != time.UTC {
			t.Errorf("event %d is in the zone %v", ev.Number, last.Location())
		}
	}
	return last
}

func TestEventTimesNeverDecrease(t *testing.T) {
	clock := newClock(epoch())
	l := voters(t, inMemory(t, Options{Now: clock.read}), "9", "ann")
	highest := epoch()
	for i, jump := range []time.Duration{time.Hour, -20 * 365 * 24 * time.Hour, time.Minute, 0, -time.Nanosecond, 3 * time.Hour, -100 * 365 * 24 * time.Hour, 4 * time.Hour} {
		now := epoch().Add(jump).In(time.FixedZone("there", 7200))
		clock.set(now)
		if now.After(highest) {
			highest = now
		}
		release(t, l, releaseOf(t, fmt.Sprint(i), "ann", fmt.Sprintf("0.%d", i+1)))
		if last := wantOrderedTimes(t, l); !last.Equal(highest) {
			t.Errorf("the log is at %v, the clock was never behind %v", last, highest)
		}
	}
	audit(t, l.store)
}

// The memory of the time is in the log, not in the process.
func TestTimesDoNotDecreaseAcrossOpens(t *testing.T) {
	path := votersFile(t, "9", "ann")
	future := time.Now().Add(50 * 365 * 24 * time.Hour)
	l := open(t, path, Options{Now: func() time.Time { return future }})
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	closed(t, l)
	l = open(t, path, Options{})
	release(t, l, releaseOf(t, "2", "ann", "1"))
	if last := wantOrderedTimes(t, l); !last.Equal(future) {
		t.Errorf("the log went back to %v from %v", last, future)
	}
}

func TestAClockBefore1970IsHarmless(t *testing.T) {
	for _, now := range []time.Time{{}, time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1677, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(-1, 0)} {
		l := voters(t, inMemory(t, Options{Now: func() time.Time { return now }}), "9", "ann")
		release(t, l, releaseOf(t, "1", "ann", "0.5"))
		if last := wantOrderedTimes(t, l); !last.Equal(epoch()) {
			t.Errorf("with the clock at %v the log is at %v", now, last)
		}
		audit(t, l.store)
	}
}

// Even a ledger created before 1970 keeps its times.
func TestALedgerFromBefore1970KeepsItsTimes(t *testing.T) {
	created, now := time.Date(1960, 5, 1, 0, 0, 0, 1, time.UTC), newClock(time.Date(1965, 1, 1, 0, 0, 0, 0, time.UTC))
	s := &storetest.Memory{}
	must(t, s.Update(func(w store.Writer) error { return format(w, created, "USD", "") }))
	l := voters(t, openMemory(t, s, Options{Now: now.read}), "9", "ann")
	now.set(time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC))
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	if last := wantOrderedTimes(t, l); last.Year() != 1965 || !l.About().Created.Equal(created) {
		t.Errorf("created at %v, now at %v", l.About().Created, last)
	}
	audit(t, s)
}

// 64 bits of nanoseconds end in April 2262.
func TestAClockBeyondItsRangeIsRefused(t *testing.T) {
	clock := newClock(epoch())
	l := voters(t, inMemory(t, Options{Now: clock.read}), "9", "ann")
	for _, seconds := range []int64{9_214_646_400, 32_503_680_000, 1 << 62} { // the years 2262, 3000 and many more
		clock.set(time.Unix(seconds, 0))
		unchanged(t, l.store, func() {
			_, err := l.Release(t.Context(), releaseOf(t, "1", "ann", "0.5"))
			wantErr(t, err, ErrClock)
		})
	}
	clock.set(time.Date(2261, 12, 31, 23, 59, 59, 999_999_999, time.UTC))
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	clock.set(epoch()) // too late: the log is in 2261, and stays there, and works
	release(t, l, releaseOf(t, "2", "ann", "0.75"))
	if last := wantOrderedTimes(t, l); last.Year() != 2261 {
		t.Errorf("the log is at %v", last)
	}
	audit(t, l.store)

	s := &storetest.Memory{}
	err := s.Update(func(w store.Writer) error { return format(w, time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC), "USD", "") })
	wantErr(t, err, ErrClock)
}

// A clock that fails in the middle of a large order stops it there; it goes on later.
func TestALargeOrderOutlivesABadClock(t *testing.T) {
	clock := newClock(epoch())
	l := openMemory(t, bigPanel(t, "1").store, Options{Now: clock.read})
	r := order(t, "k", "0.5")
	r.Progress = during(func() { clock.set(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)) })
	_, err := l.Raise(t.Context(), r)
	wantErr(t, err, ErrClock)
	clock.set(epoch().Add(-time.Hour))
	if got := carryOut(t, l, r); got.Drawn != big {
		t.Errorf("%+v", got)
	}
	wantOrderedTimes(t, l)
	wantWhole(t, l, "0.5")
}
