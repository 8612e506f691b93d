// Package finite draws chains of responses from any local mechanism with finitely many inputs and
// outputs, such as subset selection or Hadamard response. The mechanisms are matrices of rational
// probabilities at rising ε.
//
// A response at one ε can be raised to one at a higher ε, such that both together cost only the
// higher ε, if the lower mechanism is a degradation of the higher one. This means that its response
// can be computed from the response of the higher mechanism, without the true value. [NewFamily]
// decides this by a linear program, with a proof in both cases: a channel ([Family.Channel]), or a
// game in which the lower mechanism gains more than the higher one ([NotDegradationError]).
//
// A [Family] is a list of mechanisms, each of which is a degradation of the next. A [Sampler] draws
// chains from it. It raises a response with the true value, and degrades or inserts one without the
// true value and without cost. The package rrchain/estimate estimates the shares of the inputs from
// the responses.
//
//	design, err := finite.SubsetSelection(6, 2)
//	family, err := design.Family(half, one, two)
//	var sampler finite.Sampler
//	first, err := sampler.Raise(family, rrchain.Level[int]{}, half, truth) // ε = 0.5: the first
//	next, err := sampler.Raise(family, first, two, truth)    // ε = 2: costs 1.5 more
//	mid, err := sampler.Between(family, first, next, one)    // ε = 1: free, without truth
//
// # Which mechanisms are families
//
// Randomized response and unary encoding (package rrchain) are families at all ε. So is every
// [Design]. Its probability of an output is E times as large for some inputs as for the others, and
// each input has the same number of outputs with the larger probability. Subset selection may also
// change to larger subsets at a lower ε ([SubsetSelection]). Other lists are not families, even if
// their ε and their usefulness rise. For three values, randomized response at E = 2.9 is not a
// degradation of unary encoding at E = 3.
//
// Probabilities are rational, so E is rational too, while e^ε is not. [Design.At] chooses a
// fraction for every ε.
package finite
