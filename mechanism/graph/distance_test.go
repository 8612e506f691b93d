package graph

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// TestDistances compares with the definition: the distance to the nearest vertex of the own colour that has
// a neighbour of another.
func TestDistances(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		g, p := randomColored(t, random, 10)
		between := allDistances(g)
		got := check.Value(g.Distances(p))(t)
		for v := range g.Vertices() {
			want := int32(-1)
			for w := range g.Vertices() {
				d := int32(between[v][w])
				if d >= 0 && p.Color(w) == p.Color(v) && g.onBoundary(p, w) && (want == -1 || d < want) {
					want = d
				}
			}
			check.Need(t, got[v] == want, "vertex %d: %d, want %d", v, got[v], want)
		}
	}
}

// TestDistancesByRainbow is on vertices with the same true answer and different orders.
func TestDistancesByRainbow(t *testing.T) {
	p := check.Value(NewPreferences(3, [][]int{{0, 1, 2}, {0, 2, 1}}, []uint32{0, 0, 0, 1, 1, 0}))(t)
	g := graphOfEdges(t, 6, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 3}, [2]int{3, 4})
	got, err := g.Distances(p)
	want := []int32{2, 1, 0, 0, 1, -1}
	check.That(t, err == nil && slices.Equal(got, want), "%v, %v, want %v", got, err, want)
	if _, err := pathGraph(t, 5).Distances(p); !errors.Is(err, ErrInvalid) {
		t.Errorf("another number of vertices: %v", err)
	}
}
