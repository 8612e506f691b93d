package graph

import "slices"

// Distances returns the distance of each vertex to the boundary of its region. It is 0 for a vertex
// with a neighbour of another rainbow (of another colour, with two outputs), and −1 in a component
// that has no such vertex. There the optimal answer is always the true one: all datasets of the
// component have the same answer, so it reveals nothing.
//
// It takes one sweep from the whole boundary, because a shortest path to the boundary of another
// region first crosses the boundary of its own region. It returns [privacy.ErrInvalid] for
// preferences with another number of vertices.
func (g *Graph) Distances(p *Preferences) ([]int32, error) {
	if g.Vertices() != p.Vertices() {
		return nil, invalid("the graph has %d vertices and the preferences %d", g.Vertices(), p.Vertices())
	}
	return g.distances(p), nil
}

// distances is [Graph.Distances] for preferences with the right number of vertices. It is a
// breadth-first search from all vertices on a boundary.
func (g *Graph) distances(p *Preferences) []int32 {
	distance := slices.Repeat([]int32{-1}, g.Vertices())
	queue := make([]uint32, 0, g.Vertices())
	for v := range g.Vertices() {
		if g.onBoundary(p, v) {
			distance[v] = 0
			queue = append(queue, uint32(v))
		}
	}
	for i := 0; i < len(queue); i++ {
		v := queue[i]
		for _, w := range g.Neighbors(int(v)) {
			if distance[w] < 0 {
				distance[w] = distance[v] + 1
				queue = append(queue, w)
			}
		}
	}
	return distance
}

// onBoundary returns true if v has a neighbour of another rainbow.
func (g *Graph) onBoundary(p *Preferences, v int) bool {
	for _, w := range g.Neighbors(v) {
		if p.of[w] != p.of[v] {
			return true
		}
	}
	return false
}
