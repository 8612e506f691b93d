package model

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
)

func beginEpoch(t testing.TB, l Book, key, object string) {
	t.Helper()
	Must(t, l.BeginEpoch(t.Context(), key, "vote", object))
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
	if again.Event <= old.Event {
		t.Errorf("%+v after %+v", again, old)
	}
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
	if repeated := Release(t, l, ReleaseOf(t, "1", "ann", "1")); repeated != old {
		t.Errorf("the old response is read again as %+v", repeated)
	}
	AuditAll(t, l)
	WantClean(t, l, api.VerifyRequest{})
}

// The same request does nothing twice; an epoch in which nothing has happened is not ended; and whoever takes no part has none.
func TestEpochsBeginOnce(t *testing.T) { Anywhere(t, testEpochsBeginOnce) }

func testEpochsBeginOnce(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "3", "ann", "bob")
	beginEpoch(t, l, "0", "ann")
	if o := ObjectOf(t, l, "ann"); o.Chains[0].Epoch != 1 {
		t.Errorf("%+v", o)
	}
	Release(t, l, ReleaseOf(t, "1", "ann", "1"))
	for range 3 {
		beginEpoch(t, l, "2", "ann")
	}
	beginEpoch(t, l, "3", "ann")
	if o := ObjectOf(t, l, "ann"); o.Chains[0].Epoch != 2 || o.Spent != Eps(t, "1") || CountKind(Events(t, l), "epoch") != 1 {
		t.Errorf("%+v", o)
	}
	WantErr(t, l.BeginEpoch(t.Context(), "2", "vote", "bob"), api.ErrKeyConflict)
	WantErr(t, l.BeginEpoch(t.Context(), "4", "void", "bob"), api.ErrUnknown)
	if r := Refusals(t, l.BeginEpoch(t.Context(), "4", "vote", "zoe")); r[0].Reason != api.NotEnrolled {
		t.Errorf("%+v", r)
	}
	Must(t, l.Withdraw(t.Context(), "5", "bob"))
	if r := Refusals(t, l.BeginEpoch(t.Context(), "4", "vote", "bob")); r[0].Reason != api.Withdrawn {
		t.Errorf("%+v", r)
	}
	Must(t, l.Forget(t.Context(), "6", "ann"))
	WantErr(t, l.BeginEpoch(t.Context(), "2", "vote", "ann"), api.ErrForgotten)
	if o := ObjectOf(t, l, "ann"); o.Spent != Eps(t, "1") || o.Chains[0].Answered != Eps(t, "1") || o.Chains[0].Epoch != 1 || o.Chains[0].Earlier != nil {
		t.Errorf("%+v", o)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// What is sold belongs to one epoch: its buyers can read it again, but nothing of it is sold any more, and they pay the full
// price for the next, of which as many may hold a level as before, and unlock what the policy says.
func TestEpochsAreSoldByThemselves(t *testing.T) {
	Anywhere(t, testEpochsAreSoldByThemselves)
}

func testEpochsAreSoldByThemselves(t *T) {
	l := Open(t, ledger.Options{})
	Define(t, l, Vote())
	halves, err := policy.Unlock(Eps(t, "1"), 2)
	Must(t, err)
	p, err := policy.Min(Market(t, "1", func(m *policy.Market) { m.Stride, m.Holders = Eps(t, "0.5"), 1 }), halves)
	Must(t, err)
	EnrollUnder(t, l, "vote", p, "9", "ann")
	first := Sell(t, l, Purchase(t, "1", "acme", "0.5", "ann"))
	before := Delivered(t, l, first.Number)["ann"]
	r := Purchase(t, "2", "bolt", "0.5", "ann")
	_, err = l.Sell(t.Context(), r)
	if got := Refusals(t, err); got[0].Reason != api.HoldersFull {
		t.Errorf("%+v", got)
	}
	beginEpoch(t, l, "3", "ann")
	second := Sell(t, l, r)
	if second.Price != first.Price || second.Draws != 1 || second.Upgrades != 0 {
		t.Errorf("%+v, before %+v", second, first)
	}
	third := Purchase(t, "4", "acme", "1", "ann")
	if q, err := l.Quote(t.Context(), third.Order); err != nil || q.Upgrades != 0 || q.Draws != 1 {
		t.Errorf("%+v, %v: what acme holds is of the old epoch", q, err)
	}
	Sell(t, l, third)
	if now := Delivered(t, l, first.Number)["ann"]; now != before {
		t.Errorf("delivered was %+v, now it is %+v", before, now)
	}
	if c := ObjectOf(t, l, "ann").Chains[0]; c.Buyers != 2 || !slices.Equal(c.Earlier[0].Levels[0].Buyers, []string{"acme"}) {
		t.Errorf("%+v", c)
	}
	AuditAll(t, l)
	WantClean(t, l, api.VerifyRequest{})
}

// What was reserved of somebody ends with the ledgertest.Begin, and holds no budget any more.
func TestAReservationEndsWithTheEpoch(t *testing.T) {
	Anywhere(t, testAReservationEndsWithTheEpoch)
}

func testAReservationEndsWithTheEpoch(t *T) {
	l := Sellers(t, Open(t, ledger.Options{Now: ledgertest.Begin}), "2", "2", "ann", "bob")
	Sell(t, l, Purchase(t, "1", "acme", "0.5", "ann", "bob"))
	held := Reserve(t, l, api.ReserveRequest{Key: "2", Order: Purchase(t, "", "acme", "1.5", "ann", "bob").Order, For: time.Hour})
	beginEpoch(t, l, "3", "ann")
	if o := ObjectOf(t, l, "ann"); !o.Held.IsZero() || o.Remaining != Eps(t, "1.5") {
		t.Errorf("%+v", o)
	}
	Release(t, l, ReleaseOf(t, "4", "ann", "1.5"))
	capture := api.CaptureRequest{Key: "5", Reservation: held.Number, Truth: SameTruth("yes")}
	Unchanged(t, l, func() {
		_, err := l.Capture(t.Context(), capture)
		if got := Refusals(t, err); len(got) != 1 || got[0].Object != "ann" || got[0].Reason != api.EpochBegun {
			t.Errorf("%+v", got)
		}
	})
	capture.Partial = true
	sale, err := l.Capture(t.Context(), capture)
	Must(t, err)
	if sale.Objects != 1 || sale.Refund == 0 || sale.Refused[0].Reason != api.EpochBegun {
		t.Errorf("%+v", sale)
	}
	AuditAll(t, l)
}

// Estimates are about the values of now.
func TestEstimatesCountTheCurrentEpoch(t *testing.T) {
	Anywhere(t, testEstimatesCountTheCurrentEpoch)
}

func testEstimatesCountTheCurrentEpoch(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "9", "ann", "bob")
	CarryOut(t, l, Order(t, "1", "1"))
	beginEpoch(t, l, "2", "ann")
	for _, epsilon := range []string{"0", "1"} {
		got, err := l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Epsilon: Eps(t, epsilon)})
		Must(t, err)
		if got.N != 1 {
			t.Errorf("ε=%s: %+v", epsilon, got)
		}
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
		got, err := l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Pool: c.pool, Population: c.population})
		Must(t, err)
		if got.Method != c.method || got.Covers != c.covers {
			t.Errorf("%+v: %s, %s", c, got.Method, got.Covers)
		}
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
	timed, err := policy.Steps(policy.Step{At: ledgertest.Begin(), Ceiling: Eps(t, "0.25")}, policy.Step{At: ledgertest.Begin().Add(time.Hour), Ceiling: Eps(t, "1")})
	Must(t, err)
	EnrollUnder(t, l, "vote", timed, "9", "ann")
	clock.Set(ledgertest.Begin().Add(2 * time.Hour))
	advance := func(key string) {
		_, err := l.Advance(t.Context(), api.AdvanceRequest{Key: key, Truth: SameTruth("yes")})
		Must(t, err)
	}
	advance("1")
	beginEpoch(t, l, "2", "ann")
	Must(t, l.Withdraw(t.Context(), "3", "ann"))
	_, err = l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"ann"}, Policy: timed})
	Must(t, err)
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
func TestEpochsAreIndependent(t *testing.T) {
	Anywhere(t, testEpochsAreIndependent)
}

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
