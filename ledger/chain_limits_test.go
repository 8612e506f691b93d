package ledger

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// The chain of an object and its open reservations have limits, so that the cost of an event about
// it is bounded, in the ledger and in an audit.

// ledgerWithEntries returns a ledger in memory in which ann is for sale and its chain has this many
// entries: a level at ε=1, and buyers of it.
func ledgerWithEntries(t *testing.T, entries int) *Ledger {
	t.Helper()
	l := sellers(t, inMemory(t, Options{Now: epoch}), "9", "9", "ann", "bob")
	for i := range entries - 1 {
		sell(t, l, purchase(t, fmt.Sprint("fill ", i), fmt.Sprint("buyer ", i), "1", "ann"))
	}
	return l
}

// wantFull checks that a request was refused because ann's chain is full, with a remedy and the
// largest ε that is possible.
func wantFull(t *testing.T, what string, err error, helps string, largest string) {
	t.Helper()
	got := refusals(t, err)
	check.That(t, len(got) == 1 && got[0].Object == "ann" && got[0].Reason == api.Full && got[0].Remedy == helps && got[0].Largest.String() == largest,
		"%s: refused %+v", what, got)
}

func tryReserve(t *testing.T, l *Ledger, key, buyer, epsilon string) (api.Reservation, error) {
	return l.Reserve(t.Context(), api.ReserveRequest{Key: key, Order: purchase(t, key, buyer, epsilon, "ann").Order, For: time.Hour})
}

// recordBytes returns the size of the largest record of a bucket.
func recordBytes(t *testing.T, l *Ledger, bucket string) (most int) {
	for _, p := range pairs(t, l.engine.Store) {
		if p.bucket == bucket {
			most = max(most, len(p.value))
		}
	}
	return most
}

// wantBounded checks that no chain has a record longer than mostRecord, and verifies the ledger.
func wantBounded(t *testing.T, l *Ledger) {
	t.Helper()
	n := recordBytes(t, l, state.BucketChains)
	check.That(t, n <= mostRecord, "the chain is a record of %d bytes", n)
	wantClean(t, l, api.VerifyRequest{})
}

// mostRecord is a limit in bytes for the record of any chain, because each event about it reads and
// writes the record a few times.
const mostRecord = 48 << 10

func TestChain_AtMaxEntries_RefusesMore(t *testing.T) {
	l := ledgerWithEntries(t, event.MaxEntries-1)
	sell(t, l, purchase(t, "last", "last", "1", "ann"))
	before := events(t, l)
	_, err := l.Sell(t.Context(), purchase(t, "over", "over", "1", "ann"))
	wantFull(t, "another buyer", err, "nothing", "0")
	_, err = l.Sell(t.Context(), purchase(t, "level", "last", "2", "ann"))
	wantFull(t, "another level, to a buyer of one", err, "less", "1")
	_, err = tryReserve(t, l, "reserved", "last", "0.5")
	wantFull(t, "a reservation of a level below", err, "nothing", "0")
	wantFull(t, "a raise", check.Err(l.Release(t.Context(), releaseOf(t, "raise", "ann", "2"))), "less", "1")
	_, err = l.Release(t.Context(), releaseOf(t, "derive", "ann", "0.5"))
	wantFull(t, "a derived level", err, "nothing", "0")
	wantFull(t, "a new epoch", l.BeginEpoch(t.Context(), api.EpochRequest{Key: "epoch", Question: "vote", Object: "ann"}), "nothing", "0")
	after := events(t, l)
	check.That(t, len(after) == len(before), "refused requests left %d events", len(after)-len(before))
	s := sell(t, l, partialSale(purchase(t, "partial", "over", "1", "ann", "bob")))
	check.That(t, len(s.Refused) == 1 && s.Refused[0].Reason == api.Full && s.Objects == 1, "a partial order: %+v", s)
	for i, buyer := range []string{"", "last", "over"} {
		b := check.Value(l.Budget(t.Context(), api.BudgetRequest{Question: "vote", Objects: []string{"ann"}, Buyer: buyer, Epsilons: []privacy.Epsilon{eps(t, "0.5"), eps(t, "1"), eps(t, "2")}}))(t)
		want := [][]uint64{{0, 1, 0}, {0, 1, 0}, {0, 0, 0}}[i]
		if got := []uint64{b.Levels[0].Can, b.Levels[1].Can, b.Levels[2].Can}; !slices.Equal(got, want) || len(b.Refused) != 1 || b.Refused[0].Reason != api.Full {
			t.Errorf("buyer %q: %v of ann can, %+v", buyer, got, b.Refused)
		}
	}
	// Requests that add no entry succeed.
	sell(t, l, purchase(t, "again", "last", "1", "ann"))
	release(t, l, releaseOf(t, "given again", "ann", "1"))
	must(t, check.Err(l.Answer(t.Context(), api.AnswerRequest{Key: "answer", Question: "vote", Query: "majority:yes", Epsilon: eps(t, "0.1"), Objects: []string{"ann"}, Truth: sameTruth("yes"), AcceptLoss: true})))
	wantBounded(t, l)
}

// A response in unary encoding is long, so it counts as several entries.
func TestChain_LongResponses_CountForSeveralEntries(t *testing.T) {
	l := inMemory(t, Options{Now: epoch})
	define(t, l, api.Question{Name: "home", Values: valuesOf(event.MaxUnaryValues), Encoding: "unary"})
	enroll(t, l, "home", "900", "ann")
	const each = 1 + event.MaxUnaryValues/event.BitsPerEntry
	raise := func(i int) error {
		return check.Err(l.Raise(t.Context(), api.RaiseRequest{Key: fmt.Sprint(i), Question: "home", Epsilon: nano(t, int64(1+i)), Objects: []string{"ann"}, Truth: sameTruth(valuesOf(1)[0])}))
	}
	const most = event.MaxEntries / each
	for i := range most {
		must(t, raise(i))
	}
	wantFull(t, "another level", raise(most), "less", nano(t, most).String())
	wantBounded(t, l)
}

// Ended epochs stay in the record, and count as entries.
func TestChain_ManyEpochs_RefusesMore(t *testing.T) {
	l := voters(t, inMemory(t, Options{Now: epoch}), "9", "ann")
	for i := range event.MaxEntries / 2 {
		r := releaseOf(t, fmt.Sprint(i), "ann", "0")
		r.Epsilon = nano(t, 1)
		release(t, l, r)
		must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: fmt.Sprint("epoch ", i), Question: "vote", Object: "ann"}))
	}
	wantFull(t, "a level", check.Err(l.Release(t.Context(), releaseOf(t, "over", "ann", "1"))), "nothing", "0")
	wantBounded(t, l)
}

func TestAdvance_MoreLevelsThanEntries_RaisesUpToLimit(t *testing.T) {
	l := inMemory(t, Options{Now: func() time.Time { return epoch().AddDate(20, 0, 0) }, ClockLeap: 200 * 366 * 24 * time.Hour})
	define(t, l, vote())
	p := check.Value(policy.Linear(privacy.Epsilon{}, eps(t, "2"), epoch(), epoch().AddDate(1, 0, 0), eps(t, "0.002")))(t)
	enrollUnder(t, l, "vote", p, "9", "ann")
	for i := range 100 { // the policy has 1,000 levels
		r := releaseOf(t, fmt.Sprint(i), "ann", "0")
		r.Epsilon = nano(t, int64(1+i))
		release(t, l, r)
	}
	done := check.Value(l.Advance(t.Context(), api.AdvanceRequest{Key: "sweep", Truth: sameTruth("yes")}))(t)
	if r := done.Questions[0].Refused; len(r) != 1 || r[0].Reason != api.Full || r[0].Asked != eps(t, "1.85") || r[0].Largest != eps(t, "1.848") || r[0].Remedy != "less" {
		t.Errorf("%+v", done)
	}
	check.Equal(t, len(objectOf(t, l, "ann").Chains[0].Levels), event.MaxEntries, "levels")
	wantClean(t, l, api.VerifyRequest{})
}

// A reservation keeps the entries that its capture needs, regardless of what is sold since.
func TestReservation_OfTheLastEntries_CanBeCaptured(t *testing.T) {
	l := ledgerWithEntries(t, event.MaxEntries-4)
	first := check.Value(tryReserve(t, l, "first", "p", "2"))(t)
	second := check.Value(tryReserve(t, l, "second", "q", "3"))(t)
	_, err := l.Sell(t.Context(), purchase(t, "over", "over", "1", "ann"))
	wantFull(t, "another buyer", err, "waiting", "0")
	wantFull(t, "a raise", check.Err(l.Release(t.Context(), releaseOf(t, "raise", "ann", "4"))), "waiting", "1")
	wantFull(t, "another reservation", check.Err(tryReserve(t, l, "third", "r", "1")), "waiting", "0")
	s := sell(t, l, partialSale(purchase(t, "partial", "over", "1", "ann", "bob")))
	check.That(t, len(s.Refused) == 1 && s.Refused[0].Remedy == "waiting", "a partial order: %+v", s)
	capture(t, l, "captured", first.Number)
	must(t, l.Cancel(t.Context(), "cancelled", second.Number))
	sell(t, l, purchase(t, "in its place", "over", "2", "ann"))
	sell(t, l, purchase(t, "and the last", "last", "2", "ann"))
	_, err = l.Sell(t.Context(), purchase(t, "none left", "none", "2", "ann"))
	wantFull(t, "another buyer", err, "nothing", "0")
	wantClean(t, l, api.VerifyRequest{})
}

func TestReserve_MaxReservations_RefusesAnother(t *testing.T) {
	l := sellers(t, inMemory(t, Options{Now: epoch}), "9", "9", "ann", "bob")
	var open []api.Reservation
	for i := range event.MaxReservations {
		r := check.Value(tryReserve(t, l, fmt.Sprint(i), fmt.Sprint("buyer ", i), "1"))(t)
		open = append(open, r)
	}
	wantFull(t, "another reservation", check.Err(tryReserve(t, l, "over", "over", "1")), "waiting", "0")
	wantFull(t, "a reservation at another ε", check.Err(tryReserve(t, l, "dear", "over", "8.9")), "waiting", "0")
	sell(t, l, purchase(t, "sold at once", "over", "1", "ann"))
	capture(t, l, "captured", open[0].Number)
	must(t, check.Err(tryReserve(t, l, "in its place", "over", "1")))
	must(t, l.Cancel(t.Context(), "cancel", open[1].Number))
	must(t, check.Err(tryReserve(t, l, "in the place of another", "over", "1")))
	partial := api.ReserveRequest{Key: "partial", Order: purchase(t, "", "zeta", "1", "ann", "bob").Order, For: time.Hour, Partial: true}
	if r := reserve(t, l, partial); len(r.Refused) != 1 || r.Refused[0].Reason != api.Full || r.Objects != 1 {
		t.Errorf("a partial reservation: %+v", r)
	}
	wantClean(t, l, api.VerifyRequest{})
}

// A raise of several parts reserves its entries when it begins.
func TestRaise_OfManyParts_ReservesItsEntries(t *testing.T) {
	l := ledgerWithEntries(t, event.MaxEntries-1)
	others := crowd(state.PartSize)
	enrollUnder(t, l, "vote", market(t, "9"), "9", others...)
	asked := false
	r := raiseOf(t, "raise", "2", append(others, "ann")...)
	r.Truth = func(_ context.Context, _ string, objects []string) ([]string, error) {
		if !asked {
			asked = true
			_, err := l.Sell(t.Context(), purchase(t, "between", "between", "1", "ann"))
			wantFull(t, "another buyer, while the raise runs", err, "waiting", "0")
		}
		return slices.Repeat([]string{"yes"}, len(objects)), nil
	}
	done := raise(t, l, r)
	check.That(t, done.Drawn == len(others)+1 && asked, "%+v", done)
	wantClean(t, l, api.VerifyRequest{})
}

// A log in which a chain or a list of reservations exceeds its limit is corrupt.
func TestApply_AboveLimits_IsCorrupt(t *testing.T) {
	follow := func(l *Ledger, changes ...event.Change) error {
		log := logOf(t, pairs(t, l.engine.Store))
		return replayWhole(&kv.Memory{}, followedBy(withSettled(uint64(len(log))+1, changes)...)(log))
	}
	full := ledgerWithEntries(t, event.MaxEntries)
	level := ledgerWithEntries(t, event.MaxEntries-1)
	raise := &event.Released{Object: "ann", Question: 1, Epsilon: eps(t, "2"), Response: event.Response{Method: event.MethodRaise}}
	must(t, follow(level, raise))
	wantForged(t, follow(full, raise), "the chain would have 1025 entries")
	wantForged(t, follow(full, &event.EpochBegun{Object: "ann", Question: 1}), "its chain would have 1025 entries")
	sale := func(l *Ledger) []event.Change {
		s := stats(t, l)
		deal := event.Deal{Sale: s.Sales + 1, Buyer: uint32(s.Buyers) + 1, Question: 1, Epsilon: eps(t, "1"), Objects: 1, Price: 100}
		sold := &event.Sold{Object: "ann", Sale: deal.Sale, Price: 100, Response: event.Response{Value: recordedValue(t, l), Method: event.MethodResale}}
		return []event.Change{&event.BuyerNamed{Number: deal.Buyer, Name: "forged"}, &event.SaleMade{Deal: deal, Tally: event.SaleTally{Resales: 1}}, sold}
	}
	must(t, follow(level, sale(level)...))
	wantForged(t, follow(full, sale(full)...), "the chain would have 1025 entries")
	l := sellers(t, inMemory(t, Options{Now: epoch}), "9", "9", "ann", "bob")
	for i := range event.MaxReservations - 1 {
		must(t, check.Err(tryReserve(t, l, fmt.Sprint(i), "acme", "1")))
	}
	hold := func(number uint64) []event.Change {
		deal := event.Deal{Sale: number, Buyer: 1, Question: 1, Epsilon: eps(t, "1"), Objects: 1, Price: 100}
		return []event.Change{&event.Reserved{Deal: deal, Expires: epoch().Add(time.Hour)}, &event.Held{Object: "ann", Sale: deal.Sale, Price: 100, Policy: 1}}
	}
	must(t, follow(l, hold(event.MaxReservations)...))
	must(t, check.Err(tryReserve(t, l, "last", "acme", "1")))
	wantForged(t, follow(l, hold(event.MaxReservations+1)...), "it cannot be reserved: object \"ann\": full")
	promised := ledgerWithEntries(t, event.MaxEntries-2)
	must(t, check.Err(tryReserve(t, promised, "promised", "acme", "2")))
	wantForged(t, follow(promised, raiseToThree(t)), "the chain would have 1023 entries, and 2 more for open reservations")
}

func raiseToThree(t *testing.T) event.Change {
	return &event.Released{Object: "ann", Question: 1, Epsilon: eps(t, "3"), Response: event.Response{Method: event.MethodRaise}}
}

// recordedValue returns the response of ann at ε=1.
func recordedValue(t *testing.T, l *Ledger) event.Value {
	at := objectOf(t, l, "ann").Chains[0].Levels[0]
	return event.Value{Index: slices.Index(vote().Values, at.Response)}
}
