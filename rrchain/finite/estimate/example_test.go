package estimate_test

import (
	"fmt"
	"log"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
	"github.com/sluicedp/sluice/rrchain/finite/estimate"
)

// Two kinds of responses, in one estimate.
func ExampleFrequencies() {
	design, err := finite.HadamardResponse(3)
	check(err)
	low, err := design.At(epsilon("0.5"))
	check(err)
	high, err := design.At(epsilon("2"))
	check(err)
	shares, err := estimate.Frequencies(0.95,
		estimate.Counts{Mechanism: low, ByOutput: []int64{291, 225, 248, 236}},
		estimate.Counts{Mechanism: high, ByOutput: []int64{442, 164, 216, 178}},
	)
	check(err)
	for input, f := range shares {
		fmt.Printf("input %d: %.3f, from %.3f to %.3f\n", input, f.Estimate, f.Low, f.High)
	}
	// Output:
	// input 0: 0.413, from 0.361 to 0.466
	// input 1: 0.273, from 0.223 to 0.323
	// input 2: 0.314, from 0.263 to 0.364
}

func epsilon(text string) privacy.Epsilon {
	e, err := privacy.ParseEpsilon(text)
	check(err)
	return e
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
