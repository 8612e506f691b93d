package rappor

import (
	"fmt"
	"math"

	"github.com/sluicedp/sluice/privacy"
)

// Noise is the original noise of RAPPOR, for comparison with chains. A client replaces each bit of
// its filter once by a fair coin with probability F (the permanent randomized response). It draws
// every report from this permanent filter: a bit that is 1 there is reported as 1 with probability
// P, and a bit that is 0 with probability Q (the instantaneous randomized response; pan2024 calls
// it noisy sampling, Eq. (64)). The paper of Erlingsson et al. has the letters p and q the other
// way round.
//
// Let A = 1 − F/2 be the probability that a permanent bit is the true one. pan2024 writes α for A,
// and β for P if Q = 1 − P.
type Noise struct {
	F float64 // strictly between 0 and 1
	P float64 // above Q, at most 1
	Q float64 // at least 0
}

// check returns [privacy.ErrInvalid] unless 0 < F < 1 and 0 ≤ Q < P ≤ 1.
func (n Noise) check() error {
	if !(n.F > 0 && n.F < 1) {
		return fmt.Errorf("%w: f = %v is not strictly between 0 and 1", privacy.ErrInvalid, n.F)
	}
	if !(0 <= n.Q && n.Q < n.P && n.P <= 1) {
		return fmt.Errorf("%w: p = %v and q = %v; 0 ≤ q < p ≤ 1 are possible", privacy.ErrInvalid, n.P, n.Q)
	}
	return nil
}

// checkReports returns [privacy.ErrInvalid] for noise out of range, or a negative number of
// reports.
func (n Noise) checkReports(reports int) error {
	if reports < 0 {
		return fmt.Errorf("%w: the number of reports is %d", privacy.ErrInvalid, reports)
	}
	return n.check()
}

// BitLoss returns the exact privacy loss of a bit in a number of reports, in nats. one measures how
// surely the reports can show that the true bit is 1: it is the largest logarithm of a likelihood
// ratio of 1 to 0. zero measures the same for a true bit 0. The likelihood ratio rises with the
// number of reports in which the bit is set, so the extremes are all reports and none:
//
//	one  = ln((A + (1−A)ρ) / ((1−A) + Aρ))  with ρ = (Q/P)^K
//	zero = the same                         with ρ = ((1−P)/(1−Q))^K
//
// If Q = 1 − P, both are pan2024 Eq. (65) and (121), with ε_α = ln(A/(1−A)) and ε_β = ln(P/Q). As K
// grows they approach ln(A/(1−A)). BitLoss returns [privacy.ErrInvalid] for noise out of range or a
// negative number.
func (n Noise) BitLoss(reports int) (one, zero float64, err error) {
	if err := n.checkReports(reports); err != nil {
		return 0, 0, err
	}
	return n.surety(n.Q, n.P, reports), n.surety(1-n.P, 1-n.Q, reports), nil
}

// surety returns ln((A + (1−A)ρ)/((1−A) + Aρ)) for ρ = (less/more)^reports, where more − less = P −
// Q. It uses that numerator and denominator differ by (1−F)(1−ρ). So there is no cancellation if ρ
// is close to 1, and no overflow.
func (n Noise) surety(less, more float64, reports int) float64 {
	if reports == 0 {
		return 0
	}
	power := math.Log(less / more) // −∞ for less = 0
	if less > more/2 {
		power = math.Log1p(-(n.P - n.Q) / more) // a rounded quotient near 1 has lost the digits of its logarithm
	}
	power *= float64(reports)
	wrong := n.F / 2
	return math.Log1p((1 - n.F) * -math.Expm1(power) / (wrong + (1-wrong)*math.Exp(power)))
}

// Loss returns the exact privacy loss, in nats, of a number of reports between two strings whose
// filters have as little in common as possible. It is min(h, k−h) times the sum of the results of
// [Noise.BitLoss]. For one report and h ≤ k/2 it is Theorem 2 of Erlingsson et al. For a growing
// number of reports it approaches the 2h·ln((1−F/2)/(F/2)) of their Theorem 1. It returns
// [privacy.ErrInvalid] for parameters or noise out of range, or a negative number.
func (n Noise) Loss(p Params, reports int) (float64, error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	one, zero, err := n.BitLoss(reports)
	return float64(p.Distance()) / 2 * (one + zero), err
}

// Estimate returns the unbiased number of clients in whose filter a bit is set. ones is the number
// of times that the bit was set in all reports of the clients, who are in one cohort and made the
// same number of reports each. It returns [privacy.ErrInvalid] for noise out of range, or
// impossible numbers.
func (n Noise) Estimate(ones, clients int64, reports int) (float64, error) {
	if err := n.checkReports(reports); err != nil {
		return 0, err
	}
	if reports == 0 || clients < 0 || ones < 0 || float64(ones) > float64(clients)*float64(reports) {
		return 0, fmt.Errorf("%w: %d ones are impossible in %d reports of each of %d clients",
			privacy.ErrInvalid, ones, reports, clients)
	}
	all := float64(clients)
	// This is the estimated number of permanent filters that have the bit.
	permanent := (float64(ones)/float64(reports) - n.Q*all) / (n.P - n.Q)
	return (permanent - n.F/2*all) / (1 - n.F), nil
}

// Variance returns the mean contribution of one client to the variance of [Noise.Estimate], if the
// bit is set in the filters of a share of the clients, from 0 to 1. Let r = F/2 + (1−F)·share be
// the frequency of the bit in permanent filters. The result is exactly
//
//	(A(1−A) + (r·P(1−P) + (1−r)·Q(1−Q)) / (K(P−Q)²)) / (1−F)²
//
// For Q = 1 − P this does not depend on the share and is pan2024 Eq. (68) with N = 1. Variance
// returns [privacy.ErrInvalid] for noise or a share out of range, or no reports.
func (n Noise) Variance(reports int, share float64) (float64, error) {
	if err := n.checkReports(reports); err != nil {
		return 0, err
	}
	if reports == 0 || !(share >= 0 && share <= 1) {
		return 0, fmt.Errorf("%w: share %v of 0 to 1, %d reports of at least 1", privacy.ErrInvalid, share, reports)
	}
	wrong, truth := n.F/2, 1-n.F // 1 − A, and 1 − F
	set := wrong + truth*share   // r
	instantaneous := (set*n.P*(1-n.P) + (1-set)*n.Q*(1-n.Q)) / (float64(reports) * (n.P - n.Q) * (n.P - n.Q))
	return (wrong*(1-wrong) + instantaneous) / (truth * truth), nil
}
