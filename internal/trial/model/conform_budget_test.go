package model

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Invariant 2: every draw is checked against the chain's ceiling and the object's cap in the same
// transaction that records it, in integers.

// race makes n calls at once and returns the errors of those that failed.
func race(t testing.TB, n int, call func(i int) error) (failed []error) {
	t.Helper()
	start := make(chan struct{})
	errs := make([]error, n)
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			<-start
			errs[i] = call(i)
		})
	}
	close(start)
	calls.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// wantOverCap fails unless all errors are refusals because of the cap.
func wantOverCap(t testing.TB, failed []error) {
	t.Helper()
	for _, err := range failed {
		r := Refusals(t, err)
		check.That(t, r[0].Reason == api.ObjectCap, "refused for %v", r)
	}
}

// Of 64 buyers who each want a piece of the last tenth of an object's budget, through another
// question each, exactly as many get it as fit.
func TestTheLastBitOfABudgetGoesToNoMoreThanFit(t *testing.T) {
	Anywhere(t, testTheLastBitOfABudgetGoesToNoMoreThanFit)
}

func testTheLastBitOfABudgetGoesToNoMoreThanFit(t *T) {
	const buyers, fit = 64, 3 // 3 × 0.03 ≤ 0.1 < 4 × 0.03
	l := Voters(t, NewLedger(t), "1", "ann")
	for i := range buyers {
		name := fmt.Sprintf("question %d", i)
		Define(t, l, api.Question{Name: name, Values: []string{"yes", "no"}, Encoding: "direct"})
		Enroll(t, l, name, "1", "ann")
	}
	Release(t, l, ReleaseOf(t, "first", "ann", "0.9"))
	failed := race(t, buyers, func(i int) error {
		r := ReleaseOf(t, fmt.Sprint(i), "ann", "0.03")
		r.Question = fmt.Sprintf("question %d", i)
		_, err := l.Release(t.Context(), r)
		return err
	})
	check.That(t, len(failed) == buyers-fit, "%d buyers were refused, want %d", len(failed), buyers-fit)
	wantOverCap(t, failed)
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Spent == Eps(t, "0.99"), "spent %s of 1", o.Spent)
	WantClean(t, l, api.VerifyRequest{})
}

// Of 64 buyers of one question at different ε, all at or below the cap succeed, in whatever order
// they come: within a chain only the highest counts.
func TestBuyersOfOneQuestionPayForTheHighestOnly(t *testing.T) {
	Anywhere(t, testBuyersOfOneQuestionPayForTheHighestOnly)
}

func testBuyersOfOneQuestionPayForTheHighestOnly(t *T) {
	const buyers, fit = 64, 50 // i × 0.02 ≤ 1
	l := Voters(t, NewLedger(t), "1", "ann")
	failed := race(t, buyers, func(i int) error {
		_, err := l.Release(t.Context(), api.ReleaseRequest{
			Key: fmt.Sprint(i), Question: "vote", Object: "ann", Epsilon: Nano(t, int64(i+1)*20_000_000), Truth: SameTruth("no"),
		})
		return err
	})
	check.That(t, len(failed) == buyers-fit, "%d buyers were refused, want %d", len(failed), buyers-fit)
	wantOverCap(t, failed)
	o := ObjectOf(t, l, "ann")
	if o.Spent != Eps(t, "1") || len(o.Chains[0].Levels) != fit {
		t.Errorf("spent %s on %d levels", o.Spent, len(o.Chains[0].Levels))
	}
	WantClean(t, l, api.VerifyRequest{})
}

// In floats 0.1 + 0.2 is more than 0.3.
func TestTwoPartsThatMakeTheWholeFitExactly(t *testing.T) {
	Anywhere(t, testTwoPartsThatMakeTheWholeFitExactly)
}

func testTwoPartsThatMakeTheWholeFitExactly(t *T) {
	l := Voters(t, NewLedger(t), "0.3", "ann")
	Define(t, l, api.Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: "direct"})
	Enroll(t, l, "smoker", "0.3", "ann")
	Release(t, l, ReleaseOf(t, "1", "ann", "0.1"))
	r := ReleaseOf(t, "2", "ann", "0.200000001")
	r.Question = "smoker"
	Unchanged(t, l, func() {
		_, err := l.Release(t.Context(), r)
		wantOverCap(t, []error{err})
	})
	r.Epsilon = Eps(t, "0.2")
	Release(t, l, r)
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Spent == o.Cap && o.Remaining.IsZero(), "spent %s of %s, %s remains", o.Spent, o.Cap, o.Remaining)
}

// A cap, and a ceiling, of every size lets through what it says and not one nano-nat more.
func TestBoundsBindToTheNanoNat(t *testing.T) { Anywhere(t, testBoundsBindToTheNanoNat) }

func testBoundsBindToTheNanoNat(t *T) {
	for _, bound := range []int64{1, 2, 999_999_999, 1_000_000_001, privacy.MaxEpsilon().Nano() - 1, privacy.MaxEpsilon().Nano()} {
		for kind, request := range map[api.Reason]api.EnrollRequest{
			api.ObjectCap:    {Cap: Nano(t, bound)},
			api.ChainCeiling: {Policy: policy.Fixed(Nano(t, bound)), Cap: Boundless()},
		} {
			t.Run(fmt.Sprint(kind, bound), func(t *T) { testBound(t, kind, request, bound) })
		}
	}
}

func testBound(t testing.TB, kind api.Reason, request api.EnrollRequest, bound int64) {
	l := Open(t, ledger.Options{})
	Define(t, l, Vote())
	request.Key, request.Question, request.Objects = "e", "vote", []string{"ann"}
	check.Must(t, check.Err(l.Enroll(t.Context(), request)))
	r := ReleaseOf(t, "r", "ann", "1")
	if bound < privacy.MaxEpsilon().Nano() { // there is no ε above the largest
		r.Epsilon = Nano(t, bound+1)
		refused := Refusals(t, check.Err(l.Release(t.Context(), r)))
		check.That(t, refused[0].Reason == kind, "refused for %v", refused)
	}
	r.Epsilon = Nano(t, bound)
	Release(t, l, r)
	if o := ObjectOf(t, l, "ann"); o.Spent.Nano() != bound {
		t.Errorf("spent %d of %d", o.Spent.Nano(), bound)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Even 1,000 chains cannot add up to more than an object has, nor overflow anything.
func TestSpendingOfManyChainsStopsAtTheLargestCap(t *testing.T) {
	Anywhere(t, testSpendingOfManyChainsStopsAtTheLargestCap)
}

func testSpendingOfManyChainsStopsAtTheLargestCap(t *T) {
	l := Open(t, ledger.Options{})
	for i := range 3 {
		name := fmt.Sprintf("question %d", i)
		Define(t, l, api.Question{Name: name, Values: []string{"yes", "no"}, Encoding: "direct"})
		if _, err := l.Enroll(t.Context(), api.EnrollRequest{Key: name, Question: name, Objects: []string{"ann"}, Cap: Boundless()}); err != nil {
			t.Fatal(err)
		}
		r := ReleaseOf(t, fmt.Sprint("r", i), "ann", []string{"999", "2", "1"}[i])
		r.Question = name
		_, err := l.Release(t.Context(), r)
		if i != 1 {
			check.Must(t, err)
			continue
		}
		want := api.Refusal{Object: "ann", Reason: api.ObjectCap, Ceiling: Eps(t, "1000"), Spent: Eps(t, "999"), Asked: Eps(t, "2"), Cost: Eps(t, "2"), Remaining: Eps(t, "1"), Remedy: "less", Largest: Eps(t, "1")}
		got := Refusals(t, err)[0]
		check.That(t, got == want, "refused for %+v, want %+v", got, want)
	}
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Remaining.IsZero(), "%s remains", o.Remaining)
}

// A policy that allows nothing allows nothing, and no cap makes up for it.
func TestACeilingOfZeroAllowsNothing(t *testing.T) { Anywhere(t, testACeilingOfZeroAllowsNothing) }

func testACeilingOfZeroAllowsNothing(t *T) {
	l := Open(t, ledger.Options{})
	Define(t, l, Vote())
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "e", Question: "vote", Objects: []string{"ann"}, Policy: policy.Fixed(privacy.Epsilon{}), Cap: Boundless()})
	check.Must(t, err)
	_, err = l.Release(t.Context(), api.ReleaseRequest{Key: "r", Question: "vote", Object: "ann", Epsilon: Nano(t, 1), Truth: Never(t)})
	want := api.Refusal{Object: "ann", Reason: api.ChainCeiling, Asked: Nano(t, 1), Cost: Nano(t, 1), Remedy: "nothing"}
	got := Refusals(t, err)[0]
	check.That(t, got == want, "refused for %+v, want %+v", got, want)
}

// An enrolment cannot raise the cap, whoever asks and for whatever question.
func TestEnrollingAgainDoesNotMoveTheCap(t *testing.T) {
	Anywhere(t, testEnrollingAgainDoesNotMoveTheCap)
}

func testEnrollingAgainDoesNotMoveTheCap(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "1", "ann")
	Define(t, l, api.Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: "direct"})
	for _, question := range []string{"vote", "smoker"} {
		Unchanged(t, l, func() {
			_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "more " + question, Question: question, Objects: []string{"ann"}, Cap: Eps(t, "2")})
			got := Refusals(t, err)[0]
			check.That(t, got.Reason == api.CapDiffers, "refused for %v", got)
		})
	}
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "same", Question: "smoker", Objects: []string{"ann"}}) // 0: as it is
	check.Must(t, err)
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Cap == Eps(t, "1") && len(o.Chains) == 2, "%+v", o)
}

func beginEpoch(t testing.TB, l Book, key, object string) {
	t.Helper()
	check.Must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: key, Question: "vote", Object: object}))
}

// Somebody whose value has changed was stuck under a truth key for ever. In a new epoch the new value is drawn from, beside
// what the old one has cost; and the old one is out of reach.
func TestWhoseTruthHasChangedBeginsAnEpoch(t *testing.T) {
	Anywhere(t, testWhoseTruthHasChangedBeginsAnEpoch)
}

func testWhoseTruthHasChangedBeginsAnEpoch(t *T) {
	l := Voters(t, Open(t, ledger.Options{TruthKey: TruthKey()}), "1.5", "ann", "bob")
	old := Release(t, l, ReleaseOf(t, "1", "ann", "1"))
	moved := ReleaseOf(t, "2", "ann", "0.4")
	moved.Truth = SameTruth("no")
	beginEpoch(t, l, "3", "ann")
	again := Release(t, l, moved)
	check.That(t, again.Event > old.Event, "%+v after %+v", again, old)
	sound := moved
	sound.Key, sound.Epsilon = "4", Eps(t, "0.45")
	Release(t, l, sound)
	more := ReleaseOf(t, "5", "ann", "0.5")
	_, err := l.Release(t.Context(), more)
	WantChanged(t, err, "ann") // the new epoch is bound as well
	more.Truth = SameTruth("no")
	again = Release(t, l, more)
	more.Key, more.Epsilon = "6", Eps(t, "0.5001")
	_, err = l.Release(t.Context(), more)
	if r := Refusals(t, err); r[0].Reason != api.ObjectCap || r[0].Spent != Eps(t, "1.5") {
		t.Errorf("refused %+v: both epochs together have spent the cap", r)
	}
	o := ObjectOf(t, l, "ann")
	if c := o.Chains[0]; o.Spent != Eps(t, "1.5") || c.Epoch != 2 || c.Epsilon != Eps(t, "0.5") || len(c.Earlier) != 1 {
		t.Fatalf("%+v", o)
	}
	first := o.Chains[0].Earlier[0]
	if first.Epoch != 1 || first.Epsilon != Eps(t, "1") || len(first.Levels) != 1 || first.Levels[0].Event != old.Event || first.Ended <= old.Event || first.Ended >= again.Event {
		t.Errorf("the first epoch is told as %+v", first)
	}
	repeated := Release(t, l, ReleaseOf(t, "1", "ann", "1"))
	check.That(t, repeated == old, "the old response is read again as %+v", repeated)
	AuditAll(t, l)
}

// The same request does nothing twice; an epoch in which nothing has happened is not ended; and whoever takes no part has none.
func TestEpochsBeginOnce(t *testing.T) { Anywhere(t, testEpochsBeginOnce) }

func testEpochsBeginOnce(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "3", "ann", "bob")
	beginEpoch(t, l, "0", "ann")
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Chains[0].Epoch == 1, "%+v", o)
	Release(t, l, ReleaseOf(t, "1", "ann", "1"))
	for range 3 {
		beginEpoch(t, l, "2", "ann")
	}
	beginEpoch(t, l, "3", "ann")
	if o := ObjectOf(t, l, "ann"); o.Chains[0].Epoch != 2 || o.Spent != Eps(t, "1") || CountKind(Events(t, l), "epoch") != 1 {
		t.Errorf("%+v", o)
	}
	check.Is(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "2", Question: "vote", Object: "bob"}), api.ErrKeyConflict)
	check.Is(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "4", Question: "void", Object: "bob"}), api.ErrUnknown)
	r := Refusals(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "4", Question: "vote", Object: "zoe"}))
	check.That(t, r[0].Reason == api.NotEnrolled, "%+v", r)
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "5", Object: "bob"}))
	if r := Refusals(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "4", Question: "vote", Object: "bob"})); r[0].Reason != api.Withdrawn {
		t.Errorf("%+v", r)
	}
	check.Must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "6", Object: "ann"}))
	check.Is(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "2", Question: "vote", Object: "ann"}), api.ErrForgotten)
	if o := ObjectOf(t, l, "ann"); o.Spent != Eps(t, "1") || o.Chains[0].Answered != Eps(t, "1") || o.Chains[0].Epoch != 1 || o.Chains[0].Earlier != nil {
		t.Errorf("%+v", o)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// What is sold belongs to one epoch: its buyers can read it again, but nothing of it is sold any more, and they pay the full
// price for the next, of which as many may hold a level as before, and unlock what the policy says.
func TestEpochsAreSoldByThemselves(t *testing.T) { Anywhere(t, testEpochsAreSoldByThemselves) }

func testEpochsAreSoldByThemselves(t *T) {
	l := Open(t, ledger.Options{})
	Define(t, l, Vote())
	halves, err := policy.Unlock(Eps(t, "1"), 2)
	check.Must(t, err)
	p, err := policy.Min(Market(t, "1", func(m *policy.Market) { m.Stride, m.Holders = Eps(t, "0.5"), 1 }), halves)
	check.Must(t, err)
	EnrollUnder(t, l, "vote", p, "9", "ann")
	first := Sell(t, l, Purchase(t, "1", "acme", "0.5", "ann"))
	before := Delivered(t, l, first.Number)["ann"]
	r := Purchase(t, "2", "bolt", "0.5", "ann")
	_, err = l.Sell(t.Context(), r)
	got := Refusals(t, err)
	check.That(t, got[0].Reason == api.HoldersFull, "%+v", got)
	beginEpoch(t, l, "3", "ann")
	second := Sell(t, l, r)
	check.That(t, second.Price == first.Price && second.Draws == 1 && second.Upgrades == 0,
		"%+v, before %+v", second, first)
	third := Purchase(t, "4", "acme", "1", "ann")
	if q, err := l.Quote(t.Context(), third.Order); err != nil || q.Upgrades != 0 || q.Draws != 1 {
		t.Errorf("%+v, %v: what acme holds is of the old epoch", q, err)
	}
	Sell(t, l, third)
	now := Delivered(t, l, first.Number)["ann"]
	check.That(t, now == before, "delivered was %+v, now it is %+v", before, now)
	c := ObjectOf(t, l, "ann").Chains[0]
	check.That(t, c.Buyers == 2 && slices.Equal(c.Earlier[0].Levels[0].Buyers, []string{"acme"}), "%+v", c)
	AuditAll(t, l)
}

// What was reserved of somebody ends with the ledgertest.Begin, and holds no budget any more.
func TestAReservationEndsWithTheEpoch(t *testing.T) { Anywhere(t, testAReservationEndsWithTheEpoch) }

func testAReservationEndsWithTheEpoch(t *T) {
	l := Sellers(t, Open(t, ledger.Options{Now: ledgertest.Begin}), "2", "2", "ann", "bob")
	Sell(t, l, Purchase(t, "1", "acme", "0.5", "ann", "bob"))
	held := Reserve(t, l, api.ReserveRequest{Key: "2", Order: Purchase(t, "", "acme", "1.5", "ann", "bob").Order, For: time.Hour})
	beginEpoch(t, l, "3", "ann")
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Held.IsZero() && o.Remaining == Eps(t, "1.5"), "%+v", o)
	Release(t, l, ReleaseOf(t, "4", "ann", "1.5"))
	capture := api.CaptureRequest{Key: "5", Reservation: held.Number, Truth: SameTruth("yes")}
	Unchanged(t, l, func() {
		got := Refusals(t, check.Err(l.Capture(t.Context(), capture)))
		check.That(t, len(got) == 1 && got[0].Object == "ann" && got[0].Reason == api.EpochBegun, "%+v", got)
	})
	capture.Partial = true
	sale := check.Value(l.Capture(t.Context(), capture))(t)
	check.That(t, sale.Objects == 1 && sale.Refund != 0 && sale.Refused[0].Reason == api.EpochBegun, "%+v", sale)
	AuditAll(t, l)
}

// Estimates are about the values of now.
func TestEstimatesCountTheCurrentEpoch(t *testing.T) { Anywhere(t, testEstimatesCountTheCurrentEpoch) }

func testEstimatesCountTheCurrentEpoch(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "9", "ann", "bob")
	CarryOut(t, l, Order(t, "1", "1"))
	beginEpoch(t, l, "2", "ann")
	for _, epsilon := range []string{"0", "1"} {
		got := check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Epsilon: Eps(t, epsilon)}))(t)
		check.That(t, got.N == 1, "ε=%s: %+v", epsilon, got)
	}
	if got := Responses(t, l, "vote", Eps(t, "1")); len(got) != 1 || got["bob"].Event == 0 {
		t.Errorf("%+v", got)
	}
}

// How levels are combined, and what intervals cover, is the caller's choice.
func TestEstimate_PoolAndPopulation_AreUsed(t *testing.T) {
	Anywhere(t, testEstimatePoolAndPopulationAreUsed)
}

func testEstimatePoolAndPopulationAreUsed(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "9", "ann", "bob")
	Release(t, l, ReleaseOf(t, "1", "ann", "1"))
	Release(t, l, ReleaseOf(t, "2", "bob", "0.5"))
	for _, c := range []struct {
		pool, population bool
		method, covers   string
	}{{false, false, "stratified", "panel"}, {true, false, "pooled", "panel"}, {false, true, "stratified", "population"}} {
		got := check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Pool: c.pool, Population: c.population}))(t)
		check.That(t, got.Method == c.method && got.Covers == c.covers, "%+v: %s, %s", c, got.Method, got.Covers)
	}
}

// The calendar goes on, for the new value as for the old one; and whoever withdraws and is back goes on with the epoch.
func TestTheCalendarReleasesInTheNewEpoch(t *testing.T) {
	Anywhere(t, testTheCalendarReleasesInTheNewEpoch)
}

func testTheCalendarReleasesInTheNewEpoch(t *T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := Open(t, ledger.Options{Now: clock.Now})
	Define(t, l, Vote())
	timed := check.Value(policy.Steps(policy.Step{At: ledgertest.Begin(), Ceiling: Eps(t, "0.25")}, policy.Step{At: ledgertest.Begin().Add(time.Hour), Ceiling: Eps(t, "1")}))(t)
	EnrollUnder(t, l, "vote", timed, "9", "ann")
	clock.Set(ledgertest.Begin().Add(2 * time.Hour))
	advance := func(key string) {
		check.Must(t, check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: key, Truth: SameTruth("yes")})))
	}
	advance("1")
	beginEpoch(t, l, "2", "ann")
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "3", Object: "ann"}))
	check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"ann"}, Policy: timed})))
	advance("4")
	o := ObjectOf(t, l, "ann")
	if c := o.Chains[0]; o.Spent != Eps(t, "2") || c.Epoch != 2 || len(c.Levels) != 2 || len(c.Earlier[0].Levels) != 2 {
		t.Errorf("%+v", o)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// What an attacker sees of two epochs are independent chains: the law of both responses is the product of the laws of each,
// so that both together say at most the sum of their ε, and at the full sum if the value is known to be the same. The test
// counts the pairs of 1,000 people.
func TestEpochsAreIndependent(t *testing.T) { Anywhere(t, testEpochsAreIndependent) }

func testEpochsAreIndependent(t *T) {
	const people = 1000
	l := Open(t, ledger.Options{})
	Define(t, l, api.Question{Name: "vote", Values: []string{"yes", "no"}})
	names := Crowd(people)
	Enroll(t, l, "vote", "9", names...)
	CarryOut(t, l, Order(t, "1", "0.5", names...))
	first := Responses(t, l, "vote", Eps(t, "0.5"))
	for _, name := range names {
		beginEpoch(t, l, "epoch of "+name, name)
	}
	CarryOut(t, l, Order(t, "2", "0.5", names...))
	second := Responses(t, l, "vote", Eps(t, "0.5"))
	counts, law := map[[2]bool]int{}, map[[2]bool]float64{}
	for _, name := range names {
		counts[[2]bool{first[name].Value == "yes", second[name].Value == "yes"}]++
	}
	const yes = 0.6224593312018546 // e^0.5/(1+e^0.5)
	of := map[bool]float64{true: yes, false: 1 - yes}
	for a, p := range of {
		for b, q := range of {
			law[[2]bool{a, b}] = p * q
		}
	}
	stattest.Fit(counts, law).Holds(t, "the pairs of responses")
}

// TestWhoseKeyIsLostHoldsNobodyUp carries out what is possible when the host has lost one of its keys: it refuses the chains
// that began with it.
func TestWhoseKeyIsLostHoldsNobodyUp(t *testing.T) { Anywhere(t, testWhoseKeyIsLostHoldsNobodyUp) }

func testWhoseKeyIsLostHoldsNobodyUp(t *T) {
	house := NewHouse(t)
	for _, year := range []string{"2025", "2026"} {
		l := house.Open(t, ledger.Options{NoiseKey: NoiseKeys(year)})
		Define(t, l, Vote())
		EnrollUnder(t, l, "vote", Market(t, "3"), "9", "of "+year)
		check.Must(t, l.Close())
	}
	keys := NoiseKeys("2026")
	keys.Key = func(name string) ([]byte, error) {
		if name == "2025" {
			return nil, nil
		}
		return TheNoiseKey(name), nil
	}
	l := house.Open(t, ledger.Options{NoiseKey: keys})
	refusedFor := func(refused []api.Refusal) {
		t.Helper()
		if len(refused) != 1 || refused[0].Object != "of 2025" || refused[0].Reason != api.NoNoiseKey || refused[0].Remedy != "key" {
			t.Errorf("refused: %v", refused)
		}
	}
	raised := Order(t, "1", "0.5")
	raised.Partial = true
	refusedFor(CarryOut(t, l, raised).Refused)
	bought := Purchase(t, "2", "acme", "1", "of 2025", "of 2026")
	bought.Partial = true
	refusedFor(Sell(t, l, bought).Refused)
	WantClean(t, l, api.VerifyRequest{})
}

// TestAQuoteNeedsNoKey opens a ledger for reading, without its keys: it quotes as one with them.
func TestAQuoteNeedsNoKey(t *testing.T) { Anywhere(t, testAQuoteNeedsNoKey) }

func testAQuoteNeedsNoKey(t *T) {
	house := NewHouse(t)
	l := house.Open(t, ledger.Options{NoiseKey: NoiseKeys("2026")})
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "3"), "9", "ann")
	want := check.Value(l.Quote(t.Context(), Purchase(t, "1", "acme", "1", "ann").Order))(t)
	check.Must(t, l.Close())
	got := check.Value(house.Open(t, ledger.Options{ReadOnly: true}).Quote(t.Context(), Purchase(t, "1", "acme", "1", "ann").Order))(t)
	check.That(t, got.ID == want.ID && got.Objects == 1, "%+v, with the keys %+v", got, want)
}

// TestASweepGoesOnWithoutAKey is [TestWhoseKeyIsLostHoldsNobodyUp] for what comes by itself.
func TestASweepGoesOnWithoutAKey(t *testing.T) { Anywhere(t, testASweepGoesOnWithoutAKey) }

func testASweepGoesOnWithoutAKey(t *T) {
	house := NewHouse(t)
	timed := check.Value(policy.Steps(policy.Step{At: time.Unix(0, 0), Ceiling: Eps(t, "1")}))(t)
	for _, year := range []string{"2025", ""} {
		l := house.Open(t, ledger.Options{NoiseKey: NoiseKeys(year)})
		Define(t, l, Vote())
		EnrollUnder(t, l, "vote", timed, "9", "of <"+year+">")
		check.Must(t, l.Close())
	}
	l := house.Open(t, ledger.Options{})
	done := check.Value(l.Advance(t.Context(), api.AdvanceRequest{Key: "1", Truth: SameTruth("yes")}))(t)
	if one := done.Questions[0]; one.Raised != 1 || len(one.Refused) != 1 || one.Refused[0].Object != "of <2025>" || one.Refused[0].Reason != api.NoNoiseKey {
		t.Errorf("%+v", one)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Faults that the model found.

// partSize is how many objects there are in a part of a large request.
const partSize = 4096

// The same key with the same request returns the same answer (invariant 5), whoever has withdrawn or come
// back since. A request about all computed its panel anew, and reported the answer as lost (ErrCorrupt) or
// the panel as empty (ErrInvalid).
func TestAnAnswerToAllIsRepeatedAfterAWithdrawal(t *testing.T) {
	for name, leave := range map[string][]string{"one": {"bob"}, "all": {"ann", "bob"}} {
		t.Run(name, func(t *testing.T) {
			l := Voters(t, NewLedger(t), "1", "ann", "bob")
			r := Inquire(t, "1", "majority:yes", "0.5", Ballots())
			r.All = true
			before := AnswerTo(t, l, r)
			for _, object := range leave {
				check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "withdraw " + object, Object: object}))
			}
			r.Truth = Never(t)
			after, err := l.Answer(t.Context(), r)
			check.That(t, err == nil && reflect.DeepEqual(after, before),
				"a request came to %+v, and again to %+v, %v", before, after, err)
		})
	}
}

// Whoever comes first must not take all of the budget that is unlocked with orders. A buyer who held a
// level unlocked the rest by orders of lower levels, which cost neither money nor ε.
func TestOrdersThatCostNothingUnlockNothing(t *testing.T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	shares := check.Value(policy.Unlock(Eps(t, "1"), 10))(t)
	p := check.Value(policy.Min(Market(t, "1"), shares))(t)
	EnrollUnder(t, l, "vote", p, "9", "ann")
	Sell(t, l, Purchase(t, "1", "acme", "0.1", "ann"))
	for i := 1; i <= 9; i++ {
		epsilon := fmt.Sprintf("0.0%d", i)
		s := Sell(t, l, Purchase(t, epsilon, "acme", epsilon, "ann"))
		check.Need(t, s.Price == 0 && s.Draws == 0, "a lower level costs %d and %d draws", s.Price, s.Draws)
	}
	c := ObjectOf(t, l, "ann").Chains[0]
	check.That(t, c.Ceiling == Eps(t, "0.1"), "one buyer at ε=0.1 has unlocked %s", c.Ceiling)
}

// What a refusal says helps must help. A partial sale that was held to its quote, and for one object of
// which the host turned out to have no truth, was refused with "a new quote helps"; the new quote was the
// old one, and so on for ever.
func TestAQuotedSaleWithoutATruthAsksForTheTruth(t *testing.T) {
	l := Sellers(t, NewLedger(t), "1", "9", "ann", "bob")
	r := Purchase(t, "1", "acme", "0.5")
	quote := check.Value(l.Quote(t.Context(), r.Order))(t)
	r.QuoteID, r.Partial = quote.ID, true
	r.Truth = func(_ context.Context, _ string, objects []string) ([]string, error) {
		return append([]string{"yes"}, make([]string, len(objects)-1)...), nil // nothing but ann's
	}
	got := Refusals(t, check.Err(l.Sell(t.Context(), r)))
	check.That(t, len(got) == 1 && got[0].Object == "bob" && got[0].Remedy == "truth", "refused %+v", got)
	r.Truth = SameTruth("yes")
	Sell(t, l, r)
}

// Until it expires, what a reservation needs counts as spent for everybody else. The shares that other
// reservations would unlock were counted on while those could still be cancelled: here acme's, on which the
// answer relied, and then bolt's reservation could not be carried out.
func TestNoReservationRestsOnAnother(t *testing.T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	shares, err := policy.Unlock(Eps(t, "1"), 4)
	check.Must(t, err)
	p, err := policy.Min(Market(t, "1"), shares)
	check.Must(t, err)
	EnrollUnder(t, l, "vote", p, "9", "ann")
	Sell(t, l, Purchase(t, "1", "cryo", "0.1", "ann"))
	hold := func(buyer, epsilon string) api.Reservation {
		return Reserve(t, l, api.ReserveRequest{Key: buyer, Order: Purchase(t, "", buyer, epsilon, "ann").Order, For: time.Hour})
	}
	acme, bolt := hold("acme", "0.2"), hold("bolt", "0.5")
	_, err = l.Answer(t.Context(), Inquire(t, "2", "majority:yes", "0.15", Ballots(), "ann"))
	t.Logf("the answer, for which what bolt has reserved leaves nothing: %v", err)
	check.Must(t, l.Cancel(t.Context(), "3", acme.Number))
	Commit(t, l, "4", bolt.Number)
}

// Nor may the share of a reserved order be counted on against what holds without it: here the large raise,
// which unlocks nothing and is then refused in its midst.
func TestAReservedShareIsNoHelpAgainstARaise(t *testing.T) {
	names := Crowd(partSize + 1)
	last := names[partSize]
	l := NewLedger(t)
	Define(t, l, Vote())
	shares := check.Value(policy.Unlock(Eps(t, "1"), 4))(t)
	p := check.Value(policy.Min(Market(t, "1"), shares))(t)
	EnrollUnder(t, l, "vote", p, "9", names...)
	Sell(t, l, Purchase(t, "1", "cryo", "0.1", names...))
	Reserve(t, l, api.ReserveRequest{Key: "2", Order: Purchase(t, "", "acme", "0.2", last).Order, For: time.Hour})
	r, once := Order(t, "3", "0.25", names...), false
	r.Progress = func(int, int) {
		if !once {
			once = true
			Refusals(t, check.Err(l.Answer(t.Context(), Inquire(t, "4", "majority:yes", "0.1", Ballots(), last))))
		}
	}
	CarryOut(t, l, r)
}

// A backup is made at any instant. One made after a new noise key, and before anything else, was damaged data to Verify,
// and so not made.
func TestABackupFollowsOnANewNoiseKey(t *testing.T) {
	for _, compact := range []bool{false, true} {
		moves := []move{moveReopen{opening{Noise: "2026"}}, moveCopy{Compact: compact}, moveRestore{}}
		failure := newTable().play(t, realFiles-1, moves)
		check.That(t, failure == "", "%v", failure)
	}
}

// The event of an epoch is erased with the rest, and names nobody then.
func TestAnEpochIsForgotten(t *testing.T) {
	moves := []move{
		moveEnroll{Question: "vote", Objects: []string{"dot"}, Rule: 0, Cap: milli(300)}, moveRelease{"vote", "dot", milli(100), host{}}, moveEpoch{"vote", "dot"},
		moveRelease{"vote", "dot", milli(100), host{}}, moveForget{"dot"}, moveReturn{"vote", "dot"}, moveRelease{"vote", "dot", milli(50), host{}},
	}
	for seed := range uint64(4) {
		failure := newTable().play(t, seed, moves)
		check.That(t, failure == "", "seed %d: %s", seed, failure)
	}
}
