package graph_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/sluicedp/sluice/mechanism/graph"
)

// Three regions of three outputs meet, and each has one more dataset behind. From e^ε = 6/5 to 5/4 there is no gradual release of
// the optimal answers; from 3/2 to 2 there is.
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
