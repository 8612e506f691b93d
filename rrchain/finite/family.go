package finite

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Family is a list of mechanisms at several ε, each one a degradation of the next. The responses of
// a chain drawn from it each have the law of their own ε, and together cost only the largest ε.
//
// Read downwards, truth → oₙ → … → o₁ is a Markov chain by construction: each response is computed
// from the one above by the channel between their levels. So given the highest response, the others
// contain no information about the true value. The law of a level, given the levels drawn before,
// follows from Bayes' rule, as in package rrchain for randomized response. Randomized response is
// the special case of a family that exists at all ε.
//
// A chain of responses belongs to one family. Another family that has the same levels, and more,
// may have different channels between them. A response that is then drawn between two others still
// costs nothing, but its law need not be the law of its ε. (The families of a [Design] are all
// parts of one family. So are those of mechanisms whose outputs are linearly independent as
// columns, because then there is only one channel.)
//
// A Family is immutable and safe for concurrent use. The zero value has no levels; see [NewFamily].
type Family struct {
	levels   []*Matrix
	epsilons []privacy.Epsilon
	channels []*Matrix // channels[i] leads from level i+1 down to level i
}

// NewFamily returns the family of some mechanisms for the same inputs, by rising ε
// ([Matrix.Epsilon]), with a channel from each to the preceding one. Between two mechanisms of a
// [Design], the channel keeps an output with the same probability for all outputs, and otherwise
// draws from a fixed law. If there is no such channel, a linear program in its probabilities
// decides whether there is another, with a proof in rational arithmetic. If there are several, the
// result is one that keeps the number of the output as often as possible. A linear program for
// 1,000 probabilities takes seconds, and one for 4,000 minutes.
//
// NewFamily returns a [*NotDegradationError] if a mechanism is not a degradation of the next. It
// returns [privacy.ErrInvalid] for no mechanism, different numbers of inputs, or an ε that is 0 or
// not above the preceding one. It also does so for a channel of more than 4,096 probabilities
// (4,000 if it needs a linear program), or one whose common denominator has more than 8,192 bits.
// It returns [privacy.ErrNoCertificate] if it found no proof with bounded work. When ctx ends,
// NewFamily returns its error within the time of one step of the linear program, which is less than
// a second.
func NewFamily(ctx context.Context, levels ...*Matrix) (*Family, error) {
	f, err := levelsOnly(levels)
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

// levelsOnly returns a family without channels. It returns [privacy.ErrInvalid] unless there is a
// mechanism, and each has an ε above 0 and above the one before.
func levelsOnly(levels []*Matrix) (*Family, error) {
	if len(levels) == 0 {
		return nil, invalid("the family has no mechanisms")
	}
	f := &Family{levels: slices.Clone(levels)}
	for i, m := range levels {
		epsilon, err := m.Epsilon()
		if err != nil {
			return nil, fmt.Errorf("mechanism %d: %w", i, err)
		}
		if epsilon.IsZero() || i > 0 && !f.epsilons[i-1].Less(epsilon) {
			return nil, invalid("mechanism %d has ε = %v; every ε must be above 0 and above the one before", i, epsilon)
		}
		f.epsilons = append(f.epsilons, epsilon)
	}
	return f, nil
}

// Epsilons returns the ε of all levels, in rising order.
func (f *Family) Epsilons() []privacy.Epsilon { return slices.Clone(f.epsilons) }

// Level returns the mechanism at exactly this ε. It returns false if there is none.
func (f *Family) Level(epsilon privacy.Epsilon) (*Matrix, bool) {
	i := f.find(epsilon)
	if i < 0 {
		return nil, false
	}
	return f.levels[i], true
}

// Channel returns the channel by which a response at exactly this ε is degraded to the next lower
// level. It maps the outputs of this level to those of the lower one. It returns false if there is
// no level at this ε or none below it.
func (f *Family) Channel(epsilon privacy.Epsilon) (*Matrix, bool) {
	i := f.find(epsilon)
	if i < 1 {
		return nil, false
	}
	return f.channels[i-1], true
}

// find returns the index of the level at exactly this ε, or −1 if there is none or f is nil.
func (f *Family) find(epsilon privacy.Epsilon) int {
	if f == nil {
		return none
	}
	return slices.Index(f.epsilons, epsilon)
}

// place describes where in a family a response is drawn. at is the index of its level. below and
// above are the indexes of the nearest levels that are already drawn. below is none if there is no
// level below. above is [Family.truth] if there is no level above. lower is the response at the
// level below.
type place struct{ below, lower, at, above int }

// none is the value of place.below if there is no level below, and of [Family.find] if there is no
// such level.
const none = -1

// truth returns the index that represents the true value, which is a response at ε = ∞.
func (f *Family) truth() int { return len(f.levels) }

// lawGiven returns numbers proportional to the probabilities of the outputs at the level with index
// at. above is the index of a higher level, and upper its output; or above is [Family.truth], and
// upper is the true value. It follows the channels downwards.
func (f *Family) lawGiven(above, upper, at int) []*big.Int {
	if above == f.truth() {
		return f.levels[at].row(upper)
	}
	law := f.channels[above-1].row(upper)
	for level := above - 1; level > at; level-- {
		law = f.channels[level-1].outputLaw(law)
	}
	return law
}

// likelihood returns a number for each output o at the level with index at. It is proportional to
// the probability of the output `lower` at the level with index below, given o. likelihood follows
// the channels upwards.
func (f *Family) likelihood(at, below, lower int) []*big.Int {
	given := f.channels[below].column(lower)
	for level := below + 1; level < at; level++ {
		given = f.channels[level].meansGiven(given)
	}
	return given
}

// laws returns the cumulative probabilities of the outputs at a place, one law for each of uppers:
// outputs at the level above, or true values. The probabilities are Pr(o) ∝ Pr(o | above)·Pr(below
// | o), by Bayes' rule. Each law has its own scale, and its last number represents 1. laws returns
// [privacy.ErrInvalid] if no output is possible between the responses.
func (f *Family) laws(p place, uppers []int) ([][]*big.Int, error) {
	var given []*big.Int
	if p.below != none {
		given = f.likelihood(p.at, p.below, p.lower)
	}
	laws := make([][]*big.Int, len(uppers))
	for i, upper := range uppers {
		sum, product := new(big.Int), new(big.Int)
		for o, weight := range f.lawGiven(p.above, upper, p.at) {
			if given != nil {
				weight = product.Mul(weight, given[o])
			}
			sum = new(big.Int).Add(sum, weight) // a new number, because the law keeps the last one
			laws[i] = append(laws[i], sum)
		}
		if sum.Sign() == 0 {
			return nil, invalid("the responses cannot occur together in one chain")
		}
	}
	return laws, nil
}

// Kernel returns the probabilities of each response at one ε given the true value and the response
// at a lower ε. It is the law by which a response is raised. It returns [privacy.ErrInvalid] unless
// both ε are levels and from is the lower one. It also does so if the last response is not an
// output of its level, or never occurs there.
func (f *Family) Kernel(from, to privacy.Epsilon, truth, last int) ([]*big.Rat, error) {
	i, j := f.find(from), f.find(to)
	if i < 0 || j < 0 || i >= j {
		return nil, invalid("ε = %v and ε = %v are not two rising levels of the family", from, to)
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

// CanOccur returns true if one chain can have both responses. Each must have a probability above 0
// at its ε, and the channel must map the higher response to the lower one with a probability above
// 0. It returns false unless lower.Epsilon < higher.Epsilon are both levels.
func (f *Family) CanOccur(lower, higher rrchain.Level[int]) bool {
	i, j := f.find(lower.Epsilon), f.find(higher.Epsilon)
	if i < 0 || i >= j || f.checkResponse(lower.Response, i) != nil || f.checkResponse(higher.Response, j) != nil {
		return false
	}
	return f.lawGiven(j, higher.Response, i)[lower.Response].Sign() > 0
}

// probabilities returns the probability of each output from a cumulative law, whose last number
// represents 1.
func probabilities(law []*big.Int) []*big.Rat {
	single, last := make([]*big.Rat, len(law)), new(big.Int)
	for o, sum := range law {
		single[o] = new(big.Rat).SetFrac(new(big.Int).Sub(sum, last), law[len(law)-1])
		last = sum
	}
	return single
}

// checkTruth returns [privacy.ErrInvalid] for a number that is not an input, and for a family
// without levels. The error does not contain the number.
func (f *Family) checkTruth(input int) error {
	if f == nil || len(f.levels) == 0 {
		return invalid("the family has no mechanisms")
	}
	if inputs := f.levels[0].inputs; input < 0 || input >= inputs {
		return invalid("the true value is not one of the %d inputs", inputs)
	}
	return nil
}

// checkResponse returns [privacy.ErrInvalid] for a number that is not an output of a level, or an
// output that never occurs. The latter does not depend on the true value: an output that is
// possible for one input is possible for all, because otherwise the mechanism would have no ε.
func (f *Family) checkResponse(output, level int) error {
	m := f.levels[level]
	if output < 0 || output >= m.outputs {
		return invalid("response %d at ε = %v; its outputs are 0 to %d", output, f.epsilons[level], m.outputs-1)
	}
	if m.at(0, output).Sign() == 0 {
		return invalid("response %d at ε = %v never occurs: its probability is 0", output, f.epsilons[level])
	}
	return nil
}
