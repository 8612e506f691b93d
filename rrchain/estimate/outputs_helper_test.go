package estimate

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

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

func mechanismOf(t testing.TB, rows ...[]*big.Rat) *finite.Matrix {
	t.Helper()
	return must(finite.NewMatrix(rows))
}

// written is a matrix of rows of fractions, such as "1/2 1/3 1/6".
func written(t testing.TB, rows ...string) *finite.Matrix {
	t.Helper()
	var all [][]*big.Rat
	for _, row := range rows {
		all = append(all, fractions(strings.Fields(row)...))
	}
	return mechanismOf(t, all...)
}

// randomized is randomized response of m values, by its definition.
func randomized(t testing.TB, m int, odds *big.Rat) *finite.Matrix {
	t.Helper()
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
	return mechanismOf(t, rows...)
}

// unary is optimized unary encoding of m values: bit v of the number of the output is that of value
// v.
func unary(t testing.TB, m int, odds *big.Rat) *finite.Matrix {
	t.Helper()
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
	return mechanismOf(t, rows...)
}

func subsets(t testing.TB, inputs, size int, odds *big.Rat) *finite.Matrix {
	t.Helper()
	return designed(t, must(finite.SubsetSelection(inputs, size)), inputs, odds)
}

func hadamard(t testing.TB, inputs int, odds *big.Rat) *finite.Matrix {
	t.Helper()
	return designed(t, must(finite.HadamardResponse(inputs)), inputs, odds)
}

// designed has each output that stands for an input so many times as often as the others.
func designed(t testing.TB, d *finite.Design, inputs int, odds *big.Rat) *finite.Matrix {
	t.Helper()
	rows := make([][]*big.Rat, inputs)
	for x := range rows {
		sum := new(big.Rat)
		for _, block := range d.Blocks {
			p := integer(1)
			if slices.Contains(block, x) {
				p.Set(odds)
			}
			rows[x] = append(rows[x], p)
			sum.Add(sum, p)
		}
		for _, p := range rows[x] {
			p.Quo(p, sum)
		}
	}
	return mechanismOf(t, rows...)
}

// haphazard is a matrix of random fractions, none 0 and none more than 10 times another of its row.
func haphazard(t testing.TB, random *rand.Rand, inputs, outputs int) *finite.Matrix {
	t.Helper()
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
	return mechanismOf(t, rows...)
}

// lawOf returns the probabilities of the outputs given an input.
func lawOf(m *finite.Matrix, input int) []*big.Rat {
	var law []*big.Rat
	for o := range m.Outputs() {
		law = append(law, m.At(input, o))
	}
	return law
}

func oddsAt(epsilon privacy.Epsilon) *big.Rat {
	low, _ := exact.Exp(epsilon.Nano(), 200).Bounds()
	odds, _ := low.Rat(nil)
	return odds
}
