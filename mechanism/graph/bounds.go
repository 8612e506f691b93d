package graph

import (
	"cmp"
	"math"
)

// Bounds says how much the answers of neighbouring datasets may differ. There are two kinds:
// [Privacy], and any suitable [Pair].
type Bounds interface {
	// stepper prepares many evaluations, after testing the parameters.
	stepper() (*stepper, error)
}

// chance is the probability of an event and of its opposite. Both are kept, so that neither loses
// its digits where the other is near 1.
type chance struct{ yes, no float64 }

func chanceOf(p float64) chance { return chance{p, 1 - p} }

func (c chance) opposite() chance { return chance{c.no, c.yes} }

// of returns the chance of output 0 from that of an output, or the other way round.
func (c chance) of(output int) chance {
	if output == 0 {
		return c
	}
	return c.opposite()
}

// below orders chances also where they differ in no alone.
func (c chance) below(d chance) bool { return c.yes < d.yes || c.yes == d.yes && c.no > d.no }

// compare puts chances in order.
func (c chance) compare(d chance) int {
	return cmp.Or(cmp.Compare(c.yes, d.yes), cmp.Compare(d.no, c.no))
}

// stepper goes from a dataset to its neighbours.
type stepper struct {
	pair Pair
	// fault is a [*PairError] once the pair has proved not to be suitable. From then on, next stays
	// where it is, and results mean nothing.
	fault error
}

func (dp Privacy) stepper() (*stepper, error) {
	if err := dp.Validate(); err != nil {
		return nil, err
	}
	return dp.Pair().stepper()
}

// tiny is what a probability that must stay above 0 does not fall below, lest it be rounded to 0
// and the ratio of neighbours to infinity. An error that is more likely than it may be costs no
// privacy.
const tiny = 1e-300

func (p Pair) stepper() (*stepper, error) {
	if p.Lower == nil || p.Upper == nil {
		return nil, invalid("a pair without both of its bounds")
	}
	return &stepper{pair: p}, nil
}

// next returns the largest chance of an output that a neighbour may have. It needs Upper alone: two
// chances are within the bounds of each other if each is at most the Upper of the other
// (torkamani2023 Lemma 9). But from 1/2 on the digits are in the opposite chance.
func (s *stepper) next(c chance) chance {
	if s.fault != nil {
		return c
	}
	yes, no := s.pair.Upper(c.yes), 0.0
	if s.fault = s.pair.checkStep(c, yes); s.fault != nil {
		return c
	}
	if yes = max(c.yes, yes); yes <= 0.5 {
		return chanceOf(yes)
	}
	if no, s.fault = s.pair.opposite(c, yes); s.fault != nil {
		return c
	}
	no = min(c.no, no)
	return chance{1 - no, no}
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

// balanced returns the largest chance of the true answer that all boundary datasets may have. It
// searches the least error x ≤ 1/2 with 1 − Upper(x) ≤ x, to the last digit. The
// difference of both sides increases with x, and at 1/2 it is at least 0.
func (s *stepper) balanced() chance {
	low, high := 0.0, 0.5
	for {
		middle := (low + high) / 2
		if middle == low || middle == high {
			return chance{1 - high, high}
		}
		if s.next(chanceOf(middle)).no <= middle {
			high = middle
		} else {
			low = middle
		}
	}
}

// within reports whether a dataset may have a chance beside a neighbour whose chance and bound are
// given. For both outputs what the bounds allow may be exceeded by [Tolerance]. That is more than
// testing one of them: where e^ε is large, a harmless excess of a chance near 1 is a great one of
// its opposite.
func within(steps *stepper, from, bound, to chance) bool {
	return to.yes <= bound.yes && to.no >= bound.no ||
		to.yes <= bound.yes+Tolerance && from.no <= steps.next(to.opposite()).yes+Tolerance
}

// walk returns the largest chance at a distance from a dataset with chance c.
func walk(steps *stepper, c chance, distance int) chance {
	for range distance {
		before := c
		if c = steps.next(c); c == before {
			break
		}
	}
	return c
}
