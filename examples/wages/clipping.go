package main

import (
	"cmp"
	"math"
	"slices"
)

// wages is a distribution of wages: the real one, or what is believed about it.
type wages interface {
	// clipped returns the mean of the wages, and of their squares, when those above a bound count as the
	// bound.
	clipped(bound float64) (mean, square float64)
}

// list is wages one by one, in dollars a week.
type list []float64

func (l list) clipped(bound float64) (mean, square float64) {
	for _, wage := range l {
		x := min(wage, bound)
		mean += x
		square += x * x
	}
	n := float64(len(l))
	return mean / n, square / n
}

// above returns the share of the wages above a bound.
func (l list) above(bound float64) float64 {
	n := 0
	for _, wage := range l {
		if wage > bound {
			n++
		}
	}
	return float64(n) / float64(len(l))
}

// unclipped is a bound that no wage reaches.
const unclipped = 1e9

// cut returns what a bound cuts off the mean.
func cut(w wages, bound float64) float64 {
	whole, _ := w.clipped(unclipped)
	mean, _ := w.clipped(bound)
	return whole - mean
}

// noise returns the standard error of the mean of n wages x that are rounded to 0 or to a bound b, and
// answered for at ε. With E = e^ε its square is
//
//	(b²·E/(E−1)² + mean of x(b−x)) / n:
//
// the first term is that of randomized response, and the second that of rounding.
func noise(w wages, n int, bound, epsilon float64) float64 {
	mean, square := w.clipped(bound)
	e := math.Exp(epsilon)
	return math.Sqrt((bound*bound*e/((e-1)*(e-1)) + bound*mean - square) / float64(n))
}

// totalError returns the root mean squared error of the estimate of the mean of all n wages: what is cut
// off and the noise together.
func totalError(w wages, n int, bound, epsilon float64) float64 {
	return math.Hypot(cut(w, bound), noise(w, n, bound, epsilon))
}

// best returns the bound with the smallest total error.
func best(w wages, n int, bounds []float64, epsilon float64) float64 {
	return slices.MinFunc(bounds, func(a, b float64) int {
		return cmp.Compare(totalError(w, n, a, epsilon), totalError(w, n, b, epsilon))
	})
}
