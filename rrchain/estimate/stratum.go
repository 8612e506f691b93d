package estimate

import (
	"fmt"
	"math"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

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
	first, err := firstResponse(len(c.ByValue), c.Epsilon)
	if err != nil {
		return s, err
	}
	s.q = first.OneMinusPAA / float64(len(c.ByValue)-1)
	s.own, s.gap = first.PAA*first.OneMinusPAA, gap(first)
	s.prior = 1
	return s, nil
}

// firstResponse returns the law of a randomized response of m values at an ε: PAA of the true value, which is p,
// and OneMinusPAA of all others together. It is the kernel that leads there from ε = 0.
func firstResponse(m int, epsilon privacy.Epsilon) (rrchain.Kernel, error) {
	return rrchain.NewKernel(m, privacy.Epsilon{}, epsilon)
}

// gap returns p − q = p(1 − e^−ε), without cancellation.
func gap(first rrchain.Kernel) float64 { return first.PAA * -math.Expm1(-first.To.Float64()) }

// countStratum checks what all kinds of counts have in common.
func countStratum(c Counts) (stratum, error) {
	if m := len(c.ByValue); m < 2 || m > rrchain.MaxValues {
		return stratum{}, fmt.Errorf("%w: %d values; a question has 2 to %d", rrchain.ErrInvalid, m, rrchain.MaxValues)
	}
	if c.Epsilon.IsZero() {
		return stratum{}, fmt.Errorf("%w: responses at ε=0 tell nothing", rrchain.ErrInvalid)
	}
	for v, count := range c.ByValue {
		if count < 0 {
			return stratum{}, fmt.Errorf("%w: value %d was counted %d times", rrchain.ErrInvalid, v, count)
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
			return all, fmt.Errorf("%w: levels with %d and with %d values", rrchain.ErrInvalid, all.values, len(part.counts))
		}
		all.values = len(part.counts)
		if part.n > 0 {
			all.parts = append(all.parts, part)
			all.n += part.n
			all.weight += part.weight()
		}
	}
	if len(all.parts) == 0 {
		return all, fmt.Errorf("%w: no responses to estimate from", rrchain.ErrInvalid)
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
