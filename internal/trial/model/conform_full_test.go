package model

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

// An object is part of so many open reservations, and no more, until one of them ends.
func TestReserve_ManyOfOneObject_AreBounded(t *testing.T) {
	Anywhere(t, testReservationsAreBounded)
}

func testReservationsAreBounded(t *T) {
	now := on(1)
	l := Open(t, ledger.Options{Now: func() time.Time { return now }})
	Sellers(t, l, "2", "9", "ann", "bob")
	request := func(key string) api.ReserveRequest {
		return api.ReserveRequest{Key: key, Order: Purchase(t, key, "buyer "+key, "1", "ann").Order, For: time.Hour}
	}
	var last api.Reservation
	for i := range api.MaxReservations {
		last = Reserve(t, l, request(fmt.Sprint(i)))
	}
	refused := func(key string) {
		t.Helper()
		_, err := l.Reserve(t.Context(), request(key))
		got := Refusals(t, err)
		if len(got) != 1 || got[0].Reason != api.Full || got[0].Remedy != api.RemedyWaiting {
			t.Errorf("refused %+v", got)
		}
	}
	refused("over")
	Sell(t, l, Purchase(t, "sold", "another", "1", "ann"))
	Commit(t, l, "captured", last.Number)
	Reserve(t, l, request("in its place"))
	refused("over again")
	now = now.Add(time.Hour)
	Reserve(t, l, request("after they have expired"))
	AuditAll(t, l)
}
