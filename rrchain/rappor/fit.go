package rappor

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// fit is the solution of a regression with its uncertainty.
type fit struct {
	candidates []verdict
	others     verdict
	residuals
}

// verdict is what is said of a candidate.
type verdict struct {
	share, stdErr float64
	low, high     float64
	p             float64 // of "no client has it", of a candidate
}

// fit solves the regression, judges each candidate, and finds the standard errors in two rounds:
// what each estimate takes from the noise, the parting into cohorts and the strings outside of the
// list; and how much the last is.
func (d *design) fit(confidence float64) fit {
	shares := d.solve()
	audit := newAudit(d, shares)
	coefficients, sum := make([]float64, d.candidates), make([]float64, d.candidates)
	verdicts, errors := make([]verdict, d.candidates), make([]parts, d.candidates)
	for j, share := range shares {
		for s := range coefficients {
			coefficients[s] = d.inverse.At(j, s)
		}
		floats.Sub(sum, coefficients)
		tests := &hypotheses{params: d.params, estimate: share, influence: d.combine(coefficients)}
		errors[j], tests.parting = audit.candidate(j, tests.influence)
		tests.ones, tests.leftover = d.allSet(j), audit.leftover(d.inverse.At(j, j))
		verdicts[j] = verdict{share: share, p: tests.tail(0, false, 1e-15)}
		verdicts[j].low, verdicts[j].high = tests.interval(confidence)
	}
	f := fit{candidates: verdicts, residuals: audit.residuals(float64(d.independent() - d.candidates))}
	for j, p := range errors {
		verdicts[j].stdErr = math.Sqrt(p.variance(f.shift))
	}
	f.others = audit.judgeOthers(d.combine(sum), 1-floats.Sum(shares), f.shift, confidence)
	return f
}

// judgeOthers judges the share of strings outside of the list. With few cohorts, the fit follows
// even a common one of them: where it shares a bit with a candidate in one of C cohorts or in all,
// with another candidate in each, the squared residuals lack 1/C² or 1/C of what it adds. So the
// shift that they show may have to be so much larger.
func (a *audit) judgeOthers(row []float64, share, shift, confidence float64) verdict {
	p, _ := a.estimate(row, a.others)
	concentration := 0.0 // 1/C
	for c := range a.clients {
		concentration += a.weight(c) * a.weight(c)
	}
	tests := &unlisted{a.params, share, row, math.Inf(1), p.variance(0)}
	if concentration < 1 {
		tests.squares = shift / a.spread() / (1 - concentration)
	}
	v := verdict{share: share, stdErr: math.Sqrt(p.variance(shift))}
	v.low, v.high = interval(confidence, share, v.stdErr, tests.tail)
	return v
}

// parts are what the variance of an estimate is made of.
type parts struct {
	noise, sampling float64
	length          float64 // times the variance of a shift
}

func (p parts) variance(shift float64) float64 {
	return p.noise + max(p.sampling, 0) + shift*p.length
}

// audit computes variances.
type audit struct {
	*design
	shares []float64 // as estimated, moved to where shares can be
	others float64   // the share of strings outside of the list
	fitted []float64 // Σ share·x, with the shares as estimated
	// Of the candidates examined so far: By cohort, the trace of what takes counts to fitted
	// counts; they sum to the number of candidates.
	leverage []float64
	trace    float64 // how much of the sampling variance of the counts the fit follows
}

func newAudit(d *design, shares []float64) *audit {
	a := &audit{design: d, fitted: d.combine(shares), leverage: make([]float64, len(d.clients))}
	a.shares, a.others = possible(shares)
	return a
}

// possible returns the shares with negative ones moved to 0 and, if their sum is above 1, all of
// them scaled down to it; and what is left for others. Variances of parting a population are then
// never negative.
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

// candidate examines the estimate of a candidate's share, and notes how the fit follows its
// filters. own is the variance from parting the clients who have the candidate, over
// share·(1−share).
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

// estimate examines the estimate of a share, of which row is Σ coefficient·x, with coefficients
// that are a row of the inverse. It is replaced: it is a sum over the cohorts of v_cᵀ·counts with
// v_c = w_c·row, and becomes v. A client with string s in cohort c contributes v_cᵀx_cs/n_c, and
// the sum of these products over all cohorts is 1 for the string itself and 0 for other candidates.
// The products are returned cohort by cohort.
//
// For a population of n parted into cohorts of given sizes, a sum over the cohorts of means of
// numbers u_c(client) has the variance n/(n−1)·(Σ_c Var(u_c)/n_c − Var(Σ_c u_c)/n), Var being that
// in the population. For strings outside of the list the variances are those of random filters.
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

// leftover returns what the fit leaves of the counts, weighted by cohort and scaled.
func (a *audit) leftover(scale float64) []float64 {
	left := make([]float64, len(a.counts))
	for c := range a.clients {
		row := a.row(left, c)
		floats.SubTo(row, a.row(a.counts, c), a.row(a.fitted, c))
		floats.Scale(scale*a.weight(c), row)
	}
	return left
}

// varianceOf returns the variance of numbers that belong to the candidates, and are 0 for other
// strings, in the population.
func (a *audit) varianceOf(numbers []float64) float64 {
	mean, square := 0.0, 0.0
	for s, x := range numbers {
		mean += a.shares[s] * x
		square += a.shares[s] * x * x
	}
	return square - mean*mean
}

// finite is n/(n−1), by which a finite population's variance is larger. One client cannot be
// parted.
func (a *audit) finite() float64 { return a.n / max(a.n-1, 1) }

// residuals are what the counts are beside the fitted ones.
type residuals struct {
	misfit float64 // the sum of their squares, over its expectation without common strings outside of the list
	shift  float64 // the variance of a shift of each bit that would explain an excess
}

// residuals compares Σ n_c·|counts − fitted|² with its expectation.
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

// expectation returns what Σ n_c·|counts − fitted|² is on average without common strings outside of
// the list. The expectation of eᵀW(1−H)e, for errors e with covariance S, weights W and the fit H,
// is the trace of W(1−H)S. The candidates' filters lie in the space that the fit follows, so
// parting their clients leaves nothing of the part of S that joins different cohorts.
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
