package model

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Invariant 2: every draw is checked against the chain's ceiling and the object's cap in the same
// transaction that records it, in integers.

// race makes n calls at once and returns the errors of those that failed.
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
		if r := Refusals(t, err); r[0].Reason != api.ObjectCap {
			t.Errorf("refused for %v", r)
		}
	}
}

// Of 64 buyers who each want a piece of the last tenth of an object's budget, through another
// question each, exactly as many get it as fit.
func TestTheLastBitOfABudgetGoesToNoMoreThanFit(t *testing.T) {
	Anywhere(t, testTheLastBitOfABudgetGoesToNoMoreThanFit)
}

func testTheLastBitOfABudgetGoesToNoMoreThanFit(t *T) {
	const buyers, fit = 64, 3 // 3 × 0.03 ≤ 0.1 < 4 × 0.03
	l := Voters(t, NewLedger(t), "1", "ann")
	for i := range buyers {
		name := fmt.Sprintf("question %d", i)
		Define(t, l, api.Question{Name: name, Values: []string{"yes", "no"}, Encoding: api.Direct})
		Enroll(t, l, name, "1", "ann")
	}
	Release(t, l, ReleaseOf(t, "first", "ann", "0.9"))
	failed := race(t, buyers, func(i int) error {
		r := ReleaseOf(t, fmt.Sprint(i), "ann", "0.03")
		r.Question = fmt.Sprintf("question %d", i)
		_, err := l.Release(t.Context(), r)
		return err
	})
	if len(failed) != buyers-fit {
		t.Errorf("%d buyers were refused, want %d", len(failed), buyers-fit)
	}
	wantOverCap(t, failed)
	if o := ObjectOf(t, l, "ann"); o.Spent != Eps(t, "0.99") {
		t.Errorf("spent %s of 1", o.Spent)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Of 64 buyers of one question at different ε, all at or below the cap succeed, in whatever order
// they come: within a chain only the highest counts.
func TestBuyersOfOneQuestionPayForTheHighestOnly(t *testing.T) {
	Anywhere(t, testBuyersOfOneQuestionPayForTheHighestOnly)
}

func testBuyersOfOneQuestionPayForTheHighestOnly(t *T) {
	const buyers, fit = 64, 50 // i × 0.02 ≤ 1
	l := Voters(t, NewLedger(t), "1", "ann")
	failed := race(t, buyers, func(i int) error {
		_, err := l.Release(t.Context(), api.ReleaseRequest{
			Key: fmt.Sprint(i), Question: "vote", Object: "ann", Epsilon: Nano(t, int64(i+1)*20_000_000), Truth: SameTruth("no"),
		})
		return err
	})
	if len(failed) != buyers-fit {
		t.Errorf("%d buyers were refused, want %d", len(failed), buyers-fit)
	}
	wantOverCap(t, failed)
	o := ObjectOf(t, l, "ann")
	if o.Spent != Eps(t, "1") || len(o.Chains[0].Levels) != fit {
		t.Errorf("spent %s on %d levels", o.Spent, len(o.Chains[0].Levels))
	}
	WantClean(t, l, api.VerifyRequest{})
}

// In floats 0.1 + 0.2 is more than 0.3.
func TestTwoPartsThatMakeTheWholeFitExactly(t *testing.T) {
	Anywhere(t, testTwoPartsThatMakeTheWholeFitExactly)
}

func testTwoPartsThatMakeTheWholeFitExactly(t *T) {
	l := Voters(t, NewLedger(t), "0.3", "ann")
	Define(t, l, api.Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: api.Direct})
	Enroll(t, l, "smoker", "0.3", "ann")
	Release(t, l, ReleaseOf(t, "1", "ann", "0.1"))
	r := ReleaseOf(t, "2", "ann", "0.200000001")
	r.Question = "smoker"
	Unchanged(t, l, func() {
		_, err := l.Release(t.Context(), r)
		wantOverCap(t, []error{err})
	})
	r.Epsilon = Eps(t, "0.2")
	Release(t, l, r)
	if o := ObjectOf(t, l, "ann"); o.Spent != o.Cap || !o.Remaining.IsZero() {
		t.Errorf("spent %s of %s, %s remains", o.Spent, o.Cap, o.Remaining)
	}
}

// A cap, and a ceiling, of every size lets through what it says and not one nano-nat more.
func TestBoundsBindToTheNanoNat(t *testing.T) { Anywhere(t, testBoundsBindToTheNanoNat) }

func testBoundsBindToTheNanoNat(t *T) {
	for _, bound := range []int64{1, 2, 999_999_999, 1_000_000_001, privacy.MaxEpsilon().Nano() - 1, privacy.MaxEpsilon().Nano()} {
		for kind, request := range map[api.Reason]api.EnrollRequest{
			api.ObjectCap:    {Cap: Nano(t, bound)},
			api.ChainCeiling: {Policy: policy.Fixed(Nano(t, bound)), Cap: Boundless()},
		} {
			t.Run(fmt.Sprint(kind, bound), func(t *T) { testBound(t, kind, request, bound) })
		}
	}
}

func testBound(t testing.TB, kind api.Reason, request api.EnrollRequest, bound int64) {
	l := Open(t, ledger.Options{})
	Define(t, l, Vote())
	request.Key, request.Question, request.Objects = "e", "vote", []string{"ann"}
	if _, err := l.Enroll(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	r := ReleaseOf(t, "r", "ann", "1")
	if bound < privacy.MaxEpsilon().Nano() { // there is no ε above the largest
		r.Epsilon = Nano(t, bound+1)
		_, err := l.Release(t.Context(), r)
		if refused := Refusals(t, err); refused[0].Reason != kind {
			t.Errorf("refused for %v", refused)
		}
	}
	r.Epsilon = Nano(t, bound)
	Release(t, l, r)
	if o := ObjectOf(t, l, "ann"); o.Spent.Nano() != bound {
		t.Errorf("spent %d of %d", o.Spent.Nano(), bound)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Even 1,000 chains cannot add up to more than an object has, nor overflow anything.
func TestSpendingOfManyChainsStopsAtTheLargestCap(t *testing.T) {
	Anywhere(t, testSpendingOfManyChainsStopsAtTheLargestCap)
}

func testSpendingOfManyChainsStopsAtTheLargestCap(t *T) {
	l := Open(t, ledger.Options{})
	for i := range 3 {
		name := fmt.Sprintf("question %d", i)
		Define(t, l, api.Question{Name: name, Values: []string{"yes", "no"}, Encoding: api.Direct})
		if _, err := l.Enroll(t.Context(), api.EnrollRequest{Key: name, Question: name, Objects: []string{"ann"}, Cap: Boundless()}); err != nil {
			t.Fatal(err)
		}
		r := ReleaseOf(t, fmt.Sprint("r", i), "ann", []string{"999", "2", "1"}[i])
		r.Question = name
		_, err := l.Release(t.Context(), r)
		if i != 1 {
			Must(t, err)
			continue
		}
		want := api.Refusal{Object: "ann", Reason: api.ObjectCap, Ceiling: Eps(t, "1000"), Spent: Eps(t, "999"), Asked: Eps(t, "2"), Cost: Eps(t, "2"), Remaining: Eps(t, "1"), Remedy: api.RemedyLess, Largest: Eps(t, "1")}
		if got := Refusals(t, err)[0]; got != want {
			t.Errorf("refused for %+v, want %+v", got, want)
		}
	}
	if o := ObjectOf(t, l, "ann"); !o.Remaining.IsZero() {
		t.Errorf("%s remains", o.Remaining)
	}
}

// A policy that allows nothing allows nothing, and no cap makes up for it.
func TestACeilingOfZeroAllowsNothing(t *testing.T) { Anywhere(t, testACeilingOfZeroAllowsNothing) }

func testACeilingOfZeroAllowsNothing(t *T) {
	l := Open(t, ledger.Options{})
	Define(t, l, Vote())
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "e", Question: "vote", Objects: []string{"ann"}, Policy: policy.Fixed(privacy.Epsilon{}), Cap: Boundless()})
	Must(t, err)
	_, err = l.Release(t.Context(), api.ReleaseRequest{Key: "r", Question: "vote", Object: "ann", Epsilon: Nano(t, 1), Truth: Never(t)})
	want := api.Refusal{Object: "ann", Reason: api.ChainCeiling, Asked: Nano(t, 1), Cost: Nano(t, 1), Remedy: api.RemedyNothing}
	if got := Refusals(t, err)[0]; got != want {
		t.Errorf("refused for %+v, want %+v", got, want)
	}
}

// An enrolment cannot raise the cap, whoever asks and for whatever question.
func TestEnrollingAgainDoesNotMoveTheCap(t *testing.T) {
	Anywhere(t, testEnrollingAgainDoesNotMoveTheCap)
}

func testEnrollingAgainDoesNotMoveTheCap(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "1", "ann")
	Define(t, l, api.Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: api.Direct})
	for _, question := range []string{"vote", "smoker"} {
		Unchanged(t, l, func() {
			_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "more " + question, Question: question, Objects: []string{"ann"}, Cap: Eps(t, "2")})
			if got := Refusals(t, err)[0]; got.Reason != api.CapDiffers {
				t.Errorf("refused for %v", got)
			}
		})
	}
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "same", Question: "smoker", Objects: []string{"ann"}}) // 0: as it is
	Must(t, err)
	if o := ObjectOf(t, l, "ann"); o.Cap != Eps(t, "1") || len(o.Chains) != 2 {
		t.Errorf("%+v", o)
	}
}
