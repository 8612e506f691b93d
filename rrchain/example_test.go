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
	sampler := new(rrchain.Sampler)
	chain, err := rrchain.NewChain[int](4)
	check(err)

	const truth = 3
	_, err = chain.Raise(sampler, epsilon("0.5"), truth) // a first response
	check(err)
	_, err = chain.Raise(sampler, epsilon("2"), truth) // costs 1.5 more, not 2
	check(err)
	_, err = chain.Insert(sampler, epsilon("1")) // free
	check(err)
	_, err = chain.Insert(sampler, epsilon("0.1")) // free
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

// The responses need not be stored: they can be computed again from the key and the true value, in
// any order. A lower response can be computed from a higher one alone.
func ExampleNoiseKey() {
	secret := make([]byte, 32) // all zero here; a real one is random, see crypto/rand
	key, err := rrchain.NewNoiseKey(secret)
	check(err)
	ann := rrchain.Staircase{Question: "colour v1", Object: "ann", Values: 4}

	const truth = 3
	for _, e := range []string{"0.5", "8", "2", "0.5"} {
		response, err := key.Response(ann, epsilon(e), truth)
		check(err)
		fmt.Printf("ε = %s: value %d\n", e, response)
	}
	high, err := key.Response(ann, epsilon("2"), truth)
	check(err)
	low, err := key.Response(ann, epsilon("0.5"), high) // free
	check(err)
	fmt.Printf("ε = 0.5 from ε = 2: value %d\n", low)
	// Output:
	// ε = 0.5: value 2
	// ε = 8: value 3
	// ε = 2: value 1
	// ε = 0.5: value 2
	// ε = 0.5 from ε = 2: value 2
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

// For a question with many values, unary encoding has a smaller error than randomized response. A
// response has a bit for each value.
func ExampleNewChain_unary() {
	sampler := new(rrchain.Sampler)
	chain, err := rrchain.NewChain[rrchain.Bits](500)
	check(err)

	const truth = 123
	_, err = chain.Raise(sampler, epsilon("1"), truth)
	check(err)
	_, err = chain.Raise(sampler, epsilon("3"), truth) // costs 2 more, not 3
	check(err)
	_, err = chain.Insert(sampler, epsilon("2")) // free
	check(err)

	for _, level := range chain.Levels() {
		fmt.Printf("%d bits at ε = %v\n", level.Response.Len(), level.Epsilon)
	}
	fmt.Println("privacy loss:", chain.Current().Epsilon)
	// Output:
	// 500 bits at ε = 1
	// 500 bits at ε = 2
	// 500 bits at ε = 3
	// privacy loss: 3
}

// A row of bits, all raised together. Its ε is that of one bit; these truths differ in up to four.
func ExampleSampler_RaiseBits() {
	sampler := new(rrchain.Sampler)
	var truth rrchain.Bits
	check(truth.UnmarshalText([]byte("0001000000010000"))) // two of 16 bits are set for each possible truth
	var level rrchain.Level[rrchain.Bits]
	for _, e := range []string{"0.25", "0.5"} {
		response, err := sampler.RaiseBits(16, level, epsilon(e), truth)
		check(err)
		level = rrchain.Level[rrchain.Bits]{Epsilon: epsilon(e), Response: response}
		fmt.Printf("%d bits at ε = %v each, at most %v for the whole\n", response.Len(), level.Epsilon, 4*level.Epsilon.Float64())
	}
	// Output:
	// 16 bits at ε = 0.25 each, at most 1 for the whole
	// 16 bits at ε = 0.5 each, at most 2 for the whole
}

// Each number from 0 to 100 is rounded to 0 or 100 by a key, so that the end need not be stored.
// The end is the true value of a chain with two values.
func ExampleRange() {
	hours := rrchain.Range{Low: 0, High: 100}
	key := []byte("sixteen bytes or") // from crypto/rand, and secret
	end, err := hours.RoundKeyed(key, "hours a week", "object 17", 38.5)
	check(err)
	chain, err := rrchain.NewChain[int](2)
	check(err)
	level, err := chain.Raise(new(rrchain.Sampler), epsilon("1"), end)
	check(err)
	fmt.Println("a response at ε =", level.Epsilon)
	// Output:
	// a response at ε = 1
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
