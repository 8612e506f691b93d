package rrchain

import (
	"fmt"
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
)

// step is the draw of one level: its law, its index by rising ε, and those of its neighbours. If
// above is none, the draw uses the true value. If below is none, there is no level below.
type step struct {
	law              law
	below, at, above int
}

const none = -1

// plan returns the steps that draw the levels, given in nano-nats by rising ε, in some order. The
// neighbours among the levels drawn before decide whether a step is a raise, a degradation or an
// insertion.
func plan(m int64, levels []int64, order []int) []step {
	var steps []step
	for k, at := range order {
		s := step{law{m: m, at: levels[at], above: truthAbove}, none, at, none}
		for _, other := range order[:k] {
			if other < at && other > s.below {
				s.below, s.law.below = other, levels[other]
			}
			if other > at && (s.above == none || other < s.above) {
				s.above, s.law.above = other, levels[other]
			}
		}
		steps = append(steps, s)
	}
	return steps
}

// joint is the law of all responses for each true value. joint[truth][code] is the probability of
// the responses that are the digits of code to base m. The lowest level has the last digit.
type joint [][]*big.Float

// jointLaw multiplies the probabilities of the steps of a plan.
func jointLaw(m int64, steps []step, draw func(law) odds) joint {
	table := make(joint, m)
	chances := make([]odds, len(steps))
	for k, s := range steps {
		chances[k] = draw(s.law)
	}
	for truth := range table {
		table[truth] = make([]*big.Float, power(m, len(steps)))
		for code := range table[truth] {
			responses := digits(code, m, len(steps))
			p := number(1)
			for k, s := range steps {
				above, below := truth, 0 // 0 is what the chain gives where there is none
				if s.above != none {
					above = responses[s.above]
				}
				if s.below != none {
					below = responses[s.below]
				}
				p.Mul(p, chances[k].of(responses[s.at], above, below))
			}
			table[truth][code] = p
		}
	}
	return table
}

// marginal sums over the responses of the levels outside the coalition. In the remaining codes
// these levels have digit 0. Other codes are nil.
func marginal(p []*big.Float, m int64, n int, coalition uint) []*big.Float {
	sums := make([]*big.Float, len(p))
	for code, x := range p {
		seen := 0
		for level, response := range digits(code, m, n) {
			if coalition>>level&1 == 1 {
				seen += response * power(m, level)
			}
		}
		if sums[seen] == nil {
			sums[seen] = number(0)
		}
		sums[seen].Add(sums[seen], x)
	}
	return sums
}

// The faults that collusionFaults detects.
const (
	orderMatters  = "the order of drawing changes the joint law"
	wrongMarginal = "a response does not have the law of its ε (Property 1.1)"
	lossAdds      = "responses together cost more than the highest ε (Property 1.2)"
	lossIsLess    = "two true values are never distinguished as well as the highest ε allows"
	ratioDiffers  = "the likelihood ratio is not that of the highest response (Lemma 3.1)"
	collusionPays = "a coalition learns more than its best-paying buyer (Theorem 4.1)"
)

// exactly is the relative tolerance of the enumeration, 2⁻²⁰⁰.
const exactly = 0x1p-200

// kind describes a kind of chain for the enumeration.
type kind struct {
	// responses is how many different responses there are at one level.
	responses int64
	// joint returns the law of all levels, drawn in some order.
	joint func(levels []int64, order []int) joint
	// alone returns the law that a single response at an ε must have.
	alone func(nano int64) joint
	// cost returns the largest allowed privacy loss between two true values, in units of the
	// highest ε.
	cost func(a, b int) int
}

// chains returns the kind for randomized response. draw returns the probabilities of one response.
func chains(m int64, draw func(law) odds) kind {
	return kind{
		responses: m,
		joint:     func(levels []int64, order []int) joint { return jointLaw(m, plan(m, levels, order), draw) },
		alone: func(nano int64) joint {
			p, q := response(m, nano)
			table := make(joint, m)
			for truth := range table {
				table[truth] = slices.Repeat([]*big.Float{q}, int(m))
				table[truth][truth] = p
			}
			return table
		},
		cost: differ,
	}
}

// differ returns 1 for different true values and 0 for equal ones.
func differ(a, b int) int {
	if a == b {
		return 0
	}
	return 1
}

// collusionFaults enumerates the joint law of the responses at all levels for each true value, for
// every order of drawing and every coalition of buyers. It returns the faults.
func collusionFaults(k kind, levels []int64) []string {
	wrong := map[string]bool{}
	var rising joint
	for _, order := range permutations(len(levels)) {
		table := k.joint(levels, order)
		if rising == nil {
			rising = table
		}
		if !sameJoint(table, rising) {
			wrong[orderMatters] = true
		}
	}
	for coalition := uint(1); coalition < 1<<len(levels); coalition++ {
		coalitionFaults(k, levels, rising, coalition, wrong)
	}
	return sortedKeys(wrong)
}

func sameJoint(a, b joint) bool {
	for truth := range a {
		if !slices.EqualFunc(a[truth], b[truth], func(x, y *big.Float) bool { return near(x, y, exactly) }) {
			return false
		}
	}
	return true
}

// coalitionFaults adds the faults of the law of the responses that one coalition sees. The prefixes
// of Property 1.2 and Lemma 3.1 are such coalitions, and so is a single buyer.
func coalitionFaults(k kind, levels []int64, table joint, coalition uint, wrong map[string]bool) {
	seen := make(joint, len(table))
	for truth := range seen {
		seen[truth] = marginal(table[truth], k.responses, len(levels), coalition)
	}
	top := bits.Len(coalition) - 1
	alone := k.alone(levels[top])
	lossFaults(k, levels[top], seen, wrong)
	for code, possible := range seen[0] {
		if possible == nil {
			continue
		}
		best := digits(code, k.responses, len(levels))[top]
		weightAll, weightBest := number(0), number(0)
		for a := range seen {
			pa := seen[a][code]
			if bits.OnesCount(coalition) == 1 && !near(pa, alone[a][best], exactly) {
				wrong[wrongMarginal] = true
			}
			for b := range seen {
				if !near(mul(pa, alone[b][best]), mul(seen[b][code], alone[a][best]), exactly) {
					wrong[ratioDiffers] = true
				}
			}
			weightAll.Add(weightAll, mul(prior(a), pa))
			weightBest.Add(weightBest, mul(prior(a), alone[a][best]))
		}
		for a := range seen {
			posterior := quo(mul(prior(a), seen[a][code]), weightAll)
			if !near(posterior, quo(mul(prior(a), alone[a][best]), weightBest), exactly) {
				wrong[collusionPays] = true
			}
		}
	}
}

// lossFaults compares the largest likelihood ratio of each two true values with the allowed privacy
// loss.
func lossFaults(k kind, nano int64, seen joint, wrong map[string]bool) {
	e := middle(exact.Exp(nano, prec))
	for a := range seen {
		for b := range seen {
			bound := number(1)
			for range k.cost(a, b) {
				bound.Mul(bound, e)
			}
			largest := number(0)
			for code, pa := range seen[a] {
				if pa == nil {
					continue
				}
				if ratio := quo(pa, seen[b][code]); ratio.Cmp(largest) > 0 {
					largest = ratio
				}
			}
			if !near(largest, bound, exactly) {
				if largest.Cmp(bound) > 0 {
					wrong[lossAdds] = true
				} else {
					wrong[lossIsLess] = true
				}
			}
		}
	}
}

// prior returns the prior probability of a value, up to a constant factor. The values are not
// equally common.
func prior(value int) int { return 1 + value*value }

func sortedKeys(set map[string]bool) []string {
	var keys []string
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// For small questions, the promise of the package is proven by enumeration over all responses,
// orders of drawing, pairs of true values and coalitions of buyers.
func TestChain_AnyCoalition_LearnsOnlyTheHighestLevel(t *testing.T) {
	paper := []int64{100_000_000, 500_000_000, 1_000_000_000, 2_000_000_000, 10_000_000_000}
	awkward := []int64{1, 100_000_000, 100_000_001, 30_000_000_000}
	for _, c := range []struct {
		m      int64
		levels []int64
	}{
		{2, paper}, {3, paper}, {4, paper[:4]}, {5, paper[:4]}, {2, awkward}, {3, awkward},
	} {
		wantProof(t, fmt.Sprint("m=", c.m), chains(c.m, trueOdds), c.levels)
	}
}

// wantProof reports the faults that the enumeration finds.
func wantProof(t *testing.T, name string, k kind, levels []int64) {
	t.Helper()
	t.Run(fmt.Sprintf("%s, %v", name, levels), func(t *testing.T) {
		for _, violation := range collusionFaults(k, levels) {
			t.Error(violation)
		}
	})
}

// wrongOdds returns the probabilities with which a sampler draws if spoil changes its weights.
func wrongOdds(spoil func(exact.Weights) exact.Weights) func(law) odds {
	return func(l law) odds { return oddsOf(l.m, spoil(l.weights(prec))) }
}

// less returns x less some per cent of it.
func less(x exact.Interval, percent int64) exact.Interval {
	return x.Mul(exact.Int(100 - percent)).Quo(exact.Int(100))
}

// Three wrong laws: too low a probability of the value above (in favour of the one below), of the
// value below (in favour of a uniform one), and of the common value where both are equal.

func spoilFirst(percent int64) func(exact.Weights) exact.Weights {
	return func(w exact.Weights) exact.Weights {
		w.First = less(w.First, percent)
		return w
	}
}

func spoilEither(percent int64) func(exact.Weights) exact.Weights {
	return func(w exact.Weights) exact.Weights {
		w.Either = less(w.Either, percent)
		if w.Either.Float64() < w.First.Float64() {
			w.Either = w.First // as where there is no value below
		}
		return w
	}
}

func spoilSame(percent int64) func(exact.Weights) exact.Weights {
	return func(w exact.Weights) exact.Weights {
		w.Same = less(w.Same, percent)
		return w
	}
}

// fresh returns the law of a raise that draws a new randomized response, independent of the last
// one.
func fresh(l law) odds {
	if l.above == truthAbove {
		l.below = 0
	}
	return trueOdds(l)
}

// increment returns the law of a raise from ε₁ to ε₂ that draws a new randomized response at ε₂ −
// ε₁, as if the losses of independent responses were added.
func increment(l law) odds {
	if l.above == truthAbove {
		l.at, l.below = l.at-l.below, 0
	}
	return trueOdds(l)
}

// ignoreBelow returns the law of an insertion that degrades the level above and ignores the
// response below.
func ignoreBelow(l law) odds {
	if l.above != truthAbove {
		l.below = 0
	}
	return trueOdds(l)
}

// The test before relies on collusionFaults. It must detect laws that are wrong by 1 %, the two
// usual ways to respond again without this package, and an insertion that ignores the response
// below.
func TestCollusionFaults_WrongLaws_AreDetected(t *testing.T) {
	levels := []int64{500_000_000, 1_000_000_000, 2_000_000_000}
	all := []string{orderMatters, wrongMarginal, lossAdds, ratioDiffers, collusionPays}
	for _, c := range []struct {
		name string
		draw func(law) odds
		want []string
	}{
		{"First less 1 %", wrongOdds(spoilFirst(1)), append(all, lossIsLess)},
		{"Either less 1 %", wrongOdds(spoilEither(1)), all},
		{"Same less 1 %", wrongOdds(spoilSame(1)), append(all, lossIsLess)},
		{"fresh", fresh, []string{orderMatters, lossAdds, ratioDiffers, collusionPays}},
		{"increment", increment, []string{orderMatters, wrongMarginal, lossIsLess, ratioDiffers, collusionPays}},
		{"ignoreBelow", ignoreBelow, []string{orderMatters}},
		{"true", trueOdds, nil},
	} {
		c.want = slices.Sorted(slices.Values(c.want))
		for m := int64(3); m <= 4; m++ {
			got := collusionFaults(chains(m, c.draw), levels)
			check.That(t, slices.Equal(got, c.want), "%s, m=%d: found %q, want %q", c.name, m, got, c.want)
		}
	}
}
