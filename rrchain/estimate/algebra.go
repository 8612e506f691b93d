package estimate

import (
	"cmp"
	"math"
	"slices"
)

// This file implements the linear algebra and the χ² distribution that estimates need. The package
// is part of every ledger, so it does not depend on a numerical library.

// newMatrix returns a matrix of zeros, by row, then column.
func newMatrix(rows, columns int) [][]float64 {
	m, all := make([][]float64, rows), make([]float64, rows*columns)
	for i := range m {
		m[i] = all[i*columns:][:columns]
	}
	return m
}

// dot returns Σ a_i·b_i.
func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// pseudoInverse returns the pseudo-inverse of a matrix that is given by its columns. The result is
// by column, then row, of the given matrix. The matrix must have the given rank: that many singular
// values must be above faint times the largest one. The others count as 0. ok is false if the rank
// is too small. pseudoInverse overwrites the columns.
//
// It rotates pairs of columns until all are orthogonal; their lengths are then the singular values
// (one-sided Jacobi; J. Demmel and K. Veselić, "Jacobi's Method is More Accurate than QR", 1992).
func pseudoInverse(columns [][]float64, rank int, faint float64) (inverse [][]float64, ok bool) {
	const sweeps = 60                  // the most rounds over all pairs of columns; a few are enough
	rows, most := len(columns[0]), 0.0 // most: the largest absolute value of an element
	if rank > min(rows, len(columns)) {
		return nil, false
	}
	for _, column := range columns {
		most = max(most, slices.Max(column), -slices.Min(column))
	}
	// The columns are scaled, because squares of small numbers may underflow. The identity is
	// appended below them and is rotated with them.
	for j, column := range columns {
		for i := range column {
			column[i] /= most
		}
		columns[j] = slices.Concat(column, make([]float64, len(columns)))
		columns[j][rows+j] = 1
	}
	for again, n := true, 0; again && n < sweeps; n++ {
		again = false
		for j := range columns {
			for i := range j {
				again = orthogonalize(columns[i], columns[j], rows) || again // again: a pair was rotated in this round
			}
		}
	}
	// After the rotations, square returns the square of a singular value.
	square := func(column []float64) float64 { return dot(column[:rows], column[:rows]) }
	slices.SortFunc(columns, func(a, b []float64) int { return cmp.Compare(square(b), square(a)) })
	if !(square(columns[rank-1]) > faint*faint*square(columns[0])) {
		return nil, false
	}
	inverse = newMatrix(len(columns), rows)
	for _, column := range columns[:rank] {
		scale := 1 / square(column) / most
		for j, turned := range column[rows:] { // the part that began as the identity
			for i, x := range column[:rows] {
				inverse[j][i] += turned * x * scale
			}
		}
	}
	return inverse, true
}

// orthogonalize rotates two columns so that their first `rows` elements are orthogonal, and the
// other elements by the same angle. It returns false, and changes nothing, if they were already
// orthogonal up to rounding.
func orthogonalize(a, b []float64, rows int) bool {
	square1, square2, product := dot(a[:rows], a[:rows]), dot(b[:rows], b[:rows]), dot(a[:rows], b[:rows])
	// The comparison is negated so that NaN also ends the rounds.
	if !(math.Abs(product) > 1e-15*math.Sqrt(square1*square2)) {
		return false
	}
	cotangent := (square2 - square1) / (2 * product) // of twice the angle
	tangent := math.Copysign(1/(math.Abs(cotangent)+math.Hypot(1, cotangent)), cotangent)
	cosine := 1 / math.Hypot(1, tangent)
	for i := range a {
		a[i], b[i] = cosine*(a[i]-tangent*b[i]), cosine*(b[i]+tangent*a[i])
	}
	return true
}

// survival returns the probability that a χ² variable with the given degrees of freedom, at least
// 1, exceeds x. It is 1 for x ≤ 0. This is the regularized incomplete gamma function Q(degrees/2,
// x/2). The error is below 1e-12 of the larger of Q and 1−Q. Below the mean it sums the series of
// 1−Q. Above the mean it evaluates the continued fraction of Q (Abramowitz and Stegun, 6.5.29,
// 6.5.31).
func survival(degrees, x float64) float64 {
	a := degrees / 2
	x /= 2
	switch {
	case !(x > 0):
		return 1
	case math.IsInf(x, 1):
		return 0
	}
	gamma, _ := math.Lgamma(a)
	scale := math.Exp(a*math.Log(x) - x - gamma)
	const tiny, steps = 1e-16, 1 << 20
	if x < a+1 {
		sum, term := 1/a, 1/a
		for n := 1.0; n < steps && term > tiny*sum; n++ {
			term *= x / (a + n)
			sum += term
		}
		return math.Max(1-scale*sum, 0)
	}
	const least = 1e-300 // in place of 0 (Lentz's method)
	// Lentz's method evaluates the fraction from its start. c and d are ratios of successive
	// numerators and denominators.
	b := x + 1 - a
	c, d := 1/least, 1/b
	fraction := d
	for n := 1.0; n < steps; n++ {
		coefficient := n * (a - n)
		b += 2
		if d = coefficient*d + b; math.Abs(d) < least {
			d = least
		}
		if c = b + coefficient/c; math.Abs(c) < least {
			c = least
		}
		d = 1 / d
		fraction *= c * d
		if math.Abs(c*d-1) < tiny {
			break
		}
	}
	return scale * fraction
}
