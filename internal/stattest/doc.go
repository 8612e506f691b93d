// Package stattest tells whether counts, shares and estimates are what a law says, and has the
// arithmetic that references are computed by. Only tests import it.
//
// Each check returns a [Verdict], whose P is the probability that chance alone leads as far away
// from the right law, or farther. A verdict rejects the law if P is below [Alarm], so a check of
// the right law fails by chance once in 10⁹ runs. That rate is stated here and nowhere else.
//
//	stattest.Fit(counts, law).Holds(t, "chains")            // fails the test if the law is rejected
//	stattest.Fit(spoilt, law).Fails(t, "spoilt chains")     // fails it if it is not
//
// The second form is the test of the test: it has the size of fault that a test is to find.
//
// [Share] and [Cells] are exact for any numbers. [Fit] leans on the χ² distribution; where a class
// is expected [rare] times or more, it rejects the right law no oftener than twice [Alarm].
// [Normal], [Mean] and [Squares] are right as far as their numbers are normal.
package stattest

import (
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/internal/testenv"
)

// Alarm is the probability at most with which a check rejects the right law.
const Alarm = 1e-9

// Coarser is how many times larger the faults are that statistical tests look for under the race
// detector, in 1/Coarser² of the draws. It makes draws about ten times as slow, and in a single
// goroutine it has nothing to find: what such a test teaches about the law, it teaches without.
const Coarser = 1 + 3*testenv.Race

// Verdict is what a check found.
type Verdict struct {
	// P is the probability that what was seen, or worse, comes about under the law. It is not a
	// number if there was nothing to check, or no law: then neither [Verdict.Holds] nor
	// [Verdict.Fails].
	P float64
	// Seen tells what was seen, and what was expected.
	Seen string
}

// Rejected tells whether the law is rejected.
func (v Verdict) Rejected() bool { return v.P < Alarm }

func (v Verdict) String() string { return fmt.Sprintf("%s (by chance: %.2g)", v.Seen, v.P) }

// Holds fails a test if the law is rejected. The text says what was counted.
func (v Verdict) Holds(t testing.TB, format string, args ...any) {
	t.Helper()
	v.want(t, v.P >= Alarm, "", format, args)
}

// Fails fails a test if the law is not rejected: a fault that it should find is not noticed.
func (v Verdict) Fails(t testing.TB, format string, args ...any) {
	t.Helper()
	v.want(t, v.Rejected(), "nobody notices: ", format, args)
}

// want reports a verdict: as an error, or in the log of the test.
func (v Verdict) want(t testing.TB, right bool, wrong, format string, args []any) {
	t.Helper()
	if what := fmt.Sprintf(format, args...); right {
		t.Logf("%s: %v", what, v)
	} else {
		t.Errorf("%s: %s%v", what, wrong, v)
	}
}
