package estimate

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluicedp/sluice/privacy"
)

// The half-width of an interval is the quantile of the normal distribution, as gonum has it, times the
// standard error.
func TestIntervalsAreThoseOfTheNormalDistribution(t *testing.T) {
	one, err := privacy.ParseEpsilon("1")
	if err != nil {
		t.Fatal(err)
	}
	for _, confidence := range []float64{1e-6, 0.5, 0.6827, 0.9, 0.95, 0.99, 0.999999} {
		shares, err := Frequencies(confidence, Counts{one, []int64{30, 50, 20}})
		if err != nil {
			t.Fatal(err)
		}
		z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
		for v, f := range shares {
			for _, width := range []float64{f.High - f.Estimate, f.Estimate - f.Low} {
				if math.Abs(width-z*f.StdErr) > 1e-9*z*f.StdErr {
					t.Errorf("confidence %v, value %d: half-width %v, want %v", confidence, v, width, z*f.StdErr)
				}
			}
		}
	}
}
