package graph_test

import (
	"context"
	"errors"
	"fmt"
	"log"
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

// What b does is given; it hits the only boundary edge. What d does as well may be too much.
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
