package model

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/trial/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
)

func beginEpoch(t testing.TB, l kit.Book, key, object string) {
	t.Helper()
	kit.Must(t, l.BeginEpoch(t.Context(), key, "vote", object))
}

// Somebody whose value has changed was stuck under a truth key for ever. In a new epoch the new value is drawn from, beside
// what the old one has cost; and the old one is out of reach.
func TestWhoseTruthHasChangedBeginsAnEpoch(t *testing.T) {
	kit.Anywhere(t, testWhoseTruthHasChangedBeginsAnEpoch)
}

func testWhoseTruthHasChangedBeginsAnEpoch(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{TruthKey: kit.TruthKey()}), "1.5", "ann", "bob")
	old := kit.Release(t, l, kit.ReleaseOf(t, "1", "ann", "1"))
	moved := kit.ReleaseOf(t, "2", "ann", "0.4")
	moved.Truth = kit.SameTruth("no")
	beginEpoch(t, l, "3", "ann")
	again := kit.Release(t, l, moved)
	if again.Event <= old.Event {
		t.Errorf("%+v after %+v", again, old)
	}
	sound := moved
	sound.Key, sound.Epsilon = "4", kit.Eps(t, "0.45")
	kit.Release(t, l, sound)
	more := kit.ReleaseOf(t, "5", "ann", "0.5")
	_, err := l.Release(t.Context(), more)
	kit.WantChanged(t, err, "ann") // the new epoch is bound as well
	more.Truth = kit.SameTruth("no")
	again = kit.Release(t, l, more)
	more.Key, more.Epsilon = "6", kit.Eps(t, "0.5001")
	_, err = l.Release(t.Context(), more)
	if r := kit.Refusals(t, err); r[0].Reason != ledger.ObjectCap || r[0].Spent != kit.Eps(t, "1.5") {
		t.Errorf("refused %+v: both epochs together have spent the cap", r)
	}
	o := kit.ObjectOf(t, l, "ann")
	if c := o.Chains[0]; o.Spent != kit.Eps(t, "1.5") || c.Epoch != 2 || c.Epsilon != kit.Eps(t, "0.5") || len(c.Earlier) != 1 {
		t.Fatalf("%+v", o)
	}
	first := o.Chains[0].Earlier[0]
	if first.Epoch != 1 || first.Epsilon != kit.Eps(t, "1") || len(first.Levels) != 1 || first.Levels[0].Event != old.Event || first.Ended <= old.Event || first.Ended >= again.Event {
		t.Errorf("the first epoch is told as %+v", first)
	}
	if repeated := kit.Release(t, l, kit.ReleaseOf(t, "1", "ann", "1")); repeated != old {
		t.Errorf("the old response is read again as %+v", repeated)
	}
	kit.AuditAll(t, l)
	kit.WantClean(t, l, ledger.VerifyRequest{})
}

// The same request does nothing twice; an epoch in which nothing has happened is not ended; and whoever takes no part has none.
func TestEpochsBeginOnce(t *testing.T) { kit.Anywhere(t, testEpochsBeginOnce) }

func testEpochsBeginOnce(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "3", "ann", "bob")
	beginEpoch(t, l, "0", "ann")
	if o := kit.ObjectOf(t, l, "ann"); o.Chains[0].Epoch != 1 {
		t.Errorf("%+v", o)
	}
	kit.Release(t, l, kit.ReleaseOf(t, "1", "ann", "1"))
	for range 3 {
		beginEpoch(t, l, "2", "ann")
	}
	beginEpoch(t, l, "3", "ann")
	if o := kit.ObjectOf(t, l, "ann"); o.Chains[0].Epoch != 2 || o.Spent != kit.Eps(t, "1") || kit.CountKind(kit.Events(t, l), "epoch") != 1 {
		t.Errorf("%+v", o)
	}
	kit.WantErr(t, l.BeginEpoch(t.Context(), "2", "vote", "bob"), ledger.ErrKeyConflict)
	kit.WantErr(t, l.BeginEpoch(t.Context(), "4", "void", "bob"), ledger.ErrUnknown)
	if r := kit.Refusals(t, l.BeginEpoch(t.Context(), "4", "vote", "zoe")); r[0].Reason != ledger.NotEnrolled {
		t.Errorf("%+v", r)
	}
	kit.Must(t, l.Withdraw(t.Context(), "5", "bob"))
	if r := kit.Refusals(t, l.BeginEpoch(t.Context(), "4", "vote", "bob")); r[0].Reason != ledger.Withdrawn {
		t.Errorf("%+v", r)
	}
	kit.Must(t, l.Forget(t.Context(), "6", "ann"))
	kit.WantErr(t, l.BeginEpoch(t.Context(), "2", "vote", "ann"), ledger.ErrForgotten)
	if o := kit.ObjectOf(t, l, "ann"); o.Spent != kit.Eps(t, "1") || o.Chains[0].Answered != kit.Eps(t, "1") || o.Chains[0].Epoch != 1 || o.Chains[0].Earlier != nil {
		t.Errorf("%+v", o)
	}
	kit.WantClean(t, l, ledger.VerifyRequest{})
}

// What is sold belongs to one epoch: its buyers can read it again, but nothing of it is sold any more, and they pay the full
// price for the next, of which as many may hold a level as before, and unlock what the policy says.
func TestEpochsAreSoldByThemselves(t *testing.T) {
	kit.Anywhere(t, testEpochsAreSoldByThemselves)
}

func testEpochsAreSoldByThemselves(t *kit.T) {
	l := kit.Open(t, ledger.Options{})
	kit.Define(t, l, kit.Vote())
	halves, err := policy.Unlock(kit.Eps(t, "1"), 2)
	kit.Must(t, err)
	p, err := policy.Min(kit.Market(t, "1", func(m *policy.Market) { m.Stride, m.Holders = kit.Eps(t, "0.5"), 1 }), halves)
	kit.Must(t, err)
	kit.EnrollUnder(t, l, "vote", p, "9", "ann")
	first := kit.Sell(t, l, kit.Purchase(t, "1", "acme", "0.5", "ann"))
	before := kit.Delivered(t, l, first.Number)["ann"]
	r := kit.Purchase(t, "2", "bolt", "0.5", "ann")
	_, err = l.Sell(t.Context(), r)
	if got := kit.Refusals(t, err); got[0].Reason != ledger.HoldersFull {
		t.Errorf("%+v", got)
	}
	beginEpoch(t, l, "3", "ann")
	second := kit.Sell(t, l, r)
	if second.Price != first.Price || second.Draws != 1 || second.Upgrades != 0 {
		t.Errorf("%+v, before %+v", second, first)
	}
	third := kit.Purchase(t, "4", "acme", "1", "ann")
	if q, err := l.Quote(t.Context(), third.Order); err != nil || q.Upgrades != 0 || q.Draws != 1 {
		t.Errorf("%+v, %v: what acme holds is of the old epoch", q, err)
	}
	kit.Sell(t, l, third)
	if now := kit.Delivered(t, l, first.Number)["ann"]; now != before {
		t.Errorf("delivered was %+v, now it is %+v", before, now)
	}
	if c := kit.ObjectOf(t, l, "ann").Chains[0]; c.Buyers != 2 || !slices.Equal(c.Earlier[0].Levels[0].Buyers, []string{"acme"}) {
		t.Errorf("%+v", c)
	}
	kit.AuditAll(t, l)
	kit.WantClean(t, l, ledger.VerifyRequest{})
}

// What was reserved of somebody ends with the ledgertest.Begin, and holds no budget any more.
func TestAReservationEndsWithTheEpoch(t *testing.T) {
	kit.Anywhere(t, testAReservationEndsWithTheEpoch)
}

func testAReservationEndsWithTheEpoch(t *kit.T) {
	l := kit.Sellers(t, kit.Open(t, ledger.Options{Now: ledgertest.Begin}), "2", "2", "ann", "bob")
	kit.Sell(t, l, kit.Purchase(t, "1", "acme", "0.5", "ann", "bob"))
	held := kit.Reserve(t, l, ledger.ReserveRequest{Key: "2", Order: kit.Purchase(t, "", "acme", "1.5", "ann", "bob").Order, For: time.Hour})
	beginEpoch(t, l, "3", "ann")
	if o := kit.ObjectOf(t, l, "ann"); !o.Held.IsZero() || o.Remaining != kit.Eps(t, "1.5") {
		t.Errorf("%+v", o)
	}
	kit.Release(t, l, kit.ReleaseOf(t, "4", "ann", "1.5"))
	capture := ledger.CaptureRequest{Key: "5", Reservation: held.Number, Truth: kit.SameTruth("yes")}
	kit.Unchanged(t, l, func() {
		_, err := l.Capture(t.Context(), capture)
		if got := kit.Refusals(t, err); len(got) != 1 || got[0].Object != "ann" || got[0].Reason != ledger.EpochBegun {
			t.Errorf("%+v", got)
		}
	})
	capture.Partial = true
	sale, err := l.Capture(t.Context(), capture)
	kit.Must(t, err)
	if sale.Objects != 1 || sale.Refund == 0 || sale.Refused[0].Reason != ledger.EpochBegun {
		t.Errorf("%+v", sale)
	}
	kit.AuditAll(t, l)
}

// Estimates are about the values of now.
func TestEstimatesCountTheCurrentEpoch(t *testing.T) {
	kit.Anywhere(t, testEstimatesCountTheCurrentEpoch)
}

func testEstimatesCountTheCurrentEpoch(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "9", "ann", "bob")
	kit.CarryOut(t, l, kit.Order(t, "1", "1"))
	beginEpoch(t, l, "2", "ann")
	for _, epsilon := range []string{"0", "1"} {
		got, err := l.Estimate(t.Context(), ledger.EstimateRequest{Question: "vote", Epsilon: kit.Eps(t, epsilon)})
		kit.Must(t, err)
		if got.N != 1 {
			t.Errorf("ε=%s: %+v", epsilon, got)
		}
	}
	if got := kit.Responses(t, l, "vote", kit.Eps(t, "1")); len(got) != 1 || got["bob"].Event == 0 {
		t.Errorf("%+v", got)
	}
}

// How levels are combined, and what intervals cover, is the caller's choice.
func TestEstimate_PoolAndPopulation_AreUsed(t *testing.T) {
	kit.Anywhere(t, testEstimatePoolAndPopulationAreUsed)
}

func testEstimatePoolAndPopulationAreUsed(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "9", "ann", "bob")
	kit.Release(t, l, kit.ReleaseOf(t, "1", "ann", "1"))
	kit.Release(t, l, kit.ReleaseOf(t, "2", "bob", "0.5"))
	for _, c := range []struct {
		pool, population bool
		method, covers   string
	}{{false, false, "stratified", "panel"}, {true, false, "pooled", "panel"}, {false, true, "stratified", "population"}} {
		got, err := l.Estimate(t.Context(), ledger.EstimateRequest{Question: "vote", Pool: c.pool, Population: c.population})
		kit.Must(t, err)
		if got.Method != c.method || got.Covers != c.covers {
			t.Errorf("%+v: %s, %s", c, got.Method, got.Covers)
		}
	}
}

// The calendar goes on, for the new value as for the old one; and whoever withdraws and is back goes on with the epoch.
func TestTheCalendarReleasesInTheNewEpoch(t *testing.T) {
	kit.Anywhere(t, testTheCalendarReleasesInTheNewEpoch)
}

func testTheCalendarReleasesInTheNewEpoch(t *kit.T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := kit.Open(t, ledger.Options{Now: clock.Now})
	kit.Define(t, l, kit.Vote())
	timed, err := policy.Steps(policy.Step{At: ledgertest.Begin(), Ceiling: kit.Eps(t, "0.25")}, policy.Step{At: ledgertest.Begin().Add(time.Hour), Ceiling: kit.Eps(t, "1")})
	kit.Must(t, err)
	kit.EnrollUnder(t, l, "vote", timed, "9", "ann")
	clock.Set(ledgertest.Begin().Add(2 * time.Hour))
	advance := func(key string) {
		_, err := l.Advance(t.Context(), ledger.AdvanceRequest{Key: key, Truth: kit.SameTruth("yes")})
		kit.Must(t, err)
	}
	advance("1")
	beginEpoch(t, l, "2", "ann")
	kit.Must(t, l.Withdraw(t.Context(), "3", "ann"))
	_, err = l.Enroll(t.Context(), ledger.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"ann"}, Policy: timed})
	kit.Must(t, err)
	advance("4")
	o := kit.ObjectOf(t, l, "ann")
	if c := o.Chains[0]; o.Spent != kit.Eps(t, "2") || c.Epoch != 2 || len(c.Levels) != 2 || len(c.Earlier[0].Levels) != 2 {
		t.Errorf("%+v", o)
	}
	kit.WantClean(t, l, ledger.VerifyRequest{})
}

// What an attacker sees of two epochs are independent chains: the law of both responses is the product of the laws of each,
// so that both together say at most the sum of their ε, and at the full sum if the value is known to be the same. The test
// counts the pairs of 1,000 people.
func TestEpochsAreIndependent(t *testing.T) {
	kit.Anywhere(t, testEpochsAreIndependent)
}

func testEpochsAreIndependent(t *kit.T) {
	const people = 1000
	l := kit.Open(t, ledger.Options{})
	kit.Define(t, l, ledger.Question{Name: "vote", Values: []string{"yes", "no"}})
	names := kit.Crowd(people)
	kit.Enroll(t, l, "vote", "9", names...)
	kit.CarryOut(t, l, kit.Order(t, "1", "0.5", names...))
	first := kit.Responses(t, l, "vote", kit.Eps(t, "0.5"))
	for _, name := range names {
		beginEpoch(t, l, "epoch of "+name, name)
	}
	kit.CarryOut(t, l, kit.Order(t, "2", "0.5", names...))
	second := kit.Responses(t, l, "vote", kit.Eps(t, "0.5"))
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
