package ledgertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// nightly is a host's job that draws what the calendar has released. It returns the number of
// raised chains.
func nightly(t testing.TB, l *ledger.Ledger, day string) (raised int) {
	lookUp := func(_ context.Context, _ string, people []string) ([]string, error) {
		return slices.Repeat([]string{"yes"}, len(people)), nil // all people smoke
	}
	done, err := l.Advance(t.Context(), api.AdvanceRequest{Key: day, Truth: lookUp})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range done.Questions {
		raised += q.Raised
	}
	return raised
}

// testNightly is a test of that job.
func testNightly(t testing.TB) {
	l := ledgertest.New(t) // in memory; its clock is set to noon on 1 March 2026

	half, one := privacy.MustEpsilon("0.5"), privacy.MustEpsilon("1")
	today := l.Clock.Now()
	calendar, err := policy.Steps(policy.Step{At: today, Ceiling: half}, policy.Step{At: today.Add(24 * time.Hour), Ceiling: one})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.DefineQuestion(t.Context(), "q", api.Question{Name: "smoker", Values: []string{"yes", "no"}}); err != nil {
		t.Fatal(err)
	}
	people := api.EnrollRequest{Key: "e", Question: "smoker", Objects: []string{"ann", "bob"}, Policy: calendar, Cap: one}
	if _, err := l.Enroll(t.Context(), people); err != nil {
		t.Fatal(err)
	}

	fmt.Println("first night:", nightly(t, l.Ledger, "1 March"))
	fmt.Println("once more:", nightly(t, l.Ledger, "1 March, again"))
	l.Clock.Advance(24 * time.Hour)
	l.Reopen() // as after a restart of the host
	fmt.Println("second night:", nightly(t, l.Ledger, "2 March"))

	l.Memory.Fail(errors.New("disk full"))
	fmt.Println("on a full disk:", l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "ann"}))
	l.Memory.Fail(nil)
}

func Example() {
	asTest(testNightly)
	// Output:
	// first night: 2
	// once more: 0
	// second night: 2
	// on a full disk: disk full
}
