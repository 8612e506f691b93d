package ledger

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

// Faults that the model found.

// The same key with the same request returns the same answer (invariant 5), whoever has withdrawn or come
// back since. A request about all computed its panel anew, and reported the answer as lost (ErrCorrupt) or
// the panel as empty (ErrInvalid).
func TestAnAnswerToAllIsRepeatedAfterAWithdrawal(t *testing.T) {
	for name, leave := range map[string][]string{"one": {"bob"}, "all": {"ann", "bob"}} {
		t.Run(name, func(t *testing.T) {
			l := voters(t, newLedger(t), "1", "ann", "bob")
			r := inquire(t, "1", "majority:yes", "0.5", ballots())
			r.All = true
			before := answerTo(t, l, r)
			for _, object := range leave {
				must(t, l.Withdraw(t.Context(), "withdraw "+object, object))
			}
			r.Truth = never(t)
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
	l := newLedger(t)
	define(t, l, vote())
	shares, err := policy.Unlock(eps(t, "1"), 10)
	must(t, err)
	p, err := policy.Min(market(t, "1"), shares)
	must(t, err)
	enrollUnder(t, l, "vote", p, "9", "ann")
	sell(t, l, purchase(t, "1", "acme", "0.1", "ann"))
	for i := 1; i <= 9; i++ {
		epsilon := fmt.Sprintf("0.0%d", i)
		if s := sell(t, l, purchase(t, epsilon, "acme", epsilon, "ann")); s.Price != 0 || s.Draws != 0 {
			t.Fatalf("a lower level costs %d and %d draws", s.Price, s.Draws)
		}
	}
	if c := objectOf(t, l, "ann").Chains[0]; c.Ceiling != eps(t, "0.1") {
		t.Errorf("one buyer at ε=0.1 has unlocked %s", c.Ceiling)
	}
}

// What a refusal says helps must help. A partial sale that was held to its quote, and for one object of
// which the host turned out to have no truth, was refused with "a new quote helps"; the new quote was the
// old one, and so on for ever.
func TestAQuotedSaleWithoutATruthAsksForTheTruth(t *testing.T) {
	l := sellers(t, newLedger(t), "1", "9", "ann", "bob")
	r := purchase(t, "1", "acme", "0.5")
	quote, err := l.Quote(t.Context(), r.Order)
	must(t, err)
	r.QuoteID, r.Partial = quote.ID, true
	r.Truth = func(_ context.Context, _ string, objects []string) ([]string, error) {
		return append([]string{"yes"}, make([]string, len(objects)-1)...), nil // nothing but ann's
	}
	_, err = l.Sell(t.Context(), r)
	if got := refusals(t, err); len(got) != 1 || got[0].Object != "bob" || got[0].Helps != HelpsTruth {
		t.Errorf("refused %+v", got)
	}
	r.Truth = TruthOf("yes")
	sell(t, l, r)
}

// Until it expires, what a reservation needs counts as spent for everybody else. The shares that other
// reservations would unlock were counted on while those could still be cancelled: here acme's, on which the
// answer relied, and then bolt's reservation could not be carried out.
func TestNoReservationRestsOnAnother(t *testing.T) {
	l := newLedger(t)
	define(t, l, vote())
	shares, err := policy.Unlock(eps(t, "1"), 4)
	must(t, err)
	p, err := policy.Min(market(t, "1"), shares)
	must(t, err)
	enrollUnder(t, l, "vote", p, "9", "ann")
	sell(t, l, purchase(t, "1", "cryo", "0.1", "ann"))
	hold := func(buyer, epsilon string) Reservation {
		return reserve(t, l, ReserveRequest{Key: buyer, Order: purchase(t, "", buyer, epsilon, "ann").Order, For: time.Hour})
	}
	acme, bolt := hold("acme", "0.2"), hold("bolt", "0.5")
	_, err = l.Answer(t.Context(), inquire(t, "2", "majority:yes", "0.15", ballots(), "ann"))
	t.Logf("the answer, for which what bolt has reserved leaves nothing: %v", err)
	must(t, l.Cancel(t.Context(), "3", acme.Number))
	commit(t, l, "4", bolt.Number)
}

// Nor may the share of a reserved order be counted on against what holds without it: here the large raise,
// which unlocks nothing and is then refused in its midst.
func TestAReservedShareIsNoHelpAgainstARaise(t *testing.T) {
	names := crowd(state.PartSize + 1)
	last := names[state.PartSize]
	l := newLedger(t)
	define(t, l, vote())
	shares, err := policy.Unlock(eps(t, "1"), 4)
	must(t, err)
	p, err := policy.Min(market(t, "1"), shares)
	must(t, err)
	enrollUnder(t, l, "vote", p, "9", names...)
	sell(t, l, purchase(t, "1", "cryo", "0.1", names...))
	reserve(t, l, ReserveRequest{Key: "2", Order: purchase(t, "", "acme", "0.2", last).Order, For: time.Hour})
	r, once := order(t, "3", "0.25", names...), false
	r.Progress = func(int, int) {
		if !once {
			once = true
			_, err := l.Answer(t.Context(), inquire(t, "4", "majority:yes", "0.1", ballots(), last))
			refusals(t, err)
		}
	}
	carryOut(t, l, r)
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
		moveEnroll{"vote", []string{"dot"}, 0, milli(300)}, moveRelease{"vote", "dot", milli(100), host{}}, moveEpoch{"vote", "dot"},
		moveRelease{"vote", "dot", milli(100), host{}}, moveForget{"dot"}, moveReturn{"vote", "dot"}, moveRelease{"vote", "dot", milli(50), host{}},
	}
	for seed := range uint64(4) {
		if failure := newTable().play(t, seed, moves); failure != "" {
			t.Errorf("seed %d: %s", seed, failure)
		}
	}
}
