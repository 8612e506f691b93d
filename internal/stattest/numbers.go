package stattest

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Arithmetic for reference values: numbers with many digits, and fractions.

// wide is the precision of numbers, in bits.
const wide = 320

// Number returns a number with the precision of tests. x is a float64, an int, an int64, a decimal
// text or a *big.Float. It panics for anything else.
func Number(x any) *big.Float {
	f := new(big.Float).SetPrec(wide)
	switch x := x.(type) {
	case *big.Float:
		return f.Set(x)
	case float64:
		return f.SetFloat64(x)
	case int:
		return f.SetInt64(int64(x))
	case int64:
		return f.SetInt64(x)
	case string:
		if _, ok := f.SetString(x); ok {
			return f
		}
	}
	panic("stattest.Number: not a number")
}

// Add returns x + y. See [Number] for the types.
func Add(x, y any) *big.Float { return Number(x).Add(Number(x), Number(y)) }

// Sub returns x − y. See [Number] for the types.
func Sub(x, y any) *big.Float { return Number(x).Sub(Number(x), Number(y)) }

// Mul returns x·y. See [Number] for the types.
func Mul(x, y any) *big.Float { return Number(x).Mul(Number(x), Number(y)) }

// Quo returns x/y. See [Number] for the types.
func Quo(x, y any) *big.Float { return Number(x).Quo(Number(x), Number(y)) }

// Middle returns the middle of an interval.
func Middle(x interface{ Bounds() (lo, hi *big.Float) }) *big.Float {
	lo, hi := x.Bounds()
	return Quo(Add(lo, hi), 2)
}

// Near returns whether got is within a relative tolerance of want.
func Near(got, want any, tolerance float64) bool {
	gap := Sub(got, want)
	return gap.Abs(gap).Cmp(Mul(Number(want).Abs(Number(want)), tolerance)) <= 0
}

// WantNear fails the test if got is not within a relative tolerance of want.
func WantNear(t *testing.T, name string, got, want any, tolerance float64) {
	t.Helper()
	if !Near(got, want, tolerance) { // only now: the relative error of 0 from 0 is undefined
		off := Quo(Sub(got, want), want)
		t.Errorf("%s = %.20g, want %.20g (relative error %.3g)", name, Number(got), Number(want), off)
	}
}

// Power returns mⁿ.
func Power(m int64, n int) int {
	x := 1
	for range n {
		x *= int(m)
	}
	return x
}

// Digits returns the n lowest digits of a code to base m, the lowest one first.
func Digits(code int, m int64, n int) []int {
	d := make([]int, n)
	for i := range d {
		d[i] = code % int(m)
		code /= int(m)
	}
	return d
}

// Permutations returns all orders of 0 … n−1 in lexicographic order.
func Permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var all [][]int
	for _, shorter := range Permutations(n - 1) {
		for i := n - 1; i >= 0; i-- {
			all = append(all, slices.Insert(slices.Clone(shorter), i, n-1))
		}
	}
	slices.SortFunc(all, slices.Compare)
	return all
}

// Rat returns the fraction that a text such as "1/3" represents. It panics for other texts.
func Rat(text string) *big.Rat {
	x, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("stattest.Rat: not a fraction: " + text)
	}
	return x
}

// Plus returns the fraction x + y.
func Plus(x, y *big.Rat) *big.Rat { return new(big.Rat).Add(x, y) }

// Minus returns the fraction x − y.
func Minus(x, y *big.Rat) *big.Rat { return new(big.Rat).Sub(x, y) }

// Times returns the fraction x·y.
func Times(x, y *big.Rat) *big.Rat { return new(big.Rat).Mul(x, y) }

// Over returns the fraction x/y.
func Over(x, y *big.Rat) *big.Rat { return new(big.Rat).Quo(x, y) }

// Integer returns a whole number as a fraction.
func Integer(n int) *big.Rat { return big.NewRat(int64(n), 1) }

// Fractions returns the fractions that texts such as "1/3" represent.
func Fractions(texts ...string) []*big.Rat {
	var row []*big.Rat
	for _, text := range texts {
		row = append(row, Rat(text))
	}
	return row
}

// ParseRows returns rows of fractions, each a text such as "1/2 1/3 1/6".
func ParseRows(rows ...string) [][]*big.Rat {
	var all [][]*big.Rat
	for _, row := range rows {
		all = append(all, Fractions(strings.Fields(row)...))
	}
	return all
}

// Randomized returns the probabilities of randomized response of m values, by its definition: a row
// for each true value, and in it the probability of each response. odds is e^ε.
func Randomized(m int, odds *big.Rat) [][]*big.Rat {
	rows := make([][]*big.Rat, m)
	for x := range rows {
		for o := range m {
			p := Over(Integer(1), Plus(odds, Integer(m-1)))
			if o == x {
				p.Mul(p, odds)
			}
			rows[x] = append(rows[x], p)
		}
	}
	return rows
}

// Unary returns the probabilities of optimized unary encoding of m values: a row for each true
// value, and in it the probability of each of the 2^m rows of bits. Bit v of an output's number is
// the bit of value v. odds is e^ε. The bit of the true value is 1 with probability 1/2, any other
// bit with probability 1/(odds+1).
func Unary(m int, odds *big.Rat) [][]*big.Rat {
	seldom := Over(Integer(1), Plus(odds, Integer(1)))
	rows := make([][]*big.Rat, m)
	for x := range rows {
		for o := range 1 << m {
			p := Integer(1)
			for v := range m {
				often := seldom
				if v == x {
					often = Rat("1/2")
				}
				if o>>v&1 == 0 {
					often = Minus(Integer(1), often)
				}
				p.Mul(p, often)
			}
			rows[x] = append(rows[x], p)
		}
	}
	return rows
}

// RandomRows returns a row of random probabilities for each input. None is 0, and none is more than
// 10 times another of its row.
func RandomRows(random *rand.Rand, inputs, outputs int) [][]*big.Rat {
	rows := make([][]*big.Rat, inputs)
	for x := range rows {
		sum := new(big.Rat)
		for range outputs {
			p := Integer(1 + random.IntN(10))
			rows[x] = append(rows[x], p)
			sum.Add(sum, p)
		}
		for _, p := range rows[x] {
			p.Quo(p, sum)
		}
	}
	return rows
}

// LineLaws returns the laws at the positions from … to of a line of datasets. The prefix sums of
// the law at position z are U^z of those of the given law, which is that at position 0 (Theorem 2
// on datasets in docs/gradual.md). growth is e^ε.
func LineLaws(growth *big.Rat, law []*big.Rat, from, to int) [][]*big.Rat {
	var laws [][]*big.Rat
	for z := from; z <= to; z++ {
		at, below := make([]*big.Rat, len(law)), new(big.Rat)
		prefix := new(big.Rat)
		for j, p := range law {
			prefix = Plus(prefix, p)
			sum := iterated(growth, prefix, z)
			at[j] = new(big.Rat).Sub(sum, below)
			below = sum
		}
		laws = append(laws, at)
	}
	return laws
}

// iterated returns U^z(x). For negative z it uses 1 − U(1 − x), the inverse of U.
func iterated(growth, x *big.Rat, z int) *big.Rat {
	one := big.NewRat(1, 1)
	for ; z > 0; z-- {
		x = rationalUpper(growth, x)
	}
	for ; z < 0; z++ {
		x = new(big.Rat).Sub(one, rationalUpper(growth, new(big.Rat).Sub(one, x)))
	}
	return x
}

// rationalUpper returns U(x) = min(e^ε x, 1 − (1−x)/e^ε): graph.Privacy.Upper for δ = 0.
func rationalUpper(growth, x *big.Rat) *big.Rat {
	one := big.NewRat(1, 1)
	grown, shrunk := new(big.Rat).Mul(growth, x), new(big.Rat).Sub(one, x)
	if shrunk.Sub(one, shrunk.Quo(shrunk, growth)); grown.Cmp(shrunk) < 0 {
		return grown
	}
	return shrunk
}
