package finite

import (
	"fmt"
	"math"
	"math/big"
	"sync"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// invalid returns an error that wraps [privacy.ErrInvalid].
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{privacy.ErrInvalid}, args...)...)
}

// maxCells limits the number of probabilities of a matrix, so that the linear programs are small.
const maxCells = 4096

// Matrix is a random map from some inputs to some outputs: the probability of each output given
// each input, as rational numbers. It is immutable and safe for concurrent use. The zero value is
// not usable; see [NewMatrix].
type Matrix struct {
	inputs, outputs int
	p               []*big.Rat        // by input, then output
	scaled          func() []*big.Int // p multiplied by the common denominator, computed by the first call
}

// newMatrix returns a matrix that keeps p. The caller ensures that p is valid.
func newMatrix(inputs, outputs int, p []*big.Rat) *Matrix {
	return &Matrix{inputs, outputs, p, sync.OnceValue(func() []*big.Int { return integersOf(p) })}
}

// integersOf returns the numbers multiplied by their common denominator. Only proportions of
// probabilities matter, and integers are multiplied and added without computing common divisors.
func integersOf(numbers []*big.Rat) []*big.Int {
	common := commonDenominator(numbers, math.MaxInt)
	scaled := make([]*big.Int, len(numbers))
	for i, x := range numbers {
		scaled[i] = new(big.Int).Quo(common, x.Denom())
		scaled[i].Mul(scaled[i], x.Num())
	}
	return scaled
}

// commonDenominator returns the common denominator of some numbers. It returns nil if that has more
// than the given number of bits.
func commonDenominator(numbers []*big.Rat, bits int) *big.Int {
	common := big.NewInt(1)
	for _, x := range numbers {
		if new(big.Int).Rem(common, x.Denom()).Sign() != 0 {
			divisor := new(big.Int).GCD(nil, nil, common, x.Denom())
			common.Mul(common, divisor.Quo(x.Denom(), divisor))
		}
		if common.BitLen() > bits {
			return nil
		}
	}
	return common
}

// maxBits limits the length of the common denominator of a matrix, in bits. It bounds the memory of
// a matrix at its common denominator (4 MiB), and the time to check a channel (about 0.3 s for the
// largest). Matrices of a [Design] have about 100 bits.
const maxBits = 1 << 13

// NewMatrix returns the matrix with a row of probabilities for each input. It returns
// [privacy.ErrInvalid] unless there are at least 2 rows of the same length, at least 2, and at most
// 4,096 probabilities. No probability may be negative or missing, and each row must sum to exactly
// 1. The common denominator must have at most 8,192 bits and must not be far longer than the
// numbers themselves.
func NewMatrix(rows [][]*big.Rat) (*Matrix, error) {
	if len(rows) < 2 || len(rows[0]) < 2 || len(rows)*len(rows[0]) > maxCells {
		return nil, invalid("a mechanism needs at least 2 inputs, 2 outputs, and at most %d probabilities", maxCells)
	}
	outputs := len(rows[0])
	var all []*big.Rat
	for x, row := range rows {
		if len(row) != outputs {
			return nil, invalid("input %d has %d probabilities, and input 0 has %d", x, len(row), outputs)
		}
		for o, p := range row {
			if p == nil || p.Sign() < 0 {
				return nil, invalid("the probability of output %d given input %d is missing or negative", o, x)
			}
			all = append(all, new(big.Rat).Set(p))
		}
	}
	common := commonDenominator(all, maxBits)
	if common == nil {
		return nil, invalid("the probabilities have a common denominator of more than %d bits", maxBits)
	}
	if !isProportionate(all, common) {
		return nil, invalid("the probabilities have a common denominator of %d bits, which is far longer than "+
			"the probabilities themselves", common.BitLen())
	}
	m := newMatrix(len(rows), outputs, all)
	for x := range rows {
		if all := sum(m.row(x)); all.Cmp(common) != 0 {
			return nil, invalid("the probabilities given input %d add up to %s, not to 1",
				x, short(new(big.Rat).SetFrac(all, common)))
		}
	}
	return m, nil
}

// isProportionate returns true if numbers at their common denominator take at most 64 times the
// bits of the numbers, plus 128 KiB. Matrices may come from untrusted documents, and the memory to
// read one must be proportional to its text.
func isProportionate(numbers []*big.Rat, common *big.Int) bool {
	const times, free = 64, 1 << 20 // free is in bits: 128 KiB
	written := 0
	for _, x := range numbers {
		written += x.Num().BitLen() + x.Denom().BitLen()
	}
	return common.BitLen()*len(numbers) <= times*written+free
}

// short returns a number in a readable form for errors.
func short(x *big.Rat) string {
	if text := x.RatString(); len(text) <= 60 {
		return text
	}
	return "about " + x.FloatString(20)
}

// sum returns the sum of the numbers.
func sum(numbers []*big.Int) *big.Int {
	all := new(big.Int)
	for _, n := range numbers {
		all.Add(all, n)
	}
	return all
}

// Inputs returns the number of inputs.
func (m *Matrix) Inputs() int { return m.inputs }

// Outputs returns the number of outputs.
func (m *Matrix) Outputs() int { return m.outputs }

// At returns the probability of an output given an input; 0 ≤ input < Inputs, 0 ≤ output < Outputs.
func (m *Matrix) At(input, output int) *big.Rat { return new(big.Rat).Set(m.at(input, output)) }

// at is [Matrix.At] without a copy.
func (m *Matrix) at(input, output int) *big.Rat { return m.p[input*m.outputs+output] }

// checkUsable returns an error for a matrix that [NewMatrix] did not create.
func (m *Matrix) checkUsable() error {
	if m == nil || m.inputs == 0 {
		return invalid("the matrix has no probabilities; create it with NewMatrix")
	}
	return nil
}

// composesTo returns true if m followed by a channel is exactly the matrix `to`: the product of the
// two matrices.
func (m *Matrix) composesTo(channel, to *Matrix) bool {
	if m.outputs != channel.inputs || m.inputs != to.inputs || channel.outputs != to.outputs {
		return false
	}
	// As integers, all rows of a matrix have the same sum, which represents 1.
	scale, whole := sum(to.row(0)), new(big.Int).Mul(sum(m.row(0)), sum(channel.row(0)))
	left, right := new(big.Int), new(big.Int)
	for o := range to.outputs {
		column := channel.column(o)
		for x := range m.inputs {
			if left.Mul(dot(m.row(x), column), scale).Cmp(right.Mul(to.row(x)[o], whole)) != 0 {
				return false
			}
		}
	}
	return true
}

// row returns the probabilities of the outputs given an input, multiplied by the common denominator
// of the whole matrix.
func (m *Matrix) row(input int) []*big.Int {
	return m.scaled()[input*m.outputs : (input+1)*m.outputs]
}

// column returns the probabilities of an output given each input, multiplied by the common
// denominator of the whole matrix.
func (m *Matrix) column(output int) []*big.Int {
	column := make([]*big.Int, m.inputs)
	for x := range column {
		column[x] = m.row(x)[output]
	}
	return column
}

// outputLaw returns the probabilities of the outputs for given probabilities of the inputs.
// Argument and result are proportional to the probabilities.
func (m *Matrix) outputLaw(law []*big.Int) []*big.Int {
	outputs := make([]*big.Int, m.outputs)
	for o := range outputs {
		outputs[o] = dot(law, m.column(o))
	}
	return outputs
}

// meansGiven takes a number for each output, and returns its mean given each input. The results are
// proportional to the means.
func (m *Matrix) meansGiven(numbers []*big.Int) []*big.Int {
	means := make([]*big.Int, m.inputs)
	for x := range means {
		means[x] = dot(m.row(x), numbers)
	}
	return means
}

// dot returns Σ a_i·b_i.
func dot(a, b []*big.Int) *big.Int {
	sum, product := new(big.Int), new(big.Int)
	for i := range a {
		sum.Add(sum, product.Mul(a[i], b[i]))
	}
	return sum
}

// Epsilon returns the smallest ε, in nano-nats, at which the mechanism is ε-locally differentially
// private: the logarithm of the largest ratio of two probabilities of the same output, rounded up.
// It returns [privacy.ErrInvalid] if an output is possible for some inputs only, or if ε would be
// above 1,000.
func (m *Matrix) Epsilon() (privacy.Epsilon, error) {
	if err := m.checkUsable(); err != nil {
		return privacy.Epsilon{}, err
	}
	largest := big.NewRat(1, 1)
	for o := range m.outputs {
		low, high := m.extremes(o)
		if high.Sign() == 0 {
			continue // never happens
		}
		if low.Sign() == 0 {
			return privacy.Epsilon{}, invalid(
				"output %d is possible for some inputs only: the mechanism has no finite ε", o)
		}
		if ratio := new(big.Rat).Quo(high, low); ratio.Cmp(largest) > 0 {
			largest = ratio
		}
	}
	return logarithm(largest)
}

// extremes returns the smallest and the largest probability of an output.
func (m *Matrix) extremes(output int) (low, high *big.Rat) {
	low, high = m.at(0, output), m.at(0, output)
	for x := range m.inputs {
		if p := m.at(x, output); p.Cmp(low) < 0 {
			low = p
		} else if p.Cmp(high) > 0 {
			high = p
		}
	}
	return low, high
}

// logarithm returns ln x for x ≥ 1, rounded up to nano-nats. For x > 1 the logarithm is irrational,
// because e to the power of a rational number other than 0 is irrational. So enough digits always
// decide the rounding.
func logarithm(x *big.Rat) (privacy.Epsilon, error) {
	if x.Cmp(big.NewRat(1, 1)) == 0 {
		return privacy.Epsilon{}, nil
	}
	if !reaches(privacy.MaxEpsilon().Nano(), x) {
		return privacy.Epsilon{}, invalid("the mechanism is not differentially private for any ε up to %v",
			privacy.MaxEpsilon())
	}
	below, enough := int64(0), privacy.MaxEpsilon().Nano() // nano-nats: e^below < x ≤ e^enough, for the bisection
	// A guess replaces most of the search, and is verified on both sides.
	if guess := guessNano(x); guess > 2 && guess < enough-2 && !reaches(guess-2, x) && reaches(guess+2, x) {
		below, enough = guess-2, guess+2
	}
	for enough-below > 1 {
		if mid := below + (enough-below)/2; reaches(mid, x) {
			enough = mid
		} else {
			below = mid
		}
	}
	return privacy.EpsilonFromNano(enough)
}

// guessNano returns approximately 10⁹·ln x, for a positive x.
func guessNano(x *big.Rat) int64 {
	mantissa := new(big.Float)
	exponent := new(big.Float).SetRat(x).MantExp(mantissa)
	m, _ := mantissa.Float64()
	return int64(math.Round((math.Log(m) + float64(exponent)*math.Ln2) * 1e9))
}

// reaches returns true if e^(nano·10⁻⁹) is at least x. The two are never equal, so it raises the
// precision until the enclosure decides.
func reaches(nano int64, x *big.Rat) bool {
	for prec := uint(128); ; prec *= 2 {
		low, high := exact.Exp(nano, prec).Bounds()
		l, _ := low.Rat(nil)
		h, _ := high.Rat(nil)
		switch {
		case l.Cmp(x) >= 0:
			return true
		case h.Cmp(x) <= 0:
			return false
		}
	}
}
