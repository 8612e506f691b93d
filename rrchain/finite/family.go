package finite

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Family is a mechanism at several ε, each one a degradation of the next: chains of responses can
// be drawn from it, each with the law of its own ε, that together cost the largest ε only.
//
// Read downwards, truth → oₙ → … → o₁ is a Markov chain by construction: each response is made from
// the one above by the channel between their levels. So given the highest response the others say
// nothing about the truth. The law in which a level is drawn, given those drawn before, follows by
// Bayes' rule, as in package rrchain for randomized response; which is the special case of a family
// that exists at all ε.
//
// A chain of responses belongs to one family. In another family that has its levels, and more of
// them, the channels between these may be others. A response that is then drawn between two others
// still costs nothing, but its law need not be that of its ε. (The families of a [Design] are all
// parts of one, as are those of mechanisms whose outputs are linearly independent as columns, for
// then there is one channel only.)
//
// A Family does not change, and may be used by several goroutines. The zero value has no levels;
// see [NewFamily].
type Family struct {
	levels   []*Matrix
	epsilons []privacy.Epsilon
	channels []*Matrix // channels[i] leads from level i+1 down to level i
}

// NewFamily returns the family of some mechanisms for the same inputs, by rising ε
// ([Matrix.Epsilon]), with a channel from each to the one before. Between two mechanisms of a
// [Design] the channel keeps an output with one probability, and else draws from a fixed law.
// Whether there is another is a linear program in its probabilities, whose answer is proven in
// rational arithmetic; of several channels it is one that keeps the number of the output as often
// as possible. A linear program for 1,000 probabilities takes seconds, and one for 4,000 minutes.
//
// NewFamily returns a [*NotDegradationError] if a mechanism is no degradation of the next;
// [privacy.ErrInvalid] for no mechanism, different numbers of inputs, an ε that is 0 or not above
// the one before, a channel of more than 4,096 probabilities (4,000 where it takes a linear
// program), or one found whose common denominator has more than 8,192 bits; and
// [privacy.ErrNoCertificate] if no proof was found with a bounded effort. When ctx ends, so does
// NewFamily, with its error, within the time of one step of the linear program: less than a second.
func NewFamily(ctx context.Context, levels ...*Matrix) (*Family, error) {
	f, err := ladder(levels)
	if err != nil {
		return nil, err
	}
	for i, higher := range levels[1:] {
		channel, err := degradation(ctx, higher, levels[i])
		if err != nil {
			return nil, fmt.Errorf("mechanism %d, at ε = %v, and the next, at ε = %v: %w",
				i, f.epsilons[i], f.epsilons[i+1], err)
		}
		f.channels = append(f.channels, channel)
	}
	return f, nil
}

// ladder returns a family that still lacks its channels.
func ladder(levels []*Matrix) (*Family, error) {
	if len(levels) == 0 {
		return nil, invalid("a family of no mechanisms")
	}
	f := &Family{levels: slices.Clone(levels)}
	for i, m := range levels {
		epsilon, err := m.Epsilon()
		if err != nil {
			return nil, fmt.Errorf("mechanism %d: %w", i, err)
		}
		if epsilon.IsZero() || i > 0 && !f.epsilons[i-1].Less(epsilon) {
			return nil, invalid("mechanism %d has ε = %v, which does not lie above the one before", i, epsilon)
		}
		f.epsilons = append(f.epsilons, epsilon)
	}
	return f, nil
}

// Epsilons returns the ε of all levels, rising.
func (f *Family) Epsilons() []privacy.Epsilon { return slices.Clone(f.epsilons) }

// Level returns the mechanism at exactly this ε, if there is one.
func (f *Family) Level(epsilon privacy.Epsilon) (*Matrix, bool) {
	i := f.find(epsilon)
	if i < 0 {
		return nil, false
	}
	return f.levels[i], true
}

// Channel returns the channel by which a response at exactly this ε is degraded to the level below,
// if there are such levels: from the outputs of the one to those of the other.
func (f *Family) Channel(epsilon privacy.Epsilon) (*Matrix, bool) {
	i := f.find(epsilon)
	if i < 1 {
		return nil, false
	}
	return f.channels[i-1], true
}

// find returns the number of a level, or −1.
func (f *Family) find(epsilon privacy.Epsilon) int {
	if f == nil {
		return none
	}
	return slices.Index(f.epsilons, epsilon)
}

// place says where in a family a response is drawn: at which level, by number, and which are the
// levels drawn before that are nearest to it. below is none where there is none; above is the
// truth, the number behind the last level, where there is none. lower is the response at the level
// below.
type place struct{ below, lower, at, above int }

const none = -1

// truth is the number that stands for the truth in the place of a level: the truth is a response at
// ε = ∞.
func (f *Family) truth() int { return len(f.levels) }

// fall returns the probabilities of the outputs at a level, given the output of a level above it,
// or the truth, in proportion to each other.
func (f *Family) fall(above, upper, at int) []*big.Int {
	if above == f.truth() {
		return f.levels[at].row(upper)
	}
	law := f.channels[above-1].row(upper)
	for level := above - 1; level > at; level-- {
		law = f.channels[level-1].after(law)
	}
	return law
}

// likelihood returns the probability of an output at a level below, given each output of a level,
// in proportion to each other.
func (f *Family) likelihood(at, below, lower int) []*big.Int {
	given := f.channels[below].column(lower)
	for level := below + 1; level < at; level++ {
		given = f.channels[level].before(given)
	}
	return given
}

// laws returns the cumulative probabilities of the outputs at a place, given each of some outputs
// above it (or truths), each law in proportion to its last number: of Pr(o) ∝ Pr(o |
// above)·Pr(below | o).
func (f *Family) laws(p place, uppers []int) ([][]*big.Int, error) {
	var given []*big.Int
	if p.below != none {
		given = f.likelihood(p.at, p.below, p.lower)
	}
	laws := make([][]*big.Int, len(uppers))
	for i, upper := range uppers {
		sum, product := new(big.Int), new(big.Int)
		for o, weight := range f.fall(p.above, upper, p.at) {
			if given != nil {
				weight = product.Mul(weight, given[o])
			}
			sum = new(big.Int).Add(sum, weight)
			laws[i] = append(laws[i], sum)
		}
		if sum.Sign() == 0 {
			return nil, invalid("responses that cannot occur together")
		}
	}
	return laws, nil
}

// Kernel returns the probabilities of each response at one ε given the truth and the response at a
// lower one: the law by which a response is raised. It returns [privacy.ErrInvalid] unless both are
// levels and from is the lower one, or if the last response is none of its level or never occurs
// there.
func (f *Family) Kernel(from, to privacy.Epsilon, truth, last int) ([]*big.Rat, error) {
	i, j := f.find(from), f.find(to)
	if i < 0 || j < 0 || i >= j {
		return nil, invalid("no raise from ε = %v to ε = %v in this family", from, to)
	}
	if err := f.checkTruth(truth); err != nil {
		return nil, err
	}
	if err := f.checkResponse(last, i); err != nil {
		return nil, err
	}
	laws, err := f.laws(place{i, last, j, f.truth()}, []int{truth})
	if err != nil {
		return nil, err
	}
	return probabilities(laws[0]), nil
}

// CanOccur reports whether one chain can have both responses: each has a probability above 0 at its
// ε, and the channel from the higher level makes the lower response of the higher one with a
// probability above 0. It reports false unless lower.Epsilon < higher.Epsilon are both levels.
func (f *Family) CanOccur(lower, higher rrchain.Level[int]) bool {
	i, j := f.find(lower.Epsilon), f.find(higher.Epsilon)
	if i < 0 || i >= j || f.checkResponse(lower.Response, i) != nil || f.checkResponse(higher.Response, j) != nil {
		return false
	}
	return f.fall(j, higher.Response, i)[lower.Response].Sign() > 0
}

// probabilities returns those of a cumulative law.
func probabilities(law []*big.Int) []*big.Rat {
	single, last := make([]*big.Rat, len(law)), new(big.Int)
	for o, sum := range law {
		single[o] = new(big.Rat).SetFrac(new(big.Int).Sub(sum, last), law[len(law)-1])
		last = sum
	}
	return single
}

// checkTruth refuses what is no input. The error does not contain it.
func (f *Family) checkTruth(input int) error {
	if f == nil || len(f.levels) == 0 {
		return invalid("a family of no mechanisms")
	}
	if inputs := f.levels[0].inputs; input < 0 || input >= inputs {
		return invalid("the truth is not one of the %d inputs", inputs)
	}
	return nil
}

// checkResponse refuses what is no output of a level, or one that never occurs. The latter does not
// depend on the truth: an output that is possible for one input is so for all, or there were no ε.
func (f *Family) checkResponse(output, level int) error {
	m := f.levels[level]
	if output < 0 || output >= m.outputs {
		return invalid("response %d at ε = %v, which has %d outputs", output, f.epsilons[level], m.outputs)
	}
	if m.at(0, output).Sign() == 0 {
		return invalid("response %d at ε = %v, which never occurs", output, f.epsilons[level])
	}
	return nil
}
