package estimate

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
)

// Coverage is computed exactly here, by enumeration of all counts. A count is the sum of two
// binomial numbers, of the objects that have the value and of the others.

// leastCoverage is the least allowed coverage of a nominal 95 %.
const leastCoverage = 0.93

// group is a set of objects at one level.
type group struct {
	counted
	objects, holders int
}

// newGroup returns objects at ε, of which `holders` have value 0.
func newGroup(unary bool, m int, epsilon string, objects, holders int) group {
	counts := ofValues(eps(epsilon), make([]int64, m))
	counts.Unary = unary
	of := must(counts.stratum())
	s := of.(counted)
	s.n = float64(objects)
	return group{s, objects, holders}
}

// counting returns the stratum if `count` of its responses are value 0.
func (g group) counting(count int) stratum {
	g.counts = []int64{int64(count)}
	return g.counted
}

// law returns the probabilities of the counts of value 0.
func (g group) law() []float64 {
	holders, others := binomial(g.holders, g.q+g.gap), binomial(g.objects-g.holders, g.q)
	law := make([]float64, g.objects+1)
	for i, p := range holders {
		if p > 1e-14 {
			for j, q := range others {
				law[i+j] += p * q
			}
		}
	}
	return law
}

// binomial returns the probabilities of 0 to n.
func binomial(n int, p float64) []float64 {
	law := make([]float64, n+1)
	all, _ := math.Lgamma(float64(n) + 1)
	for k := range law {
		some, _ := math.Lgamma(float64(k) + 1)
		rest, _ := math.Lgamma(float64(n-k) + 1)
		log := all - some - rest
		if k > 0 {
			log += float64(k) * math.Log(p)
		}
		if k < n {
			log += float64(n-k) * math.Log1p(-p)
		}
		law[k] = math.Exp(log)
	}
	return law
}

// intervals returns the interval for each count of a single level.
func (g group) intervals(o Options) []Frequency {
	all := make([]Frequency, g.objects+1)
	for count := range all {
		all[count] = combine([]stratum{g.counting(count)}, o)[0]
	}
	return all
}

func holds(e Frequency, share float64) bool { return e.Low <= share && share <= e.High }

// covered returns the probability that the interval holds the share.
func covered(law []float64, intervals []Frequency, share float64) float64 {
	sum := 0.0
	for count, p := range law {
		if holds(intervals[count], share) {
			sum += p
		}
	}
	return sum
}

// someOf returns about `most` of the numbers from 0 to n, with both ends and their neighbours.
func someOf(n, most int) (some []int) {
	for i := 0; i <= n; i++ {
		if n < most || i < 4 || i > n-4 || i%(n/most+1) == 0 {
			some = append(some, i)
		}
	}
	return some
}

// TestScoreInterval_ExactCoverage_IsAtLeast93Percent enumerates all counts, for
// randomized response and for unary encoding: in a fixed population with every number of objects
// that have the value, and in samples of a larger one.
func TestScoreInterval_ExactCoverage_IsAtLeast93Percent(t *testing.T) {
	sizes := []int{1, 2, 5, 12, 30, 100, 1000}
	if !testenv.Deep() {
		sizes = sizes[:len(sizes)-1]
	}
	for _, unary := range []bool{false, true} {
		for _, m := range []int{2, 3, 10, 50} {
			for _, epsilon := range []string{"0.25", "0.5", "1", "1.5", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"} {
				for _, n := range sizes {
					g := newGroup(unary, m, epsilon, n, 0)
					panel, sample := g.intervals(Options{Confidence: 0.95}), g.intervals(Options{Confidence: 0.95, Population: true})
					for _, g.holders = range someOf(n, testenv.Tries(100, 1000, 1000)) {
						name := fmt.Sprintf("unary=%v m=%d ε=%s n=%d, %d have the value", unary, m, epsilon, n, g.holders)
						share := float64(g.holders) / float64(n)
						wantCovered(t, name, covered(g.law(), panel, share))
						if unary || share == 0 || share == 1 {
							continue
						}
						wantCovered(t, "sample, "+name, covered(binomial(n, g.q+g.gap*share), sample, share))
					}
				}
			}
		}
	}
}

func wantCovered(t *testing.T, name string, got float64) {
	t.Helper()
	check.That(t, got >= leastCoverage, "%s: a 95 %% interval covers in %.4f of all cases", name, got)
}

// The same for two levels, for any numbers of objects with the value at each level.
func TestScoreInterval_SeveralLevels_CoverAtLeast93Percent(t *testing.T) {
	sizes := [][2]int{{30, 30}, {5, 60}, {60, 5}}
	if testenv.Deep() {
		sizes = append(sizes, [2]int{100, 100}, [2]int{300, 30}, [2]int{30, 300})
	}
	for _, m := range []int{2, 3, 10, 50} {
		for _, epsilons := range [][2]string{{"0.25", "12"}, {"0.5", "3"}, {"1", "1.5"}, {"1", "6"}, {"2", "4"}, {"3", "8"}, {"5", "12"}, {"8", "10"}} {
			for _, n := range sizes {
				low, high := newGroup(false, m, epsilons[0], n[0], 0), newGroup(false, m, epsilons[1], n[1], 0)
				for _, o := range []Options{{Confidence: 0.95}} {
					var intervals [][]Frequency
					for count := range n[0] + 1 {
						var row []Frequency
						for other := range n[1] + 1 {
							row = append(row, combine([]stratum{low.counting(count), high.counting(other)}, o)[0])
						}
						intervals = append(intervals, row)
					}
					for _, low.holders = range someOf(n[0], 5) {
						law := low.law()
						for _, high.holders = range someOf(n[1], 5) {
							share, sum := float64(low.holders+high.holders)/float64(n[0]+n[1]), 0.0
							other := high.law()
							for count, p := range law {
								if p > 1e-9 {
									sum += p * covered(other, intervals[count], share)
								}
							}
							wantCovered(t, fmt.Sprintf("m=%d: %d of %d at ε=%s and %d of %d at %s have the value", m, low.holders, n[0], epsilons[0], high.holders, n[1], epsilons[1]), sum)
						}
					}
				}
			}
		}
	}
}

// intervalCoverage counts how often intervals contain the true share, and how often shorter ones
// would.
type intervalCoverage struct {
	Short float64 // the share of the width by which the shorter intervals are shorter

	n, held, heldShort int
}

// Add counts an interval of half-width `half` around an estimate with the error `off`.
func (c *intervalCoverage) Add(off, half float64) {
	c.n++
	if math.Abs(off) <= half {
		c.held++
	}
	if math.Abs(off) <= (1-c.Short)*half {
		c.heldShort++
	}
}

// Held tests that the intervals contain the true share with a probability from low to high.
func (c *intervalCoverage) Held(low, high float64) stattest.Verdict {
	return stattest.Share(c.held, c.n, low, high)
}

// HeldShort is Held for the shorter intervals.
func (c *intervalCoverage) HeldShort(low, high float64) stattest.Verdict {
	return stattest.Share(c.heldShort, c.n, low, high)
}
