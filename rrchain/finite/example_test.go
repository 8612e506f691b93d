package finite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/big"
	"strings"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Subset selection: a response is two of six values, more often than not with the true one among
// them. It is raised, and a response between is free.
func Example() {
	design, err := finite.SubsetSelection(6, 2)
	check(err)
	family, err := design.Family(epsilon("0.5"), epsilon("1"), epsilon("2"))
	check(err)

	const truth = 3
	sampler := new(finite.Sampler)
	first, err := sampler.Raise(family, rrchain.Level[int]{}, epsilon("0.5"), truth)
	check(err)
	next, err := sampler.Raise(family, first, epsilon("2"), truth) // costs 1.5 more, not 2
	check(err)
	middle, err := sampler.Between(family, first, next, epsilon("1")) // free
	check(err)

	for _, level := range []rrchain.Level[int]{first, middle, next} {
		fmt.Printf("at ε = %v: %d values\n", level.Epsilon, len(design.Blocks[level.Response]))
	}
	// Output:
	// at ε = 0.5: 2 values
	// at ε = 1: 2 values
	// at ε = 2: 2 values
}

// Two custom mechanisms with the inputs "no", "yes" and "often" form a family. A third one does
// not, because the lower mechanism is not a degradation of it.
func ExampleNewFamily() {
	lower := mechanism(
		"3/6 2/6 1/6",
		"2/6 2/6 2/6",
		"1/6 2/6 3/6",
	)
	higher := mechanism(
		"8/12 3/12 1/12",
		"3/12 6/12 3/12",
		"1/12 3/12 8/12",
	)
	family, err := finite.NewFamily(context.Background(), lower, higher)
	check(err)
	channel, _ := family.Channel(family.Epsilons()[1])
	fmt.Println("from the first output to the first:", channel.At(0, 0).RatString())

	coarse := mechanism( // does not distinguish "yes" from "often"
		"8/12 4/12",
		"1/12 11/12",
		"1/12 11/12",
	)
	_, err = finite.NewFamily(context.Background(), lower, coarse)
	var no *finite.NotDegradationError
	fmt.Println("no degradation:", errors.As(err, &no), no.Lower.Cmp(no.Higher) > 0)
	// Output:
	// from the first output to the first: 13/21
	// no degradation: true true
}

// mechanism reads a row of fractions for each input.
func mechanism(rows ...string) *finite.Matrix {
	var all [][]*big.Rat
	for _, row := range rows {
		var p []*big.Rat
		for _, text := range strings.Fields(row) {
			x, ok := new(big.Rat).SetString(text)
			if !ok {
				log.Fatal("not a fraction: ", text)
			}
			p = append(p, x)
		}
		all = append(all, p)
	}
	m, err := finite.NewMatrix(all)
	check(err)
	return m
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
