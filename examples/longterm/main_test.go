package main

import (
	"strings"
	"testing"
)

// The variances of both are measured in rrchain/rappor, in
// TestRaisedChains_HaveLessVarianceThanRepeatedNoise.
func TestRun_FiveReportCounts_PrintsVariances(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	want := `RAPPOR (f = 0.5, p = 0.75, q = 0.25) beside chains that are raised to the same ε in all: the variance of the estimated
frequency of a bit, times the number of clients (Pan 2024, Eq. (68), (67)).
   reports             ε in all   RAPPOR   chains        RAPPOR needs
   1                      1.022     3.75     3.75   1.0 × the clients
   2                      1.695     2.25     1.31   1.7 × the clients
   4                      2.133     1.50     0.80   1.9 × the clients
   8                      2.196     1.12     0.75   1.5 × the clients
   16                     2.197     0.94     0.75   1.2 × the clients
`
	if out.String() != want {
		t.Errorf("it prints\n%s", &out)
	}
}
