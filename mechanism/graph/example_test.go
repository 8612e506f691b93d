package graph_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"math/big"
	"strings"

	"github.com/sluicedp/sluice/mechanism/graph"
)

const (
	nodes = "id,answer\na,yes\nb,yes\nc,no\nd,no\n"
	edges = "source,target\na,b\nb,c\nc,d\n"
)

// Datasets a – b – c – d, of which b and c have a neighbour with another answer.
func ExampleProblem_Solve_balanced() {
	c, err := graph.CSVOptions{ColorColumn: "answer"}.Read(strings.NewReader(nodes), strings.NewReader(edges))
	if err != nil {
		log.Fatal(err)
	}
	table, err := graph.Problem{
		Graph: c.Graph, Preferences: c.Preferences, Privacy: graph.Privacy{Epsilon: 1},
	}.Solve(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for v, id := range c.IDs {
		fmt.Printf("%s: %s %.4f, %s %.4f\n", id, c.Colors[0], table[v][0], c.Colors[1], table[v][1])
	}
	// Output:
	// a: no 0.0989, yes 0.9011
	// b: no 0.2689, yes 0.7311
	// c: no 0.7311, yes 0.2689
	// d: no 0.9011, yes 0.0989
}

// The law of b is given, and b is an end of the only boundary edge. If the law of d is given too,
// there may be no mechanism.
func ExampleProblem_Solve_given() {
	c, err := graph.CSVOptions{ColorColumn: "answer"}.Read(strings.NewReader(nodes), strings.NewReader(edges))
	if err != nil {
		log.Fatal(err)
	}
	for _, given := range []string{"b,yes,0.6\n", "b,yes,0.6\nd,yes,0.01\n"} {
		h, err := c.ReadGiven(strings.NewReader("id,color,probability\n" + given))
		if err != nil {
			log.Fatal(err)
		}
		table, err := graph.Problem{
			Graph: c.Graph, Preferences: c.Preferences, Privacy: graph.Privacy{Epsilon: 1}, Given: h,
		}.Solve(context.Background())
		var conflict *graph.ConflictError
		if errors.As(err, &conflict) {
			fmt.Printf("%s and %s exclude each other\n", c.IDs[conflict.From], c.IDs[conflict.To])
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		for v, id := range c.IDs {
			fmt.Printf("%s: yes %.4f\n", id, table[v][1])
		}
	}
	// Output:
	// a: yes 0.8528
	// b: yes 0.6000
	// c: yes 0.2207
	// d: yes 0.0812
	// b and d exclude each other
}

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

// Five datasets in a row, of which the last has another true answer than the others: randomized
// response at the boundary, and the farther from it, the more truth.
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

// A region whose two ends answer differently. At vertex 2, the first output could have 0.4; but
// only if at vertex 1 the first two outputs had less than the 0.85 that they can have.
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

// Three regions of three outputs meet, and each has one more dataset next to it. From e^ε = 6/5 to
// 5/4 there is no gradual release of the optimal answers. From 3/2 to 2 there is one.
func ExampleGradual() {
	edges := [][2]int{{0, 1}, {1, 2}, {0, 2}, {0, 3}, {1, 4}, {2, 5}}
	g, err := graph.New(6, func(yield func(int, int) bool) {
		for _, e := range edges {
			if !yield(e[0], e[1]) {
				return
			}
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := graph.NewPreferences(3, [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}}, []uint32{0, 1, 2, 0, 1, 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, growth := range [][2]*big.Rat{{big.NewRat(6, 5), big.NewRat(5, 4)}, {big.NewRat(3, 2), big.NewRat(2, 1)}} {
		low, err1 := g.RationalLaws(p, growth[0])
		high, err2 := g.RationalLaws(p, growth[1])
		_, err := graph.Gradual(context.Background(), g, low, high, growth[1])
		var not *graph.NotGradualError
		fmt.Println(growth[0], growth[1], errors.Join(err1, err2), errors.As(err, &not), err == nil)
	}
	// Output:
	// 6/5 5/4 <nil> true false
	// 3/2 2/1 <nil> false true
}
