package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// A buyer gets a price at listed levels, and at those that it holds. At other levels it gets the
// same refusal, regardless of what was sold.
func TestQuoteBuyer_LevelNotListed_IsRefusedRegardlessOfSales(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "2", "1.5", "ann", "bob") // the terms list 1 and 2
	no := func(epsilon string) {
		t.Helper()
		q := check.Value(l.QuoteBuyer(t.Context(), purchase(t, "", "acme", epsilon, "ann").Order))(t)
		want := []api.Refusal{{Object: "ann", Reason: api.NotAvailable, Asked: eps(t, epsilon), Remedy: "nothing"}}
		check.That(t, slices.Equal(q.Refused, want) && q.Price == 0 && q.Objects == 0 && q.Event == 0 && q.Instead == nil,
			"at ε=%s: got the quote %+v, want only the refusal not-available", epsilon, q)
	}
	no("0.5")
	no("2")
	sell(t, l, purchase(t, "bolt", "bolt", "0.5", "ann"))
	no("0.5")
	no("2")
	q := check.Value(l.QuoteBuyer(t.Context(), purchase(t, "", "acme", "1", "ann").Order))(t)
	full, err := l.Quote(t.Context(), purchase(t, "", "acme", "1", "ann").Order)
	must(t, err)
	check.That(t, q.ID == full.ID && q.Price == 100 && len(q.Refused) == 0 && q.Draws+q.Resales+q.Degradations+q.Insertions == 0 && full.Draws == 1,
		"at a listed level the buyer gets the quote %+v, the host %+v", q, full)
	sell(t, l, purchase(t, "acme", "acme", "0.5", "ann"))
	q, err = l.QuoteBuyer(t.Context(), purchase(t, "", "acme", "0.5", "ann").Order)
	check.That(t, err == nil && len(q.Refused) == 0 && q.Price == 0, "at a level that the buyer holds: got the quote %+v, error %v; want the price 0", q, err)
}

// The buyer sees the ID of a quote, so it is the same for every reason of a refusal.
func TestQuoteID_ReasonOfRefusalChanges_IsTheSame(t *testing.T) {
	terms := market(t, "2", func(m *policy.Market) { m.Levels, m.Holders = []privacy.Epsilon{eps(t, "1"), eps(t, "2")}, 1 })
	var ids []string
	l := inMemory(t, Options{})
	define(t, l, vote())
	enrollUnder(t, l, "vote", terms, "1.5", "ann")
	order := purchase(t, "", "acme", "2", "ann").Order
	for _, then := range []func(){func() {}, func() {
		must(t, check.Err(l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: "more", Question: "vote", Objects: []string{"ann"}, Cap: eps(t, "9"), Consent: "box 1"})))
		sell(t, l, purchase(t, "bolt", "bolt", "2", "ann"))
	}} {
		then()
		q := check.Value(l.Quote(t.Context(), order))(t)
		ids = append(ids, q.ID)
		if want := []api.Reason{api.ObjectCap, api.HoldersFull}[len(ids)-1]; len(q.Refused) != 1 || q.Refused[0].Reason != want {
			t.Errorf("got the refusals %v, want one for %s", q.Refused, want)
		}
	}
	check.That(t, ids[0] == ids[1], "the ID depends on the reason of the refusal: %v", ids)
}

// A buyer's sales and reservations are numbered from 1, in the order of its requests, and keep
// their numbers.
func TestOrderOf_SeveralBuyers_NumbersEachFromOne(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "2", "100", "ann")
	want := map[string][]uint64{}
	for i, buyer := range []string{"acme", "bolt", "acme", "acme", "bolt", "cryo", "acme"} {
		number := uint64(0)
		if i%2 == 0 {
			s := sell(t, l, purchase(t, fmt.Sprint(i), buyer, "1", "ann"))
			number = s.Number
			check.That(t, s.Ordinal == uint64(len(want[buyer]))+1,
				"sale %d to %s has the ordinal %d", number, buyer, s.Ordinal)
		} else {
			r := reserve(t, l, api.ReserveRequest{Key: fmt.Sprint(i), Order: purchase(t, "", buyer, "2", "ann").Order, For: time.Hour})
			if number = r.Number; i == 3 {
				s := capture(t, l, "captured", number)
				check.That(t, s.Ordinal == r.Ordinal && s.Number == number, "the reservation %+v was captured as %+v", r, s)
			}
		}
		want[buyer] = append(want[buyer], number)
	}
	for buyer, numbers := range want {
		for i, number := range numbers {
			if got, err := l.OrderOf(t.Context(), buyer, uint64(i)+1); err != nil || got != number {
				t.Errorf("order %d of %s is %d (%v), want %d", i+1, buyer, got, err, number)
			}
		}
		for _, none := range []uint64{0, uint64(len(numbers)) + 1, 1 << 63} {
			_, err := l.OrderOf(t.Context(), buyer, none)
			check.That(t, errors.Is(err, api.ErrUnknown), "order %d of %s: got the error %v, want ErrUnknown", none, buyer, err)
		}
		var listed []uint64
		for s, err := range l.Sales(t.Context(), buyer) {
			must(t, err)
			listed = append(listed, s.Number)
		}
		sold := slices.DeleteFunc(slices.Clone(numbers), func(n uint64) bool { _, err := l.Sale(t.Context(), n); return err != nil })
		check.That(t, slices.Equal(listed, sold), "sales to %s are %v, want %v", buyer, listed, sold)
	}
	_, err := l.OrderOf(t.Context(), "stranger", 1)
	check.That(t, errors.Is(err, api.ErrUnknown), "an order of an unknown buyer: got the error %v, want ErrUnknown", err)
	wantClean(t, l, api.VerifyRequest{})
}

// A buyer gets consistency proofs between the sizes of its own receipts only, and no error reveals
// the size of the log.
func TestConsistencyOf_SizeOfNoReceipt_IsUnknown(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "2", "100", "ann")
	first := sell(t, l, purchase(t, "1", "acme", "1", "ann"))
	other := sell(t, l, purchase(t, "2", "bolt", "1", "ann"))
	held := reserve(t, l, api.ReserveRequest{Key: "3", Order: purchase(t, "", "acme", "2", "ann").Order, For: time.Hour})
	second := sell(t, l, purchase(t, "4", "acme", "2", "ann"))
	proof, err := l.ConsistencyOf(t.Context(), "acme", first.Last, second.Last)
	check.That(t, err == nil && len(proof) != 0, "between two receipts: got the proof %v, error %v", proof, err)
	for _, size := range []uint64{0, 1, other.Last, held.Last, second.Last - 1, second.Last + 1, 1 << 62} {
		for _, sizes := range [][2]uint64{{first.Last, size}, {size, second.Last}} {
			_, err := l.ConsistencyOf(t.Context(), "acme", sizes[0], sizes[1])
			check.That(t, errors.Is(err, api.ErrUnknown), "from %d to %d: got the error %v, want ErrUnknown", sizes[0], sizes[1], err)
		}
	}
	_, err = l.ConsistencyOf(t.Context(), "stranger", first.Last, first.Last)
	check.That(t, errors.Is(err, api.ErrUnknown), "an unknown buyer: got the error %v, want ErrUnknown", err)
	_, err = l.ConsistencyOf(t.Context(), "acme", second.Last, first.Last)
	want := fmt.Sprintf("invalid request: consistency of sizes %d and %d: the first must not be above the second", second.Last, first.Last)
	check.That(t, errors.Is(err, api.ErrInvalid) && err.Error() == want, "from the larger size to the smaller: got the error %v", err)
}
