package rappor

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// Share is the estimated share of one candidate string among the clients of a tally.
type Share struct {
	String string // as in the list of candidates
	estimate.Frequency
	// P is the one-sided p-value of the hypothesis "no client has this string", after Holm's
	// correction for all candidates. It is the probability, over the hash, that a string of no
	// client would appear at least as common.
	P float64
	// Significant is true if P is at most 1 − confidence. The probability that it is true for any
	// candidate that no client has is at most 1 − confidence, for all candidates together and for
	// any strings of the clients. P cannot be below C(k,h)^−cohorts, so with few and short filters
	// no candidate is significant.
	Significant bool
}

// Decoding is the result of decoding a tally for a list of candidates.
type Decoding struct {
	Shares []Share            // by falling estimate; equal estimates in the order of the candidates
	Others estimate.Frequency // the share of clients with none of the candidates
	// Misfit is the sum of squared residuals, divided by its expectation if no string outside of
	// the list is common. It is about 1 if the list contains all common strings. If it is far above
	// 1, some common strings are missing, or the parameters are not those of the clients. In the
	// first case the intervals are wider and still valid.
	Misfit float64
}

// UndecodableError means that a tally's counts cannot distinguish the candidates. It wraps
// [privacy.ErrInvalid].
type UndecodableError struct {
	Candidates int      // the number of candidates
	Counts     int      // the number of independent counts
	Alike      []string // two candidates with the same filter in every cohort that has clients, if there are any
}

// Error describes the problem and what would solve it.
func (e *UndecodableError) Error() string {
	switch {
	case len(e.Alike) > 0:
		return fmt.Sprintf("candidates %q and %q have the same filter in every cohort: "+
			"leave one out, or collect with more cohorts or bits", e.Alike[0], e.Alike[1])
	case e.Candidates >= e.Counts:
		return fmt.Sprintf("%d counts cannot distinguish %d candidates: "+
			"give fewer candidates, or collect with more cohorts or bits", e.Counts, e.Candidates)
	}
	return fmt.Sprintf("the filters of the %d candidates are linearly dependent, or nearly so: "+
		"give fewer candidates, or collect with more cohorts or bits", e.Candidates)
}

// Unwrap returns [privacy.ErrInvalid].
func (e *UndecodableError) Unwrap() error { return privacy.ErrInvalid }

// Decode estimates the share of clients that have each of the candidate strings, with intervals of
// a nominal coverage such as 0.95.
//
// Let x be the filter of a string in a cohort, minus its mean h/k. Every filter has h bits set, so
// strings outside of the list add h/k on average over the hash. Take the unbiased bit counts of the
// cohort, divided by its number of clients n_c, minus h/k. Their expectation is Σ share·x. The
// estimates are the least-squares solution over all cohorts and bits with weights n_c. The weights
// do not depend on the reports. So the estimates are exactly unbiased for these clients, over the
// draws of cohorts and reports, if the list is complete. Otherwise they are unbiased over the hash
// too. (The original method selects candidates by lasso, and fits the selected ones to the same
// data. Non-negative least squares would bias every rare string upwards. After either, the usual
// intervals and p-values are not valid.)
//
// The standard error has three parts. The first is the noise of the reports, which is exact. The
// second is the random assignment of the clients to cohorts, which is a sample without replacement
// in each cohort; it uses the estimates in place of the shares. The third are common strings
// outside of the list. They shift each bit of a cohort by an unknown amount, which is the same in
// all reports. The variance of this amount is estimated from the part of the residuals that the
// first two parts do not explain.
//
// The standard error is the average size of errors. Intervals and p-values are not computed from
// it: with few cohorts, or little noise, errors are far from normal. The package documentation
// describes the law that they use instead. It is valid from one cohort and one client on. Intervals
// are reliable from about 30 clients in each cohort on.
//
// The p-values are corrected by Holm's method. Like Bonferroni's method, it bounds the probability
// of a single false alarm for any dependence between the estimates, and it finds more.
//
// Decode takes no context. Its memory grows with the square of the number of candidates, and its
// time with their cube and with Cohorts × Bits × candidates. For 1,000 candidates in 64 cohorts of
// 128 bits it takes seconds. A list that is ten times as long takes up to a thousand times as long.
// A caller with a time limit must limit the list.
//
// Decode returns [*UndecodableError] if the counts cannot distinguish the candidates. It returns
// [privacy.ErrInvalid] for an empty tally, no candidates, a repeated candidate, or a confidence not
// strictly between 0 and 1. It also returns [privacy.ErrInvalid] if clients with these parameters
// would report the number of ones in all reports with a probability below 10⁻¹². Such reports have
// another number of hashes, or another ε.
func (t *Tally) Decode(candidates []string, confidence float64) (Decoding, error) {
	if !(confidence > 0 && confidence < 1) {
		return Decoding{}, fmt.Errorf("%w: confidence %v is not between 0 and 1", privacy.ErrInvalid, confidence)
	}
	if err := checkCandidates(candidates); err != nil {
		return Decoding{}, err
	}
	if err := t.checkOnes(); err != nil {
		return Decoding{}, err
	}
	d, err := newDesign(t, candidates)
	if err != nil {
		return Decoding{}, err
	}
	return d.fit(confidence).decoding(candidates, confidence), nil
}

// checkCandidates returns [privacy.ErrInvalid] if there are no candidates, or one is given twice.
func checkCandidates(candidates []string) error {
	if len(candidates) == 0 {
		return fmt.Errorf("%w: no candidates", privacy.ErrInvalid)
	}
	seen := make(map[string]bool, len(candidates))
	for _, s := range candidates {
		if seen[s] {
			return fmt.Errorf("%w: the candidate %q is given twice", privacy.ErrInvalid, s)
		}
		seen[s] = true
	}
	return nil
}

// checkOnes returns [privacy.ErrInvalid] for a tally without reports. It also does so if the number
// of ones in all reports is improbable for clients with these parameters, as [Tally.Decode]
// describes. The expectation of this number does not depend on the strings. The bound is
// Bernstein's: the sum of independent bits with total variance V differs by x or more from its
// expectation with a probability of at most 2·exp(−x²/(2(V+x/3))).
func (t *Tally) checkOnes() error {
	clients, ones := t.Clients(), int64(0)
	if clients == 0 {
		return fmt.Errorf("%w: no reports to decode", privacy.ErrInvalid)
	}
	for _, n := range t.ones {
		ones += n
	}
	reported := clients * int64(t.params.Bits) // the number of all reported bits
	want := t.noise.q*float64(reported) + t.noise.gap*float64(t.params.Hashes)*float64(clients)
	away, variance := math.Abs(float64(ones)-want), t.noise.q*(1-t.noise.q)*float64(reported)
	if away*away > 2*(variance+away/3)*math.Log(2e12) { // the bound is below 10⁻¹²
		return fmt.Errorf("%w: the filters of these reports have %.2f bits set on average, not %d; check that "+
			"parameters and ε are those of the clients",
			privacy.ErrInvalid, t.noise.estimate(ones, reported)/float64(clients), t.params.Hashes)
	}
	return nil
}

// decoding converts the fit to the public result.
func (f fit) decoding(candidates []string, confidence float64) Decoding {
	shares, p := make([]Share, len(candidates)), make([]float64, len(candidates))
	for j, v := range f.candidates {
		shares[j], p[j] = Share{String: candidates[j], Frequency: v.frequency()}, v.p
	}
	for j, corrected := range holm(p) {
		shares[j].P, shares[j].Significant = corrected, corrected <= 1-confidence
	}
	slices.SortStableFunc(shares, func(a, b Share) int { return cmp.Compare(b.Estimate, a.Estimate) })
	return Decoding{shares, f.others.frequency(), f.misfit}
}

// frequency converts a result to the public type.
func (v result) frequency() estimate.Frequency {
	return estimate.Frequency{Estimate: v.share, StdErr: v.stdErr, Low: v.low, High: v.high}
}

// holm corrects p-values for their number (S. Holm, "A Simple Sequentially Rejective Multiple Test
// Procedure", 1979). The i-th smallest of m, counted from 0, is multiplied by m − i. No corrected
// value is below the corrected value of a smaller one.
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	corrected, last := make([]float64, len(p)), 0.0
	for i, j := range order {
		last = min(1, max(last, float64(len(p)-i)*p[j]))
		corrected[j] = last
	}
	return corrected
}
