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
	if !(confidence > 0 && confidence < 1) {
		return nil, fmt.Errorf("%w: confidence %v is not between 0 and 1", ErrInvalid, confidence)
	}
	pooled, err := pool(levels)
	if err != nil {
		return nil, err
	}
	z := math.Sqrt2 * math.Erfinv(confidence)
	result := make([]Frequency, pooled.values)
	for v := range result {
		share := pooled.share(v)
		stdErr := math.Sqrt(pooled.variance(min(max(share, 0), 1)))
		result[v] = Frequency{share, stdErr, share - z*stdErr, share + z*stdErr}
	}
	return result, nil
}

// Variance returns, for each value, the exact variance of the estimate from a fixed population of
// objects whose true values have the given counts and who all answer at the same ε:
// (n_v·p(1−p) + (n−n_v)·q(1−q)) / (n²(p−q)²), pan2024 Appendix G. It serves to plan: how good will
// an estimate at this ε be. Errors are those of [Estimate].
func Variance(truth Counts) ([]float64, error) {
	part, err := newStratum(truth)
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

// stratum is the part of a population at one level.
type stratum struct {
	counts []int64
	n      float64 // how many objects
	p, q   float64 // probability of the truth, and of each other value
	gap    float64 // the retention λ = p − q
}

func newStratum(c Counts) (stratum, error) {
	m := len(c.ByValue)
	if err := checkValues(m); err != nil {
		return stratum{}, err
	}
	if c.Epsilon.IsZero() {
		return stratum{}, fmt.Errorf("%w: responses at ε=0 tell nothing", ErrInvalid)
	}
	s := stratum{counts: c.ByValue}
	for v, count := range c.ByValue {
		if count < 0 {
			return stratum{}, fmt.Errorf("%w: value %d was counted %d times", ErrInvalid, v, count)
		}
		s.n += float64(count)
	}
	decay := expNeg(c.Epsilon)
	scale := 1 + float64(m-1)*decay
	s.p, s.q, s.gap = 1/scale, decay/scale, expm1Neg(c.Epsilon)/scale
	return s, nil
}

// share returns the unbiased estimate for value v.
func (s stratum) share(v int) float64 { return (float64(s.counts[v])/s.n - s.q) / s.gap }

// variance returns the variance of the estimate of a value whose true share is given.
func (s stratum) variance(share float64) float64 {
	truth := share * s.p * s.q * float64(len(s.counts)-1) // 1 − p = (m−1)q, without cancellation
	other := (1 - share) * s.q * (1 - s.q)
	return (truth + other) / (s.n * s.gap * s.gap)
}

// weight is the inverse of the variance when all values are equally common, up to a constant.
func (s stratum) weight() float64 { return s.n * s.gap * s.gap }

// pooled is a population over several levels.
type pooled struct {
	values int
	parts  []stratum
	n      float64
	weight float64
}

func pool(levels []Counts) (pooled, error) {
	var all pooled
	for _, level := range levels {
		part, err := newStratum(level)
		if err != nil {
			return all, err
		}
		if all.values != 0 && all.values != len(level.ByValue) {
			return all, fmt.Errorf("%w: levels with %d and with %d values", ErrInvalid, all.values, len(level.ByValue))
		}
		all.values = len(level.ByValue)
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
