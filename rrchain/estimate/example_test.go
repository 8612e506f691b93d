package estimate_test

import (
	"fmt"
	"log"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Objects that sold at two levels, in one estimate.
func ExampleFrequencies() {
	low := estimate.Counts{Epsilon: epsilon("0.5"), ByValue: []int64{360, 320, 320}}
	high := estimate.Counts{Epsilon: epsilon("2"), ByValue: []int64{620, 230, 150}}
	shares, err := estimate.Frequencies(estimate.Options{Confidence: 0.95}, low, high)
	check(err)
	for value, f := range shares {
		fmt.Printf("value %d: %.3f, from %.3f to %.3f\n", value, f.Estimate, f.Low, f.High)
	}
	p, err := estimate.Disagreement(low, high)
	check(err)
	fmt.Printf("do the levels disagree? p = %.4f\n", p)
	// Output:
	// value 0: 0.619, from 0.535 to 0.706
	// value 1: 0.220, from 0.138 to 0.304
	// value 2: 0.161, from 0.080 to 0.245
	// do the levels disagree? p = 0.0071
}

// 1,000 objects answered in unary encoding. The bit of its true value is set in half of the
// responses, each other bit in 27 % of them.
func ExampleFrequencies_unary() {
	shares, err := estimate.Frequencies(estimate.Options{Confidence: 0.95},
		estimate.Counts{Unary: true, Epsilon: epsilon("1"), Objects: 1000, ByValue: []int64{412, 335, 281, 274, 266, 262}},
	)
	check(err)
	for value, f := range shares {
		fmt.Printf("value %d: %.3f, from %.3f to %.3f\n", value, f.Estimate, f.Low, f.High)
	}
	// Output:
	// value 0: 0.619, from 0.490 to 0.752
	// value 1: 0.286, from 0.162 to 0.413
	// value 2: 0.052, from -0.068 to 0.176
	// value 3: 0.022, from -0.098 to 0.145
	// value 4: -0.013, from -0.132 to 0.110
	// value 5: -0.030, from -0.149 to 0.093
}

// The mean of numbers from 0 to 100, each of which was rounded to 0 or 100, from what a thousand
// objects answered to that at ε = 1.
func ExampleMean() {
	hours := rrchain.Range{High: 100}
	mean, err := estimate.Mean(estimate.Options{Confidence: 0.95}, hours, estimate.Counts{Epsilon: epsilon("1"), ByValue: []int64{552, 448}})
	check(err)
	fmt.Printf("mean: %.1f, from %.1f to %.1f\n", mean.Estimate, mean.Low, mean.High)
	// Output:
	// mean: 38.7, from 32.0 to 45.6
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
