package main

import (
	"fmt"
	"math/rand/v2"
	"sort"

	"github.com/sluicedp/sluice/examples/internal/names"
)

// births are the names of some children.
type births []string

// draw draws births in proportion to how common the names are. The seed is fixed, so that the truth to compare
// with is the same in every run. It stands for the world: what the clients draw has no seed.
func draw(all []names.Name, n int) (births, error) {
	if n < 1 {
		return nil, fmt.Errorf("cannot draw %d births", n)
	}
	upTo, total := make([]int, len(all)), 0
	for i, name := range all {
		total += name.Count
		upTo[i] = total
	}
	random := rand.New(rand.NewPCG(2016, 1))
	drawn := make(births, n)
	for i := range drawn {
		drawn[i] = all[sort.SearchInts(upTo, random.IntN(total)+1)].Name
	}
	return drawn, nil
}

// first returns the first n births, or all of them.
func (b births) first(n int) births { return b[:min(n, len(b))] }

// shares returns the real share of each name.
func (b births) shares() map[string]float64 {
	shares := map[string]float64{}
	for _, name := range b {
		shares[name] += 1 / float64(len(b))
	}
	return shares
}
