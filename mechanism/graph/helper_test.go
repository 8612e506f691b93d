package graph

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// graphOfEdges returns a graph with the given edges.
func graphOfEdges(tb testing.TB, vertices int, edges ...[2]int) *Graph {
	tb.Helper()
	return check.Value(New(vertices, func(yield func(int, int) bool) {
		for _, e := range edges {
			if !yield(e[0], e[1]) {
				return
			}
		}
	}))(tb)
}

// pathGraph returns the path 0 – 1 – … – n−1.
func pathGraph(tb testing.TB, vertices int) *Graph {
	tb.Helper()
	var edges [][2]int
	for v := 1; v < vertices; v++ {
		edges = append(edges, [2]int{v - 1, v})
	}
	return graphOfEdges(tb, vertices, edges...)
}

// colorsOf returns preferences without orders.
func colorsOf(tb testing.TB, outputs int, colors ...int) *Preferences {
	tb.Helper()
	of := make([]uint32, len(colors))
	for v, color := range colors {
		of[v] = uint32(color)
	}
	return ordersOf(tb, outputs, nil, of...)
}

func ordersOf(tb testing.TB, outputs int, orders [][]int, of ...uint32) *Preferences {
	tb.Helper()
	return check.Value(NewPreferences(outputs, orders, of))(tb)
}

// twoColors returns preferences over two outputs.
func twoColors(tb testing.TB, colors ...int) *Preferences {
	tb.Helper()
	return colorsOf(tb, 2, colors...)
}

// randomColored returns a graph with 1 to most vertices, two colours and any density.
func randomColored(tb testing.TB, random *rand.Rand, most int) (*Graph, *Preferences) {
	n := 1 + random.IntN(most)
	density := random.Float64()
	var edges [][2]int
	for a := range n {
		for b := range a {
			if random.Float64() < density {
				edges = append(edges, [2]int{b, a})
			}
		}
	}
	random.Shuffle(len(edges), func(i, j int) { edges[i], edges[j] = edges[j], edges[i] })
	colors := make([]int, n)
	for v := range colors {
		colors[v] = random.IntN(2)
	}
	return graphOfEdges(tb, n, edges...), twoColors(tb, colors...)
}

// response returns the law of randomized response.
func response(tb testing.TB, outputs int, epsilon float64) []float64 {
	tb.Helper()
	return check.Value(Privacy{Epsilon: epsilon}.RandomizedResponse(outputs))(tb)
}

func balanced(g *Graph, p *Preferences, dp Privacy) (Table, error) {
	return homogeneous(g, p, dp, nil)
}

// truthful solves with a given probability of the true answer for each colour on the boundary.
func truthful(g *Graph, p *Preferences, dp Privacy, truth [2]float64) (Table, error) {
	return homogeneous(g, p, dp, [][]float64{{truth[0], 1 - truth[0]}, {truth[1], 1 - truth[1]}})
}

func homogeneous(g *Graph, p *Preferences, dp Privacy, laws [][]float64) (Table, error) {
	return Problem{Graph: g, Preferences: p, Privacy: dp, Laws: laws}.Solve(context.Background())
}

// fixed is a vertex that has Output with Probability.
type fixed struct {
	Vertex, Output int
	Probability    float64
}

// probability returns the probability of an output.
func (h fixed) probability(output int) float64 {
	if h.Output == output {
		return h.Probability
	}
	return 1 - h.Probability
}

func extend(g *Graph, p *Preferences, dp Privacy, given []fixed) (Table, error) {
	laws := map[int][]float64{}
	for _, h := range given {
		laws[h.Vertex] = []float64{h.probability(0), h.probability(1)}
	}
	return Problem{Graph: g, Preferences: p, Privacy: dp, Given: laws}.Solve(context.Background())
}

// maximize solves by the linear program. Without given weights, they fall evenly.
func maximize(
	ctx context.Context, g *Graph, p *Preferences, dp Privacy, given map[int][]float64, weights [][]float64,
) (Table, error) {
	if weights == nil {
		even := make([]float64, p.Outputs())
		for rank := range even {
			even[rank] = 1 - float64(rank)/float64(len(even)-1)
		}
		weights = slices.Repeat([][]float64{even}, p.Vertices())
	}
	return Problem{Graph: g, Preferences: p, Privacy: dp, Given: given, Weights: weights}.Solve(ctx)
}

// mustPass checks a mechanism with [Table.Check], which is independent of how it was found.
func mustPass(t *testing.T, g *Graph, table Table, dp Privacy) {
	t.Helper()
	err := table.Check(g, dp)
	check.Need(t, err == nil, "%v %v", dp, err)
}

// mustEqual compares two tables.
func mustEqual(t *testing.T, got, want Table, relative, absolute float64) {
	t.Helper()
	check.Need(t, len(got) == len(want), "%d vertices, want %d", len(got), len(want))
	for v := range want {
		for j, x := range want[v] {
			check.Need(t, !apart(got[v][j], x, relative, absolute), "vertex %d: %v, want %v", v, got[v], want[v])
		}
	}
}

// allDistances returns the distance of each two vertices, -1 if there is no path.
func allDistances(g *Graph) [][]int {
	d := make([][]int, g.Vertices())
	for v := range d {
		d[v] = make([]int, g.Vertices())
		for w, x := range bareSearch(g, []uint32{uint32(v)}) {
			d[v][w] = int(x)
		}
	}
	return d
}

// iterated returns U^d(α), computed step by step, or 1 if there is no path.
func iterated(dp Privacy, alpha float64, d int) float64 {
	if d < 0 {
		return 1
	}
	for range d {
		alpha = dp.Upper(alpha)
	}
	return alpha
}

// apart reports whether two numbers differ by more than a part of the larger and more than an
// amount.
func apart(got, want, relative, absolute float64) bool {
	return !(math.Abs(got-want) <= max(absolute, relative*math.Abs(want)))
}
