package estimate_test

import (
	"fmt"

	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Two kinds of responses, in one estimate.
func ExampleFrequencies_mechanism() {
	design, err := finite.HadamardResponse(3)
	check(err)
	low, err := design.At(epsilon("0.5"))
	check(err)
	high, err := design.At(epsilon("2"))
	check(err)
	found, err := estimate.Frequencies(estimate.Options{Confidence: 0.95},
		estimate.Counts{Mechanism: low, ByValue: []int64{291, 225, 248, 236}},
		estimate.Counts{Mechanism: high, ByValue: []int64{442, 164, 216, 178}},
	)
	check(err)
	for input, f := range found {
		fmt.Printf("input %d: %.3f, from %.3f to %.3f\n", input, f.Estimate, f.Low, f.High)
	}
	// Output:
	// input 0: 0.420, from 0.318 to 0.527
	// input 1: 0.258, from 0.158 to 0.362
	// input 2: 0.321, from 0.220 to 0.427
}
