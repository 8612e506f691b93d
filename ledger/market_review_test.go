package ledger

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
)

// What a review of the market found.

// straight is a calendar of some days from 0 to 1.
func straight(t *testing.T, stride string) policy.Policy {
	t.Helper()
	p, err := policy.Linear(eps(t, "0"), eps(t, "1"), epoch(), epoch().Add(10*24*time.Hour), eps(t, stride))
	must(t, err)
	return p
}

func on(day int) time.Time { return epoch().Add(time.Duration(day) * 24 * time.Hour) }

// However late ctx ends, an error means that nothing was sold.
func TestASaleIsToldWhenItIsMade(t *testing.T) {
	calls, end, cancel := 0, 0, func() {}
	l := inMemory(t, Options{Now: func() time.Time {
		if calls++; calls == end {
			cancel()
		}
		return epoch()
	}})
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, "2"), "9", "ann")
	for end = 1; end < 8; end++ {
		var ctx context.Context
		ctx, cancel = context.WithCancel(t.Context())
		before := stats(t, l).Sales
		calls = 0
		r := purchase(t, fmt.Sprint(end), "acme", fmt.Sprint("0.", end), "ann")
		s, err := l.Sell(ctx, r)
		calls = 100
		if made := stats(t, l).Sales - before; (err == nil) != (made == 1) || err == nil && s.Objects != 1 {
			t.Errorf("ctx ended at look %d at the clock: %d sales made, and %+v, %v", end, made, s, err)
		}
		cancel()
	}
}

// A sweep does not depend on how often it runs, also where a part of the policy waits for orders.
func TestSweepsBesideAPolicyThatWaitsForOrders(t *testing.T) {
	run := func(days ...int) []string {
		clock := newClock(epoch())
		l := inMemory(t, Options{Now: clock.read})
		shares, err := policy.Unlock(eps(t, "1"), 10)
		must(t, err)
		both, err := policy.Sum(shares, straight(t, "0.1"))
		must(t, err)
		define(t, l, vote())
		define(t, l, smoker())
		enrollUnder(t, l, "vote", both, "1", "ann", "bob")
		enrollUnder(t, l, "smoker", straight(t, "0.1"), "1", "ann")
		for _, day := range days {
			clock.set(on(day))
			_, err := l.Advance(t.Context(), AdvanceRequest{Key: fmt.Sprint(day), Truth: TruthOf("yes")})
			must(t, err)
		}
		var out []string
		for _, name := range []string{"ann", "bob"} {
			for _, c := range objectOf(t, l, name).Chains {
				out = append(out, c.Epsilon.String())
			}
		}
		return out
	}
	once, daily := run(10), run(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	if !reflect.DeepEqual(once, daily) || once[2] != "1" {
		t.Errorf("once %v, daily %v", once, daily)
	}
}

// However many levels there are to catch up with, each truth is asked for once.
func TestASweepAsksOnce(t *testing.T) {
	clock := newClock(epoch())
	l := open(t, create(t), Options{Now: clock.read})
	define(t, l, vote())
	names := crowd(1500)
	enrollUnder(t, l, "vote", straight(t, "0.05"), "9", names...)
	clock.set(time.Now().Add(20 * 24 * time.Hour)) // a new file begins with the clock of the machine
	asked := 0
	result, err := l.Advance(t.Context(), AdvanceRequest{Key: "day", Truth: func(ctx context.Context, q string, objects []string) ([]string, error) {
		asked += len(objects)
		return TruthOf("yes")(ctx, q, objects)
	}})
	must(t, err)
	if asked != len(names) || result.Questions[0].Raised != len(names) {
		t.Errorf("%d truths asked for %d objects: %+v", asked, len(names), result)
	}
	if n := len(responses(t, l, "vote", eps(t, "0.95"))); n != len(names) {
		t.Errorf("%d of %d have the last level but one", n, len(names))
	}
}

// Whoever has another truth than before is left out of a sweep and holds nobody up.
func TestASweepLeavesOutWhoHasChanged(t *testing.T) {
	clock := newClock(epoch())
	l := inMemory(t, Options{Now: clock.read, TruthKey: truthKey()})
	define(t, l, vote())
	enrollUnder(t, l, "vote", straight(t, "0.1"), "9", "ann", "bob")
	for day, truth := range []TruthFunc{nil, listOf("yes", "yes"), listOf("no", "yes")} {
		clock.set(on(day))
		result, err := l.Advance(t.Context(), AdvanceRequest{Key: fmt.Sprint(day), Truth: truth})
		must(t, err)
		if one := result.Questions[0]; day == 2 && (one.Raised != 1 || len(one.Refused) != 1 || one.Refused[0] != (Refusal{Object: "ann", Reason: NoTruth, Asked: eps(t, "0.2"), Remedy: vocabulary.RemedyTruth, Largest: eps(t, "0.1")}) || !slices.Equal(one.TruthChanged, []string{"ann"})) {
			t.Errorf("%+v", one)
		}
	}
	if o := objectOf(t, l, "ann"); o.Spent != eps(t, "0.1") {
		t.Errorf("ann has spent %s", o.Spent)
	}
	auditStore(t, l.engine.Store)
}

// A reservation brings the share that its order unlocks, and takes nothing that others have without it.
func TestAReservationBringsItsShare(t *testing.T) {
	shares, err := policy.Unlock(eps(t, "0.5"), 5)
	must(t, err)
	both, err := policy.Sum(shares, policy.Fixed(eps(t, "0.5")))
	must(t, err)
	p, err := policy.Min(both, market(t, "2"))
	must(t, err)
	l := newLedger(t)
	define(t, l, vote())
	enrollUnder(t, l, "vote", p, "9", "ann")
	r := reserve(t, l, ReserveRequest{Key: "r", Order: Order{Buyer: "acme", Question: "vote", Epsilon: eps(t, "0.6"), Objects: []string{"ann"}}, For: time.Hour})
	release(t, l, releaseOf(t, "host", "ann", "0.5"))
	if _, err := l.Release(t.Context(), releaseOf(t, "more", "ann", "0.500000001")); refusals(t, err)[0].Reason != ChainCeiling {
		t.Errorf("got the error %v", err)
	}
	if s := commit(t, l, "c", r.Number); s.Draws != 1 {
		t.Errorf("%+v", s)
	}
	auditStore(t, l.engine.Store)
}

// Who withdraws takes back what was reserved of it, also by coming back.
func TestAReservationEndsWithAWithdrawal(t *testing.T) {
	l := newLedger(t)
	define(t, l, vote())
	define(t, l, smoker())
	back := func(question string) { enrollUnder(t, l, question, market(t, "2"), "1", "ann") }
	back("vote")
	back("smoker")
	r := reserve(t, l, ReserveRequest{Key: "r", Order: Order{Buyer: "acme", Question: "vote", Epsilon: eps(t, "1"), Objects: []string{"ann"}}, For: time.Hour})
	must(t, l.Withdraw(t.Context(), "w", "ann"))
	enroll := func(key, question string) {
		_, err := l.Enroll(t.Context(), EnrollRequest{Key: key, Question: question, Objects: []string{"ann"}, Policy: market(t, "2")})
		must(t, err)
	}
	enroll("back", "smoker")
	if o := objectOf(t, l, "ann"); !o.Held.IsZero() {
		t.Errorf("%s is held of who has withdrawn", o.Held)
	}
	sell(t, l, SellRequest{Key: "s", Order: Order{Buyer: "zeta", Question: "smoker", Epsilon: eps(t, "0.5"), Objects: []string{"ann"}}, Truth: TruthOf("yes")})
	enroll("again", "vote")
	_, err := l.Capture(t.Context(), CaptureRequest{Key: "c", Reservation: r.Number, Truth: never(t)})
	if got := refusals(t, err); got[0].Reason != Withdrawn || got[0].Remedy != vocabulary.RemedyNothing {
		t.Errorf("got the error %v", err)
	}
	auditStore(t, l.engine.Store)
}

// Whoever has no truth costs nothing, and so does not break a limit; and no waiting helps against a cap.
func TestLimitsAreThoseOfWhatIsSold(t *testing.T) {
	l := newLedger(t)
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, "2"), "9", "ann", "bob")
	r := purchase(t, "1", "acme", "0.5", "ann", "bob")
	one, err := l.Quote(t.Context(), Order{Buyer: "acme", Question: "vote", Epsilon: eps(t, "0.5"), Objects: []string{"ann"}})
	must(t, err)
	r.Partial, r.MaxPrice, r.Truth = true, &one.Price, listOf("yes", "")
	if s := sell(t, l, r); s.Price != one.Price || len(s.Refused) != 1 {
		t.Errorf("%+v", s)
	}
	clock := newClock(epoch())
	late := inMemory(t, Options{Now: clock.read})
	define(t, late, vote())
	enrollUnder(t, late, "vote", straight(t, "0.1"), "0.5", "ann")
	_, err = late.Release(t.Context(), releaseOf(t, "k", "ann", "0.9"))
	if got := refusals(t, err); got[0].Reason != ChainCeiling || got[0].Remedy != vocabulary.RemedyNothing {
		t.Errorf("got the error %v", err)
	}
}

// Whether there is anybody may change; a request for all who take part is not wrong for ever.
func TestNobodyYet(t *testing.T) {
	l := newLedger(t)
	define(t, l, vote())
	r := purchase(t, "1", "acme", "0.5")
	if _, err := l.Sell(t.Context(), r); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrInvalid) {
		t.Errorf("got the error %v", err)
	}
	enrollUnder(t, l, "vote", market(t, "2"), "9", "ann")
	sell(t, l, r)
	for _, broken := range []string{"a\uFFFDb"} {
		if _, err := l.Sell(t.Context(), purchase(t, "2", broken, "0.5", "ann")); !errors.Is(err, ErrInvalid) {
			t.Errorf("the buyer %q is served: %v", broken, err)
		}
	}
}

// A sale is one transaction, however many parts a raise of the same objects would have. What is held is not
// given up in part, and what cannot be delivered is refunded, nothing else.
func TestALargeSaleIsOneCommit(t *testing.T) {
	l, s := openShim(t, create(t), Options{})
	define(t, l, vote())
	names := crowd(state.PartSize + 1)
	enrollUnder(t, l, "vote", market(t, "2"), "9", names...)
	o := purchase(t, "", "acme", "0.5", names...)
	before := s.commits.Load()
	r := reserve(t, l, ReserveRequest{Key: "r", Order: o.Order, For: time.Hour})
	if n := s.commits.Load() - before; n != 1 || r.Objects != uint64(len(names)) {
		t.Errorf("%d commits for a reservation of %d objects", n, r.Objects)
	}
	must(t, l.Withdraw(t.Context(), "w", names[7]))
	before = s.commits.Load()
	_, err := l.Capture(t.Context(), CaptureRequest{Key: "whole", Reservation: r.Number, Truth: TruthOf("yes")})
	if got := refusals(t, err); len(got) != 1 || got[0].Object != names[7] || got[0].Reason != Withdrawn {
		t.Errorf("got the error %v", err)
	}
	sold, err := l.Capture(t.Context(), CaptureRequest{Key: "part", Reservation: r.Number, Partial: true, Truth: TruthOf("yes")})
	must(t, err)
	each := r.Price / int64(len(names))
	if n := s.commits.Load() - before; n != 1 || sold.Objects != r.Objects-1 || sold.Price != r.Price-each || sold.Refund != each {
		t.Errorf("%d commits for %+v", n, sold)
	}
	before = s.commits.Load()
	again := purchase(t, "again", "zeta", "0.25", names...)
	again.Partial, again.Truth = true, never(t)
	if made := sell(t, l, again); s.commits.Load()-before != 1 || made.Degradations != sold.Objects || made.Refund != 0 {
		t.Errorf("%d commits for %+v", s.commits.Load()-before, made)
	}
	auditStore(t, l.engine.Store)
}

// Who withdraws and comes back finds everything spent that was spent.
func TestComingBackRestoresNoBudget(t *testing.T) {
	l := newLedger(t)
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, "2"), "1", "ann")
	sell(t, l, purchase(t, "1", "acme", "0.75", "ann"))
	must(t, l.Withdraw(t.Context(), "w", "ann"))
	for name, call := range map[string]func() error{
		"a resale": func() error { _, err := l.Sell(t.Context(), purchase(t, "2", "zeta", "0.75", "ann")); return err },
		"a draw":   func() error { _, err := l.Release(t.Context(), releaseOf(t, "3", "ann", "1")); return err },
		"an answer": func() error {
			_, err := l.Answer(t.Context(), inquire(t, "4", "majority:yes", "0.1", never(t), "ann"))
			return err
		},
	} {
		if got := refusals(t, call()); got[0].Reason != Withdrawn || got[0].Remedy != vocabulary.RemedyEnrolling {
			t.Errorf("%s of who has withdrawn: %+v", name, got)
		}
	}
	_, err := l.Enroll(t.Context(), EnrollRequest{Key: "back", Question: "vote", Objects: []string{"ann"}, Policy: market(t, "2"), Cap: eps(t, "1")})
	must(t, err)
	if o := objectOf(t, l, "ann"); o.Spent != eps(t, "0.75") || len(o.Chains[0].Levels) != 1 {
		t.Errorf("%+v", o)
	}
	_, err = l.Sell(t.Context(), purchase(t, "5", "zeta", "1.000000001", "ann"))
	if got := refusals(t, err); got[0].Reason != ObjectCap || got[0].Remaining != eps(t, "0.25") {
		t.Errorf("got %+v", got)
	}
}

// A trade of more objects than are looked at together leaves out whom it must, wherever they stand, and is the same for all
// as for a list of their names.
func TestALargeTradeLooksAtEverybody(t *testing.T) {
	const some = 2*state.PartSize + 5
	names := crowd(some)
	l := sellers(t, newLedger(t), "10", "10", names...)
	spent, gone := names[state.PartSize], []string{names[0], names[state.PartSize-1], names[some-1]}
	for _, name := range gone {
		must(t, l.Withdraw(t.Context(), "withdraw "+name, name))
	}
	sell(t, l, purchase(t, "before", "zeta", "4", spent))
	all := purchase(t, "all", "acme", "2")
	quote, err := l.Quote(t.Context(), all.Order)
	must(t, err)
	if quote.Objects != some-3 || quote.Draws != some-4 || quote.Degradations != 1 || len(quote.Refused) != 0 {
		t.Errorf("a quote for %d objects, of them %d draws and %d degradations; %d refused", quote.Objects, quote.Draws, quote.Degradations, len(quote.Refused))
	}
	named := purchase(t, "named", "acme", "2", names...)
	named.Partial = true
	partial, err := l.Quote(t.Context(), named.Order)
	must(t, err)
	if partial.Objects != some-3 || len(partial.Refused) != 3 || partial.Price != quote.Price {
		t.Errorf("by name, %d objects at %d, and %d are refused; for all, it is %d", partial.Objects, partial.Price, len(partial.Refused), quote.Price)
	}
	for i, r := range partial.Refused {
		if r.Object != gone[i] {
			t.Errorf("refused: %s, want %s", r.Object, gone[i])
		}
	}
	if first := sell(t, l, all); first.Objects != some-3 || first.Price != quote.Price {
		t.Errorf("%d objects were sold at %d", first.Objects, first.Price)
	}
	if second := sell(t, l, named); second.Objects != some-3 || second.Price != 0 || second.Resales != some-3 {
		t.Errorf("%d objects were sold again at %d, %d as they were", second.Objects, second.Price, second.Resales)
	}
	reserved, err := l.Reserve(t.Context(), ReserveRequest{Key: "reserve", Order: Order{Buyer: "hooli", Question: "vote", Epsilon: eps(t, "3"), All: true}, For: time.Hour})
	must(t, err)
	if reserved.Objects != some-3 {
		t.Errorf("%d objects are reserved", reserved.Objects)
	}
	wantClean(t, l, VerifyRequest{})
}
