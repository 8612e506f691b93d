package stattest

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Cells checks each count against its probability with the exact binomial test ([Share]). P is the
// smallest probability of a cell times the number of cells (Bonferroni's bound), so it is for all
// cells together. Cells is best at finding faults in few cells.
func Cells[K comparable](counts map[K]int, law map[K]float64) Verdict {
	n, invalid := total(counts, law)
	if invalid != nil {
		return *invalid
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

// total returns the sum n of the counts. It also returns a verdict, which the caller must return,
// if the law is invalid or nothing was counted (P is NaN), or if an impossible cell was counted (P
// is 0).
func total[K comparable](counts map[K]int, law map[K]float64) (n int, invalid *Verdict) {
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
			invalid = &Verdict{0, fmt.Sprintf("%v was counted %d times, but has probability 0", cell, count)}
		}
	}
	if !(math.Abs(sum-1) <= 1e-9) || n == 0 {
		return 0, &Verdict{math.NaN(), fmt.Sprintf("%d counts, with probabilities whose sum is %v", n, sum)}
	}
	return n, invalid
}

// rare is the expected count from which a cell is a class of its own in [Fit]. All cells with a
// smaller one form a single class.
const rare = 25

// Fit checks counts against a law as a whole, with the likelihood ratio: G = 2·Σ
// count·ln(count/expected). Divided by Williams's correction (1976), G follows χ² with one degree
// of freedom less than there are classes, even far out in the tail, where Pearson's statistic does
// not. It is best at finding small faults in many cells.
func Fit[K comparable](counts map[K]int, law map[K]float64) Verdict {
	return FitEach(map[struct{}]map[K]int{{}: counts}, func(struct{}) map[K]float64 { return law })
}

// FitEach is [Fit] for several independent samples, each with its own number of draws and its own
// law.
func FitEach[S, K comparable](counts map[S]map[K]int, law func(sample S) map[K]float64) Verdict {
	ratio, freedom := 0.0, 0
	for sample, own := range counts {
		expected := law(sample)
		n, invalid := total(own, expected)
		if invalid != nil {
			return *invalid
		}
		r, f := likelihood(own, expected, n)
		ratio, freedom = ratio+r, freedom+f
	}
	v := Verdict{1, fmt.Sprintf("G = %.1f with %d degrees of freedom", ratio, freedom)}
	if freedom > 0 {
		v.P = distuv.ChiSquared{K: float64(freedom)}.Survival(max(0, ratio))
	} else {
		v.P = math.NaN() // a single class cannot be wrong
	}
	return v
}

// likelihood returns the likelihood ratio G of a sample of n draws, divided by Williams's
// correction 1 + (Σ 1/expected − 1/n)/(6·freedom), and its degrees of freedom: the number of
// classes less one. For a single class both are 0.
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

// Uniform returns the law in which all cells have the same probability.
func Uniform[K comparable](cells ...K) map[K]float64 {
	law := make(map[K]float64, len(cells))
	for _, cell := range cells {
		law[cell] += 1 / float64(len(cells))
	}
	return law
}
