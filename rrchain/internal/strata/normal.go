package strata

import "math"

// This file has what the test of disagreement needs of linear algebra and of the χ² distribution.
// Package rrchain/estimate is part of what verifies documents in a browser, so it links no library
// for so little.

// matrix is a symmetric matrix, or the lower triangle of one.
type matrix [][]float64

func newMatrix(size int) matrix {
	m, all := make(matrix, size), make([]float64, size*size)
	for i := range m {
		m[i] = all[i*size:][:size]
	}
	return m
}

// factorize replaces the lower triangle by its Cholesky factor L, where the matrix is LLᵀ. It
// reports false if the matrix is not positive definite, or is too near to one that is not.
func (m matrix) factorize() bool {
	const least = 1e-14 // of a pivot, in proportion to the diagonal
	for j := range m {
		diagonal := m[j][j]
		for k := range j {
			m[j][j] -= m[j][k] * m[j][k]
		}
		if !(m[j][j] > least*diagonal) || math.IsInf(m[j][j], 1) {
			return false
		}
		m[j][j] = math.Sqrt(m[j][j])
		for i := j + 1; i < len(m); i++ {
			for k := range j {
				m[i][j] -= m[i][k] * m[j][k]
			}
			m[i][j] /= m[j][j]
		}
	}
	return true
}

// solve returns x with LLᵀx = b, for the factor L.
func (m matrix) solve(b []float64) []float64 {
	x := append([]float64(nil), b...)
	for i := range m {
		for k := range i {
			x[i] -= m[i][k] * x[k]
		}
		x[i] /= m[i][i]
	}
	for i := len(m) - 1; i >= 0; i-- {
		for k := i + 1; k < len(m); k++ {
			x[i] -= m[k][i] * x[k]
		}
		x[i] /= m[i][i]
	}
	return x
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// survival returns the probability that a number with the χ² distribution of so many degrees of
// freedom, at least 1, exceeds x: the regularized incomplete gamma function Q(degrees/2, x/2). Its
// error is below 1e-12 of the larger of Q and 1−Q. Below the mean it sums the series of 1−Q, above
// it evaluates the continued fraction of Q (Abramowitz and Stegun, 6.5.29, 6.5.31).
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
