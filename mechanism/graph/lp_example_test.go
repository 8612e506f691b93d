package graph_test

import (
	"context"
	"fmt"
	"math"

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
func ExampleProblem_Solve() {
	p, err := graph.NewPreferences(3, nil, []uint32{0, 0, 0, 0, 1})
	if err != nil {
		panic(err)
	}
	dp := graph.Privacy{Epsilon: 1}
	table, err := graph.Problem{Graph: path(5), Preferences: p, Privacy: dp}.Solve(context.Background())
	if err != nil {
		panic(err)
	}
	for v, law := range table {
		fmt.Printf("%d: %.4f\n", v, law)
	}
	fmt.Println("private:", table.Check(path(5), dp) == nil)
	// Output:
	// 0: [0.9789 0.0106 0.0106]
	// 1: [0.9426 0.0287 0.0287]
	// 2: [0.8441 0.0780 0.0780]
	// 3: [0.5761 0.2119 0.2119]
	// 4: [0.2119 0.5761 0.2119]
	// private: true
}

// A region whose two ends answer differently. At vertex 2, the first output could have 0.4; but only if at
// vertex 1 the first two outputs had less than the 0.85 that they can have.
func ExampleProblem_Solve_weights() {
	p, err := graph.NewPreferences(3, nil, []uint32{0, 0, 0, 0})
	if err != nil {
		panic(err)
	}
	table, err := graph.Problem{
		Graph: path(4), Preferences: p, Privacy: graph.Privacy{Epsilon: math.Ln2},
		Given: map[int][]float64{0: {0.1, 0.6, 0.3}, 3: {0.2, 0.2, 0.6}},
	}.Solve(context.Background())
	if err != nil {
		panic(err)
	}
	for v, law := range table {
		fmt.Printf("%d: %.3f\n", v, law)
	}
	// Output:
	// 0: [0.100 0.600 0.300]
	// 1: [0.200 0.650 0.150]
	// 2: [0.375 0.325 0.300]
	// 3: [0.200 0.200 0.600]
}
