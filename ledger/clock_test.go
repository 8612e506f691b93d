package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/policy"
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
	auditStore(t, l.engine.Store)
}

// The memory of the time is in the log, not in the process.
func TestTimesDoNotDecreaseAcrossOpens(t *testing.T) {
	path := votersFile(t, "9", "ann")
	future := time.Now().Add(50 * 365 * 24 * time.Hour)
	l := open(t, path, Options{Now: func() time.Time { return future }, ClockAhead: future})
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
		auditStore(t, l.engine.Store)
	}
}

// Even a ledger created before 1970 keeps its times.
func TestALedgerFromBefore1970KeepsItsTimes(t *testing.T) {
	created, now := time.Date(1960, 5, 1, 0, 0, 0, 1, time.UTC), newClock(time.Date(1965, 1, 1, 0, 0, 0, 0, time.UTC))
	s := &kvtest.Memory{}
	must(t, s.Update(func(w kv.Writer) error { return format(w, created, CreateOptions{}) }))
	l := voters(t, openMemory(t, s, Options{Now: now.read, ClockLeap: 5 * 366 * 24 * time.Hour}), "9", "ann")
	now.set(time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC))
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	if last := wantOrderedTimes(t, l); last.Year() != 1965 || !l.About().Created.Equal(created) {
		t.Errorf("created at %v, now at %v", l.About().Created, last)
	}
	auditStore(t, s)
}

// 64 bits of nanoseconds end in April 2262.
func TestAClockBeyondItsRangeIsRefused(t *testing.T) {
	clock := newClock(epoch())
	l := voters(t, inMemory(t, Options{Now: clock.read, ClockAhead: time.Unix(1<<62, 0)}), "9", "ann")
	for _, seconds := range []int64{9_214_646_400, 32_503_680_000, 1 << 62} { // the years 2262, 3000 and many more
		clock.set(time.Unix(seconds, 0))
		unchanged(t, l.engine.Store, func() {
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
	auditStore(t, l.engine.Store)

	s := &kvtest.Memory{}
	err := s.Update(func(w kv.Writer) error {
		return format(w, time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC), CreateOptions{})
	})
	wantErr(t, err, ErrClock)
}

// A clock that fails in the middle of a large order stops it there; it goes on later.
func TestALargeOrderOutlivesABadClock(t *testing.T) {
	clock := newClock(epoch())
	l := openMemory(t, bigPanel(t, "1").engine.Store, Options{Now: clock.read})
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

// wantClockError fails unless an error says how far the clock is ahead of which event.
func wantClockError(t *testing.T, err error, clock, last time.Time) {
	t.Helper()
	var ahead *ClockError
	if !errors.As(err, &ahead) || !errors.Is(err, ErrClock) || !ahead.Clock.Equal(clock) || !ahead.Last.Equal(last) || ahead.Leap != 366*24*time.Hour {
		t.Errorf("the error is %v; the clock says %v, the last event is of %v", err, clock, last)
	}
}

// TestAClockFarAheadChangesNothing sets the clock ahead of a market with a dated sale and a reservation. Whatever is asked of
// the ledger then, nothing is written, and nothing is refused for good; what was settled before is told again.
func TestAClockFarAheadChangesNothing(t *testing.T) {
	clock := newClock(epoch())
	l := inMemory(t, Options{Now: clock.read})
	define(t, l, vote())
	dated := market(t, "2", func(m *policy.Market) { m.Until = epoch().AddDate(0, 1, 0) })
	enrollUnder(t, l, "vote", dated, "5", "ann", "bob")
	held := reserve(t, l, ReserveRequest{Key: "held", Order: purchase(t, "", "acme", "0.5", "ann").Order, For: 24 * time.Hour})
	sold := sell(t, l, purchase(t, "sold", "bolt", "0.5", "bob"))

	far := time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC)
	clock.set(far)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"define": func() error { return l.DefineQuestion(ctx, "1", smoker()) },
		"enroll": func() error {
			return second(l.Enroll(ctx, EnrollRequest{Key: "2", Question: "vote", Objects: []string{"cid"}, Cap: eps(t, "1")}))
		},
		"release": func() error { return second(l.Release(ctx, releaseOf(t, "3", "ann", "0.25"))) },
		"raise":   func() error { return second(l.Raise(ctx, order(t, "4", "0.25", "ann", "bob"))) },
		"sell":    func() error { return second(l.Sell(ctx, purchase(t, "5", "acme", "0.5", "ann"))) },
		"reserve": func() error {
			return second(l.Reserve(ctx, ReserveRequest{Key: "6", Order: purchase(t, "", "acme", "0.5", "ann").Order, For: time.Hour}))
		},
		"commit": func() error {
			return second(l.Capture(ctx, CaptureRequest{Key: "7", Reservation: held.Number, Truth: TruthOf("yes")}))
		},
		"cancel":  func() error { return l.Cancel(ctx, "8", held.Number) },
		"advance": func() error { return second(l.Advance(ctx, AdvanceRequest{Key: "9", Truth: TruthOf("yes")})) },
		"answer": func() error {
			return second(l.Answer(ctx, AnswerRequest{Key: "10", Question: "vote", Query: "winner", Epsilon: eps(t, "0.1"), All: true, Truth: TruthOf("yes")}))
		},
		"withdraw": func() error { return l.Withdraw(ctx, "11", "ann") },
		"forget":   func() error { return l.Forget(ctx, "12", "ann") },
	} {
		unchanged(t, l.engine.Store, func() {
			t.Log(name)
			wantClockError(t, call(), far, epoch())
		})
	}
	if again := sell(t, l, purchase(t, "sold", "bolt", "0.5", "bob")); !bytes.Equal(text(t, again), text(t, sold)) {
		t.Errorf("a sale of before is told as %+v", again)
	}
	quoted, err := l.Quote(ctx, purchase(t, "", "cryo", "0.5", "bob").Order)
	must(t, err)
	if len(quoted.Refused) != 1 || quoted.Refused[0].Reason != SaleClosed {
		t.Errorf("a quote shows what would be: %+v", quoted)
	}

	clock.set(epoch().Add(time.Hour)) // it was wrong, and nothing has come of it
	if made, err := l.Capture(ctx, CaptureRequest{Key: "7", Reservation: held.Number, Truth: TruthOf("yes")}); err != nil || made.Objects != 1 {
		t.Errorf("the reservation: %+v, %v", made, err)
	}
	sell(t, l, purchase(t, "5", "cryo", "0.5", "ann"))
	auditStore(t, l.engine.Store)
}

// A ledger that nobody has used for two years goes on when a person has said once that the clock is right.
func TestALongIdleLedgerIsConfirmedOnce(t *testing.T) {
	clock, s := newClock(epoch()), &kvtest.Memory{}
	begin(t, s)
	voters(t, openMemory(t, s, Options{Now: clock.read}), "9", "ann")
	for _, step := range []struct {
		after time.Duration
		ahead time.Time
		fine  bool
	}{
		{366*24*time.Hour + 1, time.Time{}, false},
		{731 * 24 * time.Hour, time.Time{}, false},
		{731 * 24 * time.Hour, epoch().Add(731*24*time.Hour - 1), false}, // not as far as that
		{731 * 24 * time.Hour, epoch().Add(731 * 24 * time.Hour), true},
		{731*24*time.Hour + 1, time.Time{}, true}, // the log is there now
		{(731 + 366) * 24 * time.Hour, time.Time{}, true},
	} {
		now := epoch().Add(step.after)
		clock.set(now)
		l := openMemory(t, s, Options{Now: clock.read, ClockAhead: step.ahead})
		last := events(t, l)[stats(t, l).Events-1].Time
		_, err := l.Release(t.Context(), releaseOf(t, now.String()+step.ahead.String(), "ann", "0.5"))
		if step.fine {
			must(t, err)
		} else {
			wantClockError(t, err, now, last)
		}
	}
	_, err := openStore(s, Options{ClockLeap: -1})
	wantErr(t, err, ErrInvalid)
	// What opening writes is refused as well.
	clock.set(epoch().AddDate(50, 0, 0))
	_, err = openStore(s, Options{Now: clock.read, TruthKey: truthKey()})
	wantErr(t, err, ErrClock)
}

// TestTheAuditNamesTheFirstEventOfTheFuture verifies a log that a clock far ahead wrote some of.
func TestTheAuditNamesTheFirstEventOfTheFuture(t *testing.T) {
	path := votersFile(t, "9", "ann")
	far := time.Now().AddDate(3, 0, 0).UTC()
	l := open(t, path, Options{Now: func() time.Time { return far }, ClockAhead: far})
	first := release(t, l, releaseOf(t, "1", "ann", "0.5")).Event
	wantProblems := func(want ...Problem) {
		t.Helper()
		var got []Problem
		_, err := l.Verify(t.Context(), VerifyRequest{Report: func(p Problem) { got = append(got, p) }})
		must(t, err)
		for i := range got {
			got[i].Text, _, _ = strings.Cut(got[i].Text, "; ")
		}
		if !slices.Equal(got, want) {
			t.Errorf("the audit finds %+v, want %+v", got, want)
		}
	}
	wantProblems()
	closed(t, l)
	clock := newClock(far.Add(-5 * time.Minute))
	l = open(t, path, Options{Now: clock.read})
	wantProblems() // clocks differ
	clock.set(far.Add(-5*time.Minute - 1))
	release(t, l, releaseOf(t, "2", "ann", "0.75")) // the log stays where it is
	n := stats(t, l).Events - first + 1
	wantProblems(Problem{Kind: "clock", Event: first, Text: fmt.Sprintf("%d events lie in the future, from event %d of %s on", n, first, far.Format(time.RFC3339Nano))})
	_, err := l.Backup(t.Context(), path+".copy", nil)
	must(t, err)
}
