package simulate

import "math"

// SamplingEpsilon returns the ε of k noisy samplings of a bit, pan2024 Eq. (65). alpha is the ε of
// the permanent randomized response and beta that of each sampling, both above 0. The result
// approaches alpha as k grows.
func SamplingEpsilon(alpha, beta float64, k int) float64 {
	// ln((e^(x+y)+1)/(e^x+e^y)) for x ≤ y, without e^y, which may overflow float64.
	x, y := min(alpha, beta*float64(k)), max(alpha, beta*float64(k))
	return x + math.Log1p(math.Exp(-x-y)) - math.Log1p(math.Exp(x-y))
}

// RelaxationVariance returns the variance of the share of ones that is estimated from n randomized
// responses of bits at ε, e^ε/(n(e^ε−1)²), pan2024 Eq. (67). (The ε₁ in the middle of that equation
// is a misprint for ε_i.) It does not depend on the number of ones.
func RelaxationVariance(epsilon float64, n int) float64 {
	e := math.Expm1(epsilon)
	return (e + 1) / (float64(n) * e * e)
}

// SamplingVariance returns the variance of the share of ones that is estimated from k noisy
// samplings of each of n bits, pan2024 Eq. (68). With α the probability that belongs to the ε
// alpha, α(1−α)/(1−2α)² is the variance at that ε, and 1/(1−2α)² is 1 plus four times that. The
// same holds for β.
func SamplingVariance(alpha, beta float64, k, n int) float64 {
	permanent, sampling := RelaxationVariance(alpha, 1), RelaxationVariance(beta, 1)
	return (sampling*(1+4*permanent)/float64(k) + permanent) / float64(n)
}

// ErrorBound returns the smallest probability of a wrong guess of an object's value, among m
// equally likely values, given all its responses up to ε: 1 − e^ε/(e^ε+m−1), pan2024 Theorem 6.1.
func ErrorBound(epsilon float64, m int) float64 {
	others := float64(m - 1)
	return others / (math.Exp(epsilon) + others)
}
