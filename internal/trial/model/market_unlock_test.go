package model

import (
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/trial/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
)

// unlocking sells ann's vote: half of ε=1 is unlocked by each of two buyers.
func unlocking(t testing.TB) kit.Book {
	t.Helper()
	l := kit.Open(t, ledger.Options{Now: ledgertest.Begin})
	kit.Define(t, l, kit.Vote())
	halves, err := policy.Unlock(kit.Eps(t, "1"), 2)
	kit.Must(t, err)
	p, err := policy.Min(kit.Market(t, "1"), halves)
	kit.Must(t, err)
	kit.EnrollUnder(t, l, "vote", p, "9", "ann")
	return l
}

// straight is a calendar of some days from 0 to 1.
func straight(t testing.TB, stride string) policy.Policy {
	t.Helper()
	p, err := policy.Linear(kit.Eps(t, "0"), kit.Eps(t, "1"), ledgertest.Begin(), ledgertest.Begin().Add(10*24*time.Hour), kit.Eps(t, stride))
	kit.Must(t, err)
	return p
}

// Many small upgrades by one buyer unlock what one order does; another buyer unlocks the rest.
func TestUnlockCountsBuyers(t *testing.T) { kit.Anywhere(t, testUnlockCountsBuyers) }

func testUnlockCountsBuyers(t *kit.T) {
	l := unlocking(t)
	for _, e := range []string{"0.1", "0.2", "0.3", "0.4", "0.5"} {
		kit.Sell(t, l, kit.Purchase(t, e, "acme", e, "ann"))
	}
	_, err := l.Sell(t.Context(), kit.Purchase(t, "more", "acme", "0.500000001", "ann"))
	if r := kit.Refusals(t, err)[0]; r.Reason != ledger.ChainCeiling || r.Ceiling != kit.Eps(t, "0.5") || r.Remedy != vocabulary.RemedyWaiting {
		t.Errorf("one buyer wants more than its share: %+v", r)
	}
	if c := kit.ObjectOf(t, l, "ann").Chains[0]; c.Buyers != 1 || c.Ceiling != kit.Eps(t, "0.5") {
		t.Errorf("one buyer is counted as %d, and unlocks %s", c.Buyers, c.Ceiling)
	}
	kit.Sell(t, l, kit.Purchase(t, "zeta", "zeta", "1", "ann"))
	kit.Sell(t, l, kit.Purchase(t, "all", "acme", "1", "ann"))
	kit.Must(t, l.Withdraw(t.Context(), "w", "ann"))
	_, err = l.Enroll(t.Context(), ledger.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"ann"}, Policy: *kit.ObjectOf(t, l, "ann").Chains[0].Policy})
	kit.Must(t, err)
	if c := kit.ObjectOf(t, l, "ann").Chains[0]; c.Buyers != 2 || c.Ceiling != kit.Eps(t, "1") {
		t.Errorf("of %d buyers after a change of mind, %s is unlocked", c.Buyers, c.Ceiling)
	}
	// Who has bought is destroyed with the responses: the shares are unlocked anew.
	kit.Must(t, l.Forget(t.Context(), "f", "ann"))
	if c := kit.ObjectOf(t, l, "ann").Chains[0]; c.Buyers != 0 || !c.Ceiling.IsZero() {
		t.Errorf("of %d buyers of a forgotten chain, %s is unlocked", c.Buyers, c.Ceiling)
	}
	kit.WantClean(t, l, ledger.VerifyRequest{})
}

// A reservation counts on the share of its own buyer and of those before it. Whatever others buy meanwhile, also the same
// buyer in another order, and whatever is answered, it can be captured.
func TestAReservationOutlivesWhatOthersUnlock(t *testing.T) {
	kit.Anywhere(t, testAReservationOutlivesWhatOthersUnlock)
}

func testAReservationOutlivesWhatOthersUnlock(t *kit.T) {
	reserved := func(l kit.Book, key, buyer, e string) ledger.Reservation {
		r, err := l.Reserve(t.Context(), ledger.ReserveRequest{Key: key, Order: kit.Purchase(t, key, buyer, e, "ann").Order, For: time.Hour})
		kit.Must(t, err)
		return r
	}
	captured := func(l kit.Book, r ledger.Reservation) {
		t.Helper()
		_, err := l.Capture(t.Context(), ledger.CaptureRequest{Key: "capture " + r.Key, Reservation: r.Number, Truth: kit.SameTruth("yes")})
		kit.Must(t, err)
	}
	for name, meanwhile := range map[string]func(l kit.Book){
		"another buyer":           func(l kit.Book) { kit.Sell(t, l, kit.Purchase(t, "z", "zeta", "0.25", "ann")) },
		"another buyer, for more": func(l kit.Book) { kit.Sell(t, l, kit.Purchase(t, "z", "zeta", "0.5", "ann")) },
		"two others": func(l kit.Book) {
			kit.Sell(t, l, kit.Purchase(t, "z", "zeta", "0.5", "ann"))
			kit.Sell(t, l, kit.Purchase(t, "h", "hooli", "1", "ann"))
		},
		"the same buyer":                  func(l kit.Book) { kit.Sell(t, l, kit.Purchase(t, "a", "acme", "0.1", "ann")) },
		"another reservation of the same": func(l kit.Book) { captured(l, reserved(l, "again", "acme", "0.3")) },
		"one that is cancelled": func(l kit.Book) {
			kit.Must(t, l.Cancel(t.Context(), "c", reserved(l, "z", "zeta", "0.5").Number))
		},
	} {
		t.Run(name, func(t *kit.T) {
			l := unlocking(t)
			r := reserved(l, "r", "acme", "0.5")
			meanwhile(l)
			captured(l, r)
			kit.WantClean(t, l, ledger.VerifyRequest{})
		})
	}
}

// An answer may take what a further buyer would unlock, but nothing that a reservation counts on: its buyer, who is counted
// already, unlocks nothing more by it.
func TestAnAnswerLeavesAKnownBuyersReservation(t *testing.T) {
	kit.Anywhere(t, testAnAnswerLeavesAKnownBuyersReservation)
}

func testAnAnswerLeavesAKnownBuyersReservation(t *kit.T) {
	l := unlocking(t)
	kit.Sell(t, l, kit.Purchase(t, "a", "acme", "0.1", "ann"))
	r, err := l.Reserve(t.Context(), ledger.ReserveRequest{Key: "r", Order: kit.Purchase(t, "r", "acme", "0.5", "ann").Order, For: time.Hour})
	kit.Must(t, err)
	_, err = l.Answer(t.Context(), kit.Inquire(t, "q", "majority:yes", "0.1", kit.Ballots("ann"), "ann"))
	if refused := kit.Refusals(t, err)[0]; refused.Reason != ledger.ChainCeiling || !refused.Remaining.IsZero() {
		t.Errorf("an answer takes what is reserved: %+v", refused)
	}
	_, err = l.Capture(t.Context(), ledger.CaptureRequest{Key: "c", Reservation: r.Number, Truth: kit.SameTruth("yes")})
	kit.Must(t, err)
}

// What is for sale is released by sales: the calendar raises the ceiling and draws nothing. The host may raise it itself.
func TestAdvanceDrawsNothingThatIsForSale(t *testing.T) {
	kit.Anywhere(t, testAdvanceDrawsNothingThatIsForSale)
}

func testAdvanceDrawsNothingThatIsForSale(t *kit.T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := kit.Open(t, ledger.Options{Now: clock.Now})
	kit.Define(t, l, kit.Vote())
	calendar := straight(t, "0.1")
	sold, err := policy.Min(calendar, kit.Market(t, "1"))
	kit.Must(t, err)
	kit.EnrollUnder(t, l, "vote", sold, "9", "ann", "bob")
	kit.EnrollUnder(t, l, "vote", calendar, "9", "cid")
	clock.Set(ledgertest.Begin().Add(5 * 24 * time.Hour))
	done, err := l.Advance(t.Context(), ledger.AdvanceRequest{Key: "a", Truth: kit.SameTruth("yes")})
	kit.Must(t, err)
	if q := done.Questions[0]; q.Raised != 1 || q.Unchanged != 2 || len(q.Refused) != 0 {
		t.Errorf("%+v", q)
	}
	for name, want := range map[string]string{"ann": "0", "cid": "0.5"} {
		if o := kit.ObjectOf(t, l, name); o.Spent != kit.Eps(t, want) || o.Chains[0].Ceiling != kit.Eps(t, "0.5") {
			t.Errorf("%s has spent %s of %s", name, o.Spent, o.Chains[0].Ceiling)
		}
	}
	if s := kit.Sell(t, l, kit.Purchase(t, "s", "acme", "0.5", "ann")); s.Draws != 1 {
		t.Errorf("the sale drew %d", s.Draws)
	}
	kit.Release(t, l, kit.ReleaseOf(t, "host", "bob", "0.5"))
}
