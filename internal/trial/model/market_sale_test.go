package model

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
)

func on(day int) time.Time { return ledgertest.Begin().Add(time.Duration(day) * 24 * time.Hour) }

// However late ctx ends, an error means that nothing was sold.
func TestASaleIsToldWhenItIsMade(t *testing.T) {
	Both(t, testASaleIsToldWhenItIsMade)
}

func testASaleIsToldWhenItIsMade(t *T) {
	calls, end, cancel := 0, 0, func() {}
	l := Open(t, ledger.Options{Now: func() time.Time {
		if calls++; calls == end {
			cancel()
		}
		return ledgertest.Begin()
	}})
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "2"), "9", "ann")
	for end = 1; end < 8; end++ {
		var ctx context.Context
		ctx, cancel = context.WithCancel(t.Context())
		before := Stats(t, l).Sales
		calls = 0
		r := Purchase(t, fmt.Sprint(end), "acme", fmt.Sprint("0.", end), "ann")
		s, err := l.Sell(ctx, r)
		calls = 100
		if made := Stats(t, l).Sales - before; (err == nil) != (made == 1) || err == nil && s.Objects != 1 {
			t.Errorf("ctx ended at look %d at the clock: %d sales made, and %+v, %v", end, made, s, err)
		}
		cancel()
	}
}

// A reservation brings the share that its order unlocks, and takes nothing that others have without it.
func TestAReservationBringsItsShare(t *testing.T) {
	Anywhere(t, testAReservationBringsItsShare)
}

func testAReservationBringsItsShare(t *T) {
	shares, err := policy.Unlock(Eps(t, "0.5"), 5)
	Must(t, err)
	both, err := policy.Sum(shares, policy.Fixed(Eps(t, "0.5")))
	Must(t, err)
	p, err := policy.Min(both, Market(t, "2"))
	Must(t, err)
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", p, "9", "ann")
	r := Reserve(t, l, api.ReserveRequest{Key: "r", Order: api.Order{Buyer: "acme", Question: "vote", Epsilon: Eps(t, "0.6"), Objects: []string{"ann"}}, For: time.Hour})
	Release(t, l, ReleaseOf(t, "host", "ann", "0.5"))
	if _, err := l.Release(t.Context(), ReleaseOf(t, "more", "ann", "0.500000001")); Refusals(t, err)[0].Reason != api.ChainCeiling {
		t.Errorf("got the error %v", err)
	}
	if s := Commit(t, l, "c", r.Number); s.Draws != 1 {
		t.Errorf("%+v", s)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Who withdraws takes back what was reserved of it, also by coming back.
func TestAReservationEndsWithAWithdrawal(t *testing.T) {
	Anywhere(t, testAReservationEndsWithAWithdrawal)
}

func testAReservationEndsWithAWithdrawal(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	Define(t, l, Smoker())
	back := func(question string) { EnrollUnder(t, l, question, Market(t, "2"), "1", "ann") }
	back("vote")
	back("smoker")
	r := Reserve(t, l, api.ReserveRequest{Key: "r", Order: api.Order{Buyer: "acme", Question: "vote", Epsilon: Eps(t, "1"), Objects: []string{"ann"}}, For: time.Hour})
	Must(t, l.Withdraw(t.Context(), "w", "ann"))
	enroll := func(key, question string) {
		_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: question, Objects: []string{"ann"}, Policy: Market(t, "2")})
		Must(t, err)
	}
	enroll("back", "smoker")
	if o := ObjectOf(t, l, "ann"); !o.Held.IsZero() {
		t.Errorf("%s is held of who has withdrawn", o.Held)
	}
	Sell(t, l, api.SellRequest{Key: "s", Order: api.Order{Buyer: "zeta", Question: "smoker", Epsilon: Eps(t, "0.5"), Objects: []string{"ann"}}, Truth: SameTruth("yes")})
	enroll("again", "vote")
	_, err := l.Capture(t.Context(), api.CaptureRequest{Key: "c", Reservation: r.Number, Truth: Never(t)})
	if got := Refusals(t, err); got[0].Reason != api.Withdrawn || got[0].Remedy != api.RemedyNothing {
		t.Errorf("got the error %v", err)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Whoever has no truth costs nothing, and so does not break a limit; and no waiting helps against a cap.
func TestLimitsAreThoseOfWhatIsSold(t *testing.T) {
	Anywhere(t, testLimitsAreThoseOfWhatIsSold)
}

func testLimitsAreThoseOfWhatIsSold(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "2"), "9", "ann", "bob")
	r := Purchase(t, "1", "acme", "0.5", "ann", "bob")
	one, err := l.Quote(t.Context(), api.Order{Buyer: "acme", Question: "vote", Epsilon: Eps(t, "0.5"), Objects: []string{"ann"}})
	Must(t, err)
	less := one.Price - 1
	r.Partial, r.MaxPrice, r.Truth = true, &less, ListOf("yes", "")
	_, err = l.Sell(t.Context(), r)
	if dearer, is := errors.AsType[*api.QuoteError](err); !is || dearer.Quote.Price != one.Price {
		t.Errorf("for one less than it costs: %v", err)
	}
	r.MaxPrice = &one.Price
	if s := Sell(t, l, r); s.Price != one.Price || len(s.Refused) != 1 {
		t.Errorf("%+v", s)
	}
	clock := ledgertest.NewClock(ledgertest.Begin())
	late := Open(t, ledger.Options{Now: clock.Now})
	Define(t, late, Vote())
	EnrollUnder(t, late, "vote", straight(t, "0.1"), "0.5", "ann")
	_, err = late.Release(t.Context(), ReleaseOf(t, "k", "ann", "0.9"))
	if got := Refusals(t, err); got[0].Reason != api.ChainCeiling || got[0].Remedy != api.RemedyNothing {
		t.Errorf("got the error %v", err)
	}
}

// Whether there is anybody may change; a request for all who take part is not wrong for ever.
func TestNobodyYet(t *testing.T) { Anywhere(t, testNobodyYet) }

func testNobodyYet(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	r := Purchase(t, "1", "acme", "0.5")
	if _, err := l.Sell(t.Context(), r); !errors.Is(err, api.ErrUnknown) || errors.Is(err, api.ErrInvalid) {
		t.Errorf("got the error %v", err)
	}
	EnrollUnder(t, l, "vote", Market(t, "2"), "9", "ann")
	Sell(t, l, r)
	for _, broken := range []string{"a\uFFFDb"} {
		if _, err := l.Sell(t.Context(), Purchase(t, "2", broken, "0.5", "ann")); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("the buyer %q is served: %v", broken, err)
		}
	}
}

// Who withdraws and comes back finds everything spent that was spent.
func TestComingBackRestoresNoBudget(t *testing.T) {
	Anywhere(t, testComingBackRestoresNoBudget)
}

func testComingBackRestoresNoBudget(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "2"), "1", "ann")
	Sell(t, l, Purchase(t, "1", "acme", "0.75", "ann"))
	Must(t, l.Withdraw(t.Context(), "w", "ann"))
	for name, call := range map[string]func() error{
		"a resale": func() error { _, err := l.Sell(t.Context(), Purchase(t, "2", "zeta", "0.75", "ann")); return err },
		"a draw":   func() error { _, err := l.Release(t.Context(), ReleaseOf(t, "3", "ann", "1")); return err },
		"an answer": func() error {
			_, err := l.Answer(t.Context(), Inquire(t, "4", "majority:yes", "0.1", Never(t), "ann"))
			return err
		},
	} {
		if got := Refusals(t, call()); got[0].Reason != api.Withdrawn || got[0].Remedy != api.RemedyEnrolling {
			t.Errorf("%s of who has withdrawn: %+v", name, got)
		}
	}
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"ann"}, Policy: Market(t, "2"), Cap: Eps(t, "1")})
	Must(t, err)
	if o := ObjectOf(t, l, "ann"); o.Spent != Eps(t, "0.75") || len(o.Chains[0].Levels) != 1 {
		t.Errorf("%+v", o)
	}
	_, err = l.Sell(t.Context(), Purchase(t, "5", "zeta", "1.000000001", "ann"))
	if got := Refusals(t, err); got[0].Reason != api.ObjectCap || got[0].Remaining != Eps(t, "0.25") {
		t.Errorf("got %+v", got)
	}
}

// A policy is what its JSON says, whoever wrote it: an object comes back under the same terms only.
func TestComingBackKeepsTheTerms(t *testing.T) {
	Anywhere(t, testComingBackKeepsTheTerms)
}

func testComingBackKeepsTheTerms(t *T) {
	l := Sellers(t, Open(t, ledger.Options{}), "2", "2", "ann")
	Sell(t, l, Purchase(t, "1", "acme", "1", "ann"))
	Must(t, l.Withdraw(t.Context(), "w", "ann"))
	for name, p := range map[string]policy.Policy{"cheaper": Market(t, "2", func(m *policy.Market) { m.Floor = 1 }), "none": {}} {
		_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: name, Question: "vote", Objects: []string{"ann"}, Policy: p})
		if got := Refusals(t, err); got[0].Reason != api.PolicyDiffers {
			t.Errorf("%s: %+v", name, got)
		}
	}
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "same", Question: "vote", Objects: []string{"ann"}, Policy: Market(t, "2")})
	Must(t, err)
	if s := Sell(t, l, Purchase(t, "2", "acme", "1", "ann")); s.Price != 0 || s.Resales != 1 {
		t.Errorf("what acme has paid for costs %+v", s)
	}
	if o := ObjectOf(t, l, "ann"); o.Spent != Eps(t, "1") || o.Earned != 100 {
		t.Errorf("ann came back as %+v", o)
	}
	AuditAll(t, l)
}
