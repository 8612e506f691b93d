package graph

import "math"

// Bounds says how much the answers of neighbouring datasets may differ. There are two kinds:
// [Privacy], and any suitable [Pair].
type Bounds interface {
	// stepper prepares many evaluations, after testing the parameters.
	stepper() (stepper, error)
}

// chance is the probability of an event and of its opposite. Both are kept, so that neither loses
// its digits where the other is near 1.
type chance struct{ yes, no float64 }

func chanceOf(p float64) chance { return chance{p, 1 - p} }

func (c chance) opposite() chance { return chance{c.no, c.yes} }

// below orders chances also where they differ in no alone.
func (c chance) below(d chance) bool { return c.yes < d.yes || c.yes == d.yes && c.no > d.no }

// compare puts chances in order.
func (c chance) compare(d chance) int {
	switch {
	case c.below(d):
		return -1
	case d.below(c):
		return 1
	}
	return 0
}

// stepper goes from a dataset to its neighbours.
type stepper interface {
	// next returns the largest chance of an output that a neighbour may have: Upper.
	next(chance) (chance, error)
	// balanced returns the largest chance of the true answer that all boundary datasets may have.
	balanced() (chance, error)
}

// dpSteps are the steps of (ε,δ)-differential privacy.
type dpSteps struct {
	grow, again float64 // e^ε is their product; it may itself be above all float64
	shrink      float64 // e^−ε
	delta       float64
}

func (dp Privacy) stepper() (stepper, error) {
	if err := dp.Validate(); err != nil {
		return nil, err
	}
	s := dpSteps{scaled(1, dp.Epsilon, 1), 1, math.Exp(-dp.Epsilon), dp.Delta}
	if dp.Epsilon > 700 {
		s.grow = math.Exp(dp.Epsilon / 2)
		s.again = s.grow
	}
	return s, nil
}

// tiny is what a probability that must stay above 0 does not fall below, lest it be rounded to 0
// and the ratio of neighbours to infinity. An error that is more likely than it may be costs no
// privacy.
const tiny = 1e-300

// next is torkamani2023 Eq. (8) for both halves, each computed from the part that keeps its digits.
// So c.no is at most e^ε times next(c).no plus δ to the last digit, and next(c).yes at most e^ε
// times c.yes plus δ, however large ε is; and the halves do not drift apart, however many steps are
// made.
func (s dpSteps) next(c chance) (chance, error) {
	grown := c.yes*s.grow*s.again + s.delta
	if grown <= 0.5 { // by Lemma 3 this is then the lesser term, for the other is the lesser only from 1/2 on
		return chance{grown, 1 - grown}, nil
	}
	no := 0.0
	if c.no > s.delta {
		no = max(tiny, s.shrink*(c.no-s.delta))
	}
	no = min(c.no, max(no, 1-grown)) // the lesser term of Upper leaves the more of the opposite
	return chance{1 - no, no}, nil
}

// balanced solves x = e^ε (1 − x) + δ, as the proof of doliveira2021 Corollary 2 does.
func (s dpSteps) balanced() (chance, error) {
	no := max(tiny, (1-s.delta)*s.shrink/(1+s.shrink))
	return chance{1 - no, no}, nil
}

// pairSteps are the steps of a suitable pair.
type pairSteps struct{ pair Pair }

func (p Pair) stepper() (stepper, error) {
	if p.Lower == nil || p.Upper == nil {
		return nil, invalid("a pair without both of its bounds")
	}
	return pairSteps{p}, nil
}

// next needs Upper alone: two chances are within the bounds of each other if each is at most the
// Upper of the other (torkamani2023 Lemma 9). But from 1/2 on the digits are in the opposite
// chance.
func (s pairSteps) next(c chance) (chance, error) {
	yes := s.pair.Upper(c.yes)
	if err := s.pair.checkStep(c, yes); err != nil {
		return chance{}, err
	}
	if yes = max(c.yes, yes); yes <= 0.5 {
		return chanceOf(yes), nil
	}
	no, err := s.pair.opposite(c, yes)
	if err != nil {
		return chance{}, err
	}
	no = min(c.no, no)
	return chance{1 - no, no}, nil
}

// checkStep tests what concerns a chance c with Upper(c.yes) = yes.
func (p Pair) checkStep(c chance, yes float64) error {
	if !inRange(yes) {
		return &PairError{InRange, c.yes, yes, 1}
	}
	no := p.lower(c.no)
	switch {
	case !inRange(no):
		return &PairError{InRange, c.no, no, 1}
	case exceeds(c.yes, yes):
		return &PairError{UpperAbove, c.yes, c.yes, yes}
	case exceeds(yes, 1-no):
		return &PairError{Opposite, c.yes, yes, 1 - no}
	}
	return nil
}

// opposite returns 1 − yes for yes = Upper(c.yes) above 1/2, from the half of c that has the
// digits: Tradeoff of the one, or Lower of the other by property 3. (Where that is an inequality,
// and where c.no has lost its digits, the difference is right.)
func (p Pair) opposite(c chance, yes float64) (float64, error) {
	if c.yes <= 0.5 && p.Tradeoff != nil {
		no := p.Tradeoff(c.yes)
		if !inRange(no) {
			return 0, &PairError{InRange, c.yes, no, 1}
		}
		if apart := math.Abs(no - (1 - yes)); exceeds(apart, 0) {
			return 0, &PairError{TradeoffFits, c.yes, apart, 0}
		}
		return no, nil
	}
	if no := p.Lower(c.no); math.Abs(no-(1-yes)) <= rounding {
		return no, nil
	}
	return 1 - yes, nil
}

// balanced searches the least error x ≤ 1/2 with 1 − Upper(x) ≤ x, to the last digit. The
// difference of both sides increases with x, and at 1/2 it is at least 0.
func (s pairSteps) balanced() (chance, error) {
	low, high := 0.0, 0.5
	for {
		middle := (low + high) / 2
		if middle == low || middle == high {
			return chance{1 - high, high}, nil
		}
		bound, err := s.next(chanceOf(middle))
		if err != nil {
			return chance{}, err
		}
		if bound.no <= middle {
			high = middle
		} else {
			low = middle
		}
	}
}

// within says whether a dataset may have a chance beside a neighbour whose chance and bound are
// given. For both outputs what the bounds allow may be exceeded by [Tolerance]. That is more than
// testing one of them: where e^ε is large, a harmless excess of a chance near 1 is a great one of
// its opposite.
func within(steps stepper, from, bound, to chance) (bool, error) {
	if to.yes <= bound.yes && to.no >= bound.no {
		return true, nil
	}
	back, err := steps.next(to.opposite())
	if err != nil {
		return false, err
	}
	return to.yes <= bound.yes+Tolerance && from.no <= back.yes+Tolerance, nil
}

// walk returns the largest chance at a distance from a dataset with chance c.
func walk(steps stepper, c chance, distance int) (chance, error) {
	var err error
	for range distance {
		if c, err = steps.next(c); err != nil {
			break
		}
	}
	return c, err
}
