package rappor

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
)

// hypotheses are the hypotheses about the share of one candidate. The statistic of a hypothesis is
// the estimate minus the hypothetical share. It is the sum, over the candidate's set bits, of the
// counts that remain unexplained when the candidate has that share and the others are fitted. It is
// compared with the same sum for a random filter.
type hypotheses struct {
	params     Params
	estimate   float64
	ones       []int     // the candidate's set bits
	leftover   []float64 // by bit, the summand of the statistic if the hypothetical share is the estimate
	influence  []float64 // the increase of leftover per decrease of the hypothetical share
	assignment float64   // variance from assigning the candidate's clients to cohorts, divided by share·(1−share)
}

// tail returns the probability, if the candidate has this share, that the statistic is at least as
// large as the observed one. If mirrored, it returns the probability that it is at least as small.
// loss is the largest amount by which the result may be too large.
func (h *hypotheses) tail(share float64, mirrored bool, loss float64) float64 {
	table := make([]float64, len(h.leftover))
	floats.AddScaledTo(table, h.leftover, h.estimate-share, h.influence)
	if mirrored {
		floats.Scale(-1, table)
	}
	share = min(max(share, 0), 1)
	l := newFilterSum(h.params, table, h.assignment*share*(1-share))
	return l.tail(l.at(h.ones), loss)
}

// interval returns the interval of shares that the candidate may have, as the function [interval]
// defines it.
func (h *hypotheses) interval(confidence float64) (low, high float64) {
	guess := math.Sqrt(floats.Dot(h.leftover, h.leftover) * h.params.spread())
	return interval(confidence, h.estimate, guess, h.tail)
}

// unlisted are the hypotheses about the share of all strings outside of the list. The statistic is
// again the estimate minus the hypothetical share. Its law is that of a single string outside of
// the list that has as much influence as all of them. Of all populations with such residuals, this
// law has the heaviest tails.
type unlisted struct {
	params    Params
	estimate  float64
	influence []float64 // the amount that each bit of such a string adds, per unit of its share
	squares   float64   // an upper bound for the sum of the squares of shares
	variance  float64   // the variance of the statistic, from the noise and the assignment to cohorts
}

// tail returns the probability, if these strings have this share, that the statistic is at least as
// large as the observed one. If mirrored, it returns the probability that it is at least as small.
// loss is the largest amount by which the result may be too large.
func (u *unlisted) tail(share float64, mirrored bool, loss float64) float64 {
	// These are the share of the single string, and the statistic.
	heaviest, away := min(max(share, 0), math.Sqrt(u.squares)), u.estimate-share
	if mirrored {
		heaviest, away = -heaviest, -away
	}
	table := make([]float64, len(u.influence))
	floats.ScaleTo(table, heaviest, u.influence)
	l := newFilterSum(u.params, table, u.variance)
	return l.tail(int(math.Floor(min(away/l.unit, math.MaxInt32))), loss)
}

// interval returns all shares for which an estimate at least as high, and one at least as low, both
// have a probability above (1 − confidence)/2. tail returns these probabilities, as
// [hypotheses.tail]. Where the counts exclude nothing, the interval ends at 0 or 1, or at a
// distance of 1 from the estimate. guess is approximately the standard error.
func interval(
	confidence, estimate, guess float64, tail func(share float64, mirrored bool, loss float64) float64,
) (low, high float64) {
	chance := (1 - confidence) / 2
	loss := chance / 1000
	down := reach(chance, max(estimate, 1), guess,
		func(away float64) float64 { return tail(estimate-away, false, loss) })
	up := reach(chance, max(1-estimate, 1), guess,
		func(away float64) float64 { return tail(estimate+away, true, loss) })
	return estimate - down, estimate + up
}

// precision is the largest error of the ends of an interval, outwards, relative to the wanted
// normal quantile.
const precision = 0.01

// reach searches for the distance at which a tail falls to a given chance. It returns a distance
// slightly above it, or the limit if the tail does not fall that low. guess is approximately the
// standard error. If errors are nearly normal, the normal quantiles of tails grow in proportion to
// the distance, and two steps are enough. Otherwise the search uses bisection.
func reach(chance, limit, guess float64, tail func(away float64) float64) float64 {
	want := -distuv.UnitNormal.Quantile(chance) // 1 − chance may be 1 as a float64
	// The tail is above the chance at inside, and not above it at outside. The next distance is
	// away.
	inside, outside, away := 0.0, limit, min(want*guess, limit)
	for try := 1; outside-inside > precision*max(inside, guess); try++ {
		p := tail(away)
		got := distuv.UnitNormal.Quantile(1 - min(max(p, 1e-15), 1)) // the normal quantile of the tail at away
		if p > chance {
			inside = away
		} else if outside = away; got < want*(1+precision) {
			break
		}
		away *= want / got * (1 + precision/2)
		if !(inside < away && away < outside) || try%3 == 0 {
			away = (inside + outside) / 2
		}
	}
	return outside
}
