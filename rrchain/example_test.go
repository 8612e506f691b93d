package rrchain_test

import (
	"fmt"
	"log"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// An object answers one question at rising ε. Responses in between, and below, are free and need no
// truth; what all of them together cost is the highest ε.
func Example() {
	sampler := rrchain.NewSampler()
	chain, err := rrchain.NewChain(4)
	check(err)

	const truth = 3
	_, err = chain.Raise(sampler, epsilon("0.5"), truth) // a first response
	check(err)
	_, err = chain.Raise(sampler, epsilon("2"), truth) // costs 1.5 more, not 2
	check(err)
	_, err = chain.Insert(sampler, epsilon("1")) // free
	check(err)
	_, err = chain.Degrade(sampler, epsilon("0.1")) // free
	check(err)

	for _, level := range chain.Levels() {
		fmt.Println("a response at ε =", level.Epsilon)
	}
	fmt.Println("privacy loss:", chain.Current().Epsilon)
	// Output:
	// a response at ε = 0.1
	// a response at ε = 0.5
	// a response at ε = 1
	// a response at ε = 2
	// privacy loss: 2
}

// The kernel that raises a response of four values from ε = 0.5 to ε = 1, as in the tables of the
// paper.
func ExampleNewKernel() {
	k, err := rrchain.NewKernel(4, epsilon("0.5"), epsilon("1"))
	check(err)
	fmt.Printf("a true response stays:           p_aa = %.3f\n", k.PAA)
	fmt.Printf("a false one becomes true:        p_ba = %.3f\n", k.PBA)
	fmt.Printf("a false one stays:               p_bb = %.3f\n", k.PBB)
	fmt.Printf("a false one becomes another one: p_bc = %.3f\n", k.PBC)
	// Output:
	// a true response stays:           p_aa = 0.802
	// a false one becomes true:        p_ba = 0.296
	// a false one stays:               p_bb = 0.486
	// a false one becomes another one: p_bc = 0.109
}

// Objects that sold at two levels, in one estimate.
func ExampleEstimate() {
	shares, err := rrchain.Estimate(0.95,
		rrchain.Counts{Epsilon: epsilon("0.5"), ByValue: []int64{360, 320, 320}},
		rrchain.Counts{Epsilon: epsilon("2"), ByValue: []int64{620, 230, 150}},
	)
	check(err)
	for value, f := range shares {
		fmt.Printf("value %d: %.3f, from %.3f to %.3f\n", value, f.Estimate, f.Low, f.High)
	}
	// Output:
	// value 0: 0.737, from 0.699 to 0.776
	// value 1: 0.186, from 0.153 to 0.220
	// value 2: 0.076, from 0.046 to 0.107
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
