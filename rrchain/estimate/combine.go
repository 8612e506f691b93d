package estimate

import "math"

// stratum is the responses of the objects at one level. Each response contributes a gain to the
// share of each value: the estimate is the mean of the gains.
type stratum interface {
	values() int
	// objects returns the number of responses.
	objects() float64
	// share returns the unbiased estimate for value v.
	share(v int) float64
	// noise describes the variance of a gain for value v that is due to the mechanism: if the share
	// s of the objects has the value, it is a + b·s, and not negative for s from 0 to 1. The shares
	// are estimates, of all values.
	noise(v int, shares []float64) (a, b float64)
	// step returns by how much two gains for value v differ at most.
	step(v int) float64
	// weight is the inverse of the estimate's variance if all values are equally common, up to a
	// factor that all levels share.
	weight() float64
	// covariance returns the covariance of the gains for two values in one response of an object
	// drawn at random from a population with these shares, which are not negative and add up to 1.
	covariance(shares []float64) func(u, v int) float64
}

// combine returns the share of each value among the objects of all strata, of which there is at
// least one.
//
// The strata are weighted by their number of objects. With Pool they are weighted by
// [stratum.weight], and the variance includes that of having parted the objects among the levels at
// random.
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
	z       float64   // how many standard errors an interval extends to each side
	spread  float64   // what [between] returns
	shares  []float64 // the combined estimates, by value
	levels  []noise   // by stratum, of the value that is being estimated
}

// noise is what a level adds to the variance of the combined estimate: weight·(a + b·s) for the
// share s at this level, which is from least to most.
type noise struct{ weight, a, b, least, most float64 }

// weigh returns the weights of the strata. They add up to 1.
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

func combined(parts []stratum, weights []float64) []float64 {
	shares := make([]float64, parts[0].values())
	for v := range shares {
		for i, part := range parts {
			shares[v] += weights[i] * part.share(v)
		}
	}
	return shares
}

// estimate returns the estimate for value v.
func (c combination) estimate(v int) Frequency {
	share, stated, jump := c.shares[v], 0.0, 0.0
	for i, part := range c.parts {
		a, b := part.noise(v, c.shares)
		n, scale := part.objects(), c.weights[i]/part.objects()
		own := part.share(v)
		l := noise{weight: c.weights[i], a: scale * a, b: scale * b}
		if !c.pool {
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

// possible returns the nearest share.
func possible(estimate float64) float64 { return min(max(estimate, 0), 1) }

// mostBounds is how many bounds of the variance are taken, so that the time is linear in the number
// of levels.
const mostBounds = 16

// laws returns upper bounds of the variance of the combined estimate, as functions of the combined
// share.
//
// If the levels have the same shares, as pooling assumes, there is one, and it is exact. Otherwise
// the variance also depends on which levels have the objects with the value. It is at most the
// maximum of Σ weight·(a + b·s) over all shares s of the levels that are within their own intervals
// and have the combined share. By linear duality each number λ gives a bound of that, and the
// slopes b give the least ones.
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

// bound returns the bound for a slope.
func (c combination) bound(slope float64) variance {
	law := variance{b: slope, g: c.spread}
	for _, l := range c.levels {
		law.a += l.weight * (l.a + max((l.b-slope)*l.least, (l.b-slope)*l.most))
	}
	return law
}

// between returns the variance, in units of s(1−s) for the share s, that is due to which objects
// are at which level. For a population they are drawn with replacement. For fixed objects the
// levels are a partition of them, drawn at random without replacement: s(1−s)·N/(N−1)·(Σ W²/n −
// 1/N), which is 0 if the weights are the sizes.
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

// variance is that of an estimate as a function of the true share s: a + b·s + g·s(1−s).
type variance struct{ a, b, g float64 }

func (l variance) at(s float64) float64 { return l.a + l.b*s + l.g*s*(1-s) }

// low returns the least share that an estimate p is at most z standard errors above, with the
// standard error at that share: the smaller root s of (1+z²g)s² − (2p+z²(b+g))s + p² − z²a.
func (l variance) low(p, z float64) float64 { return p - l.distance(p, z, -1) }

// high returns the greatest share that an estimate p is at most z standard errors below: the larger
// root.
func (l variance) high(p, z float64) float64 { return p + l.distance(p, z, 1) }

// distance returns how far below p the smaller root is (side −1), or above p the larger one (side
// 1). It is not a difference of nearly equal numbers. The variance is a variance for shares only:
// it may be negative at a p beyond 0 and 1, and the root on the other side of p, or none. Then the
// distance is 0.
func (l variance) distance(p, z, side float64) float64 {
	half, at := side*z*(l.b+l.g*(1-2*p))/2, l.at(p)
	spread := (1 + z*z*l.g) * at
	root := math.Hypot(half, math.Sqrt(max(spread, 0)))
	if spread < 0 {
		root = math.Sqrt(max(half*half+spread, 0))
	}
	if half > 0 {
		return z * (half + root) / (1 + z*z*l.g)
	}
	if at <= 0 {
		return 0
	}
	return z * at / (root - half)
}
