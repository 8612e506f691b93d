package graph

import "slices"

// Morphism maps the datasets of one graph to those of another, neighbours to neighbours or to the
// same dataset (doliveira2021 Definition 3). A mechanism on the second graph then gives one on the
// first, with the same guarantee: see [Morphism.Pullback].
type Morphism struct {
	from, to *Graph
	image    []uint32
}

// NewMorphism returns the morphism that takes each vertex v of a graph to image[v] in another,
// after testing every edge. It returns [ErrInvalid] for a wrong number of images, and an
// [*InputError] for an image that is not there, with the vertex, and for neighbours that go to two
// vertices which are not neighbours, with one of them, both being named in the text.
func NewMorphism(from, to *Graph, image []int) (*Morphism, error) {
	if len(image) != from.Vertices() {
		return nil, invalid("%d images for %d vertices", len(image), from.Vertices())
	}
	m := &Morphism{from, to, make([]uint32, len(image))}
	for v, w := range image {
		if w < 0 || w >= to.Vertices() {
			return nil, faultAt(v, "its image %d is not a vertex", w)
		}
		m.image[v] = uint32(w)
	}
	for v := range image {
		for _, w := range from.Neighbors(v) {
			if !m.joined(v, int(w)) {
				return nil, faultAt(v, "the edge to %d goes to %d and %d, which are not neighbours",
					w, image[v], image[w])
			}
		}
	}
	return m, nil
}

// joined says whether the images of two vertices are neighbours or the same.
func (m *Morphism) joined(v, w int) bool {
	a, b := m.image[v], m.image[w]
	if a == b {
		return true
	}
	_, found := slices.BinarySearch(m.to.Neighbors(int(a)), b)
	return found
}

// Image returns what a vertex of the first graph is mapped to.
func (m *Morphism) Image(v int) int { return int(m.image[v]) }

// Target returns the second graph.
func (m *Morphism) Target() *Graph { return m.to }

// CheckOrders tests whether each vertex ranks the outputs as its image does: whether the morphism
// preserves rainbows or, with two outputs, colours (doliveira2021 §III). It returns an
// [*InputError] with the first vertex that does not, and [ErrInvalid] for preferences that do not
// fit the graphs or have different numbers of outputs.
func (m *Morphism) CheckOrders(from, to *Preferences) error {
	if err := m.fits(from, to); err != nil {
		return err
	}
	for v, w := range m.image {
		if ours, theirs := from.Order(v), to.Order(int(w)); !slices.Equal(ours, theirs) {
			return faultAt(v, "it ranks the outputs %v, but its image %d %v", ours, w, theirs)
		}
	}
	return nil
}

// CheckDistances tests whether each vertex is as far from its boundary as its image is from its own
// (see [Distances]). If the morphism preserves orders too, the pullback of the optimal mechanism
// for a homogeneous boundary is again the optimal one, for both depend on these alone
// (doliveira2021 Theorem 3; zhou2022 Theorem 3 for more than two outputs). It returns an
// [*InputError] with the first vertex that is not, and [ErrInvalid] for preferences that do not fit
// the graphs or have different numbers of outputs.
func (m *Morphism) CheckDistances(from, to *Preferences) error {
	if err := m.fits(from, to); err != nil {
		return err
	}
	ours, theirs := m.from.distances(from), m.to.distances(to)
	for v, w := range m.image {
		if ours[v] != theirs[w] {
			return faultAt(v, "its distance from the boundary is %d, but that of its image %d is %d",
				ours[v], w, theirs[w])
		}
	}
	return nil
}

func (m *Morphism) fits(from, to *Preferences) error {
	switch {
	case from.Vertices() != m.from.Vertices():
		return invalid("a graph of %d vertices with preferences of %d", m.from.Vertices(), from.Vertices())
	case to.Vertices() != m.to.Vertices():
		return invalid("a second graph of %d vertices with preferences of %d", m.to.Vertices(), to.Vertices())
	case from.Outputs() != to.Outputs():
		return invalid("preferences over %d and %d outputs", from.Outputs(), to.Outputs())
	}
	return nil
}

// Pullback returns the mechanism on the first graph that answers at each vertex as a mechanism on
// the second does at its image. It is as private as that one: if that is (ε,δ)-differentially
// private between neighbours, or within the bounds of a suitable pair, so is the pullback, for
// neighbours answer like neighbours or alike (doliveira2021 Theorem 1). It returns [ErrInvalid] for
// a table of another size than the second graph.
func (m *Morphism) Pullback(t *Table) (*Table, error) {
	if t.Vertices() != m.to.Vertices() {
		return nil, invalid("a table of %d vertices for a graph of %d", t.Vertices(), m.to.Vertices())
	}
	pulled := NewTable(len(m.image), t.Outputs())
	for v, w := range m.image {
		copy(pulled.At(v), t.At(int(w)))
	}
	return pulled, nil
}

// BoundaryMorphism returns the boundary morphism of a graph with two colours, and the colours of
// the line that it goes to (doliveira2021 Definitions 6 and 7). The (n₀,n₁)-line has the vertices 0
// … n₀+n₁−1, each a neighbour of the next, the first n₀ of them of colour 0; n_j − 1 is the
// greatest distance from the boundary at colour j. A vertex of colour 0 at distance d goes to
// n₀−1−d, one of colour 1 to n₀+d. So colours and distances are preserved, and the optimum for a
// homogeneous boundary on the line, pulled back, is that on the graph (Theorem 3).
//
// It returns an [*InputError] with the first vertex from which no boundary can be reached, for the
// line has no place for it, and [ErrInvalid] for preferences of more than two outputs or another
// number of vertices, and for an empty graph.
func BoundaryMorphism(g *Graph, p *Preferences) (*Morphism, *Preferences, error) {
	if p.Outputs() != 2 {
		return nil, nil, invalid("preferences over %d outputs; a line has 2", p.Outputs())
	}
	distances, err := Distances(g, p)
	if err != nil {
		return nil, nil, err
	}
	if len(distances) == 0 {
		return nil, nil, invalid("a graph without vertices")
	}
	var n [2]int
	for v, distance := range distances {
		if distance == Unreachable {
			return nil, nil, faultAt(v, "no boundary can be reached")
		}
		n[p.Color(v)] = max(n[p.Color(v)], int(distance)+1)
	}
	image := make([]int, len(distances))
	for v, distance := range distances {
		image[v] = n[0] + int(distance)
		if p.Color(v) == 0 {
			image[v] = n[0] - 1 - int(distance)
		}
	}
	var pairs []uint64
	colors := make([]int, n[0]+n[1])
	for v := range colors {
		if v > 0 {
			pairs = append(pairs, uint64(v-1)<<32|uint64(v))
		}
		if v >= n[0] {
			colors[v] = 1
		}
	}
	line, err := ColorsOf(2, colors)
	if err != nil {
		return nil, nil, err
	}
	m, err := NewMorphism(g, graphOf(len(colors), pairs), image)
	return m, line, err
}
