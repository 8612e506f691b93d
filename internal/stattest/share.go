package stattest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"
)

// Share checks the count of n independent trials, each counted with a probability between low and
// high. It is the exact binomial test: P is the probability of a count that is as far off at the
// nearest allowed probability, times 2 for the two sides. With low = 0 or high = 1 it is one-sided.
func Share(count, n int, low, high float64) Verdict {
	seen := fmt.Sprintf("%d of %d, expected %.6g", count, n, low*float64(n))
	if low < high {
		seen += fmt.Sprintf(" to %.6g", high*float64(n))
	}
	if !(0 <= low && low <= high && high <= 1) || n <= 0 {
		return Verdict{math.NaN(), seen}
	}
	sides := 0.0
	if low > 0 {
		sides++
	}
	if high < 1 {
		sides++
	}
	few := AtLeast(n-count, n, 1-low) // the probability of at most count
	many := AtLeast(count, n, high)
	return Verdict{min(1, max(1, sides)*min(few, many)), seen}
}

// AtLeast returns the probability that at least k of n independent trials are counted, if each is
// counted with probability p.
func AtLeast(k, n int, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n || p <= 0:
		return 0
	case p >= 1:
		return 1
	case float64(k) <= p*float64(n): // k is at most the mean: the probability of fewer than k is smaller
		return 1 - AtLeast(n-k+1, n, 1-p)
	}
	// The terms are the probabilities of k, k+1, …, divided by that of k.
	term, sum, odds := 1.0, 0.0, p/(1-p)
	for i := k; i <= n && term > 1e-18*sum; i++ {
		sum += term
		term *= float64(n-i) / float64(i+1) * odds
	}
	return math.Exp(logChoose(n, k)+float64(k)*math.Log(p)+float64(n-k)*math.Log1p(-p)) * sum
}

// logChoose returns the logarithm of the binomial coefficient n over k.
func logChoose(n, k int) float64 {
	lf := func(n int) float64 { l, _ := math.Lgamma(float64(n) + 1); return l }
	return lf(n) - lf(k) - lf(n-k)
}

// Binomial draws the number of n trials that are counted, each with probability p.
func Binomial(random rand.Source, n int64, p float64) int64 {
	if n == 0 {
		return 0
	}
	return int64(distuv.Binomial{N: float64(n), P: p, Src: random}.Rand())
}
