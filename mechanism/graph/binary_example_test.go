package graph_test

import (
	"errors"
	"fmt"
	"iter"
	"log"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/mechanism/graph"
)

const (
	nodes = "id,answer\na,yes\nb,yes\nc,no\nd,no\n"
	edges = "source,target\na,b\nb,c\nc,d\n"
)

// Datasets a – b – c – d, of which b and c have a neighbour with another answer.
func ExampleBinaryBalanced() {
	c, err := graph.ReadCSV(strings.NewReader(nodes), strings.NewReader(edges), graph.CSVOptions{ColorColumn: "answer"})
	if err != nil {
		log.Fatal(err)
	}
	table, err := graph.BinaryBalanced(c.Graph, c.Preferences, graph.Privacy{Epsilon: 1})
	if err != nil {
		log.Fatal(err)
	}
	for v, id := range c.IDs {
		fmt.Printf("%s: %s %.4f, %s %.4f\n", id, c.Colors[0], table.At(v)[0], c.Colors[1], table.At(v)[1])
	}
	// Output:
	// a: no 0.0989, yes 0.9011
	// b: no 0.2689, yes 0.7311
	// c: no 0.7311, yes 0.2689
	// d: no 0.9011, yes 0.0989
}

// What b does is given; it hits the only boundary edge. What d does as well may be too much.
func ExampleExtend() {
	c, err := graph.ReadCSV(strings.NewReader(nodes), strings.NewReader(edges), graph.CSVOptions{ColorColumn: "answer"})
	if err != nil {
		log.Fatal(err)
	}
	for _, given := range []string{"b,yes,0.6\n", "b,yes,0.6\nd,yes,0.01\n"} {
		h, err := c.ReadGiven(strings.NewReader("id,color,probability\n" + given))
		if err != nil {
			log.Fatal(err)
		}
		table, err := graph.Extend(c.Graph, c.Preferences, graph.Privacy{Epsilon: 1}, h)
		var conflict *graph.ConflictError
		if errors.As(err, &conflict) {
			fmt.Printf("%s and %s exclude each other\n", c.IDs[conflict.From], c.IDs[conflict.To])
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		for v, id := range c.IDs {
			fmt.Printf("%s: yes %.4f\n", id, table.At(v)[1])
		}
	}
	// Output:
	// a: yes 0.8528
	// b: yes 0.6000
	// c: yes 0.2207
	// d: yes 0.0812
	// b and d exclude each other
}

// The datasets are the integers, and 0 answers truthfully with probability 0.6. The line has no end, but at
// least every given dataset answers 0 with probability 0.6, so that none farther away than 0 matters.
func ExampleExtendAt() {
	law, err := graph.ExtendAt(graph.Surroundings[int]{
		Near: func(v int) iter.Seq[int] { return slices.Values([]int{v - 1, v + 1}) },
		Color: func(v int) int {
			if v < 0 {
				return 1
			}
			return 0
		},
		Given: func(v int) (int, float64, bool) { return 0, 0.6, v == 0 },
		Least: [2]float64{0.6, 0.4},
	}, graph.Privacy{Epsilon: 1}, 3)
	fmt.Printf("%.4f %v\n", law, err)
	// Output: [0.9801 0.0199] <nil>
}
