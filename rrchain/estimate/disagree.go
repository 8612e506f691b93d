package estimate

import (
	"cmp"
	"math"
	"slices"
)

const (
	// enough is the smallest variance of a sum of gains, in squared steps, for which the test
	// treats the sum as normal. For a count, it corresponds to a binomial number with an
	// expectation of 5.
	enough = 5
	// singular is the smallest allowed ratio of a singular value of a correlation matrix to the
	// largest.
	singular = 1e-14
	// mostTested limits the number of values in the test to the most common ones, because the test
	// inverts matrices of this size.
	mostTested = 32
)

// Disagreement tests whether all levels have the same shares. On average they do, if the level of
// an object is independent of its value. It returns the p-value of a χ² test, from 0 to 1. A small
// p-value means that levels differ by more than the noise explains, and that [Options.Pool] is
// wrong.
//
// It returns 1 for one level, and if there are too few responses for a test. The test leaves out
// values and levels with fewer than about five expected responses, and all but the 32 most common
// values. Errors are those of [Frequencies].
func Disagreement(levels ...Counts) (float64, error) {
	parts, err := strata(levels)
	if err != nil {
		return 0, err
	}
	return disagreement(parts), nil
}

// disagreement returns the p-value, or 1 if there are too few levels or responses for a test.
//
// The statistic is the squared distance of the levels' estimates from their best common value,
// measured by their covariances at the pooled shares. Under the hypothesis it has the χ²
// distribution. Its degrees of freedom are the number of values in the test, for each level but
// one. The shares sum to 1, so at least one value is left out, the rarest one. Values and levels
// with too few responses for a normal approximation are left out too.
func disagreement(parts []stratum) float64 {
	shares := simplex(combined(parts, weigh(parts, true)))
	levels, tested := testable(parts, shares)
	if len(levels) < 2 || len(tested) == 0 {
		return 1
	}
	n := len(tested)
	// Over the levels, with precision P, these are the sums of P, of P·away and of away·P·away.
	total, pull, square := newMatrix(n, n), make([]float64, n), 0.0
	for _, l := range levels {
		precision, ok := inverse(l.covariances(tested)) // the inverse of the covariances
		if !ok {
			return 1
		}
		// Differences from the pooled shares lose no digits where the estimates are nearly equal.
		away := make([]float64, n)
		for i, v := range tested {
			away[i] = l.share(v) - shares[v]
		}
		for i, row := range precision {
			pulled := dot(row, away)
			square += pulled * away[i]
			pull[i] += pulled
			for j, p := range row {
				total[i][j] += p
			}
		}
	}
	common, ok := inverse(total)
	if !ok {
		return 1
	}
	for i, row := range common {
		square -= pull[i] * dot(row, pull)
	}
	return survival(float64(n*(len(levels)-1)), max(square, 0))
}

// simplex returns the shares that are nearest to the estimates, not negative, and sum to 1 (the
// projection onto the simplex). Each is its estimate minus a common number, or 0 if that is
// negative. Most estimates that are above zero only because of noise then become 0.
func simplex(estimates []float64) []float64 {
	falling, sum, less := slices.Clone(estimates), 0.0, 0.0 // less: the common number that is subtracted
	slices.SortFunc(falling, func(a, b float64) int { return cmp.Compare(b, a) })
	for i, e := range falling {
		sum += e
		if next := (sum - 1) / float64(i+1); e > next { // the common number if the i+1 largest estimates stay above 0
			less = next
		}
	}
	shares, total := make([]float64, len(estimates)), 0.0
	for v, e := range estimates {
		shares[v] = max(e-less, 0)
		total += shares[v]
	}
	for v := range shares {
		if shares[v] /= total; total == 0 { // all are so far below zero that subtracting 1 changes nothing
			shares[v] = 1 / float64(len(shares))
		}
	}
	return shares
}

// level is a stratum with the covariance of its gains.
type level struct {
	stratum
	pair func(u, v int) float64 // the covariance of two gains
}

// hasEnough returns true if a sum of gains for value v, one from each response of the level, is
// nearly normal. variance is the variance of the gain of one response.
func (l level) hasEnough(variance float64, v int) bool {
	return l.objects()*variance >= enough*l.step(v)*l.step(v)
}

// testable returns the levels that have enough responses for some value. It also returns the values
// that have enough responses at all of these levels, by falling share, without the rarest one if
// these are all values. It limits them to mostTested values. The remaining values together have
// enough responses too.
func testable(parts []stratum, shares []float64) (levels []level, tested []int) {
	for _, part := range parts {
		l := level{part, part.covariance(shares)}
		for v := range shares {
			if l.hasEnough(l.pair(v, v), v) {
				levels = append(levels, l)
				break
			}
		}
	}
	for v := range shares {
		if !slices.ContainsFunc(levels, func(l level) bool { return !l.hasEnough(l.pair(v, v), v) }) {
			tested = append(tested, v)
		}
	}
	slices.SortStableFunc(tested, func(u, v int) int { return cmp.Compare(shares[v], shares[u]) })
	tested = tested[:min(len(tested), mostTested, len(shares)-1)]
	// Without the rarest tested value, the remaining values have enough responses together with it.
	if n := len(tested); n > 0 &&
		slices.ContainsFunc(levels, func(l level) bool { return !l.hasEnough(l.together(tested), tested[n-1]) }) {
		tested = tested[:n-1]
	}
	return levels, tested
}

// together returns the variance of the sum of the gains for some values. It equals the variance for
// all other values together.
func (l level) together(values []int) float64 {
	sum := 0.0
	for _, u := range values {
		for _, v := range values {
			sum += l.pair(u, v)
		}
	}
	return sum
}

// covariances returns the covariances of a level's estimates for some values.
func (l level) covariances(values []int) [][]float64 {
	m := newMatrix(len(values), len(values))
	for i, u := range values {
		for j, v := range values {
			m[i][j] = l.pair(u, v) / l.objects()
		}
	}
	return m
}

// inverse returns the inverse of a positive definite matrix and overwrites the matrix. It returns
// false if the matrix is nearly singular. It scales rows and columns so that the diagonal is 1,
// because a mechanism may estimate one share far better than another.
func inverse(m [][]float64) ([][]float64, bool) {
	scales := make([]float64, len(m))
	for i := range m {
		scales[i] = math.Sqrt(m[i][i])
	}
	rescale := func(m [][]float64) {
		for i, row := range m {
			for j := range row {
				row[j] /= scales[i] * scales[j]
			}
		}
	}
	rescale(m)
	inverted, ok := pseudoInverse(m, len(m), singular)
	rescale(inverted) // the inverse of the scaled matrix has the inverse scale
	return inverted, ok
}
