package stattest

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Normal checks a number that is normally distributed. off is its distance from the mean, and
// deviation its standard deviation. P is for both sides.
func Normal(off, deviation float64) Verdict {
	v := Verdict{math.NaN(), fmt.Sprintf("off by %.4g, with a standard deviation of %.4g", off, deviation)}
	if deviation > 0 {
		v.P = math.Erfc(math.Abs(off) / deviation / math.Sqrt2)
	}
	return v
}

// Mean checks the mean of independent values of one distribution, which must be between low and
// high. The standard deviation is estimated from the values, so there should be a hundred or more.
// If one end is infinite, only the other side is checked.
func Mean(values []float64, low, high float64) Verdict {
	mean, spread := stat.MeanStdDev(values, nil)
	deviation := spread / math.Sqrt(float64(len(values)))
	v := Verdict{math.NaN(),
		fmt.Sprintf("%.6g ± %.2g on average of %d, expected %.6g to %.6g", mean, deviation, len(values), low, high)}
	if !(low <= high) || !(deviation >= 0) {
		return v
	}
	off, sides := max(low-mean, mean-high, 0), 2.0
	if math.IsInf(low, -1) || math.IsInf(high, 1) {
		sides = 1
	}
	switch {
	case off == 0:
		v.P = 1
	case deviation == 0:
		v.P = 0
	default:
		v.P = min(1, sides*distuv.UnitNormal.Survival(off/deviation))
	}
	return v
}

// Squares checks the weighted sum of squares of normal errors with mean 0 and the given
// covariances. The sum is Σλᵢχ²ᵢ, where λ are the eigenvalues of the weighted covariances. Their
// sum is the trace, and the sum of their squares is the sum of all squared entries. By Laurent and
// Massart (2000), Lemma 1, the sum exceeds Σλ + 2√(x·Σλ²) + 2x·max λ with probability at most e⁻ˣ.
// It is below Σλ − 2√(x·Σλ²) with the same bound. P is 2e⁻ˣ for the x at which the sum is that far
// off: an upper bound, so the check finds less than an exact test.
func Squares(errs []float64, weight func(i int) float64, covariance func(i, j int) float64) Verdict {
	sum, mean, squares, largest := 0.0, 0.0, 0.0, 0.0
	for i, off := range errs {
		sum += weight(i) * off * off
		mean += weight(i) * covariance(i, i)
		row := 0.0
		for j := range errs {
			c := covariance(i, j) * math.Sqrt(weight(i)*weight(j))
			squares += c * c
			row += math.Abs(c)
		}
		largest = max(largest, row) // no eigenvalue is larger than the largest row sum
	}
	root := math.Sqrt(squares)
	v := Verdict{math.NaN(), fmt.Sprintf("the sum of squares is %.4g, expected %.4g", sum, mean)}
	if !(root > 0) {
		return v
	}
	x := square((mean - sum) / (2 * root))
	if sum > mean { // the larger root of 2·largest·x + 2·root·√x = sum − mean
		largest = min(largest, root)
		x = square((math.Sqrt(root*root+2*largest*(sum-mean)) - root) / (2 * largest))
	}
	v.P = min(1, 2*math.Exp(-x))
	return v
}

func square(x float64) float64 { return x * x }
