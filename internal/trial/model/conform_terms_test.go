package model

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Invariant 13: people may change their minds.

// to asks for other terms of the vote. "" leaves the cap.
func to(t testing.TB, key string, p *policy.Policy, limit string, objects ...string) api.ChangeTermsRequest {
	t.Helper()
	r := api.ChangeTermsRequest{Key: key, Question: "vote", Policy: p, Objects: objects}
	if limit != "" {
		r.Cap = Eps(t, limit)
	}
	return r
}

func changeTerms(t testing.TB, l Book, r api.ChangeTermsRequest) api.ChangeTermsResult {
	t.Helper()
	done := check.Value(l.ChangeTerms(t.Context(), r))(t)
	return done
}

// priced sells up to ε=2, for so much up to each nat.
func priced(t testing.TB, amount int64) *policy.Policy {
	t.Helper()
	p := Market(t, "2", func(m *policy.Market) {
		m.Prices = []policy.Price{{Epsilon: Eps(t, "1"), Amount: amount}, {Epsilon: Eps(t, "2"), Amount: 2 * amount}}
	})
	return &p
}

// A change of terms is one event for each person and question; the rest stays as it is. The same request does nothing twice, and
// who is under these terms already is left alone.
func TestTermsChangeByOneEventEach(t *testing.T) { Anywhere(t, testTermsChangeByOneEventEach) }

func testTermsChangeByOneEventEach(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann", "bob", "cid")
	Define(t, l, Smoker())
	Enroll(t, l, "smoker", "9", "ann")
	before := uint64(len(Events(t, l)))
	r := to(t, "1", priced(t, 150), "3", "cid", "ann")
	done := changeTerms(t, l, r)
	want := (api.ChangeTermsResult{Changed: 2, First: before + 1, Last: before + 4})
	check.That(t, reflect.DeepEqual(done, want), "it came to %+v, want %+v", done, want)
	var kinds []string
	for _, ev := range Events(t, l)[before:] {
		kinds = append(kinds, strings.TrimSpace(ev.Kind()+" "+ev.Object()))
		if d, is := ev.Says.(says.TermsChanged); is && (!d.Policy.Equal(*priced(t, 150)) || d.Cap != Eps(t, "3") || d.Question != "vote" || d.Consent != "") {
			t.Errorf("event %d says %+v", ev.Number, d)
		}
	}
	check.That(t, slices.Equal(kinds, []string{"policy", "terms ann", "terms cid", "settled"}),
		"the log has %q", kinds)
	ann := ObjectOf(t, l, "ann")
	check.That(t, ann.Cap == Eps(t, "3") && ann.Chains[0].Policy.Equal(*priced(t, 150)) && ann.Chains[1].Policy == nil,
		"ann is under %+v", ann)
	bob := ObjectOf(t, l, "bob")
	check.That(t, bob.Cap == Eps(t, "9") && bob.Chains[0].Policy.Equal(Market(t, "2")), "bob is under %+v", bob)
	again := changeTerms(t, l, r)
	check.That(t, reflect.DeepEqual(again, done), "again it came to %+v, before to %+v", again, done)
	r.Key = "2"
	same := changeTerms(t, l, r)
	check.That(t, same.Changed == 0 && same.Unchanged == 2, "under the same terms: %+v", same)
	r.Key, r.Consent = "1", "they agreed"
	_, err := l.ChangeTerms(t.Context(), r)
	check.Is(t, err, api.ErrKeyConflict)
	conflict := new(api.KeyConflictError)
	check.That(t, errors.As(err, &conflict) && conflict.Field == "Consent", "%+v", conflict)
	WantClean(t, l, api.VerifyRequest{})
}

// lowerings are terms that allow less than the market up to ε=2 for 100 a nat, with a cap of 9, in each way there is.
func lowerings(t testing.TB) map[string]api.ChangeTermsRequest {
	market := func(more func(*policy.Market)) *policy.Policy {
		p := Market(t, "2", more)
		return &p
	}
	day := ledgertest.Begin().Add(time.Hour)
	calendar := check.Value(policy.Linear(Eps(t, "0"), Eps(t, "2"), day, day.Add(10*time.Hour), Eps(t, "1")))(t)
	slower := check.Value(policy.Min(Market(t, "2"), calendar))(t)
	shares := check.Value(policy.Unlock(Eps(t, "2"), 4))(t)
	shared := check.Value(policy.Min(Market(t, "2"), shares))(t)
	lower := Market(t, "1")
	return map[string]api.ChangeTermsRequest{
		"a lower cap":      to(t, "", nil, "8.999999999"),
		"a lower ceiling":  to(t, "", &lower, ""),
		"a higher price":   to(t, "", priced(t, 101), ""),
		"a higher floor":   to(t, "", market(func(m *policy.Market) { m.Floor = 1 }), ""),
		"a barred buyer":   to(t, "", market(func(m *policy.Market) { m.Barred = []string{"acme"} }), ""),
		"few buyers":       to(t, "", market(func(m *policy.Market) { m.Buyers = []string{"acme"} }), ""),
		"one holder":       to(t, "", market(func(m *policy.Market) { m.Stride, m.Holders = Eps(t, "0.5"), 1 }), ""),
		"few levels":       to(t, "", market(func(m *policy.Market) { m.Stride = Eps(t, "0.5") }), ""),
		"a last day":       to(t, "", market(func(m *policy.Market) { m.Until = day }), ""),
		"a first day":      to(t, "", market(func(m *policy.Market) { m.From = day }), ""),
		"by the calendar":  to(t, "", &slower, ""),
		"buyer by buyer":   to(t, "", &shared, ""),
		"all of it at one": to(t, "", priced(t, 500), "0.000000001"),
	}
}

// Less always works, at once. The way back needs consent each time, and the refusal says what is more.
func TestLessNeedsNoConsentAndMoreDoes(t *testing.T) { Anywhere(t, testLessNeedsNoConsentAndMoreDoes) }

func testLessNeedsNoConsentAndMoreDoes(t *T) {
	for name, r := range lowerings(t) {
		t.Run(name, func(t *T) {
			l := Sellers(t, NewLedger(t), "2", "9", "ann")
			first := Market(t, "2")
			r.Key, r.Objects = "down", []string{"ann"}
			done := changeTerms(t, l, r)
			check.That(t, done.Changed == 1, "down: %+v", done)
			up := to(t, "up", &first, "9", "ann")
			var refused []api.Refusal
			Unchanged(t, l, func() {
				refused = Refusals(t, check.Err(l.ChangeTerms(t.Context(), up)))
			})
			if len(refused) != 1 || refused[0].Object != "ann" || refused[0].Reason != api.NeedsConsent || refused[0].Remedy != "consent" || refused[0].Why == "" {
				t.Errorf("up, without consent: %+v", refused)
			}
			if capped := !r.Cap.IsZero(); capped != strings.Contains(refused[0].Why, "the cap would be") || capped && (refused[0].Ceiling != r.Cap || refused[0].Asked != Eps(t, "9")) {
				t.Errorf("the cap is %v: %+v", r.Cap, refused[0])
			}
			up.Consent = "ann agreed on the telephone"
			if done := changeTerms(t, l, up); done.Changed != 1 {
				t.Errorf("up, with consent: %+v", done)
			}
			WantClean(t, l, api.VerifyRequest{})
		})
	}
}

// A policy that releases for nothing what was for sale, none at all, one for other buyers, and one of which nobody can tell need
// consent, whatever their ceilings.
func TestWhatIsNotProvenToBeLessNeedsConsent(t *testing.T) {
	Anywhere(t, testWhatIsNotProvenToBeLessNeedsConsent)
}

func testWhatIsNotProvenToBeLessNeedsConsent(t *T) {
	unlock := func(total string, orders int) policy.Policy {
		p := check.Value(policy.Unlock(Eps(t, total), orders))(t)
		return p
	}
	sum := func(of ...policy.Policy) policy.Policy {
		p := check.Value(policy.Sum(of...))(t)
		return p
	}
	steps := func(of ...policy.Step) policy.Policy {
		p := check.Value(policy.Steps(of...))(t)
		return p
	}
	for name, c := range map[string]struct{ now, to policy.Policy }{
		"the calendar instead":  {Market(t, "2"), steps(policy.Step{At: ledgertest.Begin(), Ceiling: Eps(t, "0.1")})},
		"no policy":             {Market(t, "2"), policy.Policy{}},
		"a market for nothing":  {policy.Policy{}, Market(t, "2")},
		"another buyer":         {Market(t, "2", func(m *policy.Market) { m.Buyers = []string{"acme"} }), Market(t, "1", func(m *policy.Market) { m.Buyers = []string{"zeta"} })},
		"earlier":               {steps(policy.Step{At: ledgertest.Begin().Add(48 * time.Hour), Ceiling: Eps(t, "1")}), steps(policy.Step{At: ledgertest.Begin().Add(47 * time.Hour), Ceiling: Eps(t, "1")})},
		"nobody knows":          {sum(unlock("0.700000001", 999_999_937), unlock("0.3", 333_333_000)), sum(unlock("0.69", 999_999_937), unlock("0.31", 333_333_001))},
		"nobody knows, by time": {sum(unlock("0.3", 999_999_937), steps(policy.Step{At: ledgertest.Begin(), Ceiling: Eps(t, "0.2")})), sum(unlock("0.3", 999_999_936), steps(policy.Step{At: ledgertest.Begin(), Ceiling: Eps(t, "0.2")}))},
	} {
		t.Run(name, func(t *T) {
			l := NewLedger(t)
			Define(t, l, Vote())
			EnrollUnder(t, l, "vote", c.now, "9", "ann")
			got := Refusals(t, check.Err(l.ChangeTerms(t.Context(), to(t, "1", &c.to, "", "ann"))))
			check.That(t, got[0].Reason == api.NeedsConsent, "%+v", got)
			r := to(t, "1", &c.to, "", "ann")
			r.Consent = "form 17"
			changeTerms(t, l, r)
			WantClean(t, l, api.VerifyRequest{})
		})
	}
}

// A cap below what is spent leaves nothing; so does a ceiling. What was released stays released and on sale, it is still told
// right, and whoever is forgotten so can come back.
func TestACapMayGoBelowWhatIsSpent(t *testing.T) { Anywhere(t, testACapMayGoBelowWhatIsSpent) }

func testACapMayGoBelowWhatIsSpent(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann", "bob")
	Sell(t, l, Purchase(t, "1", "acme", "1", "ann", "bob"))
	changeTerms(t, l, to(t, "2", nil, "0.4", "ann"))
	lower := Market(t, "0.5")
	changeTerms(t, l, to(t, "3", &lower, "", "bob"))
	for object, want := range map[string]api.Refusal{
		"ann": {Object: "ann", Reason: api.ObjectCap, Ceiling: Eps(t, "0.4"), Spent: Eps(t, "1"), Asked: Eps(t, "1.1"), Cost: Eps(t, "0.1"), Remedy: "less", Largest: Eps(t, "1")},
		"bob": {Object: "bob", Reason: api.ChainCeiling, Ceiling: Eps(t, "0.5"), Spent: Eps(t, "1"), Asked: Eps(t, "1.1"), Cost: Eps(t, "0.1"), Remedy: "less", Largest: Eps(t, "1")},
	} {
		got := Refusals(t, check.Err(l.Release(t.Context(), ReleaseOf(t, "4", object, "1.1"))))
		check.That(t, len(got) == 1 && got[0] == want, "more of %s: %+v, want %+v", object, got, want)
		Release(t, l, ReleaseOf(t, "below "+object, object, "0.3"))
	}
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Remaining.IsZero() && o.Spent == Eps(t, "1"), "%+v", o)
	Sell(t, l, Purchase(t, "5", "zeta", "1", "ann")) // it is recorded, and ann's terms still sell it
	_, err := l.Sell(t.Context(), Purchase(t, "6", "zeta", "1", "bob"))
	if got := Refusals(t, err); got[0].Reason != api.NotOnOffer {
		t.Errorf("bob sells no such level any more: %+v", got)
	}
	check.Must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "8", Object: "ann"}))
	_, err = l.Enroll(t.Context(), api.EnrollRequest{Key: "9", Question: "vote", Objects: []string{"ann"}, Policy: Market(t, "2")})
	check.Must(t, err)
	check.Must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "10", Object: "ann"}))
	AuditAll(t, l)
}

// An upgrade costs the new price less what that buyer has paid for the person, never less than nothing; and what a buyer holds, or
// less, costs nothing, however prices have risen.
func TestWhoUpgradesPaysTheNewPriceLessWhatIsPaid(t *testing.T) {
	Anywhere(t, testWhoUpgradesPaysTheNewPriceLessWhatIsPaid)
}

func testWhoUpgradesPaysTheNewPriceLessWhatIsPaid(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann")
	n := 0
	buys := func(buyer, epsilon string, price int64) {
		t.Helper()
		n++
		r := Purchase(t, fmt.Sprint(n), buyer, epsilon, "ann")
		if q, err := l.Quote(t.Context(), r.Order); err != nil || q.Price != price {
			t.Errorf("%s is quoted %d for ε=%s, want %d: %v", buyer, q.Price, epsilon, price, err)
		}
		s := Sell(t, l, r)
		check.That(t, s.Price == price, "%s pays %d for ε=%s, want %d", buyer, s.Price, epsilon, price)
	}
	asks := func(amount int64) {
		n++
		r := to(t, fmt.Sprint("terms ", n), priced(t, amount), "", "ann")
		r.Consent = "agreed"
		changeTerms(t, l, r)
	}
	buys("acme", "0.5", 50)
	buys("zeta", "1", 100)
	asks(200)
	buys("acme", "0.5", 0)
	buys("acme", "0.25", 0)
	buys("acme", "1", 150) // 200 − 50
	buys("zeta", "1", 0)
	buys("zeta", "1.5", 200) // 300 − 100
	buys("hooli", "0.5", 100)
	asks(40)
	buys("acme", "1.5", 0) // 60, and 200 are paid
	buys("acme", "2", 0)   // 80
	buys("hooli", "2", 0)  // 80, and 100 are paid
	buys("initech", "1", 40)
	asks(300)
	buys("acme", "2", 0)
	buys("zeta", "2", 300) // 600 − 300
	buys("initech", "2", 560)
	paid := map[string]int64{}
	for _, at := range ObjectOf(t, l, "ann").Chains[0].Levels {
		for i, buyer := range at.Buyers {
			paid[buyer] += at.Paid[i]
		}
	}
	want := map[string]int64{"acme": 200, "zeta": 600, "hooli": 100, "initech": 600}
	check.That(t, reflect.DeepEqual(paid, want), "they paid %v, want %v", paid, want)
	check.Must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "epoch", Question: "vote", Object: "ann"})) // about another value, so nothing is paid yet
	buys("acme", "1", 300)
	EnrollUnder(t, l, "vote", *priced(t, 300), "9", "bob")
	Sell(t, l, Purchase(t, "bob's", "acme", "0.5", "bob"))
	check.Must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "bob"})) // and that acme has paid anything
	check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"bob"}, Policy: *priced(t, 300)})))
	if s := Sell(t, l, Purchase(t, "bob's, again", "acme", "1", "bob")); s.Price != 300 || s.Upgrades != 0 {
		t.Errorf("%+v", s)
	}
	AuditAll(t, l)
}

// hold reserves votes for acme.
func hold(t testing.TB, l Book, key, epsilon string, objects ...string) api.Reservation {
	t.Helper()
	return Reserve(t, l, api.ReserveRequest{Key: key, Order: Purchase(t, "", "acme", epsilon, objects...).Order, For: time.Hour})
}

// A live reservation keeps its price, and whatever else was checked when it was granted.
func TestAReservationKeepsItsPrice(t *testing.T) { Anywhere(t, testAReservationKeepsItsPrice) }

func testAReservationKeepsItsPrice(t *T) {
	sold := func(more func(*policy.Market)) *policy.Policy {
		p := Market(t, "2", more)
		return &p
	}
	for name, p := range map[string]*policy.Policy{
		"dearer": priced(t, 900), "cheaper": priced(t, 1), "barred": sold(func(m *policy.Market) { m.Barred = []string{"acme"} }),
		"closed": sold(func(m *policy.Market) { m.Until = ledgertest.Begin() }), "not on offer": sold(func(m *policy.Market) { m.Levels = []privacy.Epsilon{Eps(t, "2")} }),
		"not for sale": new(policy.Fixed(Eps(t, "1"))), "no policy": {},
	} {
		t.Run(name, func(t *T) {
			l := Sellers(t, NewLedger(t), "2", "9", "ann", "bob")
			Sell(t, l, Purchase(t, "1", "acme", "0.25", "ann"))
			r := hold(t, l, "2", "1", "ann", "bob")
			change := to(t, "3", p, "", "ann")
			change.Consent = "agreed"
			changeTerms(t, l, change)
			if s := Commit(t, l, "4", r.Number); s.Price != 175 || r.Price != 175 || s.Refund != 0 || s.Objects != 2 {
				t.Errorf("reserved for %d, captured as %+v", r.Price, s)
			}
			AuditAll(t, l)
		})
	}
}

// What is bought in between at other prices counts, and never costs more than was promised.
func TestAReservationCountsWhatIsPaidMeanwhile(t *testing.T) {
	Anywhere(t, testAReservationCountsWhatIsPaidMeanwhile)
}

func testAReservationCountsWhatIsPaidMeanwhile(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann", "bob")
	r := hold(t, l, "1", "1", "ann", "bob") // 100 each
	changeTerms(t, l, to(t, "2", priced(t, 300), "", "ann", "bob"))
	if s := Sell(t, l, Purchase(t, "3", "acme", "0.25", "ann")); s.Price != 75 {
		t.Errorf("%+v", s)
	}
	if s := Sell(t, l, Purchase(t, "4", "acme", "0.5", "bob")); s.Price != 150 {
		t.Errorf("%+v", s)
	}
	s := Commit(t, l, "5", r.Number)
	all := Delivered(t, l, s.Number)
	check.That(t, all["ann"].Price == 25 && all["bob"].Price == 0 && s.Refund == 175, "%+v, delivered %+v", s, all)
	AuditAll(t, l)
}

// Budget that was taken back is not held any more: at capture such people are refused, or left out with a refund, as those who have
// withdrawn are. For everybody else it counts as held as long as it is there.
func TestAReservationDoesNotKeepBudgetThatWasTakenBack(t *testing.T) {
	Anywhere(t, testAReservationDoesNotKeepBudgetThatWasTakenBack)
}

func testAReservationDoesNotKeepBudgetThatWasTakenBack(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann", "bob", "cid", "dan", "eve")
	Sell(t, l, Purchase(t, "0", "zeta", "1", "eve"))
	r := hold(t, l, "1", "1", "ann", "bob", "cid", "dan", "eve")
	lower := Market(t, "0.5")
	changeTerms(t, l, to(t, "2", nil, "0.999999999", "ann"))
	changeTerms(t, l, to(t, "3", &lower, "", "bob", "eve")) // eve's level is recorded, and needs no budget
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "4", Object: "cid"}))
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Remaining.IsZero(), "%s of ann's cap is free for others", o.Remaining)
	whole := api.CaptureRequest{Key: "5", Reservation: r.Number, Truth: SameTruth("yes")}
	_, err := l.Capture(t.Context(), whole)
	want := []api.Refusal{
		{Object: "ann", Reason: api.ObjectCap, Ceiling: Eps(t, "0.999999999"), Asked: Eps(t, "1"), Cost: Eps(t, "1"), Remaining: Eps(t, "0.999999999"), Remedy: "nothing"},
		{Object: "bob", Reason: api.ChainCeiling, Ceiling: Eps(t, "0.5"), Asked: Eps(t, "1"), Cost: Eps(t, "1"), Remaining: Eps(t, "0.5"), Remedy: "nothing"},
		{Object: "cid", Reason: api.Withdrawn, Asked: Eps(t, "1"), Remedy: "enrolling"},
	}
	got := Refusals(t, err)
	check.That(t, slices.Equal(got, want), "refused %+v, want %+v", got, want)
	whole.Partial = true
	s, err := l.Capture(t.Context(), whole)
	check.Must(t, err)
	check.That(t, s.Objects == 2 && s.Price == 200 && s.Refund == 300 && slices.Equal(s.Refused, want), "%+v", s)
	AuditAll(t, l)
}

// Fewer holders than reserved before do not undo a reservation; more let others in beside it, and it still has its place.
func TestAReservationKeepsItsPlaceAmongHolders(t *testing.T) {
	Anywhere(t, testAReservationKeepsItsPlaceAmongHolders)
}

func testAReservationKeepsItsPlaceAmongHolders(t *T) {
	few := func(holders int) *policy.Policy {
		p := Market(t, "2", func(m *policy.Market) { m.Stride, m.Holders = Eps(t, "0.5"), holders })
		return &p
	}
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", *few(1), "9", "ann")
	r := hold(t, l, "1", "1", "ann")
	_, err := l.Sell(t.Context(), Purchase(t, "2", "zeta", "1", "ann"))
	got := Refusals(t, err)
	check.That(t, got[0].Reason == api.HoldersFull && got[0].Remedy == "waiting", "%+v", got)
	more := to(t, "3", few(3), "", "ann")
	more.Consent = "agreed"
	changeTerms(t, l, more)
	Sell(t, l, Purchase(t, "4", "zeta", "1", "ann"))
	Sell(t, l, Purchase(t, "5", "hooli", "1", "ann"))
	_, err = l.Sell(t.Context(), Purchase(t, "6", "initech", "1", "ann"))
	if got := Refusals(t, err); got[0].Reason != api.HoldersFull {
		t.Errorf("%+v", got)
	}
	changeTerms(t, l, to(t, "7", few(1), "", "ann"))
	Commit(t, l, "8", r.Number)
	AuditAll(t, l)
}

// A quote that was made under other terms says so, if it is not what the order is any more; a sale that comes to the same is made.
func TestAQuoteTellsThatTermsHaveChanged(t *testing.T) {
	Anywhere(t, testAQuoteTellsThatTermsHaveChanged)
}

func testAQuoteTellsThatTermsHaveChanged(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann", "bob")
	r := Purchase(t, "1", "acme", "1")
	quote := func() api.Quote {
		q := check.Value(l.Quote(t.Context(), r.Order))(t)
		return q
	}
	first := quote()
	changeTerms(t, l, to(t, "2", priced(t, 110), "", "bob"))
	r.QuoteID = first.ID
	held := func(other bool, price int64) {
		t.Helper()
		_, err := l.Sell(t.Context(), r)
		var changed *api.QuoteError
		if !errors.As(err, &changed) || changed.TermsChanged != other || changed.Quote.Price != price || changed.Expected != r.QuoteID || strings.Contains(err.Error(), "other terms") != other {
			t.Errorf("%v, %+v", err, changed)
		}
	}
	held(true, 210)
	limit := int64(200)
	r.MaxPrice = &limit
	held(true, 210) // too dear, because of that
	r.MaxPrice = nil
	EnrollUnder(t, l, "vote", Market(t, "2"), "9", "cid")
	held(false, 310) // others take part, so nobody can tell
	r.All, r.Objects = false, []string{"ann", "bob"}
	held(true, 210)
	r.QuoteID = "no quote"
	held(false, 210)
	r.QuoteID = quote().ID
	Sell(t, l, Purchase(t, "3", "acme", "0.5", "ann"))
	held(false, 160) // the price has changed, and no terms
	r.QuoteID = quote().ID
	changeTerms(t, l, to(t, "4", nil, "8", "ann", "bob"))
	dearerAbove := Market(t, "2", func(m *policy.Market) {
		m.Prices = []policy.Price{{Epsilon: Eps(t, "1"), Amount: 110}, {Epsilon: Eps(t, "2"), Amount: 900}}
	})
	changeTerms(t, l, to(t, "5", &dearerAbove, "", "bob"))
	now := quote()
	check.That(t, now.ID != r.QuoteID && now.Price == 160, "under other terms the quote %s is %+v", r.QuoteID, now)
	s := Sell(t, l, r)
	check.That(t, s.Price == 160, "%+v: what is bought, and what it costs, is as quoted", s)
	AuditAll(t, l)
}

// Enrolling again under other terms says what does help. Then it does, for those too who have withdrawn: they never take part under the
// former terms in between.
func TestEnrollingUnderOtherTermsSaysWhatToDo(t *testing.T) {
	Anywhere(t, testEnrollingUnderOtherTermsSaysWhatToDo)
}

func testEnrollingUnderOtherTermsSaysWhatToDo(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann", "bob")
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "1", Object: "ann"}))
	back := api.EnrollRequest{Key: "2", Question: "vote", Objects: []string{"ann", "bob"}, Policy: *priced(t, 150), Cap: Eps(t, "9")}
	_, err := l.Enroll(t.Context(), back)
	if got := Refusals(t, err); len(got) != 2 || got[0].Reason != api.PolicyDiffers || got[0].Remedy != "terms" || !strings.Contains(err.Error(), "changing its terms helps") {
		t.Errorf("%v: %+v", err, got)
	}
	back.Cap = Eps(t, "8")
	_, err = l.Enroll(t.Context(), back)
	if got := Refusals(t, err); got[0].Reason != api.CapDiffers || got[0].Remedy != "terms" || got[0].Asked != Eps(t, "8") || !strings.Contains(err.Error(), "changing its terms helps") {
		t.Errorf("%v: %+v", err, got)
	}
	changeTerms(t, l, to(t, "3", priced(t, 150), "8", "ann", "bob"))
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Chains[0].Withdrawn, "other terms bring nobody back: %+v", o)
	done, err := l.Enroll(t.Context(), back)
	check.Must(t, err)
	check.That(t, done.Enrolled == 1 && done.Already == 1, "%+v", done)
	WantClean(t, l, api.VerifyRequest{})
}

// Partial: who would be refused is left out, with the reason, and the same key tells the same again, also when it is true no more.
func TestPartialChangesLeaveOutWhoIsRefused(t *testing.T) {
	Anywhere(t, testPartialChangesLeaveOutWhoIsRefused)
}

func testPartialChangesLeaveOutWhoIsRefused(t *T) {
	l := Sellers(t, NewLedger(t), "2", "5", "ann", "bob")
	EnrollUnder(t, l, "vote", Market(t, "2"), "9", "cid", "dan")
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "0", Object: "dan"}))
	r := to(t, "1", nil, "7", "zoe", "dan", "cid", "bob", "ann")
	got := Refusals(t, check.Err(l.ChangeTerms(t.Context(), r)))
	check.That(t, len(got) == 3, "%+v", got)
	r.Partial = true
	done := changeTerms(t, l, r)
	var reasons []string
	for _, one := range done.Refused {
		reasons = append(reasons, one.Object+" "+string(one.Reason)+" "+string(one.Remedy)+" "+one.Why)
	}
	want := []string{"ann needs-consent consent the cap would be ε=7, and is ε=5", "bob needs-consent consent the cap would be ε=7, and is ε=5", "zoe not-enrolled enrolling "}
	check.That(t, done.Changed == 2 && slices.Equal(reasons, want), "%+v, %q", done, reasons)
	var listed []api.Refusal
	for ev, err := range l.Refusals(t.Context(), "1", 0) {
		check.Must(t, err)
		listed = append(listed, ev.Says.(says.ObjectRefused).Refusal)
	}
	check.That(t, slices.Equal(listed, done.Refused), "the log refuses %+v", listed)
	enrol := api.EnrollRequest{Key: "2", Question: "vote", Objects: []string{"new", "ann", "bob", "cid"}, Partial: true, Terms: func(object string) (policy.Policy, privacy.Epsilon) {
		return map[string]policy.Policy{"ann": *priced(t, 150)}[object], Eps(t, map[string]string{"ann": "5", "bob": "6", "cid": "7", "new": "1"}[object])
	}}
	first := check.Value(l.Enroll(t.Context(), enrol))(t)
	reasons = nil
	for _, one := range first.Refused {
		reasons = append(reasons, one.Object+" "+string(one.Reason))
	}
	if first.Enrolled != 1 || !slices.Equal(reasons, []string{"ann policy-differs", "bob cap-differs", "cid policy-differs"}) {
		t.Errorf("%+v", first)
	}
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "3", Object: "new"}))
	if again, err := l.Enroll(t.Context(), enrol); err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("again it came to %+v, %v, before to %+v", again, err, first)
	}
	again := changeTerms(t, l, r)
	check.That(t, reflect.DeepEqual(again, done), "again it came to %+v, before to %+v", again, done)
	check.Must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "4", Object: "ann"}))
	if again := changeTerms(t, l, r); len(again.Refused) != 2 || again.Unlisted != 1 || again.Changed != 2 {
		t.Errorf("without ann it came to %+v", again)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Each person may be enrolled on terms of its own; the function is asked once about each, in order, and another answer is another request.
func TestEveryoneIsEnrolledOnTermsOfTheirOwn(t *testing.T) {
	Anywhere(t, testEveryoneIsEnrolledOnTermsOfTheirOwn)
}

func testEveryoneIsEnrolledOnTermsOfTheirOwn(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	names, dearest, asked := Crowd(partSize+1), 7, []string(nil)
	at := func(object string) int { return slices.Index(names, object) }
	r := api.EnrollRequest{Key: "1", Question: "vote", Objects: slices.Clone(names), Terms: func(object string) (policy.Policy, privacy.Epsilon) {
		asked = append(asked, object)
		switch i := at(object) % dearest; i {
		case 0:
			return policy.Policy{}, Eps(t, "1")
		default:
			return *priced(t, int64(i)), Nano(t, int64(i))
		}
	}}
	slices.Reverse(r.Objects)
	done, err := l.Enroll(t.Context(), r)
	check.Must(t, err)
	check.That(t, done.Enrolled == len(names) && slices.Equal(asked, names),
		"%+v, asked about %d people", done, len(asked))
	for _, object := range []string{names[0], names[1], names[6], names[partSize]} {
		o, i := ObjectOf(t, l, object), at(object)%dearest
		if i == 0 && (o.Chains[0].Policy != nil || o.Cap != Eps(t, "1")) || i > 0 && (!o.Chains[0].Policy.Equal(*priced(t, int64(i))) || o.Cap.Nano() != int64(i)) {
			t.Errorf("%s is under %+v", object, o)
		}
	}
	if again, err := l.Enroll(t.Context(), r); err != nil || !reflect.DeepEqual(again, done) {
		t.Errorf("again it came to %+v, %v", again, err)
	}
	dearest = 6
	_, err = l.Enroll(t.Context(), r)
	conflict := new(api.KeyConflictError)
	check.That(t, errors.As(err, &conflict) && conflict.Field == "Terms", "on other terms: %v", err)
	r.Key, r.Cap = "2", Eps(t, "1")
	_, err = l.Enroll(t.Context(), r)
	check.Is(t, err, api.ErrInvalid)
	r.Cap, r.Terms = privacy.Epsilon{}, func(string) (policy.Policy, privacy.Epsilon) { return policy.Policy{}, privacy.Epsilon{} }
	r.Objects = []string{"new"}
	_, err = l.Enroll(t.Context(), r)
	check.Is(t, err, api.ErrNoCap)
	WantClean(t, l, api.VerifyRequest{})
}

// A change that cannot be is a typed error, and changes nothing.
func TestTermsThatCannotBe(t *testing.T) { Anywhere(t, testTermsThatCannotBe) }

func testTermsThatCannotBe(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann")
	_, err := policy.Steps(policy.Step{At: ledgertest.Begin(), Ceiling: Eps(t, "1")}, policy.Step{At: ledgertest.Begin().Add(1), Ceiling: Eps(t, "0.5")})
	check.Is(t, err, policy.ErrInvalid) // one that is not monotone is none
	invisible := Market(t, "2", func(m *policy.Market) { m.Barred = []string{"ac\u200bme"} })
	for name, c := range map[string]struct {
		change func(*api.ChangeTermsRequest)
		want   error
	}{
		"nobody":                     {func(r *api.ChangeTermsRequest) { r.Objects = nil }, api.ErrInvalid},
		"somebody twice":             {func(r *api.ChangeTermsRequest) { r.Objects = []string{"ann", "ann"} }, api.ErrInvalid},
		"no name":                    {func(r *api.ChangeTermsRequest) { r.Objects = []string{""} }, api.ErrInvalid},
		"a name of a megabyte":       {func(r *api.ChangeTermsRequest) { r.Objects = []string{strings.Repeat("n", 1<<20)} }, api.ErrInvalid},
		"nothing":                    {func(r *api.ChangeTermsRequest) { r.Cap = privacy.Epsilon{} }, api.ErrInvalid},
		"no key":                     {func(r *api.ChangeTermsRequest) { r.Key = "" }, api.ErrInvalid},
		"a consent of a megabyte":    {func(r *api.ChangeTermsRequest) { r.Consent = strings.Repeat("y", 1<<20) }, api.ErrInvalid},
		"a consent a byte too long":  {func(r *api.ChangeTermsRequest) { r.Consent = strings.Repeat("y", 1025) }, api.ErrInvalid},
		"a consent of two lines":     {func(r *api.ChangeTermsRequest) { r.Consent = "a\nb" }, api.ErrInvalid},
		"a consent that is no UTF-8": {func(r *api.ChangeTermsRequest) { r.Consent = "\xff" }, api.ErrInvalid},
		"no such question":           {func(r *api.ChangeTermsRequest) { r.Question = "void" }, api.ErrUnknown},
		"an invisible buyer":         {func(r *api.ChangeTermsRequest) { r.Policy = &invisible }, api.ErrInvalid},
	} {
		t.Run(name, func(t *T) {
			r := to(t, "1", nil, "3", "ann")
			c.change(&r)
			Unchanged(t, l, func() {
				check.Is(t, check.Err(l.ChangeTerms(t.Context(), r)), c.want)
			})
		})
	}
	Unchanged(t, l, func() {
		_, err := l.ChangeTerms(t.Context(), to(t, "1", nil, "3", "zoe", "ann"))
		if got := Refusals(t, err); len(got) != 1 || got[0] != (api.Refusal{Object: "zoe", Reason: api.NotEnrolled, Remedy: "enrolling"}) {
			t.Errorf("a stranger: %+v", got)
		}
	})
	longest := to(t, "2", nil, "3", "ann")
	longest.Consent = strings.Repeat("y", 1024)
	changeTerms(t, l, longest)
	WantClean(t, l, api.VerifyRequest{})
}

// Ceilings are those of the clock. If it has gone back behind the log, what a calendar had come to allow counts for nothing: so no
// clock that was wrong makes more of less.
func TestTermsAreComparedByTheClock(t *testing.T) { Anywhere(t, testTermsAreComparedByTheClock) }

func testTermsAreComparedByTheClock(t *T) {
	now := ledgertest.Begin().Add(10 * time.Hour)
	l := Open(t, ledger.Options{Now: func() time.Time { return now }})
	Define(t, l, Vote())
	steps, err := policy.Steps(policy.Step{At: now.Add(-time.Hour), Ceiling: Eps(t, "0.5")}, policy.Step{At: now.Add(time.Hour), Ceiling: Eps(t, "1")})
	check.Must(t, err)
	EnrollUnder(t, l, "vote", steps, "9", "ann", "bob")
	half := policy.Fixed(Eps(t, "0.5"))
	now = now.Add(-5 * time.Hour)
	_, err = l.ChangeTerms(t.Context(), to(t, "1", &half, "", "ann"))
	got := Refusals(t, err)
	check.That(t, got[0].Reason == api.NeedsConsent, "by a clock gone back: %+v", got)
	now = now.Add(5 * time.Hour)
	changeTerms(t, l, to(t, "1", &half, "", "ann"))
	now = now.Add(-5 * time.Hour) // what was proven for ann is not proven from then on
	_, err = l.ChangeTerms(t.Context(), to(t, "2", &half, "", "bob"))
	if got := Refusals(t, err); got[0].Reason != api.NeedsConsent {
		t.Errorf("by a clock gone back again: %+v", got)
	}
	now = now.Add(5 * time.Hour)
	WantClean(t, l, api.VerifyRequest{})
}

// The events are streamed like all others.
func TestTermsAreWatched(t *testing.T) { Both(t, testTermsAreWatched) }

func testTermsAreWatched(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann")
	seen := make(chan says.TermsChanged, 1)
	from := uint64(len(Events(t, l))) + 1
	go func() {
		for ev, err := range l.Watch(t.Context(), from) {
			if d, is := ev.Says.(says.TermsChanged); err != nil || is {
				seen <- d
				return
			}
		}
	}()
	r := to(t, "1", priced(t, 20), "10", "ann")
	r.Consent = "form 17"
	changeTerms(t, l, r)
	if d := <-seen; d.Object != "ann" || d.Consent != "form 17" || d.Cap != Eps(t, "10") || !d.Policy.Equal(*priced(t, 20)) {
		t.Errorf("%+v", d)
	}
}

// Many are dealt with in parts; what is cut off goes on under its key. A cap that was lowered meanwhile by another request is then more,
// and is not raised.
func TestTermsOfManyChangeInParts(t *testing.T) { Both(t, testTermsOfManyChangeInParts) }

func testTermsOfManyChangeInParts(t *T) {
	names := Crowd(2*partSize + 10)
	l := Sellers(t, NewLedger(t), "2", "9", names...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := to(t, "1", priced(t, 120), "5", names...)
	var told []int
	r.Progress = func(done, total int) {
		if told = append(told, done, total); done == partSize {
			cancel()
		}
	}
	before := len(Events(t, l))
	_, err := l.ChangeTerms(ctx, r)
	if err == nil || len(Events(t, l)) != before+1+partSize+1 {
		t.Errorf("%v: cut off with %d events more", err, len(Events(t, l))-before)
	}
	last := names[len(names)-1]
	changeTerms(t, l, to(t, "2", nil, "4", last))
	_, err = l.ChangeTerms(t.Context(), r)
	check.Is(t, err, api.ErrPartlyDone)
	got := Refusals(t, err)
	check.That(t, len(got) == 1 && got[0].Object == last && got[0].Reason == api.NeedsConsent, "%+v", got)
	back := to(t, "3", nil, "9", last)
	back.Consent = "agreed"
	changeTerms(t, l, back)
	done, err := l.ChangeTerms(t.Context(), r)
	check.Must(t, err)
	check.That(t, done.Changed == len(names) && done.Unchanged == 0, "%+v", done)
	check.That(t, slices.Equal(told[:2], []int{partSize, len(names)}), "told %v", told)
	for _, object := range []string{names[0], names[partSize], last} {
		o := ObjectOf(t, l, object)
		check.That(t, o.Cap == Eps(t, "5") && o.Chains[0].Policy.Equal(*priced(t, 120)), "%s is under %+v", object, o)
	}
	WantClean(t, l, api.VerifyRequest{})
}
