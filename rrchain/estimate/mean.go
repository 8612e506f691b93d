package estimate

import (
	"fmt"
	"math"

	"github.com/sluicedp/sluice/rrchain"
)

// Mean estimates the mean of numbers that were rounded to the ends of a range ([rrchain.Range.Round]), from the responses of
// their chains: l + (h−l)·((e^ε+1)λ_h − 1)/(e^ε−1) at each level, with λ_h the share of responses that
// are the upper end (pan2024 Eq. (70), as corrected). Levels are combined as by [Frequencies].
//
// The standard error is that of responses and rounding together for a random sample of a large
// population; it is never too small, and too large by what the numbers themselves vary: its square by
// Var(x)/n for one level and by less for several, which only at an ε far above 1 is worth mentioning. The estimate may lie outside of the
// range. Errors are those of [Frequencies]; there must be 2 values, and the interval must not be wider than float64 numbers.
func Mean(confidence float64, r rrchain.Range, levels ...Counts) (Frequency, error) {
	if !(r.Low() < r.High()) {
		return Frequency{}, fmt.Errorf("%w: a range without numbers", rrchain.ErrInvalid)
	}
	z, err := quantile(confidence)
	if err != nil {
		return Frequency{}, err
	}
	all, err := pool(levels, newStratum)
	if err != nil {
		return Frequency{}, err
	}
	if all.values != 2 {
		return Frequency{}, fmt.Errorf("%w: a number is rounded to one of 2 ends, not of %d", rrchain.ErrInvalid, all.values)
	}
	width := r.High() - r.Low()
	mean := around(r.Low()+width*all.share(1), width*math.Sqrt(all.sampling(1)), z)
	if math.IsInf(mean.StdErr, 0) || math.IsInf(mean.Low, 0) || math.IsInf(mean.High, 0) {
		return Frequency{}, fmt.Errorf("%w: from %v to %v is too wide for this ε", rrchain.ErrInvalid, r.Low(), r.High())
	}
	return mean, nil
}
