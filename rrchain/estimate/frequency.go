package estimate

import (
	"fmt"
	"math"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Counts says how often each value was the response, or the truth, among objects at one ε.
type Counts struct {
	Epsilon privacy.Epsilon // above 0
	ByValue []int64         // one count for each of the m values
}

// Frequency is the estimated share of one value among the objects, with its uncertainty. The
// estimate is unbiased, so it is not cut to [0,1]: with little data or a small ε it, and the
// interval around it, may lie outside.
type Frequency struct {
	Estimate  float64 // a share
	StdErr    float64 // its standard error
	Low, High float64 // the interval's ends
}

// Frequencies returns the share of each value in the whole population from the responses of its
// objects, each counted once, at the level it has reached. confidence is the nominal coverage of
// the interval, such as 0.95.
//
// Within one level the estimate is the closed form of pan2024 Eq. (7), π̂ = (n_v/n − q)/(p − q). Levels are combined with
// weights n·λ(ε)², proportional to the inverse of their variance when all values are equally common.
// The weights do not depend on the responses, so the combination stays unbiased, provided that
// how high an object's level is has nothing to do with its value; where it may, estimate each
// level apart.
//
// The standard error is that of the randomized responses of a fixed population (plug-in for the
// true shares), plus, for several levels, that of having parted the population among them at
// random. The interval is the normal approximation: trust it from about 30 responses on.
//
// Frequencies returns [rrchain.ErrInvalid] for no responses, a negative count, ε = 0, fewer than 2 values,
// different numbers of values, or a confidence not strictly between 0 and 1.
func Frequencies(confidence float64, levels ...Counts) ([]Frequency, error) {
	return shares(confidence, levels, newStratum)
}

// shares pools levels of some kind of counts.
func shares[C any](confidence float64, levels []C, stratify func(C) (stratum, error)) ([]Frequency, error) {
	z, err := quantile(confidence)
	if err != nil {
		return nil, err
	}
	all, err := pool(levels, stratify)
	if err != nil {
		return nil, err
	}
	result := make([]Frequency, all.values)
	for v := range result {
		share := all.share(v)
		result[v] = around(share, math.Sqrt(all.variance(min(max(share, 0), 1))), z)
	}
	return result, nil
}

// quantile returns how many standard errors an interval reaches to each side.
func quantile(confidence float64) (z float64, err error) {
	if !(confidence > 0 && confidence < 1) {
		return 0, fmt.Errorf("%w: confidence %v is not between 0 and 1", rrchain.ErrInvalid, confidence)
	}
	return math.Sqrt2 * math.Erfinv(confidence), nil
}

func around(estimate, stdErr, z float64) Frequency {
	return Frequency{estimate, stdErr, estimate - z*stdErr, estimate + z*stdErr}
}

// Variance returns, for each value, the exact variance of the estimate from a fixed population of
// objects whose true values have the given counts and who all answer at the same ε:
// (n_v·p(1−p) + (n−n_v)·q(1−q)) / (n²(p−q)²), pan2024 Appendix G. It serves to plan: how good will
// an estimate at this ε be. Errors are those of [Frequencies].
func Variance(truth Counts) ([]float64, error) {
	return planned(truth, newStratum)
}

// planned returns the variances of the estimates from objects whose true values are counted.
func planned(truth Counts, stratify func(Counts) (stratum, error)) ([]float64, error) {
	part, err := stratify(truth)
	if err != nil {
		return nil, err
	}
	if part.n == 0 {
		return nil, fmt.Errorf("%w: no objects", rrchain.ErrInvalid)
	}
	variances := make([]float64, len(truth.ByValue))
	for v, n := range truth.ByValue {
		variances[v] = part.variance(float64(n) / part.n)
	}
	return variances, nil
}
