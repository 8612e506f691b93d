package model

import (
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
)

// unlocking sells ann's vote: half of ε=1 is unlocked by each of two buyers.
func unlocking(t testing.TB) Book {
	t.Helper()
	l := Open(t, ledger.Options{Now: ledgertest.Begin})
	Define(t, l, Vote())
	halves, err := policy.Unlock(Eps(t, "1"), 2)
	Must(t, err)
	p, err := policy.Min(Market(t, "1"), halves)
	Must(t, err)
	EnrollUnder(t, l, "vote", p, "9", "ann")
	return l
}

// straight is a calendar of some days from 0 to 1.
func straight(t testing.TB, stride string) policy.Policy {
	t.Helper()
	p, err := policy.Linear(Eps(t, "0"), Eps(t, "1"), ledgertest.Begin(), ledgertest.Begin().Add(10*24*time.Hour), Eps(t, stride))
	Must(t, err)
	return p
}

// Many small upgrades by one buyer unlock what one order does; another buyer unlocks the rest.
func TestUnlockCountsBuyers(t *testing.T) { Anywhere(t, testUnlockCountsBuyers) }

func testUnlockCountsBuyers(t *T) {
	l := unlocking(t)
	for _, e := range []string{"0.1", "0.2", "0.3", "0.4", "0.5"} {
		Sell(t, l, Purchase(t, e, "acme", e, "ann"))
	}
	_, err := l.Sell(t.Context(), Purchase(t, "more", "acme", "0.500000001", "ann"))
	if r := Refusals(t, err)[0]; r.Reason != api.ChainCeiling || r.Ceiling != Eps(t, "0.5") || r.Remedy != api.RemedyWaiting {
		t.Errorf("one buyer wants more than its share: %+v", r)
	}
	if c := ObjectOf(t, l, "ann").Chains[0]; c.Buyers != 1 || c.Ceiling != Eps(t, "0.5") {
		t.Errorf("one buyer is counted as %d, and unlocks %s", c.Buyers, c.Ceiling)
	}
	Sell(t, l, Purchase(t, "zeta", "zeta", "1", "ann"))
	Sell(t, l, Purchase(t, "all", "acme", "1", "ann"))
	Must(t, l.Withdraw(t.Context(), "w", "ann"))
	_, err = l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"ann"}, Policy: *ObjectOf(t, l, "ann").Chains[0].Policy})
	Must(t, err)
	if c := ObjectOf(t, l, "ann").Chains[0]; c.Buyers != 2 || c.Ceiling != Eps(t, "1") {
		t.Errorf("of %d buyers after a change of mind, %s is unlocked", c.Buyers, c.Ceiling)
	}
	// Who has bought is destroyed with the responses: the shares are unlocked anew.
	Must(t, l.Forget(t.Context(), "f", "ann"))
	if c := ObjectOf(t, l, "ann").Chains[0]; c.Buyers != 0 || !c.Ceiling.IsZero() {
		t.Errorf("of %d buyers of a forgotten chain, %s is unlocked", c.Buyers, c.Ceiling)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// A reservation counts on the share of its own buyer and of those before it. Whatever others buy meanwhile, also the same
// buyer in another order, and whatever is answered, it can be captured.
func TestAReservationOutlivesWhatOthersUnlock(t *testing.T) {
	Anywhere(t, testAReservationOutlivesWhatOthersUnlock)
}

func testAReservationOutlivesWhatOthersUnlock(t *T) {
	reserved := func(l Book, key, buyer, e string) api.Reservation {
		r, err := l.Reserve(t.Context(), api.ReserveRequest{Key: key, Order: Purchase(t, key, buyer, e, "ann").Order, For: time.Hour})
		Must(t, err)
		return r
	}
	captured := func(l Book, r api.Reservation) {
		t.Helper()
		_, err := l.Capture(t.Context(), api.CaptureRequest{Key: "capture " + r.Key, Reservation: r.Number, Truth: SameTruth("yes")})
		Must(t, err)
	}
	for name, meanwhile := range map[string]func(l Book){
		"another buyer":           func(l Book) { Sell(t, l, Purchase(t, "z", "zeta", "0.25", "ann")) },
		"another buyer, for more": func(l Book) { Sell(t, l, Purchase(t, "z", "zeta", "0.5", "ann")) },
		"two others": func(l Book) {
			Sell(t, l, Purchase(t, "z", "zeta", "0.5", "ann"))
			Sell(t, l, Purchase(t, "h", "hooli", "1", "ann"))
		},
		"the same buyer":                  func(l Book) { Sell(t, l, Purchase(t, "a", "acme", "0.1", "ann")) },
		"another reservation of the same": func(l Book) { captured(l, reserved(l, "again", "acme", "0.3")) },
		"one that is cancelled": func(l Book) {
			Must(t, l.Cancel(t.Context(), "c", reserved(l, "z", "zeta", "0.5").Number))
		},
	} {
		t.Run(name, func(t *T) {
			l := unlocking(t)
			r := reserved(l, "r", "acme", "0.5")
			meanwhile(l)
			captured(l, r)
			WantClean(t, l, api.VerifyRequest{})
		})
	}
}

// An answer may take what a further buyer would unlock, but nothing that a reservation counts on: its buyer, who is counted
// already, unlocks nothing more by it.
func TestAnAnswerLeavesAKnownBuyersReservation(t *testing.T) {
	Anywhere(t, testAnAnswerLeavesAKnownBuyersReservation)
}

func testAnAnswerLeavesAKnownBuyersReservation(t *T) {
	l := unlocking(t)
	Sell(t, l, Purchase(t, "a", "acme", "0.1", "ann"))
	r, err := l.Reserve(t.Context(), api.ReserveRequest{Key: "r", Order: Purchase(t, "r", "acme", "0.5", "ann").Order, For: time.Hour})
	Must(t, err)
	_, err = l.Answer(t.Context(), Inquire(t, "q", "majority:yes", "0.1", Ballots("ann"), "ann"))
	if refused := Refusals(t, err)[0]; refused.Reason != api.ChainCeiling || !refused.Remaining.IsZero() {
		t.Errorf("an answer takes what is reserved: %+v", refused)
	}
	_, err = l.Capture(t.Context(), api.CaptureRequest{Key: "c", Reservation: r.Number, Truth: SameTruth("yes")})
	Must(t, err)
}

// What is for sale is released by sales: the calendar raises the ceiling and draws nothing. The host may raise it itself.
func TestAdvanceDrawsNothingThatIsForSale(t *testing.T) {
	Anywhere(t, testAdvanceDrawsNothingThatIsForSale)
}

func testAdvanceDrawsNothingThatIsForSale(t *T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := Open(t, ledger.Options{Now: clock.Now})
	Define(t, l, Vote())
	calendar := straight(t, "0.1")
	sold, err := policy.Min(calendar, Market(t, "1"))
	Must(t, err)
	EnrollUnder(t, l, "vote", sold, "9", "ann", "bob")
	EnrollUnder(t, l, "vote", calendar, "9", "cid")
	clock.Set(ledgertest.Begin().Add(5 * 24 * time.Hour))
	done, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "a", Truth: SameTruth("yes")})
	Must(t, err)
	if q := done.Questions[0]; q.Raised != 1 || q.Unchanged != 2 || len(q.Refused) != 0 {
		t.Errorf("%+v", q)
	}
	for name, want := range map[string]string{"ann": "0", "cid": "0.5"} {
		if o := ObjectOf(t, l, name); o.Spent != Eps(t, want) || o.Chains[0].Ceiling != Eps(t, "0.5") {
			t.Errorf("%s has spent %s of %s", name, o.Spent, o.Chains[0].Ceiling)
		}
	}
	if s := Sell(t, l, Purchase(t, "s", "acme", "0.5", "ann")); s.Draws != 1 {
		t.Errorf("the sale drew %d", s.Draws)
	}
	Release(t, l, ReleaseOf(t, "host", "bob", "0.5"))
}
