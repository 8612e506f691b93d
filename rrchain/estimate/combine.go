package estimate

import "math"

// stratum holds the responses of the objects at one level. The estimate for a value is the mean,
// over the responses, of the gain: a number that depends on the response and the value. Its
// expectation is 1 if the object has the value, and 0 otherwise.
type stratum interface {
	// values returns the number of values of the question.
	values() int
	// objects returns the number of responses.
	objects() float64
	// share returns the unbiased estimate for value v.
	share(v int) float64
	// noise describes the variance of a gain for value v that is due to the mechanism. If the share
	// s of the objects has the value, this variance is a + b·s. It is not negative for s from 0 to
	// 1. The argument holds the estimated shares of all values.
	noise(v int, shares []float64) (a, b float64)
	// step returns the largest difference between two gains for value v.
	step(v int) float64
	// weight returns the inverse of the estimate's variance if all values are equally common, up to
	// a factor that is the same for all levels.
	weight() float64
	// covariance returns the covariance of the gains for two values in one response of an object.
	// The object is drawn at random from a population with the given shares, which are not negative
	// and sum to 1.
	covariance(shares []float64) func(u, v int) float64
}

// combine returns the share of each value among the objects of all strata. There is at least one
// stratum.
//
// Each stratum has a weight proportional to its number of objects. With Pool the weights are
// [stratum.weight], and the variance includes the random assignment of the objects to the levels.
func combine(parts []stratum, o Options) []Frequency {
	c := combination{parts: parts, pool: o.Pool, z: o.quantile(), levels: make([]noise, len(parts))}
	c.weights = weigh(parts, o.Pool)
	c.spread = between(parts, c.weights, o.Population)
	c.shares = combined(parts, c.weights)
	shares := make([]Frequency, len(c.shares))
	for v := range shares {
		shares[v] = c.estimate(v)
	}
	return shares
}

// combination combines the estimates of strata.
type combination struct {
	parts   []stratum
	weights []float64
	pool    bool
	z       float64   // the number of standard errors that an interval extends to each side
	spread  float64   // the result of [between]
	shares  []float64 // the combined estimates, by value
	levels  []noise   // by stratum, for the value that is being estimated
}

// noise is the contribution of a level to the variance of the combined estimate: weight·(a + b·s)
// for the share s at this level, which is from least to most.
type noise struct{ weight, a, b, least, most float64 }

// weigh returns the weights of the strata, which sum to 1.
func weigh(parts []stratum, pool bool) []float64 {
	weights, sum := make([]float64, len(parts)), 0.0
	for i, part := range parts {
		weights[i] = part.objects()
		if pool {
			weights[i] = part.weight()
		}
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	return weights
}

// combined returns the weighted mean of the estimates of the strata, by value.
func combined(parts []stratum, weights []float64) []float64 {
	shares := make([]float64, parts[0].values())
	for v := range shares {
		for i, part := range parts {
			shares[v] += weights[i] * part.share(v)
		}
	}
	return shares
}

// estimate returns the estimate for value v, with its standard error and interval. It fills
// c.levels for this value, which [combination.laws] reads.
//
// The ends of the interval are the tightest that any of these laws gives. They are computed for an
// estimate that is moved outwards by half the effect of one response, the continuity correction.
func (c combination) estimate(v int) Frequency {
	// stated is the variance of the noise at the estimates, and jump the continuity correction.
	share, stated, jump := c.shares[v], 0.0, 0.0
	for i, part := range c.parts {
		a, b := part.noise(v, c.shares)
		n, scale := part.objects(), c.weights[i]/part.objects()
		own := part.share(v) // the estimate at this level; replaced by the common one with Pool
		l := noise{weight: c.weights[i], a: scale * a, b: scale * b}
		if !c.pool {
			// The share at this level is within the interval that this level has alone.
			alone := variance{a: a / n, b: b / n}
			step := part.step(v) / (2 * n)
			l.least, l.most = possible(alone.low(own-step, c.z)), possible(alone.high(own+step, c.z))
		} else {
			own = share
		}
		c.levels[i] = l
		stated += l.weight * (l.a + l.b*possible(own))
		jump = max(jump, scale*part.step(v)/2)
	}
	stdErr := math.Sqrt(stated + c.spread*possible(share)*(1-possible(share)))
	e := Frequency{share, stdErr, math.Inf(-1), math.Inf(1)}
	for _, law := range c.laws() {
		e.Low, e.High = max(e.Low, law.low(share-jump, c.z)), min(e.High, law.high(share+jump, c.z))
	}
	return e
}

// possible returns the share from 0 to 1 that is nearest to an estimate.
func possible(estimate float64) float64 { return min(max(estimate, 0), 1) }

// mostBounds limits the number of bounds of the variance, so that the time is linear in the number
// of levels.
const mostBounds = 16

// laws returns upper bounds of the variance of the combined estimate, as functions of the combined
// share.
//
// If all levels have the same shares, as pooling assumes, there is one bound, and it is exact.
// Otherwise the variance also depends on how the objects with the value are distributed over the
// levels. Its largest possible value is a maximum of Σ weight·(a + b·s) over the shares s of the
// levels. Each share is within its own interval, and together they result in the combined share. By
// linear duality, each number λ gives an upper bound of this maximum. The slopes b give the
// smallest bounds.
func (c combination) laws() (laws []variance) {
	if c.pool { // least and most are 0: with the mean slope the bound is the sum of the levels
		slope := 0.0
		for _, l := range c.levels {
			slope += l.weight * l.b
		}
		return []variance{c.bound(slope)}
	}
	for k := 0; k < len(c.levels); k += 1 + (len(c.levels)-1)/mostBounds {
		laws = append(laws, c.bound(c.levels[k].b))
	}
	return laws
}

// bound returns the upper bound of the variance that the number λ = slope gives, as a function of
// the combined share (see [combination.laws]).
func (c combination) bound(slope float64) variance {
	law := variance{b: slope, g: c.spread}
	for _, l := range c.levels {
		law.a += l.weight * (l.a + max((l.b-slope)*l.least, (l.b-slope)*l.most))
	}
	return law
}

// between returns the variance that is due to the random assignment of objects to levels, divided
// by s(1−s), where s is the share of a value. For a population, the objects are drawn with
// replacement. For fixed objects, the levels are a random partition of them, drawn without
// replacement: s(1−s)·N/(N−1)·(Σ W²/n − 1/N). This is 0 if the weights W are proportional to the
// sizes n. N is the number of all objects.
func between(parts []stratum, weights []float64, population bool) float64 {
	n, sum := 0.0, 0.0
	for i, part := range parts {
		n += part.objects()
		sum += weights[i] * weights[i] / part.objects()
	}
	switch {
	case population:
		return sum
	case n <= 1:
		return 0
	}
	return max(sum-1/n, 0) * n / (n - 1)
}

// variance is the variance of an estimate as a function of the true share s: a + b·s + g·s(1−s).
type variance struct{ a, b, g float64 }

// at returns the variance for the true share s.
func (l variance) at(s float64) float64 { return l.a + l.b*s + l.g*s*(1-s) }

// low returns the smallest share that the estimate p exceeds by at most z standard errors, where
// the standard error is the one at that share. It is the smaller root s of (1+z²g)s² −
// (2p+z²(b+g))s + p² − z²a.
func (l variance) low(p, z float64) float64 { return p - l.distance(p, z, -1) }

// high returns the largest share that exceeds the estimate p by at most z standard errors. It is
// the larger root of the same polynomial.
func (l variance) high(p, z float64) float64 { return p + l.distance(p, z, 1) }

// distance returns the distance from p down to the smaller root (side −1), or up to the larger root
// (side 1), of the polynomial in [variance.low]. It is computed without a difference of nearly
// equal numbers.
//
// The formula for the variance is valid only for shares from 0 to 1. For a p outside of this range
// it may be negative, and then the root may be on the other side of p or not exist. In these cases
// the distance is 0.
func (l variance) distance(p, z, side float64) float64 {
	half, at := side*z*(l.b+l.g*(1-2*p))/2, l.at(p)
	spread := (1 + z*z*l.g) * at
	root := math.Hypot(half, math.Sqrt(max(spread, 0)))
	if spread < 0 {
		root = math.Sqrt(max(half*half+spread, 0))
	}
	// Each of these two forms of the quadratic formula adds numbers of the same sign.
	if half > 0 {
		return z * (half + root) / (1 + z*z*l.g)
	}
	if at <= 0 {
		return 0
	}
	return z * at / (root - half)
}
