package estimate

import (
	"math"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Counts are the responses of objects at one ε, in one of three encodings.
//
// For randomized responses, ByValue[v] is the number of responses v. The estimate of a share is the
// closed form of pan2024 Eq. (7), π̂ = (n_v/n − q)/(p − q). With [Options.Pool], levels have the
// weights n·(p−q)².
//
// For responses in unary encoding (Unary), ByValue[v] is the number of responses in which the bit
// of value v is set. The estimate is π̂ = (n_v/n − q)/(1/2 − q) with q = 1/(e^ε+1).
//
// For responses of a finite mechanism (Mechanism), ByValue[o] is the number of responses with
// output o. The values are the inputs of the mechanism, and Epsilon does not matter. The estimate
// is G·(n_o/n) with a matrix G such that G·Mᵀ = 1. Of all these matrices, G has the smallest
// variance when all inputs are equally common. So the estimate is unbiased for all shares, and the
// shares sum to 1. G is the inverse of Mᵀ if there is one, as in randomized response. Otherwise G
// is given by weighted least squares, (M·D⁻¹·Mᵀ)⁻¹·M·D⁻¹, where D has the mean probability of each
// output on its diagonal. With [Options.Pool], the variance of a level is the variance of all
// inputs together. Standard errors and intervals use the estimates of the other inputs in place of
// their shares.
//
// For randomized response, all of this equals the estimate without a Mechanism. Unary counts each
// bit by itself. A Mechanism counts whole rows of bits, and its estimate is better: its variance is
// half for 2 inputs, and hardly smaller for many.
type Counts struct {
	Epsilon privacy.Epsilon // above 0
	ByValue []int64         // one count for each of the m values, or for each output of Mechanism

	Unary   bool  // unary encoding; not together with Mechanism
	Objects int64 // the number of responses, for unary encoding only (otherwise the sum of ByValue); no count is larger

	// Mechanism is the finite mechanism that drew the responses, or nil. [privacy.ErrInvalid] is
	// returned for a count of an output that never happens, and for a mechanism that does not
	// distinguish the inputs. A mechanism does not distinguish them if the laws of its outputs
	// given each input are linearly dependent, or nearly so: if one singular value is below 10⁻⁹ of
	// the largest, or if squares are outside the range of float64.
	Mechanism *finite.Matrix
}

// checkEncoding refuses counts with two encodings, because each encoding would give another
// estimate.
func (c Counts) checkEncoding() error {
	if c.Unary && c.Mechanism != nil {
		return invalid("counts have both Unary and a Mechanism; responses have one encoding")
	}
	return nil
}

// Variance returns, for each value, the exact variance of the estimate from a fixed population of
// objects that all answer at the same ε. Use it to plan how precise an estimate at this ε will be.
// truth.ByValue holds the counts of the objects' true values (of inputs, for a mechanism).
// truth.Objects does not matter.
//
// For randomized responses the variance is (n_v·p(1−p) + (n−n_v)·q(1−q)) / (n²(p−q)²), pan2024
// Appendix G. In unary encoding it is (n_v/4 + (n−n_v)·q(1−q)) / (n²(1/2−q)²). Errors are those of
// [Frequencies].
func Variance(truth Counts) ([]float64, error) {
	if err := truth.checkEncoding(); err != nil {
		return nil, err
	}
	if truth.Mechanism != nil {
		return outputVariance(truth)
	}
	n, err := total("value", truth.ByValue)
	if err != nil {
		return nil, err
	}
	truth.Objects = math.MaxInt64 // no count is larger
	part, err := truth.stratum()
	if err != nil {
		return nil, err
	}
	return planned(part, n, truth.ByValue)
}

// stratum returns the stratum of the counts in their encoding. It returns [privacy.ErrInvalid] for
// counts that are not valid.
func (c Counts) stratum() (stratum, error) {
	if err := c.checkEncoding(); err != nil {
		return nil, err
	}
	switch {
	case c.Mechanism != nil:
		return newOutputs(c)
	case c.Unary:
		return newUnary(c)
	}
	s, err := newCounted(c, len(c.ByValue))
	s.excess = float64(len(c.ByValue)-2) * s.q / s.gap // p(1−p) − q(1−q) = (p−q)(1−p−q), and p + (m−1)q = 1
	s.prior = 1
	return s, err
}

// counted is the responses at one level. A response counts for the true value with probability p =
// q + gap, and for each other value with probability q. So the gain of a response for a value is (1
// − q)/gap if it counts for the value, and −q/gap otherwise.
type counted struct {
	counts []int64
	n      float64 // the number of objects
	q, gap float64
	// excess is the variance of a gain for objects that have the value, minus its variance for
	// other objects: (p(1−p) − q(1−q))/gap².
	excess float64
	// prior is the variance of one object's count if all values are equally common, up to a factor
	// that is the same for all levels.
	prior float64
	bits  bool // unary encoding: given the true value, a response counts for each value independently
}

// newUnary returns the stratum of responses in unary encoding. In a response, the bit of the true
// value is set with probability 1/2, and any other bit with q = 1/(e^ε+1).
func newUnary(c Counts) (counted, error) {
	// This is the stratum of randomized responses to a hidden bit, with p − q for a bit that is
	// known. The hidden bit of the true value is a fair coin, so below the gap is halved: 1/2 − q =
	// (p − q)/2.
	s, err := newCounted(c, 2)
	if err != nil {
		return s, err
	}
	for v, count := range c.ByValue {
		if count > c.Objects {
			return s, invalid("value %d was counted %d times in %d responses", v, count, c.Objects)
		}
	}
	s.n = float64(c.Objects)
	s.gap /= 2
	s.excess = 1 // (1/4 − q(1−q))/(1/2 − q)²
	s.bits = true
	often := s.q + s.gap/float64(len(c.ByValue)) // the probability that a bit is set if all values are equally common
	s.prior = often * (1 - often)
	return s, nil
}

// maxValues is the largest number of values that package rrchain allows.
const maxValues = 1 << 20

// newCounted returns the stratum of randomized responses of m values each, and checks the counts. m
// is 2 for the bits of unary encoding. The caller sets the fields excess and prior.
func newCounted(c Counts, m int) (counted, error) {
	if values := len(c.ByValue); values < 2 || values > maxValues {
		return counted{}, invalid("%d values; a question has 2 to %d", values, maxValues)
	}
	if c.Epsilon.IsZero() {
		return counted{}, invalid("ε is 0; responses at ε=0 carry no information")
	}
	n, err := total("value", c.ByValue)
	if err != nil {
		return counted{}, err
	}
	// The kernel from ε = 0 is the law of a response: PAA is p, and OneMinusPAA is the probability
	// of all other values together.
	first, err := rrchain.NewKernel(m, privacy.Epsilon{}, c.Epsilon)
	gap := first.PAA * -math.Expm1(-c.Epsilon.Float64()) // p − q = p(1 − e^−ε), without cancellation
	return counted{counts: c.ByValue, n: n, q: first.OneMinusPAA / float64(m-1), gap: gap}, err
}

// values and the following methods implement [stratum].
func (s counted) values() int { return len(s.counts) }

func (s counted) objects() float64 { return s.n }

// share inverts the mean count: n_v/n is q + gap·share on average.
func (s counted) share(v int) float64 { return (float64(s.counts[v])/s.n - s.q) / s.gap }

// noise returns the variance for objects without the value, and its increase for objects with the
// value. It does not depend on the other shares.
func (s counted) noise(int, []float64) (a, b float64) {
	return s.q * (1 - s.q) / (s.gap * s.gap), s.excess
}

func (s counted) step(int) float64 { return 1 / s.gap }

func (s counted) weight() float64 { return s.n * s.gap * s.gap / s.prior }

// covariance (see [stratum]) uses that a randomized response counts for one value only. A unary
// response counts for each value independently, given the true value.
func (s counted) covariance(shares []float64) func(u, v int) float64 {
	return func(u, v int) float64 {
		ofU, ofV := s.q+s.gap*shares[u], s.q+s.gap*shares[v] // the probabilities that a response counts for u and v
		switch {
		case u == v:
			return ofU * (1 - ofU) / (s.gap * s.gap)
		case s.bits:
			return -shares[u] * shares[v]
		}
		return -ofU * ofV / (s.gap * s.gap)
	}
}
