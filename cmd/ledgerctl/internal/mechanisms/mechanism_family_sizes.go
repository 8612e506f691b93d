package mechanisms

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// sizesFor returns the size of the subsets at each ε.
func (f *subsetFlags) sizesFor(values int) ([]int, error) {
	switch n := len(f.Epsilons); len(f.Sizes) {
	case 0:
		return f.bestSizes(values)
	case 1:
		return slices.Repeat(f.Sizes, n), nil
	case n:
		return f.Sizes, nil
	default:
		return nil, output.UsageError("give one size, or one for each ε", "--size has %d sizes, and --epsilon %d ε",
			len(f.Sizes), n)
	}
}

// way is subset selection at some ε, each a degradation of the next.
type way struct {
	last  step
	sizes []int
	cost  float64 // the sum of the logarithms of the variances
}

// bestSizes returns the sizes for which the product of the variances is least, among those for
// which there is a way from each ε to the next. What is best at each ε apart need not be so.
func (f *subsetFlags) bestSizes(values int) ([]int, error) {
	ways := []way{{}}
	for _, epsilon := range f.Epsilons {
		candidates, err := f.candidates(values, epsilon)
		if err != nil {
			return nil, err
		}
		ways, err = extend(ways, candidates, values)
		if err != nil {
			return nil, err
		}
	}
	return slices.MinFunc(ways, byCost).sizes, nil
}

func byCost(a, b way) int { return cmp.Compare(a.cost, b.cost) }

// extend returns the best way to each candidate for the next higher ε. The size always may stay as
// it is.
func extend(ways []way, candidates []step, values int) ([]way, error) {
	var longer []way
	for _, c := range candidates {
		variance, err := meanVariance(c.matrix)
		if err != nil {
			return nil, err
		}
		var below []way
		for _, w := range ways {
			if w.sizes == nil || leads(values, c, w.last) {
				below = append(below, w)
			}
		}
		if len(below) > 0 {
			best := slices.MinFunc(below, byCost)
			longer = append(longer, way{c, append(slices.Clone(best.sizes), c.size), best.cost + math.Log(variance)})
		}
	}
	return longer, nil
}

// candidates returns subset selection of all sizes for which there are few enough subsets.
func (f *subsetFlags) candidates(values int, epsilon privacy.Epsilon) ([]step, error) {
	most := finite.MaxCells
	if len(f.Epsilons) > 1 {
		most = 64 // subsets, so that the channel to the next ε does not get too large
	}
	var all []step
	for size := 1; size == 1 || size < values; size++ {
		s, err := subsetStep(values, size, epsilon)
		if err != nil && size == 1 {
			return nil, err
		}
		if err == nil && len(s.blocks) <= most {
			all = append(all, s)
		}
	}
	return all, nil
}

// leads tells whether subset selection at a lower ε is a degradation of that at a higher one: the
// condition that [finite.SubsetSelection] tells, but for what is too near the border for float64,
// and what would take a linear program of more than seconds. [finite.NewFamily] proves it
// afterwards.
func leads(values int, higher, lower step) bool {
	if higher.size == lower.size {
		return true
	}
	const most, margin = 1000, 1 + 1e-6
	if len(higher.blocks)*len(lower.blocks) > most {
		return false
	}
	m, s, t := float64(values), float64(higher.size), float64(lower.size)
	up, down := math.Exp(higher.epsilon.Float64()), math.Exp(lower.epsilon.Float64())
	if t > s {
		return t*(down-1)*margin <= s*(up-1)
	}
	return down*((s-t)*up+m-s)*margin <= up*(m-t)
}
