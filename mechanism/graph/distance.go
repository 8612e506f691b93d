package graph

import "slices"

// Unreachable is the distance of a vertex that no path joins to a boundary. The optimal answer
// there is always the true one: all datasets of its component have the same, so it tells nothing.
const Unreachable = -1

// Distances returns the distance of each vertex to the boundary of its region: 0 for a vertex with
// a neighbour of another rainbow (of another colour, with two outputs), and [Unreachable] in a
// component that has no such vertex. It takes one sweep from the whole boundary: a shortest path to
// the boundary of another region would have to cross that of one's own first. It returns
// [ErrInvalid] for preferences of another number of vertices.
func Distances(g *Graph, p *Preferences) ([]int32, error) {
	if g.Vertices() != p.Vertices() {
		return nil, invalid("a graph of %d vertices with preferences of %d", g.Vertices(), p.Vertices())
	}
	return g.distances(p), nil
}

func (g *Graph) distances(p *Preferences) []int32 {
	boundary := make([]uint32, 0, g.Vertices())
	for v := range g.Vertices() {
		if g.onBoundary(p, v) {
			boundary = append(boundary, uint32(v))
		}
	}
	return g.distancesFrom(boundary)
}

// distancesFrom returns the distance of each vertex from the nearest of some, [Unreachable] where
// no path leads.
func (g *Graph) distancesFrom(queue []uint32) []int32 {
	distance := slices.Repeat([]int32{Unreachable}, g.Vertices())
	for _, v := range queue {
		distance[v] = 0
	}
	for i := 0; i < len(queue); i++ {
		v := queue[i]
		for _, w := range g.Neighbors(int(v)) {
			if distance[w] == Unreachable {
				distance[w] = distance[v] + 1
				queue = append(queue, w)
			}
		}
	}
	return distance
}

func (g *Graph) onBoundary(p *Preferences, v int) bool {
	for _, w := range g.Neighbors(v) {
		if p.of[w] != p.of[v] {
			return true
		}
	}
	return false
}
