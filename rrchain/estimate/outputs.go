package estimate

import (
	"math"
	"math/big"
	"slices"

	"github.com/sluicedp/sluice/rrchain/finite"
)

// outputVariance is [Variance] for a mechanism.
func outputVariance(truth Counts) ([]float64, error) {
	e, err := newEstimator(truth.Mechanism)
	if err != nil {
		return nil, err
	}
	if len(truth.ByValue) != e.values() {
		return nil, invalid("the counts have %d inputs and the mechanism %d", len(truth.ByValue), e.values())
	}
	n, err := total("input", truth.ByValue)
	if err != nil {
		return nil, err
	}
	return planned(outputs{e, nil, n}, n, truth.ByValue)
}

// estimator holds the gains of a mechanism: the contribution of a response with a given output to
// the estimated share of each input. The estimate is the mean of the gains of all responses.
type estimator struct {
	mean     []*big.Rat  // the probability of each output when all inputs are equally common
	gain     [][]float64 // by input, then output: G
	laws     [][]float64 // by input, then output: the probabilities
	away     [][]float64 // the laws minus their mean
	variance [][]float64 // by input, then true input: the variance of the gain of one response
	// excess is the variance for the true input minus the variance for another input, by input,
	// then the other input. It is computed from differences between laws, because it is far smaller
	// than the variances at a small ε.
	excess [][]float64
	prior  float64 // the variance of one response of an object drawn at random, all inputs equally common
}

// faint is the smallest allowed ratio of a singular value of a mechanism to the largest.
const faint = 1e-9

// largest limits variances and squares of gains, so that no sum or product of a few of them is
// infinite.
const largest = 1e250

// newEstimator computes the matrix G of [Counts], the gain for each input and output, and the
// variances of the gains. It returns [privacy.ErrInvalid] if the mechanism does not distinguish its
// inputs.
//
// The computation uses differences between laws and their mean, which are taken before rounding, so
// that a small ε does not lose digits. Let M have the law of each of the k inputs, and D the mean
// probabilities on its diagonal. Let W = D^−½(M − mean)ᵀ, whose columns sum to zero, and W⁺ its
// pseudo-inverse. The gain of an output is 1/k + W⁺D^−½. The code computes the gain minus its mean,
// which is 1/k.
func newEstimator(m *finite.Matrix) (*estimator, error) {
	if m.Inputs() == 0 {
		return nil, invalid("the mechanism has no probabilities; create it with finite.NewMatrix")
	}
	e := &estimator{mean: meanLaw(m)}
	even, roots := 1/float64(m.Inputs()), make([]float64, m.Outputs()) // 1/k, and the roots of the mean probabilities
	for o, p := range e.mean {
		often, _ := p.Float64()
		roots[o] = math.Sqrt(often)
	}
	contrast := make([][]float64, m.Inputs()) // W, by input, then output
	for x := range contrast {
		law, away := make([]float64, len(roots)), make([]float64, len(roots))
		contrast[x] = make([]float64, len(roots))
		for o, root := range roots {
			law[o], _ = m.At(x, o).Float64()
			away[o], _ = new(big.Rat).Sub(m.At(x, o), e.mean[o]).Float64()
			if root > 0 { // an output that never happens has no gain
				contrast[x][o] = away[o] / root
			}
		}
		e.laws, e.away = append(e.laws, law), append(e.away, away)
	}
	gain, ok := pseudoInverse(contrast, m.Inputs()-1, faint) // W⁺
	for _, row := range gain {
		for o, root := range roots {
			if root > 0 {
				row[o] /= root
			}
			row[o] += even
			ok = ok && row[o]*row[o] < largest
		}
	}
	if e.gain = gain; ok {
		e.spreadOut()
	}
	if !ok || !(e.prior < largest) {
		return nil, invalid("the mechanism does not distinguish its %d inputs: the laws of its outputs are linearly "+
			"dependent", m.Inputs())
	}
	return e, nil
}

// meanLaw returns the probability of each output when all inputs are equally common.
func meanLaw(m *finite.Matrix) []*big.Rat {
	mean := make([]*big.Rat, m.Outputs())
	for o := range mean {
		mean[o] = new(big.Rat)
		for x := range m.Inputs() {
			mean[o].Add(mean[o], m.At(x, o))
		}
		mean[o].Quo(mean[o], big.NewRat(int64(m.Inputs()), 1))
	}
	return mean
}

// spreadOut computes the variances of the gains of one response, and from them the fields excess
// and prior.
func (e *estimator) spreadOut() {
	even := 1 / float64(e.values())
	for x, gains := range e.gain {
		own := e.spread(x, x) // the variance for objects that have input x
		variance, excess := make([]float64, e.values()), make([]float64, e.values())
		for truth := range e.gain {
			squares := e.spread(x, truth)
			variance[truth] = squares
			e.prior += squares * even
			// There are two formulas for the difference. The code uses the one that subtracts
			// smaller numbers, to lose fewer digits.
			excess[truth] = own - squares
			if max(own, squares) > 1 && truth != x {
				excess[truth] = -1
				for o, g := range gains {
					excess[truth] += (e.away[x][o] - e.away[truth][o]) * g * g
				}
			}
		}
		e.variance, e.excess = append(e.variance, variance), append(e.excess, excess)
		e.prior += even * (1 - even) // the variance of the object's own input
	}
}

// spread returns the variance of the gain for input x in the response of an object whose true input
// is truth.
func (e *estimator) spread(x, truth int) float64 {
	mean, squares := 0.0, 0.0
	if truth == x {
		mean = 1
	}
	for o, p := range e.laws[truth] {
		gain := e.gain[x][o] - mean
		squares += p * gain * gain
	}
	return squares
}

// values and the following methods implement [stratum], together with those of [outputs].
func (e *estimator) values() int { return len(e.gain) }

// noise assumes that the other inputs are distributed as estimated.
func (e *estimator) noise(x int, estimates []float64) (a, b float64) {
	for other, share := range others(estimates, x) {
		a += share * e.variance[x][other]
		b += share * e.excess[x][other]
	}
	return a, b
}

func (e *estimator) step(x int) float64 { return slices.Max(e.gain[x]) - slices.Min(e.gain[x]) }

// covariance first computes the probability of each output under the shares.
func (e *estimator) covariance(shares []float64) func(u, v int) float64 {
	often := make([]float64, len(e.mean))
	for x, share := range shares {
		for o, p := range e.laws[x] {
			often[o] += share * p
		}
	}
	return func(u, v int) float64 {
		sum := 0.0
		for o, p := range often {
			sum += p * (e.gain[u][o] - shares[u]) * (e.gain[v][o] - shares[v])
		}
		return sum
	}
}

// outputs holds the responses of one mechanism.
type outputs struct {
	*estimator
	counts []int64 // by output
	n      float64
}

// newOutputs returns the stratum of responses of a mechanism. It returns [privacy.ErrInvalid] for
// counts that the mechanism cannot have, or a mechanism that does not distinguish its inputs.
func newOutputs(c Counts) (stratum, error) {
	e, err := newEstimator(c.Mechanism)
	if err != nil {
		return nil, err
	}
	if len(c.ByValue) != len(e.mean) {
		return nil, invalid("%d counts for a mechanism with %d outputs", len(c.ByValue), len(e.mean))
	}
	for o, count := range c.ByValue {
		if count > 0 && e.mean[o].Sign() == 0 {
			return nil, invalid("output %d was counted %d times, but has probability 0", o, count)
		}
	}
	n, err := total("output", c.ByValue)
	return outputs{e, c.ByValue, n}, err
}

func (s outputs) objects() float64 { return s.n }

// share returns the mean gain for input x.
func (s outputs) share(x int) float64 {
	sum := 0.0
	for o, count := range s.counts {
		sum += float64(count) / s.n * s.gain[x][o]
	}
	return sum
}

// weight returns the inverse of the variance of all inputs together.
func (s outputs) weight() float64 { return s.n / s.prior }

// others returns how the objects without input x are distributed over the other inputs. The shares
// sum to 1. They are proportional to the estimates above zero, or equal if there are none. Element
// x is 0.
func others(estimates []float64, x int) []float64 {
	shares, sum := make([]float64, len(estimates)), 0.0
	for i, e := range estimates {
		if i != x {
			shares[i] = max(e, 0)
			sum += shares[i]
		}
	}
	for i := range shares {
		if shares[i] /= sum; sum == 0 {
			shares[i] = 1 / float64(len(shares)-1)
		}
	}
	shares[x] = 0
	return shares
}
