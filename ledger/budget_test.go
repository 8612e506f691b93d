package ledger

import (
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Invariant 2: every draw is checked against the chain's ceiling and the object's cap in the same
// transaction that records it, in integers.

// race makes n calls at once and returns the errors of those that failed.
func race(t *testing.T, n int, call func(i int) error) (failed []error) {
	t.Helper()
	start := make(chan struct{})
	done := make([]chan answer[int], n)
	for i := range n {
		done[i] = async(func() (int, error) {
			<-start
			return i, call(i)
		})
	}
	close(start)
	for _, one := range done {
		if a := await(t, one); a.err != nil {
			failed = append(failed, a.err)
		}
	}
	return failed
}

// wantOverCap fails unless all errors are refusals because of the cap.
func wantOverCap(t *testing.T, failed []error) {
	t.Helper()
	for _, err := range failed {
		if r := refusals(t, err); r[0].Reason != ObjectCap {
			t.Errorf("refused for %v", r)
		}
	}
}

// Of 64 buyers who each want a piece of the last tenth of an object's budget, through another
// question each, exactly as many get it as fit.
func TestTheLastBitOfABudgetGoesToNoMoreThanFit(t *testing.T) {
	const buyers, fit = 64, 3 // 3 × 0.03 ≤ 0.1 < 4 × 0.03
	l := voters(t, newLedger(t), "1", "ann")
	for i := range buyers {
		name := fmt.Sprintf("question %d", i)
		define(t, l, Question{Name: name, Values: []string{"yes", "no"}, Encoding: Direct})
		enroll(t, l, name, "1", "ann")
	}
	release(t, l, releaseOf(t, "first", "ann", "0.9"))
	failed := race(t, buyers, func(i int) error {
		r := releaseOf(t, fmt.Sprint(i), "ann", "0.03")
		r.Question = fmt.Sprintf("question %d", i)
		_, err := l.Release(t.Context(), r)
		return err
	})
	if len(failed) != buyers-fit {
		t.Errorf("%d buyers were refused, want %d", len(failed), buyers-fit)
	}
	wantOverCap(t, failed)
	if o := objectOf(t, l, "ann"); o.Spent != eps(t, "0.99") {
		t.Errorf("spent %s of 1", o.Spent)
	}
	auditStore(t, l.engine.Store)
}

// Of 64 buyers of one question at different ε, all at or below the cap succeed, in whatever order
// they come: within a chain only the highest counts.
func TestBuyersOfOneQuestionPayForTheHighestOnly(t *testing.T) {
	const buyers, fit = 64, 50 // i × 0.02 ≤ 1
	l := voters(t, newLedger(t), "1", "ann")
	failed := race(t, buyers, func(i int) error {
		_, err := l.Release(t.Context(), ReleaseRequest{
			Key: fmt.Sprint(i), Question: "vote", Object: "ann", Epsilon: nano(t, int64(i+1)*20_000_000), Truth: TruthOf("no"),
		})
		return err
	})
	if len(failed) != buyers-fit {
		t.Errorf("%d buyers were refused, want %d", len(failed), buyers-fit)
	}
	wantOverCap(t, failed)
	o := objectOf(t, l, "ann")
	if o.Spent != eps(t, "1") || len(o.Chains[0].Levels) != fit {
		t.Errorf("spent %s on %d levels", o.Spent, len(o.Chains[0].Levels))
	}
	auditStore(t, l.engine.Store)
}

// In floats 0.1 + 0.2 is more than 0.3.
func TestTwoPartsThatMakeTheWholeFitExactly(t *testing.T) {
	l := voters(t, newLedger(t), "0.3", "ann")
	define(t, l, Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: Direct})
	enroll(t, l, "smoker", "0.3", "ann")
	release(t, l, releaseOf(t, "1", "ann", "0.1"))
	r := releaseOf(t, "2", "ann", "0.200000001")
	r.Question = "smoker"
	unchanged(t, l.engine.Store, func() {
		_, err := l.Release(t.Context(), r)
		wantOverCap(t, []error{err})
	})
	r.Epsilon = eps(t, "0.2")
	release(t, l, r)
	if o := objectOf(t, l, "ann"); o.Spent != o.Cap || !o.Remaining.IsZero() {
		t.Errorf("spent %s of %s, %s remains", o.Spent, o.Cap, o.Remaining)
	}
}

// A cap, and a ceiling, of every size lets through what it says and not one nano-nat more.
func TestBoundsBindToTheNanoNat(t *testing.T) {
	for _, bound := range []int64{1, 2, 999_999_999, 1_000_000_001, privacy.MaxEpsilonNano - 1, privacy.MaxEpsilonNano} {
		for kind, request := range map[Reason]EnrollRequest{
			ObjectCap:    {Cap: nano(t, bound)},
			ChainCeiling: {Policy: policy.Fixed(nano(t, bound)), Cap: boundless()},
		} {
			t.Run(fmt.Sprint(kind, bound), func(t *testing.T) { testBound(t, kind, request, bound) })
		}
	}
}

func testBound(t *testing.T, kind Reason, request EnrollRequest, bound int64) {
	l := inMemory(t, Options{})
	define(t, l, vote())
	request.Key, request.Question, request.Objects = "e", "vote", []string{"ann"}
	if _, err := l.Enroll(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	r := releaseOf(t, "r", "ann", "1")
	if bound < privacy.MaxEpsilonNano { // there is no ε above the largest
		r.Epsilon = nano(t, bound+1)
		_, err := l.Release(t.Context(), r)
		if refused := refusals(t, err); refused[0].Reason != kind {
			t.Errorf("refused for %v", refused)
		}
	}
	r.Epsilon = nano(t, bound)
	release(t, l, r)
	if o := objectOf(t, l, "ann"); o.Spent.Nano() != bound {
		t.Errorf("spent %d of %d", o.Spent.Nano(), bound)
	}
	auditStore(t, l.engine.Store)
}

// Even 1,000 chains cannot add up to more than an object has, nor overflow anything.
func TestSpendingOfManyChainsStopsAtTheLargestCap(t *testing.T) {
	l := inMemory(t, Options{})
	for i := range 3 {
		name := fmt.Sprintf("question %d", i)
		define(t, l, Question{Name: name, Values: []string{"yes", "no"}, Encoding: Direct})
		if _, err := l.Enroll(t.Context(), EnrollRequest{Key: name, Question: name, Objects: []string{"ann"}, Cap: boundless()}); err != nil {
			t.Fatal(err)
		}
		r := releaseOf(t, fmt.Sprint("r", i), "ann", []string{"999", "2", "1"}[i])
		r.Question = name
		_, err := l.Release(t.Context(), r)
		if i != 1 {
			must(t, err)
			continue
		}
		want := Refusal{Object: "ann", Reason: ObjectCap, Ceiling: eps(t, "1000"), Spent: eps(t, "999"), Asked: eps(t, "2"), Cost: eps(t, "2"), Remaining: eps(t, "1"), Remedy: RemedyLess, Largest: eps(t, "1")}
		if got := refusals(t, err)[0]; got != want {
			t.Errorf("refused for %+v, want %+v", got, want)
		}
	}
	if o := objectOf(t, l, "ann"); !o.Remaining.IsZero() {
		t.Errorf("%s remains", o.Remaining)
	}
}

// A policy that allows nothing allows nothing, and no cap makes up for it.
func TestACeilingOfZeroAllowsNothing(t *testing.T) {
	l := inMemory(t, Options{})
	define(t, l, vote())
	_, err := l.Enroll(t.Context(), EnrollRequest{Key: "e", Question: "vote", Objects: []string{"ann"}, Policy: policy.Fixed(privacy.Epsilon{}), Cap: boundless()})
	must(t, err)
	_, err = l.Release(t.Context(), ReleaseRequest{Key: "r", Question: "vote", Object: "ann", Epsilon: nano(t, 1), Truth: never(t)})
	want := Refusal{Object: "ann", Reason: ChainCeiling, Asked: nano(t, 1), Cost: nano(t, 1), Remedy: RemedyNothing}
	if got := refusals(t, err)[0]; got != want {
		t.Errorf("refused for %+v, want %+v", got, want)
	}
}

// An enrolment cannot raise the cap, whoever asks and for whatever question.
func TestEnrollingAgainDoesNotMoveTheCap(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", "ann")
	define(t, l, Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: Direct})
	for _, question := range []string{"vote", "smoker"} {
		unchanged(t, l.engine.Store, func() {
			_, err := l.Enroll(t.Context(), EnrollRequest{Key: "more " + question, Question: question, Objects: []string{"ann"}, Cap: eps(t, "2")})
			if got := refusals(t, err)[0]; got.Reason != CapDiffers {
				t.Errorf("refused for %v", got)
			}
		})
	}
	_, err := l.Enroll(t.Context(), EnrollRequest{Key: "same", Question: "smoker", Objects: []string{"ann"}}) // 0: as it is
	must(t, err)
	if o := objectOf(t, l, "ann"); o.Cap != eps(t, "1") || len(o.Chains) != 2 {
		t.Errorf("%+v", o)
	}
}
