package rappor

import (
	"fmt"
	"math"

	"github.com/sluicedp/sluice/privacy"
)

// Tally counts the reports of clients at one ε, at most one of each client. It stores only counts,
// so its size does not grow with the number of clients. It is not safe for concurrent use.
// Concurrent callers count in several tallies and merge them.
type Tally struct {
	params  Params
	epsilon privacy.Epsilon
	noise   channel // of each bit, at the ε of a bit
	clients []int64 // by cohort
	ones    []int64 // the number of reports in which each bit was set, cohort by cohort
}

// NewTally returns an empty tally of reports at an ε. The ε is rounded down as clients do it.
// NewTally returns the errors of [Params.BitEpsilon].
func (p Params) NewTally(epsilon privacy.Epsilon) (*Tally, error) {
	cost, bit, err := p.atMost(epsilon)
	if err != nil {
		return nil, err
	}
	return &Tally{p, cost, newChannel(bit.Float64()), make([]int64, p.Cohorts), make([]int64, p.Cohorts*p.Bits)}, nil
}

// Add counts a report. It returns [privacy.ErrInvalid], and counts nothing, for a report at another
// ε, of another length, or of a cohort that does not exist.
func (t *Tally) Add(r Report) error {
	if r.Epsilon != t.epsilon {
		return fmt.Errorf("%w: adding a report at ε=%v to a tally at ε=%v", privacy.ErrInvalid, r.Epsilon, t.epsilon)
	}
	if r.Bits.Len() != t.params.Bits {
		return fmt.Errorf("%w: the report has %d bits instead of %d", privacy.ErrInvalid, r.Bits.Len(), t.params.Bits)
	}
	if err := t.params.checkCohort(r.Cohort); err != nil {
		return err
	}
	t.clients[r.Cohort]++
	ones := t.ones[r.Cohort*t.params.Bits:] // from the first bit of the cohort on
	for bit := range r.Bits.Ones() {
		ones[bit]++
	}
	return nil
}

// Merge adds all counts of another tally. It returns [privacy.ErrInvalid], and changes nothing,
// unless both have the same parameters and the same ε.
func (t *Tally) Merge(other *Tally) error {
	if other == nil || other == t {
		return fmt.Errorf("%w: merging a tally with nil or with itself", privacy.ErrInvalid)
	}
	if t.params != other.params || t.epsilon != other.epsilon {
		return fmt.Errorf("%w: merging different tallies, of %+v at ε=%v and of %+v at ε=%v",
			privacy.ErrInvalid, t.params, t.epsilon, other.params, other.epsilon)
	}
	for i, n := range other.clients {
		t.clients[i] += n
	}
	for i, n := range other.ones {
		t.ones[i] += n
	}
	return nil
}

// Clients returns the number of reports counted.
func (t *Tally) Clients() int64 {
	total := int64(0)
	for _, n := range t.clients {
		total += n
	}
	return total
}

// cohortOnes returns the number of reports of a cohort in which each bit was set.
func (t *Tally) cohortOnes(cohort int) []int64 {
	return t.ones[cohort*t.params.Bits : (cohort+1)*t.params.Bits]
}

// channel is a randomized response with m = 2: a bit is reported unchanged with probability p, and
// inverted with probability q = 1 − p.
type channel struct {
	q   float64
	gap float64 // p − q
}

// newChannel returns the channel of a bit at an ε in nats. It computes q = e^−ε/(1+e^−ε) and p − q
// = (1−e^−ε)/(1+e^−ε), without cancellation or overflow.
func newChannel(epsilon float64) channel {
	decay := math.Exp(-epsilon)
	return channel{decay / (1 + decay), -math.Expm1(-epsilon) / (1 + decay)}
}

// variance returns pq/(p−q)², the variance of one client's unbiased bit (pan2024 Eq. (67) with N =
// 1).
func (c channel) variance() float64 { return c.q * (1 - c.q) / (c.gap * c.gap) }

// estimate returns the unbiased estimate of the number of true bits that are 1, from the number of
// ones in n reported bits. It may be below 0 or above n.
func (c channel) estimate(ones, n int64) float64 { return (float64(ones) - c.q*float64(n)) / c.gap }
