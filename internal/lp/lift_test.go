package lp

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

func TestModularArithmetic_AgreesWithBigInt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := big.NewInt(prime)
	check.Need(t, m.ProbablyPrime(20), "the modulus is not a prime")
	edge := []uint64{1, 2, 3, prime - 1, prime - 2, 1 << 60, prime / 2}
	for i := range 2000 {
		x, y := rng.Uint64N(prime), rng.Uint64N(prime-1)+1
		if i < len(edge)*len(edge) {
			x, y = edge[i/len(edge)], edge[i%len(edge)]
		}
		want := new(big.Int).Mul(new(big.Int).SetUint64(x), new(big.Int).SetUint64(y))
		got := mul(x, y)
		check.Need(t, got == want.Mod(want, m).Uint64(), "%d·%d = %d, want %v", x, y, got, want)
		if got := mul(y, inverse(y)); got != 1 {
			t.Fatalf("%d by its inverse is %d", y, got)
		}
	}
	check.Equal(t, residue(big.NewInt(-1)), prime-1, "the residue of −1")
}

// digitsOf returns num/den to the base prime.
func digitsOf(num, den int64, count int) []uint64 {
	modulus := new(big.Int).Exp(big.NewInt(prime), big.NewInt(int64(count)), nil)
	x := new(big.Int).ModInverse(big.NewInt(den), modulus)
	x.Mul(x, big.NewInt(num)).Mod(x, modulus)
	digits := make([]uint64, count)
	for i := range digits {
		digit := new(big.Int)
		x.DivMod(x, big.NewInt(prime), digit)
		digits[i] = digit.Uint64()
	}
	return digits
}

func TestFractions_EnoughDigits_AreReconstructed(t *testing.T) {
	values := [][2]int64{{0, 1}, {1, 3}, {-7, 12}, {1 << 40, 1<<40 - 1}, {-5, 1}, {1, 1 << 53}}
	const count = 8
	digits := make([][]uint64, count)
	for _, v := range values {
		for i, d := range digitsOf(v[0], v[1], count) {
			digits[i] = append(digits[i], d)
		}
	}
	p := check.Value(New(1))(t)
	x, ok := p.fractions(digits)
	check.Need(t, ok, "not found")
	for i, v := range values {
		got := new(big.Rat).SetFrac(x.num[i], x.den)
		check.That(t, got.Cmp(big.NewRat(v[0], v[1])) == 0, "%v, want %d/%d", got, v[0], v[1])
	}
	if _, ok := p.fractions(digits[:2]); ok {
		t.Error("two digits were enough for a common denominator of 98 bits")
	}
}

// Gaussian elimination must find the same solution, also where entries differ by many orders of
// magnitude.
func TestVertexSolve_AgreesWithElimination(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	solved := 0
	for i := range 300 {
		vars := 1 + rng.IntN(6)
		var rows []Row
		basis := make([]int, 0, vars)
		for r := range vars {
			row := Row{Bound: rat(rng.NormFloat64())}
			for j := range vars {
				if rng.IntN(2) == 0 {
					row.Terms = append(row.Terms, Term{j, rat(rng.NormFloat64() * float64(uint64(1)<<rng.IntN(60)))})
				}
			}
			rows = append(rows, row)
			basis = append(basis, vars+r)
		}
		v := newVertex(program(t, vars, rows), basis)
		want := intersection(vars, rows)
		check.Need(t, (v == nil) == (want == nil), "matrix %d: inverse %v, solution %v", i, v, want)
		if v == nil {
			continue
		}
		solved++
		for j, x := range rationals(v.point()) {
			check.Need(t, x.Cmp(want[j]) == 0, "matrix %d: x[%d] = %v, want %v", i, j, x, want[j])
		}
		c := zeros(vars)
		c[rng.IntN(vars)].SetInt64(5)
		y := v.multipliers(c)
		check.Need(t, v.solved(y, c, true), "matrix %d: wrong multipliers", i)
	}
	check.That(t, solved >= 100, "only %d matrices had an inverse", solved)
}

func TestVertexSolved_WrongSolution_IsRejected(t *testing.T) {
	e := examples()[0]
	v := newVertex(e.program(t), []int{3, 4})
	x := v.point()
	b := []*big.Int{v.p.constraints[v.basis[0]].bound, v.p.constraints[v.basis[1]].bound}
	check.Need(t, v.solved(x, b, false), "the solution is not one")
	if x.num[0].Add(x.num[0], big.NewInt(1)); v.solved(x, b, false) {
		t.Error("a wrong solution was not noticed")
	}
}
