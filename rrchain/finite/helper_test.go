package finite

import (
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

func eps(text string) privacy.Epsilon { return must(privacy.ParseEpsilon(text)) }

func fromNano(nano int64) privacy.Epsilon { return must(privacy.EpsilonFromNano(nano)) }

// must returns x, if there is no error.
func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func rat(text string) *big.Rat {
	x, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("not a fraction: " + text)
	}
	return x
}

func plus(x, y *big.Rat) *big.Rat  { return new(big.Rat).Add(x, y) }
func minus(x, y *big.Rat) *big.Rat { return new(big.Rat).Sub(x, y) }
func times(x, y *big.Rat) *big.Rat { return new(big.Rat).Mul(x, y) }
func over(x, y *big.Rat) *big.Rat  { return new(big.Rat).Quo(x, y) }
func integer(n int) *big.Rat       { return big.NewRat(int64(n), 1) }

// fractions is a row of probabilities.
func fractions(texts ...string) []*big.Rat {
	var row []*big.Rat
	for _, text := range texts {
		row = append(row, rat(text))
	}
	return row
}

func matrix(rows ...[]*big.Rat) *Matrix { return must(NewMatrix(rows)) }

// written is a matrix of rows of fractions, such as "1/2 1/3 1/6".
func written(rows ...string) *Matrix {
	var all [][]*big.Rat
	for _, row := range rows {
		all = append(all, fractions(strings.Fields(row)...))
	}
	return matrix(all...)
}

// randomized is randomized response of m values, by its definition.
func randomized(m int, odds *big.Rat) *Matrix {
	rows := make([][]*big.Rat, m)
	for x := range rows {
		for o := range m {
			p := over(integer(1), plus(odds, integer(m-1)))
			if o == x {
				p.Mul(p, odds)
			}
			rows[x] = append(rows[x], p)
		}
	}
	return matrix(rows...)
}

// unary is optimized unary encoding of m values: bit v of the number of the output is that of value
// v.
func unary(m int, odds *big.Rat) *Matrix {
	seldom := over(integer(1), plus(odds, integer(1)))
	rows := make([][]*big.Rat, m)
	for x := range rows {
		for o := range 1 << m {
			p := integer(1)
			for v := range m {
				often := seldom
				if v == x {
					often = rat("1/2")
				}
				if o>>v&1 == 0 {
					often = minus(integer(1), often)
				}
				p.Mul(p, often)
			}
			rows[x] = append(rows[x], p)
		}
	}
	return matrix(rows...)
}

func subsets(inputs, size int, odds *big.Rat) *Matrix {
	return must(must(SubsetSelection(inputs, size)).with(odds))
}

func hadamard(inputs int, odds *big.Rat) *Matrix {
	return must(must(HadamardResponse(inputs)).with(odds))
}

// haphazard is a matrix of random fractions, none 0 and none more than 10 times another of its row.
func haphazard(random *rand.Rand, inputs, outputs int) *Matrix {
	rows := make([][]*big.Rat, inputs)
	for x := range rows {
		sum := new(big.Rat)
		for range outputs {
			p := integer(1 + random.IntN(10))
			rows[x] = append(rows[x], p)
			sum.Add(sum, p)
		}
		for _, p := range rows[x] {
			p.Quo(p, sum)
		}
	}
	return matrix(rows...)
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

// replay returns a sampler on the given random words; after them, each word is its own number.
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

// then returns the map that is m first, and then next.
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

// equal tells whether two matrices are the same.
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
