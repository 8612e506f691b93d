// Package estimate tells from responses how common the inputs of finite mechanisms are (package finite), with the
// uncertainty of that.
//
// It is apart from package finite because it needs floating-point linear algebra, and chains and their verification do not.
package estimate

import (
	"fmt"
	"math"
	"math/big"

	"gonum.org/v1/gonum/mat"

	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/finite"
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{finite.ErrInvalid}, args...)...)
}

// Counts says how often each output of a mechanism was the response.
type Counts struct {
	Mechanism *finite.Matrix // the one that drew them
	ByOutput  []int64        // one count for each output
}

// Frequencies returns the share of each input in the whole population from the responses of its objects, each counted
// once, at the level it has reached. confidence is the nominal coverage of the interval, such as 0.95.
//
// Within one level the estimate is G·(n_o/n) with the matrix G of least variance, when all inputs are equally
// common, among those with G·Mᵀ = 1: so it is unbiased whatever the shares are, and the shares add up to 1.
// G is Mᵀ's inverse where it has one, as in randomized response, and by weighted least squares
// (M·D⁻¹·Mᵀ)⁻¹·M·D⁻¹ otherwise, where D has the mean probability of each output on its diagonal. Levels, whose
// mechanisms may differ, are combined with weights proportional to the inverse of their variance, summed over
// the inputs, when all are equally common. The weights do not depend on the responses, so the combination stays
// unbiased, provided that how high an object's level is has nothing to do with its input; where it may, estimate
// each level apart.
//
// The standard error is that of the responses of a fixed population (plug-in for the true shares), plus, for
// several levels, that of having parted the population among them at random. The interval is the normal
// approximation: trust it from about 30 responses on.
//
// For randomized response all of this is what package rrchain/estimate does. For unary encoding that package counts
// each bit alone; here whole rows of bits are counted, and the estimate is better (its variance is half for 2
// inputs, and hardly less for many).
//
// Frequencies returns [finite.ErrInvalid] for no responses, a negative count, one of an output that never happens, different
// numbers of inputs, a confidence not strictly between 0 and 1, or a mechanism that does not tell the inputs apart:
// if the laws of its outputs given each input are linearly dependent, or nearly so, 10⁹ times nearer in one
// direction than in another, or so near that a variance is beyond all float64 numbers.
func Frequencies(confidence float64, levels ...Counts) ([]estimate.Frequency, error) {
	if !(confidence > 0 && confidence < 1) {
		return nil, invalid("confidence %v is not between 0 and 1", confidence)
	}
	all, err := pool(levels)
	if err != nil {
		return nil, err
	}
	z := math.Sqrt2 * math.Erfinv(confidence)
	shares := all.shares()
	result := make([]estimate.Frequency, len(shares))
	for x, share := range shares {
		stdErr := math.Sqrt(all.variance(x, populated(shares, x)))
		result[x] = estimate.Frequency{Estimate: share, StdErr: stdErr, Low: share - z*stdErr, High: share + z*stdErr}
	}
	return result, nil
}

// Variance returns, for each input, the variance of the estimate from a fixed population of objects, as many with
// each input as truth says, who all answer by one mechanism. It serves to plan: how good will an estimate be.
// It returns [finite.ErrInvalid] for another number of inputs, a negative number of objects, or none, and a mechanism that
// does not tell the inputs apart.
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
		variances[x] = e.spread(x, shares) / n
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

// estimator is what one response says about the shares: the estimate is the mean of the gains of all responses.
type estimator struct {
	inputs, outputs int
	gain            []float64 // by input, then output: G
	variance        []float64 // by input, then true input: of the gain of one response
	prior           float64   // the variance of one response of an object drawn at random, all inputs equally common
}

// faint is the least singular value of a mechanism, in relation to its largest, that an estimate is made from.
const faint = 1e-9

// newEstimator computes G. All of it is told from differences between laws and their mean, which are taken before
// rounding: so a small ε costs no digits. With W = D^−½(M − mean)ᵀ, whose columns add up to zero, and its
// pseudo-inverse W⁺, the gain of an output is 1/k + W⁺D^−½, less its mean, which is 1/k.
func newEstimator(m *finite.Matrix) (*estimator, error) {
	if err := usable(m); err != nil {
		return nil, err
	}
	alike := invalid("the mechanism does not tell its %d inputs apart: the laws of its outputs are linearly dependent", m.Inputs())
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
	if math.IsInf(e.prior, 0) || math.IsNaN(e.prior) {
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

// pseudoInverse returns the inverse of w on the image of w, which must have the given number of dimensions.
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
	e.variance = make([]float64, e.inputs*e.inputs)
	laws := make([][]float64, e.inputs)
	for x := range laws {
		laws[x] = law(m, x)
	}
	for x := range e.inputs {
		gain := e.gain[x*e.outputs : (x+1)*e.outputs]
		for truth := range e.inputs {
			mean := 0.0
			if truth == x {
				mean = 1
			}
			squares := 0.0
			for o, p := range laws[truth] {
				squares += p * (gain[o] - mean) * (gain[o] - mean)
			}
			e.variance[x*e.inputs+truth] = squares
			e.prior += squares / float64(e.inputs)
		}
		even := 1 / float64(e.inputs)
		e.prior += even * (1 - even) // that of the object's input
	}
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

// spread returns the mean variance of the gain for input x if the true shares are given.
func (e *estimator) spread(x int, shares []float64) float64 {
	sum := 0.0
	for truth, share := range shares {
		sum += share * e.variance[x*e.inputs+truth]
	}
	return sum
}

// part is the responses of one mechanism.
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

// share returns the estimate for input x.
func (p part) share(x int) float64 {
	sum := 0.0
	for o, count := range p.counts {
		sum += float64(count) / p.n * p.gain[x*p.outputs+o]
	}
	return sum
}

// weight is the inverse of the variance, summed over the inputs, when all are equally common.
func (p part) weight() float64 { return p.n / p.prior }

// pooled is a population over several levels.
type pooled struct {
	parts  []part
	n      float64
	weight float64
}

func pool(levels []Counts) (pooled, error) {
	var all pooled
	for i, level := range levels {
		p, err := newPart(level)
		if err != nil {
			return all, err
		}
		if first := levels[0].Mechanism.Inputs(); first != p.inputs {
			return all, invalid("mechanisms with %d and with %d inputs, that of level %d", first, p.inputs, i)
		}
		if p.n > 0 {
			all.parts = append(all.parts, p)
			all.n += p.n
			all.weight += p.weight()
		}
	}
	if len(all.parts) == 0 {
		return all, invalid("no responses to estimate from")
	}
	return all, nil
}

func (all pooled) shares() []float64 {
	shares := make([]float64, all.parts[0].inputs)
	for x := range shares {
		for _, p := range all.parts {
			shares[x] += p.weight() / all.weight * p.share(x)
		}
	}
	return shares
}

// variance returns that of the estimate for input x, if the true shares are given. To the variance of the
// responses that of the partition is added, as in package rrchain/estimate: the weighted share differs from the
// population's by which objects happen to be at which level.
func (all pooled) variance(x int, shares []float64) float64 {
	responses, partition := 0.0, -1/all.n
	for _, p := range all.parts {
		w := p.weight() / all.weight
		responses += w * w * p.spread(x, shares) / p.n
		partition += w * w / p.n
	}
	if len(all.parts) == 1 {
		return responses
	}
	return responses + shares[x]*(1-shares[x])*all.n/(all.n-1)*max(partition, 0)
}

// populated returns possible shares near estimated ones: that of input x as near as can be, the others in
// proportion to what is above zero of theirs.
func populated(estimates []float64, x int) []float64 {
	shares := make([]float64, len(estimates))
	others := 0.0
	for i, e := range estimates {
		shares[i] = min(max(e, 0), 1)
		if i != x {
			others += shares[i]
		}
	}
	for i := range shares {
		switch {
		case i == x:
		case others > 0:
			shares[i] *= (1 - shares[x]) / others
		default:
			shares[i] = (1 - shares[x]) / float64(len(shares)-1)
		}
	}
	return shares
}
