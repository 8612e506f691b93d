package graph

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
)

// gridGraph returns a grid of side×side vertices.
func gridGraph(tb testing.TB, side int) *Graph {
	return check.Value(New(side*side, func(yield func(int, int) bool) {
		for v := range side * side {
			if v%side+1 < side && !yield(v, v+1) || v+side < side*side && !yield(v, v+side) {
				return
			}
		}
	}))(tb)
}

// waves colours a grid in two colours with rounded regions.
func waves(tb testing.TB, side int) *Preferences {
	colors := make([]int, side*side)
	for v := range colors {
		x, y := float64(v%side), float64(v/side)
		if math.Sin(x/17)+math.Sin(y/23)+math.Sin((x+y)/41) > 0 {
			colors[v] = 1
		}
	}
	return twoColors(tb, colors...)
}

// bareSearch is a breadth-first search over the arrays of the graph without other work, for
// comparison.
func bareSearch(g *Graph, sources []uint32) []int32 {
	distance := make([]int32, g.Vertices())
	for v := range distance {
		distance[v] = -1
	}
	queue := make([]uint32, 0, g.Vertices())
	for _, v := range sources {
		distance[v] = 0
		queue = append(queue, v)
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

func boundaryOf(g *Graph, p *Preferences) (boundary []uint32) {
	for v := range g.Vertices() {
		if g.onBoundary(p, v) {
			boundary = append(boundary, uint32(v))
		}
	}
	return boundary
}

// hittingSet returns the vertices of colour 0 on the boundary, with probabilities of the true
// answer that are compatible at any distance.
func hittingSet(g *Graph, p *Preferences, random *rand.Rand) (given []fixed, boundary []uint32) {
	for _, v := range boundaryOf(g, p) {
		if p.Color(int(v)) == 0 {
			given = append(given, fixed{int(v), 0, 0.5 + 0.02*random.Float64()})
			boundary = append(boundary, v)
		}
	}
	return given, boundary
}

// BenchmarkReadCSV reads a graph of a million vertices and five million edges, and solves it.
func BenchmarkReadCSV(b *testing.B) {
	nodes, edges := ringCSV(1_000_000, 5)
	b.SetBytes(int64(len(nodes) + len(edges)))
	for b.Loop() {
		c, err := CSVOptions{ColorColumn: "color"}.Read(strings.NewReader(nodes), strings.NewReader(edges))
		check.Must(b, err)
		check.Must(b, check.Err(balanced(c.Graph, c.Preferences, Privacy{Epsilon: 1})))
	}
}

// ringCSV writes a ring in which each vertex is a neighbour of the next few on either side, half of
// it of each colour.
func ringCSV(vertices, next int) (nodes, edges string) {
	var n, e bytes.Buffer
	n.WriteString("id,color\n")
	e.WriteString("source,target\n")
	for v := range vertices {
		fmt.Fprintf(&n, "dataset-%d,%s\n", v, [2]string{"blue", "red"}[2*v/vertices])
		for i := 1; i <= next; i++ {
			fmt.Fprintf(&e, "dataset-%d,dataset-%d\n", v, (v+i)%vertices)
		}
	}
	return n.String(), e.String()
}

// cube returns the hypercube: vertices are rows of bits, and neighbours differ in one bit.
func cube(tb testing.TB, bits int) *Graph {
	return check.Value(New(1<<bits, func(yield func(int, int) bool) {
		for v := range 1 << bits {
			for bit := range bits {
				if w := v ^ 1<<bit; v < w && !yield(v, w) {
					return
				}
			}
		}
	}))(tb)
}

// balls colours a hypercube: 1 within a distance of some vertices.
func balls(tb testing.TB, g *Graph, centres, radius int) *Preferences {
	random, colors := rand.New(rand.NewPCG(3, 4)), make([]int, g.Vertices())
	sources := make([]uint32, centres)
	for i := range sources {
		sources[i] = uint32(random.IntN(g.Vertices()))
	}
	for v, distance := range bareSearch(g, sources) {
		if int(distance) <= radius {
			colors[v] = 1
		}
	}
	return twoColors(tb, colors...)
}

// ofBareSweep runs a function in turns with a bare breadth-first search from the same vertices over
// the same arrays. It reports the median ratio of their times.
func ofBareSweep(b *testing.B, g *Graph, sources []uint32, solve func() error) {
	var ratios []float64
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		bareSearch(g, sources)
		bare := time.Since(began)
		began = time.Now()
		check.Must(b, solve())
		ours := time.Since(began)
		ratios = append(ratios, float64(bare)/float64(ours))
		took = append(took, ours)
	}
	slices.Sort(ratios)
	slices.Sort(took)
	b.ReportMetric(ratios[len(ratios)/2], "of-bare")
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/float64(g.Edges()), "ns/edge")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSweep solves graphs of a million edges and more: of one size with few datasets on the
// boundary, as large graphs have, and a hypercube.
func BenchmarkSweep(b *testing.B) {
	type problem struct {
		name string
		g    *Graph
		p    *Preferences
	}
	hypercube, grid := cube(b, 17), gridGraph(b, 1000)
	for _, c := range []problem{
		{"cube", hypercube, balls(b, hypercube, 3, 4)},
		{"grid", grid, waves(b, 1000)},
	} {
		b.Run("balanced/"+c.name, func(b *testing.B) {
			ofBareSweep(b, c.g, boundaryOf(c.g, c.p), func() error {
				_, err := balanced(c.g, c.p, Privacy{Epsilon: 0.1})
				return err
			})
		})
		given, _ := hittingSet(c.g, c.p, rand.New(rand.NewPCG(1, 2)))
		b.Run("extend/"+c.name, func(b *testing.B) { benchmarkExtend(b, c.g, c.p, given) })
		for i := range given {
			given[i].Probability = 0.5
		}
		b.Run("extend-alike/"+c.name, func(b *testing.B) { benchmarkExtend(b, c.g, c.p, given) })
	}
}

// benchmarkExtend compares with a bare search that begins with the same vertices in the order of
// their probabilities, so that both access memory in a similarly scattered order.
func benchmarkExtend(b *testing.B, g *Graph, p *Preferences, given []fixed) {
	sorted := slices.SortedStableFunc(slices.Values(given), func(a, b fixed) int { return cmp.Compare(a.Probability, b.Probability) })
	sources := make([]uint32, len(sorted))
	for i, h := range sorted {
		sources[i] = uint32(h.Vertex)
	}
	ofBareSweep(b, g, sources, func() error {
		_, err := extend(g, p, Privacy{Epsilon: 0.1}, given)
		return err
	})
	b.ReportMetric(float64(len(given)), "given")
}
