package rappor

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

// must returns x, if there is no error.
func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func eps(text string) privacy.Epsilon { return must(privacy.ParseEpsilon(text)) }

func nano(n int64) privacy.Epsilon { return must(privacy.EpsilonFromNano(n)) }

// wantNear reports a number that is not within a relative tolerance of want.
func wantNear(t *testing.T, name string, got, want, tolerance float64) {
	t.Helper()
	check.That(t, math.Abs(got-want) <= tolerance*math.Abs(want), "%s = %.17g, want %.17g", name, got, want)
}

// population is the number of clients with each string.
type population map[string]int

// names returns n strings with a prefix. A different prefix for each survey gives independent
// hashes.
func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = prefix + "/" + strconv.Itoa(i)
	}
	return all
}

// survey counts one report of each client at an ε. It uses ordinary random numbers for speed,
// because only the server is tested. Given the true filters, different bits are independent, and
// each count is a sum of two binomial numbers. faulty may be nil; it changes the filters that
// clients use.
func survey(
	random *rand.Rand, p Params, epsilon privacy.Epsilon, people population,
	faulty func(cohort int, s string) (Params, int),
) *Tally {
	tally := must(p.NewTally(epsilon))
	set := make([]int64, len(tally.ones))
	for _, s := range slices.Sorted(maps.Keys(people)) { // the same survey for the same random numbers
		filters := map[int][]int{}
		for range people[s] {
			cohort := random.IntN(p.Cohorts)
			tally.clients[cohort]++
			positions, ok := filters[cohort]
			if !ok {
				used, at := p, cohort
				if faulty != nil {
					used, at = faulty(cohort, s)
				}
				positions = bitsOf(used, at, s)
				filters[cohort] = positions
			}
			for _, bit := range positions {
				set[cohort*p.Bits+bit]++
			}
		}
	}
	for i := range tally.ones {
		right := stattest.Binomial(random, set[i], 1-tally.noise.q)
		wrong := stattest.Binomial(random, tally.clients[i/p.Bits]-set[i], tally.noise.q)
		tally.ones[i] = right + wrong
	}
	return tally
}

// bitsOf returns the numbers of the bits that a string sets.
func bitsOf(p Params, cohort int, s string) []int {
	filter := must(p.Filter(cohort, s))
	return slices.Collect(filter.Ones())
}
