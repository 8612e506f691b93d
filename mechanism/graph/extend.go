package graph

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Given fixes what a mechanism with two outputs does at one vertex: it answers Output with
// Probability. Of a probability near 1 that of the other output should be given instead: it has
// more digits.
type Given struct {
	Vertex, Output int     // where, and what
	Probability    float64 // from 0 to 1
}

// Extend returns the optimal mechanism with two outputs that has the given probabilities at some
// vertices, which need not be alike. At every other vertex w it gives the true answer T(w) with the
// largest probability possible, for all vertices at once,
//
//	min over given h of U^dist(w,h)(Pr[h answers T(w)]),
//
// where U is Upper (torkamani2023 Theorem 1, for suitable pairs Theorem 2). So it is the best for
// every utility that increases with the probability of the true answer. This is unique only if the
// given vertices are a boundary-hitting set: one end at least of each edge between two colours. In
// a component without a given vertex, which then has no boundary, the true answer has probability
// 1.
//
// The mechanism keeps to the bounds between neighbours, for [Privacy] it is (ε,δ)-differentially
// private, with a slack of [Tolerance] for rounding: next to a given vertex, a probability may be
// above what the bounds allow by so much. Elsewhere both probabilities of a row have all their
// digits, as those of [BinaryHomogeneous] do.
//
// Instead of torkamani2023 Algorithm 1, with all distances and all pairs of given vertices, there
// is one sweep for each colour, over disjoint parts of the graph: O(|V| + |E| + |H| log |H|) for
// |H| given vertices.
//
// It returns an [*InputError] with the vertex for a vertex that is not there or given twice, an
// output other than 0 and 1, or a probability outside [0,1]; a [*MissedEdgeError] if the set does
// not hit the boundary; a [*ConflictError] with two given vertices if no mechanism has all the
// given probabilities; a [*PairError] if a suitable pair proves not to be one; and [ErrInvalid] for
// preferences of more than two outputs or another number of vertices, or parameters that
// [Privacy.Validate] refuses.
func Extend(g *Graph, p *Preferences, b Bounds, given []Given) (*Table, error) {
	s, err := newSweep(g, p, b)
	if err != nil {
		return nil, err
	}
	if err := s.place(given); err != nil {
		return nil, err
	}
	if err := s.scan(); err != nil {
		return nil, err
	}
	for color := range 2 {
		if err := s.run(color); err != nil {
			return nil, err
		}
	}
	if err := s.steps.fault; err != nil {
		return nil, err
	}
	for v, from := range s.from {
		if from >= unseen { // no given vertex can be reached
			s.table.set(v, int(from-unseen), chance{1, 0})
		}
	}
	return s.table, nil
}

// MissedEdgeError says that a set of vertices does not hit the boundary: an edge joins two colours,
// and neither end is in the set. It wraps [ErrInvalid].
type MissedEdgeError struct{ From, To int }

func (e *MissedEdgeError) Error() string {
	return fmt.Sprintf("vertices %d and %d are neighbours with different true answers, and neither is given",
		e.From, e.To)
}

// Unwrap returns [ErrInvalid].
func (e *MissedEdgeError) Unwrap() error { return ErrInvalid }

// sweep computes the minimum of [Extend]. It is a shortest-path problem in which a step takes a
// chance to its Upper. As this is the same increasing function on all edges, and does not lessen a
// chance, labels come off in non-decreasing order and new ones are in non-decreasing order too:
// they queue behind each other as in a breadth-first search, the first label of a vertex is its
// least, and the given vertices need only be sorted and merged in.
//
// A sweep stops at given vertices, and compares. That is enough: if no label undercuts a given
// chance, no path through that vertex leads to a smaller label than the vertex itself; and if some
// given chance is too large for another at a distance, so is one along the path between both, over
// which no third vertex is given. Inside such a path all vertices have one colour, for an edge
// between two colours is hit. So the sweep for a colour need only enter vertices of that colour,
// and (by torkamani2023 Lemma 9) it does not matter for which colour a path is tested.
type sweep struct {
	graph   *Graph
	steps   *stepper
	table   *Table
	sources [2][]source // the given vertices beside free ones, by the colour of these
	queue   []uint32
	// here is the chance of the vertex that was visited last, and bound that of its neighbours.
	here, bound chance
	// from is the vertex that a label came from, the vertex itself if it is given, or else unseen +
	// its colour.
	from []uint32
}

const unseen = math.MaxUint32 - 1

// source is a given vertex, with its chance beside it: what is sorted should not be scattered.
type source struct {
	vertex uint32
	chance chance // of the colour
}

func newSweep(g *Graph, p *Preferences, b Bounds) (*sweep, error) {
	steps, err := binarySteps(p, b)
	if err != nil {
		return nil, err
	}
	if g.Vertices() != p.Vertices() {
		return nil, invalid("a graph of %d vertices with preferences of %d", g.Vertices(), p.Vertices())
	}
	s := &sweep{graph: g, steps: steps, table: NewTable(g.Vertices(), 2)}
	s.queue = make([]uint32, 0, g.Vertices())
	s.from = make([]uint32, g.Vertices())
	for v := range s.from {
		s.from[v] = unseen + uint32(p.Color(v))
	}
	return s, nil
}

// place puts the given chances into the table.
func (s *sweep) place(given []Given) error {
	for _, h := range given {
		switch {
		case h.Vertex < 0 || h.Vertex >= s.graph.Vertices():
			return faultAt(h.Vertex, "there is no such vertex")
		case s.from[h.Vertex] < unseen:
			return faultAt(h.Vertex, "given twice")
		}
		c, err := givenChance(h.Vertex, h.Output, h.Probability)
		if err != nil {
			return err
		}
		s.table.set(h.Vertex, 0, c)
		s.from[h.Vertex] = uint32(h.Vertex)
	}
	return nil
}

// givenChance returns the chance of output 0 that is given.
func givenChance[V any](vertex V, output int, probability float64) (chance, error) {
	switch {
	case output != 0 && output != 1:
		return chance{}, faultAt(vertex, "output %d is neither 0 nor 1", output)
	case !(probability >= 0 && probability <= 1):
		return chance{}, faultAt(vertex, "probability %v is not in [0,1]", probability)
	}
	return chanceOf(probability).of(output), nil
}

// scan goes through all edges in order: it tests that one end of each boundary edge is given and
// that given neighbours do not exclude each other, and finds the sources.
func (s *sweep) scan() error {
	for v, color := range s.from {
		if color < unseen {
			if err := s.scanGiven(v); err != nil {
				return err
			}
			continue
		}
		for _, w := range s.graph.Neighbors(v) {
			if other := s.from[w]; other >= unseen && other != color {
				return &MissedEdgeError{v, int(w)}
			}
		}
	}
	return nil
}

func (s *sweep) scanGiven(v int) error {
	var beside [2]bool
	for _, w := range s.graph.Neighbors(v) {
		if from := s.from[w]; from >= unseen {
			beside[from-unseen] = true
		} else if int(w) > v {
			err := checkEdge(s.steps, edge{v, int(w), 0}, s.table.chance(v, 0), s.table.chance(int(w), 0))
			if err != nil {
				return err
			}
		}
	}
	for color, is := range beside {
		if is {
			s.sources[color] = append(s.sources[color], source{uint32(v), s.table.chance(v, color)})
		}
	}
	return nil
}

// run labels all vertices of a colour that are not given.
func (s *sweep) run(color int) error {
	sources := s.sources[color]
	slices.SortFunc(sources, func(a, b source) int { return a.chance.compare(b.chance) })
	s.queue = s.queue[:0]
	for done := 0; done < len(s.queue) || len(sources) > 0; {
		var v uint32
		if done == len(s.queue) ||
			len(sources) > 0 && sources[0].chance.below(s.table.chance(int(s.queue[done]), color)) {
			v, sources = sources[0].vertex, sources[1:]
		} else {
			v = s.queue[done]
			done++
		}
		if err := s.visit(v, color); err != nil {
			return err
		}
	}
	return nil
}

// visit labels the neighbours of a vertex whose own label is final, and compares those that are
// given.
func (s *sweep) visit(v uint32, color int) error {
	here := s.table.chance(int(v), color)
	if here != s.here { // many that follow each other are alike
		s.here, s.bound = here, s.steps.next(here)
	}
	if n := len(s.queue); n > 0 {
		// The order of the queue rests on this: the bound of a chance is not below those of smaller
		// ones. Differences by rounding are no more than an error of that size in the result.
		if last := s.table.chance(int(s.queue[n-1]), color); exceeds(last.yes, s.bound.yes) {
			return cmp.Or[error](s.steps.fault, &PairError{UpperGrows, here.yes, last.yes, s.bound.yes})
		}
	}
	free := s.from[v] != v
	for _, w := range s.graph.Neighbors(int(v)) {
		switch from := s.from[w]; {
		case from == unseen+uint32(color):
			s.table.set(int(w), color, s.bound)
			s.from[w] = v
			s.queue = append(s.queue, w)
		case from == w && free:
			if there := s.table.chance(int(w), color); !within(s.steps, here, s.bound, there) {
				return s.conflict(edge{int(v), int(w), color}, there)
			}
		}
	}
	return nil
}

// conflict names, for a given vertex whose chance is too large beside a neighbour, the given vertex
// that the label of the neighbour came from.
func (s *sweep) conflict(e edge, there chance) error {
	distance := 1
	for ; s.from[e.from] != uint32(e.from); distance++ {
		e.from = int(s.from[e.from])
	}
	return conflict(s.steps, e, distance, s.table.chance(e.from, e.output), there)
}
