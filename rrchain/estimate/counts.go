package estimate

import (
	"math"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Counts says how often each value was the response, or the truth, among objects at one ε. The
// estimate is the closed form of pan2024 Eq. (7), π̂ = (n_v/n − q)/(p − q). With [Options.Pool]
// levels have weights n·(p−q)².
type Counts struct {
	Epsilon privacy.Epsilon // above 0
	ByValue []int64         // one count for each of the m values
}

// UnaryCounts says in how many responses in unary encoding the bit of each value was set, among
// objects at one ε. The estimate is π̂ = (n_v/n − q)/(1/2 − q) with q = 1/(e^ε+1).
type UnaryCounts struct {
	Epsilon privacy.Epsilon // above 0
	Objects int64           // how many responses there are
	ByValue []int64         // one count for each of the m values, at most Objects
}

// Variance returns, for each value, the exact variance of the estimate from a fixed population of
// objects whose true values have the given counts and that all answer at the same ε:
// (n_v·p(1−p) + (n−n_v)·q(1−q)) / (n²(p−q)²), pan2024 Appendix G. It serves to plan: how good will
// an estimate at this ε be. Errors are those of [Frequencies].
func Variance(truth Counts) ([]float64, error) {
	part, err := truth.stratum()
	if err != nil {
		return nil, err
	}
	return planned(part, truth.ByValue)
}

// UnaryVariance is [Variance] in unary encoding: (n_v/4 + (n−n_v)·q(1−q)) / (n²(1/2−q)²).
func UnaryVariance(truth Counts) ([]float64, error) {
	part, err := newUnary(truth)
	if err != nil {
		return nil, err
	}
	return planned(part, truth.ByValue)
}

// counted is the responses at one level. A response counts for the true value with probability
// p = q + gap, and for each other value with q. So the gain of a response for a value is
// (1 − q)/gap if it counts for the value, and −q/gap if not.
type counted struct {
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

func (c Counts) stratum() (stratum, error) {
	s, err := newCounted(c, len(c.ByValue))
	s.excess = float64(len(c.ByValue)-2) * s.q / s.gap // p(1−p) − q(1−q) = (p−q)(1−p−q), and p + (m−1)q = 1
	s.prior = 1
	return s, err
}

func (c UnaryCounts) stratum() (stratum, error) {
	s, err := newUnary(Counts{c.Epsilon, c.ByValue})
	if err != nil {
		return s, err
	}
	for v, count := range c.ByValue {
		if count > c.Objects {
			return s, invalid("value %d was counted %d times in %d responses", v, count, c.Objects)
		}
	}
	s.n = float64(c.Objects)
	return s, nil
}

// newUnary returns the stratum of objects, each counted once, in unary encoding.
func newUnary(c Counts) (counted, error) {
	s, err := newCounted(c, 2) // of each hidden bit, of which half are 0 for the true value
	s.gap /= 2
	s.excess = 1 // (1/4 − q(1−q))/(1/2 − q)²
	s.bits = true
	often := s.q + s.gap/float64(len(c.ByValue))
	s.prior = often * (1 - often)
	return s, err
}

// newCounted checks counts of randomized responses of m values each.
func newCounted(c Counts, m int) (counted, error) {
	if values := len(c.ByValue); values < 2 || values > rrchain.MaxValues {
		return counted{}, invalid("%d values; a question has 2 to %d", values, rrchain.MaxValues)
	}
	if c.Epsilon.IsZero() {
		return counted{}, invalid("responses at ε=0 carry no information")
	}
	n, err := total("value", c.ByValue)
	if err != nil {
		return counted{}, err
	}
	// The kernel from ε = 0 is the law of a response: PAA is p, and OneMinusPAA that of all other
	// values together.
	first, err := rrchain.NewKernel(m, privacy.Epsilon{}, c.Epsilon)
	gap := first.PAA * -math.Expm1(-c.Epsilon.Float64()) // p − q = p(1 − e^−ε), without cancellation
	return counted{counts: c.ByValue, n: n, q: first.OneMinusPAA / float64(m-1), gap: gap}, err
}

func (s counted) values() int { return len(s.counts) }

func (s counted) objects() float64 { return s.n }

func (s counted) share(v int) float64 { return (float64(s.counts[v])/s.n - s.q) / s.gap }

func (s counted) noise(int, []float64) (a, b float64) {
	return s.q * (1 - s.q) / (s.gap * s.gap), s.excess
}

func (s counted) step(int) float64 { return 1 / s.gap }

func (s counted) weight() float64 { return s.n * s.gap * s.gap / s.prior }

func (s counted) covariance(shares []float64) func(u, v int) float64 {
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
