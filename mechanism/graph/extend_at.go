package graph

import (
	"cmp"
	"iter"
)

// Surroundings describes a graph of datasets by what is around a dataset, so that nobody has to
// build it; it may be endless. All functions must be deterministic.
type Surroundings[V comparable] struct {
	// Near yields the neighbours of a dataset. Being neighbours must be mutual.
	Near func(V) iter.Seq[V]
	// Color returns the true answer, 0 or 1.
	Color func(V) int
	// Given returns what the mechanism does at a dataset, as in [Given], and whether that is given
	// at all.
	Given func(V) (output int, probability float64, ok bool)
	// Least holds, for each output, a probability that no given dataset falls below. The greater it
	// is, the earlier a search can stop. 0 is always true.
	Least [2]float64
	// Limit is the largest number of datasets to look at; 0 means 10 million.
	Limit int
}

// ExtendAt returns the probabilities of the outputs 0 and 1 that [Extend] has at one dataset
// (torkamani2023 Algorithm 2). It looks at the datasets around it in the order of their distance,
// no farther than those that are given, and stops as soon as none that is farther can matter. It
// remembers the datasets that it looked at, and takes a time in proportion to their number, and in
// the worst case to the square of the greatest distance.
//
// It cannot know whether a mechanism exists that has all given probabilities, nor whether these are
// a boundary-hitting set, for that takes the whole graph; if not, the result is worth nothing. It
// reports what it comes across: an [*InputError] with the dataset for a colour, an output or a
// probability that is out of range, a given dataset with a probability below Least or above what is
// possible beside the result, and one of another colour that is not given beside one that is not
// given either. Else it returns [ErrInvalid] for a function that is nil, parameters that
// [Privacy.Validate] refuses and more datasets than Limit, and a [*PairError] if a suitable pair
// proves not to be one.
func ExtendAt[V comparable](around Surroundings[V], b Bounds, at V) ([2]float64, error) {
	if around.Near == nil || around.Color == nil || around.Given == nil || b == nil {
		return [2]float64{}, invalid("surroundings without neighbours, colours, given datasets or bounds")
	}
	steps, err := b.stepper()
	if err != nil {
		return [2]float64{}, err
	}
	color := around.Color(at)
	if color != 0 && color != 1 {
		return [2]float64{}, faultAt(at, "true answer %d is neither 0 nor 1", color)
	}
	least := around.Least[color]
	if !(least >= 0 && least <= 1) {
		return [2]float64{}, invalid("least probability %v is not in [0,1]", least)
	}
	if around.Limit <= 0 {
		around.Limit = 10_000_000
	}
	least = max(0, least-Tolerance) // 1 − 0.9 is less than 0.1
	s := &search[V]{around, steps, color, least, map[V]struct{}{at: {}}, nil}
	best, err := s.search(at)
	if err != nil {
		return [2]float64{}, err
	}
	law := best.of(color)
	return [2]float64{law.yes, law.no}, nil
}

// search is the state of ExtendAt. All chances are those of the true answer at the dataset it is
// for.
type search[V comparable] struct {
	around Surroundings[V]
	steps  *stepper
	color  int
	least  float64 // of the true answer, at all given datasets
	seen   map[V]struct{}
	rings  []ring[V]
}

// ring is what is given at one distance.
type ring[V comparable] struct {
	any         bool
	least, most chance
	where       V // of most
}

// search explores ring after ring.
func (s *search[V]) search(at V) (chance, error) {
	if c, ok, err := s.given(at); ok || err != nil {
		return c, err
	}
	lowest, best := chance{1, 0}, chance{1, 0} // of the rings; and the result, as far as they say
	// least is the smallest bound that any given dataset in the next ring may be the cause of.
	least := s.steps.next(chanceOf(s.least))
	for frontier := []V{at}; len(frontier) > 0 && least.below(best); least = s.steps.next(least) {
		var err error
		if frontier, err = s.expand(frontier); err != nil {
			return chance{}, err
		}
		// A ring binds only if it has a smaller chance than all before it.
		if last := s.rings[len(s.rings)-1]; last.any && last.least.below(lowest) {
			lowest = last.least
			if bound := walk(s.steps, lowest, len(s.rings)); bound.below(best) {
				best = bound
			}
		}
		if err := s.steps.fault; err != nil {
			return chance{}, err
		}
	}
	return best, s.checkAround(best)
}

// expand returns the datasets beyond the frontier that are not given, and notes in a new ring those
// that are.
func (s *search[V]) expand(frontier []V) (next []V, err error) {
	var found ring[V]
	for _, v := range frontier {
		for w := range s.around.Near(v) {
			if _, ok := s.seen[w]; ok {
				continue
			}
			if len(s.seen) >= s.around.Limit {
				return nil, invalid("more than %d datasets to look at", s.around.Limit)
			}
			s.seen[w] = struct{}{}
			c, ok, err := s.given(w)
			switch {
			case err != nil:
				return nil, err
			case ok:
				found.note(w, c)
			case s.around.Color(w) != s.color:
				return nil, faultAt(w, "has another true answer than its neighbour %v, and neither is given", v)
			default:
				next = append(next, w)
			}
		}
	}
	s.rings = append(s.rings, found)
	return next, nil
}

// given returns the chance of the true answer s.color at a dataset, if given.
func (s *search[V]) given(v V) (c chance, ok bool, err error) {
	output, probability, ok := s.around.Given(v)
	if !ok {
		return chance{}, false, nil
	}
	if c, err = givenChance(v, output, probability); err != nil {
		return chance{}, false, err
	}
	if c = c.of(s.color); c.yes < s.least {
		return chance{}, false, faultAt(v, "answers %d with probability %v, below the least, %v",
			s.color, c.yes, s.around.Least[s.color])
	}
	return c, true, nil
}

func (r *ring[V]) note(v V, c chance) {
	if !r.any || c.below(r.least) {
		r.least = c
	}
	if !r.any || r.most.below(c) {
		r.most, r.where = c, v
	}
	r.any = true
}

// checkAround tests the given chances that were seen against the result.
func (s *search[V]) checkAround(here chance) error {
	for i, r := range s.rings {
		bound := s.steps.next(here)
		if r.any && !within(s.steps, here, bound, r.most) {
			return cmp.Or(s.steps.fault, faultAt(r.where,
				"answers %d with probability %v; beside others it may with at most %v, at distance %d",
				s.color, r.most.yes, bound.yes, i+1))
		}
		here = bound
	}
	return s.steps.fault
}
