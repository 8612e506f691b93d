package estimate

import (
	"cmp"
	"math"
	"slices"
)

const (
	// enough is the least variance of a sum of gains, in squared steps, that the test takes for
	// nearly normal. For a count it is that of a binomial number with an expectation of 5.
	enough = 5
	// singular is the least singular value of a correlation matrix, in relation to its largest.
	singular = 1e-14
	// mostTested is how many values the test takes, the most common ones: it inverts matrices of
	// that size.
	mostTested = 32
)

// Disagreement tests whether all levels have the same shares, as they have on average if the level
// of an object is independent of its value. It returns the p-value of a χ² test, from 0 to 1: if it
// is small, levels differ by more than the noise explains, and [Options.Pool] is wrong. It returns
// 1 for one level, and where there are too few responses for a test. Values and levels with fewer
// than about five expected responses are not part of the test, nor are more than the 32 most common
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
// distribution with as many degrees of freedom, for each level but one, as there are values in the
// test. The shares add up to 1, so at least one value is left out, the rarest. Values and levels
// with too few responses for a normal approximation are left out as well.
func disagreement(parts []stratum) float64 {
	shares := simplex(combined(parts, weigh(parts, true)))
	levels, tested := testable(parts, shares)
	if len(levels) < 2 || len(tested) == 0 {
		return 1
	}
	n := len(tested)
	total, pull, square := newMatrix(n, n), make([]float64, n), 0.0
	for _, l := range levels {
		precision, ok := inverse(l.covariances(tested))
		if !ok {
			return 1
		}
		// From the pooled shares, so that nothing is lost where the estimates are nearly equal.
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

// simplex returns the shares nearest to estimated ones: not negative, and adding up to 1. They are
// the estimates less a number, or 0 where that is negative. Most of what is above zero by noise
// alone then disappears.
func simplex(estimates []float64) []float64 {
	falling, sum, less := slices.Clone(estimates), 0.0, 0.0
	slices.SortFunc(falling, func(a, b float64) int { return cmp.Compare(b, a) })
	for i, e := range falling {
		sum += e
		if next := (sum - 1) / float64(i+1); e > next {
			less = next
		}
	}
	shares, total := make([]float64, len(estimates)), 0.0
	for v, e := range estimates {
		shares[v] = max(e-less, 0)
		total += shares[v]
	}
	for v := range shares {
		if shares[v] /= total; total == 0 { // all are so far below zero that taking off 1 changes nothing
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

// hasEnough reports whether a sum of gains, whose variance for one response is given, is nearly
// normal.
func (l level) hasEnough(variance float64, v int) bool {
	return l.objects()*variance >= enough*l.step(v)*l.step(v)
}

// testable returns the levels that have enough responses for some value, and the values that have
// enough at all of these, by falling share. The rest of the values together have enough, too.
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
	if n := len(tested); n > 0 &&
		slices.ContainsFunc(levels, func(l level) bool { return !l.hasEnough(l.together(tested), tested[n-1]) }) {
		tested = tested[:n-1]
	}
	return levels, tested
}

// together returns the variance of the sum of the gains for some values, which is that of all
// others together.
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

// inverse returns the inverse of a positive definite matrix, which it replaces. The rows are scaled
// to a diagonal of ones: a mechanism may estimate one share far better than another.
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
	rescale(inverted)
	return inverted, ok
}
