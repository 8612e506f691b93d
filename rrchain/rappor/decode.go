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
	String string // as it stands in the list of candidates
	estimate.Frequency
	// P is the one-sided p-value of "no client has this string" after Holm's correction for all
	// candidates: the probability, over the hash, that a string which nobody has would look as
	// common.
	P float64
	// Significant says that P is at most 1 − confidence. The probability that this is said of any
	// candidate that nobody has is at most that, for all candidates together, whatever strings
	// clients have. P cannot be below C(k,h)^−cohorts: where filters are few and short, nothing is
	// significant.
	Significant bool
}

// Decoding is what a tally says about a list of candidates.
type Decoding struct {
	Shares []Share            // by falling estimate; equal ones in the order of the candidates
	Others estimate.Frequency // the share of clients with none of the candidates
	// Misfit is the sum of squared residuals over its expectation if no string outside of the list
	// were common. It is about 1 when the list holds all common strings. Far above 1, either some
	// are missing (the intervals are wider then, and hold), or the parameters are not those of the
	// clients.
	Misfit float64
}

// UndecodableError says that a tally's counts cannot tell the candidates apart. It wraps
// [privacy.ErrInvalid].
type UndecodableError struct {
	Candidates int      // how many there are
	Counts     int      // how many independent counts there are
	Alike      []string // two candidates with the same filter in every cohort that has clients, if there are any
}

// Error says what would help.
func (e *UndecodableError) Error() string {
	switch {
	case len(e.Alike) > 0:
		return fmt.Sprintf("candidates %q and %q have the same filter in every cohort: "+
			"leave one out, or collect with more cohorts or bits", e.Alike[0], e.Alike[1])
	case e.Candidates >= e.Counts:
		return fmt.Sprintf("%d candidates cannot be told apart by %d counts: "+
			"give fewer than that, or collect with more cohorts or bits", e.Candidates, e.Counts)
	}
	return fmt.Sprintf("the filters of the %d candidates are not independent of each other: "+
		"give fewer, or collect with more cohorts or bits", e.Candidates)
}

// Unwrap returns [privacy.ErrInvalid].
func (e *UndecodableError) Unwrap() error { return privacy.ErrInvalid }

// Decode estimates the share of clients who have each of the candidate strings, with intervals of a
// nominal coverage such as 0.95.
//
// Let x be the filter of a string in a cohort, less its mean h/k. Every filter has h bits set, so
// what strings outside of the list add is h/k on average over the hash, and the unbiased bit counts
// of the cohort, divided by its number of clients n_c, less h/k, have the expectation Σ share·x.
// The estimates are the least-squares solution over all cohorts and bits with weights n_c. As the
// weights do not depend on the reports, they are exactly unbiased for these clients, over the draws
// of cohorts and reports, if the list is complete, and else over the hash too. (The original
// selects candidates by lasso, and fits the chosen ones to the same data; non-negative least
// squares would bias every rare string upwards. After either the usual intervals and p-values are
// not valid.)
//
// The standard error has three parts: the noise of the reports, exactly; that of having parted the
// clients into cohorts at random, a sample without replacement in each, with the estimates for the
// shares; and that of common strings outside of the list. These shift each bit of a cohort by an
// unknown amount, the same in all reports, whose variance is estimated from by how much the
// residuals exceed what the first two parts explain. The standard error says how large errors are
// on average. Intervals and p-values do not rest on it: with few cohorts, or little noise, errors
// are far from normal, and the package documentation says which law they have instead. It holds
// from one cohort and one client on; of the intervals, trust those from about 30 clients in each
// cohort on.
//
// The p-values are corrected by Holm's method. Like Bonferroni's it bounds the probability of a
// single false alarm however the estimates depend on each other, and it finds more.
//
// Decode takes no context. It needs memory for the square of the number of candidates, and its time
// grows with their cube, and with Cohorts × Bits × candidates: 1,000 candidates in 64 cohorts of
// 128 bits take seconds; a list that is ten times as long takes up to a thousand times as long. A
// caller that must answer in time bounds the list.
//
// Decode returns [*UndecodableError] when the counts cannot tell the candidates apart, and
// [privacy.ErrInvalid] for an empty tally, no candidates, one given twice, or a confidence not
// strictly between 0 and 1. It returns [privacy.ErrInvalid], too, when the number of ones in all
// reports is one that clients with these parameters report with a probability below 10⁻¹²: with
// another number of hashes, or at another ε.
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

// checkOnes compares the number of ones in all reports with its expectation, which the strings do
// not change. The bound is Bernstein's: a sum of independent bits with variance V in all is x or
// more away from its expectation with a probability of at most 2·exp(−x²/(2(V+x/3))).
func (t *Tally) checkOnes() error {
	clients, ones := t.Clients(), int64(0)
	if clients == 0 {
		return fmt.Errorf("%w: no reports to decode", privacy.ErrInvalid)
	}
	for _, n := range t.ones {
		ones += n
	}
	reported := clients * int64(t.params.Bits)
	want := t.noise.q*float64(reported) + t.noise.gap*float64(t.params.Hashes)*float64(clients)
	away, variance := math.Abs(float64(ones)-want), t.noise.q*(1-t.noise.q)*float64(reported)
	if away*away > 2*(variance+away/3)*math.Log(2e12) {
		return fmt.Errorf("%w: the filters behind these reports have %.2f bits set, not %d: are parameters and ε "+
			"those of the clients?",
			privacy.ErrInvalid, t.noise.estimate(ones, reported)/float64(clients), t.params.Hashes)
	}
	return nil
}

// decoding puts the fit in the form that callers see.
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

func (v verdict) frequency() estimate.Frequency {
	return estimate.Frequency{Estimate: v.share, StdErr: v.stdErr, Low: v.low, High: v.high}
}

// holm corrects p-values for their number (S. Holm, "A Simple Sequentially Rejective Multiple Test
// Procedure", 1979): the i-th smallest of m, counted from 0, times m − i, and never below a smaller
// one's.
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
