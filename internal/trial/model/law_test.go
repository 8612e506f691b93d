//go:build !race

package model

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
)

// TestOddsBound: a share at the bound has a count as high with just the probability given, and if all were counted it is
// the n-th root of it.
func TestOddsBound(t *testing.T) {
	for _, c := range [][2]int{{1, 1}, {3, 10}, {700, 1000}, {60_000, 100_000}, {50, 50}} {
		bound := oddsBound(c[0], c[1], 1e-6)
		if got := stattest.AtLeast(c[0], c[1], shareOf(bound)); math.Abs(got-1e-6) > 1e-9 {
			t.Errorf("%d of %d: the bound %v has %g", c[0], c[1], bound, got)
		}
	}
	if got, want := shareOf(oddsBound(50, 50, 1e-6)), math.Pow(1e-6, 1./50); math.Abs(got-want) > 1e-9 {
		t.Errorf("50 of 50: %v, want %v", got, want)
	}
}

// TestVerdictsAreRightByTheirOwnMeasure judges what reaches its ε in every transcript, again and again: among 2000
// verdicts there may be by chance one in a hundred of which that is said to have a chance of a hundredth; that it is so
// many that this test fails has a probability below 1e-9. So the choice of what is suspicious is accounted for.
func TestVerdictsAreRightByTheirOwnMeasure(t *testing.T) {
	const verdicts, objects, claim, level = 2000, 400, 0.5, 0.01
	below, least := 0, math.Inf(1)
	for range verdicts {
		ta := newTally(2)
		for i := range objects {
			truth := rand.IntN(2)
			words := make([]string, 3)
			for step := range words {
				words[step] = strconv.Itoa(rand.IntN(2))
			}
			if words[2] = strconv.Itoa(truth); rand.Float64() > shareOf(claim) {
				words[2] = strconv.Itoa(1 - truth)
			}
			ta.add(i, truth, words)
		}
		v := ta.judge(claim)
		if least = min(least, v.chance); v.chance < level {
			below++
		}
	}
	stattest.Share(below, verdicts, 0, level).Holds(t, "verdicts with a chance below %v", level)
	check.That(t, least != 1, "no verdict has a chance below 1: nothing was tested")
}

// TestObjectsForAreEnough repeats an experiment of the size it calls for, with a fault that shows in one word.
func TestObjectsForAreEnough(t *testing.T) {
	const claim, fact = 0.5, 1.0
	n := objectsFor(shareOf(fact), 1-shareOf(fact), claim, 100)
	for range 10 {
		ta := newTally(2)
		for i, truth := range truths(n, 2) {
			word := truth
			if rand.Float64() > shareOf(fact) {
				word = 1 - truth
			}
			ta.add(i, truth, []string{strconv.Itoa(word)})
		}
		if v := ta.judge(claim); !v.guilty() || v.bound > fact {
			t.Errorf("%d objects: %v", n, v)
		}
	}
	for _, fewer := range []int{n / 10, n / 4} { // so few cannot do: by the same formulas, at the mean
		if in := float64(fewer) / 2 * shareOf(fact); stattest.AtLeast(int(in), fewer/2, shareOf(claim)) < alarm/100 {
			t.Errorf("%d objects would do as well as %d", fewer, n)
		}
	}
}

func TestNoticeable(t *testing.T) {
	many, few := noticeable(1_000_000, 0.6, 100), noticeable(10_000, 0.6, 100)
	check.That(t, !(many <= 0) && !(many > 0.05) && !(few < 8*many) && !(few > 12*many),
		"with a million objects %v is noticed, with ten thousand %v: want about a tenth of it", many, few)
}
