package model

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Invariant 2: every draw is checked against the chain's ceiling and the object's cap in the
// transaction that records it, in integers.

// race makes n calls concurrently and returns the errors of those that failed.
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

// 64 buyers each want a part of the last tenth of an object's budget, each through another
// question. Exactly as many succeed as fit.
func (anyLedger) Release_ConcurrentAtTheCap_NeverExceedsIt(t *T) {
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
		return check.Err(l.Release(t.Context(), r))
	})
	check.That(t, len(failed) == buyers-fit, "%d buyers were refused, want %d", len(failed), buyers-fit)
	wantOverCap(t, failed)
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Spent == Eps(t, "0.99"), "spent %s of 1", o.Spent)
	WantClean(t, l, api.VerifyRequest{})
}

// Of 64 buyers of one question at different ε, all at or below the cap succeed, in any order:
// within a chain only the highest level counts.
func (anyLedger) Release_OneChainConcurrently_CostsTheHighestOnly(t *T) {
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
	check.That(t, o.Spent == Eps(t, "1") && len(o.Chains[0].Levels) == fit,
		"spent %s on %d levels", o.Spent, len(o.Chains[0].Levels))
	WantClean(t, l, api.VerifyRequest{})
}

// A cap or ceiling of any size allows exactly that much, and not one nano-nat more.
func (anyLedger) Release_CapOrCeiling_BindsToTheNanoNat(t *T) {
	for _, bound := range []int64{1, 2, 999_999_999, 1_000_000_001, privacy.MaxEpsilon().Nano() - 1, privacy.MaxEpsilon().Nano()} {
		for kind, request := range map[api.Reason]api.EnrollRequest{
			api.ObjectCap:    {Cap: Nano(t, bound)},
			api.ChainCeiling: {Policy: policy.Fixed(Nano(t, bound)), Cap: NoCap()},
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

// The spending of many chains cannot exceed the largest cap, and does not overflow.
func (anyLedger) Release_ManyChains_StopAtTheLargestCap(t *T) {
	l := Open(t, ledger.Options{})
	for i := range 3 {
		name := fmt.Sprintf("question %d", i)
		Define(t, l, api.Question{Name: name, Values: []string{"yes", "no"}, Encoding: "direct"})
		if _, err := l.Enroll(t.Context(), api.EnrollRequest{Key: name, Question: name, Objects: []string{"ann"}, Cap: NoCap()}); err != nil {
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

// A ceiling of 0 allows nothing, with any cap.
func (anyLedger) Release_CeilingOfZero_IsRefused(t *T) {
	l := Open(t, ledger.Options{})
	Define(t, l, Vote())
	check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "e", Question: "vote", Objects: []string{"ann"}, Policy: policy.Fixed(privacy.Epsilon{}), Cap: NoCap()})))
	_, err := l.Release(t.Context(), api.ReleaseRequest{Key: "r", Question: "vote", Object: "ann", Epsilon: Nano(t, 1), Truth: Never(t)})
	want := api.Refusal{Object: "ann", Reason: api.ChainCeiling, Asked: Nano(t, 1), Cost: Nano(t, 1), Remedy: "nothing"}
	got := Refusals(t, err)[0]
	check.That(t, got == want, "refused for %+v, want %+v", got, want)
}

func beginEpoch(t testing.TB, l LedgerAPI, key, object string) {
	t.Helper()
	check.Must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: key, Question: "vote", Object: object}))
}

// The caller decides how levels are combined and what intervals cover.
func (anyLedger) Estimate_PoolAndPopulation_AreUsed(t *T) {
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

// An attacker sees two epochs as independent chains: the law of both responses is the product of
// their laws. So both together cost at most the sum of their ε. The test counts the pairs of 1,000
// objects.
func (anyLedger) Epochs_OfOneObject_AreIndependent(t *T) {
	const people = 1000
	l := Open(t, ledger.Options{})
	Define(t, l, api.Question{Name: "vote", Values: []string{"yes", "no"}})
	names := Crowd(people)
	Enroll(t, l, "vote", "9", names...)
	Raise(t, l, RaiseOf(t, "1", "0.5", names...))
	first := Responses(t, l, "vote", Eps(t, "0.5"))
	for _, name := range names {
		beginEpoch(t, l, "epoch of "+name, name)
	}
	Raise(t, l, RaiseOf(t, "2", "0.5", names...))
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

// Faults that the model found.

// partSize is the number of objects in a part of a large request.
const partSize = 4096

// The share of a reserved order must not count for another request. Here a large raise, which
// unlocks nothing, would be refused in the middle.
func TestRaise_ReservedShare_IsNotCounted(t *testing.T) {
	names := Crowd(partSize + 1)
	last := names[partSize]
	l := NewLedger(t)
	Define(t, l, Vote())
	shares := check.Value(policy.Unlock(Eps(t, "1"), 4))(t)
	p := check.Value(policy.Min(Market(t, "1"), shares))(t)
	EnrollUnder(t, l, "vote", p, "9", names...)
	Sell(t, l, Purchase(t, "1", "cryo", "0.1", names...))
	Reserve(t, l, api.ReserveRequest{Key: "2", Order: Purchase(t, "", "acme", "0.2", last).Order, For: time.Hour})
	r, once := RaiseOf(t, "3", "0.25", names...), false
	r.Progress = func(int, int) {
		if !once {
			once = true
			Refusals(t, check.Err(l.Answer(t.Context(), AnswerOf(t, "4", "majority:yes", "0.1", Ballots(), last))))
		}
	}
	Raise(t, l, r)
}

// A backup can be made at any instant. One made directly after a new noise key failed: Verify
// reported damage.
func TestBackup_AfterNewNoiseKey_IsMade(t *testing.T) {
	for _, compact := range []bool{false, true} {
		moves := []move{moveReopen{opening{Noise: "2026"}}, moveCopy{Compact: compact}, moveRestore{}}
		failure := newRunner().play(t, realFiles-1, moves)
		check.That(t, failure == "", "%v", failure)
	}
}

// The event of an epoch is erased with the others of its object.
func TestForget_ObjectWithEpochs_ErasesTheirEvents(t *testing.T) {
	moves := []move{
		moveEnroll{Question: "vote", Objects: []string{"dot"}, Rule: 0, Cap: milli(300)}, moveRelease{"vote", "dot", milli(100), host{}}, moveEpoch{"vote", "dot"},
		moveRelease{"vote", "dot", milli(100), host{}}, moveForget{"dot"}, moveReturn{"vote", "dot"}, moveRelease{"vote", "dot", milli(50), host{}},
	}
	for seed := range uint64(4) {
		failure := newRunner().play(t, seed, moves)
		check.That(t, failure == "", "seed %d: %s", seed, failure)
	}
}
