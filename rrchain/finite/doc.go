// Package finite makes chains of responses from any local mechanism with finitely many inputs and
// outputs, such as subset selection or Hadamard response, given as matrices of rational
// probabilities at rising ε.
//
// Whether a response at one ε can be raised to one at a higher ε, such that both together cost only
// the higher one, is the question whether the lower mechanism is a degradation of the higher one:
// whether what it answers can be made from the other's answer, without the truth. [NewFamily]
// decides it by a linear program, with a proof either way: a channel ([Family.Channel]), or a game
// in which the lower mechanism beats the higher one ([NotDegradationError]).
//
// A [Family] is a list of mechanisms each of which is a degradation of the next; a [Sampler] draws
// chains from it, raising a response with the truth, and degrading or inserting one for free
// without it. Package estimate turns the responses into the shares of the inputs.
//
//	design, err := finite.SubsetSelection(6, 2)
//	family, err := design.Family(half, one, two)
//	var sampler finite.Sampler
//	first, err := sampler.Raise(family, rrchain.Level[int]{}, half, truth) // ε = 0.5: the first
//	next, err := sampler.Raise(family, first, two, truth)             // ε = 2: costs 1.5 more
//	mid, err := sampler.Between(family, first, next, one)             // ε = 1: free, without truth
//
// # Which mechanisms are families
//
// Randomized response and unary encoding (package rrchain) are, at all ε. So is every [Design]: all
// mechanisms whose probabilities of an output are E times as large for some inputs as for the
// others, if each input has equally many outputs of its own. Subset selection may also go over to
// larger subsets at a lower ε ([SubsetSelection]). Others are no families, even if their ε and
// their usefulness rise: randomized response at E = 2.9 is no degradation of unary encoding at E =
// 3, for three values.
//
// Probabilities are rational, so E is, too, while e^ε is not; [Design.At] has a fraction for every ε.
package finite
