package rrchain

import (
	"fmt"
	"math"

	"github.com/sluicedp/sluice/privacy"
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
	Estimate  float64
	StdErr    float64
	Low, High float64
}

// Estimate returns the share of each value in the whole population from the responses of its
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
// Estimate returns [ErrInvalid] for no responses, a negative count, ε = 0, fewer than 2 values,
// different numbers of values, or a confidence not strictly between 0 and 1.
func Estimate(confidence float64, levels ...Counts) ([]Frequency, error) {
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
		return 0, fmt.Errorf("%w: confidence %v is not between 0 and 1", ErrInvalid, confidence)
	}
	return math.Sqrt2 * math.Erfinv(confidence), nil
}

func around(estimate, stdErr, z float64) Frequency {
	return Frequency{estimate, stdErr, estimate - z*stdErr, estimate + z*stdErr}
}

// Variance returns, for each value, the exact variance of the estimate from a fixed population of
// objects whose true values have the given counts and who all answer at the same ε:
// (n_v·p(1−p) + (n−n_v)·q(1−q)) / (n²(p−q)²), pan2024 Appendix G. It serves to plan: how good will
// an estimate at this ε be. Errors are those of [Estimate].
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
		return nil, fmt.Errorf("%w: no objects", ErrInvalid)
	}
	variances := make([]float64, len(truth.ByValue))
	for v, n := range truth.ByValue {
		variances[v] = part.variance(float64(n) / part.n)
	}
	return variances, nil
}

// stratum is the part of a population at one level. A response counts for the true value with
// probability p, and for each other with q.
type stratum struct {
	counts []int64
	n      float64 // how many objects
	own    float64 // p(1−p)
	q      float64
	gap    float64 // p − q
	// prior is the variance of one object's count if all values are equally common, up to a factor that
	// is the same for all levels.
	prior float64
}

func newStratum(c Counts) (stratum, error) {
	s, err := countStratum(c)
	if err != nil {
		return s, err
	}
	for _, count := range c.ByValue {
		s.n += float64(count)
	}
	others := float64(len(c.ByValue) - 1)
	decay := expNeg(c.Epsilon)
	scale := 1 + others*decay
	s.q, s.gap = decay/scale, expm1Neg(c.Epsilon)/scale
	s.own = others * s.q / scale // 1 − p = (m−1)q, without cancellation
	s.prior = 1
	return s, nil
}

// countStratum checks what all kinds of counts have in common.
func countStratum(c Counts) (stratum, error) {
	if err := checkValues(len(c.ByValue)); err != nil {
		return stratum{}, err
	}
	if c.Epsilon.IsZero() {
		return stratum{}, fmt.Errorf("%w: responses at ε=0 tell nothing", ErrInvalid)
	}
	for v, count := range c.ByValue {
		if count < 0 {
			return stratum{}, fmt.Errorf("%w: value %d was counted %d times", ErrInvalid, v, count)
		}
	}
	return stratum{counts: c.ByValue}, nil
}

// share returns the unbiased estimate for value v.
func (s stratum) share(v int) float64 { return (float64(s.counts[v])/s.n - s.q) / s.gap }

// variance returns the variance of the estimate of a value whose true share is given.
func (s stratum) variance(share float64) float64 {
	return (share*s.own + (1-share)*s.q*(1-s.q)) / (s.n * s.gap * s.gap)
}

// weight is the inverse of the variance when all values are equally common, up to a constant.
func (s stratum) weight() float64 { return s.n * s.gap * s.gap / s.prior }

// pooled is a population over several levels.
type pooled struct {
	values int
	parts  []stratum
	n      float64
	weight float64
}

func pool[C any](levels []C, stratify func(C) (stratum, error)) (pooled, error) {
	var all pooled
	for _, level := range levels {
		part, err := stratify(level)
		if err != nil {
			return all, err
		}
		if all.values != 0 && all.values != len(part.counts) {
			return all, fmt.Errorf("%w: levels with %d and with %d values", ErrInvalid, all.values, len(part.counts))
		}
		all.values = len(part.counts)
		if part.n > 0 {
			all.parts = append(all.parts, part)
			all.n += part.n
			all.weight += part.weight()
		}
	}
	if len(all.parts) == 0 {
		return all, fmt.Errorf("%w: no responses to estimate from", ErrInvalid)
	}
	return all, nil
}

func (all pooled) share(v int) float64 {
	sum := 0.0
	for _, part := range all.parts {
		sum += part.weight() / all.weight * part.share(v)
	}
	return sum
}

// variance adds to the variance of the responses that of the partition: the weighted share differs
// from the population's by which objects happen to be at which level, as in sampling without
// replacement, by S²(Σ W²/n − 1/N) with S² = share(1−share)·N/(N−1). It is 0 for a single level.
func (all pooled) variance(share float64) float64 {
	responses, partition := 0.0, -1/all.n
	for _, part := range all.parts {
		w := part.weight() / all.weight
		responses += w * w * part.variance(share)
		partition += w * w / part.n
	}
	if len(all.parts) == 1 {
		return responses
	}
	spread := share * (1 - share) * all.n / (all.n - 1)
	return responses + spread*max(partition, 0)
}

// sampling is the variance of the estimate for value v if every object was drawn from a population at
// random: its response then counts for v with one and the same probability at each level.
func (all pooled) sampling(v int) float64 {
	sum, share := 0.0, min(max(all.share(v), 0), 1)
	for _, part := range all.parts {
		w, often := part.weight()/all.weight, part.q+part.gap*share
		sum += w * w * often * (1 - often) / (part.n * part.gap * part.gap)
	}
	return sum
}
