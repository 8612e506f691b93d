package ledger

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Invariant 12: event times never decrease. A clock that jumps back releases nothing early and
// breaks nothing.

// fakeClock is a clock that shows the time it was set to.
type fakeClock struct{ now atomic.Pointer[time.Time] }

func newClock(now time.Time) *fakeClock {
	c := &fakeClock{}
	c.set(now)
	return c
}

func (c *fakeClock) set(now time.Time) { c.now.Store(&now) }
func (c *fakeClock) read() time.Time   { return *c.now.Load() }

// wantOrderedTimes checks that the times of events do not decrease and are in UTC, and returns the
// last one.
func wantOrderedTimes(t *testing.T, l *Ledger) (last time.Time) {
	t.Helper()
	for _, ev := range events(t, l) {
		check.That(t, !ev.Time.Before(last), "event %d at %v comes after one at %v", ev.Number, ev.Time, last)
		if last = ev.Time; last.Location() != time.UTC {
			t.Errorf("event %d is in the zone %v", ev.Number, last.Location())
		}
	}
	return last
}

// Times before 1970 are stored and read exactly.
func TestLedger_CreatedBefore1970_KeepsTimes(t *testing.T) {
	created, now := time.Date(1960, 5, 1, 0, 0, 0, 1, time.UTC), newClock(time.Date(1965, 1, 1, 0, 0, 0, 0, time.UTC))
	s := &kv.Memory{}
	must(t, s.Update(func(w kv.Writer) error { return format(w, created, CreateOptions{}) }))
	l := voters(t, openMemory(t, s, Options{Now: now.read, ClockLeap: 5 * 366 * 24 * time.Hour}), "9", "ann")
	now.set(time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC))
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	if last := wantOrderedTimes(t, l); last.Year() != 1965 || !l.About().Created.Equal(created) {
		t.Errorf("created at %v, the last event at %v", l.About().Created, last)
	}
	auditStore(t, s)
}

// Times are 64 bits of nanoseconds, which end in April 2262. A later clock changes nothing.
func TestClock_BeyondTheYear2261_IsErrClock(t *testing.T) {
	clock := newClock(epoch())
	l := voters(t, inMemory(t, Options{Now: clock.read, ClockAhead: time.Unix(1<<62, 0)}), "9", "ann")
	for _, seconds := range []int64{9_214_646_400, 32_503_680_000, 1 << 62} { // the years 2262, 3000 and many more
		clock.set(time.Unix(seconds, 0))
		unchanged(t, l.engine.Store, func() {
			wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "1", "ann", "0.5"))), api.ErrClock)
		})
	}
	clock.set(time.Date(2261, 12, 31, 23, 59, 59, 999_999_999, time.UTC))
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	clock.set(epoch()) // too late: the log stays in 2261, and works
	release(t, l, releaseOf(t, "2", "ann", "0.75"))
	last := wantOrderedTimes(t, l)
	check.That(t, last.Year() == 2261, "the last event is at %v, want the year 2261", last)
	auditStore(t, l.engine.Store)

	s := &kv.Memory{}
	wantErr(t, s.Update(func(w kv.Writer) error {
		return format(w, time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC), CreateOptions{})
	}), api.ErrClock)
}

// An audit reports events that are ahead of its clock, and names the first one.
func TestVerify_EventsInTheFuture_NamesTheFirst(t *testing.T) {
	path := votersFile(t, "9", "ann")
	far := time.Now().AddDate(3, 0, 0).UTC()
	l := open(t, path, Options{Now: func() time.Time { return far }, ClockAhead: far})
	first := release(t, l, releaseOf(t, "1", "ann", "0.5")).Event
	wantProblems := func(want ...api.Finding) {
		t.Helper()
		var got []api.Finding
		must(t, check.Err(l.Verify(t.Context(), api.VerifyRequest{Report: func(p api.Finding) { got = append(got, p) }})))
		for i := range got {
			got[i].Text, _, _ = strings.Cut(got[i].Text, "; ")
		}
		check.That(t, slices.Equal(got, want), "the audit finds %+v, want %+v", got, want)
	}
	wantProblems()
	closed(t, l)
	clock := newClock(far.Add(-5 * time.Minute))
	l = open(t, path, Options{Now: clock.read})
	wantProblems() // clocks differ
	clock.set(far.Add(-5*time.Minute - 1))
	release(t, l, releaseOf(t, "2", "ann", "0.75")) // the log stays at its last time
	n := stats(t, l).Events - first + 1
	wantProblems(api.Finding{Kind: "clock", Event: first, Text: fmt.Sprintf("%d events are in the future, from event %d of %s on", n, first, far.Format(time.RFC3339Nano))})
	must(t, check.Err(l.Backup(t.Context(), path+".copy", nil)))
}

// If the clock goes back between two parts of a sweep, the second part releases only what the clock
// then allows. The next sweep releases the rest, once.
func TestAdvance_ClockGoesBack_ReleasesNothingEarly(t *testing.T) {
	clock := newClock(epoch())
	l := sweepers(t, open(t, create(t), Options{Now: clock.read}), crowd(big)...)
	back := afterPart(func() { clock.set(epoch().Add(-30 * time.Minute)) })
	must(t, check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: sameTruth("yes"), Progress: back})))
	wantOrderedTimes(t, l)
	low, high := len(responses(t, l, "vote", eps(t, "0.25"))), len(responses(t, l, "vote", eps(t, "0.5")))
	check.That(t, low == big && high == state.PartSize,
		"%d and %d have answered, want all %d and the %d of the first part", low, high, big, state.PartSize)
	clock.set(epoch())
	var source asked
	must(t, check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "again", Truth: source.truth("yes")})))
	if n := countKind(events(t, l), "released"); n != 2*big || len(source.names()) != big-state.PartSize {
		t.Errorf("%d responses were released, and true values of %d objects requested", n, len(source.names()))
	}
	auditStore(t, l.engine.Store)
}
