package mechanism_test

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// A question is answered at ε = 0.5, and later, for a better price, at ε = 2. Both answers cost 2, not 2.5. An answer at
// ε = 1 for another buyer is then free. The dataset is so far from the boundary that each is wrong with a probability
// below 10⁻⁴².
func ExampleSampler_Raise() {
	place, err := mechanism.Majority(1).Place([]int64{400, 600}, mechanism.AddRemove)
	if err != nil {
		fmt.Println(err)
		return
	}
	half, _ := privacy.ParseEpsilon("0.5")
	one, _ := privacy.ParseEpsilon("1")
	two, _ := privacy.ParseEpsilon("2")
	s := mechanism.NewSampler()
	first, err1 := s.Raise(mechanism.Score{}, half, place)
	second, err2 := s.Raise(first, two, place)
	between, err3 := s.Between(first, second, one)
	fmt.Println(first.Output(), second.Output(), between.Output(), errors.Join(err1, err2, err3))
	// Output: 1 1 1 <nil>
}

// Three regions of three outputs meet, and each has one more dataset behind. From e^ε = 6/5 to 5/4 there is no gradual release of
// the optimal answers; from 3/2 to 2 there is.
func ExampleGradual() {
	edges := [][2]int{{0, 1}, {1, 2}, {0, 2}, {0, 3}, {1, 4}, {2, 5}}
	g, err := mechanism.NewGraph(6, func(yield func(int, int) bool) {
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
	p, err := mechanism.NewPreferences(3, [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}}, []uint32{0, 1, 2, 0, 1, 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, growth := range [][2]*big.Rat{{big.NewRat(6, 5), big.NewRat(5, 4)}, {big.NewRat(3, 2), big.NewRat(2, 1)}} {
		low, err1 := mechanism.RationalLaws(g, p, growth[0])
		high, err2 := mechanism.RationalLaws(g, p, growth[1])
		_, err := mechanism.Gradual(g, low, high, growth[1])
		var not *mechanism.NotGradualError
		fmt.Println(growth[0], growth[1], errors.Join(err1, err2), errors.As(err, &not), err == nil)
	}
	// Output:
	// 6/5 5/4 <nil> true false
	// 3/2 2/1 <nil> false true
}
