package graph

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
)

// cube returns the hypercube: vertices are rows of so many bits, and neighbours differ in one.
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

// ofBareSweep runs a function in turns with a bare breadth-first sweep from the same vertices over the same arrays,
// and reports the median ratio: 1 is as fast as that.
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

// BenchmarkSweep solves graphs of a million edges and more: of one size with few datasets on the boundary, as large
// graphs have, and a hypercube.
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

// benchmarkExtend compares with a bare sweep that begins with the same vertices in the order of their probabilities:
// what comes later, is scattered as much for both.
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
