package rrchain

import (
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

// The chains of the statistical test: five levels, drawn in an order in which every kind of step
// occurs, raises from nothing and from a response, a degradation and two insertions.
const chainValues = 4

var (
	chainLevels = []int64{200_000_000, 500_000_000, 700_000_000, 1_000_000_000, 2_000_000_000}
	chainOrder  = []int{1, 4, 3, 0, 2}
)

// pattern is what a chain looks like when the names of the values are forgotten: 0 for the truth,
// and the other values numbered as they appear. The law of a chain is a law of patterns.
type pattern [5]int

func patternOf(truth int, responses []int) (p pattern) {
	names, next := [chainValues]int{}, 1
	for i, response := range responses {
		if response != truth && names[response] == 0 {
			names[response] = next
			next++
		}
		p[i] = names[response]
	}
	return p
}

// expectedPatterns is the law of the patterns, by the enumeration that is proved above.
func expectedPatterns() map[pattern]float64 {
	law := map[pattern]float64{}
	table := jointLaw(chainValues, plan(chainValues, chainLevels, chainOrder), trueOdds)
	for code, p := range table[0] {
		x, _ := p.Float64()
		law[patternOf(0, digits(code, chainValues, len(chainLevels)))] += x
	}
	return law
}

// drawPatterns draws n chains, each value being the truth in turn.
func drawPatterns(t *testing.T, s *Sampler, n int) map[pattern]int {
	var levels []privacy.Epsilon
	for _, nano := range chainLevels {
		levels = append(levels, fromNano(t, nano))
	}
	counts := map[pattern]int{}
	for i := range n {
		chain := must(NewChain[int](chainValues))
		truth := i % chainValues
		for _, level := range chainOrder {
			must(extend(chain, s, levels[level], truth))
		}
		responses := [5]int{}
		for i, level := range chain.Levels() {
			responses[i] = level.Response
		}
		counts[patternOf(truth, responses[:])]++
	}
	return counts
}

// drawn is the number of chains: enough for a sampler that is spoilt by 3 % to be found out,
// however the draws fall.
const (
	drawn   = 300_000 / (coarser * coarser)
	spoilBy = 3 * coarser // per cent
)

// TestChainsHaveTheJointLaw draws chains with the randomness of the operating system.
func TestChainsHaveTheJointLaw(t *testing.T) {
	stattest.Fit(drawPatterns(t, new(Sampler), drawn), expectedPatterns()).Holds(t, "chains")
}

// TestASpoiltSamplerIsFoundOut tests the test above with samplers whose weights are 3 % wrong, or
// more.
func TestASpoiltSamplerIsFoundOut(t *testing.T) {
	law := expectedPatterns()
	for name, spoil := range map[string]func(exact.Weights) exact.Weights{
		"First": spoilFirst(spoilBy), "Either": spoilEither(spoilBy), "Same": spoilSame(spoilBy),
	} {
		stattest.Fit(drawPatterns(t, spoiltSampler(spoil), drawn), law).Fails(t, "%s spoilt by %d %%", name, spoilBy)
	}
}

// spoiltSampler has all laws of the chains in its cache, with weights that went through spoil.
func spoiltSampler(spoil func(exact.Weights) exact.Weights) *Sampler {
	s := &Sampler{laws: map[law]*exact.Mixture{}}
	for _, step := range plan(chainValues, chainLevels, chainOrder) {
		s.laws[step.law] = exact.NewMixture(chainValues, func(prec uint) exact.Weights { return spoil(step.law.weights(prec)) })
	}
	return s
}

// TestSamplerForgets asks for more laws than a sampler keeps.
func TestSamplerForgets(t *testing.T) {
	s := new(Sampler)
	for i := range int64(cached + 100) {
		chain := newChain[int](t, 2)
		must(chain.Raise(s, fromNano(t, 1_000_000_000+i), 1))
		check.Need(t, len(s.laws) <= cached, "the sampler keeps %d laws after %d", len(s.laws), i+1)
		check.That(t, i != cached-1 || len(s.laws) == cached, "the sampler keeps only %d laws of %d", len(s.laws), i+1)
	}
	check.That(t, len(s.laws) != 0, "the sampler keeps nothing")
}

// TestSamplerRemembers checks that a law is built once: the second chain with the same levels adds
// none, also for another truth.
func TestSamplerRemembers(t *testing.T) {
	s := new(Sampler)
	drawPatterns(t, s, 1)
	before := asked(s)
	drawPatterns(t, s, 50)
	check.That(t, len(before) == len(chainOrder) && len(s.laws) == len(before),
		"%d laws after one chain, %d after 51; want %d", len(before), len(s.laws), len(chainOrder))
}
