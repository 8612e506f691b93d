package ledger

import (
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/policy"
)

// unlocking sells ann's vote: half of ε=1 is unlocked by each of two buyers.
func unlocking(t *testing.T) (*Ledger, *kvtest.Memory) {
	t.Helper()
	memory := &kvtest.Memory{}
	begin(t, memory)
	l := openMemory(t, memory, Options{Now: epoch})
	define(t, l, vote())
	halves, err := policy.Unlock(eps(t, "1"), 2)
	must(t, err)
	p, err := policy.Min(market(t, "1"), halves)
	must(t, err)
	enrollUnder(t, l, "vote", p, "9", "ann")
	return l, memory
}

// Many small upgrades by one buyer unlock what one order does; another buyer unlocks the rest.
func TestUnlockCountsBuyers(t *testing.T) {
	l, memory := unlocking(t)
	for _, e := range []string{"0.1", "0.2", "0.3", "0.4", "0.5"} {
		sell(t, l, purchase(t, e, "acme", e, "ann"))
	}
	_, err := l.Sell(t.Context(), purchase(t, "more", "acme", "0.500000001", "ann"))
	if r := refusals(t, err)[0]; r.Reason != ChainCeiling || r.Ceiling != eps(t, "0.5") || r.Remedy != RemedyWaiting {
		t.Errorf("one buyer wants more than its share: %+v", r)
	}
	if c := objectOf(t, l, "ann").Chains[0]; c.Buyers != 1 || c.Ceiling != eps(t, "0.5") {
		t.Errorf("one buyer is counted as %d, and unlocks %s", c.Buyers, c.Ceiling)
	}
	sell(t, l, purchase(t, "zeta", "zeta", "1", "ann"))
	sell(t, l, purchase(t, "all", "acme", "1", "ann"))
	must(t, l.Withdraw(t.Context(), "w", "ann"))
	_, err = l.Enroll(t.Context(), EnrollRequest{Key: "back", Question: "vote", Objects: []string{"ann"}, Policy: *objectOf(t, l, "ann").Chains[0].Policy})
	must(t, err)
	if c := objectOf(t, l, "ann").Chains[0]; c.Buyers != 2 || c.Ceiling != eps(t, "1") {
		t.Errorf("of %d buyers after a change of mind, %s is unlocked", c.Buyers, c.Ceiling)
	}
	// Who has bought is destroyed with the responses: the shares are unlocked anew.
	must(t, l.Forget(t.Context(), "f", "ann"))
	if c := objectOf(t, l, "ann").Chains[0]; c.Buyers != 0 || !c.Ceiling.IsZero() {
		t.Errorf("of %d buyers of a forgotten chain, %s is unlocked", c.Buyers, c.Ceiling)
	}
	auditStore(t, memory)
}

// A reservation counts on the share of its own buyer and of those before it. Whatever others buy meanwhile, also the same
// buyer in another order, and whatever is answered, it can be captured.
func TestAReservationOutlivesWhatOthersUnlock(t *testing.T) {
	reserved := func(l *Ledger, key, buyer, e string) Reservation {
		r, err := l.Reserve(t.Context(), ReserveRequest{Key: key, Order: purchase(t, key, buyer, e, "ann").Order, For: time.Hour})
		must(t, err)
		return r
	}
	captured := func(l *Ledger, r Reservation) {
		t.Helper()
		_, err := l.Capture(t.Context(), CaptureRequest{Key: "capture " + r.Key, Reservation: r.Number, Truth: TruthOf("yes")})
		must(t, err)
	}
	for name, meanwhile := range map[string]func(l *Ledger){
		"another buyer":           func(l *Ledger) { sell(t, l, purchase(t, "z", "zeta", "0.25", "ann")) },
		"another buyer, for more": func(l *Ledger) { sell(t, l, purchase(t, "z", "zeta", "0.5", "ann")) },
		"two others": func(l *Ledger) {
			sell(t, l, purchase(t, "z", "zeta", "0.5", "ann"))
			sell(t, l, purchase(t, "h", "hooli", "1", "ann"))
		},
		"the same buyer":                  func(l *Ledger) { sell(t, l, purchase(t, "a", "acme", "0.1", "ann")) },
		"another reservation of the same": func(l *Ledger) { captured(l, reserved(l, "again", "acme", "0.3")) },
		"one that is cancelled": func(l *Ledger) {
			must(t, l.Cancel(t.Context(), "c", reserved(l, "z", "zeta", "0.5").Number))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, memory := unlocking(t)
			r := reserved(l, "r", "acme", "0.5")
			meanwhile(l)
			captured(l, r)
			auditStore(t, memory)
		})
	}
}

// An answer may take what a further buyer would unlock, but nothing that a reservation counts on: its buyer, who is counted
// already, unlocks nothing more by it.
func TestAnAnswerLeavesAKnownBuyersReservation(t *testing.T) {
	l, _ := unlocking(t)
	sell(t, l, purchase(t, "a", "acme", "0.1", "ann"))
	r, err := l.Reserve(t.Context(), ReserveRequest{Key: "r", Order: purchase(t, "r", "acme", "0.5", "ann").Order, For: time.Hour})
	must(t, err)
	_, err = l.Answer(t.Context(), inquire(t, "q", "majority:yes", "0.1", ballots("ann"), "ann"))
	if refused := refusals(t, err)[0]; refused.Reason != ChainCeiling || !refused.Remaining.IsZero() {
		t.Errorf("an answer takes what is reserved: %+v", refused)
	}
	_, err = l.Capture(t.Context(), CaptureRequest{Key: "c", Reservation: r.Number, Truth: TruthOf("yes")})
	must(t, err)
}

// What is for sale is released by sales: the calendar raises the ceiling and draws nothing. The host may raise it itself.
func TestAdvanceDrawsNothingThatIsForSale(t *testing.T) {
	clock := newClock(epoch())
	l := inMemory(t, Options{Now: clock.read})
	define(t, l, vote())
	calendar := straight(t, "0.1")
	sold, err := policy.Min(calendar, market(t, "1"))
	must(t, err)
	enrollUnder(t, l, "vote", sold, "9", "ann", "bob")
	enrollUnder(t, l, "vote", calendar, "9", "cid")
	clock.set(epoch().Add(5 * 24 * time.Hour))
	done, err := l.Advance(t.Context(), AdvanceRequest{Key: "a", Truth: TruthOf("yes")})
	must(t, err)
	if q := done.Questions[0]; q.Raised != 1 || q.Unchanged != 2 || len(q.Refused) != 0 {
		t.Errorf("%+v", q)
	}
	for name, want := range map[string]string{"ann": "0", "cid": "0.5"} {
		if o := objectOf(t, l, name); o.Spent != eps(t, want) || o.Chains[0].Ceiling != eps(t, "0.5") {
			t.Errorf("%s has spent %s of %s", name, o.Spent, o.Chains[0].Ceiling)
		}
	}
	if s := sell(t, l, purchase(t, "s", "acme", "0.5", "ann")); s.Draws != 1 {
		t.Errorf("the sale drew %d", s.Draws)
	}
	release(t, l, releaseOf(t, "host", "bob", "0.5"))
}
