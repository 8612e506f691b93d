package graph

import (
	"fmt"
	"iter"
	"math"
	"slices"
)

// Graph is an undirected graph of datasets. The vertices 0 … n−1 are datasets, and an edge joins
// two that differ by one individual. It is immutable and compact: 8 bytes a vertex and 8 an edge.
type Graph struct {
	first []uint64 // near[first[v]:first[v+1]] are the neighbours of v, in order
	near  []uint32
}

// maxVertices is the largest number of vertices of an explicit graph.
const maxVertices = math.MaxInt32

// New returns the graph with the given number of vertices and edges, each edge given once, in
// either direction. nil means no edges. New returns an [*InputError] for an end out of range, an
// edge from a vertex to itself, or a repeated edge. It returns [privacy.ErrInvalid] for fewer than
// 0 or 2^31 or more vertices. During the call, it takes 8 bytes an edge in addition to the graph.
func New(vertices int, edges iter.Seq2[int, int]) (*Graph, error) {
	if vertices < 0 || vertices > maxVertices {
		return nil, invalid("a graph of %d vertices; 0 to %d are possible", vertices, maxVertices)
	}
	pairs, err := collect(vertices, edges)
	if err != nil {
		return nil, err
	}
	g := graphOf(vertices, pairs)
	if v, w, twice := g.parallel(); twice {
		return nil, &InputError{Edge: secondOf(pairs, v, w), Reason: fmt.Sprintf("the edge between %d and %d is "+
			"given twice", v, w)}
	}
	return g, nil
}

// collect returns each edge as a number, with its first end in the upper 32 bits and its second end
// in the lower ones. It returns an [*InputError] for an edge that the graph cannot have.
func collect(vertices int, edges iter.Seq2[int, int]) (pairs []uint64, err error) {
	if edges == nil {
		return nil, nil
	}
	for a, b := range edges {
		if reason := edgeFault(vertices, a, b); reason != "" {
			return nil, &InputError{Edge: len(pairs) + 1, Reason: reason}
		}
		pairs = append(pairs, uint64(a)<<32|uint64(b))
	}
	return pairs, nil
}

// graphOf returns the graph with the edges of [collect]. If an edge is repeated, it is stored as
// several parallel edges.
func graphOf(vertices int, pairs []uint64) *Graph {
	g := &Graph{first: make([]uint64, vertices+1)}
	// Element v+1 counts the neighbours of v. Then it becomes the sum of all counts up to v.
	for _, pair := range pairs {
		g.first[pair>>32+1]++
		g.first[pair&math.MaxUint32+1]++
	}
	for v := range vertices {
		g.first[v+1] += g.first[v]
	}
	g.fill(pairs)
	return g
}

// edgeFault returns the reason why there can be no edge between a and b, or "" if there can be one.
func edgeFault(vertices, a, b int) string {
	switch {
	case a < 0 || a >= vertices:
		return fmt.Sprintf("there is no vertex %d", a)
	case b < 0 || b >= vertices:
		return fmt.Sprintf("there is no vertex %d", b)
	case a == b:
		return fmt.Sprintf("vertex %d is its own neighbour", a)
	}
	return ""
}

// fill stores each edge at both its ends and sorts the neighbours. g.first is final.
func (g *Graph) fill(pairs []uint64) {
	g.near = make([]uint32, 2*len(pairs))
	next := slices.Clone(g.first) // by vertex, the place of its next neighbour in near
	place := func(at, neighbour uint64) {
		g.near[next[at]] = uint32(neighbour)
		next[at]++
	}
	for _, pair := range pairs {
		a, b := pair>>32, pair&math.MaxUint32
		place(a, b)
		place(b, a)
	}
	for v := range g.Vertices() {
		slices.Sort(g.Neighbors(v))
	}
}

// parallel returns the two ends of an edge that is stored more than once. found is false if there
// is none.
func (g *Graph) parallel() (v, w int, found bool) {
	for v := range g.Vertices() {
		near := g.Neighbors(v)
		for i := 1; i < len(near); i++ {
			if near[i] == near[i-1] {
				return v, int(near[i]), true
			}
		}
	}
	return 0, 0, false
}

// secondOf returns the number, from 1, of the second edge between v and w in either direction. It
// returns 0 if there are fewer than two.
func secondOf(pairs []uint64, v, w int) int {
	seen := 0
	for i, pair := range pairs {
		a, b := int(pair>>32), int(pair&math.MaxUint32)
		if a == v && b == w || a == w && b == v {
			if seen++; seen == 2 {
				return i + 1
			}
		}
	}
	return 0
}

// Vertices returns the number of vertices.
func (g *Graph) Vertices() int { return len(g.first) - 1 }

// Edges returns the number of edges.
func (g *Graph) Edges() int { return len(g.near) / 2 }

// Neighbors returns the neighbours of a vertex in ascending order. The slice belongs to the graph
// and must not be modified.
func (g *Graph) Neighbors(v int) []uint32 { return g.near[g.first[v]:g.first[v+1]] }
