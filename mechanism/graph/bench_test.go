package graph

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

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

// bareSearch is a breadth-first search over the arrays of the graph that does nothing else: what
// the others are compared with.
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

// hittingSet returns the vertices of colour 0 on the boundary, with probabilities of the true answer
// that are alike enough for any distance.
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
		c, err := ReadCSV(strings.NewReader(nodes), strings.NewReader(edges), CSVOptions{ColorColumn: "color"})
		check.Must(b, err)
		check.Must(b, check.Err(balanced(c.Graph, c.Preferences, Privacy{Epsilon: 1})))
	}
}

// ringCSV writes a ring in which each vertex is a neighbour of the next few on either side, half of it of
// each colour.
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
