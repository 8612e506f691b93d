package simulate

import (
	"math"
	"slices"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Attacks returns the names of the four attacks that guess an object's value from all its responses
// (pan2024 §6.1), in the order of Result.Errors:
//
//   - the last response;
//   - the value under which all responses together are the most likely;
//   - the most frequent response;
//   - the most frequent response, weighted by ε. This would be the most likely value if the
//     responses were independent, so it shows the effect of the chain.
func Attacks() []string {
	return []string{"last output", "maximum likelihood", "highest frequency", "weighted highest frequency"}
}

// bayes is the number of attacks, the first ones, that are Bayes' rule for equally likely values.
// They have the smallest possible error rate (pan2024 §6.1).
const bayes = 2

// attack scores each value, given all responses. It guesses the value with the highest score.
type attack func(responses []int, scores []float64)

// attacks returns the attacks in the order of [Attacks].
func (x Experiment) attacks() ([]attack, error) {
	likelihood, err := maximumLikelihood(len(x.Values), x.Levels)
	return []attack{lastOutput, likelihood, highestFrequency, weightedFrequency(x.Levels)}, err
}

// miss returns the probability that the attack guesses wrong. It is 0 or 1 unless several values
// have the highest score. Then the guess is a random one of them, and its probability is returned
// in place of a draw.
func (a attack) miss(responses []int, scores []float64, truth int) float64 {
	clear(scores)
	a(responses, scores)
	best := slices.Max(scores)
	if scores[truth] < best {
		return 1
	}
	ties := 0
	for _, score := range scores {
		if score == best {
			ties++
		}
	}
	return 1 - 1/float64(ties)
}

func lastOutput(responses []int, scores []float64) {
	scores[responses[len(responses)-1]] = 1
}

func highestFrequency(responses []int, scores []float64) {
	for _, response := range responses {
		scores[response]++
	}
}

// weightedFrequency sums integers, so that equal scores are equal.
func weightedFrequency(levels []privacy.Epsilon) attack {
	return func(responses []int, scores []float64) {
		for i, response := range responses {
			scores[response] += float64(levels[i].Nano())
		}
	}
}

// maximumLikelihood scores a value by the logarithm of Pr(responses | value), a product over the
// transitions of the chain. It does not use that only the last response matters (pan2024 Lemma
// 3.1). The experiment shows that its guess is nevertheless the last response.
func maximumLikelihood(m int, levels []privacy.Epsilon) (attack, error) {
	steps := make([]transition, len(levels))
	last := privacy.Epsilon{}
	for i, level := range levels {
		kernel, err := rrchain.NewKernel(m, last, level)
		if err != nil {
			return nil, err
		}
		steps[i], last = newTransition(kernel), level
	}
	return func(responses []int, scores []float64) {
		for value := range scores {
			before := 0 // at ε = 0 the response is noise, so any value can be used
			for i, response := range responses {
				scores[value] += steps[i].of(value, before, response)
				before = response
			}
		}
	}, nil
}

// transition holds the logarithms of a kernel's probabilities, in the terms of [rrchain.Kernel].
type transition struct{ aa, ab, ba, bb, bc float64 }

func newTransition(k rrchain.Kernel) transition {
	return transition{
		aa: math.Log(k.PAA), ab: math.Log(k.OneMinusPAA / float64(k.Values-1)),
		ba: math.Log(k.PBA), bb: math.Log(k.PBB), bc: math.Log(k.PBC),
	}
}

// of returns ln Pr(after | before, value).
func (t transition) of(value, before, after int) float64 {
	switch {
	case before == value && after == value:
		return t.aa
	case before == value:
		return t.ab
	case after == value:
		return t.ba
	case after == before:
		return t.bb
	default:
		return t.bc
	}
}
