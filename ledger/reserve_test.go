package ledger

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
)

// A reservation until a time is the same request whenever it is repeated, in any time zone. From
// that time on it has expired.
func TestReserve_Until_IsRepeatableAndExpires(t *testing.T) {
	clock := newClock(epoch().Add(time.Hour))
	l := sellers(t, inMemory(t, Options{Now: clock.read}), "2", "5", "ann")
	until := clock.read().Add(time.Hour)
	r := api.ReserveRequest{Key: "r", Order: purchase(t, "", "acme", "1", "ann").Order, Until: until}
	made := reserve(t, l, r)
	check.That(t, made.Expires.Equal(until) && made.Expires.Location() == time.UTC,
		"it expires at %v, not %v", made.Expires, until)
	clock.set(until.Add(-time.Nanosecond))
	all, err := collect(l.Reservations(t.Context(), ""))
	check.That(t, err == nil && len(all) == 1, "just before it expires: %v, %v", all, err)
	again := r
	again.Until = until.In(time.FixedZone("elsewhere", 3600))
	for _, at := range []time.Time{until.Add(-time.Minute), until.Add(-time.Nanosecond)} {
		clock.set(at)
		got := reserve(t, l, again)
		check.That(t, reflect.DeepEqual(got, made), "again at %v: %+v, not %+v", at, got, made)
	}
	for _, at := range []time.Time{until, until.Add(time.Hour)} {
		clock.set(at)
		var closed *api.ReservationError
		if got, err := l.Reserve(t.Context(), again); !errors.As(err, &closed) || closed.State != "expired" || !closed.Expires.Equal(until) {
			t.Errorf("again at %v: %+v, %v", at, got, err)
		}
	}
	all, err = collect(l.Reservations(t.Context(), "", "open"))
	check.That(t, err == nil && len(all) == 0, "after it has expired: %v, %v", all, err)
	var conflict *api.KeyConflictError
	other := r
	other.Until = until.Add(time.Nanosecond)
	_, err = l.Reserve(t.Context(), other)
	check.That(t, errors.As(err, &conflict) && conflict.Field == "Until", "until another time: %v", err)
	other = r
	other.Until, other.For = time.Time{}, time.Hour
	_, err = l.Reserve(t.Context(), other)
	check.That(t, errors.Is(err, &api.KeyConflictError{}), "for as long as that: %v", err)
}

func TestReserve_InvalidUntil_IsErrInvalid(t *testing.T) {
	clock := newClock(epoch().Add(time.Hour))
	l := sellers(t, inMemory(t, Options{Now: clock.read}), "2", "5", "ann")
	before := events(t, l)
	for name, change := range map[string]func(*api.ReserveRequest){
		"none":         func(*api.ReserveRequest) {},
		"both":         func(r *api.ReserveRequest) { r.Until, r.For = clock.read().Add(time.Hour), time.Hour },
		"less than 0":  func(r *api.ReserveRequest) { r.Until, r.For = clock.read().Add(time.Hour), -time.Hour },
		"now":          func(r *api.ReserveRequest) { r.Until = clock.read() },
		"past":         func(r *api.ReserveRequest) { r.Until = clock.read().Add(-time.Hour) },
		"before 1970":  func(r *api.ReserveRequest) { r.Until = time.Unix(-1, 0) },
		"beyond years": func(r *api.ReserveRequest) { r.Until = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		r := api.ReserveRequest{Key: name, Order: purchase(t, "", "acme", "1", "ann").Order}
		change(&r)
		_, err := l.Reserve(t.Context(), r)
		check.That(t, errors.Is(err, api.ErrInvalid), "%s: %v", name, err)
	}
	after := events(t, l)
	check.That(t, len(after) == len(before), "%d events are recorded", len(after)-len(before))
}
