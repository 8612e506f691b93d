package rappor

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// fit is the solution of a regression with its uncertainty: the results by candidate, and the
// result for the share of all strings outside of the list.
type fit struct {
	candidates []result
	others     result
	residuals
}

// result is the result for one candidate, or for all strings outside of the list.
type result struct {
	share, stdErr float64 // the estimate and its standard error
	low, high     float64 // the ends of the interval
	p             float64 // the p-value of "no client has this candidate"
}

// fit solves the regression and computes the result for each candidate. It finds the standard
// errors in two rounds. The first computes three contributions to each estimate: the noise, the
// assignment to cohorts, and strings outside of the list. The last one depends on the size of a
// shift that these strings cause. The second round computes this size from the residuals.
func (d *design) fit(confidence float64) fit {
	shares := d.solve()
	audit := newAudit(d, shares)
	// These are one row of the inverse, and the sum of all rows, negated.
	coefficients, sum := make([]float64, d.candidates), make([]float64, d.candidates)
	results, errors := make([]result, d.candidates), make([]parts, d.candidates)
	for j, share := range shares {
		for s := range coefficients {
			coefficients[s] = d.inverse.At(j, s)
		}
		floats.Sub(sum, coefficients)
		tests := &hypotheses{params: d.params, estimate: share, influence: d.combine(coefficients)}
		errors[j], tests.assignment = audit.candidate(j, tests.influence)
		tests.ones, tests.leftover = d.allSet(j), audit.leftover(d.inverse.At(j, j))
		// The p-value is the tail for the share 0, up to 1e-15.
		results[j] = result{share: share, p: tests.tail(0, false, 1e-15)}
		results[j].low, results[j].high = tests.interval(confidence)
	}
	f := fit{candidates: results, residuals: audit.residuals(float64(d.independent() - d.candidates))}
	for j, p := range errors {
		results[j].stdErr = math.Sqrt(p.variance(f.shift)) // also in f, which has the same slice
	}
	// The others have 1 − Σ shares, hence the negated sum of the rows.
	f.others = audit.fitOthers(d.combine(sum), 1-floats.Sum(shares), f.shift, confidence)
	return f
}

// fitOthers computes the result for the share of strings outside of the list. row is Σ
// coefficient·x of this estimate. shift is the observed [residuals] shift.
//
// With few cohorts, the fit absorbs even a common one of these strings. Suppose that it shares a
// bit with a candidate in one of C cohorts, or with another candidate in each cohort. Then the
// squared residuals lack 1/C² or 1/C of what it adds. So fitOthers divides the observed shift by 1
// − 1/C.
func (a *audit) fitOthers(row []float64, share, shift, confidence float64) result {
	p, _ := a.estimate(row, a.others)
	concentration := 0.0 // 1/C
	for c := range a.clients {
		concentration += a.weight(c) * a.weight(c)
	}
	tests := &unlisted{a.params, share, row, math.Inf(1), p.variance(0)} // with one cohort, nothing bounds the squares
	if concentration < 1 {
		tests.squares = shift / a.spread() / (1 - concentration)
	}
	v := result{share: share, stdErr: math.Sqrt(p.variance(shift))}
	v.low, v.high = interval(confidence, share, v.stdErr, tests.tail)
	return v
}

// parts are the parts of the variance of an estimate: the noise of the reports, the sampling of the
// clients by assigning them to cohorts, and strings outside of the list.
type parts struct {
	noise, sampling float64
	length          float64 // the last part, divided by the variance of a shift of each bit ([residuals])
}

// variance returns the variance of the estimate if each bit of a cohort has a shift of this
// variance. Rounding may make sampling negative.
func (p parts) variance(shift float64) float64 {
	return p.noise + max(p.sampling, 0) + shift*p.length
}

// audit computes the variances of the estimates of a design.
type audit struct {
	*design
	shares []float64 // the estimates, moved to the nearest possible shares
	others float64   // the share of strings outside of the list
	fitted []float64 // Σ share·x, with the shares as estimated
	// These fields sum over the candidates examined so far. leverage is, by cohort, the trace of
	// the map from counts to fitted counts; its elements sum to the number of candidates.
	leverage []float64
	trace    float64 // the part of the sampling variance of the counts that the fit absorbs
}

// newAudit returns an audit of the estimates, with no candidate examined yet.
func newAudit(d *design, shares []float64) *audit {
	a := &audit{design: d, fitted: d.combine(shares), leverage: make([]float64, len(d.clients))}
	a.shares, a.others = possible(shares)
	return a
}

// possible moves estimates to possible shares: it replaces negative ones by 0 and, if their sum is
// above 1, scales all of them so that the sum is 1. It also returns the remaining share, that of
// other strings. Variances of the assignment of a population to cohorts are then never negative.
func possible(shares []float64) (moved []float64, others float64) {
	moved, sum := make([]float64, len(shares)), 0.0
	for s, share := range shares {
		moved[s] = max(share, 0)
		sum += moved[s]
	}
	for s := range moved {
		moved[s] /= max(sum, 1)
	}
	return moved, max(1-sum, 0)
}

// candidate returns the parts of the variance of candidate j's estimate, and adds the candidate's
// leverage and trace to the audit. row is as for [audit.estimate]. own is the variance from
// assigning the clients of the candidate to cohorts, divided by share·(1−share).
func (a *audit) candidate(j int, row []float64) (p parts, own float64) {
	p, contributions := a.estimate(row, a.shares[j])
	unit := make([]float64, a.candidates)
	unit[j] = 1
	filters, overlaps := a.combine(unit), make([]float64, a.candidates)
	for c, n := range a.clients {
		products := contributions[c*a.candidates : (c+1)*a.candidates]
		a.along(c, filters, overlaps)
		a.leverage[c] += products[j]
		own += products[j] * products[j] / n
		for s, share := range a.shares {
			a.trace += share * products[s] * overlaps[s]
		}
		a.trace -= floats.Dot(a.shares, products) * floats.Dot(a.shares, overlaps)
	}
	return p, max(own-1/a.n, 0) * a.finite()
}

// estimate returns the parts of the variance of the estimate of a share. row is Σ coefficient·x,
// where the coefficients are a row of the inverse. The estimate is a sum over the cohorts of
// v_cᵀ·counts with v_c = w_c·row, and estimate overwrites row with v. A client with string s in
// cohort c contributes v_cᵀx_cs/n_c. The sum of the products v_cᵀx_cs over all cohorts is 1 for the
// string itself and 0 for other candidates. The products are returned as contributions, cohort by
// cohort and then by candidate.
//
// Consider a population of n, divided into cohorts of given sizes, and a sum over the cohorts of
// means of numbers u_c(client). Its variance is n/(n−1)·(Σ_c Var(u_c)/n_c − Var(Σ_c u_c)/n), where
// Var is the variance in the population. For strings outside of the list, the variances are those
// of random filters.
func (a *audit) estimate(row []float64, share float64) (p parts, contributions []float64) {
	contributions = make([]float64, len(a.clients)*a.candidates)
	for c, n := range a.clients {
		v := a.row(row, c)
		floats.Scale(a.weight(c), v)
		length := floats.Dot(v, v)
		products := contributions[c*a.candidates : (c+1)*a.candidates]
		a.along(c, row, products)
		p.noise += a.variance * length / n
		p.length += length
		p.sampling += (a.varianceOf(products) + a.others*a.spread()*length) / n
	}
	p.sampling -= (share*(1-share) + a.others*a.spread()*p.length) / a.n
	p.sampling *= a.finite()
	return p, contributions
}

// leftover returns counts − fitted, the part of the counts that the fit does not explain. Each
// element is multiplied by scale and by the weight of its cohort.
func (a *audit) leftover(scale float64) []float64 {
	left := make([]float64, len(a.counts))
	for c := range a.clients {
		row := a.row(left, c)
		floats.SubTo(row, a.row(a.counts, c), a.row(a.fitted, c))
		floats.Scale(scale*a.weight(c), row)
	}
	return left
}

// varianceOf returns the variance in the population of a number that is given for each candidate,
// and is 0 for other strings.
func (a *audit) varianceOf(numbers []float64) float64 {
	mean, square := 0.0, 0.0
	for s, x := range numbers {
		mean += a.shares[s] * x
		square += a.shares[s] * x * x
	}
	return square - mean*mean
}

// finite returns n/(n−1), the factor of the variance for a finite population. For one client it
// returns 1, because one client cannot be divided.
func (a *audit) finite() float64 { return a.n / max(a.n-1, 1) }

// residuals are the differences between the counts and the fitted counts.
type residuals struct {
	misfit float64 // the sum of their squares, divided by its expectation without common unlisted strings
	shift  float64 // the variance of a shift of each bit that would explain an excess
}

// residuals compares Σ n_c·|counts − fitted|² with its expectation. freedom is the number of
// independent counts minus the number of candidates. All candidates must have been examined.
func (a *audit) residuals(freedom float64) residuals {
	squares, scale := 0.0, 0.0
	for c, n := range a.clients {
		fitted := a.row(a.fitted, c)
		for i, count := range a.row(a.counts, c) {
			left := count - fitted[i]
			squares += n * left * left
		}
		scale += n * (float64(a.params.Bits-1) - a.leverage[c])
	}
	expected := a.expectation(freedom)
	return residuals{squares / expected, max(squares-expected, 0) / scale}
}

// expectation returns the expectation of Σ n_c·|counts − fitted|² if no string outside of the list
// is common. freedom is as for [audit.residuals]. The expectation of eᵀW(1−H)e is the trace of
// W(1−H)S, for errors e with covariance S, weights W and the fit H. The candidates' filters are in
// the space that the fit absorbs. So the part of S that joins different cohorts, which comes from
// assigning their clients to cohorts, contributes nothing.
func (a *audit) expectation(freedom float64) float64 {
	unlisted := a.others * a.spread()
	sampling := float64(len(a.clients))*a.length() - a.trace - unlisted*float64(a.candidates+a.params.Bits-1)
	mean := a.combine(a.shares)
	for c := range a.clients {
		for _, x := range a.row(mean, c) {
			sampling -= x * x
		}
		sampling += unlisted * a.weight(c) * a.leverage[c]
	}
	return a.variance*freedom + max(a.finite()*sampling, 0)
}
