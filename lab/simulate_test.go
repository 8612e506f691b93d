package main

import (
	"strings"
	"testing"

	"github.com/sluicedp/sluice/lab/internal/simulate"
)

// Results that theory does not explain are marked, in place and at the end.
func TestPrint_DisagreementWithTheory_IsMarked(t *testing.T) {
	result := simulateResult{
		Outside: 2, Chance: 1e-6,
		Comparisons: []comparisonResult{
			{Figure: "2a", What: "share of 1", Quantity: simulate.Mean, Measured: 0.7, Theory: 0.6, Low: 0.5, High: 0.7, Within: true},
			{Figure: "2b", What: "share of 1", Quantity: simulate.Variance, Measured: 0.02, Theory: 0.01, Low: 0.005, High: 0.015},
			{Figure: "2c", What: "error rate by luck", Quantity: simulate.Mean, Measured: 0.1, Theory: 0.3, Low: 0.25, High: 1},
		},
	}
	var text strings.Builder
	result.Table(&text)
	for _, want := range []string{
		"\nThe share of 1: Figures 2(a), 2(b)\n",
		"\t0.7000\t0.6000 ± 0.1000\t0.02 !\t0.01 (0.005 to 0.015)\n",
		"\nAttacks at ε=0.000: Figure 2(c)\n",
		"\nby luck\t0.1000 !\t0.3000 or more (± 0.0500)\n",
		"\n2 of 3 measured numbers do not agree with theory, and are marked with !; by chance, each does so once in 1000000 times.\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &text)
		}
	}
}
