package estimate

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/internal/strata"
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
	Low, High float64 // the interval's ends; the estimate is between them, but not always in the middle
}

// Frequencies returns the share of each value from the responses of objects, each counted once, at
// the level it has reached.
//
// Within one level the estimate is the closed form of pan2024 Eq. (7), π̂ = (n_v/n − q)/(p − q).
// Levels are combined as [Options] says: each in proportion to its objects, or with Pool by weights
// n·(p−q)², which are proportional to the inverse of their variance when all values are equally
// common. The weights do not depend on the responses.
//
// The standard error is that of the randomized responses (plug-in for the true shares), with Pool
// and several levels that of having parted the objects among them at random, too, and with
// Population that of the sample.
//
// The interval is the score interval with a continuity correction: it holds the shares from which
// the estimate, moved by half the effect of one response, is at most so many standard errors away,
// where the standard error is that at the share in question. Its exact coverage was computed for 2
// to 50 values, ε from 0.25 to 12, and 30 to 1,000 objects, at one level and at several: a 95 %
// interval covers in at least 93 % of all cases.
//
// Frequencies returns [rrchain.ErrInvalid] for no responses, a negative count, ε = 0, fewer than 2
// values, different numbers of values, or a confidence not strictly between 0 and 1.
func Frequencies(o Options, levels ...Counts) ([]Frequency, error) {
	return shares(o, levels, newStratum)
}

// shares combines levels of some kind of counts.
func shares[C any](o Options, levels []C, stratify func(C) (stratum, error)) ([]Frequency, error) {
	options, err := o.internal()
	if err != nil {
		return nil, err
	}
	all, err := newPopulation(levels, stratify)
	if err != nil {
		return nil, err
	}
	return all.shares(options), nil
}

// Disagreement tests whether all levels have the same shares, as they have on average if the level
// of an object is independent of its value. It returns the p-value of a χ² test, from 0 to 1: if it
// is small, levels differ by more than the noise explains, and [Options.Pool] is wrong. It returns
// 1 for one level, and where there are too few responses for a test. Values and levels with fewer
// than about five expected responses are not part of the test, nor are more than the 32 most common
// values. Errors are those of [Frequencies].
func Disagreement(levels ...Counts) (float64, error) { return disagreement(levels, newStratum) }

func disagreement[C any](levels []C, stratify func(C) (stratum, error)) (float64, error) {
	all, err := newPopulation(levels, stratify)
	if err != nil {
		return 0, err
	}
	return strata.Disagreement(all.parts, all.values), nil
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
