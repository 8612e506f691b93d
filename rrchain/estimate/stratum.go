package estimate

import (
	"fmt"
	"math"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/internal/strata"
)

// stratum is the part of a population at one level. A response counts for the true value with
// probability p = q + gap, and for each other value with q. It implements [strata.Stratum]: the
// gain of a response for a value is (1 − q)/gap if it counts for the value, and −q/gap if not.
type stratum struct {
	counts []int64
	n      float64 // how many objects
	q, gap float64
	// excess is by how much the variance of a gain is larger for objects that have the value than
	// for others: (p(1−p) − q(1−q))/gap².
	excess float64
	// prior is the variance of one object's count if all values are equally common, up to a factor
	// that is the same for all levels.
	prior float64
	bits  bool // a response counts for each value independently, given the true one: unary encoding
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
	m := float64(len(c.ByValue))
	s.q, s.gap = first.OneMinusPAA/(m-1), gap(first)
	s.excess = (m - 2) * s.q / s.gap // p(1−p) − q(1−q) = (p−q)(1−p−q), and p + (m−1)q = 1
	s.prior = 1
	return s, nil
}

// firstResponse returns the law of a randomized response of m values at an ε: PAA of the true
// value, which is p, and OneMinusPAA of all others together. It is the kernel that leads there from
// ε = 0.
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
		return stratum{}, fmt.Errorf("%w: responses at ε=0 carry no information", rrchain.ErrInvalid)
	}
	for v, count := range c.ByValue {
		if count < 0 {
			return stratum{}, fmt.Errorf("%w: value %d was counted %d times", rrchain.ErrInvalid, v, count)
		}
	}
	return stratum{counts: c.ByValue}, nil
}

// Objects returns the number of responses.
func (s stratum) Objects() float64 { return s.n }

// Share returns the unbiased estimate for value v.
func (s stratum) Share(v int) float64 { return (float64(s.counts[v])/s.n - s.q) / s.gap }

// Noise returns the variance of a gain, a + b·share.
func (s stratum) Noise(int, []float64) (a, b float64) {
	return s.q * (1 - s.q) / (s.gap * s.gap), s.excess
}

// Step returns the difference of the two gains.
func (s stratum) Step(int) float64 { return 1 / s.gap }

// Weight is the inverse of the variance when all values are equally common, up to a constant.
func (s stratum) Weight() float64 { return s.n * s.gap * s.gap / s.prior }

// Covariance returns that of two gains in the response of an object drawn at random.
func (s stratum) Covariance(shares []float64) func(u, v int) float64 {
	return func(u, v int) float64 {
		ofU, ofV := s.q+s.gap*shares[u], s.q+s.gap*shares[v] // how often a response counts for them
		switch {
		case u == v:
			return ofU * (1 - ofU) / (s.gap * s.gap)
		case s.bits:
			return -shares[u] * shares[v]
		}
		return -ofU * ofV / (s.gap * s.gap)
	}
}

// variance returns the variance of the estimate of a value whose true share is given.
func (s stratum) variance(share float64) float64 {
	a, b := s.Noise(0, nil)
	return (a + b*share) / s.n
}

// population is one or more levels.
type population struct {
	values int
	parts  []stratum
}

func newPopulation[C any](levels []C, stratify func(C) (stratum, error)) (population, error) {
	var all population
	for _, level := range levels {
		part, err := stratify(level)
		if err != nil {
			return all, err
		}
		if all.values != 0 && all.values != len(part.counts) {
			return all, fmt.Errorf("%w: levels with %d and with %d values",
				rrchain.ErrInvalid, all.values, len(part.counts))
		}
		all.values = len(part.counts)
		if part.n > 0 {
			all.parts = append(all.parts, part)
		}
	}
	if len(all.parts) == 0 {
		return all, fmt.Errorf("%w: no responses to estimate from", rrchain.ErrInvalid)
	}
	return all, nil
}

func (all population) shares(o strata.Options) []Frequency {
	shares := make([]Frequency, all.values)
	for v, e := range strata.Combine(all.parts, all.values, o) {
		shares[v] = Frequency{e.Share, e.StdErr, e.Low, e.High}
	}
	return shares
}
