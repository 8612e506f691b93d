package main

import (
	"errors"
	"math"
)

// lognormal is the distribution of wages whose logarithms are normal with mean mu and standard deviation
// sigma. That is roughly true of wages (J. Aitchison and J. A. C. Brown, The Lognormal Distribution, 1957).
type lognormal struct{ mu, sigma float64 }

// fitLognormal returns the distribution that has given shares of wages below two bounds.
func fitLognormal(low, belowLow, high, belowHigh float64) (lognormal, error) {
	if !(0 < belowLow && belowLow < belowHigh && belowHigh < 1) {
		return lognormal{}, errors.New("too few people to tell how wages are distributed")
	}
	from, to := normalQuantile(belowLow), normalQuantile(belowHigh)
	sigma := math.Log(high/low) / (to - from)
	return lognormal{math.Log(low) - sigma*from, sigma}, nil
}

func (l lognormal) median() float64 { return math.Exp(l.mu) }

func (l lognormal) clipped(bound float64) (mean, square float64) {
	z := (math.Log(bound) - l.mu) / l.sigma
	above := normalShare(-z)
	mean = math.Exp(l.mu+l.sigma*l.sigma/2)*normalShare(z-l.sigma) + bound*above
	square = math.Exp(2*l.mu+2*l.sigma*l.sigma)*normalShare(z-2*l.sigma) + bound*bound*above
	return mean, square
}

// normalShare returns the share of a standard normal distribution below z.
func normalShare(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// normalQuantile returns the z with a given share of a standard normal distribution below it.
func normalQuantile(share float64) float64 { return math.Sqrt2 * math.Erfinv(2*share-1) }
