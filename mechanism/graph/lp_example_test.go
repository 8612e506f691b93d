package graph_test

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluicedp/sluice/mechanism/graph"
)

func path(vertices int) *graph.Graph {
	g, err := graph.New(vertices, func(yield func(int, int) bool) {
		for v := 1; v < vertices && yield(v-1, v); v++ {
		}
	})
	if err != nil {
		panic(err)
	}
	return g
}

// Five datasets in a row, of which the last has another true answer than the others: randomized response
// at the boundary, and the farther from it, the more truth.
func ExampleHomogeneous() {
	p, err := graph.ColorsOf(3, []int{0, 0, 0, 0, 1})
	if err != nil {
		panic(err)
	}
	law, err := graph.DefaultLaw(3, 1)
	if err != nil {
		panic(err)
	}
	dp := graph.Privacy{Epsilon: 1}
	table, err := graph.Homogeneous(path(5), p, dp, slices.Repeat([][]float64{law}, 3))
	if err != nil {
		panic(err)
	}
	for v := range table.Vertices() {
		fmt.Printf("%d: %.4f\n", v, table.At(v))
	}
	report, err := graph.Check(path(5), table, dp)
	fmt.Println(report.Edges, "edges:", report.Err(), err)
	// Output:
	// 0: [0.9789 0.0106 0.0106]
	// 1: [0.9426 0.0287 0.0287]
	// 2: [0.8441 0.0780 0.0780]
	// 3: [0.5761 0.2119 0.2119]
	// 4: [0.2119 0.5761 0.2119]
	// 4 edges: <nil> <nil>
}

// A region whose two ends answer differently. At vertex 2, the first output could have 0.4; but only if at
// vertex 1 the first two outputs had less than the 0.85 that they can have.
func ExampleSolution_Dominates() {
	p, err := graph.ColorsOf(3, []int{0, 0, 0, 0})
	if err != nil {
		panic(err)
	}
	given := map[int][]float64{0: {0.1, 0.6, 0.3}, 3: {0.2, 0.2, 0.6}}
	s, err := graph.SolveLP(context.Background(), path(4), p, graph.Privacy{Epsilon: math.Ln2}, given, nil)
	if err != nil {
		panic(err)
	}
	for v := range s.Table.Vertices() {
		fmt.Printf("%d: %.3f\n", v, s.Table.At(v))
	}
	dominates, shortfall, err := s.Dominates(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Printf("dominates: %v; vertex %d, first %d: has %.3f, possible %.3f\n",
		dominates, shortfall.Vertex, shortfall.Ranks, shortfall.Has, shortfall.Possible)
	// Output:
	// 0: [0.100 0.600 0.300]
	// 1: [0.200 0.650 0.150]
	// 2: [0.375 0.325 0.300]
	// 3: [0.200 0.200 0.600]
	// dominates: false; vertex 2, first 1: has 0.375, possible 0.400
}
