package model

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
)

// Each reading of a reservation reports the same state at the same instant: the result of Reserve, the reading by number, the
// lists, and the errors of requests that need an open one. Reserve repeated with its key succeeds only while the reservation is open.
func TestReservation_EachReadingReportsTheSameState(t *testing.T) {
	Both(t, func(t *T) {
		clock := ledgertest.NewClock(ledgertest.Begin())
		l := Open(t, ledger.Options{Now: clock.Now})
		t.Run("called", func(t *T) { testReservationStates(t, l, clock, "called") })
		t.Run("served", func(t *T) { testReservationStates(t, Served(t, l.(*ledger.Ledger)), clock, "served") })
		WantClean(t, l, api.VerifyRequest{})
	})
}

func testReservationStates(t *T, l Book, clock *ledgertest.Clock, buyer string) {
	if buyer == "called" {
		Sellers(t, l, "9", "9", "ann")
	}
	request := func(key string) api.ReserveRequest {
		return api.ReserveRequest{Key: buyer + key, Order: Purchase(t, "", buyer, "0.1", "ann").Order, For: time.Hour}
	}
	open, captured, cancelled, expired := request("open"), request("captured"), request("cancelled"), request("expired")
	expired.For = time.Minute
	number := map[api.ReservationState]uint64{}
	for state, r := range map[api.ReservationState]api.ReserveRequest{
		api.ReservationOpen: open, api.ReservationCaptured: captured, api.ReservationCancelled: cancelled, api.ReservationExpired: expired,
	} {
		made := Reserve(t, l, r)
		if number[state] = made.Number; made.State != api.ReservationOpen {
			t.Errorf("a new reservation is %s", made.State)
		}
	}
	sale := Commit(t, l, buyer+"paid", number[api.ReservationCaptured])
	Must(t, l.Cancel(t.Context(), buyer+"cancel", number[api.ReservationCancelled]))

	end := clock.Now().Add(time.Minute)
	clock.Set(end.Add(-1)) // the last instant at which the short one is open
	if _, err := l.Reserve(t.Context(), expired); err != nil {
		t.Errorf("one nanosecond before it expires: %v", err)
	}
	clock.Set(end)
	for state, r := range map[api.ReservationState]api.ReserveRequest{
		api.ReservationOpen: open, api.ReservationCaptured: captured, api.ReservationCancelled: cancelled, api.ReservationExpired: expired,
	} {
		n := number[state]
		want := api.ReservationError{Number: n, State: state}
		switch state {
		case api.ReservationCaptured:
			want.Sale = sale.Number
		case api.ReservationExpired:
			want.Expires = end
		}
		read, err := l.Reservation(t.Context(), n)
		if err != nil || read.State != state {
			t.Errorf("%s: it is read as %s, %v", state, read.State, err)
		}
		again, err := l.Reserve(t.Context(), r)
		if state == api.ReservationOpen {
			if err != nil || again.State != state || again.Number != n {
				t.Errorf("%s: reserved again as %+v, %v", state, again, err)
			}
			continue
		}
		wantClosed(t, "reserve", want, err)
		if again.Number != 0 {
			t.Errorf("%s: the error comes with %+v", state, again)
		}
		_, err = l.Capture(t.Context(), api.CaptureRequest{Key: buyer + "capture" + string(state), Reservation: n, Truth: SameTruth("yes")})
		wantClosed(t, "capture", want, err)
		if state != api.ReservationExpired {
			wantClosed(t, "cancel", want, l.Cancel(t.Context(), buyer+"cancel"+string(state), n))
		}
	}
	for _, states := range [][]api.ReservationState{
		nil, {api.ReservationOpen}, {api.ReservationCaptured}, {api.ReservationCancelled}, {api.ReservationExpired},
		{api.ReservationExpired, api.ReservationCaptured},
	} {
		var got, want []uint64
		for state, n := range number {
			if states == nil || slices.Contains(states, state) {
				want = append(want, n)
			}
		}
		for r, err := range l.Reservations(t.Context(), buyer, states...) {
			Must(t, err)
			if got = append(got, r.Number); number[r.State] != r.Number {
				t.Errorf("reservation %d is listed as %s", r.Number, r.State)
			}
		}
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("in the states %q are %v, want %v", states, got, want)
		}
	}
	for _, err := range l.Reservations(t.Context(), "", "sold") {
		if !errors.Is(err, api.ErrInvalid) {
			t.Errorf("of a state that there is not: %v", err)
		}
	}

	// One that has expired can be cancelled, and then no clock that is put right opens it again.
	Must(t, l.Cancel(t.Context(), buyer+"settle", number[api.ReservationExpired]))
	_, err := l.Reserve(t.Context(), expired)
	wantClosed(t, "after it was settled", api.ReservationError{Number: number[api.ReservationExpired], State: api.ReservationCancelled}, err)

	// A sale that was never reserved is no reservation, whatever is asked of it.
	direct := Sell(t, l, Purchase(t, buyer+"direct", buyer, "0.1", "ann"))
	_, read := l.Reservation(t.Context(), direct.Number)
	_, capture := l.Capture(t.Context(), api.CaptureRequest{Key: buyer + "direct capture", Reservation: direct.Number, Truth: SameTruth("yes")})
	for _, err := range []error{read, capture, l.Cancel(t.Context(), buyer+"direct cancel", direct.Number)} {
		if !errors.Is(err, api.ErrUnknown) {
			t.Errorf("a sale that was never reserved: %v", err)
		}
	}
}

// wantClosed checks that an error reports a reservation that is not open.
func wantClosed(t *T, what string, want api.ReservationError, err error) {
	t.Helper()
	var got *api.ReservationError
	if !errors.As(err, &got) || !errors.Is(err, api.ErrNotReserved) || !got.Expires.Equal(want.Expires) {
		t.Errorf("%s: %v, want %v", what, err, &want)
		return
	}
	if flat := *got; flat.Number != want.Number || flat.State != want.State || flat.Sale != want.Sale {
		t.Errorf("%s: %+v, want %+v", what, flat, want)
	}
}

// A reservation that expired by a clock which was ahead, and by which nothing was written, is open again when the clock is put right.
func TestReservation_ClockPutRight_IsOpenAgain(t *testing.T) {
	Both(t, func(t *T) {
		clock := ledgertest.NewClock(ledgertest.Begin())
		l := Open(t, ledger.Options{Now: clock.Now})
		Sellers(t, l, "9", "9", "ann")
		r := api.ReserveRequest{Key: "r", Order: Purchase(t, "", "acme", "1", "ann").Order, For: time.Hour}
		made := Reserve(t, l, r)
		clock.Advance(time.Hour)
		if _, err := l.Reserve(t.Context(), r); !errors.Is(err, api.ErrNotReserved) {
			t.Errorf("by the clock that is ahead: %v", err)
		}
		clock.Advance(-time.Minute)
		if again := Reserve(t, l, r); again.Number != made.Number || again.State != api.ReservationOpen {
			t.Errorf("by the clock put right: %+v", again)
		}
		clock.Advance(time.Minute)
		Release(t, l, ReleaseOf(t, "an event", "ann", "0.1")) // which moves the log's time on
		clock.Advance(-time.Minute)
		if _, err := l.Reserve(t.Context(), r); !errors.Is(err, api.ErrNotReserved) {
			t.Errorf("after the log has passed the expiry: %v", err)
		}
	})
}

// The objects of an order that are left out are in one place, whichever request left them out, and whenever it is read.
func TestReservation_RefusedObjects_AreCompleteInEveryReading(t *testing.T) {
	Both(t, func(t *T) {
		l := Open(t, ledger.Options{})
		Sellers(t, l, "9", "9", "ann", "bob", "cyd")
		r := api.ReserveRequest{Key: "r", Order: Purchase(t, "", "acme", "1", "ann", "bob", "cyd", "zoe").Order, For: time.Hour, Partial: true}
		made := Reserve(t, l, r)
		wantLeftOut(t, "reserved", made.Refused, "zoe")
		Must(t, l.Withdraw(t.Context(), "w", "bob"))
		wantLeftOut(t, "reserved again", Reserve(t, l, r).Refused, "zoe")
		capture := api.CaptureRequest{Key: "c", Reservation: made.Number, Partial: true, Truth: SameTruth("yes")}
		for range 2 {
			sold, err := l.Capture(t.Context(), capture)
			Must(t, err)
			wantLeftOut(t, "captured", sold.Refused, "bob", "zoe")
		}
		read, err := l.Reservation(t.Context(), made.Number)
		Must(t, err)
		wantLeftOut(t, "the reservation", read.Refused, "bob", "zoe")
		if read.Objects != 3 || read.First != made.First || read.Last != made.Last {
			t.Errorf("it was granted as %+v, and is read as %+v", made, read)
		}
		sale, err := l.Sale(t.Context(), made.Number)
		Must(t, err)
		wantLeftOut(t, "the sale", sale.Refused, "bob", "zoe")
		for s, err := range l.Sales(t.Context(), "acme") {
			Must(t, err)
			wantLeftOut(t, "the list of sales", s.Refused, "bob", "zoe")
		}
		Must(t, l.Forget(t.Context(), "f", "bob"))
		read, err = l.Reservation(t.Context(), made.Number)
		Must(t, err)
		wantLeftOut(t, "after one was forgotten", read.Refused, "zoe")
	})
}

func wantLeftOut(t *T, what string, refused []api.Refusal, want ...string) {
	t.Helper()
	var got []string
	for _, r := range refused {
		got = append(got, r.Object)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q are left out, want %q", what, got, want)
	}
}
