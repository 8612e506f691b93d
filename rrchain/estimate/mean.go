package estimate

import (
	"math"

	"github.com/sluicedp/sluice/rrchain"
)

// Mean estimates the mean of numbers that were rounded to the ends of a range
// ([rrchain.Range.Round]), from the responses of their chains. At each level the estimate is l +
// (h−l)·((e^ε+1)λ_h − 1)/(e^ε−1), where λ_h is the share of responses that are the upper end
// (pan2024 Eq. (70), as corrected). Levels are combined as by [Frequencies], and [Disagreement]
// applies.
//
// The standard error and the interval include the randomness of the rounding. They are those for a
// random sample of a large population, with [Options.Population] and without. For the mean of the
// objects themselves they are too wide. The difference is at most the variation of the numbers,
// which matters only at an ε far above 1. The estimate may be outside of the range.
//
// Errors are those of [Frequencies]. There must be 2 values, and the width of the interval must be
// a finite float64.
func Mean(o Options, r rrchain.Range, levels ...Counts) (Frequency, error) {
	if !(r.Low < r.High) || math.IsInf(r.High-r.Low, 0) {
		return Frequency{}, invalid("range %v to %v; its width must be finite and above 0", r.Low, r.High)
	}
	if err := o.check(); err != nil {
		return Frequency{}, err
	}
	parts, err := strata(levels)
	if err != nil {
		return Frequency{}, err
	}
	if ends := parts[0].values(); ends != 2 {
		return Frequency{}, invalid("%d counts at a level; a mean needs 2, one for each end of the range", ends)
	}
	// The end of an object is random. The probability of the upper end is the relative position of
	// the mean in the range.
	o.Population = true
	upper, width := combine(parts, o)[1], r.High-r.Low
	mean := Frequency{r.Low + width*upper.Estimate, width * upper.StdErr, r.Low + width*upper.Low,
		r.Low + width*upper.High}
	if math.IsInf(mean.StdErr, 0) || math.IsInf(mean.Low, 0) || math.IsInf(mean.High, 0) {
		return Frequency{}, invalid("range %v to %v is too wide for this ε: the interval is not finite", r.Low, r.High)
	}
	return mean, nil
}
