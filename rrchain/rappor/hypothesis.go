package rappor

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
)

// hypotheses are those about the share of one candidate. The statistic of a hypothesis is by how
// much the estimate is above the hypothetical share. It is the sum, over the candidate's set bits,
// of what the counts leave unexplained when the candidate has that share and the others are fitted;
// it is compared with that of a random filter.
type hypotheses struct {
	params    Params
	estimate  float64
	ones      []int     // the candidate's set bits
	leftover  []float64 // unexplained if the estimate is the share, as a summand of the statistic
	influence []float64 // by how much that grows as the hypothetical share falls
	parting   float64   // the statistic's variance from parting the candidate's own clients, over share·(1−share)
}

// tail is the probability that the statistic is so large or larger by chance, if the share is this
// one; or, mirrored, so small or smaller.
func (h *hypotheses) tail(share float64, mirrored bool, loss float64) float64 {
	table := make([]float64, len(h.leftover))
	floats.AddScaledTo(table, h.leftover, h.estimate-share, h.influence)
	if mirrored {
		floats.Scale(-1, table)
	}
	share = min(max(share, 0), 1)
	l := newLottery(h.params, table, h.parting*share*(1-share))
	return l.tail(l.at(h.ones), loss)
}

// interval is the one of shares that the candidate may have.
func (h *hypotheses) interval(confidence float64) (low, high float64) {
	guess := math.Sqrt(floats.Dot(h.leftover, h.leftover) * h.params.spread())
	return interval(confidence, h.estimate, guess, h.tail)
}

// unlisted are the hypotheses about the share of all strings outside of the list. The statistic is
// again by how much the estimate is above the hypothetical share. It is that of a single string
// outside of the list that has as much influence as all of them: of all populations with such
// residuals, it has the heaviest tails.
type unlisted struct {
	params    Params
	estimate  float64
	influence []float64 // what each bit of such a string adds, times its share
	squares   float64   // an upper bound for the sum of the squares of shares
	variance  float64   // of the statistic, from the noise and from parting the clients
}

// tail is the probability that the statistic is so large or larger by chance; or, mirrored, so
// small or smaller.
func (u *unlisted) tail(share float64, mirrored bool, loss float64) float64 {
	heaviest, away := min(max(share, 0), math.Sqrt(u.squares)), u.estimate-share
	if mirrored {
		heaviest, away = -heaviest, -away
	}
	table := make([]float64, len(u.influence))
	floats.ScaleTo(table, heaviest, u.influence)
	l := newLottery(u.params, table, u.variance)
	return l.tail(int(math.Floor(min(away/l.unit, math.MaxInt32))), loss)
}

// interval holds all shares for which neither an estimate so high nor one so low has a probability
// of at most (1 − confidence)/2. What cannot be excluded so ends where shares end, or at a distance
// of 1. guess is about the standard error.
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

// precision is how far from the wanted normal quantile, relative to it, the ends of an interval may
// be, outwards.
const precision = 0.01

// reach searches for the distance at which a tail falls to a chance, and returns one just beyond
// it, or the limit. Where errors are nearly normal, the normal quantiles of tails grow in
// proportion to the distance, and two steps do; else the search halves what is left.
func reach(chance, limit, guess float64, tail func(away float64) float64) float64 {
	want := -distuv.UnitNormal.Quantile(chance) // 1 − chance may be 1 as a float64
	inside, outside, away := 0.0, limit, min(want*guess, limit)
	for try := 1; outside-inside > precision*max(inside, guess); try++ {
		p := tail(away)
		got := distuv.UnitNormal.Quantile(1 - min(max(p, 1e-15), 1))
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
