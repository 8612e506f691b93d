package simulate

import (
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// sample draws noisy samplings of all objects, one for each level, and estimates the share of ones
// after each round.
func (r *Result) sample(s *rrchain.Sampler, run int) error {
	x := &r.Experiment
	if x.Sampling == nil {
		return nil
	}
	ones := make([]int, len(x.Levels)) // by round, among all objects
	for truth, holders := range x.Holders {
		for range holders {
			if err := x.Sampling.draw(s, truth, ones); err != nil {
				return err
			}
		}
	}
	total := 0
	for i, more := range ones {
		total += more
		k := i + 1
		r.Sampled[i][run] = x.Sampling.share(float64(total) / float64(k*x.Objects()))
	}
	return nil
}

// draw adds the noisy samplings of one bit to the ones of each round. Every response is the first
// of its own chain, which makes it an ordinary randomized response.
func (s *Sampling) draw(sampler *rrchain.Sampler, truth int, ones []int) error {
	permanent, err := randomized(sampler, s.Alpha, truth)
	if err != nil {
		return err
	}
	for i := range ones {
		sampled, err := randomized(sampler, s.Beta, permanent)
		if err != nil {
			return err
		}
		ones[i] += sampled
	}
	return nil
}

// share estimates the share of ones among the true bits from the share of ones among the samplings:
// first the share among the permanent responses, then that among the bits (pan2024 Appendix F).
func (s *Sampling) share(sampled float64) float64 {
	return unbiased(s.Alpha, unbiased(s.Beta, sampled))
}

// unbiased returns the estimate of pan2024 Eq. (6): (λ − q)/(p − q).
func unbiased(epsilon privacy.Epsilon, share float64) float64 {
	lie := ErrorBound(epsilon.Float64(), 2) // q
	return (share - lie) / (1 - 2*lie)
}

// randomized draws a randomized response to a bit.
func randomized(s *rrchain.Sampler, epsilon privacy.Epsilon, bit int) (int, error) {
	chain, err := rrchain.NewChain[int](2)
	if err != nil {
		return 0, err
	}
	level, err := chain.Raise(s, epsilon, bit)
	return level.Response, err
}

// variance returns the theoretical variance for k rounds with n bits.
func (s *Sampling) variance(k, n int) float64 {
	return SamplingVariance(s.Alpha.Float64(), s.Beta.Float64(), k, n)
}
