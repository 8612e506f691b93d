// Package rrchain draws chains of randomized responses: answers of one object to one question at
// rising ε, each as useful as a fresh randomized response at its ε, and all of them together
// costing only the largest ε.
//
// A question has m ≥ 2 values, numbered from 0. A randomized response at ε is the truth with
// probability e^ε/(e^ε+m−1) and each other value with 1/(e^ε+m−1). Put differently, it is the truth
// with the retention λ(ε) = (e^ε−1)/(e^ε+m−1), and else uniform on all m values.
//
//	sampler := new(rrchain.Sampler)
//	chain, err := rrchain.NewChain[int](4)
//	first, err := chain.Raise(sampler, half, truth) // ε = 0.5: a first response
//	next, err := chain.Raise(sampler, two, truth)   // ε = 2: costs 1.5 more, not 2
//	mid, err := chain.Insert(sampler, one)          // ε = 1: free, and needs no truth
//
// # The law of a chain
//
// Pan, "Randomized Response with Gradual Release of Privacy Budget" (2024, arXiv:2401.13952), gives
// the kernel that raises a response from ε₁ to ε₂ (Eq. (50), here [NewKernel]) and proves that
// every response has the law of its own ε (Property 1.1), that the composition of all of them is
// ε-differentially private for the largest ε (Property 1.2), and that the ratio of likelihoods of
// all responses is that of the highest one (Lemma 3.1), so that buyers who pool what they bought
// gain nothing (Theorem 4.1).
//
// Lemma 3.1 says more: read downwards, truth → oₙ → … → o₁ is a Markov chain, in which going from
// ε₂ down to ε₁ keeps the response with probability λ(ε₁)/λ(ε₂) and else replaces it by a uniform
// value. The truth is the response at ε = ∞, and uniform noise the one at ε = 0. So there is a
// single law to draw from: that of a response at ε given its neighbours below and above. A first
// response lies between noise and truth, a raise between the last response and the truth, a
// degradation between noise and the lowest response, an insertion between two responses. Only the
// neighbour above can be the truth, hence only a raise needs it. The exact sampler knows just this
// law; the kernel in the closed form of the paper is a special case, and a test holds the two
// against each other.
//
// # Many values, many bits, numbers
//
// A Chain[int] is one value of m. Three more kinds of answers are made of chains with m = 2.
//
// A Chain[Bits] answers a question with many values, where a randomized response tells little. A
// response has a bit for each value. It is optimized unary encoding (Wang, Blocki, Li and Jha 2017),
// raised gradually, which is ours; its law follows from Lemma 3.1 for each bit, and its privacy loss
// is the ε of its highest level, too. [Chain] says from how many values on it estimates better.
//
//	chain, err := rrchain.NewChain[rrchain.Bits](500)
//	first, err := chain.Raise(sampler, one, truth)   // 500 bits
//	// from package rrchain/estimate:
//	shares, err := estimate.Frequencies(estimate.Options{Confidence: 0.95}, estimate.Counts{Unary: true, …})
//
// [Sampler.RaiseBits] answers with a row of true bits, such as a Bloom filter, all raised together
// (pan2024 §5.1). Its ε is that of one bit: two truths that differ in d bits can be told apart with
// a loss of d·ε.
//
// A [Range] is for the mean of bounded numbers (pan2024 §5.2). Each number is rounded to an end of
// the range, once and for all. That end is the truth of a [Chain] with m = 2, and package estimate,
// below this one, estimates the mean of the numbers from the responses, as it does the shares of
// values.
//
// # Exact draws
//
// Drawing is exact: no float takes part (see [Sampler]). Everything here is pure, without clock,
// disk, logger or goroutine; randomness is the operating system's. A question has at most 2²⁰ values.
//
// # Noise from a key
//
// A chain must be kept: a response that was lost, and is drawn again, costs again. A [NoiseKey]
// keeps nothing. A [Staircase] has all responses of an object at once, at every ε, as a function of
// the key and the truth; so any order of questions, a repeated one and a restored backup all give
// the same answers.
//
//	key, err := rrchain.NewNoiseKey(secret)           // 32 random bytes, kept elsewhere
//	ann := rrchain.Staircase{Question: "colour v1", Object: "ann", Values: 4}
//	high, err := key.Response(ann, two, truth)        // ε = 2
//	low, err := key.Response(ann, half, high)         // ε = 0.5: free, and needs no truth
//
// The law is that of a chain, by the other reading of Lemma 3.1: going down from the truth, the
// response is replaced by a uniform value at the arrivals of a Poisson process in −ln λ(ε). Where
// the process stands at an ε does not depend on which levels were asked for. That the noise is a
// function of a key, and not random, is the one thing that is computational here: see [NoiseKey].
// [NoiseKey.UnaryResponse] is the same in unary encoding. This construction is ours.
package rrchain
