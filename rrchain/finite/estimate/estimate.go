// Package estimate estimates from responses how common the inputs of finite mechanisms are (package
// finite), with the uncertainty of that.
//
// It is apart from package finite because it needs floating-point linear algebra, and chains and
// their verification do not.
package estimate

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/finite"
	"github.com/sluicedp/sluice/rrchain/internal/strata"
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{finite.ErrInvalid}, args...)...)
}

// Counts says how often each output of a mechanism was the response.
type Counts struct {
	Mechanism *finite.Matrix // the one that drew them
	ByOutput  []int64        // one count for each output
}

// Frequencies returns the share of each input from the responses of objects, each counted once, at
// the level it has reached.
//
// Within one level the estimate is G·(n_o/n) with the matrix G of least variance, when all inputs
// are equally common, among those with G·Mᵀ = 1: so it is unbiased whatever the shares are, and the
// shares add up to 1. G is Mᵀ's inverse where it has one, as in randomized response, and by
// weighted least squares (M·D⁻¹·Mᵀ)⁻¹·M·D⁻¹ otherwise, where D has the mean probability of each
// output on its diagonal. Levels, whose mechanisms may differ, are combined as [estimate.Options]
// says: each in proportion to its objects, or with Pool by weights proportional to the inverse of
// their variance, summed over the inputs, when all are equally common. The weights do not depend on
// the responses.
//
// The standard error and the interval are those of package rrchain/estimate, with the estimates of
// the other inputs in the place of their shares.
//
// For randomized response all of this is what package rrchain/estimate does. For unary encoding
// that package counts each bit alone; here whole rows of bits are counted, and the estimate is
// better (its variance is half for 2 inputs, and hardly less for many).
//
// Frequencies returns [finite.ErrInvalid] for no responses, a negative count, one of an output that
// never happens, different numbers of inputs, a confidence not strictly between 0 and 1, or a
// mechanism that does not tell the inputs apart: if the laws of its outputs given each input are
// linearly dependent, or nearly so, 10⁹ times nearer in one direction than in another, or so near
// that squares are beyond all float64 numbers.
func Frequencies(o estimate.Options, levels ...Counts) ([]estimate.Frequency, error) {
	if !(o.Confidence > 0 && o.Confidence < 1) {
		return nil, invalid("confidence %v is not between 0 and 1", o.Confidence)
	}
	parts, err := newParts(levels)
	if err != nil {
		return nil, err
	}
	options := strata.Options{Pool: o.Pool, Population: o.Population, Z: math.Sqrt2 * math.Erfinv(o.Confidence)}
	shares := make([]estimate.Frequency, parts[0].inputs)
	for x, e := range strata.Combine(parts, len(shares), options) {
		shares[x] = estimate.Frequency{Estimate: e.Share, StdErr: e.StdErr, Low: e.Low, High: e.High}
	}
	return shares, nil
}

// Disagreement tests whether all levels have the same shares, as [estimate.Disagreement] does.
// Errors are those of [Frequencies].
func Disagreement(levels ...Counts) (float64, error) {
	parts, err := newParts(levels)
	if err != nil {
		return 0, err
	}
	return strata.Disagreement(parts, parts[0].inputs), nil
}

// Variance returns, for each input, the variance of the estimate from a fixed population of
// objects, as many with each input as truth says, who all answer by one mechanism. It serves to
// plan: how good will an estimate be. It returns [finite.ErrInvalid] for another number of inputs,
// a negative number of objects, or none, and a mechanism that does not tell the inputs apart.
func Variance(m *finite.Matrix, truth []int64) ([]float64, error) {
	e, err := newEstimator(m)
	if err != nil {
		return nil, err
	}
	if len(truth) != m.Inputs() {
		return nil, invalid("objects with %d inputs, and a mechanism with %d", len(truth), m.Inputs())
	}
	n, err := total(truth)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, invalid("no objects")
	}
	shares, variances := make([]float64, len(truth)), make([]float64, len(truth))
	for x, count := range truth {
		shares[x] = float64(count) / n
	}
	for x := range variances {
		a, b := e.Noise(x, shares)
		variances[x] = (a + b*shares[x]) / n
	}
	return variances, nil
}

// total adds counts.
func total(counts []int64) (float64, error) {
	n := 0.0
	for i, count := range counts {
		if count < 0 {
			return 0, invalid("number %d was counted %d times", i, count)
		}
		n += float64(count)
	}
	return n, nil
}

// estimator is what one response says about the shares: the estimate is the mean of the gains of
// all responses.
type estimator struct {
	inputs, outputs int
	gain            []float64 // by input, then output: G
	laws            []float64 // by input, then output: the probabilities
	variance        []float64 // by input, then true input: of the gain of one response
	// excess is by how much that variance is larger if the input is the true one, by input, then
	// another input. It is computed from differences between laws, because it is far smaller than
	// the variances at a small ε.
	excess []float64
	prior  float64 // the variance of one response of an object drawn at random, all inputs equally common
}

// faint is the least singular value of a mechanism, in relation to its largest, that an estimate is
// made from.
const faint = 1e-9

// largest bounds variances and squares of gains, so that no sum or product of a few of them is
// infinite.
const largest = 1e250

// newEstimator computes G. All of it is computed from differences between laws and their mean,
// which are taken before rounding: so a small ε costs no digits. With W = D^−½(M − mean)ᵀ, whose
// columns add up to zero, and its pseudo-inverse W⁺, the gain of an output is 1/k + W⁺D^−½, less
// its mean, which is 1/k.
func newEstimator(m *finite.Matrix) (*estimator, error) {
	if err := usable(m); err != nil {
		return nil, err
	}
	alike := invalid("the mechanism does not tell its %d inputs apart: the laws of its outputs are linearly "+
		"dependent", m.Inputs())
	inverse, ok := pseudoInverse(contrast(m), m.Inputs()-1)
	if !ok {
		return nil, alike
	}
	e := &estimator{inputs: m.Inputs(), outputs: m.Outputs(), gain: make([]float64, m.Inputs()*m.Outputs())}
	even, mean := 1/float64(e.inputs), meanLaw(m)
	for x := range e.inputs {
		for o, p := range mean {
			e.gain[x*e.outputs+o] = even
			if often, _ := p.Float64(); often > 0 {
				e.gain[x*e.outputs+o] += inverse.At(x, o) / math.Sqrt(often)
			}
		}
	}
	e.spreadOut(m)
	if !(e.prior < largest) || slices.ContainsFunc(e.gain, func(g float64) bool { return !(g*g < largest) }) {
		return nil, alike
	}
	return e, nil
}

// usable refuses a matrix that [finite.NewMatrix] did not make.
func usable(m *finite.Matrix) error {
	if m == nil || m.Inputs() == 0 {
		return invalid("a matrix without probabilities")
	}
	return nil
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

// contrast returns W, by output, then input.
func contrast(m *finite.Matrix) *mat.Dense {
	w := mat.NewDense(m.Outputs(), m.Inputs(), nil)
	for o, mean := range meanLaw(m) {
		often, _ := mean.Float64()
		if often == 0 {
			continue
		}
		for x := range m.Inputs() {
			difference, _ := new(big.Rat).Sub(m.At(x, o), mean).Float64()
			w.Set(o, x, difference/math.Sqrt(often))
		}
	}
	return w
}

// pseudoInverse returns the inverse of w on the image of w, which must have the given number of
// dimensions.
func pseudoInverse(w *mat.Dense, rank int) (*mat.Dense, bool) {
	var svd mat.SVD
	if !svd.Factorize(w, mat.SVDThin) {
		return nil, false
	}
	values := svd.Values(nil)
	if len(values) < rank || !(values[rank-1] > faint*values[0]) {
		return nil, false
	}
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	rows, _ := v.Dims()
	scaled := mat.NewDense(rows, rank, nil)
	scaled.Apply(func(_, j int, x float64) float64 { return x / values[j] }, v.Slice(0, rows, 0, rank))
	outputs, _ := u.Dims()
	var inverse mat.Dense
	inverse.Mul(scaled, u.Slice(0, outputs, 0, rank).T())
	return &inverse, true
}

// spreadOut computes the variances of the gains of one response.
func (e *estimator) spreadOut(m *finite.Matrix) {
	mean := meanLaw(m)
	e.laws = make([]float64, 0, len(e.gain))
	e.variance, e.excess = make([]float64, e.inputs*e.inputs), make([]float64, e.inputs*e.inputs)
	away := make([]float64, 0, len(e.gain)) // the laws, less their mean
	for x := range e.inputs {
		e.laws = append(e.laws, law(m, x)...)
		for o := range e.outputs {
			difference, _ := new(big.Rat).Sub(m.At(x, o), mean[o]).Float64()
			away = append(away, difference)
		}
	}
	even := 1 / float64(e.inputs)
	for x := range e.inputs {
		gains, own := e.row(e.gain, x), e.spread(x, x)
		for truth := range e.inputs {
			squares := e.spread(x, truth)
			e.variance[x*e.inputs+truth] = squares
			e.prior += squares * even
			// Of two ways, the one in which smaller numbers are subtracted.
			excess := own - squares
			if max(own, squares) > 1 && truth != x {
				excess = -1
				for o, g := range gains {
					excess += (away[x*e.outputs+o] - away[truth*e.outputs+o]) * g * g
				}
			}
			e.excess[x*e.inputs+truth] = excess
		}
		e.prior += even * (1 - even) // that of the object's input
	}
}

// spread returns the variance of the gain for input x in the response of an object with the input
// truth.
func (e *estimator) spread(x, truth int) float64 {
	mean, squares := 0.0, 0.0
	if truth == x {
		mean = 1
	}
	for o, p := range e.row(e.laws, truth) {
		gain := e.gain[x*e.outputs+o] - mean
		squares += p * gain * gain
	}
	return squares
}

// row returns the row of a matrix of outputs, by input.
func (e *estimator) row(matrix []float64, input int) []float64 {
	return matrix[input*e.outputs : (input+1)*e.outputs]
}

// law returns the probabilities of the outputs given an input.
func law(m *finite.Matrix, input int) []float64 {
	law := make([]float64, m.Outputs())
	for o := range law {
		law[o], _ = m.At(input, o).Float64()
	}
	return law
}

// happens tells whether an output is possible for any input.
func happens(m *finite.Matrix, output int) bool {
	for x := range m.Inputs() {
		if m.At(x, output).Sign() > 0 {
			return true
		}
	}
	return false
}

// Noise returns the variance of the gain for input x, a + b·share, if the other inputs are
// distributed as estimated.
func (e *estimator) Noise(x int, estimates []float64) (a, b float64) {
	for other, share := range others(estimates, x) {
		a += share * e.variance[x*e.inputs+other]
		b += share * e.excess[x*e.inputs+other]
	}
	return a, b
}

// Step returns how far apart the gains for input x are.
func (e *estimator) Step(x int) float64 {
	gains := e.row(e.gain, x)
	return slices.Max(gains) - slices.Min(gains)
}

// Covariance returns that of two gains in the response of an object drawn at random.
func (e *estimator) Covariance(shares []float64) func(u, v int) float64 {
	often := make([]float64, e.outputs)
	for x, share := range shares {
		for o, p := range e.row(e.laws, x) {
			often[o] += share * p
		}
	}
	return func(u, v int) float64 {
		sum := 0.0
		for o, p := range often {
			sum += p * (e.gain[u*e.outputs+o] - shares[u]) * (e.gain[v*e.outputs+o] - shares[v])
		}
		return sum
	}
}

// part is the responses of one mechanism. It implements [strata.Stratum].
type part struct {
	*estimator
	counts []int64
	n      float64
}

func newPart(c Counts) (part, error) {
	if err := usable(c.Mechanism); err != nil {
		return part{}, err
	}
	if len(c.ByOutput) != c.Mechanism.Outputs() {
		return part{}, invalid("%d counts for %d outputs", len(c.ByOutput), c.Mechanism.Outputs())
	}
	for o, count := range c.ByOutput {
		if count > 0 && !happens(c.Mechanism, o) {
			return part{}, invalid("output %d, which never happens, was counted %d times", o, count)
		}
	}
	n, err := total(c.ByOutput)
	if err != nil {
		return part{}, err
	}
	e, err := newEstimator(c.Mechanism)
	return part{e, c.ByOutput, n}, err
}

// Objects returns the number of responses.
func (p part) Objects() float64 { return p.n }

// Share returns the estimate for input x.
func (p part) Share(x int) float64 {
	sum := 0.0
	for o, count := range p.counts {
		sum += float64(count) / p.n * p.gain[x*p.outputs+o]
	}
	return sum
}

// Weight is the inverse of the variance, summed over the inputs, when all are equally common.
func (p part) Weight() float64 { return p.n / p.prior }

// newParts returns the levels that have responses.
func newParts(levels []Counts) ([]part, error) {
	var parts []part
	for i, level := range levels {
		p, err := newPart(level)
		if err != nil {
			return nil, err
		}
		if first := levels[0].Mechanism.Inputs(); first != p.inputs {
			return nil, invalid("mechanisms with %d and with %d inputs, that of level %d", first, p.inputs, i)
		}
		if p.n > 0 {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return nil, invalid("no responses to estimate from")
	}
	return parts, nil
}

// others returns how the objects that do not have input x are distributed among the other inputs:
// in proportion to the estimates above zero, or evenly where there are none.
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
