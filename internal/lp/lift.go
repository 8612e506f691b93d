package lp

import (
	"math/big"
	"math/bits"
)

// prime is the modulus of the inverse. It is the first prime below 2⁶¹ − 1618033988, which is an
// arbitrary number. 2⁶¹ − 1 itself is too likely to divide numbers that come from float64, such as
// a sum of 1 − 2⁻⁶¹.
const (
	prime   = 1<<61 - deficit
	deficit = 1618033999
)

// vector is a vector of rational numbers with a common denominator above 0.
type vector struct {
	num []*big.Int
	den *big.Int
}

// vertex is a vertex given by its basis, a list of constraints that are equations at the vertex. It
// solves equations with the basis matrix, whose rows are these constraints, exactly.
type vertex struct {
	p       *Program
	basis   []int
	inverse [][]uint64 // of the basis matrix, modulo prime; inverse[j][i] belongs to variable j and place i
	found   *vector    // the point, or nil if it is not computed yet
}

// newVertex returns the vertex of a basis, whose constraints may be at other places than in the
// argument. It inverts the basis matrix modulo the prime. It returns nil if the context has ended
// or if there is no inverse. Then the constraints are linearly dependent, or the prime divides a
// determinant, which has a probability of about 2⁻⁶¹.
//
// It starts with the constraints −x_j ≤ 0 and replaces those that are not in the basis, one by one.
func newVertex(p *Program, basis []int) *vertex {
	v := &vertex{p: p, basis: make([]int, p.vars), inverse: make([][]uint64, p.vars)}
	for j := range v.inverse {
		v.inverse[j] = make([]uint64, p.vars)
		v.inverse[j][j] = prime - 1 // −1
		v.basis[j] = j
	}
	stays := make([]bool, p.vars) // by place: the constraint there is in the basis
	for _, r := range basis {
		if r < p.vars {
			stays[r] = true
		}
	}
	for _, r := range basis {
		if r < p.vars {
			continue
		}
		if p.ended() {
			return nil
		}
		z := v.combine(r)
		// The new constraint takes any place where the matrix stays invertible.
		i := 0
		for i < len(z) && (stays[i] || z[i] == 0) {
			i++
		}
		if i == len(z) {
			return nil
		}
		v.replace(i, r, z)
		stays[i] = true
	}
	return v
}

// combine returns z with z·(basis matrix) = constraint r, modulo the prime.
func (v *vertex) combine(r int) []uint64 {
	z := make([]uint64, len(v.basis))
	c := &v.p.constraints[r]
	for t, j := range c.index {
		accumulate(z, v.inverse[j], residue(c.coef[t]))
	}
	return z
}

// replace puts constraint r, which is z·(basis matrix), into the basis at place i, and updates the
// inverse. z_i is not 0.
func (v *vertex) replace(i, r int, z []uint64) {
	inv := inverse(z[i])
	minus := make([]uint64, len(z)) // −z, without element i
	for k, zk := range z {
		if k != i && zk != 0 {
			minus[k] = prime - zk
		}
	}
	for _, row := range v.inverse {
		if row[i] != 0 {
			row[i] = mul(row[i], inv)
			accumulate(row, minus, row[i])
		}
	}
	v.basis[i] = r
}

// accumulate adds a multiple of row to sum, modulo the prime.
func accumulate(sum, row []uint64, multiple uint64) {
	for i, x := range row {
		if x != 0 {
			sum[i] = reduce(sum[i] + mul(x, multiple))
		}
	}
}

// reduce returns x modulo the prime, for x below twice the prime.
func reduce(x uint64) uint64 {
	if x >= prime {
		x -= prime
	}
	return x
}

// mul returns x·y modulo the prime. It replaces 2⁶¹ by the deficit, which is equal modulo the
// prime, until the number has 61 bits.
func mul(x, y uint64) uint64 {
	const low = 1<<61 - 1
	hi, lo := bits.Mul64(x, y)
	hi2, lo2 := bits.Mul64(hi<<3|lo>>61, deficit)
	sum := lo&low + lo2&low + (hi2<<3|lo2>>61)*deficit // < 2⁶³
	return reduce(sum&low + sum>>61*deficit)
}

// inverse returns 1/x modulo the prime. x is not 0.
func inverse(x uint64) uint64 {
	y := uint64(1)
	for e := uint64(prime - 2); e > 0; e >>= 1 { // Fermat: x^(prime−2)
		if e&1 == 1 {
			y = mul(y, x)
		}
		x = mul(x, x)
	}
	return y
}

// residue returns x modulo the prime, which is not negative.
func residue(x *big.Int) uint64 {
	return new(big.Int).Mod(x, big.NewInt(prime)).Uint64()
}

// point returns the vertex, which is x with a·x = b for all constraints of the basis.
func (v *vertex) point() vector {
	if v.found == nil {
		b := make([]*big.Int, len(v.basis))
		for i, r := range v.basis {
			b[i] = v.p.constraints[r].bound
		}
		x := v.solve(b, false)
		v.found = &x
	}
	return *v.found
}

// column returns column i of the inverse of the basis matrix: x with a·x = 1 for the constraint at
// place i and a·x = 0 for the others.
func (v *vertex) column(i int) vector {
	b := zeros(len(v.basis))
	b[i].SetInt64(1)
	return v.solve(b, false)
}

// multipliers returns y with y·(basis matrix) = c, the multiplier of each constraint of the basis.
func (v *vertex) multipliers(c []*big.Int) vector { return v.solve(c, true) }

// solve returns the solution of (basis matrix)·x = b, or of x·(basis matrix) = b if transposed, and
// verifies it. If the context ends, it returns zeros.
//
// It computes the digits of the solution to the base prime one by one, lowest first (Dixon's p-adic
// lifting). With the basis matrix A and its inverse C modulo the prime, the first digit is C·b. The
// other digits solve the equation for b − A·C·b, divided by the prime. Enough digits determine the
// fraction with a small numerator and denominator. There is an inverse, so there is one solution,
// and the search ends.
func (v *vertex) solve(b []*big.Int, transposed bool) vector {
	rest := zeros(len(b))
	for i := range b {
		rest[i].Set(b[i])
	}
	var digits [][]uint64
	for enough := 2; ; enough *= 2 {
		for len(digits) < enough {
			if v.p.ended() {
				return vector{zeros(len(b)), big.NewInt(1)}
			}
			digits = append(digits, v.digit(rest, transposed))
		}
		if x, ok := v.p.fractions(digits); ok && v.solved(x, b, transposed) {
			return x
		}
	}
}

// digit returns the lowest digit, to the base prime, of the solution for the right side rest. It
// replaces rest by the right side for the other digits.
func (v *vertex) digit(rest []*big.Int, transposed bool) []uint64 {
	small := make([]uint64, len(rest))
	for i, r := range rest {
		small[i] = residue(r)
	}
	digit := make([]uint64, len(rest))
	for j, row := range v.inverse {
		if transposed {
			if small[j] != 0 {
				accumulate(digit, row, small[j])
			}
		} else {
			digit[j] = dot(row, small)
		}
	}
	large := make([]*big.Int, len(digit))
	for i, d := range digit {
		large[i] = new(big.Int).SetUint64(d)
	}
	v.subtract(rest, large, transposed)
	for _, r := range rest {
		r.Quo(r, big.NewInt(prime)) // divides without a remainder
	}
	return digit
}

// dot returns Σ x_i·y_i modulo the prime.
func dot(x, y []uint64) uint64 {
	sum := uint64(0)
	for i, xi := range x {
		if xi != 0 && y[i] != 0 {
			sum = reduce(sum + mul(xi, y[i]))
		}
	}
	return sum
}

// subtract subtracts (basis matrix)·x from b, or x·(basis matrix) if transposed.
func (v *vertex) subtract(b, x []*big.Int, transposed bool) {
	product := new(big.Int)
	for i, r := range v.basis {
		c := &v.p.constraints[r]
		for t, j := range c.index {
			if transposed {
				b[j].Sub(b[j], product.Mul(c.coef[t], x[i]))
			} else {
				b[i].Sub(b[i], product.Mul(c.coef[t], x[j]))
			}
		}
	}
}

// solved returns true if x is exactly the solution that [vertex.solve] searches.
func (v *vertex) solved(x vector, b []*big.Int, transposed bool) bool {
	rest := make([]*big.Int, len(b))
	for i := range b {
		rest[i] = new(big.Int).Mul(b[i], x.den)
	}
	v.subtract(rest, x.num, transposed)
	for _, r := range rest {
		if r.Sign() != 0 {
			return false
		}
	}
	return true
}

// fractions returns the vector of rational numbers with the given digits to the base prime.
// digits[d][i] is digit d of element i, lowest first. The numerators and the common denominator
// must be so small that a coincidence is very unlikely. There is at most one such vector. fractions
// returns false if there is none, as for most digits, or if the context has ended.
func (p *Program) fractions(digits [][]uint64) (vector, bool) {
	modulus := new(big.Int).Exp(big.NewInt(prime), big.NewInt(int64(len(digits))), nil)
	limit := modulus.BitLen()/2 - 25 // product of numerator and denominator below modulus/2⁵⁰
	x := vector{zeros(len(digits[0])), big.NewInt(1)}
	for i, n := range x.num {
		if p.ended() {
			return x, false
		}
		for d := len(digits) - 1; d >= 0; d-- {
			n.Mul(n, big.NewInt(prime)).Add(n, new(big.Int).SetUint64(digits[d][i]))
		}
		// With the denominator of the earlier elements, most elements are already integers.
		balance(n.Mul(n, x.den), modulus)
		if n.BitLen() <= limit {
			continue
		}
		num, den := fraction(n, modulus, limit)
		for _, earlier := range x.num[:i] {
			earlier.Mul(earlier, den)
		}
		x.num[i] = num
		if x.den.Mul(x.den, den).BitLen() > limit {
			return x, false
		}
	}
	return x, true
}

// balance replaces x by the number nearest to 0 that is equal to x modulo the modulus.
func balance(x, modulus *big.Int) {
	x.Mod(x, modulus)
	if other := new(big.Int).Sub(x, modulus); other.CmpAbs(x) < 0 {
		x.Set(other)
	}
}

// fraction returns num of at most limit bits and den > 0 with num = x·den modulo the modulus. If
// there is such a den of few bits, it returns that one. It stops the extended Euclidean algorithm
// for the modulus and x at the first remainder of at most limit bits (rational reconstruction).
func fraction(x, modulus *big.Int, limit int) (num, den *big.Int) {
	a, b := new(big.Int).Set(modulus), new(big.Int).Mod(x, modulus)
	u, v := new(big.Int), big.NewInt(1)
	q, product := new(big.Int), new(big.Int)
	for b.BitLen() > limit {
		q.QuoRem(a, b, a)
		a, b = b, a
		u.Sub(u, product.Mul(q, v))
		u, v = v, u
	}
	if v.Sign() < 0 {
		return b.Neg(b), v.Neg(v)
	}
	return b, v
}

// zeros returns n integers that are 0.
func zeros(n int) []*big.Int {
	x := make([]*big.Int, n)
	for i := range x {
		x[i] = new(big.Int)
	}
	return x
}
