package finite

import (
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

// Arithmetic with fractions.
var (
	rat, fractions, integer  = stattest.Rat, stattest.Fractions, stattest.Integer
	plus, minus, times, over = stattest.Plus, stattest.Minus, stattest.Times, stattest.Over
	permutations             = stattest.Permutations
)

// Mechanisms by their probabilities.

func matrixOf(rows ...string) *Matrix { return matrix(stattest.ParseRows(rows...)...) }

func randomized(m int, odds *big.Rat) *Matrix { return matrix(stattest.Randomized(m, odds)...) }

func unary(m int, odds *big.Rat) *Matrix { return matrix(stattest.Unary(m, odds)...) }

func randomMatrix(random *rand.Rand, inputs, outputs int) *Matrix {
	return matrix(stattest.RandomRows(random, inputs, outputs)...)
}

func eps(text string) privacy.Epsilon { return must(privacy.ParseEpsilon(text)) }

func fromNano(nano int64) privacy.Epsilon { return must(privacy.EpsilonFromNano(nano)) }

// must returns x, if there is no error.
func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func matrix(rows ...[]*big.Rat) *Matrix { return must(NewMatrix(rows)) }

func subsets(inputs, size int, odds *big.Rat) *Matrix {
	return must(must(SubsetSelection(inputs, size)).atOdds(odds))
}

func hadamard(inputs int, odds *big.Rat) *Matrix {
	return must(must(HadamardResponse(inputs)).atOdds(odds))
}

// lawOf returns the probabilities of the outputs given an input.
func lawOf(m *Matrix, input int) []*big.Rat {
	var law []*big.Rat
	for o := range m.outputs {
		law = append(law, m.At(input, o))
	}
	return law
}

func family(t testing.TB, levels ...*Matrix) *Family {
	t.Helper()
	return must(NewFamily(t.Context(), levels...))
}

// replay returns a sampler that reads the given random words. After them, word n has the value n.
func replay(words ...uint64) *Sampler {
	next := 0
	return &Sampler{bits: exact.ReplayBits(func(p []byte) {
		for ; len(p) > 0; p = p[8:] {
			word := uint64(next)
			if next < len(words) {
				word = words[next]
			}
			binary.BigEndian.PutUint64(p, word)
			next++
		}
	})}
}

// then returns the composition of m and next.
func (m *Matrix) then(next *Matrix) *Matrix {
	var both []*big.Rat
	for x := range m.inputs {
		for to := range next.outputs {
			sum := new(big.Rat)
			for middle := range m.outputs {
				sum.Add(sum, times(m.at(x, middle), next.at(middle, to)))
			}
			both = append(both, sum)
		}
	}
	return newMatrix(m.inputs, next.outputs, both)
}

// equal returns whether two matrices have the same probabilities.
func (m *Matrix) equal(other *Matrix) bool {
	if m.inputs != other.inputs || m.outputs != other.outputs {
		return false
	}
	for i, p := range m.p {
		if p.Cmp(other.p[i]) != 0 {
			return false
		}
	}
	return true
}
