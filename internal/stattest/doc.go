// Package stattest checks whether counts, shares and estimates follow a law, and has the arithmetic
// for reference values. Only tests import it.
//
// Each check returns a [Verdict]. Its P is the probability of a result at least as far from the
// law, if the law is right. A verdict rejects the law if P is below [Alarm]. So a check of the
// right law fails by chance once in 10⁹ runs. That rate is stated only here.
//
//	stattest.Fit(counts, law).Holds(t, "chains")        // fails the test if the law is rejected
//	stattest.Fit(spoilt, law).Fails(t, "spoilt chains") // fails the test if it is not rejected
//
// The second form tests the test: its law is wrong by the size of fault that the test is to find.
//
// [Share] and [Cells] are exact for all counts. [Fit] uses the χ² distribution. If each class is
// expected at least [rare] times, it rejects the right law with at most twice [Alarm]. [Normal],
// [Mean] and [Squares] are exact only for normal numbers.
package stattest

import (
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/internal/testenv"
)

// Alarm is the largest probability with which a check rejects the right law.
const Alarm = 1e-9

// Coarser is how many times larger the detected faults are under the race detector, so that
// 1/Coarser² of the draws is enough. The race detector makes draws about ten times as slow, and
// finds nothing in a single goroutine.
const Coarser = 1 + 3*testenv.Race

// Verdict is the result of a check.
type Verdict struct {
	// P is the probability of the result, or one farther off, under the law. It is NaN if there was
	// nothing to check, or no valid law: then both [Verdict.Holds] and [Verdict.Fails] fail.
	P float64
	// Seen describes the result and what was expected.
	Seen string
}

// Rejected returns whether the law is rejected.
func (v Verdict) Rejected() bool { return v.P < Alarm }

func (v Verdict) String() string { return fmt.Sprintf("%s (by chance: %.2g)", v.Seen, v.P) }

// Holds fails the test if the law is rejected. The text describes what was counted.
func (v Verdict) Holds(t testing.TB, format string, args ...any) {
	t.Helper()
	v.report(t, v.P >= Alarm, "", format, args)
}

// Fails fails the test if the law is not rejected: the check misses a fault that it should find.
func (v Verdict) Fails(t testing.TB, format string, args ...any) {
	t.Helper()
	v.report(t, v.Rejected(), "the fault is not noticed: ", format, args)
}

// report reports a verdict: as an error, or in the log of the test.
func (v Verdict) report(t testing.TB, right bool, wrong, format string, args []any) {
	t.Helper()
	if what := fmt.Sprintf(format, args...); right {
		t.Logf("%s: %v", what, v)
	} else {
		t.Errorf("%s: %s%v", what, wrong, v)
	}
}
