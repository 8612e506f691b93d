package model

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
)

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
				Must(t, l.Withdraw(t.Context(), "withdraw "+object, object))
			}
			r.Truth = Never(t)
			after, err := l.Answer(t.Context(), r)
			if err != nil || !reflect.DeepEqual(after, before) {
				t.Errorf("a request came to %+v, and again to %+v, %v", before, after, err)
			}
		})
	}
}

// Whoever comes first must not take all of the budget that is unlocked with orders. A buyer who held a
// level unlocked the rest by orders of lower levels, which cost neither money nor ε.
func TestOrdersThatCostNothingUnlockNothing(t *testing.T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	shares, err := policy.Unlock(Eps(t, "1"), 10)
	Must(t, err)
	p, err := policy.Min(Market(t, "1"), shares)
	Must(t, err)
	EnrollUnder(t, l, "vote", p, "9", "ann")
	Sell(t, l, Purchase(t, "1", "acme", "0.1", "ann"))
	for i := 1; i <= 9; i++ {
		epsilon := fmt.Sprintf("0.0%d", i)
		if s := Sell(t, l, Purchase(t, epsilon, "acme", epsilon, "ann")); s.Price != 0 || s.Draws != 0 {
			t.Fatalf("a lower level costs %d and %d draws", s.Price, s.Draws)
		}
	}
	if c := ObjectOf(t, l, "ann").Chains[0]; c.Ceiling != Eps(t, "0.1") {
		t.Errorf("one buyer at ε=0.1 has unlocked %s", c.Ceiling)
	}
}

// What a refusal says helps must help. A partial sale that was held to its quote, and for one object of
// which the host turned out to have no truth, was refused with "a new quote helps"; the new quote was the
// old one, and so on for ever.
func TestAQuotedSaleWithoutATruthAsksForTheTruth(t *testing.T) {
	l := Sellers(t, NewLedger(t), "1", "9", "ann", "bob")
	r := Purchase(t, "1", "acme", "0.5")
	quote, err := l.Quote(t.Context(), r.Order)
	Must(t, err)
	r.QuoteID, r.Partial = quote.ID, true
	r.Truth = func(_ context.Context, _ string, objects []string) ([]string, error) {
		return append([]string{"yes"}, make([]string, len(objects)-1)...), nil // nothing but ann's
	}
	_, err = l.Sell(t.Context(), r)
	if got := Refusals(t, err); len(got) != 1 || got[0].Object != "bob" || got[0].Remedy != api.RemedyTruth {
		t.Errorf("refused %+v", got)
	}
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
	Must(t, err)
	p, err := policy.Min(Market(t, "1"), shares)
	Must(t, err)
	EnrollUnder(t, l, "vote", p, "9", "ann")
	Sell(t, l, Purchase(t, "1", "cryo", "0.1", "ann"))
	hold := func(buyer, epsilon string) api.Reservation {
		return Reserve(t, l, api.ReserveRequest{Key: buyer, Order: Purchase(t, "", buyer, epsilon, "ann").Order, For: time.Hour})
	}
	acme, bolt := hold("acme", "0.2"), hold("bolt", "0.5")
	_, err = l.Answer(t.Context(), Inquire(t, "2", "majority:yes", "0.15", Ballots(), "ann"))
	t.Logf("the answer, for which what bolt has reserved leaves nothing: %v", err)
	Must(t, l.Cancel(t.Context(), "3", acme.Number))
	Commit(t, l, "4", bolt.Number)
}

// Nor may the share of a reserved order be counted on against what holds without it: here the large raise,
// which unlocks nothing and is then refused in its midst.
func TestAReservedShareIsNoHelpAgainstARaise(t *testing.T) {
	names := Crowd(partSize + 1)
	last := names[partSize]
	l := NewLedger(t)
	Define(t, l, Vote())
	shares, err := policy.Unlock(Eps(t, "1"), 4)
	Must(t, err)
	p, err := policy.Min(Market(t, "1"), shares)
	Must(t, err)
	EnrollUnder(t, l, "vote", p, "9", names...)
	Sell(t, l, Purchase(t, "1", "cryo", "0.1", names...))
	Reserve(t, l, api.ReserveRequest{Key: "2", Order: Purchase(t, "", "acme", "0.2", last).Order, For: time.Hour})
	r, once := Order(t, "3", "0.25", names...), false
	r.Progress = func(int, int) {
		if !once {
			once = true
			_, err := l.Answer(t.Context(), Inquire(t, "4", "majority:yes", "0.1", Ballots(), last))
			Refusals(t, err)
		}
	}
	CarryOut(t, l, r)
}

// A backup is made at any instant. One made after a new noise key, and before anything else, was damaged data to Verify,
// and so not made.
func TestABackupFollowsOnANewNoiseKey(t *testing.T) {
	for _, compact := range []bool{false, true} {
		moves := []move{moveReopen{opening{Noise: "2026"}}, moveCopy{Compact: compact}, moveRestore{}}
		if failure := newTable().play(t, realFiles-1, moves); failure != "" {
			t.Error(failure)
		}
	}
}

// The event of an epoch is erased with the rest, and names nobody then.
func TestAnEpochIsForgotten(t *testing.T) {
	moves := []move{
		moveEnroll{Question: "vote", Objects: []string{"dot"}, Rule: 0, Cap: milli(300)}, moveRelease{"vote", "dot", milli(100), host{}}, moveEpoch{"vote", "dot"},
		moveRelease{"vote", "dot", milli(100), host{}}, moveForget{"dot"}, moveReturn{"vote", "dot"}, moveRelease{"vote", "dot", milli(50), host{}},
	}
	for seed := range uint64(4) {
		if failure := newTable().play(t, seed, moves); failure != "" {
			t.Errorf("seed %d: %s", seed, failure)
		}
	}
}
