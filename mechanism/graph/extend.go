package graph

import (
	"maps"
	"math"
	"slices"
)

// extend solves the problem of [Problem.Given] for two outputs. It returns a [*ConflictError] if no
// mechanism has the given laws, and an [*InputError] for an invalid one.
//
// torkamani2023 Algorithm 1 uses all distances and all pairs of given vertices. extend instead does
// one sweep for each colour, over disjoint parts of the graph: the vertices of that colour without
// a given law.
func (p Problem) extend() (Table, error) {
	s := newSweep(p)
	if err := s.place(p.Given); err != nil {
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
	t := make(Table, len(s.from))
	for v, from := range s.from {
		if from >= unseen { // no given vertex can be reached
			s.set(v, int(from-unseen), chance{1, 0})
		}
		t[v] = s.laws[2*v : 2*v+2 : 2*v+2]
	}
	return t, nil
}

// sweep computes the minimum that [Problem.Solve] describes, for one colour after the other. A
// label is the largest [chance] of the true answer at a vertex that one path from a given vertex
// allows. The search for the smallest labels is a shortest-path problem in which a step maps a
// chance to its [Privacy.Upper]. This map is the same increasing function on all edges, and does
// not decrease a chance. So labels are removed in non-decreasing order, and new ones are added in
// non-decreasing order too. They form a queue as in a breadth-first search, and the first label of
// a vertex is its smallest. Only the given vertices must be sorted and merged in.
//
// A sweep stops at given vertices, and compares. This is sufficient for two reasons. If no label is
// below a given chance, no path through that vertex leads to a smaller label than the vertex
// itself. And if some given chance is too large for another at a distance, so is one along the path
// between both, over which no third vertex is given. Inside such a path all vertices have one
// colour, because one end of each edge between two colours is given. So the sweep for a colour need
// only enter vertices of that colour. By torkamani2023 Lemma 9, it does not matter for which colour
// a path is tested.
type sweep struct {
	graph   *Graph
	steps   powers
	laws    []float64   // two probabilities a vertex
	sources [2][]source // the given vertices with free neighbours, by the colour of the neighbours
	queue   []uint32    // the labelled vertices of the present colour, in the order of their labels
	// here is the chance of the last visited vertex, and bound the largest chance of its
	// neighbours. They are kept because the next vertex often has the same chance.
	here, bound chance
	// from is, by vertex, the vertex that its label came from, or the vertex itself if its law is
	// given. For a vertex without a label, it is unseen + its colour.
	from []uint32
}

// unseen and unseen+1 are the values of sweep.from for vertices of colour 0 and 1 without a label.
const unseen = math.MaxUint32 - 1

// source is a given vertex with its chance. The chance is copied here so that sorting reads
// contiguous memory.
type source struct {
	vertex uint32
	chance chance // the chance of the colour
}

// newSweep returns a sweep in which no vertex has a law yet.
func newSweep(p Problem) *sweep {
	n := p.Graph.Vertices()
	s := &sweep{graph: p.Graph, steps: p.Privacy.powers(), laws: make([]float64, 2*n)}
	s.queue = make([]uint32, 0, n)
	s.from = make([]uint32, n)
	for v := range s.from {
		s.from[v] = unseen + uint32(p.Preferences.Color(v))
	}
	return s
}

// set stores the chance of an output in the law of v.
func (s *sweep) set(v, output int, c chance) {
	s.laws[2*v+output], s.laws[2*v+1-output] = c.yes, c.no
}

// chance returns the chance of an output in the law of v.
func (s *sweep) chance(v, output int) chance {
	return chance{s.laws[2*v+output], s.laws[2*v+1-output]}
}

// place stores the given laws. It returns an [*InputError] for a vertex that does not exist, or an
// invalid law.
func (s *sweep) place(given map[int][]float64) error {
	for _, v := range slices.Sorted(maps.Keys(given)) {
		if v < 0 || v >= s.graph.Vertices() {
			return faultAt(v, "there is no such vertex")
		}
		if reason := lawFault(given[v], 2); reason != "" {
			return faultAt(v, "given law %v: %s", given[v], reason)
		}
		s.set(v, 0, chanceIn(given[v]))
		s.from[v] = uint32(v)
	}
	return nil
}

// scan iterates over all edges in order and finds the sources of both sweeps. It returns a
// [*ConflictError] if neither end of a boundary edge is given, or if the laws of given neighbours
// exclude each other.
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
				return &ConflictError{From: v, To: int(w), Missing: true}
			}
		}
	}
	return nil
}

// scanGiven checks a given vertex v against its given neighbours, once for each edge. It adds v to
// the sources of each colour that a neighbour without a law has.
func (s *sweep) scanGiven(v int) error {
	var beside [2]bool // by colour: a neighbour without a law has it
	for _, w := range s.graph.Neighbors(v) {
		if from := s.from[w]; from >= unseen {
			beside[from-unseen] = true
		} else if int(w) > v {
			if err := s.checkEdge(edge{v, int(w), 0}); err != nil {
				return err
			}
		}
	}
	for color, is := range beside {
		if is {
			s.sources[color] = append(s.sources[color], source{uint32(v), s.chance(v, color)})
		}
	}
	return nil
}

// run labels all vertices of a colour that are not given. It visits sources and labelled vertices
// in the order of their chances. It returns a [*ConflictError] if a given law is not possible.
func (s *sweep) run(color int) error {
	sources := s.sources[color]
	slices.SortFunc(sources, func(a, b source) int { return a.chance.compare(b.chance) })
	s.queue = s.queue[:0]
	for done := 0; done < len(s.queue) || len(sources) > 0; { // the first done vertices of the queue are visited
		var v uint32
		if done == len(s.queue) ||
			len(sources) > 0 && sources[0].chance.below(s.chance(int(s.queue[done]), color)) {
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

// visit labels the neighbours of v, whose own label or given chance is final. It returns a
// [*ConflictError] if the chance of a given neighbour is too large. From a given v, given
// neighbours are not checked, because scan has done that.
func (s *sweep) visit(v uint32, color int) error {
	here := s.chance(int(v), color)
	if here != s.here { // many consecutive vertices have the same chance
		s.here, s.bound = here, s.steps.next(here)
	}
	free := s.from[v] != v
	for _, w := range s.graph.Neighbors(int(v)) {
		switch from := s.from[w]; {
		case from == unseen+uint32(color):
			s.set(int(w), color, s.bound)
			s.from[w] = v
			s.queue = append(s.queue, w)
		case from == w && free:
			if there := s.chance(int(w), color); !s.steps.within(here, s.bound, there) {
				return s.conflict(edge{int(v), int(w), color}, there)
			}
		}
	}
	return nil
}

// edge is an edge with the output whose chances are compared at its ends.
type edge struct{ from, to, output int }

// checkEdge returns a [*ConflictError] if the chances of the output at both ends of an edge exclude
// each other, in either direction.
func (s *sweep) checkEdge(e edge) error {
	for range 2 {
		from, to := s.chance(e.from, e.output), s.chance(e.to, e.output)
		if !s.steps.within(from, s.steps.next(from), to) {
			return s.steps.conflict(e, 1, from, to)
		}
		e.from, e.to = e.to, e.from
	}
	return nil
}

// conflict returns the error for the given vertex e.to, whose chance `there` is too large beside
// its neighbour e.from. It follows the labels back, and names the given vertex that the label of
// the neighbour came from.
func (s *sweep) conflict(e edge, there chance) error {
	distance := 1
	for ; s.from[e.from] != uint32(e.from); distance++ {
		e.from = int(s.from[e.from])
	}
	return s.steps.conflict(e, distance, s.chance(e.from, e.output), there)
}

// conflict returns the error for chances of the output e.output at two vertices at a distance that
// exclude each other. The chance `to` may be within its bound. Then the chance of the opposite
// output at e.from is above its bound, and the error names that output and exchanges the vertices.
func (p powers) conflict(e edge, distance int, from, to chance) error {
	bound := p.walk(from, distance)
	if to.yes <= bound.yes+tolerance {
		e = edge{e.to, e.from, 1 - e.output}
		from, to = to.opposite(), from.opposite()
		bound = p.walk(from, distance)
	}
	return &ConflictError{From: e.from, To: e.to, Outputs: []int{e.output}, Distance: distance,
		FromProbability: from.yes, ToProbability: to.yes, Bound: bound.yes}
}
