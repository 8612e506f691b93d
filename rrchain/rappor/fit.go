package rappor

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// fit is the solution of a regression with its uncertainty.
type fit struct {
	shares, stdErr       []float64
	skewness             []float64 // of each estimate, 0 or above
	others, othersStdErr float64
	freedom              float64 // degrees of freedom of the residuals
	residuals
}

// fit solves the regression and finds the standard errors in two rounds: what each estimate takes from
// the noise, the parting into cohorts and the strings outside of the list; and how much the last is.
func (d *design) fit() fit {
	shares := d.solve()
	audit := newAudit(d, shares)
	coefficients, sum := make([]float64, d.candidates), make([]float64, d.candidates)
	errors := make([]parts, d.candidates)
	for j := range errors {
		for s := range coefficients {
			coefficients[s] = d.inverse.At(j, s)
		}
		floats.Sub(sum, coefficients)
		errors[j] = audit.candidate(j, coefficients)
	}
	others, _ := audit.estimate(sum, audit.others)

	f := fit{shares: shares, others: 1 - floats.Sum(shares), freedom: float64(d.independent() - d.candidates)}
	f.residuals = audit.residuals(f.freedom)
	f.othersStdErr = math.Sqrt(others.variance(f.shift))
	for _, p := range errors {
		stdErr := math.Sqrt(p.variance(f.shift))
		f.stdErr = append(f.stdErr, stdErr)
		f.skewness = append(f.skewness, max(f.third*p.cubes/(stdErr*stdErr*stdErr), 0))
	}
	return f
}

// parts are what the variance of an estimate is made of, and its third moment.
type parts struct {
	noise, sampling float64
	length          float64 // times the variance of a shift
	cubes           float64 // times the third moment of a count
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
	// Of the candidates examined so far:
	leverage []float64 // by cohort, the trace of what takes counts to fitted counts; they sum to the number of candidates
	trace    float64   // how much of the sampling variance of the counts the fit follows
}

func newAudit(d *design, shares []float64) *audit {
	a := &audit{design: d, fitted: d.combine(shares), leverage: make([]float64, len(d.clients))}
	a.shares, a.others = possible(shares)
	return a
}

// possible returns the shares with negative ones moved to 0 and, if their sum is above 1, all of them scaled
// down to it; and what is left for others. Variances of parting a population are then never negative.
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

// candidate examines the estimate of a candidate's share, and notes how the fit follows its filters.
func (a *audit) candidate(j int, coefficients []float64) parts {
	p, contributions := a.estimate(coefficients, a.shares[j])
	unit := make([]float64, a.candidates)
	unit[j] = 1
	filters, overlaps := a.combine(unit), make([]float64, a.candidates)
	for c := range a.clients {
		products := contributions[c*a.candidates : (c+1)*a.candidates]
		a.along(c, filters, overlaps)
		a.leverage[c] += products[j]
		for s, share := range a.shares {
			a.trace += share * products[s] * overlaps[s]
		}
		a.trace -= floats.Dot(a.shares, products) * floats.Dot(a.shares, overlaps)
	}
	return p
}

// estimate examines the estimate of a share, of which coefficients are the row of the inverse. It is a sum over
// the cohorts of v_cᵀ·counts with v_c = w_c·Σ coefficient·x. A client with string s in cohort c contributes
// v_cᵀx_cs/n_c, and the sum of these products over all cohorts is 1 for the string itself and 0 for other
// candidates. The products are returned cohort by cohort.
//
// For a population of n parted into cohorts of given sizes, a sum over the cohorts of means of numbers
// u_c(client) has the variance n/(n−1)·(Σ_c Var(u_c)/n_c − Var(Σ_c u_c)/n), Var being that in the population. For
// strings outside of the list the variances are those of random filters.
func (a *audit) estimate(coefficients []float64, share float64) (p parts, contributions []float64) {
	row := a.combine(coefficients)
	contributions = make([]float64, len(a.clients)*a.candidates)
	for c, n := range a.clients {
		v := a.row(row, c)
		floats.Scale(a.weight(c), v)
		length := floats.Dot(v, v)
		for _, x := range v {
			p.cubes += x * x * x
		}
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

// varianceOf returns the variance of numbers that belong to the candidates, and are 0 for other strings, in the
// population.
func (a *audit) varianceOf(numbers []float64) float64 {
	mean, square := 0.0, 0.0
	for s, x := range numbers {
		mean += a.shares[s] * x
		square += a.shares[s] * x * x
	}
	return square - mean*mean
}

// finite is n/(n−1), by which a finite population's variance is larger. One client cannot be parted.
func (a *audit) finite() float64 { return a.n / max(a.n-1, 1) }

// residuals are what the counts are beside the fitted ones.
type residuals struct {
	misfit float64 // the sum of their squares, over its expectation without common strings outside of the list
	shift  float64 // the variance of a shift of each bit that would explain an excess
	third  float64 // the mean third moment of a count
}

// residuals compares Σ n_c·|counts − fitted|² with its expectation.
func (a *audit) residuals(freedom float64) residuals {
	squares, cubes, scale := 0.0, 0.0, 0.0
	for c, n := range a.clients {
		fitted := a.row(a.fitted, c)
		for i, count := range a.row(a.counts, c) {
			left := count - fitted[i]
			squares += n * left * left
			cubes += left * left * left
		}
		scale += n * (float64(a.params.Bits-1) - a.leverage[c])
	}
	expected := a.expectation(freedom)
	all := float64(len(a.counts))
	kept := freedom / all // by the fit, of a count's error in its residual
	return residuals{squares / expected, max(squares-expected, 0) / scale, cubes / all / (kept * kept * kept)}
}

// expectation returns what Σ n_c·|counts − fitted|² is on average without common strings outside of the list. The
// expectation of eᵀW(1−H)e, for errors e with covariance S, weights W and the fit H, is the trace of W(1−H)S. The
// candidates' filters lie in the space that the fit follows, so parting their clients leaves nothing of the part of
// S that joins different cohorts.
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
