package model

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
)

// Invariant 12: event times never decrease. A clock that jumps back releases nothing early and breaks
// nothing.

// wantOrderedTimes checks the log against the clock it was written by, and returns its last time.
func wantOrderedTimes(t *T, l Book) (last time.Time) {
	t.Helper()
	for _, ev := range Events(t, l) {
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
	Anywhere(t, testEventTimesNeverDecrease)
}

func testEventTimesNeverDecrease(t *T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := Voters(t, Open(t, ledger.Options{Now: clock.Now}), "9", "ann")
	highest := ledgertest.Begin()
	for i, jump := range []time.Duration{time.Hour, -20 * 365 * 24 * time.Hour, time.Minute, 0, -time.Nanosecond, 3 * time.Hour, -100 * 365 * 24 * time.Hour, 4 * time.Hour} {
		now := ledgertest.Begin().Add(jump).In(time.FixedZone("there", 7200))
		clock.Set(now)
		if now.After(highest) {
			highest = now
		}
		Release(t, l, ReleaseOf(t, fmt.Sprint(i), "ann", fmt.Sprintf("0.%d", i+1)))
		if last := wantOrderedTimes(t, l); !last.Equal(highest) {
			t.Errorf("the log is at %v, the clock was never behind %v", last, highest)
		}
	}
	WantClean(t, l, api.VerifyRequest{})
}

// The memory of the time is in the log, not in the process.
func TestTimesDoNotDecreaseAcrossOpens(t *testing.T) {
	Anywhere(t, testTimesDoNotDecreaseAcrossOpens)
}

func testTimesDoNotDecreaseAcrossOpens(t *T) {
	house := VotersHouse(t, "9", "ann")
	future := time.Now().Add(50 * 365 * 24 * time.Hour)
	l := house.Open(t, ledger.Options{Now: func() time.Time { return future }, ClockAhead: future})
	Release(t, l, ReleaseOf(t, "1", "ann", "0.5"))
	Must(t, l.Close())
	l = house.Open(t, ledger.Options{})
	Release(t, l, ReleaseOf(t, "2", "ann", "1"))
	if last := wantOrderedTimes(t, l); !last.Equal(future) {
		t.Errorf("the log went back to %v from %v", last, future)
	}
}

func TestAClockBefore1970IsHarmless(t *testing.T) {
	Anywhere(t, testAClockBefore1970IsHarmless)
}

func testAClockBefore1970IsHarmless(t *T) {
	for _, now := range []time.Time{{}, time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1677, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(-1, 0)} {
		clock := ledgertest.NewClock(now)
		l := Voters(t, Open(t, ledger.Options{Now: clock.Now}), "9", "ann")
		Release(t, l, ReleaseOf(t, "1", "ann", "0.5"))
		if last := wantOrderedTimes(t, l); !last.Equal(ledgertest.Begin()) {
			t.Errorf("with the clock at %v the log is at %v", now, last)
		}
		clock.Set(ledgertest.Begin())
		WantClean(t, l, api.VerifyRequest{})
	}
}

// wantClockError fails unless an error says how far the clock is ahead of which event.
func wantClockError(t *T, err error, clock, last time.Time) {
	t.Helper()
	var ahead *api.ClockError
	if !errors.As(err, &ahead) || !errors.Is(err, api.ErrClock) || !ahead.Clock.Equal(clock) || !ahead.Last.Equal(last) || ahead.Leap != 366*24*time.Hour {
		t.Errorf("the error is %v; the clock says %v, the last event is of %v", err, clock, last)
	}
}

// TestAClockFarAheadChangesNothing sets the clock ahead of a market with a dated sale and a reservation. Whatever is asked of
// the ledger then, nothing is written, and nothing is refused for good; what was settled before is told again.
func TestAClockFarAheadChangesNothing(t *testing.T) {
	Anywhere(t, testAClockFarAheadChangesNothing)
}

func testAClockFarAheadChangesNothing(t *T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := Open(t, ledger.Options{Now: clock.Now})
	Define(t, l, Vote())
	dated := Market(t, "2", func(m *policy.Market) { m.Until = ledgertest.Begin().AddDate(0, 1, 0) })
	EnrollUnder(t, l, "vote", dated, "5", "ann", "bob")
	held := Reserve(t, l, api.ReserveRequest{Key: "held", Order: Purchase(t, "", "acme", "0.5", "ann").Order, For: 24 * time.Hour})
	sold := Sell(t, l, Purchase(t, "sold", "bolt", "0.5", "bob"))

	far := time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC)
	clock.Set(far)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"define": func() error { return l.DefineQuestion(ctx, "1", Smoker()) },
		"enroll": func() error {
			return second(l.Enroll(ctx, api.EnrollRequest{Key: "2", Question: "vote", Objects: []string{"cid"}, Cap: Eps(t, "1")}))
		},
		"release": func() error { return second(l.Release(ctx, ReleaseOf(t, "3", "ann", "0.25"))) },
		"raise":   func() error { return second(l.Raise(ctx, Order(t, "4", "0.25", "ann", "bob"))) },
		"sell":    func() error { return second(l.Sell(ctx, Purchase(t, "5", "acme", "0.5", "ann"))) },
		"reserve": func() error {
			return second(l.Reserve(ctx, api.ReserveRequest{Key: "6", Order: Purchase(t, "", "acme", "0.5", "ann").Order, For: time.Hour}))
		},
		"commit": func() error {
			return second(l.Capture(ctx, api.CaptureRequest{Key: "7", Reservation: held.Number, Truth: SameTruth("yes")}))
		},
		"cancel": func() error { return l.Cancel(ctx, "8", held.Number) },
		"advance": func() error {
			return second(l.Advance(ctx, api.AdvanceRequest{Key: "9", Truth: SameTruth("yes")}))
		},
		"answer": func() error {
			return second(l.Answer(ctx, api.AnswerRequest{Key: "10", Question: "vote", Query: "winner", Epsilon: Eps(t, "0.1"), All: true, Truth: SameTruth("yes")}))
		},
		"withdraw": func() error { return l.Withdraw(ctx, "11", "ann") },
		"forget":   func() error { return l.Forget(ctx, "12", "ann") },
	} {
		Unchanged(t, l, func() {
			t.Log(name)
			wantClockError(t, call(), far, ledgertest.Begin())
		})
	}
	if again := Sell(t, l, Purchase(t, "sold", "bolt", "0.5", "bob")); !bytes.Equal(Text(t, again), Text(t, sold)) {
		t.Errorf("a sale of before is told as %+v", again)
	}
	quoted, err := l.Quote(ctx, Purchase(t, "", "cryo", "0.5", "bob").Order)
	Must(t, err)
	if len(quoted.Refused) != 1 || quoted.Refused[0].Reason != api.SaleClosed {
		t.Errorf("a quote shows what would be: %+v", quoted)
	}

	clock.Set(ledgertest.Begin().Add(time.Hour)) // it was wrong, and nothing has come of it
	if made, err := l.Capture(ctx, api.CaptureRequest{Key: "7", Reservation: held.Number, Truth: SameTruth("yes")}); err != nil || made.Objects != 1 {
		t.Errorf("the reservation: %+v, %v", made, err)
	}
	Sell(t, l, Purchase(t, "5", "cryo", "0.5", "ann"))
	WantClean(t, l, api.VerifyRequest{})
}

// A ledger that nobody has used for two years goes on when a person has said once that the clock is right.
func TestALongIdleLedgerIsConfirmedOnce(t *testing.T) {
	Anywhere(t, testALongIdleLedgerIsConfirmedOnce)
}

func testALongIdleLedgerIsConfirmedOnce(t *T) {
	clock, house := ledgertest.NewClock(ledgertest.Begin()), NewHouse(t)
	Must(t, Voters(t, house.Open(t, ledger.Options{Now: clock.Now}), "9", "ann").Close())
	for _, step := range []struct {
		after time.Duration
		ahead time.Time
		fine  bool
	}{
		{366*24*time.Hour + 1, time.Time{}, false},
		{731 * 24 * time.Hour, time.Time{}, false},
		{731 * 24 * time.Hour, ledgertest.Begin().Add(731*24*time.Hour - 1), false}, // not as far as that
		{731 * 24 * time.Hour, ledgertest.Begin().Add(731 * 24 * time.Hour), true},
		{731*24*time.Hour + 1, time.Time{}, true}, // the log is there now
		{(731 + 366) * 24 * time.Hour, time.Time{}, true},
	} {
		now := ledgertest.Begin().Add(step.after)
		clock.Set(now)
		l := house.Open(t, ledger.Options{Now: clock.Now, ClockAhead: step.ahead})
		last := Events(t, l)[Stats(t, l).Events-1].Time
		_, err := l.Release(t.Context(), ReleaseOf(t, now.String()+step.ahead.String(), "ann", "0.5"))
		if step.fine {
			Must(t, err)
		} else {
			wantClockError(t, err, now, last)
		}
		Must(t, l.Close())
	}
	_, err := house.Try(ledger.Options{ClockLeap: -1})
	WantErr(t, err, api.ErrInvalid)
	// What opening writes is refused as well.
	clock.Set(ledgertest.Begin().AddDate(50, 0, 0))
	_, err = house.Try(ledger.Options{Now: clock.Now, TruthKey: TruthKey()})
	WantErr(t, err, api.ErrClock)
}

func second[T any](_ T, err error) error { return err }
