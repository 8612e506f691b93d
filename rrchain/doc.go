// Package rrchain draws chains of randomized responses: responses of one object to one question at
// rising ε. Each is as useful as a fresh randomized response at its ε, and all of them together
// cost only the largest ε.
//
// A question has m ≥ 2 values, numbered from 0. A randomized response at ε is the true value with
// probability e^ε/(e^ε+m−1) and each other value with 1/(e^ε+m−1). Equivalently, it is the true
// value with the retention λ(ε) = (e^ε−1)/(e^ε+m−1), and otherwise uniform on all m values.
//
//	sampler := new(rrchain.Sampler)
//	chain, err := rrchain.NewChain[int](4)
//	first, err := chain.Raise(sampler, half, truth) // ε = 0.5: a first response
//	next, err := chain.Raise(sampler, two, truth)   // ε = 2: costs 1.5 more, not 2
//	mid, err := chain.Insert(sampler, one)          // ε = 1: free, and needs no truth
//
// # The law of a chain
//
// The chains are those of Pan, "Randomized Response with Gradual Release of Privacy Budget" (2024,
// arXiv:2401.13952), cited as pan2024. The paper gives the kernel that raises a response from ε₁ to
// ε₂ (Eq. (50), here [NewKernel]) and proves the following properties. Every response has the law
// of its own ε (Property 1.1). The composition of all responses is ε-differentially private for the
// largest ε (Property 1.2). The ratio of likelihoods of all responses is the ratio of the highest
// one (Lemma 3.1), so buyers gain nothing by pooling their responses (Theorem 4.1).
//
// Lemma 3.1 has a further consequence. Read downwards, truth → oₙ → … → o₁ is a Markov chain. Each
// step from ε₂ down to ε₁ keeps the response with probability λ(ε₁)/λ(ε₂) and otherwise replaces it
// by a uniform value. The true value is the response at ε = ∞, and uniform noise is the response at
// ε = 0.
//
// So all draws use a single law: the law of a response at ε given its neighbours below and above.
// The neighbours are noise and the true value for a first response, the last response and the true
// value for a raise, noise and the lowest response for a degradation, and two responses for an
// insertion. Only the neighbour above can be the true value, so only first responses and raises
// need it. The exact sampler implements only this law. The paper's kernel in closed form is a
// special case, and a test compares the two.
//
// # Many values, many bits, numbers
//
// A Chain[int] holds one value of m. Three more kinds of responses are built from chains with m =
// 2.
//
// A Chain[Bits] answers a question with many values, for which a randomized response contains
// little information. A response has a bit for each value. This is optimized unary encoding (Wang,
// Blocki, Li and Jha 2017), raised gradually, which is our own construction. Its law follows from
// Lemma 3.1 for each bit, and its privacy loss is also the ε of its highest level. [Chain] states
// the number of values from which it estimates better.
//
//	chain, err := rrchain.NewChain[rrchain.Bits](500)
//	first, err := chain.Raise(sampler, one, truth)   // 500 bits
//	// from package rrchain/estimate:
//	shares, err := estimate.Frequencies(estimate.Options{Confidence: 0.95},
//		estimate.Counts{Unary: true, …})
//
// [Sampler.RaiseBits] draws a response to a row of true bits, such as a Bloom filter, and raises
// all bits together (pan2024 §5.1). Its ε is the ε of one bit: two rows that differ in d bits can
// be distinguished with a loss of d·ε.
//
// A [Range] is for the mean of bounded numbers (pan2024 §5.2). Each number is rounded once to an
// end of the range. That end is the true value of a [Chain] with m = 2. The package
// rrchain/estimate estimates the mean of the numbers from the responses, and also the shares of
// values.
//
// # Exact draws
//
// Draws are exact: they use no floating-point numbers (see [Sampler]). The package is pure: it has
// no clock, disk, logger or goroutine. Randomness comes from the operating system. A question has
// at most 2²⁰ values.
//
// # Noise from a key
//
// A chain must be stored: a response that is lost and drawn again costs privacy again. A [NoiseKey]
// stores nothing. A [Staircase] defines the responses of an object at every ε, as a function of the
// key and the true value. Questions in any order, repeated questions and a restored backup
// therefore all get the same responses.
//
//	key, err := rrchain.NewNoiseKey(secret)           // 32 random bytes, kept elsewhere
//	ann := rrchain.Staircase{Question: "colour v1", Object: "ann", Values: 4}
//	high, err := key.Response(ann, two, truth)        // ε = 2
//	low, err := key.Response(ann, half, high)         // ε = 0.5: free, and needs no truth
//
// The law is the law of a chain, by another reading of Lemma 3.1. On the way down from the true
// value, the response is replaced by a uniform value at the arrivals of a Poisson process in −ln
// λ(ε). The state of the process at an ε does not depend on which levels were requested. One
// property is only computational here: the noise is a function of a key instead of random (see
// [NoiseKey]). [NoiseKey.UnaryResponse] does the same in unary encoding. This construction is our
// own.
package rrchain
