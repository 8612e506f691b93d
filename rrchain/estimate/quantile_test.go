package estimate

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// TestIntervalsReachTheQuantileOfTheNormalDistribution takes two values, where the variance does
// not depend on the shares: the interval extends to both sides by the quantile, as gonum has it,
// times the standard error, and by half the effect of one response.
func TestIntervalsReachTheQuantileOfTheNormalDistribution(t *testing.T) {
	one := must(privacy.ParseEpsilon("1"))
	jump := (math.E + 1) / (math.E - 1) / (2 * 80)
	for _, confidence := range []float64{1e-6, 0.5, 0.6827, 0.9, 0.95, 0.99, 0.999999} {
		shares := must(Frequencies(Options{Confidence: confidence}, ofValues(one, []int64{30, 50})))
		z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
		for v, f := range shares {
			for _, width := range []float64{f.High - f.Estimate, f.Estimate - f.Low} {
				check.That(t, math.Abs(width-jump-z*f.StdErr) <= 1e-9*z*f.StdErr,
					"confidence %v, value %d: half-width %v, want %v", confidence, v, width, z*f.StdErr+jump)
			}
		}
	}
}
