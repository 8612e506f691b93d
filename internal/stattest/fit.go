package stattest

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Cells checks each count against its probability, by the exact binomial test. P is for all of them
// together. It finds best what is off in a few cells.
func Cells[K comparable](counts map[K]int, law map[K]float64) Verdict {
	n, broken := total(counts, law)
	if broken != nil {
		return *broken
	}
	worst := Verdict{P: 1, Seen: fmt.Sprintf("%d in %d cells", n, len(law))}
	for cell, p := range law {
		if v := Share(counts[cell], n, p, p); v.P < worst.P {
			worst = Verdict{v.P, fmt.Sprintf("%v: %s", cell, v.Seen)}
		}
	}
	worst.P = min(1, worst.P*float64(len(law)))
	return worst
}

// total is how often anything was counted. If a law is none, or something came that never does, it
// returns the verdict.
func total[K comparable](counts map[K]int, law map[K]float64) (n int, broken *Verdict) {
	sum := 0.0
	for _, p := range law {
		if !(p >= 0) {
			return 0, &Verdict{math.NaN(), fmt.Sprintf("a probability of %v", p)}
		}
		sum += p
	}
	for cell, count := range counts {
		n += count
		if count > 0 && law[cell] == 0 {
			broken = &Verdict{0, fmt.Sprintf("%v came %d times, and is impossible", cell, count)}
		}
	}
	if !(math.Abs(sum-1) <= 1e-9) || n == 0 {
		return 0, &Verdict{math.NaN(), fmt.Sprintf("%d in all, by probabilities whose sum is %v", n, sum)}
	}
	return n, broken
}

// rare is how often a cell must be expected at least to be a class of its own; all others are one
// class together.
const rare = 25

// Fit checks counts against a law as a whole, by the likelihood ratio: G = 2·Σ
// count·ln(count/expected). Divided by Williams's correction (1976) it is χ² with one degree of
// freedom less than there are classes, and that far out in the tail, where Pearson's statistic is
// not. It finds best what is a little off in many cells.
func Fit[K comparable](counts map[K]int, law map[K]float64) Verdict {
	return FitEach(map[struct{}]map[K]int{{}: counts}, func(struct{}) map[K]float64 { return law })
}

// FitEach is [Fit] for several independent samples, each with its own number of draws and its own
// law.
func FitEach[S, K comparable](counts map[S]map[K]int, law func(sample S) map[K]float64) Verdict {
	ratio, freedom := 0.0, 0
	for sample, own := range counts {
		expected := law(sample)
		n, broken := total(own, expected)
		if broken != nil {
			return *broken
		}
		r, f := likelihood(own, expected, n)
		ratio, freedom = ratio+r, freedom+f
	}
	v := Verdict{1, fmt.Sprintf("G = %.1f with %d degrees of freedom", ratio, freedom)}
	if freedom > 0 {
		v.P = distuv.ChiSquared{K: float64(freedom)}.Survival(max(0, ratio))
	} else {
		v.P = math.NaN() // nothing that could be off
	}
	return v
}

// likelihood returns the corrected ratio of likelihoods, and its degrees of freedom.
func likelihood[K comparable](counts map[K]int, law map[K]float64, n int) (ratio float64, freedom int) {
	inverse, rareCount, rareExpected := 0.0, 0, 0.0
	add := func(count int, expected float64) {
		freedom++
		inverse += 1 / expected
		if count > 0 {
			ratio += 2 * float64(count) * math.Log(float64(count)/expected)
		}
	}
	for cell, p := range law {
		if expected := p * float64(n); expected < rare {
			rareCount, rareExpected = rareCount+counts[cell], rareExpected+expected
		} else {
			add(counts[cell], expected)
		}
	}
	if rareExpected > 0 {
		add(rareCount, rareExpected)
	}
	if freedom--; freedom == 0 {
		return 0, 0
	}
	return ratio / (1 + (inverse-1/float64(n))/(6*float64(freedom))), freedom
}

// Uniform is the law of cells that are all as likely.
func Uniform[K comparable](cells ...K) map[K]float64 {
	law := make(map[K]float64, len(cells))
	for _, cell := range cells {
		law[cell] += 1 / float64(len(cells))
	}
	return law
}
